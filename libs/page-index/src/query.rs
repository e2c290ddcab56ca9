//! What a reader asks the page index, and what it answers.

use model::{Cd, Filter, Language, Order, ProductId, RatingCounts, Timestamp};

use crate::NotReady;

/// The answer of a partition, or why the partition must not be believed.
pub type IndexAnswer<T> = Result<T, NotReady>;

/// A request for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageStartQuery<'query> {
    /// The product.
    pub product: &'query ProductId,
    /// The filter.
    pub filter: &'query Filter,
    /// Number of comments before the page.
    pub skip: u64,
    /// The order of the comments.
    pub order: Order,
    /// Comments dated later do not count.
    pub as_of: Option<Timestamp>,
}

/// Where a page starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageStart {
    /// Number of comments that the filter matches.
    pub total: u64,
    /// The comment just before the page, `None` when the page starts at the beginning (or lies past the end).
    pub before: Option<Cd>,
    /// An instant that the page index has reached under the filter, never later than the present. The index counts no
    /// comment dated later, except comments dated later than the present. Later comments may still come. Equals the
    /// query's `as_of`, if set.
    pub reached: Timestamp,
}

/// The comments of a filter that the page index has ranked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Number of comments.
    pub total: u64,
    /// The newest and the oldest of them; `None` when the filter has none.
    pub ends: Option<Ends>,
}

/// The newest and the oldest of some comments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    /// Position of the newest.
    pub newest: Cd,
    /// Position of the oldest.
    pub oldest: Cd,
}

/// Where a comment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Number of comments that the filter matches, including this one.
    pub total: u64,
    /// Number of them that precede it.
    pub rank: u64,
}

/// A rank among the comments of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProductRank<'query> {
    /// The product.
    pub product: &'query ProductId,
    /// The language of the comments; `None` for all comments.
    pub language: Option<&'query Language>,
    /// The end that the rank is counted from.
    pub order: Order,
    /// The rank, from 0.
    pub rank: u64,
}

/// How many comments a product has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// By rating, in the filter's language. Includes all five ratings, whichever the filter selects.
    pub by_rating: RatingCounts,
    pub by_rating_in_any_language: RatingCounts,
    /// By language in ascending order of the tags, with the filter's ratings. Includes the first
    /// [`Stats::LANGUAGES_MAX`] languages of the product, whichever the filter selects.
    pub by_language: Vec<(Language, u64)>,
    /// Number of languages that the product has.
    pub languages: u64,
    /// Creation time of the newest comment in the filter's language.
    pub last_commented_at: Option<Timestamp>,
}

impl Stats {
    /// Maximum number of languages whose comments are counted. A product never has as many languages that people speak.
    /// The number of well-formed tags is unlimited, and counting takes up to four sets per language.
    pub const LANGUAGES_MAX: usize = 200;
}

/// How many comments a product has in one language, or in any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub by_rating: RatingCounts,
    /// Creation time of the newest comment.
    pub last_commented_at: Option<Timestamp>,
}

/// A product that has comments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedProduct {
    pub product: ProductId,
    pub by_rating: RatingCounts,
    /// Creation time of the newest comment.
    pub last_commented_at: Timestamp,
    /// The number of comments of each language that has any, in ascending order of the tags: of the first
    /// [`Stats::LANGUAGES_MAX`] languages. Counted a moment before or after the ratings.
    pub by_language: Vec<(Language, u64)>,
}
