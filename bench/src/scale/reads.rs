//! Reads pages like the API, by the number of comments: the page's start from the page index, its comments from the
//! table.

use std::sync::Arc;

use anyhow::ensure;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::growth::{CONSTANT, LEVEL, Point, Quantity};
use crate::{
    api::callers::{Caller, ask_all},
    dataset::Dataset,
    filled_stores::PageReader,
    listing::{Listing, PAGE_SIZE},
    statistics::{Latencies, as_f64, timed},
};

pub(super) const CALLERS: usize = 16;
/// Callers that share connections. The API has separate connections for each of its threads, here two.
const CALLERS_A_THREAD: usize = CALLERS / 2;
/// Pages requested one after the other: so many that 20 lie beyond the 99th percentile. All callers together request
/// the same number.
const PAGES: u32 = 2_000;
const QUICK_PAGES: u32 = 300;
const SAMPLES: u32 = 20;

/// Latencies of one caller, and the rate of all callers together.
pub(super) const QUANTITIES: [Quantity; 6] = [
    ("all: p50, us", "page of all: p50", CONSTANT),
    ("all: p99, us", "page of all: p99", CONSTANT),
    ("all: pages/s", "page of all: throughput", LEVEL),
    ("3 ratings: p50, us", "page of 3 ratings: p50", CONSTANT),
    ("3 ratings: p99, us", "page of 3 ratings: p99", CONSTANT),
    ("3 ratings: pages/s", "page of 3 ratings: throughput", LEVEL),
];

/// Measures a product of about `comments` comments.
pub(super) async fn measure(comments: u32, is_quick: bool) -> anyhow::Result<Point<6>> {
    let dataset = Dataset::fill(comments, true).await?;
    let mut rng = StdRng::seed_from_u64(12);
    let [all_p50, all_p99, all_rate] = reads(&dataset, &dataset.all, &mut rng, is_quick).await?;
    let [union_p50, union_p99, union_rate] = reads(&dataset, dataset.union()?, &mut rng, is_quick).await?;
    let comments = as_f64(dataset.all.total());
    dataset.stores.stop().await;
    Ok((comments, [all_p50, all_p99, all_rate, union_p50, union_p99, union_rate]))
}

/// Random pages of one listing: p50 and p99 in microseconds, and pages per second.
async fn reads(
    dataset: &Dataset,
    listing: &Arc<Listing>,
    rng: &mut StdRng,
    is_quick: bool,
) -> anyhow::Result<[f64; 3]> {
    let pages = if is_quick { QUICK_PAGES } else { PAGES };
    let mut draw = |count: u32| -> Vec<u64> { (0..count).map(|_| rng.random_range(1..=listing.pages())).collect() };
    let mut caller = PageCaller { reader: dataset.stores.reader(), listing: listing.clone() };
    for page in draw(SAMPLES).into_iter().chain([1, 2, listing.pages()]) {
        let comments = caller.reader.page(listing, page).await?;
        let found: Vec<&str> = comments.iter().map(|comment| comment.id.as_str()).collect();
        let expected = listing.ids(page);
        ensure!(found == expected, "page {page} shows {found:?} instead of {expected:?}");
    }
    // The first tenth warms up.
    let warm_up = pages / 10;
    let mut times = Latencies::new()?;
    for (place, page) in (0..).zip(draw(warm_up + pages)) {
        let (_, took) = timed(caller.ask(page)).await?;
        if place >= warm_up {
            times.record(took);
        }
    }
    let of_thread = || PageCaller { reader: caller.reader.with_own_connections(), listing: listing.clone() };
    let callers: Vec<PageCaller> =
        (0..CALLERS / CALLERS_A_THREAD).flat_map(|_| vec![of_thread(); CALLERS_A_THREAD]).collect();
    // Opens the connections.
    ask_all(callers.clone(), draw(warm_up)).await?;
    let took = ask_all(callers, draw(pages)).await?;
    let pages_per_s = f64::from(pages) / took.as_secs_f64();
    Ok([times.p50_us(), times.p99_us(), pages_per_s])
}

#[derive(Clone)]
struct PageCaller {
    reader: PageReader,
    listing: Arc<Listing>,
}

impl Caller for PageCaller {
    async fn ask(&mut self, page: u64) -> anyhow::Result<()> {
        let shown = self.reader.page(&self.listing, page).await?.len();
        ensure!(shown == PAGE_SIZE, "page {page} shows {shown} comments");
        Ok(())
    }
}
