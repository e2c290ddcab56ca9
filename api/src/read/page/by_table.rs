//! Pages that the table alone makes: those of cursors, and the first page while the page index is away.
//!
//! **Invariant:** walking the cursors from page 1 shows every comment once. A page whose comments have been deleted
//! leads back (`an_empty_page_leads_back_to_the_comment_that_led_to_it`).
//!
//! **Invariant:** a malformed duplicate is left out, takes its place in the page, and hides no other comment
//! (`a_malformed_item_keeps_its_place_and_hides_nothing`). An invalid primary item has no rank, so it takes no place
//! (`Table::page`).

use model::{Cd, Comment, Order, Timestamp};
use table::{Page, PageQuery};

use super::{ListingPage, just_after};
use crate::{
    error::ApiError,
    read::{
        ListingQuery,
        cursor::{Cursor, Direction},
    },
};

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
}

/// The rows of a page, without comments dated after `as_of`, and whether more follow.
fn rows(page: Page, size: usize, as_of: Option<Timestamp>) -> (Vec<Row>, bool) {
    let Page { comments, malformed, cut_short, .. } = page;
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
    let more = rows.len() == answered && (answered > size || cut_short);
    rows.truncate(size);
    (rows, more)
}

fn listing_page(rows: Vec<Row>, next: Option<Cursor>, prev: Option<Cursor>) -> ListingPage {
    let comment = |row| if let Row::Comment(comment) = row { Some(comment) } else { None };
    let comments = rows.into_iter().filter_map(comment).collect();
    ListingPage { next, prev, continues_by_cursor: true, ..ListingPage::of(comments) }
}

fn last(rows: &[Row]) -> Option<Cursor> {
    let at = rows.iter().rev().find_map(Row::cd)?;
    Some(Cursor { direction: Direction::Forward, at })
}

fn first(rows: &[Row]) -> Option<Cursor> {
    let at = rows.iter().find_map(Row::cd)?;
    Some(Cursor { direction: Direction::Backward, at })
}

/// The first page of a listing while the page index is away.
#[derive(Debug)]
pub(super) struct FirstPage<'query> {
    pub(super) query: &'query ListingQuery,
    pub(super) as_of: Option<Timestamp>,
}

impl FirstPage<'_> {
    pub(super) fn plan(&self) -> PageQuery {
        let boundary = self.as_of.filter(|_| self.query.order == Order::Newest).and_then(just_after);
        self.query.whole_page(self.query.order, boundary)
    }

    /// # Errors
    /// [`ApiError::IndexUnavailable`] without comments: the table's own index may be behind.
    pub(super) fn cut(&self, page: Page) -> Result<ListingPage, ApiError> {
        let (rows, more) = rows(page, self.query.page_size.get().into(), self.as_of);
        if rows.is_empty() {
            return Err(ApiError::IndexUnavailable);
        }
        let next = if more { last(&rows) } else { None };
        Ok(ListingPage { as_of: self.as_of, ..listing_page(rows, next, None) })
    }
}

#[derive(Debug)]
pub(super) struct CursorPage<'query> {
    pub(super) query: &'query ListingQuery,
    pub(super) cursor: &'query Cursor,
}

impl CursorPage<'_> {
    pub(super) fn plan(&self) -> PageQuery {
        self.query.whole_page(self.order(), Some(self.cursor.at.clone()))
    }

    pub(super) fn order(&self) -> Order {
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
    pub(super) fn cut(&self, page: Page) -> Result<ListingPage, ApiError> {
        let (mut rows, more) = rows(page, self.query.page_size.get().into(), None);
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
        Ok(listing_page(rows, next, prev))
    }

    /// The cursor in the opposite direction, for an empty page. It leads to the comments up to and including the
    /// cursor's own.
    fn back(&self) -> Cursor {
        let Cursor { direction, at } = self.cursor;
        let beyond = match self.order() {
            Order::Newest => at.just_before(),
            Order::Oldest => at.just_after(),
        };
        Cursor { direction: direction.reversed(), at: beyond.unwrap_or_else(|| at.clone()) }
    }
}
