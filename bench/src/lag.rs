//! `lag`: the time from the 201 of a POST until the comment is visible under every matching filter.
//!
//! The whole local stack runs. Comments arrive through the API over HTTP, on connections that stay open. The
//! measurement has three parts:
//!
//! 1. **Maximum rate.** Writers post one comment after the other. The rate that counts is the rate at which comments
//!    become visible: an API that acknowledges faster than the fan-out follows causes unbounded lag.
//! 2. **Idle.** One comment at a time. The next one is posted after a random pause once the previous one is visible, so
//!    that posts do not fall into step with the mappings' polls.
//! 3. **Half the maximum.** Posts at an even rate. Every n-th post is watched.
//!
//! A comment is visible in the table when a Query of the index finds it under each of its 32 filter keys. It is visible
//! in the page index when it has a rank in its four base sets. Both are checked repeatedly, with a pause between two
//! checks. 32 queries are slow for a check. So the first check only counts the comment's items in the table. Once it
//! finds 32, every filter key is queried until it shows the comment. So there are two figures for the table: when all
//! items were **written**, and when the comment was **seen** under the last of its filter keys. The engine writes an
//! item and its copy in the index at once, so here the second figure differs by the time of the 32 queries.
//!
//! The visible state began between the start of the last check that missed it and the end of the first that found it.
//! The figures are that **end**. So they are too high, never too low, by at most the `uncertainty` reported beside
//! them. The checks also cost the engine time, which only adds to the lag.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use aws_sdk_dynamodb::types::{AttributeValue, Select};
use futures_util::{TryStreamExt, stream};
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, body::Bytes};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use local_stack::{
    index_place::IndexPlace,
    stack::{Stack, StackSettings},
};
use model::{BaseSet, Cd, Comment, CommentId, FilterKey, Timestamp, item::comment_pk};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rand::RngExt;
use serde_json::{Value, json};
use table::{GSI, Table};
use tokio::task::JoinSet;

use crate::{
    report::{Figure, Report, count},
    statistics::{Latencies, as_f64},
    workload::{Comments, Redis, filter_keys},
};

const TOKEN: &str = "bench";
/// Parallel posts while finding the maximum rate. More would not make the engine faster, which has one connection.
const WRITERS: usize = 16;
/// Comments posted before the measurement, so that connections are open and caches warm.
const WARM_UP: u32 = 100;
/// Comments watched in each part: too few for a 99th percentile.
const WATCHED: u32 = 100;
/// Comments watched per second under load: few, because each takes at least 34 look-ups.
const WATCHED_PER_SECOND: f64 = 5.0;
/// Pause between two checks of a comment that is not visible yet.
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// Time limit; a comment that is not visible by then never will be.
const VISIBLE_WITHIN: Duration = Duration::from_secs(60);
/// Longer than the mappings' pause when they have nothing to do.
const IDLE_PAUSE_MAX_MS: u64 = 60;

/// Measures. `comments` comments are posted to find the maximum rate.
pub(crate) async fn measure(report: &mut Report, comments: u32) -> anyhow::Result<()> {
    report.step("starting the local stack");
    // A deployment has its page index in Redis.
    let settings = StackSettings::ephemeral(TOKEN.parse().map_err(anyhow::Error::msg)?);
    let redis = Redis::start().await?;
    let page_index = IndexPlace::RedisAt(redis.url());
    let mut stack = Stack::start(StackSettings { page_index, ..settings }).await?;
    stack.wait_until_index_ready().await?;
    let watcher = Arc::new(Watcher::new(&stack).await?);
    let mut workload = Comments::new(3)?;
    let posts = |comments: Vec<Comment>| {
        let watcher = watcher.clone();
        stream::iter(comments.into_iter().map(Ok)).try_for_each_concurrent(WRITERS, move |comment| {
            let watcher = watcher.clone();
            async move { watcher.post(&comment).await.map(drop) }
        })
    };
    posts(workload.take(WARM_UP)?).await?;
    stack.settle().await;

    report.step(&format!("posting {} comments as fast as they are taken", count(comments)));
    let began = Instant::now();
    posts(workload.take(comments)?).await?;
    let acknowledged_s = began.elapsed().as_secs_f64();
    stack.settle().await;
    let visible_s = began.elapsed().as_secs_f64();
    let maximum = f64::from(comments) / visible_s;
    report.add(
        "lag: maximum rate",
        &format!("{} comments by {WRITERS} writers", count(comments)),
        &[("acknowledged", f64::from(comments) / acknowledged_s, "comments/s"), ("visible", maximum, "comments/s")],
    );

    report.step(&format!("watching {WATCHED} comments, one at a time"));
    let mut idle = Vec::new();
    for _ in 0..WATCHED {
        let pause = Duration::from_millis(rand::rng().random_range(0..IDLE_PAUSE_MAX_MS));
        tokio::time::sleep(pause).await;
        let posted = watcher.post(&workload.draw()?).await?;
        idle.push(watcher.watch(posted).await?);
    }
    add(report, "lag: idle", "one comment at a time", &idle, &[])?;

    stack.settle().await;
    report.step(&format!("watching {WATCHED} comments at half the maximum rate"));
    let (loaded, rate) = under_load(&watcher, &mut workload, maximum / 2.0).await?;
    let began = Instant::now();
    stack.settle().await;
    let behind_s = began.elapsed().as_secs_f64();
    ensure!(stack.quarantined() == 0, "the handlers gave up some comments");
    add(
        report,
        "lag: half the maximum",
        &format!("posts at {rate:.1}/s, every one of {} watched", every(maximum / 2.0)),
        &loaded,
        &[("posted", rate, "comments/s"), ("until settled afterwards", behind_s, "s")],
    )?;
    stack.stop().await;
    Ok(())
}

/// One in this many posts is watched.
fn every(rate: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number of posts")]
    let every = (rate / WATCHED_PER_SECOND).round().max(1.0) as u32;
    every
}

/// Posts at an even rate until enough comments were watched. Returns their lags and the achieved rate.
async fn under_load(watcher: &Arc<Watcher>, workload: &mut Comments, rate: f64) -> anyhow::Result<(Vec<Lag>, f64)> {
    let every = every(rate);
    let posts = WATCHED * every;
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
    let (mut tasks, mut lags) = (JoinSet::new(), Vec::new());
    let began = Instant::now();
    for number in 0..posts {
        ticks.tick().await;
        let (watcher, comment) = (watcher.clone(), workload.draw()?);
        tasks.spawn(async move {
            let posted = watcher.post(&comment).await?;
            if number % every == 0 { watcher.watch(posted).await.map(Some) } else { Ok(None) }
        });
        // Collect finished tasks immediately, so that a failure ends the measurement and nothing piles up.
        while let Some(done) = tasks.try_join_next() {
            lags.extend(done??);
        }
    }
    let took_s = began.elapsed().as_secs_f64();
    while let Some(done) = tasks.join_next().await {
        lags.extend(done??);
    }
    Ok((lags, f64::from(posts) / took_s))
}

/// When something became visible after the answer. It happened between `missed`, the start of the last check that
/// missed it, and `seen`, the end of the first check that found it.
#[derive(Debug, Clone, Copy)]
struct Seen {
    missed: Duration,
    seen: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Lag {
    post: Duration,
    written: Seen,
    /// When the last of all filter keys showed the comment.
    seen: Duration,
    ranks: Seen,
    looks: u32,
}

/// A reported part of a lag, and its name.
type Part = (&'static str, fn(&Lag) -> Duration);

const PARTS: [Part; 7] = [
    ("duplicates written", |lag| lag.written.seen),
    ("ranks visible", |lag| lag.ranks.seen),
    ("both", |lag| lag.written.seen.max(lag.ranks.seen)),
    ("both, seen under every filter key", |lag| lag.seen.max(lag.ranks.seen)),
    ("uncertainty of duplicates", |lag| lag.written.seen - lag.written.missed),
    ("uncertainty of ranks", |lag| lag.ranks.seen - lag.ranks.missed),
    ("the POST itself", |lag| lag.post),
];

fn add(report: &mut Report, name: &str, about: &str, lags: &[Lag], more: &[Figure]) -> anyhow::Result<()> {
    let watched = as_f64(lags.len() as u64);
    let mut figures = Vec::new();
    for (what, part) in PARTS {
        let mut latencies = Latencies::new()?;
        lags.iter().for_each(|lag| latencies.record(part(lag)));
        figures.push((format!("{what}, p50"), latencies.p50_us() / 1e3, "ms"));
        figures.push((format!("{what}, p90"), latencies.percentile_us(0.9) / 1e3, "ms"));
        figures.push((format!("{what}, most"), latencies.max_us() / 1e3, "ms"));
    }
    let looks: u64 = lags.iter().map(|lag| u64::from(lag.looks)).sum();
    figures.push(("look-ups a comment".to_owned(), as_f64(looks) / watched, ""));
    figures.push(("comments watched".to_owned(), watched, ""));
    figures.extend(more.iter().map(|(what, figure, unit)| ((*what).to_owned(), *figure, *unit)));
    report.add(name, about, &figures);
    Ok(())
}

struct Posted {
    at: Instant,
    post: Duration,
    keys: Vec<String>,
    cd: String,
    id: CommentId,
    base_sets: [BaseSet; 4],
}

impl Posted {
    /// Checks repeatedly until something is visible. Also returns the number of checks.
    async fn first_seen<Check: Future<Output = anyhow::Result<bool>>>(
        &self,
        what: &str,
        is_visible: impl Fn() -> Check,
    ) -> anyhow::Result<(Seen, u32)> {
        let (mut missed, mut looks) = (Duration::ZERO, 1);
        loop {
            let began = self.at.elapsed();
            if is_visible().await? {
                return Ok((Seen { missed, seen: self.at.elapsed() }, looks));
            }
            ensure!(began < VISIBLE_WITHIN, "{}: {what} cannot be seen", self.id);
            (missed, looks) = (began, looks + 1);
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }
}

struct Watcher {
    http: Client<HttpConnector, Full<Bytes>>,
    api_url: String,
    table: Table,
    index: page_index::PageIndex,
}

impl Watcher {
    async fn new(stack: &Stack) -> anyhow::Result<Self> {
        Ok(Self {
            // Shorter than the time after which the API closes idle connections.
            http: Client::builder(TokioExecutor::new()).pool_idle_timeout(Duration::from_secs(2)).build_http(),
            api_url: stack.api_url().context("the stack has no API")?,
            table: stack.table().clone(),
            index: stack.index().clone(),
        })
    }

    /// Posts the comment's product, language, rating and text. The API sets id and time.
    async fn post(&self, comment: &Comment) -> anyhow::Result<Posted> {
        let body = json!({
            "language": comment.language.as_str(),
            "rating": comment.rating.get(),
            "title": comment.text.title,
            "body": comment.text.body,
            "author": comment.text.author,
        });
        let product = utf8_percent_encode(comment.product.as_str(), NON_ALPHANUMERIC);
        let request = Request::post(format!("{}/api/v1/products/{product}/comments", self.api_url))
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))?;
        let began = Instant::now();
        let answer = self.http.request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        let at = Instant::now();
        if status != StatusCode::CREATED {
            bail!("a POST was answered {status}: {}", String::from_utf8_lossy(&body));
        }
        let created: Value = serde_json::from_slice(&body)?;
        let text = |name: &str| created.get(name).and_then(Value::as_str).context("the comment has an id and a time");
        let id = CommentId::parse(text("id")?)?;
        let cd = Cd { created_at: Timestamp::parse(text("created_at")?)?, id: id.clone() }.to_string();
        let keys = filter_keys(comment).iter().map(FilterKey::to_string).collect();
        let base_sets = comment.placement().base_sets();
        Ok(Posted { at, post: at - began, keys, cd, id, base_sets })
    }

    async fn watch(&self, posted: Posted) -> anyhow::Result<Lag> {
        let ((written, seen, queries), (ranks, scores)) =
            tokio::try_join!(self.until_seen(&posted), posted.first_seen("ranks", || self.has_ranks(&posted)))?;
        Ok(Lag { post: posted.post, written, seen, ranks, looks: queries + scores })
    }

    /// Counts the comment's items until all exist, then checks each filter key.
    async fn until_seen(&self, posted: &Posted) -> anyhow::Result<(Seen, Duration, u32)> {
        let items = posted.keys.len();
        let (written, mut looks) =
            posted.first_seen("all items", || async { Ok(self.count_items(&posted.id).await? == items) }).await?;
        for key in &posted.keys {
            looks += posted.first_seen(key, || self.is_in_index(key, &posted.cd)).await?.1;
        }
        Ok((written, posted.at.elapsed(), looks))
    }

    async fn count_items(&self, id: &CommentId) -> anyhow::Result<usize> {
        let query = self.table.client().query().table_name(self.table.name()).select(Select::Count);
        let query = query.key_condition_expression("pk = :pk");
        let query = query.expression_attribute_values(":pk", AttributeValue::S(comment_pk(id)));
        Ok(usize::try_from(query.send().await?.count)?)
    }

    async fn is_in_index(&self, key: &str, cd: &str) -> anyhow::Result<bool> {
        is_in_index(self.table.client(), self.table.name(), GSI, [("sk", key), ("cd", cd)]).await
    }

    async fn has_ranks(&self, posted: &Posted) -> anyhow::Result<bool> {
        has_ranks(&self.index, &posted.id, &posted.base_sets).await
    }
}

/// Whether an index of a table shows the item with these values of the index's two keys.
pub(crate) async fn is_in_index(
    client: &aws_sdk_dynamodb::Client,
    table: &str,
    index: &str,
    [(partition, value), (sort, place)]: [(&str, &str); 2],
) -> anyhow::Result<bool> {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let query = client.query().table_name(table).index_name(index);
    let query = query.key_condition_expression(format!("{partition} = :value AND {sort} = :place"));
    let query =
        query.expression_attribute_values(":value", text(value)).expression_attribute_values(":place", text(place));
    Ok(query.limit(1).send().await?.count == 1)
}

/// Whether a comment has a rank in its four base sets.
pub(crate) async fn has_ranks(
    index: &page_index::PageIndex,
    id: &CommentId,
    base_sets: &[BaseSet; 4],
) -> anyhow::Result<bool> {
    let asked: Vec<_> = base_sets.iter().map(|set| (set, vec![id.as_str()])).collect();
    let scores = index.scores(&asked).await?;
    Ok(scores.iter().flatten().all(Option::is_some))
}
