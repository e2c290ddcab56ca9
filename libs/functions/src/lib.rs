//! What the Lambda functions share: settings, invocation, metrics and the quarantine.

mod args;
pub mod invocation;
pub mod metrics;
#[cfg(test)]
mod outside_text;
pub mod quarantine;

pub use args::{MetricsArgs, QuarantineArgs};
pub use quarantine::Quarantine;
