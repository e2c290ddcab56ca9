//! What the Lambda functions share: settings, invocation, metrics and the quarantine.

mod args;
pub mod invocation;
pub mod metrics;
pub mod quarantine;
#[cfg(test)]
mod tests;

pub use args::{MetricsArgs, QuarantineArgs};
pub use quarantine::Quarantine;
