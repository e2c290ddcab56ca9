//! The page index alone: one product that grows.
//!
//! Each comment is added to its four base sets in the order of time, as a product grows, by `ZADD`s of many members in
//! pipelines. (In random order, like in a rebuild's scan, the server misses its caches once the sets are large: ten
//! million comments take minutes.) One thread draws comments while the server adds those drawn before.

use std::time::Instant as Clock;

use anyhow::{Context, bail};
use model::{BaseSet, Language, Rating, Revision, Timestamp};
use rand::{
    RngExt, SeedableRng,
    distr::{Distribution, weighted::WeightedIndex},
    rngs::StdRng,
};

use crate::{
    report::{Report, count},
    selection::{Subject, TABLE_ID, ZADD_MEMBERS, product},
    statistics::as_f64,
    workload::{FIRST_MS, LANGUAGES, RATING_WEIGHTS, Redis},
};

/// Number of comments drawn and added at once.
const CHUNK: u32 = 20_000;
/// Maximum time between two comments. At this spread, ten million cover two years.
const GAP_MS_MAX: i64 = 12_000;
/// Random pages: so many that 20 of them lie beyond the 99th percentile.
const PAGES: u32 = 2_000;
const QUICK_PAGES: u32 = 300;

/// The page index at one number of comments. Server times are p50 and p99 of random pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexPoint {
    pub(super) comments: f64,
    pub(super) one_rating_us: (f64, f64),
    pub(super) three_ratings_us: (f64, f64),
    pub(super) memory_bytes: f64,
    /// Comments added per second since the previous size.
    pub(super) comments_per_s: f64,
}

/// Grows a page index and measures it at each of the sizes, in ascending order.
pub(super) async fn measure(report: &Report, sizes: &[u32], is_quick: bool) -> anyhow::Result<Vec<IndexPoint>> {
    let mut redis = Redis::start().await?;
    let rebuild = redis.index.begin_rebuild().await?;
    redis.index.finish_rebuild(&rebuild, TABLE_ID, process::now()).await?;
    let before_bytes = redis.memory_bytes().await?;
    let mut drawing = Drawing::new(&redis)?;
    let (mut points, mut filled) = (Vec::new(), 0);
    for size in sizes {
        report.step(&format!("the page index, {} comments", count((*size).into())));
        let began = Clock::now();
        drawing = fill(&mut redis, drawing, size - filled).await?;
        let comments_per_s = f64::from(size - filled) / began.elapsed().as_secs_f64();
        filled = *size;
        let memory_bytes = as_f64(redis.memory_bytes().await?.saturating_sub(before_bytes));
        points.push(IndexPoint {
            comments: f64::from(*size),
            one_rating_us: server_us(&mut redis, &[5], is_quick).await?,
            three_ratings_us: server_us(&mut redis, &[1, 3, 5], is_quick).await?,
            memory_bytes,
            comments_per_s,
        });
    }
    redis.stop().await;
    Ok(points)
}

async fn server_us(redis: &mut Redis, ratings: &[u64], is_quick: bool) -> anyhow::Result<(f64, f64)> {
    let calls = if is_quick { QUICK_PAGES } else { PAGES };
    let times = Subject::new(redis, ratings).await?.costs(redis, None, calls).await?.times;
    Ok((times.p50_us(), times.p99_us()))
}

/// Adds `count` comments.
async fn fill(redis: &mut Redis, mut drawing: Drawing, count: u32) -> anyhow::Result<Drawing> {
    let (mut left, mut drawn) = (count, redis::pipe());
    loop {
        let chunk = left.min(CHUNK);
        left -= chunk;
        let next = tokio::task::spawn_blocking(move || {
            let pipeline = drawing.draw(chunk)?;
            anyhow::Ok((drawing, pipeline))
        });
        if !drawn.is_empty() {
            drawn.query_async::<()>(&mut redis.connection).await?;
        }
        (drawing, drawn) = next.await??;
        if drawn.is_empty() {
            return Ok(drawing);
        }
    }
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
        let product = product()?;
        let languages = LANGUAGES.iter().map(|(tag, _)| Language::parse(tag)).collect::<Result<Vec<_>, _>>()?;
        let key = |language: Option<&Language>, rating| {
            redis.index.key_name(&BaseSet { product: product.clone(), language: language.cloned(), rating })
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
        let mut pipeline = redis::pipe();
        for (key, members) in self.keys.iter().flatten().zip(members.iter().flatten()) {
            for members in members.chunks(ZADD_MEMBERS) {
                let add = pipeline.cmd("ZADD").arg(key);
                for (score, id) in members {
                    add.arg(score).arg(id);
                }
                add.ignore();
            }
        }
        Ok(pipeline)
    }
}

/// The machine's free memory, if the system reports it.
pub(super) fn available_memory_bytes() -> anyhow::Result<f64> {
    let file = "/proc/meminfo";
    let info = std::fs::read_to_string(file).with_context(|| format!("{file}: how much memory is left?"))?;
    let kib = info.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    match kib.and_then(|kib| kib.parse::<u64>().ok()) {
        Some(kib) => Ok(as_f64(kib) * 1_024.0),
        None => bail!("{file} does not say MemAvailable"),
    }
}
