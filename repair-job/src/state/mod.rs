//! What runs store: how far the page index may be believed, and how far each command has come.

pub(crate) mod checkpoint;
pub(crate) mod confirm;
pub(crate) mod confirm_plan;
pub(crate) mod filling;
#[cfg(test)]
mod protocol_model;
pub(crate) mod rebuild_plan;
