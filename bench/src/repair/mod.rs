//! `audit` and `rebuild`: compares the repair job with the minimum that its work needs.
//!
//! The table has no stream, and of the indexes only `primaries`, because the engine would maintain all of them. The engine
//! answers through one connection, and sorts the whole table for each answer of a parallel scan. So all scans
//! here use one segment.
//!
//! - **Audit.** Rounds alternate: an audit without repairs and index scan, a bare scan of the same table with
//!   the same limit by the same SDK client, an audit, a scan. The audit compares every attribute of every duplicate and
//!   asks Redis for four scores per comment. The bare scan discards its items.
//! - **Index scan.** Its rate, and what it reads.
//! - **Rebuild.** Rounds alternate: a rebuild, bare queries of the index `primaries` (answers discarded), and a bare
//!   pipeline of the same `ZADD`s (100 comments each). The limit is on the first against the last, with as many comments
//!   per product as in real data. The comparison is repeated with products of few comments.
//! - **Recent.** Comments that the journal names: first without any damage, then with a duplicate and a rank entry of
//!   each missing.
//! - **Memory.** The binary as a child process audits the table (with the index scan), at two sizes; the figure is the
//!   largest resident set that the kernel reports during the run.

mod memory;
mod rebuild;

use std::time::Duration;

use anyhow::{bail, ensure};
use aws_sdk_dynamodb::types::AttributeValue;
use model::{
    Comment,
    item::{attribute, comment_pk},
    journal::JournalEntry,
};
use process::now;
use repair_job::{AuditOptions, Job, JobSettings, Report as RepairReport, Stop};
use serde_dynamo::Item;
use table::{Table, definition};

pub(crate) use memory::audit_by_binary;
pub(crate) use rebuild::measure_rebuild;

use crate::{
    filled_stores::{Import, TableOnEngine},
    report::{Limit, Report, count as number},
    statistics::{Rounds, as_f64, timed},
    workload::{Comments, Redis, create_table_with, items, primary_item},
};

const ROUNDS: u32 = 5;
/// Comments of a quick comparison: a scan takes some tenths of a second.
const QUICK_COMMENTS: u32 = 1_000;
const AUDIT_RATIO: &str = "audit_vs_scan";
const TABLE: &str = "bench";
/// Items that a scan reads in one call, like the audit.
const SCAN_LIMIT: i32 = 2_000;
const RECENT: usize = 1_000;

/// A table with all items of its comments, and their page index.
pub(crate) struct World {
    store: TableOnEngine,
    redis: Redis,
    comments: Vec<Comment>,
}

impl World {
    async fn new(count: u32) -> anyhow::Result<Self> {
        Self::of_all_items(drawn(count)?).await
    }

    /// A world with the primary items only.
    async fn of_primary_items(comments: Vec<Comment>) -> anyhow::Result<Self> {
        Self::load_table(comments, |comment| Ok(vec![primary_item(comment)?])).await?.made_ready().await
    }

    async fn of_all_items(comments: Vec<Comment>) -> anyhow::Result<Self> {
        Self::load_table(comments, items).await?.made_ready().await
    }

    async fn made_ready(self) -> anyhow::Result<Self> {
        expect_clean(self.job(true).rebuild(1).await)?;
        Ok(self)
    }

    /// A world with an empty page index, which is not ready.
    pub(crate) async fn load(count: u32) -> anyhow::Result<Self> {
        Self::load_table(drawn(count)?, items).await
    }

    async fn load_table(
        comments: Vec<Comment>,
        items: impl Fn(&Comment) -> anyhow::Result<Vec<Item>>,
    ) -> anyhow::Result<Self> {
        let store = TableOnEngine::start(TABLE).await?;
        create(&store.table).await?;
        let mut import = Import::into(store).await?;
        for comment in &comments {
            items(comment)?.iter().try_for_each(|item| import.push(TABLE, item))?;
        }
        let (store, _) = import.finish().await?;
        Ok(Self { store, redis: Redis::start().await?, comments })
    }

    pub(crate) fn job(&self, apply: bool) -> Job {
        let settings =
            JobSettings { apply, settle: Duration::ZERO, overlap: Duration::from_secs(600), ..JobSettings::default() };
        Job::new(self.store.table.clone(), self.redis.index.clone(), settings, Stop::default())
    }

    pub(crate) async fn stop(self) {
        self.redis.stop().await;
        self.store.engine.stop().await;
    }
}

/// Comments in the order in which they are drawn.
fn drawn(count: u32) -> anyhow::Result<Vec<Comment>> {
    Comments::new(7)?.take(count)
}

fn audit_of(index_scan: bool) -> AuditOptions {
    AuditOptions { segments: 1, at_once: 1, index_scan, ..AuditOptions::default() }
}

/// Alternates audits without the index scan and bare scans. Also returns the report of the last audit.
async fn audit_rounds(world: &World) -> anyhow::Result<(Rounds, RepairReport)> {
    let mut audited = RepairReport::default();
    let rounds = Rounds::run(ROUNDS, async || {
        let (report, ours) = timed(async { expect_clean(world.job(false).audit(audit_of(false)).await) }).await?;
        let (items, bare) = timed(bare_scan(&world.store.table)).await?;
        ensure!(items == report.items, "{items} items scanned, {} audited", report.items);
        audited = report;
        Ok((ours, bare))
    });
    Ok((rounds.await?, audited))
}

/// Measures the audit of `comments` comments, the index scan, and `recent`. A quick run omits the memory.
pub(crate) async fn measure_audit(report: &mut Report, comments: u32, is_quick: bool) -> anyhow::Result<()> {
    report.step(&format!("loading {} comments with all their items", number(comments)));
    let mut world = World::new(comments).await?;
    report.step(&format!("{ROUNDS} rounds of audit and bare scan"));
    let (rounds, audited) = audit_rounds(&world).await?;
    report.step("an audit with the index scan");
    let (with_index_scan, took) = timed(async { expect_clean(world.job(false).audit(audit_of(true)).await) }).await?;
    let index_scan_s = took.as_secs_f64() - f64::from(comments) / rounds.our_rate(comments.into());
    let per_comment = |units: f64| units / f64::from(comments.max(1));
    report.add(
        "audit",
        &format!(
            "{ROUNDS} rounds of {} comments each way, one segment, 8 reconciled at the same time",
            number(comments)
        ),
        &[
            ("audit, comments", rounds.our_rate(u64::from(comments)), "comments/s"),
            ("audit, items", rounds.our_rate(audited.items), "items/s"),
            ("bare scan, items", rounds.bare_rate(audited.items), "items/s"),
            ("audit, read units", per_comment(audited.read_units), "units/comment"),
            ("index scan, read units", per_comment(with_index_scan.read_units - audited.read_units), "units/comment"),
            ("index scan, comments (one run)", f64::from(comments) / index_scan_s.max(0.001), "comments/s"),
        ],
    );
    report.ratio(AUDIT_RATIO, rounds.ratio(), Limit::AtLeast(0.5));
    measure_recent(report, &mut world).await?;
    world.stop().await;
    if is_quick { Ok(()) } else { memory::measure(report, comments).await }
}

/// Measures the ratios of audit and rebuild with a small table.
pub(crate) async fn overheads() -> anyhow::Result<Vec<(&'static str, f64)>> {
    let mut world = World::new(QUICK_COMMENTS).await?;
    let (audit, _) = audit_rounds(&world).await?;
    let rebuild = rebuild::rounds(&mut world).await?;
    world.stop().await;
    Ok(vec![(AUDIT_RATIO, audit.ratio()), (rebuild::RATIO, rebuild.against_reading_and_pipeline.ratio())])
}

async fn measure_recent(report: &mut Report, world: &mut World) -> anyhow::Result<()> {
    report.step(&format!("recent, {} comments", number(RECENT as u64)));
    let recent: Vec<Comment> = world.comments.iter().take(RECENT).cloned().collect();
    for comment in &recent {
        // Give each comment a revision of now, as if it had just been created.
        let revision = model::Revision::after(None, now(), 1);
        let entry = JournalEntry { id: comment.id.clone(), revision, before: None, after: Some(comment.placement()) };
        let item: Item = serde_dynamo::to_item(entry.to_item())?;
        let put = world.store.table.client().put_item().table_name(world.store.table.name());
        put.set_item(Some(item.into())).send().await?;
    }
    // Advance the watermark, so that `recent` checks only these comments.
    world.store.table.advance_watermark(now()).await?;
    let count = as_f64(recent.len() as u64);
    let (clean, clean_s) = recent_of(world).await?;
    ensure!(clean.exit_code() == 0 && clean.checked == recent.len() as u64, "{clean}");
    for comment in &recent {
        let Some(key) = comment.placement().duplicate_keys().next() else { bail!("no key") };
        let delete = world.store.table.client().delete_item().table_name(world.store.table.name());
        let delete = delete.key(attribute::PK, AttributeValue::S(comment_pk(&comment.id)));
        delete.key(attribute::SK, AttributeValue::S(key.to_string())).send().await?;
        let [_, set, ..] = comment.placement().base_sets();
        let key = world.redis.config.key_name(&set);
        redis::cmd("ZREM").arg(&[key.as_str(), comment.id.as_str()]).exec_async(&mut world.redis.connection).await?;
    }
    let (repaired, repaired_s) = recent_of(world).await?;
    ensure!(repaired.repaired == 2 * recent.len() as u64, "{repaired}");
    let per_comment = |units: f64| units / count;
    report.add(
        "recent",
        &format!("{count} comments named by the journal; then with a duplicate and an entry missing each"),
        &[
            ("nothing wrong", count / clean_s, "comments/s"),
            ("nothing wrong, read units", per_comment(clean.read_units), "units/comment"),
            ("all damaged", count / repaired_s, "comments/s"),
            ("all damaged, read units", per_comment(repaired.read_units), "units/comment"),
            ("all damaged, write units", per_comment(repaired.write_units), "units/comment"),
            ("from the beginning of the run until the last is repaired", repaired_s, "s"),
        ],
    );
    Ok(())
}

/// Runs `recent`. Returns its report and the seconds that it took.
async fn recent_of(world: &World) -> anyhow::Result<(RepairReport, f64)> {
    let (report, took) = timed(async { Ok(world.job(true).recent().await) }).await?;
    Ok((report, took.as_secs_f64()))
}

pub(crate) fn expect_clean(report: RepairReport) -> anyhow::Result<RepairReport> {
    ensure!(report.exit_code() == 0, "{report}");
    Ok(report)
}

async fn bare_scan(table: &Table) -> anyhow::Result<u64> {
    let (mut items, mut start) = (0, None);
    loop {
        let scan = table.client().scan().table_name(table.name()).limit(SCAN_LIMIT);
        let answer = scan.set_exclusive_start_key(start).send().await?;
        items += answer.items.unwrap_or_default().len() as u64;
        start = answer.last_evaluated_key;
        if start.is_none() {
            return Ok(items);
        }
    }
}

/// The project's table without its stream, the index `gsi`, time to live and backups.
async fn create(table: &Table) -> anyhow::Result<()> {
    let attributes = definition::attribute_definitions()?;
    let of_others = [attribute::CD, attribute::AUTHOR_ID, attribute::UNPUBLISHED, attribute::UNPUBLISHED_CD];
    let attributes = attributes.into_iter().filter(|definition| !of_others.contains(&definition.attribute_name()));
    create_table_with(table, attributes.collect(), vec![definition::primaries()?]).await
}
