//! A listing: the comments of a product that a filter matches, in an order, page by page.

use model::{
    Filter, ListingOrder, PageNumber, PageSize, ProductId, Rating, RatingSet, StablePages,
};
use page_index::CommentPosition;

/// A listing: its comments, their order and the page size.
#[derive(Debug, Clone)]
pub(crate) struct ListingQuery {
    pub(crate) product: ProductId,
    pub(crate) filter: Filter,
    pub(crate) order: ListingOrder,
    pub(crate) page_size: PageSize,
}

impl ListingQuery {
    /// The listing of each rating, in the order of this one, which is by rating.
    pub(crate) fn by_rating(&self) -> Vec<Self> {
        let ratings = self.filter.ratings().unwrap_or(RatingSet::ALL);
        let mut listings: Vec<Self> = ratings
            .iter()
            .map(|rating| self.of_rating(rating))
            .collect();
        if self.order == ListingOrder::Highest {
            listings.reverse();
        }
        listings
    }

    /// The comments of this rating alone, newest first.
    fn of_rating(&self, rating: Rating) -> Self {
        let language = self.filter.language().cloned();
        Self {
            filter: Filter::new(language, RatingSet::of([rating])),
            order: ListingOrder::Newest,
            ..self.clone()
        }
    }

    /// The number of the page that holds the comment at this position. `None` for the front page of
    /// stable numbering.
    pub(crate) fn number_of(
        &self,
        is_stable: bool,
        position: CommentPosition,
    ) -> Option<PageNumber> {
        if is_stable {
            return StablePages::new(position.settled, self.page_size).of_rank(position.older);
        }
        let rank = self.number_in_listing(position) - 1;
        Some(PageNumber::of_rank(rank, self.page_size))
    }

    /// The number of the comment at this position, counted from 1 at the beginning of the listing.
    pub(crate) fn number_in_listing(&self, position: CommentPosition) -> u64 {
        let CommentPosition { older, total, .. } = position;
        match self.order {
            ListingOrder::Oldest => older + 1,
            ListingOrder::Newest | ListingOrder::Highest | ListingOrder::Lowest => {
                total.saturating_sub(older).max(1)
            }
        }
    }
}
