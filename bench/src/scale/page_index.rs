//! The page index alone: one product that grows.
//!
//! Each comment is added to its four base sets in the order of time, as a product grows, by `ZADD`s of many members in
//! pipelines. (In random order, like in a rebuild's scan, the server misses its caches once the sets are large: ten
//! million comments take minutes.)

use std::time::{Duration, Instant};

use anyhow::Context;
use model::{BaseSet, Language, ProductId, Rating, Revision, Timestamp};
use rand::{
    RngExt, SeedableRng,
    distr::{Distribution, weighted::WeightedIndex},
    rngs::StdRng,
};

use super::growth::{CONSTANT, LEVEL, PROPORTIONAL, Point, Quantity};
use crate::{
    dataset::PRODUCT,
    report::{Report, count},
    selection::{Subject, TABLE_ID, zadd},
    statistics::as_f64,
    workload::{FIRST_MS, LANGUAGES, RATING_WEIGHTS, Redis},
};

const CHUNK: u32 = 20_000;
/// Maximum time between two comments. At this spread, ten million cover two years.
const GAP_MS_MAX: i64 = 12_000;
/// Random pages: so many that 20 of them lie beyond the 99th percentile.
const PAGES: u32 = 2_000;
const QUICK_PAGES: u32 = 300;

const MIB: f64 = 1_048_576.0;

/// The times are the server's, of random pages. Comments are filled since the previous size.
pub(super) const QUANTITIES: [Quantity; 7] = [
    ("1 rating: p50, us", "page index, 1 rating: p50", CONSTANT),
    ("1 rating: p99, us", "page index, 1 rating: p99", CONSTANT),
    ("3 ratings: p50, us", "page index, 3 ratings: p50", CONSTANT),
    ("3 ratings: p99, us", "page index, 3 ratings: p99", CONSTANT),
    ("bytes/comment", "page index, bytes/comment", CONSTANT),
    ("memory, MiB", "page index, memory", PROPORTIONAL),
    ("filled, comments/s", "page index, rate of filling", LEVEL),
];

/// Grows a page index and measures it at each of the sizes, in ascending order.
pub(super) async fn measure(report: &Report, sizes: &[u32], is_quick: bool) -> anyhow::Result<Vec<Point<7>>> {
    let mut redis = Redis::start().await?;
    let rebuild = redis.index.begin_rebuild().await?;
    redis.index.finish_rebuild(&rebuild, TABLE_ID, process::now()).await?;
    let before_bytes = redis.memory_bytes().await?;
    let mut drawing = Drawing::new(&redis)?;
    let (mut points, mut filled) = (Vec::new(), 0);
    for size in sizes.iter().copied() {
        report.step(&format!("the page index, {} comments", count(size)));
        let took = fill(&mut redis, &mut drawing, size - filled).await?;
        let comments_per_s = f64::from(size - filled) / took.as_secs_f64();
        filled = size;
        let (size, bytes) = (f64::from(size), as_f64(redis.memory_bytes().await?.saturating_sub(before_bytes)));
        let (one_p50, one_p99) = server_us(&mut redis, &[5], is_quick).await?;
        let (three_p50, three_p99) = server_us(&mut redis, &[1, 3, 5], is_quick).await?;
        points.push((size, [one_p50, one_p99, three_p50, three_p99, bytes / size, bytes / MIB, comments_per_s]));
    }
    redis.stop().await;
    Ok(points)
}

async fn server_us(redis: &mut Redis, ratings: &[u64], is_quick: bool) -> anyhow::Result<(f64, f64)> {
    let calls = if is_quick { QUICK_PAGES } else { PAGES };
    let times = Subject::new(redis, ratings).await?.costs(redis, None, calls).await?.times;
    Ok((times.p50_us(), times.p99_us()))
}

/// Adds `count` comments. Returns the time without drawing them.
async fn fill(redis: &mut Redis, drawing: &mut Drawing, count: u32) -> anyhow::Result<Duration> {
    let (mut left, mut took) = (count, Duration::ZERO);
    while left > 0 {
        let chunk = left.min(CHUNK);
        let pipeline = drawing.draw(chunk)?;
        let began = Instant::now();
        pipeline.exec_async(&mut redis.connection).await?;
        took += began.elapsed();
        left -= chunk;
    }
    Ok(took)
}

/// Draws comments of one product as members of base sets.
struct Drawing {
    rng: StdRng,
    last_ms: i64,
    ratings: WeightedIndex<u32>,
    languages: WeightedIndex<u32>,
    /// The keys of the base sets by language and rating. The last one of each dimension means any.
    keys: Vec<Vec<String>>,
}

impl Drawing {
    fn new(redis: &Redis) -> anyhow::Result<Self> {
        let product = ProductId::parse(PRODUCT)?;
        let languages = LANGUAGES.iter().map(|(tag, _)| Language::parse(tag)).collect::<Result<Vec<_>, _>>()?;
        let key = |language: Option<&Language>, rating| {
            redis.config.key_name(&BaseSet { product: product.clone(), language: language.cloned(), rating })
        };
        let of_ratings = |language: Option<&Language>| {
            Rating::ALL.into_iter().map(Some).chain([None]).map(|rating| key(language, rating)).collect()
        };
        Ok(Self {
            rng: StdRng::seed_from_u64(11),
            last_ms: FIRST_MS,
            ratings: WeightedIndex::new(RATING_WEIGHTS)?,
            languages: WeightedIndex::new(LANGUAGES.map(|(_, weight)| weight))?,
            keys: languages.iter().map(Some).chain([None]).map(of_ratings).collect(),
        })
    }

    /// The `ZADD`s of `count` comments.
    fn draw(&mut self, count: u32) -> anyhow::Result<redis::Pipeline> {
        let mut members: Vec<Vec<Vec<(i64, String)>>> =
            self.keys.iter().map(|keys| keys.iter().map(|_| Vec::new()).collect()).collect();
        let (any_language, any_rating) = (LANGUAGES.len(), RATING_WEIGHTS.len());
        for _ in 0..count {
            self.last_ms += self.rng.random_range(0..=GAP_MS_MAX);
            let score = self.last_ms;
            // A revision is a ULID, like our comment ids.
            let id = Revision::after(None, Timestamp::from_epoch_ms(score)?, self.rng.random()).to_string();
            let (language, rating) = (self.languages.sample(&mut self.rng), self.ratings.sample(&mut self.rng));
            for language in [language, any_language] {
                for rating in [rating, any_rating] {
                    let set = members.get_mut(language).and_then(|sets| sets.get_mut(rating)).context("a base set")?;
                    set.push((score, id.clone()));
                }
            }
        }
        let keys = self.keys.iter().flatten().cloned();
        Ok(zadd(keys.zip(members.into_iter().flatten())))
    }
}

pub(super) fn available_memory_bytes() -> anyhow::Result<f64> {
    let info = std::fs::read_to_string("/proc/meminfo").context("how much memory is left?")?;
    let kib = info.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    Ok(kib.context("/proc/meminfo does not say MemAvailable")?.parse::<f64>()? * 1_024.0)
}
