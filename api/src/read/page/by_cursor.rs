//! Pages by cursor, and the first page while the page index is away: each is one stretch of the
//! listing.
//!
//! **Invariant:** walking the cursors shows every comment once whose duplicate or rank exists. A
//! page whose comments have been deleted leads back (`a_cursor_whose_page_was_deleted_leads_back`).

use model::{Cd, Comment, Order, Rating};

use super::{
    ListingPage, PageRequest,
    join::{After, Joined},
    just_after,
    stretch::Stretch,
};
use crate::{
    error::ApiError,
    read::cursor::{Cursor, Direction},
};

impl PageRequest<'_> {
    /// What follows a cursor, in the direction in which it leads.
    pub(super) fn stretch_from<'asked>(&'asked self, cursor: &'asked Cursor) -> Stretch<'asked> {
        Stretch {
            listing: self.query,
            order: order_from(self.query.order.within_a_rating(), cursor.direction),
            after: Some(&cursor.at),
            max: self.query.page_size.get().into(),
            as_of: None,
        }
    }

    /// The position where the first page begins if comments dated later do not exist.
    pub(super) fn beginning(&self) -> Option<Cd> {
        match self.query.order.within_a_rating() {
            Order::Newest => self.as_of().and_then(just_after),
            Order::Oldest => None,
        }
    }

    /// The first page of the listing. `after` is its [beginning](PageRequest::beginning).
    pub(super) fn first_stretch<'asked>(
        &'asked self,
        after: Option<&'asked Cd>,
    ) -> Stretch<'asked> {
        Stretch {
            listing: self.query,
            order: self.query.order.within_a_rating(),
            after,
            max: self.query.page_size.get().into(),
            as_of: self.as_of(),
        }
    }

    /// The first page, without the page index.
    ///
    /// # Errors
    /// It has no comment: the table's own index may be behind.
    pub(super) fn cut_first(
        &self,
        comments: Vec<Comment>,
        next: Option<Cursor>,
    ) -> Result<ListingPage, ApiError> {
        if comments.is_empty() && next.is_none() {
            return Err(ApiError::IndexUnavailable);
        }
        Ok(ListingPage {
            comments,
            next,
            as_of: self.as_of(),
            continues_by_cursor: true,
            ..ListingPage::default()
        })
    }
}

/// The order in which a page is read that a cursor of this direction leads to.
pub(super) fn order_from(order: Order, direction: Direction) -> Order {
    match direction {
        Direction::Forward => order,
        Direction::Backward => order.reversed(),
    }
}

/// What was read from a position on.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// In the order of reading.
    pub(super) comments: Vec<Comment>,
    /// From the first comment back; `None` where nothing was found.
    pub(super) back: Option<Cursor>,
    /// From the last comment on; `None` where nothing was found.
    pub(super) onwards: Option<Cursor>,
    /// Whether more comments follow the last one.
    pub(super) leads_on: bool,
    pub(super) has_empty_places: bool,
}

impl Walked {
    pub(super) fn of_stretch(direction: Direction, joined: Joined) -> Self {
        let mut walked = Self {
            leads_on: joined.after != After::Nothing,
            ..Self::default()
        };
        walked.add(direction, None, joined);
        walked
    }

    /// Adds what was read next. It is of this rating, in a listing that is ordered by rating.
    pub(super) fn add(&mut self, direction: Direction, rating: Option<Rating>, joined: Joined) {
        if self.back.is_none() {
            self.back = joined.first.map(|at| Cursor {
                direction: direction.reversed(),
                rating,
                at,
            });
        }
        if let Some(at) = joined.last {
            self.onwards = Some(Cursor {
                direction,
                rating,
                at,
            });
        }
        self.comments.extend(joined.comments);
        self.has_empty_places |= joined.has_empty_places;
    }

    /// The page that a cursor leads to.
    pub(super) fn into_page(self, order: Order, cursor: &Cursor) -> ListingPage {
        let Some(last) = self.onwards else {
            return nothing_behind(order, cursor);
        };
        let back = self.back.unwrap_or_else(|| last.reversed());
        let onwards = if self.leads_on { Some(last) } else { None };
        let mut comments = self.comments;
        let (next, prev) = match cursor.direction {
            Direction::Forward => (onwards, Some(back)),
            Direction::Backward => {
                comments.reverse();
                (Some(back), onwards)
            }
        };
        ListingPage {
            comments,
            next,
            prev,
            has_empty_places: self.has_empty_places,
            continues_by_cursor: true,
            ..ListingPage::default()
        }
    }
}

/// The page of a cursor behind which nothing is left. It leads back to the comments up to and
/// including the cursor's own. `order` is that of the listing, by time.
fn nothing_behind(order: Order, cursor: &Cursor) -> ListingPage {
    let beyond = match order_from(order, cursor.direction) {
        Order::Newest => cursor.at.just_before(),
        Order::Oldest => cursor.at.just_after(),
    };
    let at = beyond.unwrap_or_else(|| cursor.at.clone());
    let back = Cursor {
        at,
        ..cursor.reversed()
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

#[cfg(test)]
mod tests {
    use model::{ListingOrder, Timestamp};
    use page_index::Ranked;
    use proptest::prelude::*;
    use table::Page;

    use super::{
        super::{
            PageAt,
            join::Join,
            stretch::leading_on,
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
            let stretch = request.stretch_from(cursor);
            let order = stretch.order;
            let limit = usize::from(stretch.table_query().limit);
            let mut ranks = self.having(order, |traces| traces.rank);
            Self::follow(&mut ranks, order, cursor);
            ranks.truncate(limit);
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
            let rows_max = self.rows_max.min(limit);
            let has_more = rows.len() > rows_max;
            rows.truncate(rows_max);
            let rows = Page {
                comments: rows,
                has_more,
                ..Page::default()
            };
            let horizon = stretch.horizon(&ranked, &rows).unwrap();
            let (ranks, rows) = stretch.within(horizon.as_ref(), &ranked, rows);
            let mut join = Join::new(ranks, rows);
            let missing = join.missing();
            let mut found = self.having(order, |traces| traces.exists);
            found.retain(|comment| missing.contains(&comment.id));
            join.fill(request.query, found.into_iter());
            let joined = leading_on(horizon, join.finish());
            Walked::of_stretch(cursor.direction, joined)
                .into_page(request.query.order.within_a_rating(), cursor)
        }
    }

    proptest! {
        #[test]
        fn a_walk_shows_once_what_has_a_rank_or_a_row(
            traces in prop::collection::vec(traces(), 0..14),
            size in 1..4_u64,
            rows_max in 1..6_usize,
            order in prop_oneof![Just(ListingOrder::Newest), Just(ListingOrder::Oldest)],
            direction in prop_oneof![Just(Direction::Forward), Just(Direction::Backward)],
        ) {
            let query = query(order, size);
            let stores = Stores { traces: &traces, rows_max };
            let end = i64::try_from(traces.len()).unwrap() + 1;
            let request = PageRequest { query: &query, at: PageAt::Front };
            let read_in = order_from(order.within_a_rating(), direction);
            let begin = if read_in == Order::Newest { end } else { 0 };
            let mut cursor = Some(Cursor::new(direction, comment(begin).cd()));
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
