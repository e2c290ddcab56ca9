//! `lag`: the time from the 201 of a POST until the comment is visible under every matching filter.
//!
//! The whole local stack runs, with its page index in Redis as in a deployment. First, writers post
//! as fast as they can: the rate at which comments become visible is the maximum. Then single
//! comments are watched: alone, and beside posts at an even rate of half the maximum.
//!
//! A comment has its **duplicates** when a Query finds its 32 items in the table. It has its
//! **ranks** when the page index has it in its two base sets. The figure is the end of the first
//! check that found it. So it is too high, never too low, by at most the pause and two checks.
//!
//! At half the maximum rate, **readers** also ask for the first page under three ratings of the
//! product that gets most comments. A page is wrong if it lacks a comment whose rank was there
//! before. Beside Pagemark's page stands one Query from the first rank on: what a page would show
//! without the check of the duplicates.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use aws_sdk_dynamodb::types::{AttributeValue, Select};
use futures_util::{TryStreamExt, stream};
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, body::Bytes};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use local_stack::{settings::StackSettings, stack::Stack};
use model::{
    Cd, Comment, CommentId, Filter, Order, ProductId, RankEntry, RatingSet, Timestamp,
    item::comment_pk,
};
use page_index::Sought;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rand::RngExt;
use serde_json::{Value, json};
use table::{PageQuery, Table};

use crate::{
    http::{self, address_in},
    listing::{ExpectedListing, PAGE_SIZE, PRODUCT},
    measure::Latencies,
    report::{BenchReport, PAGEMARK, Plot, PlotLine, count},
    stores::{Redis, ranked},
    workload::Comments,
};

const TOKEN: &str = "the-token-of-bench";
/// Items of a comment, one for each filter key.
const FILTERS: usize = 32;
const WRITERS: usize = 16;
/// Pages read for each watched comment.
const PAGES: u32 = 10;
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// A comment that is not visible by then never will be.
const VISIBLE_WITHIN: Duration = Duration::from_secs(60);
/// Longer than the mappings' pause when they have nothing to do.
const IDLE_PAUSE_MAX_MS: u64 = 60;

/// `comments` are posted to find the maximum rate. In each of the other parts, `watched` are.
pub(crate) async fn measure(
    report: &mut BenchReport,
    comments: u32,
    watched: u32,
) -> anyhow::Result<()> {
    let redis = Redis::start().await?;
    let settings = StackSettings::ephemeral(Some(TOKEN.parse().map_err(anyhow::Error::msg)?));
    let mut stack = Stack::start(StackSettings {
        redis_url: Some(redis.url.clone()),
        ..settings
    })
    .await?;
    stack.wait_until_index_ready().await?;
    let watcher = Watcher::new(&stack)?;
    let mut workload = Comments::new(3)?;
    watcher.post_all(workload.take(watched)?).await?;
    stack.wait_until_caught_up().await;

    report.step(&format!(
        "posting {} comments as fast as they are taken",
        count(comments)
    ));
    let began = Instant::now();
    watcher.post_all(workload.take(comments)?).await?;
    stack.wait_until_caught_up().await;
    let maximum = f64::from(comments) / began.elapsed().as_secs_f64();
    report.add("maximum rate, visible", maximum, "comments/s");

    report.step(&format!("watching {watched} comments, one at a time"));
    let idle = add(report, "idle", &watcher.watch_some(watched, 4).await?);
    stack.wait_until_caught_up().await;
    report.step(&format!(
        "watching {watched} comments at half the maximum rate"
    ));
    let watching = async {
        anyhow::Ok((
            watcher.watch_some(watched, 5).await?,
            watcher.read_some(PAGES * watched).await?,
        ))
    };
    let (lags, wrong) = tokio::select! {
        seen = watching => seen?,
        failed = watcher.post_evenly(maximum / 2.0) => return failed,
    };
    let busy = add(report, "half the maximum", &lags);
    report.plot(Plot::new(
        "lag",
        ["visible under every filter, % of all", "ms after the 201"],
        vec![idle, busy],
    ))?;
    for (pages, wrong) in [PAGEMARK, "by ranks and duplicates, without a check"]
        .into_iter()
        .zip(wrong)
    {
        report.add(
            format!("half the maximum: wrong pages of a thousand: {pages}"),
            wrong,
            "pages",
        );
    }
    stack.wait_until_caught_up().await;
    ensure!(
        stack.quarantined() == 0,
        "the handlers gave up some comments"
    );
    stack.stop().await;
    Ok(())
}

fn add(report: &mut BenchReport, when: &str, lags: &Latencies) -> PlotLine {
    report.add(
        format!("{when}: both, p50"),
        percentile_ms(lags, 50.0),
        "ms",
    );
    report.add(
        format!("{when}: both, most"),
        percentile_ms(lags, 100.0),
        "ms",
    );
    let mut points = vec![(0.0, 0.0)];
    for part in 1..=20 {
        let percent = f64::from(part) * 5.0;
        points.push((percent, percentile_ms(lags, percent)));
    }
    PlotLine::new(format!("{PAGEMARK}, {when}"), points)
}

fn percentile_ms(lags: &Latencies, percent: f64) -> f64 {
    lags.percentile_us(percent / 100.0) / 1e3
}

struct Posted {
    at: Instant,
    id: CommentId,
    entry: RankEntry,
}

struct Watcher {
    http: Client<HttpConnector, Full<Bytes>>,
    api_url: String,
    table: Table,
    index: page_index::PageIndex,
}

impl Watcher {
    fn new(stack: &Stack) -> anyhow::Result<Self> {
        Ok(Self {
            // Shorter than the time after which the API closes idle connections.
            http: Client::builder(TokioExecutor::new())
                .pool_idle_timeout(Duration::from_secs(2))
                .build_http(),
            api_url: stack.api_url().context("the stack has no API")?,
            table: stack.table().clone(),
            index: stack.index().clone(),
        })
    }

    async fn post_all(&self, comments: Vec<Comment>) -> anyhow::Result<()> {
        let comments = stream::iter(comments.into_iter().map(Ok));
        comments
            .try_for_each_concurrent(WRITERS, async |comment| self.post(&comment).await.map(drop))
            .await
    }

    async fn post(&self, comment: &Comment) -> anyhow::Result<Posted> {
        let body = json!({
            "language": comment.language.as_str(),
            "rating": comment.rating.get(),
            "title": comment.text.title,
            "body": comment.text.body,
            "author": comment.text.author,
        });
        let product = utf8_percent_encode(comment.product.as_str(), NON_ALPHANUMERIC);
        let request = Request::post(format!(
            "{}/api/v1/products/{product}/comments",
            self.api_url
        ))
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))?;
        let answer = self.http.request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        let at = Instant::now();
        ensure!(
            status == StatusCode::CREATED,
            "a POST was answered {status}: {}",
            String::from_utf8_lossy(&body)
        );
        let created: Value = serde_json::from_slice(&body)?;
        let id = CommentId::parse(
            created
                .get("id")
                .and_then(Value::as_str)
                .context("the comment has an id")?,
        )?;
        let created_at = created.get("created_at").and_then(Value::as_str);
        let created_at = Timestamp::parse(created_at.context("the comment has a time")?)?;
        Ok(Posted {
            at,
            id,
            entry: RankEntry {
                placement: comment.placement(),
                created_at,
            },
        })
    }

    /// How long it takes until both duplicates and ranks are seen.
    async fn watch(&self, posted: Posted) -> anyhow::Result<Duration> {
        let mut has_duplicates = false;
        let mut has_ranks = false;
        loop {
            has_duplicates |= self.count_items(&posted.id).await? == FILTERS;
            has_ranks |= self.has_ranks(&posted).await?;
            let elapsed = posted.at.elapsed();
            if has_duplicates && has_ranks {
                return Ok(elapsed);
            }
            ensure!(
                elapsed < VISIBLE_WITHIN,
                "{} is not there: {has_duplicates}, {has_ranks}",
                posted.id
            );
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    /// Posts and watches comments, one after the other.
    async fn watch_some(&self, count: u32, seed: u64) -> anyhow::Result<Latencies> {
        let mut lags = Latencies::default();
        for comment in Comments::new(seed)?.take(count)? {
            tokio::time::sleep(Duration::from_millis(
                rand::rng().random_range(0..IDLE_PAUSE_MAX_MS),
            ))
            .await;
            lags.record(self.watch(self.post(&comment).await?).await?);
        }
        Ok(lags)
    }

    /// Reads first pages. How many of a thousand are wrong: as Pagemark shows them, then without
    /// its check.
    async fn read_some(&self, count: u32) -> anyhow::Result<[f64; 2]> {
        let filter = Filter::new(None, Some(RatingSet::parse("1.4.5")?));
        let listing = ExpectedListing::new(&ProductId::parse(PRODUCT)?, filter);
        let address = address_in(&self.api_url)?;
        let table_id = self.table.describe().await?.id;
        let mut wrong_shown = 0;
        let mut wrong_unchecked = 0;
        for _ in 0..count {
            let named = ranked(&self.index, &table_id, &listing.key, 0, PAGE_SIZE)
                .await?
                .comments;
            let (_, page) = http::get(address, &listing.json_path(1)).await?;
            let page: Value = serde_json::from_slice(&page)?;
            let shown = page
                .get("comments")
                .and_then(Value::as_array)
                .context("a page of comments")?;
            let shown: Vec<String> = shown.iter().filter_map(cd_of).collect();
            wrong_shown += u32::from(lacks(&shown, &named));
            let query = PageQuery {
                key: listing.key.clone(),
                order: Order::Newest,
                limit: u16::try_from(PAGE_SIZE)?,
                start: named.first().and_then(Cd::just_after),
            };
            let unchecked = self.table.page(&query).await?.comments;
            let unchecked: Vec<String> = unchecked
                .iter()
                .map(|comment| comment.cd().to_string())
                .collect();
            wrong_unchecked += u32::from(lacks(&unchecked, &named));
        }
        Ok([wrong_shown, wrong_unchecked].map(|wrong| 1e3 * f64::from(wrong) / f64::from(count)))
    }

    /// Posts at an even rate until dropped.
    async fn post_evenly(&self, rate: f64) -> anyhow::Result<()> {
        let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
        let mut workload = Comments::new(6)?;
        loop {
            ticks.tick().await;
            self.post(&workload.draw()?).await?;
        }
    }

    async fn count_items(&self, id: &CommentId) -> anyhow::Result<usize> {
        let query = self
            .table
            .client()
            .query()
            .table_name(self.table.name())
            .select(Select::Count)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S(comment_pk(id)));
        Ok(usize::try_from(query.send().await?.count)?)
    }

    async fn has_ranks(&self, posted: &Posted) -> anyhow::Result<bool> {
        let sought = Sought {
            product: &posted.entry.placement.product,
            id: &posted.id,
            times: Some([posted.entry.created_at].into()),
        };
        let entries = self.index.entries(&[sought]).await?;
        Ok(entries.concat().contains(&posted.entry))
    }
}

/// The creation time and id of a comment in JSON, as [`Cd`] writes them.
fn cd_of(comment: &Value) -> Option<String> {
    let created_at = comment.get("created_at")?.as_str()?;
    let id = comment.get("id")?.as_str()?;
    Some(format!("{created_at}#{id}"))
}

/// Whether a page lacks a comment that the ranks name before its end.
fn lacks(shown: &[String], named: &[Cd]) -> bool {
    let mut named = named.iter().map(Cd::to_string);
    named.any(|named| Some(&named) >= shown.last() && !shown.contains(&named))
}
