//! What writers are promised: which changes are taken, what they are guarded by, and what they
//! leave.

mod attributes;
mod input;
mod moderation;
mod payloads;
mod preconditions;
mod records;
mod writes;
