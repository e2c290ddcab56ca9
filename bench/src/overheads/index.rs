//! `index`: the handler of `page-indexer` beside a bare pipeline of the same `ZADD`s, and the
//! memory of the page index.
//!
//! Rounds alternate; each turn has separate comments. The handler gets Lambda events of 100
//! records. The bare side sends the two `ZADD`s of each comment in pipelines of the same 100
//! comments, by the same client library. Its keys and members are already text, while the handler
//! must still read images and plan edits. The handler also keeps counts and the set of products,
//! atomically with each comment's edit. Comments are drawn in the order of their times.

use std::time::Duration;

use embedded_index::EmbeddedIndex;
use futures_util::{TryStreamExt, stream};
use model::{Comment, ProductId};
use page_index::PageIndex;
use redis_index::RedisIndexConfig;

use crate::{
    measure::{Effort, Rounds, Spread, as_f64, timed},
    report::{BenchReport, count},
    server::resident_bytes,
    stores::Redis,
    workload::{
        Comments, EVENT_RECORDS, deadline, events, expect_processed, insertion, page_indexer,
    },
};

pub(crate) const TABLE_ID: &str = "bench";
/// The next call is made ready while the server works.
const CALLS_AT_ONCE: usize = 2;
/// Number of comments that are drawn together. They are dropped before the next ones are drawn.
const CHUNK: u32 = 10_000;
/// The settings of an index inside the process, as in the edition for one machine.
pub(crate) const PARTITIONS: u16 = 256;
pub(crate) const MAX_AGE: Duration = Duration::from_secs(3 * 3600);

/// The handler finds and edits a block by a script, where the pipeline only sends two `ZADD`s for a
/// comment. With two sorted sets, as before ADR 90, it was 0.41.
const INDEX_LIMIT: &str = "ratio of rates, at least 0.17";

/// Measures. The memory is that of `comments` comments.
pub(crate) async fn measure(
    report: &mut BenchReport,
    comments: u32,
    effort: Effort,
) -> anyhow::Result<()> {
    report.step(&format!(
        "{} rounds of the handler and the bare pipeline",
        effort.rounds
    ));
    rates(report, effort).await?;

    report.step(&format!("{} comments inside the process", count(comments)));
    let mut workload = Comments::new(3)?.in_order();
    let before = resident_bytes(std::process::id())?;
    let index = PageIndex::new(EmbeddedIndex::new(PARTITIONS), MAX_AGE);
    fill(&index, &mut workload, comments, None).await?;
    let bytes =
        as_f64(resident_bytes(std::process::id())?.saturating_sub(before)) / f64::from(comments);
    report.noted(
        "embedded_bytes_per_comment",
        bytes,
        "bytes",
        "at most 40 at 1,000,000 comments",
    );
    drop(index);

    let bytes = bytes_in_redis(report, Comments::new(3)?.in_order(), comments).await?;
    let note = "at most 60 at 1,000,000 comments; three in ten of one product, the rest by Zipf's law over 10,000";
    report.noted("index_bytes_per_comment", bytes, "bytes", note);
    let bytes = bytes_in_redis(report, Comments::new(3)?, comments / 4).await?;
    report.add("index_bytes_per_comment, in any order", bytes, "bytes");
    Ok(())
}

async fn bytes_in_redis(
    report: &mut BenchReport,
    mut workload: Comments,
    comments: u32,
) -> anyhow::Result<f64> {
    report.step(&format!("{} comments in Redis", count(comments)));
    let mut redis = Redis::start().await?;
    let empty = redis.memory_bytes().await?;
    fill(&redis.index, &mut workload, comments, None).await?;
    Ok(as_f64(redis.memory_bytes().await?.saturating_sub(empty)) / f64::from(comments))
}

async fn rates(report: &mut BenchReport, effort: Effort) -> anyhow::Result<()> {
    let mut redis = Redis::start().await?;
    let handler = page_indexer(&redis.index);
    let mut workload = Comments::new(2)?.in_order();
    let mut server_us = Vec::new();
    // The first round also loads the script.
    let rounds = Rounds::run(effort.rounds, async || {
        redis.reset_statistics().await?;
        let of_handler = workload.take(effort.a_turn)?;
        let of_bare = workload.take(effort.a_turn)?;
        let mut ours = Duration::ZERO;
        for comments in of_handler.chunks(EVENT_RECORDS) {
            for event in events(comments)? {
                let (handled, took) =
                    timed(async { Ok(handler.handle(&event, deadline()).await) }).await?;
                expect_processed(&handled)?;
                ours += took;
            }
        }
        server_us.push(redis.script_us().await? / f64::from(effort.a_turn));
        let bare = time_to_add(&mut redis, &of_bare).await?;
        Ok([ours, bare])
    });
    let rounds = rounds.await?;
    report.add("handler", rounds.rate(0, effort.a_turn), "comments/s");
    report.add(
        "bare pipeline of ZADD",
        rounds.rate(1, effort.a_turn),
        "comments/s",
    );
    report.add("server: an addition", Spread::of(&server_us), "us");
    report.noted("index_vs_pipeline", rounds.ratio(0, 1), "", INDEX_LIMIT);
    Ok(())
}

/// Adds drawn comments to an empty index and marks it ready. All are of one product if it is given.
pub(crate) async fn fill(
    index: &PageIndex,
    workload: &mut Comments,
    comments: u32,
    product: Option<&ProductId>,
) -> anyhow::Result<()> {
    let rebuild = index.begin_rebuild().await?;
    let mut missing = comments;
    while missing > 0 {
        let mut drawn = workload.take(missing.min(CHUNK))?;
        if let Some(product) = product {
            for comment in &mut drawn {
                comment.product = product.clone();
            }
        }
        stream::iter(drawn.chunks(EVENT_RECORDS).map(Ok))
            .try_for_each_concurrent(CALLS_AT_ONCE, async |together: &[Comment]| {
                let edits: Vec<_> = together.iter().flat_map(insertion).collect();
                index.apply(&edits).await
            })
            .await?;
        missing -= missing.min(CHUNK);
    }
    index
        .finish_rebuild(&rebuild, TABLE_ID, process::now())
        .await?;
    Ok(())
}

/// The time that a bare pipeline takes to add the comments to their base sets, under other keys of
/// the same length.
pub(crate) async fn time_to_add(
    redis: &mut Redis,
    comments: &[Comment],
) -> anyhow::Result<Duration> {
    let mut took = Duration::ZERO;
    for comments in comments.chunks(EVENT_RECORDS) {
        let members: Vec<_> = comments
            .iter()
            .flat_map(|comment| base_set_members(&redis.config, comment))
            .collect();
        let add = async {
            let mut pipeline = redis::pipe();
            for (key, score, member) in &members {
                pipeline
                    .cmd("ZADD")
                    .arg(key)
                    .arg(score)
                    .arg(member)
                    .ignore();
            }
            Ok(pipeline.exec_async(&mut redis.connection).await?)
        };
        took += timed(add).await?.1;
    }
    Ok(took)
}

fn base_set_members(config: &RedisIndexConfig, comment: &Comment) -> [(String, i64, String); 2] {
    let score = comment.created_at.epoch_ms();
    let member = comment.id.to_string();
    comment.placement().base_sets().map(|set| {
        let language = match &set.language {
            Some(language) => language.as_str(),
            None => model::ANY,
        };
        let part = [language, "/", set.rating.as_str()].concat();
        let key = config.key_name(&set.product, &part);
        let key = key.replacen("pagemark", "barebare", 1);
        (key, score, member.clone())
    })
}
