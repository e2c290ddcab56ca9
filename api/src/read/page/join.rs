//! Joins the ranks of a page with the table's rows. The ranks decide, the table fills in.
//!
//! | page index | table | page |
//! | --- | --- | --- |
//! | a rank | its row | shows the row |
//! | a rank | no row, but a published comment of that time, which the filter matches | shows the comment |
//! | a rank | neither | has an empty place |
//! | no rank | a row | shows nothing; but a page of the newest comments shows the comment, if it exists |
//!
//! A row has a rank if creation time and id are equal. Nothing is shown twice.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use model::{Cd, Comment, CommentId, Order, PageSize, Timestamp};
use table::{Page, PageQuery};

use crate::{error::ApiError, read::ListingQuery, store::Difference};

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
        Self { order, comments, start, end, as_of: None, max, shows_unranked: false }
    }

    /// The query for the rows: one more than the page shows.
    pub(super) fn page_query(&self, query: &ListingQuery) -> PageQuery {
        query.page_query(self.order, u16::try_from(self.max + 1).unwrap_or(u16::MAX), self.start.clone())
    }

    fn compare(&self, a: &Cd, b: &Cd) -> Ordering {
        match self.order {
            Order::Newest => b.cmp(a),
            Order::Oldest => a.cmp(b),
        }
    }
}

#[derive(Debug)]
struct Place {
    cd: Cd,
    is_ranked: bool,
    comment: Option<Comment>,
}

#[derive(Debug)]
pub(super) struct Join<'page> {
    ranks: Ranks<'page>,
    places: Vec<Place>,
    unranked: usize,
    is_followed: bool,
    /// Whether the table was not read up to the end of the page.
    is_cut: bool,
    /// The place up to which the comments without a rank are known; `None` where all are.
    known_up_to: Option<Cd>,
}

/// The comments of a page, in its order.
#[derive(Debug, PartialEq)]
pub(super) struct Joined {
    pub(super) comments: Vec<Comment>,
    pub(super) first: Option<Cd>,
    pub(super) last: Option<Cd>,
    /// Whether more comments belong to the page than it may show.
    pub(super) is_cut: bool,
    /// Whether the table has rows after the page.
    pub(super) is_followed: bool,
    pub(super) has_empty_places: bool,
}

impl<'page> Join<'page> {
    pub(super) fn new(ranks: Ranks<'page>, rows: Page) -> Self {
        let Page { comments, mut others, cut_short: is_cut, .. } = rows;
        others.retain(|cd| ranks.as_of.is_none_or(|as_of| cd.created_at <= as_of));
        let ends = [comments.last().map(Comment::cd), others.last().cloned()];
        let last_read = ends.into_iter().flatten().max_by(|a, b| ranks.compare(a, b));
        let mut comments: BTreeMap<Cd, Comment> = comments.into_iter().map(|comment| (comment.cd(), comment)).collect();
        let ranked = ranks.comments.iter().map(|cd| (cd, true, comments.remove(cd)));
        let mut places: Vec<(&Cd, bool, Option<Comment>)> = ranked.collect();
        let is_within = |cd: &&Cd| ranks.end.is_none_or(|end| ranks.compare(cd, end).is_lt());
        let within: Vec<&Cd> = others.iter().filter(is_within).collect();
        let mut known_up_to = None;
        if ranks.shows_unranked {
            // No more are looked up than the page may show.
            let looked_up = within.get(..ranks.max).unwrap_or(&within);
            let is_known = looked_up.len() == within.len();
            known_up_to =
                if is_known { last_read.filter(|_| is_cut) } else { looked_up.last().map(|cd| Cd::clone(cd)) };
            places.extend(looked_up.iter().map(|cd| (*cd, false, None)));
            places.sort_by(|(a, ..), (b, ..)| ranks.compare(a, b));
        }
        let place = |(cd, is_ranked, comment)| Place { cd: Cd::clone(cd), is_ranked, comment };
        let places = places.into_iter().map(place).collect();
        let (unranked, is_followed) = (within.len(), is_cut || within.len() < others.len());
        Self { ranks, places, unranked, is_followed, is_cut, known_up_to }
    }

    /// The comments to look up, each once.
    pub(super) fn missing(&self) -> Vec<CommentId> {
        let ids = |is_shown: bool| -> BTreeSet<&CommentId> {
            let places = self.places.iter().filter(|place| place.comment.is_some() == is_shown);
            places.map(|place| &place.cd.id).collect()
        };
        ids(false).difference(&ids(true)).map(|id| CommentId::clone(id)).collect()
    }

    /// Fills places with the published comments that were found. Returns how ranks and table differ.
    pub(super) fn fill<'query>(
        &'query mut self,
        query: &'query ListingQuery,
        found: impl Iterator<Item = Comment>,
    ) -> Vec<Difference<'query>> {
        let ListingQuery { product, filter, .. } = query;
        let found = found.filter(|comment| filter.matches(&comment.placement()));
        let mut found: BTreeMap<Cd, Comment> = found.map(|comment| (comment.cd(), comment)).collect();
        let mut differences = Vec::new();
        for place in self.places.iter_mut().filter(|place| place.comment.is_none()) {
            place.comment = found.remove(&place.cd);
            differences.extend(match &place.comment {
                _ if !place.is_ranked => None,
                None => Some(Difference::RankWithoutComment { product, filter, id: &place.cd.id }),
                // Its row may be where the table was not read any more.
                Some(_) if self.is_cut => None,
                Some(comment) => Some(Difference::MissingDuplicate(comment)),
            });
        }
        differences
    }

    /// Number of rows without a rank that belong to the page.
    pub(super) fn unranked(&self) -> usize {
        self.unranked
    }

    /// # Errors
    /// [`ApiError::NotYetListed`] when comments belong to the page, and none of them can be shown.
    pub(super) fn finish(mut self) -> Result<Joined, ApiError> {
        let mut count = 0;
        let end = self.places.iter().position(|place| {
            count += usize::from(place.is_ranked || place.comment.is_some());
            count > self.ranks.max
        });
        self.places.truncate(end.unwrap_or(self.places.len()));
        let has_empty_places = self.places.iter().any(|place| place.is_ranked && place.comment.is_none());
        let [first, last] = [self.places.first(), self.places.last()].map(|place| place.map(|place| place.cd.clone()));
        let is_within = |known: &Cd| last.as_ref().is_none_or(|last| self.ranks.compare(known, last).is_le());
        let known_up_to = self.known_up_to.filter(is_within);
        let is_cut = end.is_some() || known_up_to.is_some();
        let comments: Vec<Comment> = self.places.into_iter().filter_map(|place| place.comment).collect();
        if comments.is_empty() && (has_empty_places || is_cut || self.is_cut) {
            return Err(ApiError::NotYetListed);
        }
        // A comment is rather shown again than passed over.
        let last = known_up_to.or(last);
        Ok(Joined { comments, first, last, is_cut, is_followed: self.is_followed, has_empty_places })
    }
}

#[cfg(test)]
mod tests {
    use model::{Filter, Rating, RatingSet};

    use super::{
        super::tests::{comment, query},
        *,
    };

    /// The places in a text: `9` is the comment c9 of millisecond 9, and `9@5` that of millisecond 5.
    fn cds(text: &str) -> Vec<Cd> {
        let of = |text: &str| {
            let (id, at) = text.split_once('@').unwrap_or((text, text));
            Cd { created_at: comment(at.parse().unwrap()).created_at, ..comment(id.parse().unwrap()).cd() }
        };
        text.split_whitespace().map(of).collect()
    }

    fn stored(cd: &Cd) -> Comment {
        Comment { id: cd.id.clone(), created_at: cd.created_at, ..comment(1) }
    }

    /// What a page of at most four comments, newest first, shows, and how ranks and table differ. Behind a stroke, the
    /// ranks name the first place after the page.
    fn joined(shows_unranked: bool, ranks: &str, rows: &str, is_cut: bool, found: &str) -> String {
        let (ranks, end) = ranks.split_once('|').unwrap_or((ranks, ""));
        let (ranks, end) = (cds(ranks), cds(end).pop());
        let (with_rank, others): (Vec<Cd>, Vec<Cd>) = cds(rows).into_iter().partition(|cd| ranks.contains(cd));
        let rows =
            Page { comments: with_rank.iter().map(stored).collect(), others, cut_short: is_cut, ..Page::default() };
        let query = query(Order::Newest, 4);
        let of_page = Ranks::of_page(query.order, query.page_size, &ranks);
        let mut join = Join::new(Ranks { end: end.as_ref(), shows_unranked, ..of_page }, rows);
        let missing = join.missing();
        assert!(missing.is_sorted_by(|a, b| a < b), "{missing:?}");
        // As from the table: what is not asked for is not found.
        let found = cds(found).into_iter().filter(|cd| missing.contains(&cd.id));
        let differences = join.fill(&query, found.map(|cd| stored(&cd))).into_iter();
        let mut words: Vec<String> = differences
            .map(|difference| match difference {
                Difference::MissingDuplicate(comment) => format!("duplicate {}", comment.id),
                Difference::RankWithoutComment { id, .. } => format!("rank {id}"),
            })
            .collect();
        words.extend((join.unranked() > 0).then(|| format!("{} rows", join.unranked())));
        let joined = match join.finish() {
            Ok(joined) => joined,
            Err(error) => return format!("{error:?}: {}", words.join(", ")),
        };
        assert_eq!(joined.has_empty_places, words.iter().any(|word| word.starts_with("rank")));
        words.extend(joined.is_cut.then(|| format!("cut at {}", joined.last.unwrap().id)));
        words.extend(joined.is_followed.then(|| "followed".to_owned()));
        let shown: Vec<&str> = joined.comments.iter().map(|comment| comment.id.as_str()).collect();
        format!("{}: {}", shown.join(" "), words.join(", "))
    }

    #[test]
    fn the_ranks_decide_and_the_table_fills_in() {
        for (what, ranks, rows, found, expected) in [
            ("both agree", "9 8 7 6|5", "9 8 7 6 5", "", "c9 c8 c7 c6: followed"),
            ("a row is missing", "9 8 7 6|5", "9 7 6 5", "8", "c9 c8 c7 c6: duplicate c8, followed"),
            (
                "no row is there",
                "9 8 7 6",
                "",
                "6 7 8 9",
                "c9 c8 c7 c6: duplicate c9, duplicate c8, duplicate c7, duplicate c6",
            ),
            ("a rank too many", "9 8 7 6", "9 7 6", "", "c9 c7 c6: rank c8"),
            ("only ranks too many", "9 8", "", "", "NotYetListed: rank c9, rank c8"),
            ("a row too many", "9 7 6|5", "9 8 7 6 5", "8", "c9 c7 c6: 1 rows, followed"),
            ("a rank with a wrong time", "9 8@7 6|5", "9 8 6 5", "8", "c9 c6: rank c8, 1 rows, followed"),
            ("a row with a wrong time", "9 8 6|5", "9 8@7 6 5", "8", "c9 c8 c6: duplicate c8, 1 rows, followed"),
            ("an id twice at one time", "9 8 8 6|5", "9 8 6 5", "8", "c9 c8 c6: rank c8, followed"),
            ("an id twice at two times", "9 8 8@7 6|5", "9 8 6 5", "8", "c9 c8 c6: rank c8, followed"),
            ("an id twice without a row", "9 8 8@7", "9", "8@7", "c9 c8: rank c8, duplicate c8"),
        ] {
            assert_eq!(joined(false, ranks, rows, false, found), expected, "{what}");
        }
        let cut = joined(false, "9 8 7 6|5", "9 8", true, "7");
        assert_eq!(cut, "c9 c8 c7: rank c6, followed", "rows that were not read are not missing");
        assert_eq!(joined(false, "9 8", "9 8", true, ""), "c9 c8: followed");
    }

    #[test]
    fn a_page_of_the_newest_comments_shows_what_has_no_rank_yet() {
        for (what, ranks, rows, found, expected) in [
            ("late ranks", "7 6|5", "9 8 7 6 5", "9 8", "c9 c8 c7 c6: 2 rows, followed"),
            ("late rows", "9 8 7 6|5", "7 6 5", "9 8", "c9 c8 c7 c6: duplicate c9, duplicate c8, followed"),
            ("both", "9 7|5", "8 7 5", "9 8", "c9 c8 c7: duplicate c9, 1 rows, followed"),
            ("a late rank between others", "9 7 6|5", "9 8 7 6 5", "8", "c9 c8 c7 c6: 1 rows, followed"),
            ("a row of a deleted comment", "7 6|5", "9 8 7 6 5", "8", "c8 c7 c6: 2 rows, followed"),
            ("no archive", "7 6", "9 8 7 6 5", "9 8 5", "c9 c8 c7 c6: 3 rows, cut at c6"),
            (
                "a page of late ranks",
                "3 2",
                "9 8 7 6 5",
                "9 8 7 6 3 2",
                "c9 c8 c7 c6: duplicate c3, duplicate c2, 5 rows, cut at c6",
            ),
            ("nothing exists", "", "9 8", "", ": 2 rows"),
            // What was not looked up is rather shown twice than passed over.
            ("many rows of deleted comments", "3 2", "9 8 7 6 5 3 2", "", "c3 c2: 5 rows, cut at c6"),
            ("nothing is known", "", "9 8 7 6 5", "", "NotYetListed: 5 rows"),
        ] {
            assert_eq!(joined(true, ranks, rows, false, found), expected, "{what}");
        }
        assert_eq!(joined(true, "9 8 7", "9 8", true, "7"), "c9 c8 c7: cut at c8, followed");
        assert_eq!(joined(true, "", "", true, ""), "NotYetListed: ");
    }

    #[test]
    fn a_comment_that_the_filter_does_not_match_fills_no_place() {
        let (ranks, any) = (cds("9 8"), query(Order::Newest, 4));
        let mut join = Join::new(Ranks::of_page(any.order, any.page_size, &ranks), Page::default());
        let of_rating_5 = ListingQuery { filter: Filter::new(None, RatingSet::parse("5").ok()), ..any };
        let other = Comment { rating: Rating::new(4).unwrap(), ..comment(9) };
        join.fill(&of_rating_5, [other, comment(8)].into_iter());
        assert_eq!(join.finish().unwrap().comments, [comment(8)]);
    }
}
