//! `scale`: the growth of all costs with the number of comments: 0 if a quantity does not grow, 1 if it grows in proportion.
//!
//! - **Page index**, if the machine has the memory: the server's time for a random page, the memory of the data, the rate at
//!   which one pipeline fills it. Comments are added in the order of time, as a product grows.
//! - **Reads**: random pages read like in the API without HTTP, one after the other, and by 16 callers.

use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};

use anyhow::Context;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{
    listing::{Listing, PRODUCT, all_and_union, drawn},
    measure::{Latencies, as_f64, timed},
    overheads::{
        api::callers::{ReaderCaller, ask_all, several},
        index::{Pages, TABLE_ID},
    },
    report::{Plot, Report, Series, count},
    stores::{FilledStores, Redis, Store},
    workload::{Comments, FIRST_MS},
};

const INDEX_SIZES: [u32; 4] = [10_000, 100_000, 1_000_000, 10_000_000];
const READ_SIZES: [u32; 3] = [5_000, 50_000, 500_000];
/// Free memory for the page index: about 450 bytes a comment, data that the server has not added yet, and the rest of the
/// machine.
const INDEX_BYTES_A_COMMENT: f64 = 600.0;
const INDEX_BYTES_AT_LEAST: f64 = 1e9;
const CHUNK: u32 = 20_000;
/// Maximum time between two comments. At this spread, ten million cover two years.
const GAP_MS_MAX: i64 = 12_000;
const CALLERS: usize = 16;
const SAMPLES: u32 = 20;

/// A bound of an exponent. Measurements vary by some percent, and the search in a union takes steps in proportion to the
/// logarithm. So an exponent may miss the ideal one by a tenth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
enum Growth {
    #[strum(to_string = "exponent, at most 0.1")]
    Constant,
    #[strum(to_string = "exponent, at most 1.1")]
    Proportional,
    /// Of a rate.
    #[strum(to_string = "exponent, at least -0.1")]
    Level,
}

/// A quantity at one size: its name, its value, its unit.
type Measured = (&'static str, f64, &'static str, Growth);

/// The points of each quantity.
#[derive(Default)]
struct Curves(BTreeMap<&'static str, (Growth, Vec<(f64, f64)>)>);

impl Curves {
    fn add(&mut self, report: &mut Report, comments: u32, measured: impl IntoIterator<Item = Measured>) {
        for (name, value, unit, growth) in measured {
            report.add(format!("{name}, {} comments", count(comments)), value, unit);
            let (_, points) = self.0.entry(name).or_insert((growth, Vec::new()));
            points.push((f64::from(comments), value));
        }
    }

    /// The exponents, and a plot of the quantities that should not change.
    fn finish(self, report: &mut Report) {
        for (name, (growth, points)) in &self.0 {
            report.noted(format!("growth of {name}"), exponent(points).unwrap_or(f64::NAN), "", &growth.to_string());
        }
        let level = self.0.into_iter().filter(|(_, (growth, _))| *growth != Growth::Proportional);
        let series = level.filter_map(|(name, (_, points))| {
            let (_, first) = *points.first()?;
            let points = points.iter().map(|(comments, value)| (*comments, value / first)).collect();
            Some(Series { name: name.to_owned(), points })
        });
        let axes = ["comments", "times the value with the fewest comments"];
        report.plot(Plot::new("scale", "What should not change with the number of comments", axes, series));
    }
}

/// The exponent of a power law through points with positive coordinates: least squares of log y on log x. `None` for fewer
/// than two different x.
fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count: f64 = logs.iter().map(|_| 1.0).sum();
    let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|(x, _)| *x), mean(|(_, y)| *y));
    let squares: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let products: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    Some(products / squares).filter(|exponent| exponent.is_finite())
}

/// Measures at all sizes up to the requested number of comments, with so many pages for each latency.
pub(crate) async fn measure(report: &mut Report, most: u32, pages: u32) -> anyhow::Result<()> {
    let up_to = |sizes: &[u32]| sizes.iter().copied().filter(|size| *size <= most).collect::<Vec<u32>>();
    let mut curves = Curves::default();
    page_index(report, &mut curves, &up_to(&INDEX_SIZES), pages).await?;
    for size in up_to(&READ_SIZES) {
        report.step(&format!("reads, {} comments", count(size)));
        let stores = FilledStores::fill(Store::start().await?, drawn(size)?, all_and_union()?, false).await?;
        let [p50, p99, rate] = reads(&stores, stores.listing(0)?, pages).await?;
        let all = [
            ("page of all: p50", p50, "us", Growth::Constant),
            ("page of all: p99", p99, "us", Growth::Constant),
            ("page of all: throughput", rate, "pages/s", Growth::Level),
        ];
        let [p50, p99, rate] = reads(&stores, stores.listing(1)?, pages).await?;
        let union = [
            ("page of 3 ratings: p50", p50, "us", Growth::Constant),
            ("page of 3 ratings: p99", p99, "us", Growth::Constant),
            ("page of 3 ratings: throughput", rate, "pages/s", Growth::Level),
        ];
        curves.add(report, size, all.into_iter().chain(union));
        stores.store.stop().await;
    }
    curves.finish(report);
    Ok(())
}

/// Grows a page index and measures it at each of the sizes, in ascending order.
async fn page_index(report: &mut Report, curves: &mut Curves, sizes: &[u32], pages: u32) -> anyhow::Result<()> {
    let available = available_memory_bytes()?;
    let mut redis = Redis::start().await?;
    let rebuild = redis.index.begin_rebuild().await?;
    redis.index.finish_rebuild(&rebuild, TABLE_ID, process::now()).await?;
    let empty = redis.memory_bytes().await?;
    let (mut drawing, mut filled) = (Drawing::new()?, 0);
    for size in sizes.iter().copied() {
        if f64::from(size) * INDEX_BYTES_A_COMMENT + INDEX_BYTES_AT_LEAST > available {
            report.step(&format!("too little free memory for {} comments", count(size)));
            break;
        }
        report.step(&format!("the page index, {} comments", count(size)));
        let took = fill(&mut redis, &mut drawing, size - filled).await?;
        let rate = f64::from(size - filled) / took.as_secs_f64();
        filled = size;
        let bytes = as_f64(redis.memory_bytes().await?.saturating_sub(empty));
        let one = Pages::new(&redis.index, "5").await?.server(&mut redis, pages).await?;
        let three = Pages::new(&redis.index, "1.3.5").await?.server(&mut redis, pages).await?;
        let measured = [
            ("page index, 1 rating: p50", one.p50_us(), "us", Growth::Constant),
            ("page index, 1 rating: p99", one.p99_us(), "us", Growth::Constant),
            ("page index, 3 ratings: p50", three.p50_us(), "us", Growth::Constant),
            ("page index, 3 ratings: p99", three.p99_us(), "us", Growth::Constant),
            ("page index, bytes/comment", bytes / f64::from(size), "bytes", Growth::Constant),
            ("page index, memory", bytes, "bytes", Growth::Proportional),
            ("page index, rate of filling", rate, "comments/s", Growth::Level),
        ];
        curves.add(report, size, measured);
    }
    Ok(())
}

/// Comments of one product in the order of time.
struct Drawing {
    workload: Comments,
    rng: StdRng,
    last_ms: i64,
}

impl Drawing {
    fn new() -> anyhow::Result<Self> {
        Ok(Self { workload: Comments::new(11)?, rng: StdRng::seed_from_u64(11), last_ms: FIRST_MS })
    }

    /// The `ZADD`s of `count` comments, with the members of each set together.
    fn draw(&mut self, redis: &Redis, count: u32) -> anyhow::Result<redis::Pipeline> {
        let product = model::ProductId::parse(PRODUCT)?;
        let mut sets: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
        for _ in 0..count {
            self.last_ms += self.rng.random_range(0..=GAP_MS_MAX);
            let mut comment = self.workload.draw_at(model::Timestamp::from_epoch_ms(self.last_ms)?)?;
            comment.product = product.clone();
            for set in comment.placement().base_sets() {
                let members = sets.entry(redis.config.key_name(&set)).or_default();
                members.push((self.last_ms, comment.id.to_string()));
            }
        }
        let mut pipeline = redis::pipe();
        for (key, members) in &sets {
            for members in members.chunks(1_000) {
                pipeline.zadd_multiple(key, members).ignore();
            }
        }
        Ok(pipeline)
    }
}

/// Adds `count` comments. Returns the time without drawing them.
async fn fill(redis: &mut Redis, drawing: &mut Drawing, count: u32) -> anyhow::Result<Duration> {
    let (mut left, mut took) = (count, Duration::ZERO);
    while left > 0 {
        let pipeline = drawing.draw(redis, left.min(CHUNK))?;
        took += timed(async { Ok(pipeline.exec_async(&mut redis.connection).await?) }).await?.1;
        left -= left.min(CHUNK);
    }
    Ok(took)
}

fn available_memory_bytes() -> anyhow::Result<f64> {
    let info = fs::read_to_string("/proc/meminfo").context("this needs Linux")?;
    let kib = info.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    Ok(kib.context("/proc/meminfo does not say MemAvailable")?.parse::<f64>()? * 1_024.0)
}

/// Random pages of one listing: p50 and p99 in microseconds, and pages per second.
async fn reads(stores: &FilledStores, listing: &Arc<Listing>, pages: u32) -> anyhow::Result<[f64; 3]> {
    let mut rng = StdRng::seed_from_u64(12);
    let mut draw = |count: u32| -> Vec<u64> { (0..count).map(|_| rng.random_range(1..=listing.pages())).collect() };
    let reader = stores.reader();
    for page in draw(SAMPLES).into_iter().chain([1, 2, listing.pages()]) {
        listing.expect_comments(page, &reader.page(listing, page).await?)?;
    }
    let mut asked = draw(pages + pages / 10).into_iter();
    let times = Latencies::of(pages / 10, pages, async || reader.page(listing, asked.next().context("a page")?).await);
    let times = times.await?;
    let callers = several(CALLERS, || ReaderCaller { reader: reader.with_own_connections(), listing: listing.clone() });
    // Opens the connections.
    ask_all(callers.clone(), draw(pages / 10)).await?;
    let took = ask_all(callers, draw(pages)).await?;
    Ok([times.p50_us(), times.p99_us(), f64::from(pages) / took.as_secs_f64()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_laws_are_found_again() {
        for (points, expected) in [
            (vec![(1e3, 7.0), (1e4, 7.0), (1e6, 7.0)], Some(0.0)),
            (vec![(1e3, 2e3), (1e4, 2e4), (1e5, 2e5)], Some(1.0)),
            (vec![(1.0, 5.0), (100.0, 0.5)], Some(-0.5)),
            (vec![(10.0, 300.0), (20.0, 1_200.0), (40.0, 4_800.0)], Some(2.0)),
            // Too little to fit.
            (vec![], None),
            (vec![(10.0, 3.0), (10.0, 4.0)], None),
            (vec![(10.0, 0.0), (100.0, 4.0)], None),
        ] {
            let found = exponent(&points);
            assert_eq!(found.is_some(), expected.is_some(), "{points:?}: {found:?}");
            assert!((found.unwrap_or(0.0) - expected.unwrap_or(0.0)).abs() < 1e-9, "{points:?}: {found:?}");
        }
    }
}
