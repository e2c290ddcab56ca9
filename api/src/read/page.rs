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
//! [`ApiError::NotYetListed`] (ADR 39). A comment that lacks its rank between those two is not noticed here; the repair
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

use futures_util::{
    future::try_join_all,
    stream::{self, StreamExt},
};
use model::{Cd, Comment, CommentId, FilterKey, Order, PageNumber, PageSize, Timestamp};
use page_index::{Ends, PageStart, PageStartQuery};
use process::StoreError;
use table::{Page, PageQuery};

use super::{
    ListingQuery,
    cursor::{Cursor, Direction},
};
use crate::{error::ApiError, ops::metrics::DriftSign, store::StoreClients};

/// The most comments that are looked up when the ranks promise a page and the table has none of it. That is a page of
/// the usual size, and 13 read units, which one request may cost.
const LOOKED_INTO_MAX: u64 = 25;

/// How many of them are looked up concurrently.
const LOOKED_INTO_TOGETHER: usize = 5;

/// A page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListingPage {
    pub(crate) comments: Vec<Comment>,
    /// The number of comments that match the filter: the count of the page index, but at least the number shown. `None`
    /// when the page index is unavailable.
    pub(crate) total: Option<u64>,
    /// Where the next page starts; `None` at the end.
    pub(crate) next: Option<Cursor>,
    /// Where the previous page ends; `None` at the beginning.
    pub(crate) prev: Option<Cursor>,
    /// The instant that page numbers refer to: comments dated later are not counted. `None` for a cursor, and when the
    /// page index is unavailable and the request names no instant.
    pub(crate) as_of: Option<Timestamp>,
}

/// One place of a page.
#[derive(Debug)]
struct Row {
    /// Its place in the order; `None` when the item is so malformed that this cannot be read.
    cd: Option<Cd>,
    /// `None` for a malformed item.
    comment: Option<Comment>,
}

/// The result of a query for one row more than the page shows.
#[derive(Debug)]
struct Found {
    /// The places of the page, in the query's order.
    rows: Vec<Row>,
    /// Whether more rows follow.
    more: bool,
    /// Whether the table's answer ended before the page was full, although more rows follow.
    is_cut: bool,
}

impl Found {
    /// Cuts a page of this size from the table's answer, without comments dated after `as_of`.
    fn new(Page { comments, malformed, cut_short, .. }: Page, size: PageSize, as_of: Option<Timestamp>) -> Self {
        let row = |comment: Comment| Row { cd: Some(comment.cd()), comment: Some(comment) };
        let mut rows: Vec<Row> = comments.into_iter().map(row).collect();
        for item in malformed {
            // They come in order, so all earlier items are in place.
            rows.insert(item.place.min(rows.len()), Row { cd: item.cd, comment: None });
        }
        let answered = rows.len();
        if let Some(as_of) = as_of {
            rows.retain(|row| row.cd.as_ref().is_none_or(|cd| cd.created_at <= as_of));
        }
        // Newest first, the query begins below `as_of`. Oldest first, everything after a later row is later too.
        let ended = rows.len() < answered;
        let size = usize::from(size.get());
        let more = !ended && (rows.len() > size || cut_short);
        rows.truncate(size);
        Self { rows, more, is_cut: cut_short && !ended }
    }

    /// How many rows the page has.
    fn len(&self) -> u64 {
        u64::try_from(self.rows.len()).unwrap_or(u64::MAX)
    }

    /// The comments that the page shows.
    fn comments(&self) -> impl Iterator<Item = &Comment> {
        self.rows.iter().filter_map(|row| row.comment.as_ref())
    }

    /// How many comments the page shows.
    fn shown(&self) -> u64 {
        u64::try_from(self.comments().count()).unwrap_or(u64::MAX)
    }
}

impl ListingQuery {
    /// The query for the page index.
    fn page_start(&self, skip: u64, as_of: Option<Timestamp>) -> PageStartQuery<'_> {
        PageStartQuery { product: &self.product, filter: &self.filter, skip, order: self.order, as_of }
    }

    /// A query to the table for a page: one comment more than the page shows.
    fn whole_page(&self, order: Order, start: Option<Cd>) -> PageQuery {
        self.page_query(order, u16::from(self.page_size.get()) + 1, start)
    }

    fn page_query(&self, order: Order, limit: u16, start: Option<Cd>) -> PageQuery {
        let key = FilterKey { product: self.product.clone(), filter: self.filter.clone() };
        PageQuery { key, order, limit, start }
    }
}

/// Reads the page of this number; with `as_of`, of the comments dated up to then.
///
/// # Errors
/// Past the end; the page index is needed and unavailable, or behind; the table's.
pub(crate) async fn read_page(
    stores: &StoreClients,
    query: &ListingQuery,
    number: PageNumber,
    as_of: Option<Timestamp>,
) -> Result<ListingPage, ApiError> {
    let start = stores.page_start(&query.page_start(number.skip(query.page_size), as_of)).await;
    let listing = read_numbered(stores, query, number, as_of, start.as_ref()).await;
    if let (Err(ApiError::PastTheEnd { .. }), Some(start)) = (&listing, &start)
        && has_unranked(stores, query, as_of, start.total).await?
    {
        stores.count_drift_sign(DriftSign::Unranked);
        return Err(ApiError::NotYetListed);
    }
    listing
}

/// Reads the page of this number, which starts where the page index says.
async fn read_numbered(
    stores: &StoreClients,
    query: &ListingQuery,
    number: PageNumber,
    as_of: Option<Timestamp>,
    start: Option<&PageStart>,
) -> Result<ListingPage, ApiError> {
    let skip = number.skip(query.page_size);
    let plan = plan_page(query, number, as_of, start)?;
    let found = Found::new(stores.page(&plan).await?, query.page_size, as_of);
    // The next number begins after the ranks of this page, so it would pass over what is missing here.
    if found.is_cut && start.is_some_and(|start| found.shown() < promised(query, skip, start.total)) {
        return Err(ApiError::NotYetListed);
    }
    let numbered = as_of.or_else(|| start.map(|start| numbered_as_of(start, &found)));
    let mut total = start.map(|start| start.total);
    if let Some(sign) = total.and_then(|total| drift_sign(query, skip, total, &found)) {
        stores.count_drift_sign(sign);
        if sign == DriftSign::EmptyPage {
            total = Some(existing_total(stores, query, skip, as_of, total.unwrap_or(0)).await?);
        }
    }
    Ok(ListingPage { as_of: numbered, ..cut_page(query, number, total, found)? })
}

/// Plans the query to the table.
fn plan_page(
    query: &ListingQuery,
    number: PageNumber,
    as_of: Option<Timestamp>,
    start: Option<&PageStart>,
) -> Result<PageQuery, ApiError> {
    if number == PageNumber::FIRST {
        let boundary = as_of.filter(|_| query.order == Order::Newest).and_then(just_after);
        return Ok(query.whole_page(query.order, boundary));
    }
    let start = start.ok_or(ApiError::IndexUnavailable)?;
    let total_pages = query.page_size.total_pages(start.total);
    if number.get() > total_pages {
        return Err(ApiError::PastTheEnd { page: number.get(), total_pages });
    }
    // Without a start key the table would answer with page 1.
    let before = start.before.clone().ok_or_else(|| ApiError::internal("a page after the first has no start key"))?;
    Ok(query.whole_page(query.order, Some(before)))
}

/// The start key just above all comments dated `as_of`.
fn just_after(as_of: Timestamp) -> Option<Cd> {
    Cd { created_at: as_of, id: CommentId::greatest() }.just_after()
}

/// Makes a numbered page from the table's answer.
fn cut_page(
    query: &ListingQuery,
    number: PageNumber,
    total: Option<u64>,
    found: Found,
) -> Result<ListingPage, ApiError> {
    let shown_up_to = number.skip(query.page_size).saturating_add(found.len());
    let Found { rows, more, .. } = found;
    match total {
        None if rows.is_empty() => return Err(ApiError::IndexUnavailable),
        Some(total) if rows.is_empty() && number > PageNumber::FIRST => {
            return Err(ApiError::PastTheEnd { page: number.get(), total_pages: query.page_size.total_pages(total) });
        }
        Some(_) | None => {}
    }
    // The page index may be a moment behind, but the shown comments exist.
    let total = total.map(|total| if rows.is_empty() { total } else { total.max(shown_up_to) });
    // The table may be behind too: ranked comments follow, although their items are still being written.
    let more = more || total.is_some_and(|total| number.get() < query.page_size.total_pages(total));
    let next = if more { last(&rows) } else { None };
    let prev = if number > PageNumber::FIRST { first(&rows) } else { None };
    Ok(listing_page(rows, total, next, prev))
}

/// How many comments the ranks promise for the page after `skip` comments.
fn promised(query: &ListingQuery, skip: u64, total: u64) -> u64 {
    total.saturating_sub(skip).min(u64::from(query.page_size.get()))
}

/// How the page differs from what the ranks promise for it; `None` when it does not.
fn drift_sign(query: &ListingQuery, skip: u64, total: u64, found: &Found) -> Option<DriftSign> {
    let promised = promised(query, skip, total);
    match found.len() {
        0 if promised > 0 => Some(DriftSign::EmptyPage),
        few if few < promised && !found.more => Some(DriftSign::ShortPage),
        many if many > promised => Some(DriftSign::Unranked),
        _ => None,
    }
}

/// The default `as_of`: the creation time of the newest indexed comment. Not the current time, because comments that
/// the index has not seen yet are dated before it. The comments that the page shows count too, although the index may
/// be behind, so that the next page continues after them (ADR 33).
fn numbered_as_of(start: &PageStart, found: &Found) -> Timestamp {
    let newest = found.comments().map(|comment| comment.created_at).max();
    newest.map_or(start.reached, |shown| start.reached.max(shown.min(process::now())))
}

/// The number of comments when the ranks promise a page for which the table has none. No comment exists from this page
/// on, unless a promised one does; such a comment is still being fanned out. At most [`LOOKED_INTO_MAX`] are looked up.
/// When none of them exists and more are promised, the answer is unknown ([`ApiError::NotYetListed`]).
async fn existing_total(
    stores: &StoreClients,
    query: &ListingQuery,
    skip: u64,
    as_of: Option<Timestamp>,
    total: u64,
) -> Result<u64, ApiError> {
    let count = promised(query, skip, total);
    let looked_into = count.min(LOOKED_INTO_MAX);
    let ranked = stores.promised(&query.page_start(skip, as_of), looked_into).await;
    let ranked = ranked.ok_or(ApiError::IndexUnavailable)?;
    let looks = ranked.iter().map(async |ranked| {
        let comment = stores.comment(&ranked.id).await?;
        Ok::<_, StoreError>(comment.filter(|of| of.product == query.product && query.filter.matches(&of.placement())))
    });
    let mut looks = stream::iter(looks).buffered(LOOKED_INTO_TOGETHER);
    while let Some(found) = looks.next().await {
        if found?.is_some() {
            return Err(ApiError::NotYetListed);
        }
    }
    if looked_into < count { Err(ApiError::NotYetListed) } else { Ok(skip) }
}

/// Whether the table has a comment beyond the ranks, or the ranks have grown since `counted`. Takes at most two queries
/// of one item each. An unreadable item does not count, because no page shows it.
async fn has_unranked(
    stores: &StoreClients,
    query: &ListingQuery,
    as_of: Option<Timestamp>,
    counted: u64,
) -> Result<bool, ApiError> {
    let extent = stores.extent(&query.page_start(0, as_of)).await.ok_or(ApiError::IndexUnavailable)?;
    if extent.total > counted {
        return Ok(true);
    }
    let beyond = plan_beyond(query, as_of, extent.ends);
    let pages = try_join_all(beyond.iter().map(|plan| stores.page(plan))).await?;
    let mut comments = pages.iter().flat_map(|page| &page.comments);
    Ok(comments.any(|comment| as_of.is_none_or(|as_of| comment.created_at <= as_of)))
}

/// The queries beyond the ranks: the next newer and the next older comment, or any comment where nothing is ranked.
fn plan_beyond(query: &ListingQuery, as_of: Option<Timestamp>, ends: Option<Ends>) -> Vec<PageQuery> {
    match ends {
        Some(Ends { newest, oldest }) => {
            vec![query.page_query(Order::Oldest, 1, Some(newest)), query.page_query(Order::Newest, 1, Some(oldest))]
        }
        None => vec![query.page_query(Order::Newest, 1, as_of.and_then(just_after))],
    }
}

/// Reads the page that a cursor leads to.
///
/// # Errors
/// The table's.
pub(crate) async fn read_at_cursor(
    stores: &StoreClients,
    query: &ListingQuery,
    cursor: Cursor,
) -> Result<ListingPage, ApiError> {
    let plan = query.whole_page(order_at(query, &cursor), Some(cursor.at.clone()));
    let beginning = query.page_start(0, None);
    let (start, page) = tokio::join!(stores.page_start(&beginning), stores.page(&plan));
    let found = Found::new(page?, query.page_size, None);
    cut_at_cursor(query, &cursor, start.map(|start| start.total), found)
}

/// The order in which the table is read from a cursor.
fn order_at(query: &ListingQuery, cursor: &Cursor) -> Order {
    match cursor.direction {
        Direction::Forward => query.order,
        Direction::Backward => query.order.reversed(),
    }
}

/// Makes a cursor's page from the table's answer.
///
/// # Errors
/// More rows follow, but no row of the page has a place to lead on from: invalid items until the repair job takes them over.
fn cut_at_cursor(
    query: &ListingQuery,
    cursor: &Cursor,
    total: Option<u64>,
    found: Found,
) -> Result<ListingPage, ApiError> {
    let Found { mut rows, more, .. } = found;
    if more && !rows.iter().any(|row| row.cd.is_some()) {
        return Err(ApiError::NotYetListed);
    }
    let (next, prev) = match cursor.direction {
        Direction::Forward if rows.is_empty() => (None, Some(back_to(query, cursor))),
        Direction::Backward if rows.is_empty() => (Some(back_to(query, cursor)), None),
        Direction::Forward => (if more { last(&rows) } else { None }, first(&rows)),
        Direction::Backward => {
            rows.reverse();
            (last(&rows), if more { first(&rows) } else { None })
        }
    };
    Ok(listing_page(rows, total, next, prev))
}

fn listing_page(rows: Vec<Row>, total: Option<u64>, next: Option<Cursor>, prev: Option<Cursor>) -> ListingPage {
    ListingPage { comments: rows.into_iter().filter_map(|row| row.comment).collect(), total, next, prev, as_of: None }
}

/// Where the page after these rows starts.
fn last(rows: &[Row]) -> Option<Cursor> {
    let at = rows.iter().rev().find_map(|row| row.cd.clone())?;
    Some(Cursor { direction: Direction::Forward, at })
}

/// Where the page before these rows ends.
fn first(rows: &[Row]) -> Option<Cursor> {
    let at = rows.iter().find_map(|row| row.cd.clone())?;
    Some(Cursor { direction: Direction::Backward, at })
}

/// The cursor in the opposite direction, for an empty page that a cursor led to. It leads to the comments up to and
/// including the cursor's own.
fn back_to(query: &ListingQuery, cursor: &Cursor) -> Cursor {
    let beyond = match order_at(query, cursor) {
        Order::Newest => cursor.at.just_before(),
        Order::Oldest => cursor.at.just_after(),
    };
    Cursor { direction: cursor.direction.reversed(), at: beyond.unwrap_or_else(|| cursor.at.clone()) }
}

#[cfg(test)]
pub(crate) mod tests;
