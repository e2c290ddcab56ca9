//! The indexes and their keys, and the partitions that a filter queries.

use model::{Filter, Language, PageSize, Placement, ProductId, Rating};
use strum::{IntoStaticStr, VariantArray};

pub(crate) const PK: &str = "PK";
pub(crate) const SK: &str = "SK";
pub const SORT_KEY: &str = "GSISK";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
pub enum Index {
    #[strum(to_string = "byLangAndRating")]
    ByLanguageAndRating,
    #[strum(to_string = "byLang")]
    ByLanguage,
    #[strum(to_string = "byRating")]
    ByRating,
    #[strum(to_string = "all")]
    All,
}

impl Index {
    pub const EVERY: &[Self] = Self::VARIANTS;

    pub fn name(self) -> &'static str {
        self.into()
    }

    pub fn partition_attribute(self) -> &'static str {
        match self {
            Self::ByLanguageAndRating => "GSIPK",
            Self::ByLanguage => "GSI2PK",
            Self::ByRating => "GSI3PK",
            Self::All => "GSI4PK",
        }
    }

    pub fn partition_of(self, placement: &Placement) -> String {
        let language = Some(&placement.language);
        let rating = Some(placement.rating);
        match self {
            Self::ByLanguageAndRating => partition_key(&placement.product, language, rating),
            Self::ByLanguage => partition_key(&placement.product, language, None),
            Self::ByRating => partition_key(&placement.product, None, rating),
            Self::All => partition_key(&placement.product, None, None),
        }
    }
}

/// `PRODUCT#<product>`, followed by `/<language>` and `/<rating>` if given. The product is escaped,
/// so it contains no slash.
pub(crate) fn partition_key(
    product: &ProductId,
    language: Option<&Language>,
    rating: Option<Rating>,
) -> String {
    let mut key = format!("PRODUCT#{}", product.escaped());
    for part in [language.map(Language::as_str), rating.map(Rating::as_str)]
        .into_iter()
        .flatten()
    {
        key.push('/');
        key.push_str(part);
    }
    key
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedQuery {
    pub product: ProductId,
    pub filter: Filter,
    pub page_size: PageSize,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QueriedPartition {
    pub(crate) key: String,
    pub(crate) rating: Option<Rating>,
}

/// The partitions that a filter queries: disjoint partitions of one index that together hold the
/// matching comments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) index: Index,
    pub(crate) partitions: Vec<QueriedPartition>,
}

impl Plan {
    pub(crate) fn of(product: &ProductId, filter: &Filter) -> Self {
        let language = filter.language();
        let index = match (language, filter.ratings()) {
            (None, None) => Index::All,
            (Some(_), None) => Index::ByLanguage,
            (None, Some(_)) => Index::ByRating,
            (Some(_), Some(_)) => Index::ByLanguageAndRating,
        };
        let ratings = match filter.ratings() {
            None => vec![None],
            Some(ratings) => ratings.iter().map(Some).collect(),
        };
        let mut partitions = Vec::new();
        for rating in ratings {
            partitions.push(QueriedPartition {
                key: partition_key(product, language, rating),
                rating,
            });
        }
        Self { index, partitions }
    }

    /// The partition with the comments of a rating.
    pub(crate) fn partition_of(&self, rating: Rating) -> Option<&QueriedPartition> {
        let mut partitions = self.partitions.iter();
        partitions.find(|partition| partition.rating.is_none_or(|of| of == rating))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use model::RatingSet;

    use super::*;

    fn product(id: &str) -> ProductId {
        ProductId::parse(id).unwrap()
    }

    fn filter(language: Option<&str>, ratings: Option<&str>) -> Filter {
        Filter::new(
            language.map(|tag| Language::parse(tag).unwrap()),
            ratings.map(|set| RatingSet::parse(set).unwrap()),
        )
    }

    #[test]
    fn a_filter_asks_a_partition_for_each_rating_of_the_index_that_suits() {
        let mut lines = String::new();
        for (language, ratings) in [
            (None, None),
            (Some("en"), None),
            (None, Some("5")),
            (Some("en"), Some("5")),
            (None, Some("1.5")),
            (Some("en"), Some("2.3.4.5")),
            (Some("en"), Some("1.2.3.4.5")),
        ] {
            let plan = Plan::of(&product("42"), &filter(language, ratings));
            let keys: Vec<&str> = plan
                .partitions
                .iter()
                .map(|partition| partition.key.as_str())
                .collect();
            lines.push_str(&format!(
                "{} {}: {} {}\n",
                language.unwrap_or("any"),
                ratings.unwrap_or("any"),
                plan.index.name(),
                keys.join(" ")
            ));
        }
        expect![[r"
            any any: all PRODUCT#42
            en any: byLang PRODUCT#42/en
            any 5: byRating PRODUCT#42/5
            en 5: byLangAndRating PRODUCT#42/en/5
            any 1.5: byRating PRODUCT#42/1 PRODUCT#42/5
            en 2.3.4.5: byLangAndRating PRODUCT#42/en/2 PRODUCT#42/en/3 PRODUCT#42/en/4 PRODUCT#42/en/5
            en 1.2.3.4.5: byLang PRODUCT#42/en
        "]]
        .assert_eq(&lines);
    }
}
