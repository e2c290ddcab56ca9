//! One page of comments, by number or by cursor: filter → ranks of the page → one query of the
//! table.
//!
//! | page index | page 1, the front page and cursors | other pages |
//! | --- | --- | --- |
//! | ready | with totals | with totals; past the end is [`ApiError::PastTheEnd`] |
//! | not ready, or out of reach | without totals | [`ApiError::IndexUnavailable`] |
//!
//! `by_ranks` plans a numbered page and makes it, `by_cursor` one that a cursor leads to, and
//! `by_rating` those of listings in the order of ratings. `join` fills in the ranks of a page,
//! `stretch` unites ranks and rows from a position on, `beyond` looks past the end.
//!
//! **A numbered page is what its ranks say** (ADR 8). So ids, order and totals are those of the
//! page index, even while no duplicate is written. `total` is the count of the index, or the end of
//! the shown page where that is greater. Where the numbers end and the table has more, a program
//! continues by cursor, and a person to the page with the next number.
//!
//! **Invariant:** only a ready index gives an empty page 1. Without it, the table's own index may
//! be behind (`only_a_ready_index_gives_an_empty_page`).

mod beyond;
mod by_cursor;
mod by_ranks;
mod by_rating;
mod join;
mod stretch;

use model::{
    Cd, Comment, CommentId, FilterKey, Order, PageNumber, StablePages, Timestamp,
    planted::{self, Bug},
};
use page_index::{Ranked, RankedQuery, Stats, StatsWanted};
use table::{Page, PageQuery};

use super::{
    ListingQuery,
    contrast::{Contrast, Sides},
    cursor::{Cursor, Direction},
};
use crate::{error::ApiError, store::StoreClients};
pub(crate) use beyond::check_known;
use by_cursor::Walked;
pub(crate) use by_rating::position_by_rating;
use process::StoreError;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListingPage {
    pub(crate) comments: Vec<Comment>,
    /// The number of comments that match the filter, at least the number shown. `None` without the
    /// page index.
    pub(crate) total: Option<u64>,
    /// The number of comments that archive pages are made of. `None` for a cursor, and without the
    /// page index.
    pub(crate) settled: Option<u64>,
    pub(crate) next: Option<Cursor>,
    pub(crate) prev: Option<Cursor>,
    /// The instant that page numbers refer to: comments dated later are not counted. `None` where
    /// none does.
    pub(crate) as_of: Option<Timestamp>,
    /// Whether no page number leads to the comments after the page: only `next` does.
    pub(crate) continues_by_cursor: bool,
    /// Whether a comment could not be shown that the ranks promise. No cache may keep the page.
    pub(crate) has_empty_places: bool,
}

impl ListingQuery {
    fn page_query(&self, order: Order, limit: u16, start: Option<Cd>) -> PageQuery {
        let key = FilterKey {
            product: self.product.clone(),
            filter: self.filter.clone(),
        };
        PageQuery {
            key,
            order,
            limit,
            start,
        }
    }

    /// A question to the page index about the listing, for totals alone.
    pub(super) fn ranked_query(&self) -> RankedQuery<'_> {
        RankedQuery {
            order: self.order.within_a_rating(),
            ..RankedQuery::new(&self.product, &self.filter)
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum PageAt {
    /// In the listing's order. Comments dated after the instant do not count.
    Number(PageNumber, Option<Timestamp>),
    /// In stable numbering. The listing's order is newest first.
    Archive(PageNumber),
    Front,
    Cursor(Cursor),
}

/// A page that a request asks for.
#[derive(Debug, Clone)]
pub(crate) struct PageRequest<'query> {
    pub(crate) query: &'query ListingQuery,
    pub(crate) at: PageAt,
}

/// What a request wants to know besides the page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WantedBesides {
    pub(crate) stats: StatsWanted,
    /// The newest positive and the newest critical comment of the product.
    pub(crate) contrast: bool,
}

impl WantedBesides {
    pub(crate) const PAGE_ALONE: Self = Self {
        stats: StatsWanted::No,
        contrast: false,
    };
}

#[derive(Debug)]
pub(crate) struct PageRead {
    /// `None` when the number of an archive page leads to the front page. Errors: past the end; the
    /// page index is needed and unavailable, or behind; the table's.
    pub(crate) listing: Result<Option<ListingPage>, ApiError>,
    /// `None` without the page index, and if not wanted.
    pub(crate) stats: Option<Stats>,
    pub(crate) contrast: Option<Contrast>,
}

impl PageRequest<'_> {
    pub(crate) fn comments_max(&self) -> u16 {
        match self.at {
            PageAt::Front => StablePages::front_max(self.query.page_size),
            PageAt::Number(..) | PageAt::Archive(_) | PageAt::Cursor(_) => {
                self.query.page_size.get().into()
            }
        }
    }

    /// Comments dated later do not count. `None`: all do.
    fn as_of(&self) -> Option<Timestamp> {
        if let PageAt::Number(_, as_of) = self.at {
            as_of
        } else {
            None
        }
    }

    fn ranked_query(&self, settled_at: Timestamp) -> RankedQuery<'_> {
        let (size, all) = (self.query.page_size, self.query.ranked_query());
        let settled_at = Some(settled_at);
        match self.at {
            PageAt::Number(number, as_of) => {
                let skip = number
                    .skip(size)
                    .saturating_sub(planted::has(Bug::SkipOffByOne).into());
                RankedQuery {
                    skip,
                    count: size.get().into(),
                    as_of,
                    ..all
                }
            }
            PageAt::Archive(number) => {
                let (order, count) = (Order::Oldest, size.get().into());
                RankedQuery {
                    order,
                    skip: number.skip(size),
                    count,
                    as_of: settled_at,
                    settled_at,
                    ..all
                }
            }
            // The newest archived comment too: it is where the page ends.
            PageAt::Front => RankedQuery {
                count: StablePages::front_max(size) + 1,
                settled_at,
                ..all
            },
            PageAt::Cursor(ref cursor) => self.stretch_from(cursor).ranked_query(),
        }
    }

    /// Reads the page, and what else the page index says of the product at that moment.
    pub(crate) async fn read(&self, stores: &StoreClients, wanted: WantedBesides) -> PageRead {
        if self.query.order.is_by_rating() {
            return self.read_by_rating(stores, wanted).await;
        }
        let sides = Sides::new();
        let mut asked = vec![RankedQuery {
            stats: wanted.stats,
            ..self.ranked_query(stores.settled_at())
        }];
        if wanted.contrast {
            asked.extend(sides.queries(&self.query.product));
        }
        let ranked = stores.ranked("ranks", &asked);
        let (listing, ranked) = if let PageAt::Cursor(cursor) = &self.at {
            let rows = self.stretch_from(cursor).table_query();
            let (ranked, rows) = tokio::join!(ranked, stores.page(&rows));
            let first = ranked.as_ref().and_then(|ranked| ranked.first());
            let listing = self.read_by_cursor(cursor, stores, first, rows).await;
            (listing.map(Some), ranked)
        } else {
            let ranked = ranked.await;
            let listing = match ranked.as_deref() {
                Some([ranked, ..]) => self.read_ranked(stores, ranked).await,
                _ => self.read_unranked(stores).await.map(Some),
            };
            (listing, ranked)
        };
        let mut ranked = ranked.unwrap_or_default();
        let mut contrast = None;
        if let (Ok(Some(listing)), [_, positive, critical]) = (&listing, ranked.as_slice()) {
            let newest = [positive, critical];
            contrast = sides
                .read(stores, &self.query.product, newest, &listing.comments)
                .await;
        }
        let stats = ranked.first_mut().and_then(|ranked| ranked.stats.take());
        PageRead {
            listing,
            stats,
            contrast,
        }
    }

    async fn read_ranked(
        &self,
        stores: &StoreClients,
        ranked: &Ranked,
    ) -> Result<Option<ListingPage>, ApiError> {
        let ranks = match self.plan(ranked) {
            Ok(Some(ranks)) => ranks,
            Ok(None) => return Ok(None),
            Err(error) if planted::has(Bug::PastIsNotFound) => return Err(error),
            Err(error) => {
                let counted = if let PageAt::Number(..) = self.at {
                    ranked.total
                } else {
                    ranked.all
                };
                return Err(self
                    .query
                    .check_ranked(stores, self.as_of(), counted)
                    .await
                    .err()
                    .unwrap_or(error));
            }
        };
        let mut rows = stores
            .page_of_ranks(&ranks.first_query(self.query), ranks.comments)
            .await?;
        if rows.has_more && ranks.has_unranked(&rows) {
            rows = stores
                .page_of_ranks(&ranks.page_query(self.query), ranks.comments)
                .await?;
        }
        let joined = join::read(self.query, stores, ranks, rows).await?;
        if joined.shows_none {
            return Err(ApiError::NotYetListed);
        }
        Ok(Some(self.cut(ranked, joined)))
    }

    async fn read_by_cursor(
        &self,
        cursor: &Cursor,
        stores: &StoreClients,
        ranked: Option<&Ranked>,
        rows: Result<Page, StoreError>,
    ) -> Result<ListingPage, ApiError> {
        let stretch = self.stretch_from(cursor);
        let joined = stretch.read(stores, ranked, rows?).await?;
        let walked = Walked::of_stretch(cursor.direction, joined);
        Ok(ListingPage {
            total: ranked.map(|ranked| ranked.all),
            ..walked.into_page(self.query.order.within_a_rating(), cursor)
        })
    }

    /// Reads the page while the page index is away.
    async fn read_unranked(&self, stores: &StoreClients) -> Result<ListingPage, ApiError> {
        match self.at {
            PageAt::Number(PageNumber::FIRST, _) | PageAt::Front => {
                let beginning = self.beginning();
                let stretch = self.first_stretch(beginning.as_ref());
                let rows = stores.page(&stretch.table_query()).await?;
                let walked = Walked::of_stretch(Direction::Forward, stretch.of_rows(rows)?);
                let next = walked.onwards.filter(|_| walked.leads_on);
                self.cut_first(walked.comments, next)
            }
            PageAt::Number(..) | PageAt::Archive(_) | PageAt::Cursor(_) => {
                Err(ApiError::IndexUnavailable)
            }
        }
    }
}

/// The start key just above all comments dated `as_of`.
fn just_after(as_of: Timestamp) -> Option<Cd> {
    Cd {
        created_at: as_of,
        id: CommentId::greatest(),
    }
    .just_after()
}

#[cfg(test)]
mod tests;
