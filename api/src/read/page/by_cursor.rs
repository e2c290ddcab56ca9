//! Pages by cursor: the union of ranks and rows from a position on.
//!
//! The page index and the table are asked in parallel for what follows the cursor. Either may
//! lack a comment that the other has: a duplicate or a rank may be late or lost. So the page shows
//! what either has, as far as both have been read: up to the [horizon](horizon). Past the last
//! rank, the table decides.
//!
//! **Invariant:** walking the cursors shows every comment once whose duplicate or rank exists. A
//! page whose comments have been deleted leads back (`a_cursor_whose_page_was_deleted_leads_back`).

use std::collections::BTreeSet;

use model::{
    Cd, Comment, Filter, Order,
    planted::{self, Bug},
};
use page_index::{Ranked, RankedQuery};
use table::Page;

use super::{
    ListingPage, PageRequest,
    join::{Joined, Ranks},
};
use crate::{
    error::ApiError,
    read::cursor::{Cursor, Direction},
    store::StoreClients,
};

impl PageRequest<'_> {
    /// What follows a cursor in the page index: one comment more than the page shows.
    pub(super) fn ranks_after<'asked>(
        &'asked self,
        cursor: &'asked Cursor,
        all: RankedQuery<'asked>,
    ) -> RankedQuery<'asked> {
        RankedQuery {
            order: self.order_from(cursor.direction),
            after: Some(&cursor.at),
            count: u16::from(self.query.page_size.get()) + 1,
            ..all
        }
    }

    /// The order in which a page is read that a cursor leads to.
    pub(super) fn order_from(&self, direction: Direction) -> Order {
        match direction {
            Direction::Forward => self.query.order,
            Direction::Backward => self.query.order.reversed(),
        }
    }

    /// Makes the page from what the page index and the table have after the cursor.
    ///
    /// # Errors
    /// More rows follow, and none says where; the table's.
    pub(super) async fn read_by_cursor(
        &self,
        cursor: &Cursor,
        stores: &StoreClients,
        ranked: &Ranked,
        mut rows: Page,
    ) -> Result<ListingPage, ApiError> {
        let order = self.order_from(cursor.direction);
        let horizon = self.horizon(order, ranked, &rows)?;
        let ranks = self.ranks_within(order, horizon.as_ref(), &ranked.comments);
        if self.query.filter == Filter::ANY {
            // These are primary items. An invalid one implies no rank, so none is missing.
            rows.malformed.clear();
        }
        let rows = rows_within(&ranks, horizon.as_ref(), rows);
        let joined = self.join(stores, ranks, rows).await?;
        let listing = self.cut_by_cursor(cursor, horizon, joined);
        Ok(ListingPage {
            total: Some(ranked.all),
            ..listing
        })
    }

    /// The last position up to which both the ranks and the rows are known; `None` when both were
    /// read to the end of the listing.
    ///
    /// # Errors
    /// More rows follow, and none of those that were read says where.
    fn horizon(&self, order: Order, ranked: &Ranked, rows: &Page) -> Result<Option<Cd>, ApiError> {
        let ranks_max = usize::from(self.query.page_size.get()) + 1;
        let mut ends = Vec::new();
        if ranked.comments.len() >= ranks_max {
            ends.extend(ranked.comments.last().cloned());
        }
        if rows.has_more {
            let comment = rows.comments.last().map(Comment::cd);
            let malformed = rows.malformed.iter().rev().find_map(|item| item.cd.clone());
            let last = [comment, malformed]
                .into_iter()
                .flatten()
                .max_by(|a, b| order.compare(a, b));
            ends.push(last.ok_or(ApiError::NotYetListed)?);
        }
        Ok(ends.into_iter().min_by(|a, b| order.compare(a, b)))
    }

    fn ranks_within<'page>(
        &self,
        order: Order,
        horizon: Option<&Cd>,
        comments: &'page [Cd],
    ) -> Ranks<'page> {
        let known = match horizon {
            Some(end) => comments.partition_point(|cd| order.compare(cd, end).is_le()),
            None => comments.len(),
        };
        let mut comments = comments.get(..known).unwrap_or_default();
        if planted::has(Bug::WalkPassesOverLostDuplicates) {
            comments = &[];
        }
        Ranks {
            end: None,
            shows_unranked: true,
            ..Ranks::of_page(order, self.query.page_size, comments)
        }
    }

    fn cut_by_cursor(&self, cursor: &Cursor, horizon: Option<Cd>, joined: Joined) -> ListingPage {
        let Joined {
            mut comments,
            first,
            last,
            is_cut,
            is_followed,
            has_empty_places,
            ..
        } = joined;
        // A page of which nothing can be shown leads on, too.
        let Some(last) = last.or(horizon) else {
            return self.nothing_behind(cursor);
        };
        let back = Cursor {
            direction: cursor.direction.reversed(),
            at: first.unwrap_or_else(|| last.clone()),
        };
        let onwards = if is_cut || is_followed {
            Some(Cursor {
                direction: cursor.direction,
                at: last,
            })
        } else {
            None
        };
        let (next, prev) = match cursor.direction {
            Direction::Forward => (onwards, Some(back)),
            Direction::Backward => (Some(back), onwards),
        };
        if cursor.direction == Direction::Backward {
            comments.reverse();
        }
        ListingPage {
            comments,
            next,
            prev,
            has_empty_places,
            continues_by_cursor: true,
            ..ListingPage::default()
        }
    }

    /// The page of a cursor behind which nothing is left. It leads back to the comments up to and
    /// including the cursor's own.
    pub(super) fn nothing_behind(&self, cursor: &Cursor) -> ListingPage {
        let beyond = match self.order_from(cursor.direction) {
            Order::Newest => cursor.at.just_before(),
            Order::Oldest => cursor.at.just_after(),
        };
        let back = Cursor {
            direction: cursor.direction.reversed(),
            at: beyond.unwrap_or_else(|| cursor.at.clone()),
        };
        let mut page = ListingPage {
            continues_by_cursor: true,
            ..ListingPage::default()
        };
        match back.direction {
            Direction::Forward => page.next = Some(back),
            Direction::Backward => page.prev = Some(back),
        }
        page
    }
}

/// The rows up to the horizon: those of ranks with their comments, the others by their positions.
fn rows_within(ranks: &Ranks<'_>, horizon: Option<&Cd>, rows: Page) -> Page {
    let ranked: BTreeSet<&Cd> = ranks.comments.iter().collect();
    let mut comments = Vec::new();
    let mut others = Vec::new();
    for comment in rows.comments {
        if ranked.contains(&comment.cd()) {
            comments.push(comment);
        } else {
            others.push(comment.cd());
        }
    }
    let malformed = rows.malformed.into_iter().filter_map(|item| item.cd);
    others.extend(malformed.filter(|cd| !ranked.contains(cd)));
    others.sort_by(|a, b| ranks.order.compare(a, b));
    if let Some(end) = horizon {
        others.retain(|cd| ranks.order.compare(cd, end).is_le());
    }
    if planted::has(Bug::WalkPassesOverLostRanks) {
        others.clear();
    }
    Page {
        comments,
        others,
        has_more: horizon.is_some(),
        ..Page::default()
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use proptest::prelude::*;

    use super::{
        super::{
            PageAt,
            tests::{comment, query},
        },
        *,
    };

    /// A comment, or what is left of it.
    #[derive(Debug, Clone, Copy)]
    struct Traces {
        rank: bool,
        row: bool,
        exists: bool,
    }

    fn traces() -> impl Strategy<Value = Traces> {
        any::<(bool, bool, bool)>().prop_map(|(rank, row, exists)| Traces { rank, row, exists })
    }

    /// Comments of the milliseconds 1, 2, …, that have been asked for in an order.
    struct Stores<'a> {
        traces: &'a [Traces],
        /// The most rows that one answer of the table has.
        rows_max: usize,
    }

    impl Stores<'_> {
        fn having(&self, order: Order, has: impl Fn(&Traces) -> bool) -> Vec<Comment> {
            let mut found = Vec::new();
            for (ms, traces) in (1..).zip(self.traces) {
                if has(traces) {
                    found.push(comment(ms));
                }
            }
            if order == Order::Newest {
                found.reverse();
            }
            found
        }

        fn follow(comments: &mut Vec<Comment>, order: Order, cursor: &Cursor) {
            comments.retain(|comment| order.compare(&comment.cd(), &cursor.at).is_gt());
        }

        fn page(&self, request: &PageRequest<'_>, cursor: &Cursor) -> ListingPage {
            let order = request.order_from(cursor.direction);
            let asked = request.ranks_after(cursor, request.query.ranked_query());
            let mut ranks = self.having(order, |traces| traces.rank);
            Self::follow(&mut ranks, order, cursor);
            ranks.truncate(asked.count.into());
            let ranked = Ranked {
                comments: ranks.iter().map(Comment::cd).collect(),
                total: 0,
                settled: 0,
                all: 0,
                reached: Timestamp::MAX,
                stats: None,
            };
            let mut rows = self.having(order, |traces| traces.row);
            Self::follow(&mut rows, order, cursor);
            let rows_max = self.rows_max.min(asked.count.into());
            let has_more = rows.len() > rows_max;
            rows.truncate(rows_max);
            let rows = Page {
                comments: rows,
                has_more,
                ..Page::default()
            };
            let horizon = request.horizon(order, &ranked, &rows).unwrap();
            let ranks = request.ranks_within(order, horizon.as_ref(), &ranked.comments);
            let rows = rows_within(&ranks, horizon.as_ref(), rows);
            let mut join = super::super::Join::new(ranks, rows);
            let missing = join.missing();
            let mut found = self.having(order, |traces| traces.exists);
            found.retain(|comment| missing.contains(&comment.id));
            join.fill(request.query, found.into_iter());
            request.cut_by_cursor(cursor, horizon, join.finish())
        }
    }

    proptest! {
        #[test]
        fn a_walk_shows_once_what_has_a_rank_or_a_row(
            traces in prop::collection::vec(traces(), 0..14),
            size in 1..4_u64,
            rows_max in 1..6_usize,
            order in prop_oneof![Just(Order::Newest), Just(Order::Oldest)],
            direction in prop_oneof![Just(Direction::Forward), Just(Direction::Backward)],
        ) {
            let query = query(order, size);
            let stores = Stores { traces: &traces, rows_max };
            let end = i64::try_from(traces.len()).unwrap() + 1;
            let request = PageRequest { query: &query, at: PageAt::Front };
            let read_in = request.order_from(direction);
            let begin = if read_in == Order::Newest { end } else { 0 };
            let mut cursor = Some(Cursor { direction, at: comment(begin).cd() });
            let mut shown: Vec<Comment> = Vec::new();
            let mut pages = 0;
            while let Some(at) = cursor {
                let mut page = stores.page(&request, &at);
                prop_assert!(page.comments.len() <= usize::try_from(size).unwrap());
                if direction == Direction::Backward {
                    page.comments.reverse();
                }
                shown.extend(page.comments);
                cursor = match direction {
                    Direction::Forward => page.next,
                    Direction::Backward => page.prev,
                };
                // The page behind the last comment leads back.
                cursor = cursor.filter(|cursor| cursor.direction == direction);
                pages += 1;
                prop_assert!(pages < 30, "the walk does not end");
            }
            // A row is shown as it is if it has a rank; all others are looked up.
            let expected = stores.having(read_in, |traces| {
                (traces.rank && traces.row) || (traces.exists && (traces.rank || traces.row))
            });
            prop_assert_eq!(shown, expected);
        }
    }
}
