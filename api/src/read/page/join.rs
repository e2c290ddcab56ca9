//! Joins the ranks of a page with the table's rows. The ranks decide, the table fills in.
//!
//! ```text
//!            first rank          last rank
//! ranks        │ 9   8   7   .   5 │ 4            the page is what lies between
//! rows      10 │ 9   8   .   6   5 │ 4   3        and after it, `After` says what follows
//!              ▼                   ▼
//! page         9   8   7       5                  7 is looked up; 6 and 10 only where a page shows
//!                                                 comments without a rank
//! ```
//!
//! | page index | table | page |
//! | --- | --- | --- |
//! | a rank | its row | shows the row |
//! | a rank | no row, but a published comment of that time, which the filter matches | shows the comment |
//! | a rank | neither | has an empty place |
//! | no rank | a row | shows nothing; but a page of the newest comments shows the comment, if it exists |
//!
//! A row has a rank if creation time and id are equal. Nothing is shown twice.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Cd, Comment, CommentId, Invariant, Order, PageSize, RankEntry, Timestamp,
    planted::{self, Bug},
};
use process::StoreError;
use table::{Page, PageQuery};

use crate::{
    read::ListingQuery,
    store::{Difference, StoreClients},
    telemetry::metrics::DriftSign,
};

/// How a page with ranks is read.
#[derive(Debug, Clone)]
pub(super) struct Ranks<'page> {
    pub(super) order: Order,
    pub(super) comments: &'page [Cd],
    /// The place just before the first row; `None` at the beginning of the listing.
    pub(super) start: Option<Cd>,
    /// Rows from this place on are not on the page. `None` where nothing ends it.
    pub(super) end: Option<&'page Cd>,
    /// Comments dated later do not exist for the page.
    pub(super) as_of: Option<Timestamp>,
    /// Maximum number of places.
    pub(super) max: usize,
    pub(super) shows_unranked: bool,
}

impl<'page> Ranks<'page> {
    /// A page from its first rank to its last.
    pub(super) fn of_page(order: Order, size: PageSize, comments: &'page [Cd]) -> Self {
        let start = comments.first().and_then(|first| match order {
            Order::Newest => first.just_after(),
            Order::Oldest => first.just_before(),
        });
        let (end, max) = (comments.last(), size.get().into());
        let shows_unranked = planted::has(Bug::ShowsUnranked);
        Self {
            order,
            comments,
            start,
            end,
            as_of: None,
            max,
            shows_unranked,
        }
    }

    /// The query for the rows of the ranks, and for one more. That one shows whether others follow,
    /// or have no rank. Only where some have none the page needs more rows
    /// ([`Self::has_unranked`]).
    pub(super) fn first_query(&self, query: &ListingQuery) -> PageQuery {
        let limit = if self.shows_unranked {
            self.max.min(self.comments.len())
        } else {
            self.max
        };
        PageQuery {
            limit: u16::try_from(limit + 1).unwrap_or(u16::MAX),
            ..self.page_query(query)
        }
    }

    /// Whether there are rows on the page that have no rank.
    pub(super) fn has_unranked(&self, rows: &Page) -> bool {
        self.shows_unranked && rows.others.iter().any(|cd| self.is_within(cd))
    }

    fn is_within(&self, cd: &Cd) -> bool {
        self.end
            .is_none_or(|end| self.order.compare(cd, end).is_lt())
    }

    /// The query for all rows that the page can show, and for one more.
    pub(super) fn page_query(&self, query: &ListingQuery) -> PageQuery {
        query.page_query(
            self.order,
            u16::try_from(self.max + 1).unwrap_or(u16::MAX),
            self.start.clone(),
        )
    }
}

#[derive(Debug)]
pub(super) struct Join<'page> {
    ranks: Ranks<'page>,
    /// A place for each rank, and in the end for each comment that is shown without one.
    places: Vec<(Cd, Option<Comment>)>,
    /// The rows without a rank that belong to the page.
    pub(super) unranked: Vec<Cd>,
    is_followed: bool,
    /// The last row, if the table was not read up to the end of the page.
    cut_at: Option<Cd>,
}

/// The comments of a page, in its order.
#[derive(Debug, PartialEq)]
pub(super) struct Joined {
    pub(super) comments: Vec<Comment>,
    pub(super) first: Option<Cd>,
    pub(super) last: Option<Cd>,
    pub(super) after: After,
    pub(super) has_empty_places: bool,
    /// Whether comments belong to the page, or may, and none of them can be shown.
    pub(super) shows_none: bool,
}

/// What comes after the last comment of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    Nothing,
    /// Rows of other pages.
    OtherPages,
    /// Comments that belong to this page: it may not show more, or the table was not read up to
    /// its end.
    ThisPage,
}

/// Joins ranks with rows, looks up what neither shows yet, and reports how they differ.
///
/// # Errors
/// The table's.
pub(super) async fn read(
    listing: &ListingQuery,
    stores: &StoreClients,
    ranks: Ranks<'_>,
    rows: Page,
) -> Result<Joined, StoreError> {
    let mut join = Join::new(ranks, rows);
    let mut missing = join.missing();
    if planted::has(Bug::TrustsDuplicates) {
        missing.clear();
    }
    let found = if missing.is_empty() {
        Vec::new()
    } else {
        stores.comments_in(&listing.product, &missing).await?
    };
    for difference in join.fill(listing, found.into_iter().flatten()) {
        stores.report(difference);
    }
    for _ in &join.unranked {
        stores.metrics.count_drift_sign(DriftSign::RowWithoutRank);
    }
    Ok(join.finish())
}

impl<'page> Join<'page> {
    pub(super) fn new(ranks: Ranks<'page>, rows: Page) -> Self {
        let Page {
            comments,
            mut others,
            cut_short,
            has_more,
            ..
        } = rows;
        let read = others.len();
        others.retain(|cd| ranks.as_of.is_none_or(|as_of| cd.created_at <= as_of));
        // Newest first, the query begins at `as_of`. Oldest first, all that follows a later row is
        // later, too.
        let is_past_as_of = others.len() < read;
        let ends = [comments.last().map(Comment::cd), others.last().cloned()];
        let cut_at = ends
            .into_iter()
            .flatten()
            .max_by(|a, b| ranks.order.compare(a, b))
            .filter(|_| cut_short);
        // The rows are those of some of the ranks, in the same order.
        let mut comments = comments.into_iter().peekable();
        let places = ranks
            .comments
            .iter()
            .map(|cd| (cd.clone(), comments.next_if(|comment| comment.is_at(cd))))
            .collect();
        let (unranked, beyond): (Vec<Cd>, Vec<Cd>) =
            others.into_iter().partition(|cd| ranks.is_within(cd));
        Self {
            ranks,
            places,
            unranked,
            is_followed: (has_more && !is_past_as_of) || !beyond.is_empty(),
            cut_at,
        }
    }

    /// The comments to look up, each once.
    pub(super) fn missing(&self) -> Vec<CommentId> {
        let mut missing = BTreeSet::new();
        for (cd, comment) in &self.places {
            if comment.is_none() {
                missing.insert(&cd.id);
            }
        }
        if self.ranks.shows_unranked {
            missing.extend(self.unranked.iter().map(|cd| &cd.id));
        }
        for (cd, comment) in &self.places {
            if comment.is_some() {
                missing.remove(&cd.id);
            }
        }
        missing.into_iter().cloned().collect()
    }

    /// Fills places with the published comments that were found. Returns how ranks and table
    /// differ.
    pub(super) fn fill(
        &mut self,
        query: &ListingQuery,
        found: impl Iterator<Item = Comment>,
    ) -> Vec<Difference> {
        let ListingQuery {
            product, filter, ..
        } = query;
        let found = found.filter(|comment| filter.matches(&comment.placement()));
        let mut found: BTreeMap<Cd, Comment> =
            found.map(|comment| (comment.cd(), comment)).collect();
        let mut differences = Vec::new();
        for (cd, comment) in self
            .places
            .iter_mut()
            .filter(|(_, comment)| comment.is_none())
        {
            *comment = found.remove(cd);
            let (sign, looked_for, since) = match comment {
                None => (
                    DriftSign::RankWithoutComment,
                    RankEntry {
                        placement: filter.placement_in(product),
                        created_at: cd.created_at,
                    },
                    None,
                ),
                // Its row may be where the table was not read any more.
                Some(_) if self.cut_at.is_some() => continue,
                Some(found) => (
                    DriftSign::MissingDuplicate,
                    found.entry(),
                    Some(found.revision.instant()),
                ),
            };
            differences.push(Difference {
                sign,
                comment: cd.id.clone(),
                looked_for,
                since,
            });
        }
        if self.ranks.shows_unranked {
            let late = self.unranked.iter().filter_map(|cd| found.remove_entry(cd));
            self.places
                .extend(late.map(|(cd, comment)| (cd, Some(comment))));
        }
        differences
    }

    pub(super) fn finish(self) -> Joined {
        let Self {
            ranks,
            mut places,
            is_followed,
            cut_at,
            ..
        } = self;
        places.sort_by(|(a, _), (b, _)| ranks.order.compare(a, b));
        let mut after = if is_followed {
            After::OtherPages
        } else {
            After::Nothing
        };
        if places.len() > ranks.max {
            after = After::ThisPage;
            places.truncate(ranks.max);
        }
        let has_empty_places = places.iter().any(|(_, comment)| comment.is_none());
        let first = places.first().map(|(cd, _)| cd.clone());
        let mut last = places.last().map(|(cd, _)| cd.clone());
        if ranks.shows_unranked
            && let Some(cut) = cut_at
            && last
                .as_ref()
                .is_none_or(|last| ranks.order.compare(&cut, last).is_le())
        {
            // Comments without a rank may follow there. They are rather shown again than passed
            // over.
            after = After::ThisPage;
            last = Some(cut);
        }
        let comments: Vec<Comment> = places
            .into_iter()
            .filter_map(|(_, comment)| comment)
            .collect();
        debug_assert!(
            comments.is_sorted_by(|a, b| ranks.order.compare(&a.cd(), &b.cd()).is_lt()),
            "{}: {comments:?}",
            Invariant::PagesShowTheirRanks
        );
        let others_belong = match after {
            After::Nothing => false,
            // They may lack their ranks.
            After::OtherPages => ranks.shows_unranked,
            After::ThisPage => true,
        };
        Joined {
            shows_none: comments.is_empty() && (has_empty_places || others_belong),
            comments,
            first,
            last,
            after,
            has_empty_places,
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{Filter, ListingOrder, Rating, RatingSet};

    use super::{
        super::tests::{comment, query},
        *,
    };

    /// The places in a text: `9` is the comment c9 of millisecond 9, and `9@5` that of millisecond
    /// 5.
    fn cds(text: &str) -> Vec<Cd> {
        let of = |text: &str| {
            let (id, at) = text.split_once('@').unwrap_or((text, text));
            Cd {
                created_at: comment(at.parse().unwrap()).created_at,
                ..comment(id.parse().unwrap()).cd()
            }
        };
        text.split_whitespace().map(of).collect()
    }

    fn stored(cd: &Cd) -> Comment {
        Comment {
            id: cd.id.clone(),
            created_at: cd.created_at,
            ..comment(1)
        }
    }

    /// What a page of at most four comments, newest first, shows, and how ranks and table differ.
    /// Behind a stroke, the ranks name the first place after the page.
    fn joined(
        shows_unranked: bool,
        ranks: &str,
        rows: &str,
        cut_short: bool,
        found: &str,
    ) -> String {
        let (ranks, end) = ranks.split_once('|').unwrap_or((ranks, ""));
        let (ranks, end) = (cds(ranks), cds(end).pop());
        let (with_rank, others): (Vec<Cd>, Vec<Cd>) =
            cds(rows).into_iter().partition(|cd| ranks.contains(cd));
        let comments = with_rank.iter().map(stored).collect();
        let rows = Page {
            comments,
            others,
            cut_short,
            has_more: cut_short,
            ..Page::default()
        };
        let query = query(ListingOrder::Newest, 4);
        let of_page = Ranks::of_page(Order::Newest, query.page_size, &ranks);
        let mut join = Join::new(
            Ranks {
                end: end.as_ref(),
                shows_unranked,
                ..of_page
            },
            rows,
        );
        let missing = join.missing();
        assert!(missing.is_sorted_by(|a, b| a < b), "{missing:?}");
        // As from the table: what is not asked for is not found.
        let found = cds(found).into_iter().filter(|cd| missing.contains(&cd.id));
        let differences = join.fill(&query, found.map(|cd| stored(&cd))).into_iter();
        let mut words: Vec<String> = differences
            .map(|Difference { sign, comment, .. }| match sign {
                DriftSign::MissingDuplicate => format!("duplicate {comment}"),
                DriftSign::RankWithoutComment | DriftSign::RowWithoutRank => {
                    format!("rank {comment}")
                }
            })
            .collect();
        words.extend((!join.unranked.is_empty()).then(|| format!("{} rows", join.unranked.len())));
        let joined = join.finish();
        if joined.shows_none {
            return format!("none: {}", words.join(", "));
        }
        assert_eq!(
            joined.has_empty_places,
            words.iter().any(|word| word.starts_with("rank"))
        );
        match joined.after {
            After::Nothing => {}
            After::OtherPages => words.push("followed".to_owned()),
            After::ThisPage => words.push(format!("cut at {}", joined.last.unwrap().id)),
        }
        let shown: Vec<&str> = joined
            .comments
            .iter()
            .map(|comment| comment.id.as_str())
            .collect();
        format!("{}: {}", shown.join(" "), words.join(", "))
    }

    #[test]
    fn the_ranks_decide_and_the_table_fills_in() {
        for (what, ranks, rows, found, expected) in [
            (
                "both agree",
                "9 8 7 6|5",
                "9 8 7 6 5",
                "",
                "c9 c8 c7 c6: followed",
            ),
            (
                "a row is missing",
                "9 8 7 6|5",
                "9 7 6 5",
                "8",
                "c9 c8 c7 c6: duplicate c8, followed",
            ),
            (
                "no row is there",
                "9 8",
                "",
                "8 9",
                "c9 c8: duplicate c9, duplicate c8",
            ),
            (
                "a rank too many",
                "9 8 7 6",
                "9 7 6",
                "",
                "c9 c7 c6: rank c8",
            ),
            (
                "only ranks too many",
                "9 8",
                "",
                "",
                "none: rank c9, rank c8",
            ),
            (
                "a row too many",
                "9 7 6|5",
                "9 8 7 6 5",
                "8",
                "c9 c7 c6: 1 rows, followed",
            ),
            (
                "a rank with a wrong time",
                "9 8@7 6|5",
                "9 8 6 5",
                "8",
                "c9 c6: rank c8, 1 rows, followed",
            ),
            (
                "a row with a wrong time",
                "9 8 6|5",
                "9 8@7 6 5",
                "8",
                "c9 c8 c6: duplicate c8, 1 rows, followed",
            ),
        ] {
            assert_eq!(joined(false, ranks, rows, false, found), expected, "{what}");
        }
        let cut = joined(false, "9 8 7 6|5", "9 8", true, "7");
        assert_eq!(
            cut, "c9 c8 c7: rank c6, followed",
            "rows that were not read are not missing"
        );
        assert_eq!(joined(false, "9 8", "9 8", true, ""), "c9 c8: followed");
    }

    #[test]
    fn an_id_that_has_two_ranks_is_shown_once() {
        for (what, ranks, rows, found, expected) in [
            (
                "an id twice at one time",
                "9 8 8 6|5",
                "9 8 6 5",
                "8",
                "c9 c8 c6: rank c8, followed",
            ),
            (
                "an id twice at two times",
                "9 8 8@7 6|5",
                "9 8 6 5",
                "8",
                "c9 c8 c6: rank c8, followed",
            ),
            (
                "an id twice without a row",
                "9 8 8@7",
                "9",
                "8@7",
                "c9 c8: rank c8, duplicate c8",
            ),
        ] {
            assert_eq!(joined(false, ranks, rows, false, found), expected, "{what}");
        }
    }

    #[test]
    fn a_page_of_the_newest_comments_shows_what_has_no_rank_yet() {
        for (what, ranks, rows, found, expected) in [
            (
                "late ranks",
                "7 6|5",
                "9 8 7 6 5",
                "9 8",
                "c9 c8 c7 c6: 2 rows, followed",
            ),
            (
                "late rows",
                "9 8 7 6|5",
                "7 6 5",
                "9 8",
                "c9 c8 c7 c6: duplicate c9, duplicate c8, followed",
            ),
            (
                "both",
                "9 7|5",
                "8 7 5",
                "9 8",
                "c9 c8 c7: duplicate c9, 1 rows, followed",
            ),
            (
                "a late rank between others",
                "9 7 6|5",
                "9 8 7 6 5",
                "8",
                "c9 c8 c7 c6: 1 rows, followed",
            ),
            (
                "a row of a deleted comment",
                "7 6|5",
                "9 8 7 6 5",
                "8",
                "c8 c7 c6: 2 rows, followed",
            ),
            (
                "no archive",
                "7 6",
                "9 8 7 6 5",
                "9 8 5",
                "c9 c8 c7 c6: 3 rows, cut at c6",
            ),
            (
                "a page of late ranks",
                "3",
                "9 8 7 6 5",
                "9 8 7 6 3",
                "c9 c8 c7 c6: duplicate c3, 5 rows, cut at c6",
            ),
            ("nothing exists", "", "9 8", "", ": 2 rows"),
            (
                "rows of deleted comments",
                "3 2",
                "9 8 7 6 5 3 2",
                "",
                "c3 c2: 5 rows",
            ),
        ] {
            assert_eq!(joined(true, ranks, rows, false, found), expected, "{what}");
        }
        // Rows that were not read are rather shown twice than passed over.
        let cut = joined(true, "3 2", "9 8 7 6 5", true, "3 2");
        assert_eq!(cut, "c3 c2: 5 rows, cut at c5");
        let cut = joined(true, "9 2", "9 8 7", true, "2");
        assert_eq!(cut, "c9 c2: 2 rows, cut at c7", "the last row decides");
        let cut = joined(true, "9 7", "9 8 7", true, "");
        assert_eq!(cut, "c9 c7: 1 rows, cut at c7", "more rows may follow");
        assert_eq!(joined(true, "", "9 8 7 6 5", true, ""), "none: 5 rows");
    }

    #[test]
    fn oldest_first_a_page_has_what_is_dated_up_to_its_as_of() {
        let (ranks, size) = (cds("1 2"), query(ListingOrder::Oldest, 4).page_size);
        let of_page = Ranks::of_page(Order::Oldest, size, &ranks);
        assert!(of_page.start.as_ref().unwrap() < &ranks[0]);
        let rows = Page {
            comments: ranks.iter().map(stored).collect(),
            others: cds("3 4"),
            has_more: true,
            ..Page::default()
        };
        let join = Join::new(
            Ranks {
                end: None,
                as_of: Some(comment(3).created_at),
                shows_unranked: true,
                ..of_page
            },
            rows,
        );
        assert_eq!(join.unranked, cds("3"));
        assert_eq!(join.finish().after, After::Nothing);
    }

    #[test]
    fn a_comment_that_the_filter_does_not_match_fills_no_place() {
        let (ranks, any) = (cds("9 8"), query(ListingOrder::Newest, 4));
        let mut join = Join::new(
            Ranks::of_page(Order::Newest, any.page_size, &ranks),
            Page::default(),
        );
        let of_rating_5 = ListingQuery {
            filter: Filter::new(None, RatingSet::parse("5").ok()),
            ..any
        };
        let other = Comment {
            rating: Rating::new(4).unwrap(),
            ..comment(9)
        };
        join.fill(&of_rating_5, [other, comment(8)].into_iter());
        assert_eq!(join.finish().comments, [comment(8)]);
    }
}
