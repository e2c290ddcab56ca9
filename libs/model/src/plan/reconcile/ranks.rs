//! Compares a comment's entries in the page index with its expected ones.

use std::collections::{BTreeMap, BTreeSet};

use super::Drift;
use crate::{
    comment::RankEntry,
    filter::{BaseSet, Filter},
    id::{CommentId, ProductId},
    language::Language,
    plan::IndexEdit,
    timestamp::Timestamp,
};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    pub is_named: bool,
    pub languages: BTreeSet<Language>,
    /// The names whose five sets have no members: of a language, or of the product (`None`).
    pub without_members: BTreeSet<Option<Language>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ranks {
    pub names: BTreeMap<ProductId, Names>,
    /// The creation times with which the comment is in base sets.
    pub times: BTreeMap<BaseSet, BTreeSet<Timestamp>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankPlan {
    pub drift: Vec<Drift>,
    pub edits: Vec<IndexEdit>,
}

/// Compares a comment's entries with its primary item; `None` means that the comment does not
/// exist, or is not published. Leaves unchecked products alone.
pub fn plan_ranks(id: &CommentId, last: Option<&RankEntry>, ranks: &Ranks) -> RankPlan {
    let mut plan = RankPlan::default();
    for (product, names) in &ranks.names {
        let here = last.filter(|entry| entry.placement.product == *product);
        let expected: BTreeSet<BaseSet> = here
            .iter()
            .flat_map(|entry| entry.placement.base_sets())
            .collect();
        let mut remove_at = BTreeSet::new();
        let before = plan.drift.len();
        if let Some(RankEntry {
            placement,
            created_at,
        }) = here
        {
            for set in &expected {
                let found = ranks.times.get(set);
                if found.is_none_or(BTreeSet::is_empty) {
                    plan.drift.push(Drift::MissingRank(set.clone()));
                }
                for time in found.into_iter().flatten() {
                    if time != created_at {
                        plan.drift.push(Drift::WrongScore(set.clone(), *time));
                        remove_at.insert(*time);
                    }
                }
            }
            if !names.is_named {
                plan.drift.push(Drift::MissingName(product.clone(), None));
            }
            if !names.languages.contains(&placement.language) {
                plan.drift.push(Drift::MissingName(
                    product.clone(),
                    Some(placement.language.clone()),
                ));
            }
        }
        let mut remove: BTreeSet<BaseSet> = BTreeSet::new();
        for (set, times) in &ranks.times {
            if set.product == *product && !expected.contains(set) {
                remove.insert(set.clone());
                remove_at.extend(times);
            }
        }
        plan.drift
            .extend(remove.iter().cloned().map(|set| match last {
                Some(_) => Drift::ExtraRank(set),
                None => Drift::OrphanRank(set),
            }));
        for language in &names.without_members {
            // The missing member may be this comment. Removing a comment from empty sets also
            // removes their name.
            if !expected.iter().any(|set| set.language == *language) {
                plan.drift
                    .push(Drift::ExtraName(product.clone(), language.clone()));
                remove.extend(Filter::new(language.clone(), None).base_sets(product));
            }
        }
        if plan.drift.len() > before {
            plan.edits.push(IndexEdit {
                product: product.clone(),
                id: id.clone(),
                created_at: here.map(|entry| entry.created_at),
                add: expected.into_iter().collect(),
                remove: remove.into_iter().collect(),
                remove_at,
            });
        }
    }
    plan
}

impl Ranks {
    /// What a comment's entries in products with these names say.
    pub fn new(
        names: BTreeMap<ProductId, Names>,
        entries: impl IntoIterator<Item = RankEntry>,
    ) -> Self {
        let mut times: BTreeMap<BaseSet, BTreeSet<Timestamp>> = BTreeMap::new();
        for entry in entries {
            for set in entry.placement.base_sets() {
                times.entry(set).or_default().insert(entry.created_at);
            }
        }
        Self { names, times }
    }
}
