//! The commands of the job, each as one run.

pub(crate) mod audit;
pub(crate) mod audit_plan;
pub(crate) mod check;
pub(crate) mod erase;
pub(crate) mod quarantine;
pub(crate) mod rebuild;
pub(crate) mod recent;
pub(crate) mod status;
