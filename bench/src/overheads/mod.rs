//! The overheads of our own code: each part beside the bare calls that its work needs at least.

pub(crate) mod api;
pub(crate) mod fan_out;
pub(crate) mod index;
pub(crate) mod repair;
pub(crate) mod server_time;
