//! Caches content of the page index, so that crawlers do not cause a new read for every file.
//!
//! - The number of parts of each partition, for the sitemap index: a few bytes per partition.
//! - The products of the partitions requested last, and the dates of the parts requested: at most
//!   [`PRODUCTS_BYTES_MAX`]. A partition is dropped together with the dates of its parts.
//!
//! **Invariant:** only one task at a time reads the page index, one partition after the other, however many requests
//! wait. So memory holds only one partition's products besides the cached ones. The task continues after its requester
//! has gone. So a site that is too large to be read within one request is still read completely.

use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use actix_web::web;
use page_index::{IndexPartition, ProductRank};
use tokio::sync::Mutex;

use super::parts::{Dates, Listing, PartitionSitemap};
use crate::{error::ApiError, site::Site, store::StoreClients};

/// How long cached content is valid; a sitemap may be this old. Crawlers fetch one a few times a day.
const MAX_AGE: Duration = Duration::from_secs(600);

/// Pause after a failure, during which no request reads the index. Otherwise requests would queue up and fail one after
/// another.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Maximum size of cached products and dates in bytes: about 250,000 products of one page.
const PRODUCTS_BYTES_MAX: usize = 32 << 20;

/// The number of parts of each partition that has any.
type Parts = Vec<(u16, usize)>;

/// The cache.
pub(crate) struct Cache {
    stores: web::Data<StoreClients>,
    site: Site,
    contents: std::sync::Mutex<Contents>,
    reading: Arc<Mutex<()>>,
}

#[derive(Default)]
struct Contents {
    parts: Option<(Instant, Arc<Parts>)>,
    partitions: BTreeMap<IndexPartition, (Instant, Arc<PartitionSitemap>)>,
    failed: Option<Instant>,
}

impl Contents {
    /// Drops the oldest partitions while the cache is too large. Only the task that reads adds anything, so no size
    /// changes meanwhile.
    fn drop_oldest(&mut self) {
        let partitions = &mut self.partitions;
        let mut bytes: usize = partitions.values().map(|(_, sitemap)| sitemap.bytes()).sum();
        while bytes > PRODUCTS_BYTES_MAX
            && let Some(oldest) = partitions.iter().min_by_key(|(_, (read, _))| *read).map(|(partition, _)| *partition)
            && let Some((_, dropped)) = partitions.remove(&oldest)
        {
            bytes = bytes.saturating_sub(dropped.bytes());
        }
    }
}

impl Cache {
    pub(crate) fn new(stores: web::Data<StoreClients>, site: &Site) -> Self {
        Self { stores, site: site.clone(), contents: Default::default(), reading: Arc::default() }
    }

    /// The partitions of the page index.
    pub(super) fn partitions(&self) -> impl Iterator<Item = IndexPartition> + use<> {
        self.stores.partitions()
    }

    /// The number of parts of each partition.
    ///
    /// # Errors
    /// [`ApiError::IndexUnavailable`].
    pub(super) async fn parts(self: Arc<Self>) -> Result<Arc<Parts>, ApiError> {
        let cached = |contents: &Contents| fresh(contents.parts.as_ref());
        self.cached_or_read(cached, async |cache: &Self| {
            let mut parts = Vec::new();
            for partition in cache.partitions() {
                let sitemap = cache.read(partition).await?;
                if sitemap.parts() > 0 {
                    parts.push((partition.number(), sitemap.parts()));
                }
            }
            let parts = Arc::new(parts);
            cache.contents().parts = Some((Instant::now(), Arc::clone(&parts)));
            Some(parts)
        })
        .await
    }

    /// The products of a partition.
    ///
    /// # Errors
    /// [`ApiError::IndexUnavailable`].
    pub(super) async fn of_partition(
        self: Arc<Self>,
        partition: IndexPartition,
    ) -> Result<Arc<PartitionSitemap>, ApiError> {
        let cached = move |contents: &Contents| fresh(contents.partitions.get(&partition));
        self.cached_or_read(cached, async move |cache: &Self| cache.read(partition).await).await
    }

    /// The dates of a part of a partition's sitemap, counted from 0. They are kept for as long as that sitemap.
    ///
    /// # Errors
    /// [`ApiError::IndexUnavailable`].
    pub(super) async fn dates(
        self: Arc<Self>,
        partition: IndexPartition,
        sitemap: Arc<PartitionSitemap>,
        part: usize,
    ) -> Result<Arc<Dates>, ApiError> {
        let known = Arc::clone(&sitemap);
        let cached = move |_: &Contents| known.dates(part);
        self.cached_or_read(cached, async move |cache: &Self| {
            let pages = sitemap.pages(part)?;
            let newest: Vec<ProductRank<'_>> = pages.iter().map(|page| page.newest).collect();
            let dates = cache.stores.creation_times(partition, &newest).await?;
            let kept = sitemap.keep_dates(part, dates);
            cache.contents().drop_oldest();
            kept
        })
        .await
    }

    async fn cached_or_read<T: 'static>(
        self: Arc<Self>,
        cached: impl Fn(&Contents) -> Option<Arc<T>>,
        read: impl AsyncFnOnce(&Self) -> Option<Arc<T>> + 'static,
    ) -> Result<Arc<T>, ApiError> {
        if let Some(cached) = cached(&self.contents()) {
            return Ok(cached);
        }
        let guard = Arc::clone(&self.reading).lock_owned().await;
        // Another task may have read it, or failed, meanwhile.
        if let Some(cached) = cached(&self.contents()) {
            return Ok(cached);
        }
        if self.contents().failed.is_some_and(|failed| failed.elapsed() < RETRY_AFTER) {
            return Err(ApiError::IndexUnavailable);
        }
        let reading = actix_web::rt::spawn(async move {
            let _guard = guard;
            let found = read(&self).await;
            self.contents().failed = found.is_none().then(Instant::now);
            found
        });
        reading.await.map_err(ApiError::internal)?.ok_or(ApiError::IndexUnavailable)
    }

    /// Reads the products of a partition and caches them.
    async fn read(&self, partition: IndexPartition) -> Option<Arc<PartitionSitemap>> {
        let products = self.stores.product_languages(partition).await?;
        let listings = products.into_iter().flat_map(|product| Listing::of_product(&self.site, product)).collect();
        let site_bytes = self.site.public_url.to_string().len();
        let sitemap = Arc::new(PartitionSitemap::new(listings, self.site.settings.page_numbers, site_bytes));
        let mut contents = self.contents();
        contents.partitions.insert(partition, (Instant::now(), Arc::clone(&sitemap)));
        contents.drop_oldest();
        Some(sitemap)
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fresh<T>(cached: Option<&(Instant, Arc<T>)>) -> Option<Arc<T>> {
    cached.filter(|(read, _)| read.elapsed() < MAX_AGE).map(|(_, cached)| Arc::clone(cached))
}
