//! What runs find and store: the page index as it was found, how far it may be believed, and how
//! far each command has come.

pub(crate) mod checkpoint;
pub(crate) mod confirm;
pub(crate) mod confirm_plan;
pub(crate) mod filling;
pub(crate) mod index_snapshot;
pub(crate) mod unresolved;
