//! Reading pages of comments.
//!
//! - `page`: a page by number or by cursor: filter → plan → page index → one query of the table.
//! - `cursor`: the sealed positions that lead from page to page.

pub(crate) mod cursor;
pub(crate) mod page;
