//! A stretch of a listing: the union of ranks and rows from a position on, in an order of time.
//!
//! The page index and the table are asked in parallel for what follows the position. Either may
//! lack a comment that the other has: a duplicate or a rank may be late or lost. So the stretch has
//! what either has, as far as both have been read: up to the [horizon](Stretch::horizon). Past the
//! last rank, the table decides.
//!
//! While the page index is away, a stretch has the rows alone, and lacks what duplicates lack.
//!
//! **Invariant:** a malformed duplicate is left out, takes its place, and hides no other comment
//! (`a_malformed_item_keeps_its_place_and_hides_nothing`). An invalid primary item has no rank, so
//! it takes no place.

use std::collections::BTreeSet;

use model::{
    Cd, Comment, Filter, Order, Timestamp,
    planted::{self, Bug},
};
use page_index::{Ranked, RankedQuery};
use table::{Page, PageQuery};

use super::join::{self, After, Joined, Ranks};
use crate::{error::ApiError, read::ListingQuery, store::StoreClients};

/// A row: its position, and its comment. A malformed item has no comment, and may have no position.
type Row = (Option<Cd>, Option<Comment>);

#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch<'page> {
    pub(super) listing: &'page ListingQuery,
    /// The order in which it is read.
    pub(super) order: Order,
    /// The position that it follows, which need not be that of a comment. `None`: it begins with
    /// the listing.
    pub(super) after: Option<&'page Cd>,
    /// The most comments that it may have. It is read one comment further, to see whether it ends
    /// there.
    pub(super) max: u16,
    /// Comments dated later do not exist for it. Only a stretch of rows alone has such an instant.
    pub(super) as_of: Option<Timestamp>,
}

impl<'page> Stretch<'page> {
    /// What the page index is asked for.
    pub(super) fn ranked_query(&self) -> RankedQuery<'page> {
        RankedQuery {
            order: self.order,
            after: self.after,
            count: self.max + 1,
            ..self.listing.ranked_query()
        }
    }

    /// What the table is asked for.
    pub(super) fn table_query(&self) -> PageQuery {
        let mut start = self.after.cloned();
        if planted::has(Bug::CursorRepeats) {
            start = start.and_then(|start| start.just_after());
        }
        self.listing.page_query(self.order, self.max + 1, start)
    }

    /// The comments of the stretch, from the answers of the page index and of the table. Without
    /// the former, from the latter alone.
    ///
    /// # Errors
    /// More rows follow, and none says where: they are invalid items, which wait for the repair
    /// job. The table's.
    pub(super) async fn read(
        &self,
        stores: &StoreClients,
        ranked: Option<&Ranked>,
        rows: Page,
    ) -> Result<Joined, ApiError> {
        let Some(ranked) = ranked else {
            return self.of_rows(rows);
        };
        let horizon = self.horizon(ranked, &rows)?;
        let (ranks, rows) = self.within(horizon.as_ref(), ranked, rows);
        let joined = join::read(self.listing, stores, ranks, rows).await?;
        Ok(leading_on(horizon, joined))
    }

    /// The last position up to which both the ranks and the rows are known; `None` when both were
    /// read to the end of the listing.
    pub(super) fn horizon(&self, ranked: &Ranked, rows: &Page) -> Result<Option<Cd>, ApiError> {
        let mut ends = Vec::new();
        if ranked.comments.len() > usize::from(self.max) {
            ends.extend(ranked.comments.last().cloned());
        }
        if rows.has_more {
            let comment = rows.comments.last().map(Comment::cd);
            let malformed = rows.malformed.iter().rev().find_map(|item| item.cd.clone());
            let last = [comment, malformed]
                .into_iter()
                .flatten()
                .max_by(|a, b| self.order.compare(a, b));
            ends.push(last.ok_or(ApiError::NotYetListed)?);
        }
        Ok(ends.into_iter().min_by(|a, b| self.order.compare(a, b)))
    }

    /// The ranks and the rows up to the horizon: rows of ranks with their comments, the others by
    /// their positions.
    pub(super) fn within<'ranked>(
        &self,
        horizon: Option<&Cd>,
        ranked: &'ranked Ranked,
        rows: Page,
    ) -> (Ranks<'ranked>, Page) {
        let order = self.order;
        let is_within = |cd: &Cd| horizon.is_none_or(|end| order.compare(cd, end).is_le());
        let known = ranked.comments.partition_point(is_within);
        let mut ranks = ranked.comments.get(..known).unwrap_or_default();
        if planted::has(Bug::WalkPassesOverLostDuplicates) {
            ranks = &[];
        }
        let has_rank: BTreeSet<&Cd> = ranks.iter().collect();
        let mut comments = Vec::new();
        let mut others = Vec::new();
        for comment in rows.comments {
            if has_rank.contains(&comment.cd()) {
                comments.push(comment);
            } else {
                others.push(comment.cd());
            }
        }
        if self.listing.filter != Filter::ANY {
            let malformed = rows.malformed.into_iter().filter_map(|item| item.cd);
            others.extend(malformed.filter(|cd| !has_rank.contains(cd)));
            others.sort_by(|a, b| order.compare(a, b));
        } // Else these are primary items. An invalid one implies no rank, so none is missing.
        others.retain(is_within);
        if planted::has(Bug::WalkPassesOverLostRanks) {
            others.clear();
        }
        let ranks = Ranks {
            order,
            comments: ranks,
            start: None,
            end: None,
            as_of: None,
            max: self.max.into(),
            shows_unranked: true,
        };
        let rows = Page {
            comments,
            others,
            has_more: horizon.is_some(),
            ..Page::default()
        };
        (ranks, rows)
    }

    /// The stretch from the table's answer alone.
    ///
    /// # Errors
    /// As [`Stretch::read`].
    pub(super) fn of_rows(&self, page: Page) -> Result<Joined, ApiError> {
        let (rows, is_followed) = self.rows(page);
        let first = rows.iter().find_map(|(cd, _)| cd.clone());
        let last = rows.iter().rev().find_map(|(cd, _)| cd.clone());
        if is_followed && last.is_none() {
            return Err(ApiError::NotYetListed);
        }
        let comments: Vec<Comment> = rows
            .into_iter()
            .filter_map(|(_, comment)| comment)
            .collect();
        let after = if is_followed {
            After::OtherPages
        } else {
            After::Nothing
        };
        Ok(Joined {
            comments,
            first,
            last,
            after,
            has_empty_places: false,
            shows_none: false,
        })
    }

    /// The rows of the stretch, and whether more follow.
    fn rows(&self, page: Page) -> (Vec<Row>, bool) {
        let max = usize::from(self.max);
        let mut rows: Vec<Row> = Vec::new();
        for comment in page.comments {
            rows.push((Some(comment.cd()), Some(comment)));
        }
        for item in page.malformed {
            // They come in order, so all earlier items are in place.
            rows.insert(item.index.min(rows.len()), (item.cd, None));
        }
        let answered = rows.len();
        if let Some(as_of) = self.as_of {
            rows.retain(|(cd, _)| cd.as_ref().is_none_or(|cd| cd.created_at <= as_of));
        }
        // Newest first, the query begins below `as_of`. Oldest first, everything after a later row
        // is later too.
        let more = rows.len() == answered && (answered > max || page.cut_short);
        rows.truncate(max);
        (rows, more)
    }
}

/// A stretch of which nothing can be shown leads on from its horizon.
pub(super) fn leading_on(horizon: Option<Cd>, joined: Joined) -> Joined {
    let last = joined.last.clone().or(horizon);
    Joined { last, ..joined }
}
