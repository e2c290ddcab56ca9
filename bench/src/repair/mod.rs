//! `audit` and `rebuild`: compares the repair job with the minimum that its work needs.
//!
//! The table has no stream, and of the indexes only `primaries`, because the engine would maintain all of them. The engine
//! answers through one connection, and sorts the whole table for each answer of a parallel scan. So all scans
//! here use one segment.
//!
//! - **Audit.** Rounds alternate: an audit without repairs and without the sweep, a bare scan of the same table with
//!   the same limit by the same SDK client, an audit, a scan. The audit compares every attribute of every duplicate and
//!   asks Redis for four scores per comment. The bare scan discards its items.
//! - **Sweep.** The rate of the sweep, and what it reads.
//! - **Rebuild.** Rounds alternate: a rebuild, bare queries of the index `primaries` (answers discarded), and a bare
//!   pipeline of the same `ZADD`s (100 comments each). The limit is on the first against the last, with as many comments
//!   per product as in real data. The comparison is repeated with products of few comments.
//! - **Recent.** Comments that the journal names: first without any damage, then with a duplicate and a rank entry of
//!   each missing.
//! - **Memory.** The binary as a child process audits the table (with the sweep); the figure is the largest resident
//!   set that the kernel reports during the run. `audit` measures it at two small sizes; the separate measurement
//!   (`--only memory`) at 10,000 and 100,000 comments.

mod memory;
mod rebuild;

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use aws_sdk_dynamodb::types::AttributeValue;
use local_stack::engine::Engine;
use model::{
    BlobFormat, Comment,
    item::{CommentItem, Image, attribute, comment_pk},
    journal::JournalEntry,
};
use process::now;
use repair_job::{AuditOptions, Job, JobSettings, Report as RepairReport, Stop};
use table::{Table, definition};
use tempfile::TempDir;

pub(crate) use memory::{audit_by_binary, measure_memory};
pub(crate) use rebuild::measure_rebuild;

use crate::{
    filled_stores::{Import, connect, start_engine},
    report::{Limit, Report, count as number},
    statistics::{Rounds, as_f64},
    workload::{Comments, Redis, create_table_with, folder},
};

/// Rounds of each comparison.
const ROUNDS: u32 = 5;
/// Comments of a quick comparison: a scan takes some tenths of a second.
const QUICK_COMMENTS: u32 = 1_000;
const AUDIT_RATIO: &str = "audit_vs_scan";
const TABLE: &str = "bench";
/// Number of comments whose items are imported in one transaction.
const IMPORT_COMMENTS: usize = 500;
/// Items that a scan reads in one call, like the audit.
const SCAN_LIMIT: i32 = 2_000;
/// Number of comments that `recent` checks.
const RECENT: usize = 1_000;

/// A table with all items of its comments, and their page index.
pub(crate) struct World {
    engine: Engine,
    table: Table,
    redis: Redis,
    comments: Vec<Comment>,
    // Declared last, so that the engine ends before the folder is removed.
    _folder: TempDir,
}

impl World {
    async fn new(count: u32) -> anyhow::Result<Self> {
        Self::load(count).await?.made_ready().await
    }

    /// A world with the primary items only.
    async fn of_primary_items(comments: Vec<Comment>) -> anyhow::Result<Self> {
        Self::load_table(comments, Loaded::PrimaryItems).await?.made_ready().await
    }

    /// Fills the page index.
    async fn made_ready(self) -> anyhow::Result<Self> {
        let report = self.job(true).rebuild(1).await;
        ensure!(report.exit_code() == 0, "{report}");
        Ok(self)
    }

    /// A world with an empty page index, which is not ready.
    pub(crate) async fn load(count: u32) -> anyhow::Result<Self> {
        Self::load_table(drawn(count)?, Loaded::AllItems).await
    }

    async fn load_table(comments: Vec<Comment>, loaded: Loaded) -> anyhow::Result<Self> {
        let folder = folder()?;
        let file = folder.path().join("table");
        let engine = start_engine(&file).await?;
        create(&connect(TABLE, &engine.endpoint_url()).await).await?;
        let mut import = Import::into_file_of(engine, &file).await?;
        for comments in comments.chunks(IMPORT_COMMENTS) {
            let items = comments.iter().flat_map(|comment| match loaded {
                Loaded::AllItems => items_of(comment),
                Loaded::PrimaryItems => primary_item_of(comment).into_iter().collect(),
            });
            items.into_iter().try_for_each(|item| import.push(TABLE, &item))?;
            import.flush()?;
        }
        let (engine, _) = import.start_engine(&file).await?;
        let table = connect(TABLE, &engine.endpoint_url()).await;
        Ok(Self { engine, table, redis: Redis::start().await?, comments, _folder: folder })
    }

    pub(crate) fn job(&self, apply: bool) -> Job {
        let settings =
            JobSettings { apply, settle: Duration::ZERO, overlap: Duration::from_secs(600), ..JobSettings::default() };
        Job::new(self.table.clone(), self.redis.index.clone(), settings, Stop::default())
    }

    pub(crate) async fn stop(self) {
        self.redis.stop().await;
        self.engine.stop().await;
    }
}

/// Comments in the order in which they are drawn.
fn drawn(count: u32) -> anyhow::Result<Vec<Comment>> {
    Comments::new(7)?.take(count)
}

/// The items of each comment that a table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loaded {
    /// All 32 items.
    AllItems,
    /// Only primary items, for code that reads nothing else.
    PrimaryItems,
}

fn primary_item_of(comment: &Comment) -> Option<serde_dynamo::Item> {
    serde_dynamo::to_item(CommentItem::primary(comment, BlobFormat::Map)).ok()
}

/// The 32 items of a comment.
fn items_of(comment: &Comment) -> Vec<serde_dynamo::Item> {
    let Some(primary) = primary_item_of(comment) else { return Vec::new() };
    let Ok(image) = Image::of_primary(&primary) else { return Vec::new() };
    let duplicates = comment.placement().duplicate_keys().map(|key| image.duplicate(&key)).collect::<Vec<_>>();
    duplicates.into_iter().chain([primary.clone()]).collect()
}

/// An audit in one segment.
fn audit_of(index_scan: bool) -> AuditOptions {
    AuditOptions { segments: 1, at_once: 1, index_scan, ..AuditOptions::default() }
}

/// Alternates audits without the sweep and bare scans. Also returns the report of the last audit.
async fn audit_rounds(world: &World) -> anyhow::Result<(Rounds, RepairReport)> {
    let (mut rounds, mut audited) = (Rounds::default(), RepairReport::default());
    // The first round warms up.
    for round in 0..=ROUNDS {
        let began = Instant::now();
        audited = expect_clean(world.job(false).audit(audit_of(false)).await)?;
        let ours = began.elapsed();
        let began = Instant::now();
        let items = bare_scan(&world.table).await?;
        let bare = began.elapsed();
        ensure!(items == audited.items, "{items} items scanned, {} audited", audited.items);
        if round > 0 {
            rounds.add(ours, bare);
        }
    }
    Ok((rounds, audited))
}

/// Measures the audit of `comments` comments, the sweep, and `recent`. A quick run omits the memory.
pub(crate) async fn measure_audit(report: &mut Report, comments: u32, is_quick: bool) -> anyhow::Result<()> {
    report.step(&format!("loading {} comments with all their items", number(comments.into())));
    let mut world = World::new(comments).await?;
    report.step(&format!("{ROUNDS} rounds of audit and bare scan"));
    let (rounds, audited) = audit_rounds(&world).await?;
    report.step("an audit with the sweep");
    let began = Instant::now();
    let with_sweep = expect_clean(world.job(false).audit(audit_of(true)).await)?;
    let sweep_s = began.elapsed().as_secs_f64() - as_f64(u64::from(comments)) / rounds.our_rate(u64::from(comments));
    let per_comment = |units: f64| units / f64::from(comments.max(1));
    report.add(
        "audit",
        &format!(
            "{ROUNDS} rounds of {} comments each way, one segment, 8 reconciled at the same time",
            number(comments.into())
        ),
        &[
            ("audit, comments", rounds.our_rate(u64::from(comments)), "comments/s"),
            ("audit, items", rounds.our_rate(audited.items), "items/s"),
            ("bare scan, items", rounds.bare_rate(audited.items), "items/s"),
            ("audit, read units", per_comment(audited.read_units), "units/comment"),
            ("sweep, read units", per_comment(with_sweep.read_units - audited.read_units), "units/comment"),
            ("sweep, comments (one run)", f64::from(comments) / sweep_s.max(0.001), "comments/s"),
        ],
    );
    report.ratio(AUDIT_RATIO, rounds.ratio(), Limit::AtLeast(0.5));
    measure_recent(report, &mut world).await?;
    world.stop().await;
    if is_quick { Ok(()) } else { memory::memory_of(report, "audit", comments, memory::TIMES).await }
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
        let item: serde_dynamo::Item = serde_dynamo::to_item(entry.to_item())?;
        let put = world.table.client().put_item().table_name(world.table.name());
        put.set_item(Some(item.into())).send().await?;
    }
    // Advance the watermark, so that `recent` checks only these comments.
    world.table.advance_watermark(now()).await?;
    let count = recent.len();
    let timed = async |world: &World| {
        let began = Instant::now();
        let done = world.job(true).recent().await;
        (began.elapsed().as_secs_f64(), done)
    };
    let (clean_s, clean) = timed(world).await;
    ensure!(clean.exit_code() == 0 && clean.checked == count as u64, "{clean}");
    for comment in &recent {
        let Some(key) = comment.placement().duplicate_keys().next() else { bail!("no key") };
        let delete = world.table.client().delete_item().table_name(world.table.name());
        let delete = delete.key(attribute::PK, AttributeValue::S(comment_pk(&comment.id)));
        delete.key(attribute::SK, AttributeValue::S(key.to_string())).send().await?;
        let [_, set, ..] = comment.placement().base_sets();
        let key = world.redis.index.key_name(&set);
        redis::cmd("ZREM").arg(&[key.as_str(), comment.id.as_str()]).exec_async(&mut world.redis.connection).await?;
    }
    let (repaired_s, repaired) = timed(world).await;
    ensure!(repaired.repaired == 2 * count as u64, "{repaired}");
    let per_comment = |units: f64| units / as_f64(count as u64);
    report.add(
        "recent",
        &format!(
            "{count} comments named by the journal, each by itself; then with a duplicate and an entry missing each"
        ),
        &[
            ("nothing wrong", as_f64(count as u64) / clean_s, "comments/s"),
            ("nothing wrong, read units", per_comment(clean.read_units), "units/comment"),
            ("all damaged", as_f64(count as u64) / repaired_s, "comments/s"),
            ("all damaged, read units", per_comment(repaired.read_units), "units/comment"),
            ("all damaged, write units", per_comment(repaired.write_units), "units/comment"),
            ("from the beginning of the run until the last is repaired", repaired_s, "s"),
        ],
    );
    Ok(())
}

fn expect_clean(report: RepairReport) -> anyhow::Result<RepairReport> {
    match report.exit_code() {
        0 => Ok(report),
        _ => bail!("{report}"),
    }
}

/// Returns the number of items.
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
    let attributes = attributes.into_iter().filter(|definition| definition.attribute_name() != attribute::CD);
    create_table_with(table, attributes.collect(), vec![definition::primaries()?]).await
}
