//! `check`: compares what is there for one comment with what should be there.

use std::collections::BTreeMap;

use model::{
    BaseSet, CommentId, Placement, ProductId,
    item::{Image, attribute, text},
    plan::reconcile::{Collection, Drift, InvalidPrimary, Places, Ranks, plan_ranks},
};
use process::StoreError;
use serde_dynamo::{AttributeValue, Item};

use crate::{
    repair::{
        RESUMES_WITH_UNFINISHED,
        index_snapshot::{IndexScope, IndexSnapshot, RepairScope},
        repair_all,
    },
    run::{Job, Run, index_is_away, report::Report},
};

/// Shown for something that is absent, or that should be absent.
const NOTHING: &str = "-";
/// Shown for a duplicate that is right, or that should exist.
const COPY: &str = "like the primary item";

/// What Pagemark itself writes into an item. A commenter may have written the other attributes.
const OWN: [&str; 4] = [
    attribute::CD,
    attribute::LANGUAGE,
    attribute::RATING,
    attribute::REVISION,
];

/// The rows of the table that a person reads, by the key of a derived item or entry. The cells say
/// what it is, its state, what is there and what should be. No cell holds text that a commenter
/// wrote.
type ComparisonRows = BTreeMap<String, [String; 4]>;

impl Job {
    /// Checks one comment. `product` names another product to look in. The notes show what is there
    /// and what should be. It needs no lease, because its writes are conditional.
    pub async fn check(&self, id: &CommentId, product: Option<&ProductId>) -> Report {
        let mut places = Places::default();
        product
            .into_iter()
            .for_each(|product| places.add(product, None));
        let work = async |run: &Run<'_>| {
            let table_id = self.table.describe().await?.id;
            let snapshot = IndexSnapshot::read(run, &table_id).await?;
            let scope = RepairScope::of_all(&snapshot);
            for line in describe(self, id, &places, &scope).await? {
                run.ledger.add_note(line);
            }
            let suspects = BTreeMap::from([(id.clone(), places.clone())]);
            run.add_checked(
                repair_all(run, suspects.into(), &scope, Some(RESUMES_WITH_UNFINISHED))
                    .await?
                    .checked(),
            );
            Ok(())
        };
        self.run("check", None, work).await
    }
}

/// The comment, line by line.
async fn describe(
    job: &Job,
    id: &CommentId,
    places: &Places,
    scope: &RepairScope<'_>,
) -> Result<Vec<String>, StoreError> {
    let mut lines = vec![format!("comment {id}")];
    let items = job.table.items_of(id).await?;
    let collection = match Collection::read(id, &items) {
        Ok(collection) => collection,
        Err(unresolved) => {
            lines.push(format!("a person has to look: {unresolved}"));
            let keys = items
                .iter()
                .map(|item| text(item, attribute::SK).unwrap_or("?"));
            lines.extend(keys.map(|key| format!("item {key}")));
            return Ok(lines);
        }
    };
    if let Some(InvalidPrimary {
        malformed,
        incomplete: Some(_),
        ..
    }) = &collection.invalid
    {
        lines.push(format!("primary item: to be taken over, {malformed}"));
        return Ok(lines);
    }
    lines.push(primary_line(&collection));
    let ranks = match &scope.index {
        IndexScope::Nothing => Err("not checked".to_owned()),
        IndexScope::Partitions(_) | IndexScope::Snapshot(_) => {
            let ranks = job.index.ranks(id, &collection.places(places)).await;
            ranks.map_err(|error| match index_is_away(&error) {
                true => format!("not checked, {error}"),
                false => format!("a person has to look, {error}"),
            })
        }
    };
    lines.push(format!(
        "page index: {}",
        ranks.as_ref().map_or_else(String::as_str, |_| "as below")
    ));
    lines.extend(table(&rows(&collection, &items, ranks.as_ref().ok())));
    Ok(lines)
}

fn primary_line(collection: &Collection<'_>) -> String {
    if let Some(Image {
        placement,
        created_at,
        status,
        revision,
        ..
    }) = &collection.primary
    {
        let Placement {
            product,
            language,
            rating,
        } = placement;
        let status = if status.is_published() {
            String::new()
        } else {
            format!("{status}, ")
        };
        return format!(
            "primary item: {status}{product}, {language}, rating {rating}, made {created_at}, revision {revision}"
        );
    }
    match &collection.invalid {
        Some(invalid) => format!("primary item: a person has to look, {}", invalid.malformed),
        None => "primary item: none".to_owned(),
    }
}

fn rows(collection: &Collection<'_>, items: &[Item], ranks: Option<&Ranks>) -> ComparisonRows {
    let last = collection.last();
    let mut rows = ComparisonRows::new();
    let mut add = |what: &str, state: &str, key: String, is: &str, should_be: &str| {
        rows.insert(key, [what, state, is, should_be].map(str::to_owned));
    };
    for key in last
        .iter()
        .flat_map(|(placement, _)| placement.duplicate_keys())
    {
        add("duplicate", "right", key.to_string(), COPY, COPY);
    }
    let mut drift = collection.plan_duplicates().drift;
    let score = last.map_or_else(
        || NOTHING.to_owned(),
        |(_, created_at)| created_at.epoch_ms().to_string(),
    );
    if let Some(ranks) = ranks {
        for set in last.iter().flat_map(|(placement, _)| placement.base_sets()) {
            add("rank entry", "right", set.to_string(), &score, &score);
        }
        drift.extend(plan_ranks(&collection.id, last, ranks).drift);
    }
    let found_score = |set: &BaseSet| {
        ranks
            .and_then(|ranks| ranks.scores.get(set))
            .map_or(NOTHING.to_owned(), f64::to_string)
    };
    for drift in drift {
        let state = drift.kind().name().replace('_', " ");
        match &drift {
            Drift::MissingDuplicate(key) => {
                add("duplicate", &state, key.to_string(), NOTHING, COPY)
            }
            Drift::ExtraDuplicate(key) | Drift::OrphanDuplicate(key) => {
                add("duplicate", &state, key.to_string(), "there", NOTHING);
            }
            Drift::StaleDuplicate(key, attributes) => {
                let key = key.to_string();
                let found = items
                    .iter()
                    .find(|item| text(item, attribute::SK) == Some(&key));
                let is: Vec<String> = attributes
                    .iter()
                    .map(|name| differing(name, found))
                    .collect();
                add("duplicate", &state, key, &is.join(", "), COPY);
            }
            Drift::MissingRank(set) | Drift::WrongScore(set, _) => {
                add(
                    "rank entry",
                    &state,
                    set.to_string(),
                    &found_score(set),
                    &score,
                );
            }
            Drift::ExtraRank(set) | Drift::OrphanRank(set) => {
                add(
                    "rank entry",
                    &state,
                    set.to_string(),
                    &found_score(set),
                    NOTHING,
                );
            }
            Drift::MissingName(product, language) => {
                add(
                    "name",
                    &state,
                    name(product, language.as_ref()),
                    NOTHING,
                    "named",
                );
            }
            Drift::ExtraName(product, language) => {
                add(
                    "name",
                    &state,
                    name(product, language.as_ref()),
                    "named",
                    NOTHING,
                );
            }
            // It has no row: what the item implies is unknown until it is complete.
            Drift::IncompleteItem(_) => {}
        }
    }
    rows
}

/// An attribute of a stale duplicate. The primary item's are on the line above the table.
fn differing(name: &str, duplicate: Option<&Item>) -> String {
    match duplicate.and_then(|item| item.get(name)) {
        Some(AttributeValue::S(value) | AttributeValue::N(value)) if OWN.contains(&name) => {
            format!("{name} {value}")
        }
        Some(_) => format!("other {name}"),
        None => format!("no {name}"),
    }
}

fn name(product: &ProductId, language: Option<&model::Language>) -> String {
    language.map_or_else(
        || product.to_string(),
        |language| format!("{product} {language}"),
    )
}

fn table(rows: &ComparisonRows) -> Vec<String> {
    let titles = ["", "state", "is", "should be", "key"];
    let cells = rows
        .iter()
        .map(|(key, [what, state, is, should_be])| [&**what, state, is, should_be, key]);
    let lines: Vec<[&str; 5]> = std::iter::once(titles).chain(cells).collect();
    let mut widths = ["rank entry".len(), 0, 0, 0, 0];
    for line in &lines {
        widths
            .iter_mut()
            .zip(line)
            .for_each(|(width, cell)| *width = cell.len().max(*width));
    }
    let line = |line: &[&str; 5]| {
        let cells: Vec<String> = line
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned()
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_commenter_wrote_is_not_shown() {
        let written = || AttributeValue::S("secret".to_owned());
        let names = [attribute::RATING, attribute::COMMENT_BLOB, "unknown"].map(str::to_owned);
        let values = [AttributeValue::N("4".to_owned()), written(), written()];
        let item: Item = names
            .into_iter()
            .zip(values)
            .collect::<std::collections::HashMap<_, _>>()
            .into();
        let shown =
            ["rating", "comment_blob", "unknown", "cd"].map(|name| differing(name, Some(&item)));
        assert_eq!(
            shown,
            ["rating 4", "other comment_blob", "other unknown", "no cd"]
        );
    }
}
