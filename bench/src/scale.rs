//! `scale`: how pages and the page index grow with the number of comments of a product.
//!
//! - **Page index** in Redis. How long it takes to find the ids of a random page, how much memory
//!   the data takes, and how fast edits fill it. Edits come in random order of time, as in a
//!   rebuild.
//! - **Reads**: random pages read like in the API without HTTP, and the last page beside page 2.
//!
//! Growth is the exponent of a power law from the fewest to the most comments. Its limit is a
//! logarithm's, as of a search.

use std::collections::BTreeMap;

use model::{Filter, FilterKey, ProductId, RatingSet};
use page_index::PageIndex;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{
    listing::{ExpectedListing, PAGE_SIZE, PRODUCT, all_and_union, drawn},
    measure::{Latencies, Rounds, Spread, as_f64, timed},
    overheads::index::{TABLE_ID, fill},
    report::{BenchReport, Plot, PlotLine, count},
    stores::{FilledStores, PageReader, Redis, TableStore, ranked},
    workload::Comments,
};

const INDEX_SIZES: [u32; 3] = [10_000, 100_000, 1_000_000];
const READ_SIZES: [u32; 3] = [5_000, 50_000, 200_000];
const SAMPLES: u32 = 20;
const ROUNDS: u32 = 7;
/// What a reader waits for, and what an operator pays for.
const DRAWN: [&str; 5] = [
    "page of all: p50",
    "page of 3 ratings: p50",
    "page index, 3 ratings: p50",
    "page index, 3 ratings: p99",
    "page index, bytes/comment",
];

/// Measures at all sizes up to the requested number of comments, with so many pages for each
/// latency.
pub(crate) async fn measure(report: &mut BenchReport, most: u32, pages: u32) -> anyhow::Result<()> {
    let mut curves = Curves::default();
    for size in INDEX_SIZES.into_iter().filter(|size| *size <= most) {
        measure_index(report, &mut curves, size, pages).await?;
    }
    for size in READ_SIZES.into_iter().filter(|size| *size <= most) {
        measure_reads(report, &mut curves, size, pages).await?;
    }
    curves.report_growth(report);
    report.plot(curves.plot())
}

async fn measure_index(
    report: &mut BenchReport,
    curves: &mut Curves,
    size: u32,
    pages: u32,
) -> anyhow::Result<()> {
    report.step(&format!("the page index, {} comments", count(size)));
    let mut redis = Redis::start().await?;
    let empty = redis.memory_bytes().await?;
    let product = ProductId::parse(PRODUCT)?;
    let mut workload = Comments::new(11)?;
    let filling = fill(&redis.index, &mut workload, size, Some(&product));
    let ((), took) = timed(filling).await?;
    let bytes = as_f64(redis.memory_bytes().await?.saturating_sub(empty));
    let rate = f64::from(size) / took.as_secs_f64();
    let name = "page index, drawing and filling";
    curves.add(report, size, name, rate, "comments/s");
    let name = "page index, bytes/comment";
    curves.add(report, size, name, bytes / f64::from(size), "bytes");
    for (ratings, name) in [
        ("5", "1 rating"),
        ("1.3.5", "3 ratings"),
        ("1.2.3.4.5", "all"),
    ] {
        for (share, us) in index_pages(&redis.index, ratings, pages).await?.shown() {
            let name = format!("page index, {name}: {share}");
            curves.add(report, size, &name, us, "us");
        }
    }
    Ok(())
}

async fn measure_reads(
    report: &mut BenchReport,
    curves: &mut Curves,
    size: u32,
    pages: u32,
) -> anyhow::Result<()> {
    report.step(&format!("reads, {} comments", count(size)));
    let stores = FilledStores::fill(
        TableStore::start().await?,
        drawn(size)?,
        all_and_union()?,
        false,
    )
    .await?;
    for (listing, name) in [(0, "all"), (1, "3 ratings")] {
        let listing = stores.listing(listing)?;
        for (share, us) in reads(&stores, listing, pages).await?.shown() {
            curves.add(report, size, &format!("page of {name}: {share}"), us, "us");
        }
    }
    let ratio = last_page(&stores, stores.listing(0)?, pages / 10).await?;
    let name = format!("last_page_vs_page_2, {} comments", count(size));
    report.noted(name, ratio, "", "ratio of times, at most 1.1");
    stores.store.stop().await;
    Ok(())
}

/// Figures by the number of comments, from the fewest on.
#[derive(Default)]
struct Curves(BTreeMap<String, Vec<(f64, f64)>>);

impl Curves {
    fn add(&mut self, report: &mut BenchReport, comments: u32, name: &str, value: f64, unit: &str) {
        report.add(format!("{name}, {} comments", count(comments)), value, unit);
        let points = self.0.entry(name.to_owned()).or_default();
        points.push((f64::from(comments), value));
    }

    fn report_growth(&self, report: &mut BenchReport) {
        for (name, points) in &self.0 {
            let [(fewest, first), .., (most, last)] = points.as_slice() else {
                continue;
            };
            if !name.ends_with("p50") {
                continue;
            }
            let times = most / fewest;
            let of_logarithm = exponent(most.ln() / fewest.ln(), times);
            let note = format!("exponent, at most {of_logarithm:.3}; a logarithm's");
            let of_curve = exponent(last / first, times);
            report.noted(format!("growth of {name}"), of_curve, "", &note);
        }
    }

    /// Each curve as a multiple of its value with the fewest comments.
    fn plot(&self) -> Plot {
        let mut lines = Vec::new();
        for name in DRAWN {
            let points = self.0.get(name).map(Vec::as_slice).unwrap_or_default();
            if let [(_, first), ..] = points {
                let points = points
                    .iter()
                    .map(|(comments, value)| (*comments, value / first));
                lines.push(PlotLine::new(name, points));
            }
        }
        let axes = ["comments", "times the value with the fewest comments"];
        Plot::new("scale", axes, lines)
    }
}

/// The exponent of a power law that grows so much over so many times the comments.
fn exponent(growth: f64, times: f64) -> f64 {
    growth.ln() / times.ln()
}

async fn reads(
    stores: &FilledStores,
    listing: &ExpectedListing,
    pages: u32,
) -> anyhow::Result<Latencies> {
    let mut rng = StdRng::seed_from_u64(12);
    let reader = stores.reader();
    for _ in 0..SAMPLES {
        let page = rng.random_range(1..=listing.pages());
        listing.expect_comments(page, &reader.page(listing, page).await?)?;
    }
    Latencies::of(pages / 10, pages, async || {
        reader
            .page(listing, rng.random_range(1..=listing.pages()))
            .await
    })
    .await
}

/// The time that the last page takes, as a multiple of page 2's, in rounds of this number of
/// requests of each.
async fn last_page(
    stores: &FilledStores,
    listing: &ExpectedListing,
    requests: u32,
) -> anyhow::Result<Spread> {
    let reader = stores.reader();
    let rounds = Rounds::run(ROUNDS, async || {
        let ((), last) = timed(read_again(&reader, listing, listing.pages(), requests)).await?;
        let ((), second) = timed(read_again(&reader, listing, 2, requests)).await?;
        Ok([last, second])
    })
    .await?;
    Ok(rounds.ratio(1, 0))
}

async fn read_again(
    reader: &PageReader,
    listing: &ExpectedListing,
    page: u64,
    times: u32,
) -> anyhow::Result<()> {
    for _ in 0..times {
        reader.page(listing, page).await?;
    }
    Ok(())
}

async fn index_pages(index: &PageIndex, ratings: &str, pages: u32) -> anyhow::Result<Latencies> {
    let filter = Filter::new(None, Some(RatingSet::parse(ratings)?));
    let key = FilterKey {
        product: ProductId::parse(PRODUCT)?,
        filter,
    };
    let last = (ranked(index, TABLE_ID, &key, 1, PAGE_SIZE).await?.all / PAGE_SIZE as u64).max(1);
    let mut rng = StdRng::seed_from_u64(5);
    Latencies::of(pages / 10, pages, async || {
        ranked(index, TABLE_ID, &key, rng.random_range(1..=last), PAGE_SIZE).await
    })
    .await
}
