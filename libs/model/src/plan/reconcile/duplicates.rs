//! Compares a comment's duplicates with the expected ones.

use std::collections::{BTreeMap, BTreeSet};

use serde_dynamo::Item;

use super::{Collection, Drift};
use crate::{
    filter::FilterKey,
    id::ProductId,
    item::Image,
    plan::{DuplicateKey, DuplicateWrite},
    revision::Revision,
};

/// A condition of writes: the primary item of a comment in one product must still be as it was
/// read.
#[derive(Debug, Clone, PartialEq)]
pub struct Guard {
    pub product: ProductId,
    pub expected: Expected,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    Absent,
    Revision(Revision),
    /// The item was invalid. The whole item is compared: a revision, if it has one, does not show
    /// changes by a foreign tool.
    Invalid(Item),
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct DuplicatePlan {
    pub drift: Vec<Drift>,
    pub writes: Vec<DuplicateWrite>,
    pub guards: Vec<Guard>,
}

impl Collection<'_> {
    pub fn plan_duplicates(&self) -> DuplicatePlan {
        let mut plan = DuplicatePlan::default();
        let expected: BTreeSet<FilterKey> = self
            .primary
            .iter()
            .flat_map(Image::duplicate_keys)
            .collect();
        if let Some(image) = &self.primary {
            for filter_key in &expected {
                let found = self.duplicates.get(filter_key);
                let drift = match found.map(|found| image.differences(found)) {
                    Some(differences) if differences.is_empty() => continue,
                    Some(differences) => Drift::StaleDuplicate(filter_key.clone(), differences),
                    None => Drift::MissingDuplicate(filter_key.clone()),
                };
                plan.drift.push(drift);
                plan.writes.push(DuplicateWrite::Put {
                    key: DuplicateKey::of(&self.id, filter_key),
                    item: image.duplicate(filter_key),
                });
            }
        }
        for filter_key in self.duplicates.keys() {
            if expected.contains(filter_key) {
                continue;
            }
            plan.drift.push(match self.published() {
                Some(_) => Drift::ExtraDuplicate(filter_key.clone()),
                None => Drift::OrphanDuplicate(filter_key.clone()),
            });
            plan.writes.push(DuplicateWrite::Delete {
                key: DuplicateKey::of(&self.id, filter_key),
            });
        }
        plan.guards = self.guards(&plan.writes);
        plan
    }

    /// The conditions: the primary item is unchanged, and in every other product whose duplicates
    /// are deleted it is absent.
    fn guards(&self, writes: &[DuplicateWrite]) -> Vec<Guard> {
        if writes.is_empty() {
            return Vec::new();
        }
        let mut guards: BTreeMap<&ProductId, Expected> = BTreeMap::new();
        for write in writes {
            guards.insert(&write.key().filter_key.product, Expected::Absent);
        }
        if let Some(image) = &self.primary {
            guards.insert(&image.placement.product, Expected::Revision(image.revision));
        }
        if let Some(invalid) = &self.invalid {
            guards.insert(&invalid.product, Expected::Invalid(invalid.item.clone()));
        }
        guards
            .into_iter()
            .map(|(product, expected)| Guard {
                product: product.clone(),
                expected,
            })
            .collect()
    }
}
