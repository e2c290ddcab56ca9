//! Pages that the table alone makes while the page index is away: the first one, and those of
//! cursors. They lack what duplicates lack.
//!
//! **Invariant:** a malformed duplicate is left out, takes its place in the page, and hides no
//! other comment (`a_malformed_item_keeps_its_place_and_hides_nothing`). An invalid primary item
//! has no rank, so it takes no place (`Table::page`).

use model::{
    Cd, Comment, Order,
    planted::{self, Bug},
};
use table::{Page, PageQuery};

use super::{ListingPage, PageAt, PageRequest, just_after};
use crate::{
    error::ApiError,
    read::cursor::{Cursor, Direction},
};

/// A row: its place in the order, and its comment. A malformed item has no comment, and may have no
/// place.
type Row = (Option<Cd>, Option<Comment>);

impl PageRequest<'_> {
    fn cursor(&self) -> Option<&Cursor> {
        if let PageAt::Cursor(cursor) = &self.at {
            Some(cursor)
        } else {
            None
        }
    }

    /// How the table is asked for the page: for its first rows, unless a cursor leads to it.
    pub(super) fn table_query(&self) -> PageQuery {
        let mut start = match self.cursor() {
            Some(cursor) => Some(cursor.at.clone()),
            None if self.query.order == Order::Newest => self.as_of().and_then(just_after),
            None => None,
        };
        if planted::has(Bug::CursorRepeats) {
            start = start.and_then(|start| start.just_after());
        }
        self.query.page_query(
            self.table_order(),
            u16::from(self.query.page_size.get()) + 1,
            start,
        )
    }

    fn table_order(&self) -> Order {
        match self.cursor() {
            Some(cursor) => self.order_from(cursor.direction),
            None => self.query.order,
        }
    }

    /// The rows of the page, and whether more follow.
    fn rows(
        &self,
        Page {
            comments,
            malformed,
            cut_short,
            ..
        }: Page,
    ) -> (Vec<Row>, bool) {
        let size = usize::from(self.query.page_size.get());
        let mut rows: Vec<Row> = comments
            .into_iter()
            .map(|comment| (Some(comment.cd()), Some(comment)))
            .collect();
        for item in malformed {
            // They come in order, so all earlier items are in place.
            rows.insert(item.index.min(rows.len()), (item.cd, None));
        }
        let answered = rows.len();
        let as_of = self.as_of();
        let is_later = |cd: &Cd| as_of.is_some_and(|as_of| cd.created_at > as_of);
        rows.retain(|(cd, _)| !cd.as_ref().is_some_and(is_later));
        // Newest first, the query begins below `as_of`. Oldest first, everything after a later row
        // is later too.
        let more = rows.len() == answered && (answered > size || cut_short);
        rows.truncate(size);
        (rows, more)
    }

    /// Makes the page from the table's answer.
    ///
    /// # Errors
    /// The first page has no comment: the table's own index may be behind. Or all rows behind a
    /// cursor are invalid items, which wait for the repair job: none says where the next page
    /// starts.
    pub(super) fn cut_rows(&self, page: Page) -> Result<ListingPage, ApiError> {
        let (mut rows, more) = self.rows(page);
        if rows.is_empty() && self.cursor().is_none() {
            return Err(ApiError::IndexUnavailable);
        }
        if more && rows.iter().all(|(cd, _)| cd.is_none()) {
            return Err(ApiError::NotYetListed);
        }
        if let Some(cursor) = self.cursor()
            && rows.is_empty()
        {
            return Ok(self.nothing_behind(cursor));
        }
        let (next, prev) = match self.cursor() {
            None => (last(&rows).filter(|_| more), None),
            Some(Cursor {
                direction: Direction::Forward,
                ..
            }) => (last(&rows).filter(|_| more), first(&rows)),
            Some(Cursor {
                direction: Direction::Backward,
                ..
            }) => {
                rows.reverse();
                (last(&rows), first(&rows).filter(|_| more))
            }
        };
        let comments = rows
            .into_iter()
            .filter_map(|(_, comment)| comment)
            .collect();
        let as_of = self.as_of();
        Ok(ListingPage {
            comments,
            next,
            prev,
            as_of,
            continues_by_cursor: true,
            ..ListingPage::default()
        })
    }
}

fn last(rows: &[Row]) -> Option<Cursor> {
    let at = rows.iter().rev().find_map(|(cd, _)| cd.clone())?;
    Some(Cursor {
        direction: Direction::Forward,
        at,
    })
}

fn first(rows: &[Row]) -> Option<Cursor> {
    let at = rows.iter().find_map(|(cd, _)| cd.clone())?;
    Some(Cursor {
        direction: Direction::Backward,
        at,
    })
}
