//! Reads pages like the API, by the number of comments: the page's start from the page index, its comments from the
//! table.

use std::{sync::Arc, time::Instant};

use anyhow::{bail, ensure};
use model::{Order, PageSize};
use page_index::{PageIndex, PageStartQuery};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use table::{PageQuery, Table};

use crate::{
    api::callers::{Caller, ask_all},
    shop::{Listing, PAGE_SIZE, Shop},
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
    let shop = Shop::fill(comments, true).await?;
    let Some(union) = shop.union.clone() else { bail!("the union is loaded") };
    let table_id = shop.table.describe().await?.id;
    let pages = if is_quick { QUICK_PAGES } else { PAGES };
    let mut rng = StdRng::seed_from_u64(12);
    let mut reads = Vec::new();
    for listing in [shop.all.clone(), union] {
        let mut draw = |count: u32| -> Vec<u64> { (0..count).map(|_| rng.random_range(1..=listing.pages())).collect() };
        let mut caller = PageCaller::new(&shop, &listing, &table_id);
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
        reads.push(Reads {
            p50_us: times.p50_us(),
            p99_us: times.p99_us(),
            pages_per_s: f64::from(pages) / took.as_secs_f64(),
        });
    }
    let comments = as_f64(shop.all.pages() * PAGE_SIZE as u64);
    shop.close().await;
    let [all, union] = reads[..] else { bail!("two listings are read") };
    Ok(ReadPoint { comments, all, union })
}

/// Reads pages of a listing.
#[derive(Clone)]
struct PageCaller {
    index: PageIndex,
    table: Table,
    table_id: String,
    listing: Arc<Listing>,
}

impl PageCaller {
    fn new(shop: &Shop, listing: &Arc<Listing>, table_id: &str) -> Self {
        let (index, table) = (shop.page_index().clone(), shop.table.clone());
        Self { index, table, table_id: table_id.to_owned(), listing: listing.clone() }
    }

    fn with_own_connections(&self) -> Self {
        let (index, table) = (self.index.with_own_connections(), self.table.with_own_connections());
        Self { index, table, ..self.clone() }
    }

    /// The ids of a page's comments; pages count from 1.
    async fn ids(&self, page: u64) -> anyhow::Result<Vec<String>> {
        let skip = (page - 1) * PAGE_SIZE as u64;
        let (key, order) = (self.listing.key.clone(), Order::Newest);
        let query = PageStartQuery { product: &key.product, filter: &key.filter, skip, order, as_of: None };
        let start = match self.index.page_start(&query, &self.table_id, process::now()).await? {
            Ok(start) => start,
            Err(not_ready) => bail!("the page index is not ready: {not_ready}"),
        };
        let total_pages = PageSize::new(PAGE_SIZE as u64)?.total_pages(start.total);
        ensure!(total_pages == self.listing.pages(), "{total_pages} pages instead of {}", self.listing.pages());
        let limit = u16::try_from(PAGE_SIZE)?;
        let answer = self.table.page(&PageQuery { key, order, limit, start: start.before }).await?;
        Ok(answer.comments.into_iter().map(|comment| comment.id.to_string()).collect())
    }

    /// Refuses a page whose comments differ from the expected ones.
    async fn compare(&self, page: u64) -> anyhow::Result<()> {
        let found = self.ids(page).await?;
        let expected: Vec<String> = self.listing.page(page).iter().map(|cd| cd.id.to_string()).collect();
        ensure!(found == expected, "page {page} shows {found:?} instead of {expected:?}");
        Ok(())
    }
}

impl Caller for PageCaller {
    async fn ask(&mut self, page: u64) -> anyhow::Result<()> {
        let shown = self.ids(page).await?.len();
        ensure!(shown == PAGE_SIZE, "page {page} shows {shown} comments");
        Ok(())
    }
}
