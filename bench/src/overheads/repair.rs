//! `audit` and `rebuild`: the repair job beside the minimum that its work needs, in alternating rounds.
//!
//! The table has no stream, and of the indexes only `primaries`, because the engine would maintain all of them. The engine
//! sorts the whole table for each answer of a parallel scan. So all scans here use one segment.
//!
//! - **Audit.** An audit without repairs and index scan, and a bare scan of the same table by the same SDK client. The
//!   audit compares every attribute of every duplicate and asks Redis for four scores per comment.
//! - **Recent.** Comments that the journal names: first without any damage, then with a duplicate and a rank entry of each
//!   missing.
//! - **Rebuild.** A rebuild, bare queries of the index `primaries`, whose answers are discarded, and a bare pipeline of the
//!   same `ZADD`s. The table holds only primary items: a rebuild calls `DescribeTable` once, and for that call the engine
//!   counts all items, which DynamoDB does not.

use std::{process::Stdio, time::Duration};

use anyhow::{Context, ensure};
use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::{StreamExt, TryStreamExt, stream};
use model::{
    Comment, ProductId, Revision,
    item::{attribute, comment_pk},
    journal::JournalEntry,
    primaries::PRIMARIES_SHARDS,
};
use process::now;
use repair_job::{AuditOptions, Job, JobSettings, Report as RepairReport, Stop};
use serde_dynamo::Item;
use table::{Table, definition};

use super::index::time_to_add;
use crate::{
    measure::{Rounds, as_f64, timed},
    report::{Report, count},
    server::{own_binary, resident_bytes},
    stores::{Load, Redis, Store, create_table_with},
    workload::{Comments, items, primary_item},
};

/// Items that a scan reads in one call, like the audit.
const SCAN_LIMIT: i32 = 2_000;
const RECENT: usize = 1_000;
/// Comments per product, like in the real reviews that the design was made for: 976 (42,943 comments of 44 products).
const COMMENTS_OF_A_PRODUCT: usize = 976;
/// Shards read in parallel: the command's default.
const SHARDS_AT_ONCE: u32 = 4;
/// Entries that a query reads in one call, like the rebuild.
const READ_LIMIT: u32 = 4_000;
const PROCESS_POLL: Duration = Duration::from_millis(10);
const MIB: f64 = 1_048_576.0;

/// A table with the items of its comments, and their page index.
pub(crate) struct World {
    store: Store,
    redis: Redis,
    comments: Vec<Comment>,
}

impl World {
    /// A world of all items, with an empty page index that is not ready.
    pub(crate) async fn new(comments: u32) -> anyhow::Result<Self> {
        Self::load(Comments::new(7)?.take(comments)?, true).await
    }

    async fn load(comments: Vec<Comment>, with_duplicates: bool) -> anyhow::Result<Self> {
        let store = Store::start().await?;
        create(&store.table).await?;
        let table = store.table.name().to_owned();
        let mut load = Load::into(store).await?;
        for comment in &comments {
            let of_comment = if with_duplicates { items(comment)? } else { vec![primary_item(comment)?] };
            for item in of_comment {
                load.push(&table, &item).await?;
            }
        }
        Ok(Self { store: load.finish().await?, redis: Redis::start().await?, comments })
    }

    fn job(&self, apply: bool) -> Job {
        let settings =
            JobSettings { apply, settle: Duration::ZERO, overlap: Duration::from_secs(600), ..JobSettings::default() };
        Job::new(self.store.table.clone(), self.redis.index.clone(), settings, Stop::default())
    }

    /// Rebuilds the page index. Returns the duration.
    pub(crate) async fn rebuild(&self) -> anyhow::Result<Duration> {
        let rebuild = async { expect_clean(self.job(true).rebuild(SHARDS_AT_ONCE).await) };
        let (report, took) = timed(rebuild).await?;
        ensure!(report.checked == self.comments.len() as u64, "{report}");
        Ok(took)
    }

    async fn audit(&self, index_scan: bool) -> anyhow::Result<RepairReport> {
        let options = AuditOptions { segments: 1, at_once: 1, index_scan, ..AuditOptions::default() };
        expect_clean(self.job(false).audit(options).await)
    }

    /// Audits table and page index by the binary, with the index scan and without repairs. Returns the duration, and the
    /// largest resident set that the kernel reported, in MiB.
    pub(crate) async fn audit_by_binary(&self) -> anyhow::Result<(Duration, f64)> {
        let mut child = tokio::process::Command::new(own_binary("repair-job")?)
            .env("PAGEMARK_TABLE", self.store.table.name())
            .env("PAGEMARK_DYNAMODB_URL", self.store.engine_url()?)
            .env("PAGEMARK_REDIS_URL", &self.redis.url)
            .args(["audit", "--segments", "1", "--json"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let (pid, mut peak) = (child.id().context("a process id")?, 0);
        let ended = async {
            loop {
                // A process that has ended has no memory.
                peak = peak.max(resident_bytes(pid, true).unwrap_or(0));
                if let Some(status) = child.try_wait()? {
                    return Ok(status);
                }
                tokio::time::sleep(PROCESS_POLL).await;
            }
        };
        let (status, took) = timed(ended).await?;
        ensure!(status.success(), "the audit of {} comments ended with {status}", self.comments.len());
        Ok((took, as_f64(peak) / MIB))
    }

    pub(crate) async fn stop(self) {
        self.store.stop().await;
    }
}

pub(crate) async fn measure_audit(report: &mut Report, comments: u32, rounds: u32) -> anyhow::Result<()> {
    report.step(&format!("loading {} comments with all their items", count(comments)));
    let mut world = World::new(comments).await?;
    world.rebuild().await?;
    report.step(&format!("{rounds} rounds of audit and bare scan"));
    let mut read_units = 0.0;
    let audits = Rounds::run(rounds, async || {
        let (audited, ours) = timed(world.audit(false)).await?;
        let (items, bare) = timed(bare_scan(&world.store.table)).await?;
        ensure!(items == audited.items, "{items} items scanned, {} audited", audited.items);
        read_units = audited.read_units;
        Ok([ours, bare])
    });
    let audits = audits.await?;
    report.add("audit", audits.rate(0, comments), "comments/s");
    report.add("bare scan", audits.rate(1, comments), "comments/s");
    report.noted("audit_vs_scan", audits.ratio(0, 1), "", "ratio of rates, at least 0.5");
    report.add("audit, read units", read_units / f64::from(comments), "units/comment");
    report.step("an audit with the index scan");
    let (audited, took) = timed(world.audit(true)).await?;
    report.add("audit with index scan", f64::from(comments) / took.as_secs_f64(), "comments/s");
    report.add("audit with index scan, read units", audited.read_units / f64::from(comments), "units/comment");
    measure_recent(report, &mut world).await?;
    world.stop().await;
    Ok(())
}

async fn measure_recent(report: &mut Report, world: &mut World) -> anyhow::Result<()> {
    report.step("recent");
    let recent: Vec<Comment> = world.comments.iter().take(RECENT).cloned().collect();
    let (client, name) = (world.store.table.client(), world.store.table.name());
    for comment in &recent {
        // As if it had just been created.
        let revision = Revision::after(None, now(), 1);
        let entry = JournalEntry { id: comment.id.clone(), revision, before: None, after: Some(comment.placement()) };
        let item: Item = serde_dynamo::to_item(entry.to_item())?;
        client.put_item().table_name(name).set_item(Some(item.into())).send().await?;
    }
    // `recent` then checks only these comments.
    world.store.table.advance_watermark(now()).await?;
    let (clean, took) = timed(async { expect_clean(world.job(true).recent().await) }).await?;
    ensure!(clean.checked == recent.len() as u64, "{clean}");
    let each = as_f64(recent.len() as u64);
    report.add("recent, nothing wrong", each / took.as_secs_f64(), "comments/s");
    report.add("recent, nothing wrong, read units", clean.read_units / each, "units/comment");
    for comment in &recent {
        let duplicate = comment.placement().duplicate_keys().next().context("a duplicate")?;
        let delete = client.delete_item().table_name(name).key(attribute::SK, AttributeValue::S(duplicate.to_string()));
        delete.key(attribute::PK, AttributeValue::S(comment_pk(&comment.id))).send().await?;
        let [_, set, ..] = comment.placement().base_sets();
        let key = world.redis.config.key_name(&set);
        redis::cmd("ZREM").arg(&[key.as_str(), comment.id.as_str()]).exec_async(&mut world.redis.connection).await?;
    }
    let (repaired, took) = timed(async { Ok(world.job(true).recent().await) }).await?;
    ensure!(repaired.repaired == 2 * recent.len() as u64, "{repaired}");
    report.add("recent, a duplicate and a rank entry of each missing", each / took.as_secs_f64(), "comments/s");
    report.add("recent, from its start until all is repaired", took.as_secs_f64(), "s");
    Ok(())
}

pub(crate) async fn measure_rebuild(report: &mut Report, comments: u32, rounds: u32) -> anyhow::Result<()> {
    report.step(&format!("loading {} comments", count(comments)));
    let mut drawn = Comments::new(7)?.take(comments)?;
    for (place, comment) in drawn.iter_mut().enumerate() {
        comment.product = ProductId::parse(&format!("shop/item-{:05}", place / COMMENTS_OF_A_PRODUCT))?;
    }
    let mut world = World::load(drawn, false).await?;
    report.step(&format!("{rounds} rounds of rebuild, bare queries and bare pipeline"));
    let rounds = Rounds::run(rounds, async || {
        let ours = world.rebuild().await?;
        let (found, reading) = timed(bare_queries(&world.store.table)).await?;
        ensure!(found == world.comments.len(), "{found} primary items read");
        Ok([ours, reading, time_to_add(&mut world.redis, &world.comments).await?])
    });
    let rounds = rounds.await?;
    world.stop().await;
    for (place, name) in ["rebuild", "bare queries of the index", "bare pipeline of ZADD"].into_iter().enumerate() {
        report.add(name, rounds.rate(place, comments), "comments/s");
    }
    report.noted("rebuild_vs_pipeline", rounds.ratio(0, 2), "", "ratio of rates, at least 0.5");
    let note = "ratio of rates, the nearer to 1 the better";
    report.noted("rebuild_vs_queries_and_pipeline", rounds.ratio_to_others(0), "", note);
    Ok(())
}

fn expect_clean(report: RepairReport) -> anyhow::Result<RepairReport> {
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

async fn bare_queries(table: &Table) -> anyhow::Result<usize> {
    let queries = (0..PRIMARIES_SHARDS).map(|shard| async move {
        let (mut found, mut position) = (0, None);
        loop {
            let part = table.primaries_part(shard, position, READ_LIMIT).await?;
            found += part.comments.len();
            position = part.next;
            if position.is_none() {
                return Ok(found);
            }
        }
    });
    let queries = stream::iter(queries).buffer_unordered(SHARDS_AT_ONCE as usize);
    queries.try_fold(0, async |sum, found: usize| Ok(sum + found)).await
}

/// The project's table without its stream, with the index `primaries` only.
async fn create(table: &Table) -> anyhow::Result<()> {
    let attributes = definition::attribute_definitions()?;
    let of_others = [attribute::CD, attribute::AUTHOR_ID, attribute::UNPUBLISHED, attribute::UNPUBLISHED_CD];
    let attributes = attributes.into_iter().filter(|definition| !of_others.contains(&definition.attribute_name()));
    create_table_with(table, attributes.collect(), vec![definition::primaries()?]).await
}
