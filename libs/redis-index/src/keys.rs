//! The names of the page index's keys.

use model::{BaseSet, ProductId};
use page_index::IndexPartition;

/// A marker's name with the version of the layout. A partition with a different layout lacks this
/// marker. So it counts as lost, and a rebuild removes its keys and fills it. Version 1 had four
/// base sets a comment.
pub(super) const MARKER: &str = "marker:2";

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

    pub(super) fn stem(&self, partition: IndexPartition, escaped_product: &str) -> String {
        self.key(partition, format_args!("PRODUCT#{escaped_product}:"))
    }

    pub(super) fn languages(&self, product: &ProductId) -> String {
        Self::languages_at(&self.stem(self.partition_of(product), &product.escaped()))
    }

    pub(super) fn languages_at(stem: &str) -> String {
        [stem, "languages"].concat()
    }

    pub(super) fn base_set(&self, set: &BaseSet) -> String {
        Self::base_set_at(
            &self.stem(self.partition_of(&set.product), &set.product.escaped()),
            set,
        )
    }

    pub(super) fn base_set_at(stem: &str, set: &BaseSet) -> String {
        let language = match &set.language {
            Some(language) => language.as_str(),
            None => model::ANY,
        };
        [stem, language, "/", set.rating.as_str()].concat()
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
        // No other key ends like this: a product's keys hold the language after their last colon.
        key.ends_with("}:rebuild")
    }
}
