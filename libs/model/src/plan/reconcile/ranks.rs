//! Compares a comment's entries in the page index with its expected ones.

use std::collections::{BTreeMap, BTreeSet};

use super::{Drift, Places};
use crate::{
    comment::Placement,
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
    pub scores: BTreeMap<BaseSet, f64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankPlan {
    pub drift: Vec<Drift>,
    pub edits: Vec<IndexEdit>,
}

/// Compares a comment's entries with its primary item; `None` means that the comment does not
/// exist, or is not published. Leaves unchecked products alone.
pub fn plan_ranks(
    id: &CommentId,
    last: Option<(&Placement, Timestamp)>,
    ranks: &Ranks,
) -> RankPlan {
    let mut plan = RankPlan::default();
    for (product, names) in &ranks.names {
        let here = last.filter(|(placement, _)| placement.product == *product);
        let expected: BTreeSet<BaseSet> = here
            .iter()
            .flat_map(|(placement, _)| placement.base_sets())
            .collect();
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
                plan.drift.push(Drift::MissingName(
                    product.clone(),
                    Some(placement.language.clone()),
                ));
            }
        }
        let found = ranks.scores.keys().filter(|set| set.product == *product);
        let mut remove: BTreeSet<BaseSet> = found
            .filter(|set| !expected.contains(*set))
            .cloned()
            .collect();
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
                created_at: here.map(|(_, created_at)| created_at),
                add: expected.into_iter().collect(),
                remove: remove.into_iter().collect(),
            });
        }
    }
    plan
}

/// Whether a score is a comment's creation time: whole milliseconds, exact in a double.
#[expect(
    clippy::cast_precision_loss,
    reason = "the milliseconds of the years 1 to 9999 are exact in a double"
)]
pub(crate) fn is_score(score: f64, created_at: Timestamp) -> bool {
    score == created_at.epoch_ms() as f64
}

impl Placement {
    /// Whether a comment with this creation time and placement has the right score in each of its
    /// base sets.
    pub fn has_scores(
        &self,
        score_in: impl Fn(&BaseSet) -> Option<f64>,
        created_at: Timestamp,
    ) -> bool {
        self.base_sets()
            .iter()
            .all(|set| score_in(set).is_some_and(|score| is_score(score, created_at)))
    }
}

impl Ranks {
    pub fn base_sets(places: &Places, names: &BTreeMap<ProductId, Names>) -> Vec<BaseSet> {
        let mut sets = Vec::new();
        for (product, expected) in places.iter() {
            let mut languages: BTreeSet<&Language> = expected.iter().collect();
            if let Some(names) = names.get(product) {
                languages.extend(&names.languages);
            }
            sets.extend(super::base_sets_in(product, languages));
        }
        sets
    }
}
