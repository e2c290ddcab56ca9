//! A listing: the comments of a product that a filter matches, in an order, page by page.

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
