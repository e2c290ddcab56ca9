//! `audit` and `rebuild`: the repair job beside the least that its work needs.
//!
//! The table has no stream, and the index only where it is read: the engine would keep both. The engine answers through one
//! connection, and sorts the whole table for each answer of a parallel scan, so everything here scans in one segment.
//!
//! - **Audit.** Rounds alternate: an audit that looks only (no sweep), a bare scan of the same table with the same limit by the
//!   same SDK client, an audit, a scan. The audit compares every attribute of every duplicate and asks Redis for four
//!   scores a comment; the bare scan throws its items away.
//! - **Sweep.** Its own rate, and what it reads.
//! - **Rebuild.** Rounds alternate: a rebuild by the product catalogue, bare queries of the same products (the same filter and
//!   projection, answers thrown away), and a bare pipeline of the same `ZADD`s (100 comments each). The limit is on the first
//!   against the last. Then a rebuild by a scan, a bare scan that leaves the duplicates to the server, and the pipeline.
//! - **Recent.** Comments that the journal names: nothing wrong with any; a duplicate and a rank entry of each missing.
//! - **Memory.** The binary as a child process, auditing the table (with the sweep); the largest resident set that the
//!   kernel reports while it runs. With an audit at two small sizes; by itself (`--only memory`) at 10,000 and 100,000 comments.

use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use local_stack::engine::Engine;
use model::{
    BlobFormat, Comment, ProductId,
    item::{CommentItem, Image, attribute, comment_pk},
    journal::JournalEntry,
};
use repair_job::{AuditOptions, Job, JobSettings, Report as RepairReport, Stop};
use stores::{
    Table,
    capacity::Meter,
    now,
    table::{ItemKey, ScanOf, TableConfig},
};
use tempfile::TempDir;

use crate::{
    binaries::binary,
    index::{add_members, base_set_members},
    report::{Limit, Report, count as number},
    shop::Import,
    statistics::{Rounds, as_f64, median},
    workload::{Comments, EVENT_RECORDS, Redis, create_table_without_stream, folder},
};

/// Rounds of each comparison.
const ROUNDS: u32 = 5;
/// Comments of a quick comparison: a scan of some tenths of a second.
const QUICK_COMMENTS: u32 = 1_000;
const AUDIT_RATIO: &str = "audit_vs_scan";
const REBUILD_RATIO: &str = "rebuild_vs_scan_and_pipeline";
const CATALOGUE_RATIO: &str = "rebuild_vs_queries_and_pipeline";
const TABLE: &str = "bench";
/// Comments whose items are imported in one transaction.
const IMPORT_COMMENTS: usize = 500;
/// Items that a scan reads in one call: as the audit does.
const SCAN_LIMIT: i32 = 2_000;
/// Between two looks at a process.
const PROCESS_POLL: Duration = Duration::from_millis(10);
/// Comments that `recent` looks at.
const RECENT: usize = 1_000;
/// Items that a query for primary items reads in one call: as the rebuild does.
const QUERY_LIMIT: u32 = 4_000;
/// The second size for the memory of an audit, so many times the first.
const MEMORY_TIMES: u32 = 5;
/// The same of a measurement of its own.
const MEMORY_TIMES_LONG: u32 = 10;
/// The allocator gives nothing back, so a constant need varies by some percent.
const MEMORY_GROWTH_MAX: f64 = 1.2;

/// A table with all that comments have, and their page index.
pub(crate) struct World {
    engine: Engine,
    table: Table,
    redis: Redis,
    comments: Vec<Comment>,
    // Last, so that the engine is gone when it is removed.
    _folder: TempDir,
}

impl World {
    async fn new(count: u32) -> anyhow::Result<Self> {
        Self::load(count).await?.made_ready().await
    }

    /// With the table's index as well.
    async fn with_index(count: u32) -> anyhow::Result<Self> {
        Self::load_table(count, true).await?.made_ready().await
    }

    /// The page index is filled, and the product catalogue whole.
    async fn made_ready(self) -> anyhow::Result<Self> {
        let report = self.job(true).rebuild(1).await;
        ensure!(report.exit_code() == 0, "{report}");
        Ok(self)
    }

    /// With an empty page index, which is not ready.
    pub(crate) async fn load(count: u32) -> anyhow::Result<Self> {
        Self::load_table(count, false).await
    }

    async fn load_table(count: u32, with_index: bool) -> anyhow::Result<Self> {
        let folder = folder()?;
        let file = folder.path().join("table");
        let start = || Engine::start(&file, ([127, 0, 0, 1], 0).into());
        let engine = start().await?;
        match with_index {
            true => create_table_without_stream(&connect(&engine).await).await?,
            false => create(&connect(&engine).await).await?,
        }
        // The import goes past the engine's server, and a file has one owner.
        engine.stop().await;
        let comments = Comments::new(7)?.take(count)?;
        let mut import = Import::open(&file)?;
        for comments in comments.chunks(IMPORT_COMMENTS) {
            comments.iter().flat_map(items_of).try_for_each(|item| import.push(TABLE, &item))?;
            import.flush()?;
        }
        drop(import);
        let engine = start().await?;
        let table = connect(&engine).await;
        Ok(Self { engine, table, redis: Redis::start().await?, comments, _folder: folder })
    }

    pub(crate) fn job(&self, apply: bool) -> Job {
        let settings =
            JobSettings { apply, settle: Duration::ZERO, overlap: Duration::from_secs(600), ..JobSettings::default() };
        Job::new(self.table.clone(), self.redis.index.clone(), settings, Meter::default(), Stop::default())
    }

    pub(crate) async fn stop(self) {
        self.redis.stop().await;
        self.engine.stop().await;
    }
}

async fn connect(engine: &Engine) -> Table {
    Table::connect(&TableConfig {
        // A busy machine must not end a measurement.
        attempt_timeout: Duration::from_secs(60),
        call_timeout: Duration::from_secs(120),
        ..TableConfig::new(TABLE, Some(engine.endpoint_url()))
    })
    .await
}

/// The 32 items of a comment.
fn items_of(comment: &Comment) -> Vec<serde_dynamo::Item> {
    let Ok(primary) = serde_dynamo::to_item(CommentItem::primary(comment, BlobFormat::Map)) else { return Vec::new() };
    let Ok(image) = Image::of_primary(&primary) else { return Vec::new() };
    let duplicates = comment.placement().duplicate_keys().map(|key| image.duplicate(&key)).collect::<Vec<_>>();
    duplicates.into_iter().chain([primary.clone()]).collect()
}

/// An audit in one segment.
fn audit_of(sweep: bool) -> AuditOptions {
    AuditOptions { segments: 1, at_once: 1, sweep, ..AuditOptions::default() }
}

/// An audit without the sweep and a bare scan in turn; and what the last audit reported.
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

/// Measures the audit of `comments` comments, the sweep, and `recent`; a quick one leaves out the memory.
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
    if is_quick { Ok(()) } else { memory_of(report, "audit", comments, MEMORY_TIMES).await }
}

/// What rounds of rebuilding took.
#[derive(Default)]
struct RebuildRounds {
    against_pipeline: Rounds,
    against_reading_and_pipeline: Rounds,
    reading_s: Vec<f64>,
    /// Read units of the last rebuild.
    read_units: f64,
}

/// A rebuild, bare reading of the same and a bare pipeline in turn; the reading returns how many comments it found.
async fn rebuild_rounds(
    world: &mut World,
    rebuild: impl AsyncFn(&Job) -> RepairReport,
    read: impl AsyncFn(&Table) -> anyhow::Result<usize>,
) -> anyhow::Result<RebuildRounds> {
    let mut rounds = RebuildRounds::default();
    for round in 0..=ROUNDS {
        let job = world.job(true);
        let began = Instant::now();
        let rebuilt = rebuild(&job).await;
        let ours = began.elapsed();
        ensure!(rebuilt.exit_code() == 0 && rebuilt.checked == world.comments.len() as u64, "{rebuilt}");
        let began = Instant::now();
        let found = read(&world.table).await?;
        let reading = began.elapsed();
        ensure!(found == world.comments.len(), "{found} primary items read");
        let mut pipeline = Duration::ZERO;
        for comments in world.comments.chunks(EVENT_RECORDS) {
            let members = base_set_members(&world.redis.index, comments);
            let began = Instant::now();
            add_members(&mut world.redis, &members).await?;
            pipeline += began.elapsed();
        }
        if round > 0 {
            rounds.against_pipeline.add(ours, pipeline);
            rounds.against_reading_and_pipeline.add(ours, reading + pipeline);
            rounds.reading_s.push(reading.as_secs_f64());
            rounds.read_units = rebuilt.read_units;
        }
    }
    Ok(rounds)
}

async fn scan_rounds(world: &mut World) -> anyhow::Result<RebuildRounds> {
    rebuild_rounds(world, async |job| job.rebuild_by_scan(1).await, bare_placement_scan).await
}

/// Measures the rebuild of the page index of `comments` comments, by the product catalogue and by a scan.
pub(crate) async fn measure_rebuild(report: &mut Report, comments: u32) -> anyhow::Result<()> {
    report.step(&format!("loading {} comments with all their items", number(comments.into())));
    let mut world = World::with_index(comments).await?;
    let products = listed_products(&world.table).await?;
    report.step(&format!("{ROUNDS} rounds of rebuild, bare queries and bare pipeline"));
    let queries = async |table: &Table| bare_queries(table, &products).await;
    let by_catalogue = rebuild_rounds(&mut world, async |job| job.rebuild(1).await, queries).await?;
    report.step(&format!("{ROUNDS} rounds of rebuild by scan, bare scan and bare pipeline"));
    let by_scan = scan_rounds(&mut world).await?;
    world.stop().await;
    let (count, each) = (u64::from(comments), f64::from(comments.max(1)));
    let rate = |rounds: &RebuildRounds| rounds.against_pipeline.our_rate(count);
    report.add(
        "rebuild",
        &format!(
            "{ROUNDS} rounds of {} comments of {} products each way, one product or segment at a time",
            number(count),
            number(products.len() as u64)
        ),
        &[
            ("rebuild by the product catalogue", rate(&by_catalogue), "comments/s"),
            ("rebuild by a scan", rate(&by_scan), "comments/s"),
            ("bare pipeline of ZADD", by_catalogue.against_pipeline.bare_rate(count), "comments/s"),
            ("bare queries for primary items", each / median(&by_catalogue.reading_s), "comments/s"),
            ("bare scan for primary items", each / median(&by_scan.reading_s), "comments/s"),
            ("by the product catalogue, read units", by_catalogue.read_units / each, "units/comment"),
            ("by a scan, read units", by_scan.read_units / each, "units/comment"),
        ],
    );
    report.ratio("rebuild_vs_pipeline", by_catalogue.against_pipeline.ratio(), Limit::AtLeast(0.5));
    for (name, rounds) in [(CATALOGUE_RATIO, &by_catalogue), (REBUILD_RATIO, &by_scan)] {
        let floor = rounds.against_reading_and_pipeline.ratio();
        report.ratio_noted(name, floor, Limit::None, "the nearer to 1 the better");
    }
    Ok(())
}

/// The ratios of audit and rebuild, of a small table.
pub(crate) async fn overheads() -> anyhow::Result<Vec<(&'static str, f64)>> {
    let mut world = World::new(QUICK_COMMENTS).await?;
    let (audit, _) = audit_rounds(&world).await?;
    let rebuild = scan_rounds(&mut world).await?;
    world.stop().await;
    Ok(vec![(AUDIT_RATIO, audit.ratio()), (REBUILD_RATIO, rebuild.against_reading_and_pipeline.ratio())])
}

async fn measure_recent(report: &mut Report, world: &mut World) -> anyhow::Result<()> {
    report.step(&format!("recent, {} comments", number(RECENT as u64)));
    let recent: Vec<Comment> = world.comments.iter().take(RECENT).cloned().collect();
    for comment in &recent {
        // As if each had been created now.
        let revision = model::Revision::after(None, now(), 1);
        let entry = JournalEntry { id: comment.id.clone(), revision, before: None, after: Some(comment.placement()) };
        let item: serde_dynamo::Item = serde_dynamo::to_item(entry.to_item())?;
        let put = world.table.client().put_item().table_name(world.table.name());
        put.set_item(Some(item.into())).send().await?;
    }
    // The watermark, so that only these are looked at.
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
    let (mended_s, mended) = timed(world).await;
    ensure!(mended.mended == 2 * count as u64, "{mended}");
    let per_comment = |units: f64| units / as_f64(count as u64);
    report.add(
        "recent",
        &format!(
            "{count} comments named by the journal, each by itself; then with a duplicate and an entry missing each"
        ),
        &[
            ("nothing wrong", as_f64(count as u64) / clean_s, "comments/s"),
            ("nothing wrong, read units", per_comment(clean.read_units), "units/comment"),
            ("all damaged", as_f64(count as u64) / mended_s, "comments/s"),
            ("all damaged, read units", per_comment(mended.read_units), "units/comment"),
            ("all damaged, write units", per_comment(mended.write_units), "units/comment"),
            ("from the beginning of the run until the last is mended", mended_s, "s"),
        ],
    );
    Ok(())
}

/// Measures the memory of the audit of `comments` comments, and of ten times as many.
pub(crate) async fn measure_memory(report: &mut Report, comments: u32) -> anyhow::Result<()> {
    memory_of(report, "memory", comments, MEMORY_TIMES_LONG).await
}

/// The largest resident set of the binary while it audits, at two sizes.
async fn memory_of(report: &mut Report, name: &str, comments: u32, times: u32) -> anyhow::Result<()> {
    let binary = binary("repair-job")?;
    let mut peaks = Vec::new();
    for count in [comments, comments * times] {
        report.step(&format!("the memory of an audit of {} comments", number(count.into())));
        let world = World::new(count).await?;
        let audit = audit_by_binary(&binary, &world).await?;
        peaks.push((count, audit.peak_mib));
        world.stop().await;
    }
    let figures: Vec<(String, f64, &'static str)> = peaks
        .iter()
        .map(|(count, peak)| (format!("audit of {} comments", number((*count).into())), *peak, "MiB"))
        .collect();
    report.add(
        &format!("{name}-memory"),
        "the largest resident set of the binary, dry run with the sweep, one segment",
        &figures,
    );
    if let [(_, few), (_, many)] = peaks.as_slice() {
        let note = format!("about 1 with {times} times the comments");
        report.ratio_noted(&format!("{name}_memory_growth"), many / few, Limit::AtMost(MEMORY_GROWTH_MAX), &note);
    }
    Ok(())
}

/// What an audit by the binary took.
pub(crate) struct AuditRun {
    /// From the start of the process to its end.
    pub(crate) took: Duration,
    /// The largest resident set that the kernel reported while it ran.
    pub(crate) peak_mib: f64,
}

/// Audits table and page index (with the sweep) by the binary as a child process, which looks only.
pub(crate) async fn audit_by_binary(binary: &Path, world: &World) -> anyhow::Result<AuditRun> {
    let began = Instant::now();
    let mut child = tokio::process::Command::new(binary)
        .env("PAGEMARK_TABLE", world.table.name())
        .env("PAGEMARK_DYNAMODB_URL", world.engine.endpoint_url())
        .env("PAGEMARK_REDIS_URL", world.redis.url())
        .args(["audit", "--segments", "1", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let status_file = format!("/proc/{}/status", child.id().context("a process id")?);
    let mut peak_kib = 0_u64;
    let status = loop {
        let status = tokio::fs::read_to_string(&status_file).await.unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")).and_then(|peak| peak.parse().ok());
        peak_kib = peak_kib.max(peak.unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        tokio::time::sleep(PROCESS_POLL).await;
    };
    ensure!(status.success(), "the audit of {} comments ended with {status}", world.comments.len());
    Ok(AuditRun { took: began.elapsed(), peak_mib: as_f64(peak_kib) / 1024.0 })
}

fn expect_clean(report: RepairReport) -> anyhow::Result<RepairReport> {
    match report.exit_code() {
        0 => Ok(report),
        _ => bail!("{report}"),
    }
}

/// Returns how many items there are.
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

/// Returns how many primary items there are.
async fn bare_placement_scan(table: &Table) -> anyhow::Result<usize> {
    let (mut found, mut position): (usize, Option<ItemKey>) = (0, None);
    loop {
        let scanned = table.scan_segment(ScanOf::Placements, position, 0, 1, 4_000).await?;
        found += scanned.items.len();
        position = scanned.next;
        if position.is_none() {
            return Ok(found);
        }
    }
}

/// The products of the catalogue.
async fn listed_products(table: &Table) -> anyhow::Result<Vec<ProductId>> {
    let (mut listed, mut position) = (Vec::new(), None);
    loop {
        let (products, next) = table.listed_products(position).await?;
        listed.extend(products);
        position = next;
        if position.is_none() {
            return Ok(listed);
        }
    }
}

/// Returns how many primary items there are.
async fn bare_queries(table: &Table, products: &[ProductId]) -> anyhow::Result<usize> {
    let mut found = 0;
    for product in products {
        let mut position = None;
        loop {
            let part = table.primary_part(product, position, QUERY_LIMIT).await?;
            found += part.items.len();
            position = part.next;
            if position.is_none() {
                break;
            }
        }
    }
    Ok(found)
}

/// The project's table but for its stream, its index, time to live and backups.
async fn create(table: &Table) -> anyhow::Result<()> {
    let text =
        |name: &str| AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S).build();
    let key = |name: &str, kind: KeyType| KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
    table
        .client()
        .create_table()
        .table_name(table.name())
        .attribute_definitions(text(attribute::PK)?)
        .attribute_definitions(text(attribute::SK)?)
        .key_schema(key(attribute::PK, KeyType::Hash)?)
        .key_schema(key(attribute::SK, KeyType::Range)?)
        .billing_mode(BillingMode::PayPerRequest)
        .send()
        .await?;
    Ok(())
}
