//! Reading pages of comments.
//!
//! - `page`: a page by number or by cursor: filter → plan → page index → one query of the table. `page::stable` has the
//!   pages of stable numbering.
//! - `known`: whether a product is known.
//! - `cursor`: the sealed positions that lead from page to page.

pub(crate) mod cursor;
pub(crate) mod known;
pub(crate) mod page;

use model::{Filter, Order, PageSize, ProductId};

/// A listing: its comments, their order and the page size.
#[derive(Debug, Clone)]
pub(crate) struct ListingQuery {
    pub(crate) product: ProductId,
    pub(crate) filter: Filter,
    pub(crate) order: Order,
    pub(crate) page_size: PageSize,
}
