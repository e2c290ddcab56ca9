//! The products that have comments. One cached walk over the page index serves the list of products
//! and the sitemap.
//!
//! **Invariant:** a walk comes from a ready page index, every partition of it
//! (`without_stores_reading_is_503_and_never_404`).
//!
//! **Invariant:** one task at a time walks, and then pauses [`PAUSE`] times as long as it walked.
//! So a large site does not keep its page index busy. The task continues after its requester has
//! gone.

pub(crate) mod parts;

use std::{
    cmp::Reverse,
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
use tokio::{sync::Mutex, time::Instant};

use crate::{
    error::ApiError,
    site::Site,
    store::{
        StoreClients,
        kept::{Fresh, Kept},
    },
};
use parts::{CommentedProduct, Dates, PartitionSitemap};

/// A walk is followed by a pause of this many times its duration.
const PAUSE: u32 = 100;

/// The shortest pause.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// A walk is used for at least this long, and for at least two pauses. So the list and the sitemap
/// outlive a short absence of the page index.
const USED_FOR_MIN: Duration = Duration::from_secs(600);

/// How many partitions are read in parallel: enough to hide the round trips of many small ones.
const PARTITIONS_TOGETHER: usize = 8;

/// Number of products whose comments one call counts.
const PRODUCTS_TOGETHER: usize = 1_000;

/// Maximum number of listings of a walk: one for each product, and one for each language that
/// search engines may index. They take about 130 MB, and as much again while the next walk is under
/// way.
const LISTINGS_MAX: usize = 1_000_000;

/// Maximum number of pages of a walk whose dates are kept, in 32 MB. Dates of further parts are
/// read each time.
const DATES_MAX: usize = 2 << 20;

#[derive(Debug, Default)]
pub(crate) struct Walk {
    partitions: Vec<(IndexPartition, PartitionSitemap)>,
    /// The positions of the products in `partitions`: the most comments first, equal ones by their
    /// ids.
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
            for (product, position) in partition.products().iter().zip(0..) {
                products.push((product, [at, position]));
            }
        }
        products
            .sort_unstable_by_key(|(product, _)| (Reverse(product.by_rating.total()), &product.id));
        let most_commented = products.into_iter().map(|(_, position)| position).collect();
        Self {
            partitions,
            most_commented,
            dated: AtomicUsize::new(dated),
        }
    }

    pub(crate) fn total(&self) -> u64 {
        u64::try_from(self.most_commented.len()).unwrap_or(u64::MAX)
    }

    pub(crate) fn partitions(&self) -> impl Iterator<Item = (u16, &PartitionSitemap)> {
        self.partitions
            .iter()
            .map(|(partition, sitemap)| (partition.number(), sitemap))
    }

    /// The products on a page of the list, the most commented first.
    pub(crate) fn page(
        &self,
        number: PageNumber,
        size: PageSize,
    ) -> impl Iterator<Item = &CommentedProduct> {
        let before = usize::try_from(number.skip(size)).unwrap_or(usize::MAX);
        self.most_commented
            .iter()
            .skip(before)
            .take(size.get().into())
            .filter_map(|position| {
                let [partition, product] =
                    position.map(|position| usize::try_from(position).unwrap_or(usize::MAX));
                self.partitions.get(partition)?.1.products().get(product)
            })
    }
}

/// The last walk.
pub(crate) struct Products {
    stores: Data<StoreClients>,
    site: Data<Site>,
    walk: Arc<Kept<Arc<Walk>>>,
    dating: Mutex<()>,
}

impl Fresh<Arc<Walk>> {
    /// A walk that took so long.
    fn of_walk(walk: Arc<Walk>, took: Duration) -> Self {
        let pause = (took * PAUSE).max(PAUSE_MIN);
        // Without products it may be older than an import that has just ended.
        let used_for = if walk.total() == 0 {
            pause
        } else {
            USED_FOR_MIN.max(pause * 2)
        };
        Self {
            value: walk,
            pause,
            used_for,
        }
    }
}

impl Products {
    pub(crate) fn new(stores: Data<StoreClients>, site: Data<Site>) -> Self {
        Self {
            stores,
            site,
            walk: Kept::new(),
            dating: Mutex::default(),
        }
    }

    /// A walk whose list has this page. Page 1 exists even without products.
    ///
    /// # Errors
    /// [`ApiError::PastTheEnd`], and [`ApiError::IndexUnavailable`].
    pub(crate) async fn walk_with(
        self: Arc<Self>,
        number: PageNumber,
        size: PageSize,
    ) -> Result<Arc<Walk>, ApiError> {
        let walk = self.walk().await?;
        let page = number.get();
        let total_pages = size.total_pages(walk.total());
        if page > total_pages {
            Err(ApiError::PastTheEnd { page, total_pages })
        } else {
            Ok(walk)
        }
    }

    /// The last walk, or a new one. A walk that is older than its pause has the next one begin,
    /// without waiting for it.
    ///
    /// # Errors
    /// [`ApiError::IndexUnavailable`].
    pub(crate) async fn walk(self: Arc<Self>) -> Result<Arc<Walk>, ApiError> {
        let walk = self.walk.get(|| Arc::clone(&self).begin_walk()).await;
        walk.ok_or(ApiError::IndexUnavailable)
    }

    /// Walks over all products. `None` when a partition is not ready.
    async fn begin_walk(self: Arc<Self>) -> Option<Fresh<Arc<Walk>>> {
        let began = Instant::now();
        let partitions = self.read().await?;
        let walk = self.sorted(partitions).await?;
        Some(Fresh::of_walk(Arc::new(walk), began.elapsed()))
    }

    /// Sorts the list on a thread for such work: a million products take about a second, and this
    /// thread answers requests. `None` when that fails, which is logged.
    async fn sorted(&self, partitions: Vec<(IndexPartition, PartitionSitemap)>) -> Option<Walk> {
        let before = self.walk.usable();
        let sorted = actix_web::web::block(move || Walk::new(partitions, before.as_deref())).await;
        sorted
            .inspect_err(|error| tracing::error!(%error, "the list of products was not sorted"))
            .ok()
    }

    async fn read(&self) -> Option<Vec<(IndexPartition, PartitionSitemap)>> {
        let site_bytes = self.site.public_url.to_string().len();
        let reads = stream::iter(self.stores.partitions())
            .map(async |partition| (partition, self.products_of(partition).await))
            .buffered(PARTITIONS_TOGETHER);
        let mut reads = std::pin::pin!(reads);
        let mut partitions = Vec::new();
        let mut listings = 0;
        while let Some((partition, products)) = reads.next().await {
            let mut held = Vec::new();
            for product in products? {
                listings += product.listings();
                if listings > LISTINGS_MAX {
                    break;
                }
                held.push(product);
            }
            if !held.is_empty() {
                partitions.push((partition, PartitionSitemap::new(held, site_bytes)));
            }
            if listings > LISTINGS_MAX {
                tracing::warn!(
                    "there are more products than a walk holds; the others are in neither list nor sitemap"
                );
                break;
            }
        }
        Some(partitions)
    }

    /// The products of a partition that have comments, in ascending order of their ids.
    async fn products_of(&self, partition: IndexPartition) -> Option<Vec<CommentedProduct>> {
        let mut products = Vec::new();
        let named = self.stores.products(partition).await?;
        for ids in named.chunks(PRODUCTS_TOGETHER) {
            let settled_at = Some(self.stores.settled_at());
            let mut queries = Vec::with_capacity(ids.len());
            for id in ids {
                queries.push(RankedQuery {
                    settled_at,
                    stats: StatsWanted::WithLanguages,
                    ..RankedQuery::new(id, &Filter::ANY)
                });
            }
            let counted = self.stores.ranked("catalog", &queries).await?;
            for (id, of) in ids.iter().zip(counted) {
                let Some(stats) = of.stats else {
                    continue;
                };
                // A product without comments is about to be removed.
                products.extend(CommentedProduct::new(&self.site, id, stats, of.settled));
            }
        }
        Some(products)
    }

    /// The dates of a part of this sitemap of the walk, counted from 0. They are read once for as
    /// long as the partition does not change. `None` while the page index is away.
    pub(crate) async fn dates(
        &self,
        walk: &Walk,
        sitemap: &PartitionSitemap,
        part: usize,
    ) -> Option<Arc<Dates>> {
        let known = sitemap.dates(part)?;
        if known.get().is_some() {
            return known.get().cloned();
        }
        // One request at a time asks for so many ranks.
        let _alone = self.dating.lock().await;
        if known.get().is_some() {
            return known.get().cloned();
        }
        let mut queries = Vec::new();
        for page in sitemap.pages(part)? {
            queries.push(page.newest);
        }
        let newest = self.stores.ranked("catalog", &queries).await?;
        let mut dates = Dates::with_capacity(newest.len());
        for Ranked { comments, .. } in newest {
            dates.push(comments.first().map(|cd| cd.created_at));
        }
        let dates = Arc::new(dates);
        if walk.dated.fetch_add(dates.len(), Ordering::Relaxed) < DATES_MAX {
            known.get_or_init(|| Arc::clone(&dates));
        }
        Some(dates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pause after a walk that took so many seconds, and how long it is used, in seconds.
    fn ages(walk: &Arc<Walk>, took_seconds: u64) -> (u64, u64) {
        let fresh = Fresh::of_walk(Arc::clone(walk), Duration::from_secs(took_seconds));
        (fresh.pause.as_secs(), fresh.used_for.as_secs())
    }

    #[test]
    fn a_walk_is_followed_by_a_pause_of_a_hundred_times_its_duration() {
        let some = Arc::new(Walk {
            most_commented: vec![[0, 0]],
            ..Walk::default()
        });
        // Without another walk, this one is used for two pauses.
        assert_eq!(ages(&some, 8), (800, 1_600));
        // A quick walk is used for ten minutes.
        assert_eq!(ages(&some, 0), (1, 600));
        // A walk that found nothing is used until the next may begin.
        assert_eq!(ages(&Arc::default(), 0), (1, 1));
    }
}
