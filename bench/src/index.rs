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

use std::time::Duration;

use functions::Quarantine;
use itertools::Itertools;
use model::{
    Comment, FilterKey,
    plan::{IndexEdit, index_edits},
};
use page_indexer::PageIndexer;
use redis_index::RedisIndexConfig;

use crate::{
    options::Effort,
    report::{Limit, Report, count as number},
    statistics::{Rounds, as_f64, timed},
    workload::{Comments, EVENT_RECORDS, Redis, deadline, events, expect_processed, filter_keys},
};

/// A half of a round takes some tenths of a second.
const FULL: Effort = Effort { rounds: 15, a_half: 5_000 };
pub(crate) const QUICK: Effort = Effort { rounds: 15, a_half: 2_000 };
pub(crate) const RATIO: &str = "index_vs_pipeline";
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
        &format!("{} rounds of {} comments each way, pipelines of {EVENT_RECORDS}", effort.rounds, number(count)),
        &[
            ("handler", rounds.our_rate(count), "comments/s"),
            ("bare pipeline of ZADD", rounds.bare_rate(count), "comments/s"),
        ],
    );
    report.ratio(RATIO, rounds.ratio(), Limit::AtLeast(0.7));

    report.step(&format!("putting {} comments into the page index", number(comments)));
    let four_sets = bytes_in_four_sets(comments).await?;
    let fewer = comments / IN_32_SETS_ONE_IN;
    report.step(&format!("putting {} comments into 4 sets and into 32", number(fewer)));
    let (fewer_in_four_sets, fewer_in_32_sets) =
        (bytes_in_four_sets(fewer).await?, bytes_in_32_sets(drawn(fewer)?).await?);
    let fewer_in = |sets: &str| format!("{sets}, {} comments", number(fewer));
    let comments_text = number(comments);
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

pub(crate) async fn rounds(effort: Effort) -> anyhow::Result<Rounds> {
    let mut redis = Redis::start().await?;
    let handler = PageIndexer::new(redis.index.clone(), Quarantine::Mapping);
    let mut workload = Comments::new(2)?;
    // The first round also loads the script.
    let rounds = Rounds::run(effort.rounds, async || {
        let (of_handler, of_bare) = (workload.take(effort.a_half)?, workload.take(effort.a_half)?);
        let mut ours = Duration::ZERO;
        for comments in of_handler.chunks(EVENT_RECORDS) {
            for event in events(comments)? {
                let (handled, took) = timed(async { Ok(handler.handle(&event, deadline()).await) }).await?;
                expect_processed(&handled.response)?;
                ours += took;
            }
        }
        Ok((ours, time_to_add(&mut redis, &of_bare).await?))
    });
    let rounds = rounds.await?;
    redis.stop().await;
    Ok(rounds)
}

/// The time that a bare pipeline takes to add the comments to their base sets.
pub(crate) async fn time_to_add(redis: &mut Redis, comments: &[Comment]) -> anyhow::Result<Duration> {
    let mut took = Duration::ZERO;
    for comments in comments.chunks(EVENT_RECORDS) {
        let members = base_set_members(&redis.config, comments);
        took += timed(add_members(redis, &members)).await?.1;
    }
    Ok(took)
}

type Member = (String, i64, String);

/// The members that comments have in the page index, under other keys of the same length.
fn base_set_members(config: &RedisIndexConfig, comments: &[Comment]) -> Vec<Member> {
    let members = |comment: &Comment| {
        let (score, member) = (comment.created_at.epoch_ms(), comment.id.to_string());
        let key = |set| config.key_name(&set).replacen("pagemark", "barebare", 1);
        comment.placement().base_sets().map(|set| (key(set), score, member.clone()))
    };
    comments.iter().flat_map(members).collect()
}

async fn add_members(redis: &mut Redis, members: &[Member]) -> anyhow::Result<()> {
    let mut pipeline = redis::pipe();
    for (key, score, member) in members {
        pipeline.cmd("ZADD").arg(key).arg(score).arg(member).ignore();
    }
    Ok(pipeline.query_async(&mut redis.connection).await?)
}

fn drawn(count: u32) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Comment>>> {
    let mut workload = Comments::new(3)?;
    Ok((0..count).map(move |_| workload.draw()))
}

async fn bytes_in_four_sets(comments: u32) -> anyhow::Result<f64> {
    bytes_per_comment(drawn(comments)?, async |redis, comments| {
        let edits = comments.iter().flat_map(insertion).collect::<Vec<_>>();
        Ok(redis.index.apply(&edits).await?)
    })
    .await
}

pub(crate) fn insertion(comment: &Comment) -> Vec<IndexEdit> {
    index_edits(&comment.id, Some((&comment.placement(), comment.created_at)), &[])
}

/// The memory per comment with one sorted set for each of its filter keys.
pub(crate) async fn bytes_in_32_sets(comments: impl Iterator<Item = anyhow::Result<Comment>>) -> anyhow::Result<f64> {
    bytes_per_comment(comments, add_to_32_sets).await
}

pub(crate) async fn add_to_32_sets(redis: &mut Redis, comments: &[Comment]) -> anyhow::Result<()> {
    let members = |comment: &Comment| {
        let (score, member) = (comment.created_at.epoch_ms(), comment.id.to_string());
        let keys = filter_keys(comment).into_iter().map(|key| filter_set(&key));
        keys.map(|key| (key, score, member.clone())).collect::<Vec<_>>()
    };
    add_members(redis, &comments.iter().flat_map(members).collect::<Vec<_>>()).await
}

/// The name of a filter key's set among the 32.
pub(crate) fn filter_set(key: &FilterKey) -> String {
    format!("pagemark:{key}")
}

/// The memory per comment of a new Redis with these comments, which `fill` adds chunk by chunk.
async fn bytes_per_comment(
    comments: impl Iterator<Item = anyhow::Result<Comment>>,
    fill: impl AsyncFn(&mut Redis, &[Comment]) -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let mut redis = Redis::start().await?;
    let before = redis.memory_bytes().await?;
    let mut count = 0;
    for chunk in &comments.chunks(EVENT_RECORDS) {
        let chunk = chunk.collect::<anyhow::Result<Vec<_>>>()?;
        fill(&mut redis, &chunk).await?;
        count += chunk.len() as u64;
    }
    let after = redis.memory_bytes().await?;
    redis.stop().await;
    Ok(as_f64(after.saturating_sub(before)) / as_f64(count.max(1)))
}
