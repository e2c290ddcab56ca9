//! Filters, their keys, and the base sets of the page index.
//!
//! **Invariant:** every filter has exactly one key. All five ratings together do not restrict
//! anything, so `1.2.3.4.5` is never a key.

use std::fmt;

use derive_more::Display;
use itertools::Itertools;

use crate::{
    comment::Placement,
    error::Malformed,
    id::ProductId,
    language::Language,
    rating::{Rating, RatingSet},
};

/// Stands for "any language" and "any rating" in a key. It sorts after every language tag and
/// digit, so a comment's primary item is the last one of its item collection.
pub const ANY: &str = "~";

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter {
    language: Option<Language>,
    ratings: Option<RatingSet>,
}

impl Filter {
    pub const ANY: Self = Self {
        language: None,
        ratings: None,
    };

    /// The filter for a language and a set of ratings; `None` means any.
    pub fn new(language: Option<Language>, ratings: Option<RatingSet>) -> Self {
        Self {
            language,
            ratings: ratings.filter(|set| *set != RatingSet::ALL),
        }
    }

    pub fn language(&self) -> Option<&Language> {
        self.language.as_ref()
    }

    /// The ratings; `None` means any. Never all five.
    pub fn ratings(&self) -> Option<RatingSet> {
        self.ratings
    }

    pub fn matches(&self, placement: &Placement) -> bool {
        self.language
            .as_ref()
            .is_none_or(|language| *language == placement.language)
            && self
                .ratings
                .is_none_or(|ratings| ratings.contains(placement.rating))
    }

    /// A placement that the filter matches, of an undetermined language if it matches any.
    pub fn placement_in(&self, product: &ProductId) -> Placement {
        let [lowest, ..] = Rating::ALL;
        Placement {
            product: product.clone(),
            language: self.language.clone().unwrap_or_else(Language::undetermined),
            rating: self
                .ratings
                .and_then(|ratings| ratings.iter().next())
                .unwrap_or(lowest),
        }
    }

    /// The disjoint base sets whose union holds the matching comments: one for each rating.
    pub fn base_sets(&self, product: &ProductId) -> Vec<BaseSet> {
        let ratings = self.ratings.unwrap_or(RatingSet::ALL);
        let sets = ratings.iter().map(|rating| BaseSet {
            product: product.clone(),
            language: self.language.clone(),
            rating,
        });
        sets.collect()
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(language_part(self.language.as_ref()))?;
        match self.ratings {
            None => write!(f, "/{ANY}"),
            Some(ratings) => write!(f, "/{ratings}"),
        }
    }
}

/// How a key names a language; `None` means any.
fn language_part(language: Option<&Language>) -> &str {
    match language {
        Some(language) => language.as_str(),
        None => ANY,
    }
}

/// The sort key of an item: `PRODUCT#<product>/<language or ~>/<ratings or ~>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
#[display("PRODUCT#{}/{filter}", product.escaped())]
pub struct FilterKey {
    pub product: ProductId,
    pub filter: Filter,
}

impl FilterKey {
    /// The end of every primary item's sort key and of no other sort key. The event source mappings
    /// filter by it.
    pub const PRIMARY_SUFFIX: &str = "/~/~";

    pub fn primary(product: ProductId) -> Self {
        Self {
            product,
            filter: Filter::ANY,
        }
    }

    /// Refuses any text that `Display` does not produce.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        Self::parse_parts(text).ok_or_else(|| {
            Malformed::new(
                "filter key",
                format!("{text:?} is not PRODUCT#<product>/<language>/<ratings>"),
            )
        })
    }

    fn parse_parts(text: &str) -> Option<Self> {
        let parts = text.strip_prefix("PRODUCT#")?;
        let [product, language, ratings] = parts.split('/').collect_array()?;
        // Each part has exactly one spelling: the one that its `Display` produces.
        let language = match language {
            ANY => None,
            tag => Some(
                Language::parse_stored(tag)
                    .ok()
                    .filter(|parsed| parsed.as_str() == tag)?,
            ),
        };
        let ratings = match ratings {
            ANY => None,
            set => Some(
                RatingSet::parse(set)
                    .ok()
                    .filter(|set| *set != RatingSet::ALL)?,
            ),
        };
        Some(Self {
            product: ProductId::from_escaped(product).ok()?,
            filter: Filter::new(language, ratings),
        })
    }

    pub fn is_primary(&self) -> bool {
        self.filter == Filter::ANY
    }
}

/// A set in the page index: a product's comments of one language or any, with one rating. Its name
/// inside its index partition is `PRODUCT#<product>:<language or ~>/<rating>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
#[display("PRODUCT#{}:{}/{rating}", product.escaped(), language_part(language.as_ref()))]
pub struct BaseSet {
    pub product: ProductId,
    /// The language; `None` means any.
    pub language: Option<Language>,
    pub rating: Rating,
}

impl Placement {
    /// The 31 filters, all but [`Filter::ANY`], under which a comment with this placement has a
    /// duplicate.
    pub fn duplicate_filters(&self) -> impl Iterator<Item = Filter> {
        let ratings = RatingSet::every().filter(|set| set.contains(self.rating));
        ratings
            .cartesian_product([None, Some(&self.language)])
            .map(|(ratings, language)| Filter::new(language.cloned(), Some(ratings)))
            .filter(|filter| *filter != Filter::ANY)
    }

    pub fn duplicate_keys(&self) -> impl Iterator<Item = FilterKey> {
        self.duplicate_filters().map(|filter| FilterKey {
            product: self.product.clone(),
            filter,
        })
    }

    pub fn base_sets(&self) -> [BaseSet; 2] {
        [None, Some(self.language.clone())].map(|language| BaseSet {
            product: self.product.clone(),
            language,
            rating: self.rating,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    pub(crate) fn placements() -> impl Strategy<Value = Placement> {
        let product =
            "[^\\p{Cc}]{1,60}".prop_filter("allowed", |text| ProductId::parse_stored(text).is_ok());
        let language = prop::sample::select(vec!["en", "ko", "pt-BR", "zh-Hant"]);
        (product, language, 1..=5_u64).prop_map(|(product, language, rating)| Placement {
            product: ProductId::parse_stored(&product).unwrap(),
            language: Language::parse(language).unwrap(),
            rating: Rating::new(rating).unwrap(),
        })
    }

    #[test]
    fn all_five_ratings_are_no_filter() {
        let key = FilterKey {
            product: ProductId::parse("a/b").unwrap(),
            filter: Filter::new(None, Some(RatingSet::ALL)),
        };
        assert!(key.is_primary());
        assert_eq!(key.to_string(), "PRODUCT#a%2Fb/~/~");
        assert!(FilterKey::parse("PRODUCT#a%2Fb/~/1.2.3.4.5").is_err());
    }

    #[test]
    fn other_texts_are_no_keys() {
        for text in [
            "",
            "PRODUCT#a",
            "PRODUCT#a/~",
            "PRODUCT#a/~/~/~",
            "PRODUCT#/~/~",
            "PRODUCT#a/EN/~",
            "PRODUCT#a/en/5.1",
            "STATE",
        ] {
            assert!(FilterKey::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_longest_key_stays_below_the_limit_of_an_index_key() {
        let placement = Placement {
            product: ProductId::parse(&"😀".repeat(ProductId::MAX_CHARS)).unwrap(),
            language: Language::parse(&format!("en-x-{}", ["abcdefgh"; 3].join("-"))).unwrap(),
            rating: Rating::ALL[0],
        };
        let longest = placement
            .duplicate_keys()
            .map(|key| key.to_string().len())
            .max()
            .unwrap();
        assert!(longest + Language::MAX_LEN <= 1024, "{longest}");
    }

    proptest! {
        #[test]
        fn a_comment_has_one_primary_key_and_31_duplicate_keys_that_match_it(placement in placements()) {
            let mut keys: BTreeSet<String> = placement.duplicate_keys().map(|key| key.to_string()).collect();
            prop_assert_eq!(keys.len(), 31);
            prop_assert!(placement.duplicate_filters().all(|filter| filter.matches(&placement)));
            let primary = FilterKey::primary(placement.product.clone());
            prop_assert!(primary.to_string().ends_with(FilterKey::PRIMARY_SUFFIX));
            prop_assert!(keys.iter().all(|key| !key.ends_with(FilterKey::PRIMARY_SUFFIX)));
            prop_assert!(keys.insert(primary.to_string()));
            prop_assert_eq!(keys.last().unwrap(), &primary.to_string(), "the primary item is the last of its collection");
        }

        #[test]
        fn keys_parse_back(placement in placements()) {
            for key in placement.duplicate_keys().chain([FilterKey::primary(placement.product.clone())]) {
                prop_assert_eq!(FilterKey::parse(&key.to_string()).unwrap(), key);
            }
        }

        #[test]
        fn a_filter_is_the_disjoint_union_of_its_base_sets(placement in placements(), bits in 1..=31_u8, any_language in any::<bool>()) {
            let ratings = RatingSet::of(Rating::ALL.into_iter().filter(|r| bits & (1 << (r.get() - 1)) != 0));
            let language = (!any_language).then(|| placement.language.clone());
            let filter = Filter::new(language, ratings);
            let holds = filter.base_sets(&placement.product).iter().filter(|set| placement.base_sets().contains(set)).count();
            prop_assert_eq!(holds, usize::from(filter.matches(&placement)));
            prop_assert!(filter.matches(&filter.placement_in(&placement.product)));
        }
    }
}
