//! Reading pages of comments.

pub(crate) mod cursor;
pub(crate) mod page;
