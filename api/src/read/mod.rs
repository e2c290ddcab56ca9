//! Reading pages of comments and of products.
//!
//! - `page`: a page by number or by cursor: filter → ranks of the page → one query of the table.
//! - `page_position`: a page among those of its listing, and its neighbours.
//! - `contrast`: the most recent positive comment and the most recent critical one.
//! - `dates`: the page for a month or a day.
//! - `products`: the walk over all products, for their list and the sitemap.
//! - `cursor`: the sealed positions that lead from page to page.

pub(crate) mod contrast;
pub(crate) mod cursor;
pub(crate) mod dates;
pub(crate) mod page;
pub(crate) mod page_position;
pub(crate) mod products;

use model::{Filter, Order, PageNumber, PageSize, ProductId, StablePages};
use page_index::CommentPosition;

/// A listing: its comments, their order and the page size.
#[derive(Debug, Clone)]
pub(crate) struct ListingQuery {
    pub(crate) product: ProductId,
    pub(crate) filter: Filter,
    pub(crate) order: Order,
    pub(crate) page_size: PageSize,
}

impl ListingQuery {
    /// The number of the page that holds the comment at this position. `None` for the front page of
    /// stable numbering.
    pub(crate) fn number_of(
        &self,
        is_stable: bool,
        position: CommentPosition,
    ) -> Option<PageNumber> {
        let CommentPosition {
            older,
            total,
            settled,
        } = position;
        match (is_stable, self.order) {
            (true, _) => StablePages::new(settled, self.page_size).of_rank(older),
            (false, Order::Newest) => Some(PageNumber::of_rank(
                total.saturating_sub(1 + older),
                self.page_size,
            )),
            (false, Order::Oldest) => Some(PageNumber::of_rank(older, self.page_size)),
        }
    }
}
