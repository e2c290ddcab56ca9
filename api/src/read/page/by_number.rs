//! Pages with numbers, in the order of their listing.
//!
//! Page 1 of the newest comments, and every page 1 that the ranks do not fill, shows the table's comments without a rank
//! too. Other pages leave them out: a comment that is not counted would be on two pages.

use model::{Order, PageNumber, Timestamp};
use page_index::Ranked;

use super::{
    ListingPage, Plan,
    join::{Joined, Ranks},
    just_after,
};
use crate::{
    error::ApiError,
    read::{
        ListingQuery,
        cursor::{Cursor, Direction},
    },
    store::StoreClients,
};

#[derive(Debug, Clone, Copy)]
pub(super) struct NumberedPage<'query> {
    pub(super) query: &'query ListingQuery,
    pub(super) number: PageNumber,
    /// Comments dated later do not count.
    pub(super) as_of: Option<Timestamp>,
}

impl NumberedPage<'_> {
    pub(super) async fn read(&self, stores: &StoreClients, ranked: &Ranked) -> Result<ListingPage, ApiError> {
        match self.plan(ranked) {
            Ok(plan) => Ok(self.cut(ranked, plan.read(stores, self.query).await?)),
            Err(error) => Err(self.query.past_the_end(stores, self.as_of, ranked.total, error).await),
        }
    }

    fn is_first(&self) -> bool {
        self.number == PageNumber::FIRST
    }

    /// # Errors
    /// [`ApiError::PastTheEnd`].
    pub(super) fn plan<'page>(&self, ranked: &'page Ranked) -> Result<Plan<'page>, ApiError> {
        let Self { query, number, as_of } = *self;
        let (order, max) = (query.order, usize::from(query.page_size.get()));
        let (page, total_pages) = (number.get(), query.page_size.total_pages(ranked.total));
        if page > total_pages {
            return Err(ApiError::PastTheEnd { page, total_pages });
        }
        let comments = &ranked.comments;
        let is_open = self.is_first() && comments.len() < max;
        let start = match (comments.first(), order) {
            _ if self.is_first() => as_of.filter(|_| order == Order::Newest).and_then(just_after),
            (None, _) => return Err(ApiError::NotYetListed),
            (Some(first), Order::Newest) => first.just_after(),
            (Some(first), Order::Oldest) => first.just_before(),
        };
        let end = comments.last().filter(|_| !is_open);
        let shows_unranked = self.is_first() && (order == Order::Newest || is_open);
        Ok(Plan { ranks: Ranks { order, comments, end, as_of, max, shows_unranked }, start })
    }

    pub(super) fn cut(&self, ranked: &Ranked, joined: Joined) -> ListingPage {
        let shown = joined.comments.len() as u64;
        let shown_up_to = self.number.skip(self.query.page_size).saturating_add(shown);
        // The page index may be a moment behind, but the shown comments exist.
        let total = if shown == 0 { ranked.total } else { ranked.total.max(shown_up_to) };
        let numbers_follow = self.number.get() < self.query.page_size.total_pages(total);
        let leads_on = joined.is_cut || joined.is_followed || numbers_follow;
        let next = joined.last.filter(|_| leads_on).map(|at| Cursor { direction: Direction::Forward, at });
        let prev = joined.first.filter(|_| !self.is_first());
        let prev = prev.map(|at| Cursor { direction: Direction::Backward, at });
        // The comments that the page shows count too, although the index may be behind, so that the next page continues
        // after them (ADR 33).
        let newest = joined.comments.iter().map(|comment| comment.created_at).max();
        let reached = newest.map_or(ranked.reached, |shown| ranked.reached.max(shown.min(process::now())));
        ListingPage {
            total: Some(total),
            settled: Some(ranked.settled),
            next,
            prev,
            as_of: self.as_of.or(Some(reached)),
            has_empty_places: joined.has_empty_places,
            ..ListingPage::of(joined.comments)
        }
    }
}
