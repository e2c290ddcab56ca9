//! The differences in everything that is derived from one comment, and the writes that repair them.
//!
//! - `collection`: reads all items of a comment id, and finds those that a person has to look at.
//! - `duplicates`: the expected duplicates, and the guarded writes.
//! - `ranks`: the expected entries in the page index, and the edits.
//!
//! **Invariant:** after the writes of a plan have been applied, a new plan is empty
//! (`a_plan_that_was_applied_leaves_nothing_to_do` in the tests of this module).
//!
//! **Invariant:** a plan names each duplicate's key and each base set at most once, and names only
//! those that are wrong.

mod collection;
mod duplicates;
mod ranks;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use strum::{Display, EnumDiscriminants, EnumIter, IntoStaticStr};

use crate::{
    comment::{Placement, RankEntry},
    filter::{BaseSet, FilterKey},
    id::ProductId,
    invariant::Invariant,
    language::Language,
    timestamp::Timestamp,
};
pub use collection::{Collection, InvalidPrimary, Unresolved};
pub use duplicates::{DuplicatePlan, Expected, Guard};
pub use ranks::{Names, RankPlan, Ranks, plan_ranks};

/// Where to look for the traces of a comment: products, languages of each, and creation times, as
/// named by the finder of the trace. It never says what must be there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    #[serde(flatten)]
    products: BTreeMap<ProductId, BTreeSet<Language>>,
    /// A stored place has none.
    #[serde(skip)]
    times: BTreeSet<Timestamp>,
    /// Whether the finder knows no creation time, so that the comment may be at any.
    #[serde(skip)]
    is_at_any_time: bool,
    /// Products in which somebody has looked for the comment at any time since.
    #[serde(skip)]
    searched: BTreeSet<ProductId>,
}

impl Places {
    pub fn of(entry: &RankEntry) -> Self {
        let mut places = Self::default();
        places.add_entry(entry);
        places
    }

    pub fn add_entry(&mut self, entry: &RankEntry) {
        let Placement {
            product, language, ..
        } = &entry.placement;
        self.add(product, Some(language));
        self.add_time(entry.created_at);
    }

    pub fn add_time(&mut self, created_at: Timestamp) {
        self.times.insert(created_at);
    }

    /// Whatever its creation time was.
    pub fn at_any_time(mut self) -> Self {
        self.is_at_any_time = true;
        self
    }

    /// All entries that a product has of the comment, whatever their times.
    pub fn add_all_entries(&mut self, product: &ProductId, entries: &[RankEntry]) {
        self.searched.insert(product.clone());
        for entry in entries {
            self.add_entry(entry);
        }
    }

    /// The creation times in a product; `None` for any.
    pub fn times_in(&self, product: &ProductId) -> Option<&BTreeSet<Timestamp>> {
        let are_known = !self.is_at_any_time || self.searched.contains(product);
        are_known.then_some(&self.times)
    }

    pub fn add(&mut self, product: &ProductId, language: Option<&Language>) {
        self.products
            .entry(product.clone())
            .or_default()
            .extend(language.cloned());
    }

    pub fn join(&mut self, other: &Self) {
        self.times.extend(&other.times);
        self.is_at_any_time |= other.is_at_any_time;
        self.searched.extend(other.searched.iter().cloned());
        for (product, languages) in &other.products {
            self.products
                .entry(product.clone())
                .or_default()
                .extend(languages.iter().cloned());
        }
    }

    /// The same in some of the products.
    pub fn within(&self, has: impl Fn(&ProductId) -> bool) -> Self {
        let mut within = self.clone();
        within.products.retain(|product, _| has(product));
        within
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ProductId, &BTreeSet<Language>)> {
        self.products.iter()
    }

    pub fn products(&self) -> impl Iterator<Item = &ProductId> {
        self.products.keys()
    }
}

/// One difference between a comment's primary item and the data derived from it, or a missing part
/// of the item itself.
#[derive(Debug, Clone, PartialEq, derive_more::Display, EnumDiscriminants)]
#[display("{}: {_variant}", self.kind())]
#[strum_discriminants(name(DriftKind))]
#[strum_discriminants(doc = "The kind of a difference; reports count by it.")]
#[strum_discriminants(derive(
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumIter,
    IntoStaticStr
))]
#[strum_discriminants(serde(rename_all = "snake_case"), strum(serialize_all = "snake_case"))]
pub enum Drift {
    MissingDuplicate(FilterKey),
    ExtraDuplicate(FilterKey),
    #[display("{_0} ({})", _1.join(", "))]
    StaleDuplicate(FilterKey, Vec<String>),
    /// A duplicate of a comment that does not exist, or is not published.
    OrphanDuplicate(FilterKey),
    MissingRank(BaseSet),
    /// The comment is in a base set that it does not imply: for a different language, rating or
    /// product.
    ExtraRank(BaseSet),
    #[display("{_0} ({_1})")]
    WrongScore(BaseSet, Timestamp),
    /// A base set names a comment that does not exist, or is not published.
    OrphanRank(BaseSet),
    /// The page index does not name the product (`None`), or a language of it, although it has
    /// comments.
    #[display("{_0}{}", after_space(_1.as_ref()))]
    MissingName(ProductId, Option<Language>),
    #[display("{_0}{}", after_space(_1.as_ref()))]
    ExtraName(ProductId, Option<Language>),
    /// The page index counts the product's comments wrong, or does not find them all by their ids.
    WrongCounts(ProductId),
    /// The primary item under this key lacks its revision or a key of the index `primaries`, and
    /// nothing else.
    IncompleteItem(FilterKey),
    /// The index of this name lacks the primary item under this key: the engine has lost the entry.
    #[display("{_0} {_1}")]
    MissingEntry(&'static str, FilterKey),
}

fn after_space(language: Option<&Language>) -> String {
    match language {
        Some(language) => format!(" {language}"),
        None => String::new(),
    }
}

impl DriftKind {
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The promise that such a difference breaks in a quiet system.
    pub fn breaks(self) -> Invariant {
        match self {
            Self::MissingDuplicate
            | Self::ExtraDuplicate
            | Self::StaleDuplicate
            | Self::OrphanDuplicate => Invariant::DuplicatesAreExact,
            Self::MissingRank
            | Self::ExtraRank
            | Self::WrongScore
            | Self::OrphanRank
            | Self::MissingName
            | Self::ExtraName
            | Self::WrongCounts => Invariant::PageIndexIsExact,
            Self::IncompleteItem | Self::MissingEntry => Invariant::TableIndexesAreExact,
        }
    }
}

impl Drift {
    pub fn kind(&self) -> DriftKind {
        self.into()
    }
}
