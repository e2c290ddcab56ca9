//! One page of comments, by number or by cursor: filter → ranks of the page → one query of the table.
//!
//! | page index | page 1, the front page and cursors | other pages |
//! | --- | --- | --- |
//! | ready | with totals | with totals; past the end is [`ApiError::PastTheEnd`] |
//! | not ready, or out of reach | without totals | [`ApiError::IndexUnavailable`] |
//!
//! - `by_table`: pages that the table alone makes.
//! - `by_number`, `stable`: pages that the ranks make. `join` fills them in. `beyond` looks past the end.
//!
//! **A numbered page is what its ranks say**: one call of the page index names its comments, and one query reads their
//! rows. What the table lacks is read from the primary items. So ids, order and totals are those of the page index, even
//! while no duplicate is written. A page with an empty place must not be cached.
//!
//! **Totals and page numbers are those of the page index**, which trails the table. `total` is the count of the index,
//! or the end of the shown page where that is greater. A page has a number when that total reaches it. Where the
//! numbers end and the table has more, a program continues by cursor, and a person continues to the page with the next
//! number.
//!
//! **Invariant:** a page is past the end only when the table has nothing beyond the ranks: no comment newer than the
//! newest ranked one, and none older than the oldest. Otherwise comments are still to be ranked, and the answer is
//! [`ApiError::NotYetListed`] (ADR 8).
//!
//! **Invariant:** only a ready index gives an empty page 1. Without it, the table's own index may be behind
//! (`only_a_ready_index_gives_an_empty_page`).

mod beyond;
mod by_number;
mod by_table;
mod join;
mod stable;

use model::{Cd, Comment, CommentId, FilterKey, Order, PageNumber, Timestamp};
use page_index::{Ranked, RankedQuery, Stats, StatsWanted};
use table::PageQuery;

use super::{ListingQuery, cursor::Cursor};
use crate::{error::ApiError, ops::metrics::{DriftSign, StoreCall}, store::StoreClients};
use by_number::NumberedPage;
use by_table::{CursorPage, FirstPage};
use join::{Join, Joined, Ranks};
use stable::{ArchivePage, FrontPage};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListingPage {
    pub(crate) comments: Vec<Comment>,
    /// The number of comments that match the filter: the count of the page index, but at least the number shown. `None`
    /// when the page index is unavailable.
    pub(crate) total: Option<u64>,
    /// The number of those that archive pages are made of. `None` when the page index is unavailable.
    pub(crate) settled: Option<u64>,
    pub(crate) next: Option<Cursor>,
    pub(crate) prev: Option<Cursor>,
    /// The instant that page numbers refer to: comments dated later are not counted. `None` for a cursor, and when the
    /// page index is unavailable and the request names no instant.
    pub(crate) as_of: Option<Timestamp>,
    /// Whether no page number leads to the comments after the page: only `next` does.
    pub(crate) continues_by_cursor: bool,
    /// Whether a comment could not be shown that the ranks promise. No cache may keep the page.
    pub(crate) has_empty_places: bool,
}

impl ListingPage {
    fn of(comments: Vec<Comment>) -> Self {
        Self {
            comments,
            total: None,
            settled: None,
            next: None,
            prev: None,
            as_of: None,
            continues_by_cursor: false,
            has_empty_places: false,
        }
    }
}

impl ListingQuery {
    /// A query to the table for a page: one comment more than the page shows.
    fn whole_page(&self, order: Order, start: Option<Cd>) -> PageQuery {
        self.page_query(order, u16::from(self.page_size.get()) + 1, start)
    }

    fn page_query(&self, order: Order, limit: u16, start: Option<Cd>) -> PageQuery {
        let key = FilterKey { product: self.product.clone(), filter: self.filter.clone() };
        PageQuery { key, order, limit, start }
    }

    /// A question to the page index about the listing, for totals alone.
    pub(super) fn ranked_query(&self) -> RankedQuery<'_> {
        RankedQuery { order: self.order, ..RankedQuery::new(&self.product, &self.filter) }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum PageAt {
    /// In the listing's order. Comments dated after the instant do not count.
    Number(PageNumber, Option<Timestamp>),
    /// In stable numbering (`model::StablePages`). The listing's order is newest first.
    Archive(PageNumber),
    Front,
    Cursor(Cursor),
}

impl PageAt {
    pub(crate) fn stable(number: Option<PageNumber>) -> Self {
        number.map_or(Self::Front, Self::Archive)
    }
}

/// A page that a request asks for.
#[derive(Debug, Clone)]
pub(crate) struct PageRequest<'query> {
    pub(crate) query: &'query ListingQuery,
    pub(crate) at: PageAt,
}

impl PageRequest<'_> {
    pub(crate) fn comments_max(&self) -> u16 {
        match self.at {
            PageAt::Front => stable::front_max(self.query.page_size),
            PageAt::Number(..) | PageAt::Archive(_) | PageAt::Cursor(_) => self.query.page_size.get().into(),
        }
    }

    fn ranked_query(&self, settled_at: Timestamp) -> RankedQuery<'_> {
        let (size, all) = (self.query.page_size, self.query.ranked_query());
        match self.at {
            PageAt::Number(number, as_of) => {
                RankedQuery { skip: number.skip(size), count: size.get().into(), as_of, ..all }
            }
            PageAt::Archive(number) => RankedQuery {
                order: Order::Oldest,
                skip: number.skip(size),
                count: size.get().into(),
                as_of: Some(settled_at),
                settled_at: Some(settled_at),
                ..all
            },
            // The newest archived comment too: it is where the page ends.
            PageAt::Front => {
                RankedQuery { count: stable::front_max(size) + 1, settled_at: Some(settled_at), ..all }
            }
            PageAt::Cursor(_) => all,
        }
    }

    /// Reads the page, and what the page index counts besides. No page when the number of an archive page leads to the
    /// front page, because too few comments are newer.
    ///
    /// The errors: past the end; the page index is needed and unavailable, or behind; the table's.
    pub(crate) async fn read(
        &self,
        stores: &StoreClients,
        stats: StatsWanted,
    ) -> (Result<Option<ListingPage>, ApiError>, Option<Stats>) {
        let asked = [RankedQuery { stats, ..self.ranked_query(stores.settled_at()) }];
        let ranked = async { stores.ranked(StoreCall::Ranks, &asked).await.and_then(|mut ranked| ranked.pop()) };
        let (listing, ranked) = if let PageAt::Cursor(cursor) = &self.at {
            let page = CursorPage { query: self.query, cursor };
            let plan = page.plan();
            let (ranked, rows) = tokio::join!(ranked, stores.page(&plan));
            let listing = rows.map_err(ApiError::from).and_then(|rows| page.cut(rows));
            let total = ranked.as_ref().map(|ranked| ranked.total);
            (listing.map(|listing| Some(ListingPage { total, ..listing })), ranked)
        } else {
            let ranked = ranked.await;
            (self.read_with(stores, ranked.as_ref()).await, ranked)
        };
        (listing, ranked.and_then(|ranked| ranked.stats))
    }

    /// Reads a page that no cursor leads to.
    async fn read_with(&self, stores: &StoreClients, ranked: Option<&Ranked>) -> Result<Option<ListingPage>, ApiError> {
        let query = self.query;
        match (&self.at, ranked) {
            (PageAt::Number(number, as_of), Some(ranked)) => {
                let page = NumberedPage { query, number: *number, as_of: *as_of };
                page.read(stores, ranked).await.map(Some)
            }
            (PageAt::Archive(number), Some(ranked)) => ArchivePage { query, number: *number }.read(stores, ranked).await,
            (PageAt::Front, Some(ranked)) => FrontPage { query }.read(stores, ranked).await.map(Some),
            (PageAt::Number(PageNumber::FIRST, as_of), None) => {
                let page = FirstPage { query, as_of: *as_of };
                page.cut(stores.page(&page.plan()).await?).map(Some)
            }
            (PageAt::Front, None) => {
                let page = FirstPage { query, as_of: None };
                page.cut(stores.page(&page.plan()).await?).map(Some)
            }
            (PageAt::Number(..) | PageAt::Archive(_) | PageAt::Cursor(_), _) => Err(ApiError::IndexUnavailable),
        }
    }
}

/// How a page with ranks is read.
#[derive(Debug)]
struct Plan<'page> {
    ranks: Ranks<'page>,
    /// The place before the first row; `None` at the beginning of the listing.
    start: Option<Cd>,
}

impl Plan<'_> {
    fn page_query(&self, query: &ListingQuery) -> PageQuery {
        let limit = u16::try_from(self.ranks.max + 1).unwrap_or(u16::MAX);
        query.page_query(self.ranks.order, limit, self.start.clone())
    }

    async fn read(self, stores: &StoreClients, query: &ListingQuery) -> Result<Joined, ApiError> {
        let rows = stores.page_of_ranks(&self.page_query(query), self.ranks.comments).await?;
        let mut join = Join::new(self.ranks, rows);
        let missing = join.missing();
        if !missing.is_empty() {
            join.fill(query, stores.comments_in(&query.product, &missing).await?.into_iter().flatten());
        }
        join.differences(query).for_each(|difference| stores.report(&difference));
        (0..join.unranked()).for_each(|_| stores.count_drift_sign(DriftSign::RowWithoutRank));
        join.finish()
    }
}

/// The start key just above all comments dated `as_of`.
fn just_after(as_of: Timestamp) -> Option<Cd> {
    Cd { created_at: as_of, id: CommentId::greatest() }.just_after()
}

#[cfg(test)]
mod tests;
