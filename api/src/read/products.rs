//! The products that have comments. One cached walk over the page index serves the list of products and the sitemap.
//!
//! **Invariant:** a walk comes from a ready page index, every partition of it
//! (`without_a_ready_index_there_is_neither_a_list_nor_a_sitemap`).
//!
//! **Invariant:** one task at a time walks, and then pauses [`PAUSE`] times as long as it walked. So a large site does
//! not keep its page index busy. The task continues after its requester has gone.

pub(crate) mod parts;

use std::{
    cmp::Reverse,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use actix_web::web::Data;
use futures_util::{StreamExt, stream};
use model::{Filter, PageNumber, PageSize};
use page_index::{IndexPartition, Ranked, RankedQuery, StatsWanted};
use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    time::Instant,
};

use crate::{error::ApiError, ops::metrics::StoreCall, site::Site, store::StoreClients};
use parts::{Dates, ListedPage, PartitionSitemap, Product};

/// A walk is followed by a pause of this many times its duration.
const PAUSE: u32 = 100;

/// The shortest pause, and that after a walk that failed. Without it, requests would queue up while the page index is
/// away, and fail one after another.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// A walk is used for at least this long, and for at least two pauses. So the list and the sitemap outlive a short
/// absence of the page index.
const USED_FOR_MIN: Duration = Duration::from_secs(600);

/// How many partitions are read in parallel: enough to hide the round trips of many small ones.
const PARTITIONS_TOGETHER: usize = 8;

/// Number of products whose comments one call counts.
const PRODUCTS_TOGETHER: usize = 1_000;

/// Maximum number of listings of a walk: one for each product, and one for each language that search engines may index.
/// They take about 130 MB, and as much again while the next walk is under way.
const LISTINGS_MAX: usize = 1_000_000;

/// Maximum number of pages of a walk whose dates are kept, in 32 MB. Those of further parts are read each time.
const DATES_MAX: usize = 2 << 20;

#[derive(Debug, Default)]
pub(crate) struct Walk {
    partitions: Vec<(IndexPartition, PartitionSitemap)>,
    /// The places of the products in `partitions`: the most comments first, equal ones by their ids.
    most_commented: Vec<[u32; 2]>,
    dated: AtomicUsize,
}

impl Walk {
    /// The dates of partitions that have not changed since the walk `before` stay known.
    fn new(mut partitions: Vec<(IndexPartition, PartitionSitemap)>, before: Option<&Self>) -> Self {
        let mut dated = 0;
        for (partition, sitemap) in &mut partitions {
            let mut known = before.iter().flat_map(|before| &before.partitions);
            if let Some((_, before)) = known.find(|(known, _)| known == partition) {
                dated += sitemap.take_dates(before);
            }
        }
        let mut products = Vec::new();
        for ((_, partition), at) in partitions.iter().zip(0..) {
            products.extend(partition.products().iter().zip(0..).map(|(product, place)| (product, [at, place])));
        }
        products.sort_unstable_by_key(|(product, _)| (Reverse(product.by_rating.total()), &product.id));
        let most_commented = products.into_iter().map(|(_, place)| place).collect();
        Self { partitions, most_commented, dated: AtomicUsize::new(dated) }
    }

    pub(crate) fn total(&self) -> u64 {
        u64::try_from(self.most_commented.len()).unwrap_or(u64::MAX)
    }

    pub(crate) fn partitions(&self) -> impl Iterator<Item = (u16, &PartitionSitemap)> {
        self.partitions.iter().map(|(partition, sitemap)| (partition.number(), sitemap))
    }

    fn most_commented(&self, places: Range<u64>) -> impl Iterator<Item = &Product> {
        let [from, to] = [places.start, places.end].map(|place| usize::try_from(place).unwrap_or(usize::MAX));
        let places = self.most_commented.get(from..to.min(self.most_commented.len())).unwrap_or_default();
        places.iter().filter_map(|place| {
            let [partition, product] = place.map(|place| usize::try_from(place).unwrap_or(usize::MAX));
            self.partitions.get(partition)?.1.products().get(product)
        })
    }
}

#[derive(Debug)]
pub(crate) struct ProductPage {
    walk: Arc<Walk>,
    places: Range<u64>,
    pub(crate) total: u64,
    pub(crate) total_pages: u64,
}

impl ProductPage {
    pub(crate) fn products(&self) -> impl Iterator<Item = &Product> {
        self.walk.most_commented(self.places.clone())
    }
}

/// The last walk.
pub(crate) struct Products {
    stores: Data<StoreClients>,
    site: Data<Site>,
    kept: parking_lot::Mutex<Kept>,
    walking: Arc<Mutex<()>>,
    dating: Mutex<()>,
}

#[derive(Default)]
struct Kept {
    /// The walk, and until when it is used.
    walk: Option<(Arc<Walk>, Instant)>,
    pause_until: Option<Instant>,
}

impl Kept {
    fn usable(&self, now: Instant) -> Option<Arc<Walk>> {
        let (walk, until) = self.walk.as_ref()?;
        (now < *until).then(|| Arc::clone(walk))
    }

    fn pauses(&self, now: Instant) -> bool {
        self.pause_until.is_some_and(|until| now < until)
    }

    fn end_walk(&mut self, found: Option<&Arc<Walk>>, began: Instant, now: Instant) {
        let mut pause = PAUSE_MIN;
        if let Some(walk) = found {
            pause = (now.saturating_duration_since(began) * PAUSE).max(PAUSE_MIN);
            // Without products it may be older than an import that has just ended.
            let used_for = if walk.total() == 0 { pause } else { USED_FOR_MIN.max(pause * 2) };
            self.walk = Some((Arc::clone(walk), now + used_for));
        }
        self.pause_until = Some(now + pause);
    }
}

impl Products {
    pub(crate) fn new(stores: Data<StoreClients>, site: Data<Site>) -> Self {
        Self { stores, site, kept: Default::default(), walking: Arc::default(), dating: Mutex::default() }
    }

    /// A page of the list, the most commented products first. Page 1 exists even without products.
    ///
    /// # Errors
    /// [`ApiError::PastTheEnd`], and [`ApiError::IndexUnavailable`].
    pub(crate) async fn page(self: Arc<Self>, number: PageNumber, size: PageSize) -> Result<ProductPage, ApiError> {
        let walk = self.walk().await?;
        let total = walk.total();
        let (page, total_pages) = (number.get(), size.total_pages(total));
        if page > total_pages {
            return Err(ApiError::PastTheEnd { page, total_pages });
        }
        let first = number.skip(size);
        let places = first..first.saturating_add(size.get().into());
        Ok(ProductPage { walk, places, total, total_pages })
    }

    /// The last walk, or a new one. A walk that is older than its pause has the next one begin, without waiting for it.
    ///
    /// # Errors
    /// [`ApiError::IndexUnavailable`].
    pub(crate) async fn walk(self: Arc<Self>) -> Result<Arc<Walk>, ApiError> {
        let usable = self.kept.lock().usable(Instant::now());
        if let Some(usable) = usable {
            if let Ok(guard) = Arc::clone(&self.walking).try_lock_owned()
                && !self.kept.lock().pauses(Instant::now())
            {
                actix_web::rt::spawn(async move { self.begin_walk(guard).await });
            }
            return Ok(usable);
        }
        let guard = Arc::clone(&self.walking).lock_owned().await;
        // Another task may have walked meanwhile.
        if let Some(usable) = self.kept.lock().usable(Instant::now()) {
            return Ok(usable);
        }
        if self.kept.lock().pauses(Instant::now()) {
            return Err(ApiError::IndexUnavailable);
        }
        let walking = actix_web::rt::spawn(async move { self.begin_walk(guard).await });
        walking.await.map_err(ApiError::internal)?.ok_or(ApiError::IndexUnavailable)
    }

    /// Walks over all products. `None` when a partition is not ready.
    async fn begin_walk(&self, _alone: OwnedMutexGuard<()>) -> Option<Arc<Walk>> {
        let began = Instant::now();
        let walk = match self.read().await {
            Some(partitions) => self.sorted(partitions).await.map(Arc::new),
            None => None,
        };
        self.kept.lock().end_walk(walk.as_ref(), began, Instant::now());
        walk
    }

    /// Sorts the list on a thread for such work: a million products take about a second, and this thread answers requests.
    /// `None` when that fails, which is logged.
    async fn sorted(&self, partitions: Vec<(IndexPartition, PartitionSitemap)>) -> Option<Walk> {
        let before = self.kept.lock().usable(Instant::now());
        let sorted = actix_web::web::block(move || Walk::new(partitions, before.as_deref())).await;
        sorted.inspect_err(|error| tracing::error!(%error, "the list of products was not sorted")).ok()
    }

    async fn read(&self) -> Option<Vec<(IndexPartition, PartitionSitemap)>> {
        let site_bytes = self.site.public_url.to_string().len();
        let reads = stream::iter(self.stores.partitions())
            .map(async |partition| (partition, self.products_of(partition).await))
            .buffered(PARTITIONS_TOGETHER);
        let mut reads = std::pin::pin!(reads);
        let (mut partitions, mut listings) = (Vec::new(), 0);
        while let Some((partition, products)) = reads.next().await {
            let products: Vec<Product> = products?
                .into_iter()
                .take_while(|product| {
                    listings += product.listings();
                    listings <= LISTINGS_MAX
                })
                .collect();
            if !products.is_empty() {
                partitions.push((partition, PartitionSitemap::new(products, site_bytes)));
            }
            if listings > LISTINGS_MAX {
                tracing::warn!("there are more products than a walk holds; the others are in neither list nor sitemap");
                break;
            }
        }
        Some(partitions)
    }

    /// The products of a partition that have comments, in ascending order of their ids.
    async fn products_of(&self, partition: IndexPartition) -> Option<Vec<Product>> {
        let mut products = Vec::new();
        for named in self.stores.products(partition).await?.chunks(PRODUCTS_TOGETHER) {
            let settled_at = Some(self.stores.settled_at());
            let query = |product| RankedQuery {
                settled_at,
                stats: StatsWanted::WithLanguages,
                ..RankedQuery::new(product, &Filter::ANY)
            };
            let counted = self.stores.ranked(StoreCall::Catalog, &named.iter().map(query).collect::<Vec<_>>()).await?;
            let counted = named.iter().zip(counted);
            // A product without comments is about to be removed.
            products.extend(counted.filter_map(|(id, of)| Product::new(&self.site, id, of.stats?, of.settled)));
        }
        Some(products)
    }

    /// The dates of a part of a partition's sitemap, counted from 0. They are read once for as long as the partition does
    /// not change. `None` while the page index is away.
    pub(crate) async fn dates(&self, walk: &Walk, partition: u16, part: usize) -> Option<Arc<Dates>> {
        let (_, sitemap) = walk.partitions.iter().find(|(found, _)| found.number() == partition)?;
        if let Some(known) = sitemap.dates(part) {
            return Some(known);
        }
        // One request at a time asks for so many ranks.
        let _alone = self.dating.lock().await;
        if let Some(known) = sitemap.dates(part) {
            return Some(known);
        }
        let pages = sitemap.pages(part)?;
        let newest: Vec<RankedQuery<'_>> = pages.iter().map(ListedPage::newest).collect();
        let newest = self.stores.ranked(StoreCall::Catalog, &newest).await?;
        let date = |Ranked { comments, .. }: Ranked| Some(comments.first()?.created_at);
        let dates = Arc::new(newest.into_iter().map(date).collect::<Dates>());
        if walk.dated.fetch_add(dates.len(), Ordering::Relaxed) < DATES_MAX {
            sitemap.keep_dates(part, &dates);
        }
        Some(dates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_is_followed_by_a_pause_of_a_hundred_times_its_duration() {
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        let mut kept = Kept::default();
        let some = Arc::new(Walk { most_commented: vec![[0, 0]], ..Walk::default() });
        assert!(kept.usable(began).is_none() && !kept.pauses(began));
        kept.end_walk(Some(&some), began, after(8));
        assert!(kept.pauses(after(807)) && !kept.pauses(after(808)));
        // Without another walk, this one is used for two pauses.
        assert!(kept.usable(after(1_607)).is_some() && kept.usable(after(1_608)).is_none());
        // A walk that fails pauses for a second, and the last one stays in use.
        kept.end_walk(None, after(890), after(900));
        assert!(kept.pauses(after(900)) && !kept.pauses(after(901)) && kept.usable(after(900)).is_some());
        // A quick walk is used for ten minutes.
        kept.end_walk(Some(&some), after(2_000), after(2_000));
        assert!(kept.usable(after(2_599)).is_some() && kept.usable(after(2_600)).is_none());
        // One that found nothing is used until the next may begin.
        kept.end_walk(Some(&Arc::default()), after(3_000), after(3_000));
        assert!(kept.usable(after(3_000)).is_some() && kept.usable(after(3_001)).is_none());
        assert!(!kept.pauses(after(3_001)));
    }
}
