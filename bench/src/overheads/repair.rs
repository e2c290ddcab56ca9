//! `repair`: audit and rebuild beside the least that their work needs, in alternating rounds.
//!
//! - **Audit**, without the index scan, beside a bare scan of the same table by the same client.
//!   The engine sorts the whole table for each answer of a parallel scan, so both use one segment.
//! - **Rebuild** beside what it needs at least: bare queries of the index `primaries`, and then a
//!   bare pipeline of the same `ZADD`s. This table has only primary items: a rebuild calls
//!   `DescribeTable` once, and for that call the engine counts all items, which DynamoDB does not.

use std::time::Duration;

use anyhow::ensure;
use cost::{items, primary_item};
use futures_util::{TryStreamExt, stream};
use model::{Comment, ProductId, primaries::PRIMARIES_SHARDS};
use repair_job::{AuditOptions, Job, JobSettings, Stop};
use serde_dynamo::Item;
use table::Table;

use super::index::time_to_add;
use crate::{
    measure::{Rounds, timed},
    report::{BenchReport, count},
    stores::{Loader, Redis, TableStore, create_table},
    workload::Comments,
};

/// Comments per product, like in the real reviews that the design was made for: 976 (42,943
/// comments of 44 products).
const COMMENTS_OF_A_PRODUCT: usize = 976;
/// Shards read in parallel: the command's default.
const SHARDS_AT_ONCE: u32 = 4;
/// Entries that a query reads in one call, like the rebuild.
const READ_LIMIT: u32 = 4_000;
/// Items that a scan reads in one call, like the audit.
const SCAN_LIMIT: i32 = 2_000;

/// A rebuild also calls `DescribeTable`, for which the engine counts all items.
const REBUILD_LIMIT: &str = "ratio of rates, at least 0.5";

pub(crate) async fn measure(
    report: &mut BenchReport,
    comments: u32,
    rounds: u32,
) -> anyhow::Result<()> {
    report.step(&format!("loading {} comments", count(comments)));
    let mut drawn = Comments::new(7)?.take(comments)?;
    for (number, comment) in drawn.iter_mut().enumerate() {
        let product = number / COMMENTS_OF_A_PRODUCT;
        comment.product = ProductId::parse(&format!("shop/item-{product:05}"))?;
    }
    measure_rebuild(report, &drawn, rounds).await?;
    measure_audit(report, &drawn, rounds).await
}

async fn measure_rebuild(
    report: &mut BenchReport,
    drawn: &[Comment],
    rounds: u32,
) -> anyhow::Result<()> {
    let (store, mut redis, job) = load(drawn, |comment| Ok(vec![primary_item(comment)?])).await?;
    report.step(&format!(
        "{rounds} rounds of rebuild, bare queries and pipeline"
    ));
    let rounds = Rounds::run(rounds, async || {
        let ours = rebuild(&job, drawn).await?;
        let ((), reading) = timed(bare_queries(&store.table)).await?;
        Ok([ours, reading + time_to_add(&mut redis, drawn).await?])
    });
    let rounds = rounds.await?;
    let comments = u32::try_from(drawn.len())?;
    store.stop().await;
    report.add("rebuild", rounds.rate(0, comments), "comments/s");
    report.add(
        "bare queries and pipeline",
        rounds.rate(1, comments),
        "comments/s",
    );
    report.noted("rebuild_vs_bare", rounds.ratio(0, 1), "", REBUILD_LIMIT);
    Ok(())
}

async fn measure_audit(
    report: &mut BenchReport,
    drawn: &[Comment],
    rounds: u32,
) -> anyhow::Result<()> {
    let (store, redis, job) = load(drawn, items).await?;
    rebuild(&job, drawn).await?;
    // A dry run remembers nothing, so the next round checks everything again.
    let job = job_of(&store, &redis, false);
    report.step(&format!("{rounds} rounds of audit and bare scan"));
    let options = AuditOptions {
        segments: 1,
        at_once: 1,
        no_index_scan: true,
        // As the hourly run: without a comparison of the table's own indexes.
        rolling: true,
        ..AuditOptions::default()
    };
    let rounds = Rounds::run(rounds, async || {
        let (audited, ours) = timed(async { Ok(job.audit(options).await) }).await?;
        let ((), bare) = timed(bare_scan(&store.table)).await?;
        ensure!(
            audited.exit_code() == 0 && audited.checked == drawn.len() as u64,
            "{audited}"
        );
        Ok([ours, bare])
    });
    let rounds = rounds.await?;
    let comments = u32::try_from(drawn.len())?;
    store.stop().await;
    report.add("audit", rounds.rate(0, comments), "comments/s");
    report.add("bare scan", rounds.rate(1, comments), "comments/s");
    report.noted(
        "audit_vs_scan",
        rounds.ratio(0, 1),
        "",
        "ratio of rates, at least 0.7",
    );
    Ok(())
}

async fn load(
    comments: &[Comment],
    items: impl Fn(&Comment) -> anyhow::Result<Vec<Item>>,
) -> anyhow::Result<(TableStore, Redis, Job)> {
    let store = TableStore::start().await?;
    create_table(&store.table).await?;
    let table = store.table.name().to_owned();
    let mut loader = Loader::into(store).await?;
    for comment in comments {
        for item in items(comment)? {
            loader.push(&table, &item).await?;
        }
    }
    let store = loader.finish().await?;
    let redis = Redis::start().await?;
    let job = job_of(&store, &redis, true);
    Ok((store, redis, job))
}

fn job_of(store: &TableStore, redis: &Redis, apply: bool) -> Job {
    let settings = JobSettings {
        apply,
        min_age: Duration::ZERO,
        overlap: Duration::from_secs(600),
        ..JobSettings::default()
    };
    Job::new(
        store.table.clone(),
        redis.index.clone(),
        settings,
        Stop::default(),
    )
}

async fn rebuild(job: &Job, drawn: &[Comment]) -> anyhow::Result<Duration> {
    let (rebuilt, took) = timed(async { Ok(job.rebuild(SHARDS_AT_ONCE).await) }).await?;
    ensure!(
        rebuilt.exit_code() == 0 && rebuilt.checked == drawn.len() as u64,
        "{rebuilt}"
    );
    Ok(took)
}

async fn bare_queries(table: &Table) -> anyhow::Result<()> {
    stream::iter((0..PRIMARIES_SHARDS).map(Ok))
        .try_for_each_concurrent(SHARDS_AT_ONCE as usize, async |shard| {
            let mut position = None;
            loop {
                let part = table.primaries_part(shard, position, READ_LIMIT).await?;
                position = part.next;
                if position.is_none() {
                    return Ok(());
                }
            }
        })
        .await
}

async fn bare_scan(table: &Table) -> anyhow::Result<()> {
    let mut start = None;
    loop {
        let scan = table
            .client()
            .scan()
            .table_name(table.name())
            .limit(SCAN_LIMIT);
        start = scan
            .set_exclusive_start_key(start)
            .send()
            .await?
            .last_evaluated_key;
        if start.is_none() {
            return Ok(());
        }
    }
}
