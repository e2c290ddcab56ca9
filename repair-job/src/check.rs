//! `check`: one comment, what is and what should be.

use std::{collections::BTreeMap, fmt::Write};

use model::{
    CommentId, FilterKey, ProductId,
    item::{attribute, text},
    plan::reconcile::{Collection, Drift, Places, plan_ranks},
};
use stores::StoreError;

use crate::{
    error::RepairError,
    follow::Follow,
    job::{Job, Run, looked_at},
    reconcile::{IndexScope, Scope},
    report::Report,
};

/// One comment as a table, and the report.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// Lines for a person: what is there before anything is mended, and what should be.
    pub table: String,
    /// What was found and done.
    pub report: Report,
}

impl Job {
    /// Looks at one comment; `product` says where else to look.
    pub async fn check(&self, id: &CommentId, product: Option<&ProductId>) -> Checked {
        let mut table = String::new();
        let mut told = Places::default();
        product.into_iter().for_each(|product| told.add(product, None));
        // One comment is guarded by itself and needs no lease.
        let work = async |run: &Run<'_>| {
            let table_id = self.table.describe().await?.id;
            let follow = Follow::read(run, &table_id).await?;
            let scope = Scope { duplicates: true, index: follow.scope() };
            table = self.describe(id, &told, &scope).await?;
            let states = run.reconcile_all([(id.clone(), told.clone())], &scope).await?;
            run.add_checked(looked_at(&states));
            Ok(())
        };
        let report = self.without_lease("check", work).await;
        Checked { table, report }
    }

    async fn describe(&self, id: &CommentId, told: &Places, scope: &Scope) -> Result<String, RepairError> {
        let items = self.table.items_of(id).await?;
        let mut lines = format!("comment {id}\n");
        let collection = match Collection::read(id, &items) {
            Ok(collection) => collection,
            Err(unresolved) => {
                lines.push_str(&format!("  a person has to look: {unresolved}\n"));
                for item in &items {
                    lines.push_str(&format!("  item {}\n", text(item, attribute::SK).unwrap_or("?")));
                }
                return Ok(lines);
            }
        };
        let last = collection.primary.as_ref().map(|(image, _)| (&image.placement, image.created_at));
        let summary = match &collection.primary {
            Some((image, revision)) => format!(
                "primary item: {}, {}, rating {}, made {}, revision {revision}",
                image.placement.product, image.placement.language, image.placement.rating, image.created_at
            ),
            None => "primary item: none".to_owned(),
        };
        let mut rows: BTreeMap<String, (&str, String)> = BTreeMap::new();
        let present: Vec<String> =
            items.iter().filter_map(|item| text(item, attribute::SK)).map(str::to_owned).collect();
        let implied = last.iter().flat_map(|(placement, _)| placement.duplicate_keys()).map(|key| key.to_string());
        for key in implied.chain(present.into_iter().filter(|key| !key.ends_with(FilterKey::PRIMARY_SUFFIX))) {
            rows.insert(key, ("duplicate", "right".to_owned()));
        }
        let mut drift = collection.plan_duplicates().drift;
        let places = collection.places(told);
        let mut index = "page index: as below".to_owned();
        if matches!(scope.index, IndexScope::Nothing) {
            index = "page index: not looked at".to_owned();
        } else {
            match self.index.ranks(id, &places).await {
                Ok(ranks) => {
                    let implied = last.iter().flat_map(|(placement, _)| placement.base_sets());
                    for set in implied.chain(ranks.scores.keys().cloned()) {
                        rows.insert(set.to_string(), ("rank entry", "right".to_owned()));
                    }
                    drift.extend(plan_ranks(id, last, &ranks).drift);
                }
                Err(error @ (StoreError::Unavailable { .. } | StoreError::Refused { .. })) => {
                    index = format!("page index: not looked at, {error}");
                }
                Err(error) => index = format!("page index: a person has to look, {error}"),
            }
        }
        for one in &drift {
            let found = one.kind().name().replace('_', " ");
            match one {
                Drift::MissingDuplicate(key) | Drift::ExtraDuplicate(key) | Drift::OrphanDuplicate(key) => {
                    rows.insert(key.to_string(), ("duplicate", found));
                }
                Drift::StaleDuplicate(key, attributes) => {
                    rows.insert(key.to_string(), ("duplicate", format!("stale: {}", attributes.join(", "))));
                }
                Drift::MissingRank(set) | Drift::ExtraRank(set) | Drift::OrphanRank(set) => {
                    rows.insert(set.to_string(), ("rank entry", found));
                }
                Drift::WrongScore(set, score) => {
                    rows.insert(set.to_string(), ("rank entry", format!("wrong score {score}")));
                }
                Drift::MissingName(..) | Drift::ExtraName(..) => {
                    rows.insert(one.to_string(), ("name", found));
                }
            }
        }
        writeln!(lines, "  {summary}\n  {index}").ok();
        for (key, (what, state)) in rows {
            writeln!(lines, "  {what:<10}  {state:<20}  {key}").ok();
        }
        Ok(lines)
    }
}
