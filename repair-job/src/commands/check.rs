//! `check`: compares what is there for one comment with what should be there.

use std::collections::BTreeMap;

use futures_util::{StreamExt, TryStreamExt, stream};
use model::{
    BaseSet, CommentId, FilterKey, Placement, ProductId, Revision, Timestamp,
    item::{Image, attribute, text},
    journal::{JOURNAL_RETENTION_DAYS, JournalEntry, journal_shard},
    plan::reconcile::{Collection, Drift, InvalidPrimary, Places, Ranks, plan_ranks},
};
use process::{StoreError, now};
use serde_dynamo::{AttributeValue, Item};

use crate::{
    repair::{
        RESUMES_WITH_UNFINISHED,
        index_snapshot::{IndexScope, IndexSnapshot, RepairScope},
        is_in_indexes, repair_all,
    },
    run::{
        Job, Run, index_is_away,
        report::{CheckedComment, CheckedEntry, CommentChange, Report},
    },
};

/// Shown for something that is absent, or that should be absent.
const NOTHING: &str = "-";
/// Shown for a duplicate that is right, or that should exist.
const COPY: &str = "like the primary item";

const HOUR_MS: i64 = 3_600_000;
/// The hours of the journal, and one more for a clock that is ahead.
const HOURS: i64 = JOURNAL_RETENTION_DAYS * 24 + 1;
const HOURS_AT_ONCE: usize = 8;
const ENTRIES_OF_PART: i32 = 2_000;
/// Maximum number of entries that are read for the last one of a comment: some 30 MB.
const ENTRIES_MAX: usize = 100_000;
/// Maximum number of changes that are shown.
const CHANGES_MAX: usize = 100;

/// What Pagemark itself writes into an item. A commenter may have written the other attributes.
const OWN: [&str; 4] = [
    attribute::CD,
    attribute::LANGUAGE,
    attribute::RATING,
    attribute::REVISION,
];

/// The derived items and entries, by key. The cells say what it is, its state, what is there and what
/// should be. No cell holds text that a commenter wrote.
#[derive(Default)]
struct ComparisonRows(BTreeMap<String, [String; 4]>);

impl Job {
    /// Checks one comment. `product` names another product to look in. The report shows what is there
    /// and what should be. It needs no lease, because its writes are conditional.
    pub async fn check(&self, id: &CommentId, product: Option<&ProductId>) -> Report {
        let mut places = Places::default().at_any_time();
        if let Some(product) = product {
            places.add(product, None);
        }
        let is_placed = product.is_some();
        self.run("check", None, async move |run| {
            check(run, id, places, is_placed).await
        })
        .await
    }
}

async fn check(
    run: &Run<'_>,
    id: &CommentId,
    places: Places,
    is_placed: bool,
) -> Result<(), StoreError> {
    let table_id = run.job.table.describe().await?.id;
    if !is_placed && run.job.table.items_of(id).await?.is_empty() {
        let problem = format!(
            "no comment has the id {id}; if the page index may still have something of it, name its product by --product"
        );
        run.ledger.report().failure = Some(problem);
        let changes = changes_of(run, id).await?;
        if !changes.is_empty() {
            let mut comment = CheckedComment::of(id);
            comment.primary_item = "none".to_owned();
            comment.changes = changes;
            run.ledger.report().comment = Some(comment);
        }
        return Ok(());
    }
    let snapshot = IndexSnapshot::read(run, &table_id).await?;
    let scope = RepairScope {
        entries: true,
        ..RepairScope::of_all(&snapshot)
    };
    let comment = describe(run.job, id, &places, &scope).await?;
    run.ledger.report().comment = Some(comment.clone());
    let suspects = BTreeMap::from([(id.clone(), places)]);
    let resumes = Some(RESUMES_WITH_UNFINISHED);
    let outcome = repair_all(run, suspects.into(), &scope, resumes).await?;
    run.add_checked(outcome.checked());
    let changes = changes_of(run, id).await?;
    run.ledger.report().comment = Some(CheckedComment { changes, ..comment });
    Ok(())
}

/// What the journal has of a comment, oldest first. The present revision leads to the entry of the
/// last change, and each entry to the one before.
async fn changes_of(run: &Run<'_>, id: &CommentId) -> Result<Vec<CommentChange>, StoreError> {
    if run.stop_reason().is_some() {
        return Ok(Vec::new());
    }
    let table = &run.job.table;
    let item = table.primary_item(id).await?;
    let revision = item
        .as_ref()
        .and_then(|item| text(item, attribute::REVISION));
    let mut entry = match revision.and_then(|revision| Revision::parse(revision).ok()) {
        Some(revision) => entry_or_note(run, id, revision).await?,
        None => last_entry(run, id).await?,
    };
    let mut changes = Vec::new();
    while let Some(found) = entry.take() {
        if let Some(before) = found.follows
            && changes.len() < CHANGES_MAX
        {
            entry = entry_or_note(run, id, before).await?;
        }
        changes.push(CommentChange::of(found));
    }
    changes.reverse();
    Ok(changes)
}

/// An entry, unless it cannot be read: the changes before it are then unknown.
async fn entry_or_note(
    run: &Run<'_>,
    id: &CommentId,
    revision: Revision,
) -> Result<Option<JournalEntry>, StoreError> {
    match run.job.table.journal_entry(id, revision).await {
        Err(StoreError::Malformed(problem)) => {
            run.ledger
                .add_note(format!("its changes are not known further back: {problem}"));
            Ok(None)
        }
        entry => entry,
    }
}

/// The last entry of a comment that is not there any more. It reads one shard of each hour, newest
/// first. A note says so if it did not read all.
async fn last_entry(run: &Run<'_>, id: &CommentId) -> Result<Option<JournalEntry>, StoreError> {
    // A writer's clock may be ahead.
    let newest = now().plus_ms(HOUR_MS);
    let mut parts = stream::iter(0..HOURS)
        .map(|hour| last_entry_of_hour(run, id, newest.plus_ms(-hour * HOUR_MS)))
        .buffered(HOURS_AT_ONCE);
    let mut read = 0;
    while let Some(part) = parts.try_next().await? {
        if part.last.is_some() {
            return Ok(part.last);
        }
        read += part.read;
        if read >= ENTRIES_MAX || run.stop_reason().is_some() {
            run.ledger
                .add_note("not all of the journal was read for its last change".to_owned());
            break;
        }
    }
    Ok(None)
}

/// The last entry of a comment in an hour.
struct HourOfJournal {
    last: Option<JournalEntry>,
    /// How many entries were read.
    read: usize,
}

async fn last_entry_of_hour(
    run: &Run<'_>,
    id: &CommentId,
    within: Timestamp,
) -> Result<HourOfJournal, StoreError> {
    let mut from = within.plus_ms(-within.epoch_ms().rem_euclid(HOUR_MS));
    let to = from.plus_ms(HOUR_MS);
    let mut hour = HourOfJournal {
        last: None,
        read: 0,
    };
    loop {
        let part = run
            .job
            .table
            .journal_part(journal_shard(id), from, to, ENTRIES_OF_PART)
            .await?;
        hour.read += part.rows.len();
        for row in part.rows {
            // The next part begins at this instant, so it repeats what has it.
            from = from.max(row.at);
            // `recent` reports an entry that cannot be read.
            if let Ok(entry) = row.entry
                && entry.id == *id
                && !entry.is_report
            {
                hour.last = Some(entry);
            }
        }
        if part.next.is_none() || run.stop_reason().is_some() {
            return Ok(hour);
        }
    }
}

/// What is there for the comment, and what should be.
async fn describe(
    job: &Job,
    id: &CommentId,
    places: &Places,
    scope: &RepairScope<'_>,
) -> Result<CheckedComment, StoreError> {
    let mut comment = CheckedComment::of(id);
    let items = job.table.items_of(id).await?;
    let collection = match Collection::read(id, &items) {
        Ok(collection) => collection,
        Err(unresolved) => {
            comment.primary_item = format!("a person has to look, {unresolved}");
            for item in &items {
                let key = text(item, attribute::SK).unwrap_or("?").to_owned();
                comment.unreadable_items.push(key);
            }
            return Ok(comment);
        }
    };
    if let Some(InvalidPrimary {
        malformed,
        incomplete: Some(_),
        ..
    }) = &collection.invalid
    {
        comment.primary_item = format!("to be taken over, {malformed}");
        return Ok(comment);
    }
    comment.primary_item = primary_text(&collection);
    let ranks = match &scope.index {
        IndexScope::Nothing => Err("not checked".to_owned()),
        IndexScope::Partitions(_) | IndexScope::Snapshot(_) => {
            let ranks = job.index.ranks(id, &collection.places(places)).await;
            ranks.map_err(|error| {
                if index_is_away(&error) {
                    format!("not checked, {error}")
                } else {
                    format!("a person has to look, {error}")
                }
            })
        }
    };
    comment.page_index = match &ranks {
        Ok(_) => "as below".to_owned(),
        Err(problem) => problem.clone(),
    };
    let mut rows = ComparisonRows::of(&collection, &items, ranks.as_ref().ok());
    if let Some(image) = &collection.primary
        && is_in_indexes(image, &job.settings)
    {
        let key = FilterKey::primary(image.placement.product.clone());
        for index in job.table.indexes_without(image.item).await? {
            let drift = Drift::MissingEntry(index, key.clone());
            rows.add_difference(&drift, &items, None, NOTHING);
        }
    }
    comment.entries = rows.entries();
    Ok(comment)
}

fn primary_text(collection: &Collection<'_>) -> String {
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
            "{status}{product}, {language}, rating {rating}, made {created_at}, revision {revision}"
        );
    }
    match &collection.invalid {
        Some(invalid) => format!("a person has to look, {}", invalid.malformed),
        None => "none".to_owned(),
    }
}

impl ComparisonRows {
    fn of(collection: &Collection<'_>, items: &[Item], ranks: Option<&Ranks>) -> Self {
        let last = collection.last();
        let mut rows = Self::default();
        let mut differences = collection.plan_duplicates().drift;
        let mut score = NOTHING.to_owned();
        if let Some(last) = &last {
            for key in last.placement.duplicate_keys() {
                rows.add(key.to_string(), ["duplicate", "right", COPY, COPY]);
            }
            score = last.created_at.epoch_ms().to_string();
        }
        if let Some(ranks) = ranks {
            if let Some(last) = &last {
                for set in last.placement.base_sets() {
                    rows.add(set.to_string(), ["rank entry", "right", &score, &score]);
                }
            }
            differences.extend(plan_ranks(&collection.id, last.as_ref(), ranks).drift);
        }
        for drift in &differences {
            rows.add_difference(drift, items, ranks, &score);
        }
        rows
    }

    /// Adds what something is, its state, what is there, and what should be.
    fn add(&mut self, key: String, cells: [&str; 4]) {
        self.0.insert(key, cells.map(str::to_owned));
    }

    /// Adds a difference. `score` is the one that the comment should have.
    fn add_difference(
        &mut self,
        drift: &Drift,
        items: &[Item],
        ranks: Option<&Ranks>,
        score: &str,
    ) {
        let state = drift.kind().name().replace('_', " ");
        match drift {
            Drift::MissingDuplicate(key) => {
                self.add(key.to_string(), ["duplicate", &state, NOTHING, COPY]);
            }
            Drift::ExtraDuplicate(key) | Drift::OrphanDuplicate(key) => {
                self.add(key.to_string(), ["duplicate", &state, "there", NOTHING]);
            }
            Drift::StaleDuplicate(key, attributes) => {
                let key = key.to_string();
                let found = items
                    .iter()
                    .find(|item| text(item, attribute::SK) == Some(&key));
                let differing: Vec<String> = attributes
                    .iter()
                    .map(|name| differing(name, found))
                    .collect();
                self.add(key, ["duplicate", &state, &differing.join(", "), COPY]);
            }
            Drift::MissingRank(set) | Drift::WrongScore(set, _) => {
                let found = found_score(ranks, set);
                self.add(set.to_string(), ["rank entry", &state, &found, score]);
            }
            Drift::ExtraRank(set) | Drift::OrphanRank(set) => {
                let found = found_score(ranks, set);
                self.add(set.to_string(), ["rank entry", &state, &found, NOTHING]);
            }
            Drift::MissingName(product, language) => {
                let key = name(product, language.as_ref());
                self.add(key, ["name", &state, NOTHING, "named"]);
            }
            Drift::ExtraName(product, language) => {
                let key = name(product, language.as_ref());
                self.add(key, ["name", &state, "named", NOTHING]);
            }
            // It has no row: what the item implies is unknown until it is complete. Counts are not of
            // one comment.
            Drift::IncompleteItem(_) | Drift::WrongCounts(_) => {}
            Drift::MissingEntry(index, key) => {
                self.add(
                    format!("{index} {key}"),
                    ["index entry", &state, NOTHING, "there"],
                );
            }
        }
    }

    fn entries(self) -> Vec<CheckedEntry> {
        let mut entries = Vec::new();
        for (key, [what, state, is, should_be]) in self.0 {
            entries.push(CheckedEntry {
                what,
                state,
                is,
                should_be,
                key,
            });
        }
        entries
    }
}

fn found_score(ranks: Option<&Ranks>, set: &BaseSet) -> String {
    let times = ranks.and_then(|ranks| ranks.times.get(set));
    let scores = times.into_iter().flatten().map(|time| time.epoch_ms());
    let scores = scores.map(|score| score.to_string()).collect::<Vec<_>>();
    if scores.is_empty() {
        return NOTHING.to_owned();
    }
    scores.join(", ")
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
    match language {
        Some(language) => format!("{product} {language}"),
        None => product.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn what_a_commenter_wrote_is_not_shown() {
        let written = AttributeValue::S("secret".to_owned());
        let item: Item = HashMap::from([
            (
                attribute::RATING.to_owned(),
                AttributeValue::N("4".to_owned()),
            ),
            (attribute::COMMENT_BLOB.to_owned(), written.clone()),
            ("unknown".to_owned(), written),
        ])
        .into();
        let shown =
            ["rating", "comment_blob", "unknown", "cd"].map(|name| differing(name, Some(&item)));
        assert_eq!(
            shown,
            ["rating 4", "other comment_blob", "other unknown", "no cd"]
        );
    }
}
