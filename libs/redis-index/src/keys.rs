//! The names of the page index's keys.

use model::{FilterKey, Language, ProductId, Rating};
use page_index::IndexPartition;

/// A marker's name with the version of the layout. A partition with a different layout lacks this
/// marker. So it counts as lost, and a rebuild removes its keys and fills it. Version 1 had four
/// base sets a comment, version 2 had two.
pub(super) const MARKER: &str = "marker:3";

/// The braces in a key put everything of a partition into one slot of a cluster.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
    pub(super) partitions: u16,
}

impl Keys {
    pub(super) fn new(prefix: &str, partitions: u16) -> Self {
        Self {
            prefix: prefix.to_owned(),
            partitions,
        }
    }

    pub(super) fn partition_of(&self, product: &ProductId) -> IndexPartition {
        IndexPartition::of(product, self.partitions)
    }

    fn key(&self, partition: IndexPartition, name: impl std::fmt::Display) -> String {
        format!("{}:{{{}}}:{name}", self.prefix, partition.number())
    }

    /// A hash. Its field `vouched` is the confirmation.
    pub(super) fn marker(&self, partition: IndexPartition) -> String {
        self.key(partition, MARKER)
    }

    pub(super) fn rebuild_token(&self, partition: IndexPartition) -> String {
        self.key(partition, "rebuild")
    }

    /// A set: the partition's products, escaped as in filter keys.
    pub(super) fn products(&self, partition: IndexPartition) -> String {
        self.key(partition, "products")
    }

    /// A key of a product. Escaped products hold no slash.
    pub(super) fn of_product(&self, product: &ProductId, part: &str) -> String {
        let name = format_args!("PRODUCT#{}/{part}", product.escaped());
        self.key(self.partition_of(product), name)
    }

    pub(super) fn totals(&self, product: &ProductId) -> String {
        self.of_product(product, "totals")
    }

    pub(super) fn pattern(&self) -> String {
        let is_special = |character: char| matches!(character, '\\' | '*' | '?' | '[' | ']');
        let escape = |character| {
            is_special(character)
                .then_some('\\')
                .into_iter()
                .chain([character])
        };
        self.prefix
            .chars()
            .flat_map(escape)
            .chain(":{*".chars())
            .collect()
    }

    pub(super) fn split<'key>(&self, key: &'key str) -> Option<(IndexPartition, &'key str)> {
        let (partition, name) = key
            .strip_prefix(&self.prefix)?
            .strip_prefix(":{")?
            .split_once("}:")?;
        let number: u16 = partition
            .parse()
            .ok()
            .filter(|number: &u16| number.to_string() == partition)?;
        Some((IndexPartition::numbered(number, self.partitions)?, name))
    }

    pub(super) fn is_rebuild_token(key: &str) -> bool {
        // No other key ends like this: a product's keys have a slash after the product.
        key.ends_with("}:rebuild")
    }
}

/// The product of a key, and the rest of the key's name. `name` is the key without its partition.
pub(super) fn part_of_product(name: &str) -> Option<(ProductId, &str)> {
    let (product, part) = name.strip_prefix("PRODUCT#")?.split_once('/')?;
    // Products are written as in a filter key, so the filter key's parser reads them.
    let key = FilterKey::parse(&format!("PRODUCT#{product}/~/~")).ok()?;
    Some((key.product, part))
}

/// What a field of the totals counts; `None` if that is not one language.
pub(super) fn language_and_rating(field: &str) -> Option<(Language, Rating)> {
    let (tag, rating) = field.split_once('/')?;
    Some((language(tag)?, Rating::new(rating.parse().ok()?).ok()?))
}

fn language(tag: &str) -> Option<Language> {
    Language::parse_stored(tag)
        .ok()
        .filter(|language| language.as_str() == tag)
}
