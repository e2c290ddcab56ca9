//! One page of comments, by number or by cursor: filter → ranks of the page → one query of the
//! table. [`show`] is the one way to it, for people, programs and feeds.
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

use actix_web::HttpRequest;
use model::{
    Cd, Comment, CommentId, FilterKey, Order, PageNumber, Period, StablePages, Timestamp,
    planted::{self, Bug},
};
use page_index::{Ranked, RankedQuery, Stats, StatsWanted};
use table::{Page, PageQuery};

use super::{
    ListingQuery,
    contrast::{Contrast, Sides},
    cursor::{Cursor, CursorSealer, Direction},
    dates,
};
use crate::{
    error::ApiError,
    http::answer_memory::AnswerMemory,
    links,
    site::PastTheEnd,
    store::{KnownRecord, StoreClients},
};
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

/// What a request asks for: a page of comments, or to be led to the page of a date.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'asked> {
    pub(crate) query: &'asked ListingQuery,
    /// Stable numbering has archive pages and a front page. The listing's order is newest first.
    pub(crate) is_stable: bool,
    /// `None`: the front page of stable numbering, or page 1.
    pub(crate) number: Option<PageNumber>,
    /// Comments dated later do not count.
    pub(crate) as_of: Option<Timestamp>,
    /// The sealed cursor of a page that no number leads to.
    pub(crate) cursor: Option<&'asked str>,
    /// The month or day of which the newest comment is wanted.
    pub(crate) date: Option<Period>,
    pub(crate) past_the_end: PastTheEnd,
    pub(crate) besides: WantedBesides,
}

/// What a request wants to know besides the page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WantedBesides {
    pub(crate) stats: StatsWanted,
    /// The newest positive and the newest critical comment of the product.
    pub(crate) contrast: bool,
    pub(crate) record: bool,
}

impl WantedBesides {
    pub(crate) const PAGE_ALONE: Self = Self {
        stats: StatsWanted::No,
        contrast: false,
        record: false,
    };
}

/// The answer to a request for a page.
#[derive(Debug)]
pub(crate) enum Shown {
    Page(Box<ShownPage>),
    /// The comments are on the page with this number now; `None` is the first page of the listing.
    /// The fragment names the wanted one in a page for people.
    Elsewhere {
        number: Option<PageNumber>,
        fragment: String,
    },
}

impl Shown {
    fn elsewhere(number: Option<PageNumber>) -> Self {
        Self::Elsewhere {
            number,
            fragment: String::new(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct ShownPage {
    pub(crate) listing: ListingPage,
    /// `None` without the page index, and if not wanted.
    pub(crate) stats: Option<Stats>,
    /// `None` also if the product lacks one of both comments, or one cannot be read.
    pub(crate) contrast: Option<Contrast>,
    /// The record of the product, if wanted.
    pub(crate) record: KnownRecord,
}

impl ShownPage {
    /// Whether caches may keep an answer with this page. They would keep it longer than a store is
    /// unavailable or behind.
    pub(crate) fn may_be_kept(&self) -> bool {
        self.listing.total.is_some()
            && !self.listing.has_empty_places
            && self.record != KnownRecord::Unreadable
    }
}

/// Why there is no page to show.
#[derive(Debug)]
pub(crate) struct NotShown {
    pub(crate) error: ApiError,
    /// What the page index counted nevertheless, if it was wanted.
    pub(crate) stats: Option<Stats>,
}

impl From<ApiError> for NotShown {
    fn from(error: ApiError) -> Self {
        Self { error, stats: None }
    }
}

impl From<NotShown> for ApiError {
    fn from(NotShown { error, .. }: NotShown) -> Self {
        error
    }
}

/// Reads what a request asks for.
///
/// # Errors
/// - The page is past the end.
/// - The page index is needed and unavailable, or behind.
/// - The cursor is not of this listing.
/// - The memory for answers is full.
/// - Those of the table.
pub(crate) async fn show(
    asked: &Asked<'_>,
    request: &HttpRequest,
    stores: &StoreClients,
    memory: &AnswerMemory,
    cursors: &CursorSealer,
) -> Result<Shown, NotShown> {
    let query = asked.query;
    if let Some(period) = asked.date {
        let (position, id) = dates::newest_of_period(stores, query, period).await?;
        return Ok(Shown::Elsewhere {
            number: query.number_of(asked.is_stable, position),
            fragment: links::to_comment(id.as_ref()),
        });
    }
    let at = asked.at(cursors)?;
    let page = PageRequest { query, at };
    // Before all reads, so that a refused request costs no store a call.
    memory
        .make_room(request, page.comments_max(asked.besides))
        .await?;
    let (read, record) = tokio::join!(page.read(stores, asked.besides), asked.record(stores));
    let leads_on = asked.past_the_end == PastTheEnd::Redirect;
    match read.listing {
        Ok(Some(listing)) => Ok(Shown::Page(Box::new(ShownPage {
            listing,
            stats: read.stats,
            contrast: read.contrast,
            record,
        }))),
        Ok(None) => Ok(Shown::elsewhere(None)),
        Err(ApiError::PastTheEnd { total_pages, .. }) if leads_on => {
            Ok(Shown::elsewhere(PageNumber::new(total_pages).ok()))
        }
        Err(ApiError::PastTheArchive { .. }) if leads_on => Ok(Shown::elsewhere(None)),
        Err(error) => Err(NotShown {
            error,
            stats: read.stats,
        }),
    }
}

impl Asked<'_> {
    fn at(&self, cursors: &CursorSealer) -> Result<PageAt, ApiError> {
        Ok(match (self.cursor, self.number) {
            (Some(cursor), _) => PageAt::Cursor(cursors.open(&self.query.parts(), cursor)?),
            (None, Some(number)) if self.is_stable => PageAt::Archive(number),
            (None, None) if self.is_stable => PageAt::Front,
            (None, number) => PageAt::Number(number.unwrap_or(PageNumber::FIRST), self.as_of),
        })
    }

    async fn record(&self, stores: &StoreClients) -> KnownRecord {
        if self.besides.record {
            stores.known_record(&self.query.product).await
        } else {
            KnownRecord::None
        }
    }
}

#[derive(Debug, Clone)]
enum PageAt {
    /// In the listing's order. Comments dated after the instant do not count.
    Number(PageNumber, Option<Timestamp>),
    /// In stable numbering.
    Archive(PageNumber),
    Front,
    Cursor(Cursor),
}

/// One page of a listing.
#[derive(Debug, Clone)]
struct PageRequest<'query> {
    query: &'query ListingQuery,
    at: PageAt,
}

#[derive(Debug)]
struct PageRead {
    /// `None` when the number of an archive page leads to the front page. Errors: past the end; the
    /// page index is needed and unavailable, or behind; the table's.
    listing: Result<Option<ListingPage>, ApiError>,
    stats: Option<Stats>,
    contrast: Option<Contrast>,
}

impl PageRequest<'_> {
    fn comments_max(&self, besides: WantedBesides) -> u16 {
        let on_page = match self.at {
            PageAt::Front => StablePages::front_max(self.query.page_size),
            PageAt::Number(..) | PageAt::Archive(_) | PageAt::Cursor(_) => {
                self.query.page_size.get().into()
            }
        };
        on_page
            + if besides.contrast {
                Contrast::COMMENTS
            } else {
                0
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
    async fn read(&self, stores: &StoreClients, wanted: WantedBesides) -> PageRead {
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
