//! What a reader asks the page index, and what it answers.

use model::{Cd, Filter, Language, Order, ProductId, RatingCounts, Timestamp};

use crate::NotReady;

pub type IndexAnswer<T> = Result<T, NotReady>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageStartQuery<'query> {
    pub product: &'query ProductId,
    pub filter: &'query Filter,
    pub skip: u64,
    pub order: Order,
    /// Comments dated later do not count.
    pub as_of: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageStart {
    pub total: u64,
    /// The comment just before the page, `None` when the page starts at the beginning (or lies past the end).
    pub before: Option<Cd>,
    /// An instant that the page index has reached under the filter, never later than the present. The index counts no
    /// comment dated later, except comments dated later than the present. Later comments may still come. Equals the
    /// query's `as_of`, if set.
    pub reached: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Number of comments.
    pub total: u64,
    pub ends: Option<Ends>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    pub newest: Cd,
    pub oldest: Cd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub total: u64,
    pub rank: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProductRank<'query> {
    pub product: &'query ProductId,
    pub language: Option<&'query Language>,
    /// The end that the rank is counted from.
    pub order: Order,
    pub rank: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// By rating, in the filter's language. Includes all five ratings, whichever the filter selects.
    pub by_rating: RatingCounts,
    pub by_rating_in_any_language: RatingCounts,
    /// By language in ascending order of the tags, with the filter's ratings. Includes the first
    /// [`Stats::LANGUAGES_MAX`] languages of the product, whichever the filter selects.
    pub by_language: Vec<(Language, u64)>,
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
