//! What was posted, which filters there are, and what each must show.

use std::cmp::Reverse;

use itertools::Itertools;
use model::{Filter, Language, Placement, ProductId, Rating, RatingSet};
use serde::{Deserialize, Serialize};

/// A comment, as far as a client of these tools needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Posted {
    pub(crate) id: String,
    pub(crate) product: String,
    pub(crate) language: String,
    pub(crate) rating: u64,
    pub(crate) created_at: String,
    /// Only of a comment that readers do not see.
    #[serde(default, skip_serializing)]
    pub(crate) status: Option<String>,
}

/// What readers see under a filter: the ids in order, and the number of ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) ids: Vec<String>,
    pub(crate) total: u64,
}

impl Shown {
    /// What a filter must show that matches these comments, newest first.
    pub(crate) fn of(ids: Vec<String>) -> Self {
        Self { total: u64::try_from(ids.len()).unwrap_or(u64::MAX), ids }
    }
}

/// What each filter of a product must show.
pub(crate) type Expected = Vec<(Filter, Shown)>;

/// The 32 filters that match a comment, each of which must show these ids.
pub(crate) fn of_one(placement: &Placement, ids: &[&str]) -> Expected {
    let filters = placement.duplicate_filters().chain([Filter::ANY]);
    filters.map(|filter| (filter, Shown::of(ids.iter().map(|id| (*id).to_owned()).collect()))).collect()
}

/// Every filter of these comments' languages or any, with every set of ratings.
///
/// # Errors
/// A language, a rating or the product is none.
pub(crate) fn of_all(product: &ProductId, comments: &[Posted]) -> anyhow::Result<Expected> {
    let mut placed = Vec::new();
    for comment in comments {
        let (language, rating) = (Language::parse(&comment.language)?, Rating::new(comment.rating)?);
        placed.push((Placement { product: product.clone(), language, rating }, comment));
    }
    // The order of readers: creation times have one length, so their texts have the same order.
    placed.sort_by_key(|(_, comment)| Reverse((comment.created_at.as_str(), comment.id.as_str())));
    let languages = placed.iter().map(|(placement, _)| Some(placement.language.clone())).chain([None]).unique();
    let ratings: Vec<Option<RatingSet>> = RatingSet::every().map(Some).collect();
    let shown = |filter: &Filter| {
        let matching = placed.iter().filter(|(placement, _)| filter.matches(placement));
        Shown::of(matching.map(|(_, comment)| comment.id.clone()).collect())
    };
    let filters = languages.cartesian_product(ratings).map(|(language, ratings)| Filter::new(language, ratings));
    Ok(filters.map(|filter| (filter.clone(), shown(&filter))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posted(id: &str, language: &str, rating: u64, created_at: &str) -> Posted {
        let [id, product, language, created_at] = [id, "p", language, created_at].map(str::to_owned);
        Posted { id, product, language, rating, created_at, status: None }
    }

    #[test]
    fn one_comment_is_expected_under_32_different_filters() {
        let product = ProductId::parse("p").unwrap();
        let placement = Placement { product, language: Language::parse("en").unwrap(), rating: Rating::ALL[4] };
        let expected = of_one(&placement, &["a"]);
        assert_eq!(expected.iter().map(|(filter, _)| filter).unique().count(), 32);
        assert!(expected.iter().all(|(filter, shown)| filter.matches(&placement) && shown.total == 1));
    }

    #[test]
    fn every_filter_expects_its_comments_newest_first_and_ties_by_id() {
        let comments = [
            posted("a", "en", 1, "2024-01-01T00:00:00.000Z"),
            posted("c", "ko", 5, "2024-01-02T00:00:00.000Z"),
            posted("b", "en", 5, "2024-01-02T00:00:00.000Z"),
        ];
        let expected = of_all(&ProductId::parse("p").unwrap(), &comments).unwrap();
        assert_eq!(expected.len(), 3 * 31, "any language and two, all ratings and 30 sets of them");
        let of = |language: &str, ratings: &str| {
            let filter = Filter::new(Language::parse(language).ok(), RatingSet::parse(ratings).ok());
            expected.iter().find(|(other, _)| *other == filter).unwrap().1.ids.join("")
        };
        assert_eq!(
            (of("~", "1.2.3.4.5"), of("en", "1.2.3.4.5"), of("ko", "1")),
            ("cba".into(), "ba".into(), "".into())
        );
        assert_eq!((of("~", "4.5"), of("en", "1.2")), ("cb".to_owned(), "a".to_owned()));
    }
}
