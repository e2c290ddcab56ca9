//! `index`: the handler of `page-indexer` beside a bare pipeline of the same `ZADD`s, the memory of the page index, finding
//! a page, and the page index inside the process beside the one in Redis.
//!
//! - **Rate.** Rounds alternate; each turn has separate comments. The handler gets Lambda events of 100 records. The bare
//!   side sends the four `ZADD`s of each comment in pipelines of the same 100 comments, by the same client library. Its keys
//!   and members are already text, while the handler must still read images, plan edits and build keys. The handler also
//!   keeps the sets of products and languages, atomically with each comment's edit.
//! - **Memory** in Redis: `used_memory` of `INFO`, without the buffers of clients. Inside the process: the growth of this
//!   process's resident memory.
//! - **Page start.** The whole call for random pages of one product, and for Redis the server's time besides.

use std::time::Duration;

use anyhow::Context;
use embedded_index::EmbeddedIndex;
use model::{Comment, Filter, FilterKey, ProductId, RatingSet, plan::IndexEdit};
use page_index::PageIndex;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use redis_index::RedisIndexConfig;

use crate::{
    listing::{PAGE_SIZE, PRODUCT},
    measure::{Effort, Latencies, Rounds, as_f64, timed},
    report::{Report, count},
    server::resident_bytes,
    stores::{Redis, page_start},
    workload::{Comments, EVENT_RECORDS, deadline, events, expect_processed, insertion, page_indexer},
};

/// The table for which page indexes are marked ready.
const TABLE_ID: &str = "bench";
/// Edits of one call, as many as `page-indexer` sends together.
const EDITS_TOGETHER: usize = 256;
/// Number of comments that are drawn together. They are dropped before the next ones are drawn.
const CHUNK: u32 = 10_000;
/// The settings of an index inside the process, as in the edition for one machine.
const PARTITIONS: u16 = 256;
const MAX_AGE: Duration = Duration::from_secs(3 * 3600);

/// Measures. The memory is that of `comments` comments.
pub(crate) async fn measure(report: &mut Report, comments: u32, effort: Effort, pages: u32) -> anyhow::Result<()> {
    report.step(&format!("{} rounds of the handler, the bare pipeline and edits", effort.rounds));
    rates(report, effort).await?;

    report.step(&format!("{} comments inside the process", count(comments)));
    let mut workload = Comments::new(3)?;
    let before = resident_bytes(std::process::id())?;
    let index = PageIndex::new(embedded());
    fill(&index, &mut workload, comments, None).await?;
    let bytes = as_f64(resident_bytes(std::process::id())?.saturating_sub(before)) / f64::from(comments);
    report.noted("embedded_bytes_per_comment", bytes, "bytes", "at most 40 at 1,000,000 comments");
    drop(index);

    report.step(&format!("{} comments in Redis", count(comments)));
    let mut redis = Redis::start().await?;
    let empty = redis.memory_bytes().await?;
    fill(&redis.index, &mut workload, comments, None).await?;
    let bytes = as_f64(redis.memory_bytes().await?.saturating_sub(empty)) / f64::from(comments);
    let note = "at most 480 at 1,000,000 comments; three in ten of one product, the rest by Zipf's law over 10,000";
    report.noted("index_bytes_per_comment", bytes, "bytes", note);

    report.step(&format!("pages of a product of {} comments", count(comments)));
    let product = Some(ProductId::parse(PRODUCT)?);
    let (embedded, mut redis) = (PageIndex::new(embedded()), Redis::start().await?);
    for index in [&embedded, &redis.index] {
        fill(index, &mut Comments::new(4)?, comments, product.as_ref()).await?;
    }
    for ratings in ["5", "1.3.5"] {
        let mut of_pages = Pages::new(&redis.index, ratings).await?;
        let server = of_pages.server(&mut redis, pages).await?;
        let note = "at most 200 at 1,000,000 comments; wall-clock time of the script";
        report.add(format!("page start, {ratings}: Redis, server, p50"), server.p50_us(), "us");
        report.noted(format!("page start, {ratings}: Redis, server, p99"), server.p99_us(), "us", note);
        for (place, index) in [("Redis", &redis.index), ("in the process", &embedded)] {
            let times = of_pages.client(index, pages).await?;
            report.add(format!("page start, {ratings}: {place}, p50"), times.p50_us(), "us");
            report.add(format!("page start, {ratings}: {place}, p99"), times.p99_us(), "us");
        }
    }
    Ok(())
}

async fn rates(report: &mut Report, effort: Effort) -> anyhow::Result<()> {
    let (mut redis, embedded) = (Redis::start().await?, PageIndex::new(embedded()));
    let handler = page_indexer(&redis.index);
    let mut workload = Comments::new(2)?;
    // The first round also loads the script.
    let rounds = Rounds::run(effort.rounds, async || {
        let (of_handler, of_bare) = (workload.take(effort.a_turn)?, workload.take(effort.a_turn)?);
        let mut ours = Duration::ZERO;
        for comments in of_handler.chunks(EVENT_RECORDS) {
            for event in events(comments)? {
                let (handled, took) = timed(async { Ok(handler.handle(&event, deadline()).await) }).await?;
                expect_processed(&handled)?;
                ours += took;
            }
        }
        let bare = time_to_add(&mut redis, &of_bare).await?;
        let edits: Vec<IndexEdit> = workload.take(effort.a_turn)?.iter().flat_map(insertion).collect();
        Ok([ours, bare, apply(&redis.index, &edits).await?, apply(&embedded, &edits).await?])
    });
    let rounds = rounds.await?;
    for (place, name) in
        ["handler", "bare pipeline of ZADD", "edits in Redis", "edits in the process"].iter().enumerate()
    {
        report.add(*name, rounds.rate(place, effort.a_turn), "comments/s");
    }
    report.noted("index_vs_pipeline", rounds.ratio(0, 1), "", "ratio of rates, at least 0.7");
    report.noted("embedded_apply_vs_redis", rounds.ratio(3, 2), "", "ratio of rates, at least 8");
    Ok(())
}

fn embedded() -> EmbeddedIndex {
    EmbeddedIndex::new(PARTITIONS, MAX_AGE)
}

async fn apply(index: &PageIndex, edits: &[IndexEdit]) -> anyhow::Result<Duration> {
    let applied = async {
        for together in edits.chunks(EDITS_TOGETHER) {
            index.apply(together).await?;
        }
        Ok(())
    };
    Ok(timed(applied).await?.1)
}

/// Adds drawn comments to an empty index and marks it ready. All are of one product if it is given.
pub(crate) async fn fill(
    index: &PageIndex,
    workload: &mut Comments,
    comments: u32,
    product: Option<&ProductId>,
) -> anyhow::Result<()> {
    let rebuild = index.begin_rebuild().await?;
    let mut left = comments;
    while left > 0 {
        let mut drawn = workload.take(left.min(CHUNK))?;
        if let Some(product) = product {
            drawn.iter_mut().for_each(|comment| comment.product = product.clone());
        }
        apply(index, &drawn.iter().flat_map(insertion).collect::<Vec<_>>()).await?;
        left -= left.min(CHUNK);
    }
    index.finish_rebuild(&rebuild, TABLE_ID, process::now()).await?;
    Ok(())
}

/// The time that a bare pipeline takes to add the comments to their base sets, under other keys of the same length.
pub(crate) async fn time_to_add(redis: &mut Redis, comments: &[Comment]) -> anyhow::Result<Duration> {
    let mut took = Duration::ZERO;
    for comments in comments.chunks(EVENT_RECORDS) {
        let members: Vec<_> = comments.iter().flat_map(|comment| base_set_members(&redis.config, comment)).collect();
        let add = async {
            let mut pipeline = redis::pipe();
            for (key, score, member) in &members {
                pipeline.cmd("ZADD").arg(key).arg(score).arg(member).ignore();
            }
            Ok(pipeline.exec_async(&mut redis.connection).await?)
        };
        took += timed(add).await?.1;
    }
    Ok(took)
}

fn base_set_members(config: &RedisIndexConfig, comment: &Comment) -> [(String, i64, String); 4] {
    let (score, member) = (comment.created_at.epoch_ms(), comment.id.to_string());
    let key = |set| config.key_name(&set).replacen("pagemark", "barebare", 1);
    comment.placement().base_sets().map(|set| (key(set), score, member.clone()))
}

/// Random pages of one product under a filter by ratings.
pub(crate) struct Pages {
    key: FilterKey,
    pages: u64,
    rng: StdRng,
}

impl Pages {
    pub(crate) async fn new(index: &PageIndex, ratings: &str) -> anyhow::Result<Self> {
        let filter = Filter::new(None, Some(RatingSet::parse(ratings)?));
        let key = FilterKey { product: ProductId::parse(PRODUCT)?, filter };
        let total = page_start(index, TABLE_ID, &key, 1).await?.total;
        Ok(Self { key, pages: total.div_ceil(PAGE_SIZE as u64).max(1), rng: StdRng::seed_from_u64(5) })
    }

    /// Whole calls.
    async fn client(&mut self, index: &PageIndex, calls: u32) -> anyhow::Result<Latencies> {
        let Self { key, pages, rng } = self;
        Latencies::of(calls / 10, calls, async || page_start(index, TABLE_ID, key, rng.random_range(1..=*pages)).await)
            .await
    }

    /// The server's time. Before each call its statistics are reset. After it, they have the time of that one `EVALSHA`.
    /// It is wall-clock time: it includes moments in which another process takes the server's core.
    pub(crate) async fn server(&mut self, redis: &mut Redis, calls: u32) -> anyhow::Result<Latencies> {
        let mut times = Latencies::new()?;
        for _ in 0..calls {
            let page = self.rng.random_range(1..=self.pages);
            redis::cmd("CONFIG").arg("RESETSTAT").exec_async(&mut redis.connection).await?;
            page_start(&redis.index, TABLE_ID, &self.key, page).await?;
            let stats: redis::InfoDict =
                redis::cmd("INFO").arg("commandstats").query_async(&mut redis.connection).await?;
            let script: String = stats.get("cmdstat_evalsha").context("no EVALSHA was called")?;
            let usec = script.strip_prefix("calls=1,usec=").and_then(|rest| rest.split(',').next());
            let usec = usec.with_context(|| format!("one call: {script}"))?.parse()?;
            times.record(Duration::from_micros(usec));
        }
        Ok(times)
    }
}
