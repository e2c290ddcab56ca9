//! Where a comment must be in the page index.

use std::collections::{BTreeMap, BTreeSet};

use super::{Drift, Places};
use crate::{
    comment::Placement,
    filter::BaseSet,
    id::{CommentId, ProductId},
    instant::Instant,
    language::Language,
    plan::IndexEdit,
};

/// What the page index says of a product beside its base sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Whether the product is named in its partition.
    pub is_named: bool,
    /// The languages that are named.
    pub languages: BTreeSet<Language>,
    /// Those of these names that have no members: of a language, or of the product (`None`).
    pub without_members: BTreeSet<Option<Language>>,
}

/// Where a comment was looked for, and where it was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ranks {
    /// The products that were looked at.
    pub names: BTreeMap<ProductId, Names>,
    /// The base sets that have it as a member, and its scores.
    pub scores: BTreeMap<BaseSet, f64>,
}

/// What is wrong with the entries of a comment, and the edits that mend it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankPlan {
    /// Each difference.
    pub drift: Vec<Drift>,
    /// The edits, one a product that is concerned.
    pub edits: Vec<IndexEdit>,
}

/// Compares the entries of a comment with its primary item, `None` when there is no such comment. A product that was
/// not looked at is left alone.
pub fn plan_ranks(id: &CommentId, last: Option<(&Placement, Instant)>, ranks: &Ranks) -> RankPlan {
    let mut plan = RankPlan::default();
    for (product, names) in &ranks.names {
        let here = last.filter(|(placement, _)| placement.product == *product);
        let expected: BTreeSet<BaseSet> = here.iter().flat_map(|(placement, _)| placement.base_sets()).collect();
        let before = plan.drift.len();
        if let Some((placement, created_at)) = here {
            for set in &expected {
                match ranks.scores.get(set) {
                    None => plan.drift.push(Drift::MissingRank(set.clone())),
                    Some(score) if is_score(*score, created_at) => {}
                    Some(score) => plan.drift.push(Drift::WrongScore(set.clone(), *score)),
                }
            }
            if !names.is_named {
                plan.drift.push(Drift::MissingName(product.clone(), None));
            }
            if !names.languages.contains(&placement.language) {
                plan.drift.push(Drift::MissingName(product.clone(), Some(placement.language.clone())));
            }
        }
        let found = ranks.scores.keys().filter(|set| set.product == *product);
        let mut remove: Vec<BaseSet> = found.filter(|set| !expected.contains(*set)).cloned().collect();
        plan.drift.extend(remove.iter().cloned().map(|set| match last {
            Some(_) => Drift::ExtraRank(set),
            None => Drift::OrphanRank(set),
        }));
        for language in &names.without_members {
            let whole = BaseSet { product: product.clone(), language: language.clone(), rating: None };
            // Its member may be what is missing. Taking a member out of an empty set takes the name away.
            if !expected.contains(&whole) {
                plan.drift.push(Drift::ExtraName(product.clone(), language.clone()));
                remove.push(whole);
            }
        }
        if plan.drift.len() > before {
            plan.edits.push(IndexEdit {
                product: product.clone(),
                id: id.clone(),
                created_at: here.map(|(_, created_at)| created_at),
                add: expected.into_iter().collect(),
                remove,
            });
        }
    }
    plan
}

/// Whether a score is a comment's time: whole milliseconds, exact in a double.
#[expect(clippy::cast_precision_loss, reason = "the milliseconds of the years 1 to 9999 are exact in a double")]
pub(crate) fn is_score(score: f64, created_at: Instant) -> bool {
    score == created_at.epoch_ms() as f64
}

impl Placement {
    /// Whether `scores`, of the four base sets in the order of [`Placement::base_sets`], are those of a comment that was
    /// made at this time and stands here.
    pub fn has_scores(&self, scores: &[Option<f64>], created_at: Instant) -> bool {
        scores.len() == self.base_sets().len()
            && scores.iter().all(|score| score.is_some_and(|score| is_score(score, created_at)))
    }
}

impl Ranks {
    /// Where to look for a comment: the base sets of every place, in its languages and those that are named.
    pub fn base_sets(places: &Places, names: &BTreeMap<ProductId, Names>) -> Vec<BaseSet> {
        let sets = places.iter().flat_map(|(product, told)| {
            let mut languages = told.clone();
            languages.extend(names.get(product).into_iter().flat_map(|names| names.languages.iter().cloned()));
            super::base_sets_in(product, &languages)
        });
        sets.collect()
    }
}
