//! `index`: compares the handler of `page-indexer` with a bare pipeline of the same `ZADD`s, and the memory of the page
//! index with that of one sorted set per filter key.
//!
//! - **Rate.** One Redis. Rounds alternate: handler, bare, handler, bare; each half has separate comments. The handler
//!   gets Lambda events of 100 records, one after the other. The bare side sends the four `ZADD`s of each comment, with
//!   one member each, in pipelines of the same 100 comments, one after the other, by the same client library. Its keys
//!   and members are already text, while the handler must still read images, plan edits and build keys. Each side's
//!   input is made right before it is used, as the Lambda runtime reads an event right before it calls the handler;
//!   that is not timed. The handler's time includes its work beyond the `ZADD`s: the sets of products and languages,
//!   atomically with each comment's edit.
//! - **Memory.** `used_memory` of `INFO`, without the buffers of clients, after filling minus before.
//! - **32 sets.** One sorted set per filter key, in a second Redis. Both designs get a tenth of the comments (with the
//!   same share of the top product), because at a million the 32 sets take 3.5 GB and minutes.

use std::time::{Duration, Instant};

use functions::Quarantine;
use model::{
    Comment, FilterKey,
    plan::{IndexEdit, index_edits},
};
use page_index::PageIndex;
use page_indexer::PageIndexer;

use crate::{
    options::Effort,
    report::{Limit, Report, count as number},
    statistics::{Rounds, as_f64},
    workload::{Comments, EVENT_RECORDS, Redis, events, expect_processed},
};

/// A half of a round takes some tenths of a second.
const FULL: Effort = Effort { rounds: 15, a_half: 5_000 };
pub(crate) const QUICK: Effort = Effort { rounds: 15, a_half: 2_000 };
pub(crate) const RATIO: &str = "index_vs_pipeline";
/// Time limit far above any half of a round.
const TIME_MAX: Duration = Duration::from_secs(600);
/// Number of comments that are generated and indexed at once, so that a million need little memory in this process.
const CHUNK: u32 = 20_000;
/// Number of comments from which the memory limit applies.
const LIMIT_FROM: u32 = 1_000_000;
/// The comparison with 32 sets gets one comment in this many.
const IN_32_SETS_ONE_IN: u32 = 10;

/// Measures. The memory is that of `comments` comments.
pub(crate) async fn measure(report: &mut Report, comments: u32, is_quick: bool) -> anyhow::Result<()> {
    let effort = if is_quick { QUICK } else { FULL };
    report.step(&format!("{} rounds of the handler and the bare pipeline", effort.rounds));
    let rounds = rounds(effort).await?;
    let count = u64::from(effort.a_half);
    report.add(
        "index",
        &format!(
            "{} rounds of {} comments each way, pipelines of {EVENT_RECORDS} comments",
            effort.rounds,
            number(count)
        ),
        &[
            ("handler", rounds.our_rate(count), "comments/s"),
            ("bare pipeline of ZADD", rounds.bare_rate(count), "comments/s"),
        ],
    );
    report.ratio(RATIO, rounds.ratio(), Limit::AtLeast(0.7));

    report.step(&format!("putting {} comments into the page index", number(comments.into())));
    let four_sets = bytes_in_four_sets(comments).await?;
    let fewer = comments / IN_32_SETS_ONE_IN;
    report.step(&format!("putting {} comments into 4 sets and into 32", number(fewer.into())));
    let (fewer_in_four_sets, fewer_in_32_sets) = (bytes_in_four_sets(fewer).await?, bytes_in_32_sets(fewer).await?);
    let fewer_in = |sets: &str| format!("{sets}, {} comments", number(fewer.into()));
    let comments_text = number(comments.into());
    report.add(
        "index-memory",
        &format!(
            "{comments_text} comments, three in ten of one product, the rest by Zipf's law over 10,000; ids are ULIDs"
        ),
        &[
            (format!("page index, {comments_text} comments"), four_sets, "bytes/comment"),
            (fewer_in("page index"), fewer_in_four_sets, "bytes/comment"),
            (fewer_in("one set a filter key"), fewer_in_32_sets, "bytes/comment"),
        ],
    );
    let limit = Limit::AtMost(480.0).only_if(comments >= LIMIT_FROM);
    report.ratio_noted("index_bytes_per_comment", four_sets, limit, "at most 480 at 1,000,000 comments");
    let share = fewer_in_four_sets / fewer_in_32_sets;
    report.ratio_noted("index_bytes_vs_32_sets", share, Limit::None, "the less the better");
    Ok(())
}

/// Runs the handler and the bare pipeline in turn.
pub(crate) async fn rounds(effort: Effort) -> anyhow::Result<Rounds> {
    let mut redis = Redis::start().await?;
    let handler = PageIndexer::new(redis.index.clone(), Quarantine::Mapping);
    let mut workload = Comments::new(2)?;
    let mut rounds = Rounds::default();
    // The first round loads the script and warms up.
    for round in 0..=effort.rounds {
        let (of_handler, of_bare) = (workload.take(effort.a_half)?, workload.take(effort.a_half)?);
        let (mut ours, mut bare) = (Duration::ZERO, Duration::ZERO);
        for comments in of_handler.chunks(EVENT_RECORDS) {
            for event in events(comments)? {
                let began = Instant::now();
                expect_processed(&handler.handle(&event, tokio::time::Instant::now() + TIME_MAX).await.response)?;
                ours += began.elapsed();
            }
        }
        for comments in of_bare.chunks(EVENT_RECORDS) {
            let members = base_set_members(&redis.index, comments);
            let began = Instant::now();
            add_members(&mut redis, &members).await?;
            bare += began.elapsed();
        }
        if round > 0 {
            rounds.add(ours, bare);
        }
    }
    redis.stop().await;
    Ok(rounds)
}

/// A member of a sorted set: key, score, member.
type Member = (String, i64, String);

/// The members that comments have in the page index, under other keys of the same length.
pub(crate) fn base_set_members(index: &PageIndex, comments: &[Comment]) -> Vec<Member> {
    let members = |comment: &Comment| {
        let (score, member) = (comment.created_at.epoch_ms(), comment.id.to_string());
        let key = |set| index.key_name(&set).replacen("pagemark", "barebare", 1);
        comment.placement().base_sets().map(|set| (key(set), score, member.clone()))
    };
    comments.iter().flat_map(members).collect()
}

pub(crate) async fn add_members(redis: &mut Redis, members: &[Member]) -> anyhow::Result<()> {
    let mut pipeline = redis::pipe();
    for (key, score, member) in members {
        pipeline.cmd("ZADD").arg(key).arg(score).arg(member).ignore();
    }
    Ok(pipeline.query_async(&mut redis.connection).await?)
}

async fn bytes_in_four_sets(comments: u32) -> anyhow::Result<f64> {
    bytes_per_comment(comments, async |redis, chunk| {
        let edits: Vec<IndexEdit> = chunk
            .iter()
            .flat_map(|comment| index_edits(&comment.id, Some((&comment.placement(), comment.created_at)), &[]))
            .collect();
        Ok(redis.index.apply(&edits).await?)
    })
    .await
}

async fn bytes_in_32_sets(comments: u32) -> anyhow::Result<f64> {
    bytes_per_comment(comments, fill_32_sets).await
}

/// Puts comments into one set for each of their filter keys.
pub(crate) async fn fill_32_sets(redis: &mut Redis, comments: &[Comment]) -> anyhow::Result<()> {
    for chunk in comments.chunks(EVENT_RECORDS) {
        let members = |comment: &Comment| {
            let (score, member) = (comment.created_at.epoch_ms(), comment.id.to_string());
            let placement = comment.placement();
            let keys = [FilterKey::primary(placement.product.clone())].into_iter().chain(placement.duplicate_keys());
            keys.map(|key| (format!("pagemark:{key}"), score, member.clone())).collect::<Vec<_>>()
        };
        add_members(redis, &chunk.iter().flat_map(members).collect::<Vec<_>>()).await?;
    }
    Ok(())
}

/// The memory per comment of a new Redis with `comments` comments, which `fill` adds chunk by chunk.
async fn bytes_per_comment(
    comments: u32,
    fill: impl AsyncFn(&mut Redis, &[Comment]) -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let mut redis = Redis::start().await?;
    let mut workload = Comments::new(3)?;
    let before = redis.memory_bytes().await?;
    let mut left = comments;
    while left > 0 {
        let chunk = left.min(CHUNK);
        fill(&mut redis, &workload.take(chunk)?).await?;
        left -= chunk;
    }
    let after = redis.memory_bytes().await?;
    redis.stop().await;
    Ok(as_f64(after.saturating_sub(before)) / f64::from(comments.max(1)))
}
