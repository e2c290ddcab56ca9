//! Earlier questions to the page index, in terms of ranks.

use model::{Cd, Comment, Filter, Language, Order, ProductId, RatingCounts, Timestamp};
use page_index::{PositionQuery, Ranked, RankedQuery, Stats, StatsWanted};

use super::StoreClients;
use crate::ops::metrics::StoreCall;

/// A request for a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageStartQuery<'query> {
    pub(crate) product: &'query ProductId,
    pub(crate) filter: &'query Filter,
    /// Number of comments before the page.
    pub(crate) skip: u64,
    pub(crate) order: Order,
    /// Comments dated later do not count.
    pub(crate) as_of: Option<Timestamp>,
}

impl<'query> PageStartQuery<'query> {
    /// A question about the comments after the first `skip` ones.
    fn ranks(&self, skip: u64, count: u16) -> RankedQuery<'query> {
        let Self { product, filter, order, as_of, .. } = *self;
        RankedQuery { order, skip, count, as_of, ..RankedQuery::new(product, filter) }
    }
}

/// Where a page starts.
#[derive(Debug, Clone)]
pub(crate) struct PageStart {
    pub(crate) total: u64,
    /// The comment just before the page, `None` when the page starts at the beginning (or lies past the end).
    pub(crate) before: Option<Cd>,
    /// See [`Ranked::reached`].
    pub(crate) reached: Timestamp,
}

/// The comments of a filter that the page index has ranked.
#[derive(Debug)]
pub(crate) struct Extent {
    pub(crate) total: u64,
    pub(crate) ends: Option<Ends>,
}

/// The newest and the oldest of some comments.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) newest: Cd,
    pub(crate) oldest: Cd,
}

/// Where a comment stands.
#[derive(Debug)]
pub(crate) struct Position {
    /// Number of comments that the filter matches, including this one.
    pub(crate) total: u64,
    /// Number of them that precede it.
    pub(crate) rank: u64,
}

/// How many comments a product has in one language, or in any.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) by_rating: RatingCounts,
    pub(crate) last_commented_at: Option<Timestamp>,
}

impl StoreClients {
    /// Where a page starts; `None` when the page index is unavailable. The reason does not matter here, because a page
    /// that can do without the index is the same for all reasons.
    pub(crate) async fn page_start(&self, query: &PageStartQuery<'_>) -> Option<PageStart> {
        let ranks = query.ranks(query.skip.saturating_sub(1), u16::from(query.skip > 0));
        let Ranked { comments, total, reached, .. } = self.ranked(StoreCall::PageStart, &[ranks]).await?.pop()?;
        let before = comments.into_iter().next().filter(|_| query.skip < total);
        Some(PageStart { total, before, reached })
    }

    /// The first `count` comments that the ranks promise for a page; `None` when the page index is unavailable.
    pub(crate) async fn promised(&self, query: &PageStartQuery<'_>, count: u64) -> Option<Vec<Cd>> {
        let ranks = query.ranks(query.skip, u16::try_from(count).unwrap_or(RankedQuery::COUNT_MAX));
        Some(self.ranked(StoreCall::PageStart, &[ranks]).await?.pop()?.comments)
    }

    /// The newest and oldest ranked comment, and their number; `None` when the page index is unavailable.
    pub(crate) async fn extent(&self, query: &PageStartQuery<'_>) -> Option<Extent> {
        let ends = [Order::Newest, Order::Oldest].map(|order| RankedQuery { order, ..query.ranks(0, 1) });
        let ends = self.ranked(StoreCall::PageStart, &ends).await?;
        let total = ends.iter().map(|end| end.total).max()?;
        let ends: Vec<Cd> = ends.into_iter().flat_map(|end| end.comments).collect();
        let ends = ends.try_into().ok().map(|[newest, oldest]: [Cd; 2]| Ends { newest, oldest });
        Some(Extent { total, ends })
    }

    pub(crate) async fn position(&self, comment: &Comment, filter: &Filter, order: Order) -> Option<Position> {
        let (product, cd) = (&comment.product, comment.cd());
        let query = PositionQuery { product, filter, cd: &cd, settled_at: None };
        let page_index::Position { older, total, .. } = self.place(&query).await?;
        let rank = match order {
            Order::Newest => total.saturating_sub(1 + older),
            Order::Oldest => older,
        };
        Some(Position { total, rank })
    }

    /// The number of a product's comments beside a filter; `None` when the page index is unavailable.
    pub(crate) async fn stats(&self, product: &ProductId, filter: &Filter) -> Option<Stats> {
        let query = RankedQuery { stats: StatsWanted::WithLanguages, ..RankedQuery::new(product, filter) };
        self.ranked(StoreCall::Stats, &[query]).await?.pop()?.stats
    }

    /// The number of comments of each of some products; `None` when the page index is unavailable for one of them.
    pub(crate) async fn summaries(&self, products: &[ProductId], language: Option<&Language>) -> Option<Vec<Summary>> {
        let filter = Filter::new(language.cloned(), None);
        let query = |product| RankedQuery { stats: StatsWanted::ByRating, ..RankedQuery::new(product, &filter) };
        let counted = self.ranked(StoreCall::Stats, &products.iter().map(query).collect::<Vec<_>>()).await?;
        let summary = |counted: Ranked| {
            let Stats { by_rating, last_commented_at, .. } = counted.stats?;
            Some(Summary { by_rating, last_commented_at })
        };
        counted.into_iter().map(summary).collect()
    }
}
