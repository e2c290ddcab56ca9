//! One page of comments, by number or by cursor: filter → plan → page index → one query of the table.
//!
//! | page index | page 1 and cursors | page 2 and beyond |
//! | --- | --- | --- |
//! | ready | with totals | with totals; past the end is [`ApiError::PastTheEnd`] |
//! | not ready, or out of reach | without totals | [`ApiError::IndexUnavailable`] |
//!
//! Every query asks for one comment more than the page shows. So the table alone decides whether more follow, and
//! cursors continue independently of the page index.
//!
//! **Totals and page numbers are those of the page index**, which trails the table. `total` is the count of the index,
//! or the end of the shown page where that is greater. A page has a number when that total reaches it. Where the
//! numbers end and the table has more, a program continues by cursor, and a person continues to the page with the next
//! number.
//!
//! **Invariant:** a page is past the end only when the table has nothing beyond the ranks: no comment newer than the
//! newest ranked one, and none older than the oldest. Otherwise comments are still to be ranked, and the answer is
//! [`ApiError::NotYetListed`] (ADR 8). A comment that lacks its rank between those two is not noticed here; the repair
//! job finds it.
//!
//! **Invariant:** only a ready index gives an empty page 1. Without it, the table's own index may be behind
//! (`only_a_ready_index_gives_an_empty_page`).
//!
//! **Invariant:** where ranks and table differ, the reader gets what the table has. A difference is only counted,
//! because a write that is on its way looks the same. If the ranks promise comments for a page and the table has none,
//! the answer is never an empty page with 200. Either a promised comment exists and is still being fanned out (503), or
//! the ranks are wrong (`an_empty_page_is_looked_into`).
//!
//! **Invariant:** walking the cursors from page 1 shows every comment once. A page whose comments have been deleted
//! leads back (`an_empty_page_leads_back_to_the_comment_that_led_to_it`).
//!
//! **Invariant:** a malformed duplicate is left out, takes its place in the page, and hides no other comment
//! (`a_malformed_item_keeps_its_place_and_hides_nothing`). An invalid primary item has no rank, so it takes no place
//! (`Table::page`).

mod empty;
pub(crate) mod stable;

use futures_util::{
    future::try_join_all,
    stream::{self, StreamExt},
};
use model::{Cd, Comment, CommentId, FilterKey, Order, PageNumber, Timestamp};
use process::StoreError;
use table::{Page, PageQuery};

use super::{
    ListingQuery,
    cursor::{Cursor, Direction},
};
use crate::{
    error::ApiError,
    ops::metrics::DriftSign,
    store::{Ends, PageStart, PageStartQuery, StoreClients},
};

/// The most comments that are looked up when the ranks promise a page and the table has none of it. That is a page of
/// the usual size, and 13 read units, which one request may cost.
const LOOKED_INTO_MAX: u64 = 25;

const LOOKED_INTO_TOGETHER: usize = 5;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListingPage {
    pub(crate) comments: Vec<Comment>,
    /// The number of comments that match the filter: the count of the page index, but at least the number shown. `None`
    /// when the page index is unavailable.
    pub(crate) total: Option<u64>,
    pub(crate) next: Option<Cursor>,
    pub(crate) prev: Option<Cursor>,
    /// The instant that page numbers refer to: comments dated later are not counted. `None` for a cursor, and when the
    /// page index is unavailable and the request names no instant.
    pub(crate) as_of: Option<Timestamp>,
    /// Whether no page number leads to the comments after the page: only `next` does.
    pub(crate) continues_by_cursor: bool,
}

#[derive(Debug)]
enum Row {
    Comment(Comment),
    /// A malformed item: its place in the order, where that can be read.
    Malformed(Option<Cd>),
}

impl Row {
    fn cd(&self) -> Option<Cd> {
        match self {
            Self::Comment(comment) => Some(comment.cd()),
            Self::Malformed(cd) => cd.clone(),
        }
    }

    fn comment(&self) -> Option<&Comment> {
        if let Self::Comment(comment) = self { Some(comment) } else { None }
    }

    fn into_comment(self) -> Option<Comment> {
        if let Self::Comment(comment) = self { Some(comment) } else { None }
    }
}

/// The result of a query for one row more than the page shows.
#[derive(Debug)]
struct Found {
    rows: Vec<Row>,
    more: bool,
    /// Whether the table's answer ended before the page was full, although more rows follow.
    is_cut: bool,
}

impl Found {
    /// Cuts a page of at most this many rows from the table's answer, without comments dated after `as_of`.
    fn new(Page { comments, malformed, cut_short, .. }: Page, size: usize, as_of: Option<Timestamp>) -> Self {
        let mut rows: Vec<Row> = comments.into_iter().map(Row::Comment).collect();
        for item in malformed {
            // They come in order, so all earlier items are in place.
            rows.insert(item.place.min(rows.len()), Row::Malformed(item.cd));
        }
        let answered = rows.len();
        if let Some(as_of) = as_of {
            rows.retain(|row| row.cd().is_none_or(|cd| cd.created_at <= as_of));
        }
        // Newest first, the query begins below `as_of`. Oldest first, everything after a later row is later too.
        let ended = rows.len() < answered;
        let more = !ended && (rows.len() > size || cut_short);
        rows.truncate(size);
        Self { rows, more, is_cut: cut_short && !ended }
    }

    fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    fn comments(&self) -> impl Iterator<Item = &Comment> {
        self.rows.iter().filter_map(Row::comment)
    }
}

impl ListingQuery {
    /// A query to the table for a page: one comment more than the page shows.
    fn whole_page(&self, order: Order, start: Option<Cd>) -> PageQuery {
        self.page_query(order, u16::from(self.page_size.get()) + 1, start)
    }

    fn rows(&self) -> usize {
        self.page_size.get().into()
    }

    fn page_query(&self, order: Order, limit: u16, start: Option<Cd>) -> PageQuery {
        let key = FilterKey { product: self.product.clone(), filter: self.filter.clone() };
        PageQuery { key, order, limit, start }
    }

    pub(super) fn page_start(&self, skip: u64, as_of: Option<Timestamp>) -> PageStartQuery<'_> {
        PageStartQuery { product: &self.product, filter: &self.filter, skip, order: self.order, as_of }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct NumberedPage<'query> {
    pub(crate) query: &'query ListingQuery,
    pub(crate) number: PageNumber,
    /// Comments dated later do not count.
    pub(crate) as_of: Option<Timestamp>,
}

impl NumberedPage<'_> {
    /// Reads the page.
    ///
    /// # Errors
    /// Past the end; the page index is needed and unavailable, or behind; the table's.
    pub(crate) async fn read(&self, stores: &StoreClients) -> Result<ListingPage, ApiError> {
        let start = stores.page_start(&self.page_start()).await;
        self.read_at(stores, start.as_ref()).await
    }

    fn page_start(&self) -> PageStartQuery<'_> {
        self.query.page_start(self.skip(), self.as_of)
    }

    /// Reads the page, which starts where the page index says, if that is known.
    ///
    /// # Errors
    /// Like [`NumberedPage::read`].
    async fn read_at(&self, stores: &StoreClients, start: Option<&PageStart>) -> Result<ListingPage, ApiError> {
        match (self.read_from(stores, start).await, start) {
            (Err(error @ ApiError::PastTheEnd { .. }), Some(start)) => {
                Err(self.unless_behind(stores, start.total, error).await)
            }
            (listing, _) => listing,
        }
    }

    /// This error of a page past the end, unless comments are still to be ranked: then the page may exist.
    async fn unless_behind(&self, stores: &StoreClients, counted: u64, past_the_end: ApiError) -> ApiError {
        match self.has_unranked(stores, counted).await {
            Ok(true) => {
                stores.count_drift_sign(DriftSign::Unranked);
                ApiError::NotYetListed
            }
            Ok(false) => past_the_end,
            Err(error) => error,
        }
    }

    /// Reads the page without a look beyond the ranks.
    async fn read_from(&self, stores: &StoreClients, start: Option<&PageStart>) -> Result<ListingPage, ApiError> {
        let plan = self.plan(start)?;
        let found = Found::new(stores.page(&plan).await?, self.query.rows(), self.as_of);
        let shown = found.comments().count() as u64;
        // The next number begins after the ranks of this page, so it would pass over what is missing here.
        if found.is_cut && start.is_some_and(|start| shown < self.promised(start.total)) {
            return Err(ApiError::NotYetListed);
        }
        let as_of = self.as_of.or_else(|| start.map(|start| numbered_as_of(start, &found)));
        let mut total = start.map(|start| start.total);
        if let Some(sign) = total.and_then(|total| self.drift_sign(total, &found)) {
            stores.count_drift_sign(sign);
            if sign == DriftSign::EmptyPage {
                total = Some(self.existing_total(stores, total.unwrap_or(0)).await?);
            }
        }
        Ok(ListingPage { as_of, ..self.cut(total, found)? })
    }

    fn skip(&self) -> u64 {
        self.number.skip(self.query.page_size)
    }

    fn plan(&self, start: Option<&PageStart>) -> Result<PageQuery, ApiError> {
        let Self { query, number, as_of } = self;
        if *number == PageNumber::FIRST {
            let boundary = as_of.filter(|_| query.order == Order::Newest).and_then(just_after);
            return Ok(query.whole_page(query.order, boundary));
        }
        let start = start.ok_or(ApiError::IndexUnavailable)?;
        if number.get() > query.page_size.total_pages(start.total) {
            return Err(self.past_the_end(start.total));
        }
        // Without a start key the table would answer with page 1.
        let no_start = || ApiError::internal("a page after the first has no start key");
        Ok(query.whole_page(query.order, Some(start.before.clone().ok_or_else(no_start)?)))
    }

    fn past_the_end(&self, total: u64) -> ApiError {
        ApiError::PastTheEnd { page: self.number.get(), total_pages: self.query.page_size.total_pages(total) }
    }

    fn cut(&self, total: Option<u64>, found: Found) -> Result<ListingPage, ApiError> {
        let shown_up_to = self.skip().saturating_add(found.len());
        let Found { rows, more, .. } = found;
        let is_first = self.number == PageNumber::FIRST;
        match total {
            None if rows.is_empty() => return Err(ApiError::IndexUnavailable),
            Some(total) if rows.is_empty() && !is_first => return Err(self.past_the_end(total)),
            Some(_) | None => {}
        }
        // The page index may be a moment behind, but the shown comments exist.
        let total = total.map(|total| if rows.is_empty() { total } else { total.max(shown_up_to) });
        // The table may be behind too: ranked comments follow, although their items are still being written.
        let ranked_follow = total.is_some_and(|total| self.number.get() < self.query.page_size.total_pages(total));
        let next = if more || ranked_follow { last(&rows) } else { None };
        let prev = if is_first { None } else { first(&rows) };
        Ok(listing_page(rows, total, next, prev))
    }

    fn promised(&self, total: u64) -> u64 {
        total.saturating_sub(self.skip()).min(u64::from(self.query.page_size.get()))
    }

    fn drift_sign(&self, total: u64, found: &Found) -> Option<DriftSign> {
        drift_sign(self.promised(total), found)
    }

    /// The number of comments when the ranks promise a page for which the table has none. No comment exists from this
    /// page on, unless a promised one does; such a comment is still being fanned out. At most [`LOOKED_INTO_MAX`] are
    /// looked up. When none of them exists and more are promised, the answer is unknown ([`ApiError::NotYetListed`]).
    async fn existing_total(&self, stores: &StoreClients, total: u64) -> Result<u64, ApiError> {
        let Self { query, .. } = self;
        let count = self.promised(total);
        let looked_into = count.min(LOOKED_INTO_MAX);
        let ranked = stores.promised(&self.page_start(), looked_into).await;
        let ranked = ranked.ok_or(ApiError::IndexUnavailable)?;
        let looks = ranked.iter().map(async |ranked| {
            let found = stores.comment(&ranked.id).await?;
            Ok::<_, StoreError>(found.filter(|of| of.product == query.product && query.filter.matches(&of.placement())))
        });
        let mut looks = stream::iter(looks).buffered(LOOKED_INTO_TOGETHER);
        while let Some(found) = looks.next().await {
            if found?.is_some() {
                return Err(ApiError::NotYetListed);
            }
        }
        if looked_into < count { Err(ApiError::NotYetListed) } else { Ok(self.skip()) }
    }

    /// Whether the table has a comment beyond the ranks, or the ranks have grown since `counted`. Takes at most two
    /// queries of one item each. An unreadable item does not count, because no page shows it.
    async fn has_unranked(&self, stores: &StoreClients, counted: u64) -> Result<bool, ApiError> {
        let extent = stores.extent(&self.query.page_start(0, self.as_of)).await.ok_or(ApiError::IndexUnavailable)?;
        if extent.total > counted {
            return Ok(true);
        }
        let beyond = self.plan_beyond(extent.ends);
        let pages = try_join_all(beyond.iter().map(|plan| stores.page(plan))).await?;
        let mut comments = pages.iter().flat_map(|page| &page.comments);
        Ok(comments.any(|comment| self.as_of.is_none_or(|as_of| comment.created_at <= as_of)))
    }

    /// The queries beyond the ranks: the next newer and the next older comment, or any comment where nothing is ranked.
    fn plan_beyond(&self, ends: Option<Ends>) -> Vec<PageQuery> {
        let one = |order, start| self.query.page_query(order, 1, start);
        match ends {
            Some(Ends { newest, oldest }) => vec![one(Order::Oldest, Some(newest)), one(Order::Newest, Some(oldest))],
            None => vec![one(Order::Newest, self.as_of.and_then(just_after))],
        }
    }
}

/// How a page differs from the number of comments that the ranks promise for it; `None` when it does not.
fn drift_sign(promised: u64, found: &Found) -> Option<DriftSign> {
    match found.len() {
        0 if promised > 0 => Some(DriftSign::EmptyPage),
        few if few < promised && !found.more => Some(DriftSign::ShortPage),
        many if many > promised => Some(DriftSign::Unranked),
        _ => None,
    }
}

/// The start key just above all comments dated `as_of`.
fn just_after(as_of: Timestamp) -> Option<Cd> {
    Cd { created_at: as_of, id: CommentId::greatest() }.just_after()
}

/// The default `as_of`: the creation time of the newest indexed comment. Not the current time, because comments that
/// the index has not seen yet are dated before it. The comments that the page shows count too, although the index may
/// be behind, so that the next page continues after them (ADR 33).
fn numbered_as_of(start: &PageStart, found: &Found) -> Timestamp {
    let newest = found.comments().map(|comment| comment.created_at).max();
    newest.map_or(start.reached, |shown| start.reached.max(shown.min(process::now())))
}

#[derive(Debug)]
pub(crate) struct CursorPage<'query> {
    pub(crate) query: &'query ListingQuery,
    pub(crate) cursor: Cursor,
}

impl CursorPage<'_> {
    /// Reads the page.
    ///
    /// # Errors
    /// The table's.
    pub(crate) async fn read(&self, stores: &StoreClients) -> Result<ListingPage, ApiError> {
        let (plan, beginning) = (self.plan(), self.query.page_start(0, None));
        let (start, page) = tokio::join!(stores.page_start(&beginning), stores.page(&plan));
        self.cut(start.map(|start| start.total), Found::new(page?, self.query.rows(), None))
    }

    fn plan(&self) -> PageQuery {
        self.query.whole_page(self.order(), Some(self.cursor.at.clone()))
    }

    fn order(&self) -> Order {
        match self.cursor.direction {
            Direction::Forward => self.query.order,
            Direction::Backward => self.query.order.reversed(),
        }
    }

    /// Makes the page from the table's answer.
    ///
    /// # Errors
    /// More rows follow, but no row of the page says where the next one starts: all are invalid items that wait for the
    /// repair job.
    fn cut(&self, total: Option<u64>, found: Found) -> Result<ListingPage, ApiError> {
        let Found { mut rows, more, .. } = found;
        if more && !rows.iter().any(|row| row.cd().is_some()) {
            return Err(ApiError::NotYetListed);
        }
        let (next, prev) = match self.cursor.direction {
            Direction::Forward if rows.is_empty() => (None, Some(self.back())),
            Direction::Backward if rows.is_empty() => (Some(self.back()), None),
            Direction::Forward => (if more { last(&rows) } else { None }, first(&rows)),
            Direction::Backward => {
                rows.reverse();
                (last(&rows), if more { first(&rows) } else { None })
            }
        };
        Ok(ListingPage { continues_by_cursor: true, ..listing_page(rows, total, next, prev) })
    }

    /// The cursor in the opposite direction, for an empty page. It leads to the comments up to and including the
    /// cursor's own.
    fn back(&self) -> Cursor {
        let Cursor { direction, at } = &self.cursor;
        let beyond = match self.order() {
            Order::Newest => at.just_before(),
            Order::Oldest => at.just_after(),
        };
        Cursor { direction: direction.reversed(), at: beyond.unwrap_or_else(|| at.clone()) }
    }
}

fn listing_page(rows: Vec<Row>, total: Option<u64>, next: Option<Cursor>, prev: Option<Cursor>) -> ListingPage {
    ListingPage {
        comments: rows.into_iter().filter_map(Row::into_comment).collect(),
        total,
        next,
        prev,
        as_of: None,
        continues_by_cursor: total.is_none(),
    }
}

fn last(rows: &[Row]) -> Option<Cursor> {
    let at = rows.iter().rev().find_map(Row::cd)?;
    Some(Cursor { direction: Direction::Forward, at })
}

fn first(rows: &[Row]) -> Option<Cursor> {
    let at = rows.iter().find_map(Row::cd)?;
    Some(Cursor { direction: Direction::Backward, at })
}

#[cfg(test)]
mod tests;
