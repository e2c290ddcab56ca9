//! What a reader asks the page index, and what it answers.

use model::{Cd, Filter, Language, Order, ProductId, RatingCounts, Timestamp};

use crate::NotReady;

/// The answer of a partition, or why the partition must not be believed.
pub type IndexAnswer<T> = Result<T, NotReady>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankedQuery<'query> {
    pub product: &'query ProductId,
    pub filter: &'query Filter,
    pub order: Order,
    /// The comments after this position, in the query's order, are asked for. It need not be that
    /// of a comment. `None`: from the beginning.
    pub after: Option<&'query Cd>,
    /// Number of those comments before the first one asked for.
    pub skip: u64,
    /// Maximum number of comments in the answer, at most [`RankedQuery::COUNT_MAX`]; 0 if only
    /// totals are asked for.
    pub count: u16,
    /// Comments dated later have no rank.
    pub as_of: Option<Timestamp>,
    /// Comments dated later are not settled. `None`: all are.
    pub settled_at: Option<Timestamp>,
    pub stats: StatsWanted,
}

impl<'query> RankedQuery<'query> {
    /// Bounds the time that one answer takes. More than twice the largest page.
    pub const COUNT_MAX: u16 = 500;

    /// A question about totals only. A caller changes what else it asks for.
    pub fn new(product: &'query ProductId, filter: &'query Filter) -> Self {
        Self {
            product,
            filter,
            order: Order::Newest,
            after: None,
            skip: 0,
            count: 0,
            as_of: None,
            settled_at: None,
            stats: StatsWanted::No,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsWanted {
    No,
    /// Without the languages, which take a set or more each.
    ByRating,
    WithLanguages,
}

/// The comments with some ranks, and totals. All from one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranked {
    /// The comments with these ranks, in the query's order; fewer where the ranks end.
    pub comments: Vec<Cd>,
    /// Number of comments of the filter dated up to `as_of`.
    pub total: u64,
    /// Number of comments of the filter dated up to `settled_at`.
    pub settled: u64,
    /// Number of all comments of the filter.
    pub all: u64,
    /// An instant that the page index has reached under the filter, never later than the present.
    /// The index counts no comment dated later, except comments dated later than the present. Later
    /// comments may still come. Equals the query's `as_of`, if set.
    pub reached: Timestamp,
    pub stats: Option<Stats>,
}

/// What a backend finds for a [`RankedQuery`]. The fields are those of [`Ranked`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawRanked {
    pub comments: Vec<Cd>,
    pub total: u64,
    pub settled: u64,
    pub all: u64,
    /// Creation time of the newest comment of the filter. Not looked up if the query names `as_of`.
    pub newest: Option<Timestamp>,
    pub stats: Option<Stats>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionQuery<'query> {
    pub product: &'query ProductId,
    /// Matches the comment.
    pub filter: &'query Filter,
    pub cd: &'query Cd,
    /// As in [`RankedQuery`].
    pub settled_at: Option<Timestamp>,
}

/// Where a comment stands. A comment that is not indexed yet counts as if it were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommentPosition {
    /// Number of older comments: the comment's rank from the oldest.
    pub older: u64,
    /// Number of comments that the filter matches, including this one.
    pub total: u64,
    /// Number of them that are settled.
    pub settled: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// By rating, in the filter's language. Includes all five ratings, whichever the filter
    /// selects.
    pub by_rating: RatingCounts,
    pub by_rating_in_any_language: RatingCounts,
    /// By language in ascending order of the tags, with the filter's ratings. Includes the first
    /// [`Stats::LANGUAGES_MAX`] languages of the product, whichever the filter selects. Empty if
    /// not asked for.
    pub by_language: Vec<(Language, u64)>,
    /// Number of languages that the product has; 0 if not asked for.
    pub languages: u64,
    /// Creation time of the newest comment in the filter's language.
    pub last_commented_at: Option<Timestamp>,
}

impl Stats {
    /// Maximum number of languages whose comments are counted. A product never has as many
    /// languages that people speak. The number of well-formed tags is unlimited, and counting takes
    /// up to five sets per language.
    pub const LANGUAGES_MAX: usize = 200;
}
