//! Reads pages like the API, by the number of comments: the page's start from the page index, its comments from the
//! table.

use std::{sync::Arc, time::Instant};

use anyhow::ensure;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{
    api::callers::{Caller, ask_all},
    dataset::Dataset,
    filled_stores::PageReader,
    listing::{Listing, PAGE_SIZE},
    statistics::{Latencies, as_f64},
};

/// Concurrent callers.
pub(super) const CALLERS: usize = 16;
/// Callers that share connections. The API has separate connections for each of its threads, here two.
const CALLERS_A_THREAD: usize = CALLERS / 2;
/// Pages requested one after the other: so many that 20 lie beyond the 99th percentile. All callers together request
/// the same number.
const PAGES: u32 = 2_000;
const QUICK_PAGES: u32 = 300;
/// Number of pages whose comments are compared before.
const SAMPLES: u32 = 20;

/// Random pages of one listing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reads {
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// Rate of all callers together.
    pub(super) pages_per_s: f64,
}

/// Reads at one number of comments.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadPoint {
    pub(super) comments: f64,
    pub(super) all: Reads,
    /// Three ratings.
    pub(super) union: Reads,
}

/// Measures a product of about `comments` comments.
pub(super) async fn measure(comments: u32, is_quick: bool) -> anyhow::Result<ReadPoint> {
    let dataset = Dataset::fill(comments, true).await?;
    let mut rng = StdRng::seed_from_u64(12);
    let all = reads(&dataset, &dataset.all, &mut rng, is_quick).await?;
    let union = reads(&dataset, dataset.union()?, &mut rng, is_quick).await?;
    let comments = as_f64(dataset.all.total());
    dataset.stores.stop().await;
    Ok(ReadPoint { comments, all, union })
}

async fn reads(dataset: &Dataset, listing: &Arc<Listing>, rng: &mut StdRng, is_quick: bool) -> anyhow::Result<Reads> {
    let pages = if is_quick { QUICK_PAGES } else { PAGES };
    let mut draw = |count: u32| -> Vec<u64> { (0..count).map(|_| rng.random_range(1..=listing.pages())).collect() };
    let mut caller = PageCaller { reader: dataset.stores.reader(), listing: listing.clone() };
    for page in draw(SAMPLES).into_iter().chain([1, 2, listing.pages()]) {
        caller.compare(page).await?;
    }
    // The first tenth warms up.
    let warm_up = pages / 10;
    let mut times = Latencies::new()?;
    for (place, page) in (0..).zip(draw(warm_up + pages)) {
        let began = Instant::now();
        caller.ask(page).await?;
        if place >= warm_up {
            times.record(began.elapsed());
        }
    }
    let threads = [(); CALLERS / CALLERS_A_THREAD].map(|()| caller.with_own_connections());
    let callers: Vec<PageCaller> = threads.iter().flat_map(|one| vec![one.clone(); CALLERS_A_THREAD]).collect();
    // Opens the connections.
    ask_all(callers.clone(), draw(warm_up)).await?;
    let took = ask_all(callers, draw(pages)).await?;
    let pages_per_s = f64::from(pages) / took.as_secs_f64();
    Ok(Reads { p50_us: times.p50_us(), p99_us: times.p99_us(), pages_per_s })
}

/// Reads pages of a listing.
#[derive(Clone)]
struct PageCaller {
    reader: PageReader,
    listing: Arc<Listing>,
}

impl PageCaller {
    fn with_own_connections(&self) -> Self {
        Self { reader: self.reader.with_own_connections(), listing: self.listing.clone() }
    }

    /// Refuses a page whose comments differ from the expected ones.
    async fn compare(&self, page: u64) -> anyhow::Result<()> {
        let comments = self.reader.page(&self.listing, page).await?;
        let found: Vec<&str> = comments.iter().map(|comment| comment.id.as_str()).collect();
        let expected = self.listing.ids(page);
        ensure!(found == expected, "page {page} shows {found:?} instead of {expected:?}");
        Ok(())
    }
}

impl Caller for PageCaller {
    async fn ask(&mut self, page: u64) -> anyhow::Result<()> {
        let shown = self.reader.page(&self.listing, page).await?.len();
        ensure!(shown == PAGE_SIZE, "page {page} shows {shown} comments");
        Ok(())
    }
}
