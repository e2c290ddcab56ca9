//! What the duplicates of a comment must be.

use std::collections::{BTreeMap, BTreeSet};

use super::{Collection, Drift};
use crate::{
    filter::FilterKey,
    id::ProductId,
    plan::{DuplicateKey, DuplicateWrite},
    revision::Revision,
};

/// What must still be so when writes are applied: the comment's primary item of a product is at this revision, or there
/// is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The product.
    pub product: ProductId,
    /// The revision as it was read, `None` for no item.
    pub revision: Option<Revision>,
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
            self.primary.iter().flat_map(|(image, _)| image.placement.duplicate_keys()).collect();
        if let Some((image, _)) = &self.primary {
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
        let mut guards: BTreeMap<&ProductId, Option<Revision>> =
            writes.iter().map(|write| (&write.key().filter_key.product, None)).collect();
        if let Some((image, revision)) = &self.primary
            && !writes.is_empty()
        {
            guards.insert(&image.placement.product, Some(*revision));
        }
        guards.into_iter().map(|(product, revision)| Guard { product: product.clone(), revision }).collect()
    }
}
