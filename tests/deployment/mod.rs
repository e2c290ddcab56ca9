//! The deployment to AWS: the template, the programs in their packages, and what operators see.

mod cluster;
mod deployed;
mod log;
mod packaged;
mod smoke;
mod telemetry;
mod template;
