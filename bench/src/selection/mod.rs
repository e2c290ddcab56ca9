//! `selection`: finds the start of a page in the page index alone.
//!
//! It measures the real call, `PageIndex::page_start`, for one product whose partition is ready, with pages of 20,
//! newest first, and filters of one to four ratings. The figure is the **server's** time. Before each call the
//! statistics are reset (`CONFIG RESETSTAT`). After it, `INFO commandstats` gives the microseconds of that one
//! `EVALSHA` and the number of commands inside. `LATENCY HISTOGRAM` would need no reset, but its buckets double in
//! width, so it could not check a limit of 200 between 131 and 262. The time is wall-clock time: it includes moments in
//! which another process takes the server's core.
//!
//! Evenly spread: random times over two years, random ratings (14, 6, 9, 21 and 50 %). The adversarial shapes, at the
//! full number of comments:
//! - *one millisecond*: all comments have the same time, so the search goes by member;
//! - *bursts*: a thousand seconds in two years hold all comments, each burst of one rating only;
//! - *disjoint*: each rating has a separate part of the two years.
//!
//! `one_set` compares the call with one sorted set for each filter.

mod one_set;

use std::time::Duration;

use anyhow::{Context, bail};
use model::{BaseSet, Filter, FilterKey, ProductId, Rating, RatingSet, Revision, Timestamp};
use rand::{
    RngExt, SeedableRng,
    distr::{Distribution, weighted::WeightedIndex},
    rngs::StdRng,
};
use redis::aio::MultiplexedConnection;

use crate::{
    dataset::PRODUCT,
    filled_stores::page_start,
    listing::PAGE_SIZE,
    report::{Limit, Plot, Report, Row, Series, Table, count, row},
    statistics::{Latencies, as_f64, median, percentile},
    workload::{FIRST_MS, RATING_WEIGHTS, Redis, SPAN_MS},
};

/// Calls for random pages: enough that 20 of them lie beyond the 99th percentile.
const RANDOM_PAGES: u32 = 2_000;
const QUICK_PAGES: u32 = 500;
const SAME_PAGE: u32 = 100;
/// Members of one `ZADD` while filling.
const ZADD_MEMBERS: usize = 1_000;
const BURSTS: usize = 1_000;
const LIMIT_FROM: u32 = 1_000_000;
/// The command that the page index sends.
const SCRIPT: &str = "evalsha";
/// The table id for which the partitions are marked.
pub(crate) const TABLE_ID: &str = "bench";
/// The filters, by their number of ratings: rare and frequent ones.
pub(crate) const FILTERS: [&[u64]; 4] = [&[5], &[1, 5], &[1, 3, 5], &[1, 2, 4, 5]];

/// The distribution of the comments' times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Shape {
    Even,
    #[strum(to_string = "one millisecond")]
    OneMillisecond,
    Bursts,
    Disjoint,
}

pub(crate) struct Costs {
    pub(crate) times: Latencies,
    commands: Vec<f64>,
}

/// Measures with up to `comments_max` comments.
pub(crate) async fn measure(report: &mut Report, comments_max: u32, is_quick: bool) -> anyhow::Result<()> {
    let random_pages = if is_quick { QUICK_PAGES } else { RANDOM_PAGES };
    let mut redis = Redis::start().await?;
    let mut rows = Vec::new();
    let mut series =
        FILTERS.map(|ratings| Series { name: format!("{} of 5 ratings", ratings.len()), points: Vec::new() });
    // Of random pages at the full number of comments.
    let mut p99s_us = Vec::new();
    let smaller = [10_000, 100_000].into_iter().filter(|comments| *comments < comments_max);
    for comments in smaller.chain([comments_max]) {
        report.step(&format!("{} comments, evenly spread", count(comments)));
        fill(&mut redis, Shape::Even, comments).await?;
        for (ratings, series) in FILTERS.into_iter().zip(&mut series) {
            let mut subject = Subject::new(&redis, ratings).await?;
            let last = subject.pages;
            for (place, page) in [("first", 1), ("middle", last.div_ceil(2)), ("last", last)] {
                let costs = subject.costs(&mut redis, Some(page), SAME_PAGE).await?;
                rows.push(costs.row(Shape::Even, comments, ratings, place));
            }
            let costs = subject.costs(&mut redis, None, random_pages).await?;
            rows.push(costs.row(Shape::Even, comments, ratings, "random"));
            series.points.push((f64::from(comments), costs.times.p50_us()));
            if comments == comments_max {
                p99s_us.push(costs.times.p99_us());
            }
        }
    }
    for shape in [Shape::OneMillisecond, Shape::Bursts, Shape::Disjoint] {
        report.step(&format!("{} comments: {shape}", count(comments_max)));
        fill(&mut redis, shape, comments_max).await?;
        for ratings in FILTERS.into_iter().skip(1) {
            let costs = Subject::new(&redis, ratings).await?.costs(&mut redis, None, random_pages / 4).await?;
            rows.push(costs.row(shape, comments_max, ratings, "random"));
        }
    }
    redis.stop().await;
    let about = "Server time of one call, and commands inside it; pages of 20, newest first.";
    report.table(Table::new("selection", about, rows));
    let axes = ["comments of the product", "server time p50, us"];
    report.plot(Plot::new("selection", "Finding where a random page starts", axes, series));
    one_set::measure(report, comments_max, random_pages).await?;
    let limit = Limit::AtMost(200.0).only_if(comments_max >= LIMIT_FROM);
    report.ratio_noted(
        "selection_p99_us",
        percentile(&p99s_us, 1.0),
        limit,
        "at most 200 at 1,000,000 comments, random pages",
    );
    Ok(())
}

impl Costs {
    fn row(&self, shape: Shape, comments: u32, ratings: &[u64], place: &str) -> Row {
        row![
            ("spread", shape.to_string()),
            ("comments", u64::from(comments)),
            ("ratings", ratings.len()),
            ("page", place),
            ("p50, us", self.times.p50_us().round()),
            ("p99, us", self.times.p99_us().round()),
            ("commands, p50", median(&self.commands)),
            ("commands, most", percentile(&self.commands, 1.0)),
        ]
    }
}

/// `ZADD`s of the sets' members: scores and ids.
pub(crate) fn zadd(sets: impl IntoIterator<Item = (String, Vec<(i64, String)>)>) -> redis::Pipeline {
    let mut pipeline = redis::pipe();
    for (key, members) in sets {
        for members in members.chunks(ZADD_MEMBERS) {
            pipeline.zadd_multiple(&key, members).ignore();
        }
    }
    pipeline
}

/// Empties the page index, puts a product's comments into its sets by rating, and marks it ready.
pub(crate) async fn fill(redis: &mut Redis, shape: Shape, comments: u32) -> anyhow::Result<()> {
    let rebuild = redis.index.begin_rebuild().await?;
    let mut rng = StdRng::seed_from_u64(4);
    let weights = WeightedIndex::new(RATING_WEIGHTS)?;
    let bursts: Vec<(i64, usize)> =
        (0..BURSTS).map(|_| (rng.random_range(0..SPAN_MS), weights.sample(&mut rng))).collect();
    let mut members: [Vec<(i64, String)>; 5] = Default::default();
    for _ in 0..comments {
        let part_ms = SPAN_MS / 5;
        let (offset_ms, rating) = match shape {
            Shape::Even => (rng.random_range(0..SPAN_MS), weights.sample(&mut rng)),
            Shape::OneMillisecond => (0, weights.sample(&mut rng)),
            Shape::Bursts => {
                let (burst, rating) = *bursts.get(rng.random_range(0..BURSTS)).context("a burst")?;
                (burst + rng.random_range(0..1_000), rating)
            }
            Shape::Disjoint => {
                let rating = weights.sample(&mut rng);
                (i64::try_from(rating)? * part_ms + rng.random_range(0..part_ms), rating)
            }
        };
        let score = FIRST_MS + offset_ms;
        let id = Revision::after(None, Timestamp::from_epoch_ms(score)?, rng.random());
        members.get_mut(rating).context("a rating")?.push((score, id.to_string()));
    }
    let product = ProductId::parse(PRODUCT)?;
    let key =
        |rating| redis.config.key_name(&BaseSet { product: product.clone(), language: None, rating: Some(rating) });
    let sets = Rating::ALL.map(key).into_iter().zip(members);
    zadd(sets).exec_async(&mut redis.connection).await?;
    redis.index.finish_rebuild(&rebuild, TABLE_ID, process::now()).await?;
    Ok(())
}

/// The product's comments with these ratings, in any language.
pub(crate) fn key_of(ratings: &[u64]) -> anyhow::Result<FilterKey> {
    let ratings: Vec<Rating> = ratings.iter().map(|rating| Rating::new(*rating)).collect::<Result<_, _>>()?;
    Ok(FilterKey { product: ProductId::parse(PRODUCT)?, filter: Filter::new(None, RatingSet::of(ratings)) })
}

/// Pages of one filter, counted from 1.
pub(crate) struct Subject {
    key: FilterKey,
    pages: u64,
    rng: StdRng,
}

impl Subject {
    pub(crate) async fn new(redis: &Redis, ratings: &[u64]) -> anyhow::Result<Self> {
        let key = key_of(ratings)?;
        let total = page_start(&redis.index, TABLE_ID, &key, 1).await?.total;
        Ok(Self { key, pages: total.div_ceil(PAGE_SIZE as u64).max(1), rng: StdRng::seed_from_u64(5) })
    }

    /// Requests one page repeatedly, or random pages, and reads the cost of each call.
    pub(crate) async fn costs(&mut self, redis: &mut Redis, page: Option<u64>, calls: u32) -> anyhow::Result<Costs> {
        let mut costs = Costs { times: Latencies::new()?, commands: Vec::new() };
        for _ in 0..calls {
            let page = page.unwrap_or_else(|| self.rng.random_range(1..=self.pages));
            let call = page_start(&redis.index, TABLE_ID, &self.key, page);
            let (_, (time, commands)) = server_cost(&redis.connection, SCRIPT, call).await?;
            costs.times.record(time);
            costs.commands.push(commands);
        }
        Ok(costs)
    }
}

/// Makes a call that sends this command once. Also returns the server's time for it, and the number of commands inside.
async fn server_cost<T>(
    connection: &MultiplexedConnection,
    command: &str,
    call: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<(T, (Duration, f64))> {
    let mut connection = connection.clone();
    redis::cmd("CONFIG").arg("RESETSTAT").exec_async(&mut connection).await?;
    let result = call.await?;
    let stats: String = redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await?;
    Ok((result, cost_of(&stats, command)?))
}

/// Reads `INFO commandstats` after one call: its time, and the number of commands inside the script.
fn cost_of(stats: &str, called: &str) -> anyhow::Result<(Duration, f64)> {
    let (mut time, mut commands) = (Duration::ZERO, 0.0);
    let mut calls = 0;
    for line in stats.lines() {
        let Some((command, figures)) = line.trim().strip_prefix("cmdstat_").and_then(|line| line.split_once(':'))
        else {
            continue;
        };
        let field = |name: &str| -> anyhow::Result<u64> {
            let value = figures.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            Ok(value.with_context(|| format!("{line:?} has no {name}"))?.parse()?)
        };
        match command {
            _ if command == called => {
                calls += field("calls")?;
                time = Duration::from_micros(field("usec")?);
            }
            "config|resetstat" | "info" => {}
            _ => commands += as_f64(field("calls")?),
        }
    }
    if calls != 1 { bail!("{called} ran {calls} times instead of once:\n{stats}") } else { Ok((time, commands)) }
}
