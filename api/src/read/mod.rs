//! Reading pages of comments and of products.
//!
//! - `page`: a page by number or by cursor: filter → plan → page index → one query of the table. `page::stable` has the
//!   pages of stable numbering.
//! - `contrast`: the most recent positive comment and the most recent critical one.
//! - `dates`: the page for a month or a day.
//! - `known`: whether a product is known.
//! - `products`: the walk over all products, for their list and the sitemap.
//! - `cursor`: the sealed positions that lead from page to page.

pub(crate) mod contrast;
pub(crate) mod cursor;
pub(crate) mod dates;
pub(crate) mod known;
pub(crate) mod page;
pub(crate) mod products;

use model::{Filter, Order, PageNumber, PageSize, ProductId, StablePage, StablePages};

/// A listing: its comments, their order and the page size.
#[derive(Debug, Clone)]
pub(crate) struct ListingQuery {
    pub(crate) product: ProductId,
    pub(crate) filter: Filter,
    pub(crate) order: Order,
    pub(crate) page_size: PageSize,
}

impl ListingQuery {
    /// The number of the page that holds the comment of this rank, counted from 0 for the oldest of `total` comments.
    /// `None` for the front page of stable numbering.
    pub(crate) fn number_of_rank(&self, is_stable: bool, total: u64, rank: u64) -> Option<PageNumber> {
        let newest_first = || total.saturating_sub(1).saturating_sub(rank);
        match (is_stable, self.order) {
            (true, _) => match StablePages::new(total, self.page_size).of_rank(rank) {
                StablePage::Front => None,
                StablePage::Archive(number) => Some(number),
            },
            (false, Order::Newest) => Some(PageNumber::of_rank(newest_first(), self.page_size)),
            (false, Order::Oldest) => Some(PageNumber::of_rank(rank, self.page_size)),
        }
    }
}
