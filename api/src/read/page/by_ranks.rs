//! Pages that the ranks make: how each is read, and what it says.
//!
//! **A page in the listing's order** has `page_size` ranks. Page 1 shows the table's comments
//! without a rank too, so that cursors lead from there to all. Other pages leave them out: they
//! would be on two.
//!
//! **An archive page** (`model::StablePages`) has the ranks of its number in the oldest-first
//! listing, turned around. Only settled comments count, so one that gets its rank late does not
//! change the page.
//!
//! **The front page** has the ranks that the archive pages leave, and shows the table's comments
//! without a rank too. It never shows more than [`StablePages::front_max`]. If more belong to it,
//! it leads on by cursor.

use model::{Comment, Order, PageNumber, StablePages, Timestamp};
use page_index::Ranked;

use super::{
    ListingPage, PageAt, PageRequest,
    join::{After, Joined, Ranks},
    just_after,
};
use crate::{
    error::ApiError,
    read::cursor::{Cursor, Direction},
};

impl PageRequest<'_> {
    fn stable_pages(&self, total: u64) -> StablePages {
        StablePages::new(total, self.query.page_size)
    }

    /// How the page is read; `None` when the number of an archive page leads to the front page.
    ///
    /// # Errors
    /// Past the end.
    pub(super) fn plan<'page>(
        &self,
        ranked: &'page Ranked,
    ) -> Result<Option<Ranks<'page>>, ApiError> {
        match self.at {
            PageAt::Number(number, as_of) => self.plan_number(number, as_of, ranked).map(Some),
            PageAt::Archive(number) => {
                let page = number.get();
                let archived = self.stable_pages(ranked.settled).archived();
                if page <= archived {
                    return Ok(Some(Ranks::of_page(
                        Order::Oldest,
                        self.query.page_size,
                        &ranked.comments,
                    )));
                }
                let is_ahead = page <= self.stable_pages(ranked.all).count();
                if is_ahead {
                    Ok(None)
                } else {
                    Err(ApiError::PastTheArchive { page, archived })
                }
            }
            PageAt::Front | PageAt::Cursor(_) => Ok(Some(self.plan_front(ranked))),
        }
    }

    fn plan_number<'page>(
        &self,
        number: PageNumber,
        as_of: Option<Timestamp>,
        ranked: &'page Ranked,
    ) -> Result<Ranks<'page>, ApiError> {
        let order = self.query.order.within_a_rating();
        let size = self.query.page_size;
        let page = number.get();
        let total_pages = size.total_pages(ranked.total);
        if page > total_pages {
            return Err(ApiError::PastTheEnd { page, total_pages });
        }
        let ranks = Ranks {
            as_of,
            ..Ranks::of_page(order, size, &ranked.comments)
        };
        if number != PageNumber::FIRST {
            return Ok(ranks);
        }
        let start = as_of
            .filter(|_| order == Order::Newest)
            .and_then(just_after);
        let end = ranks.end.filter(|_| ranks.comments.len() >= ranks.max);
        Ok(Ranks {
            start,
            end,
            shows_unranked: true,
            ..ranks
        })
    }

    fn plan_front<'page>(&self, ranked: &'page Ranked) -> Ranks<'page> {
        let max = usize::from(StablePages::front_max(self.query.page_size));
        let on_front = usize::try_from(self.on_front(ranked)).unwrap_or(usize::MAX);
        let (comments, archived) = ranked
            .comments
            .split_at(on_front.min(max).min(ranked.comments.len()));
        let end = if on_front > max {
            comments.last()
        } else {
            archived.first()
        };
        let ranks = Ranks::of_page(Order::Newest, self.query.page_size, comments);
        Ranks {
            start: None,
            end,
            max,
            shows_unranked: true,
            ..ranks
        }
    }

    fn archived(&self, ranked: &Ranked) -> u64 {
        self.stable_pages(ranked.settled).archived() * u64::from(self.query.page_size.get())
    }

    /// Number of ranked comments that the archive pages leave.
    fn on_front(&self, ranked: &Ranked) -> u64 {
        ranked.all.saturating_sub(self.archived(ranked))
    }

    /// The instant that page numbers refer to. The shown comments count, so that the next page
    /// continues after them (ADR 33).
    pub(super) fn reached(&self, ranked: &Ranked, shown: &[Comment]) -> Timestamp {
        let newest = shown.iter().map(|comment| comment.created_at).max();
        let reached = match newest {
            Some(newest) => ranked.reached.max(newest.min(process::now())),
            None => ranked.reached,
        };
        self.as_of().unwrap_or(reached)
    }

    pub(super) fn cut(&self, ranked: &Ranked, joined: Joined) -> ListingPage {
        let size = self.query.page_size;
        let shown = joined.comments.len() as u64;
        let next = joined.last.map(|at| Cursor::new(Direction::Forward, at));
        let prev = joined.first.map(|at| Cursor::new(Direction::Backward, at));
        let mut comments = joined.comments;
        let of_ranks = ListingPage {
            settled: Some(ranked.settled),
            has_empty_places: joined.has_empty_places,
            ..ListingPage::default()
        };
        match self.at {
            PageAt::Number(number, _) => {
                let total = at_least(ranked.total, number.skip(size), shown);
                let leads_on =
                    joined.after != After::Nothing || number.get() < size.total_pages(total);
                ListingPage {
                    as_of: Some(self.reached(ranked, &comments)),
                    comments,
                    total: Some(total),
                    next: next.filter(|_| leads_on),
                    prev: prev.filter(|_| number != PageNumber::FIRST),
                    ..of_ranks
                }
            }
            PageAt::Archive(number) => {
                comments.reverse();
                ListingPage {
                    comments,
                    total: of_ranks.settled,
                    next: prev
                        .filter(|_| number != PageNumber::FIRST)
                        .map(|cursor| cursor.reversed()),
                    prev: next.map(|cursor| cursor.reversed()),
                    ..of_ranks
                }
            }
            PageAt::Front | PageAt::Cursor(_) => {
                let archived = self.archived(ranked);
                let continues_by_cursor = joined.after == After::ThisPage
                    || self.on_front(ranked) > StablePages::front_max(size).into();
                ListingPage {
                    comments,
                    total: Some(at_least(ranked.all, archived, shown)),
                    next: next.filter(|_| continues_by_cursor || archived > 0),
                    continues_by_cursor,
                    ..of_ranks
                }
            }
        }
    }
}

/// How many comments there are. The page index may be a moment behind, but the shown comments
/// exist.
fn at_least(counted: u64, before: u64, shown: u64) -> u64 {
    if shown == 0 {
        counted
    } else {
        counted.max(before + shown)
    }
}
