//! What the duplicates of a comment must be.

use std::collections::{BTreeMap, BTreeSet};

use serde_dynamo::Item;

use super::{Collection, Drift};
use crate::{
    filter::FilterKey,
    id::ProductId,
    plan::{DuplicateKey, DuplicateWrite},
    revision::Revision,
};

/// What must still be so when writes are applied, of a comment's primary item of a product.
#[derive(Debug, Clone, PartialEq)]
pub struct Guard {
    /// The product.
    pub product: ProductId,
    /// The item.
    pub expected: Expected,
}

/// A primary item as it was read.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// There is none.
    Absent,
    /// It has this revision.
    Revision(Revision),
    /// It is invalid, and as it was read: its revision, if it has one, says nothing of what a foreign tool does.
    Invalid(Item),
}

/// What is wrong with the duplicates of a comment, and the writes that mend it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DuplicatePlan {
    /// Each difference.
    pub drift: Vec<Drift>,
    /// The writes, one a difference.
    pub writes: Vec<DuplicateWrite>,
    /// Under which conditions: one a product that is concerned.
    pub guards: Vec<Guard>,
}

impl Collection<'_> {
    /// Compares every duplicate, attribute by attribute, with the primary item.
    pub fn plan_duplicates(&self) -> DuplicatePlan {
        let mut plan = DuplicatePlan::default();
        let key = |filter_key: &FilterKey| DuplicateKey { id: self.id.clone(), filter_key: filter_key.clone() };
        let expected: BTreeSet<FilterKey> =
            self.primary.iter().flat_map(|image| image.placement.duplicate_keys()).collect();
        if let Some(image) = &self.primary {
            for filter_key in &expected {
                let drift = match self.duplicates.get(filter_key).map(|found| image.differences(found)) {
                    Some(differences) if differences.is_empty() => continue,
                    Some(differences) => Drift::StaleDuplicate(filter_key.clone(), differences),
                    None => Drift::MissingDuplicate(filter_key.clone()),
                };
                plan.drift.push(drift);
                plan.writes.push(DuplicateWrite::Put { key: key(filter_key), item: image.duplicate(filter_key) });
            }
        }
        for filter_key in self.duplicates.keys().filter(|found| !expected.contains(found)) {
            plan.drift.push(match &self.primary {
                Some(_) => Drift::ExtraDuplicate(filter_key.clone()),
                None => Drift::OrphanDuplicate(filter_key.clone()),
            });
            plan.writes.push(DuplicateWrite::Delete { key: key(filter_key) });
        }
        plan.guards = self.guards(&plan.writes);
        plan
    }

    /// The primary item as it is; and that there is none in any other product whose duplicates are deleted.
    fn guards(&self, writes: &[DuplicateWrite]) -> Vec<Guard> {
        let mut guards: BTreeMap<&ProductId, Expected> =
            writes.iter().map(|write| (&write.key().filter_key.product, Expected::Absent)).collect();
        if !writes.is_empty() {
            let valid = self.primary.iter();
            guards.extend(valid.map(|image| (&image.placement.product, Expected::Revision(image.revision))));
            let invalid = self.invalid.iter();
            guards.extend(invalid.map(|invalid| (&invalid.product, Expected::Invalid(invalid.item.clone()))));
        }
        guards.into_iter().map(|(product, expected)| Guard { product: product.clone(), expected }).collect()
    }
}
