//! The lists of products. They are made of the totals of all products, which the page index keeps anyway. So no write
//! maintains them, and they are as right as the page index is.
//!
//! **Invariant:** the lists come from a ready page index, every partition of it
//! (`without_a_ready_index_there_are_no_lists`).
//!
//! **Invariant:** one task at a time reads the totals, and reading takes at most a twentieth of the time
//! ([`READING_SHARE`]). So the lists of a small site are seconds old, and those of a large one do not keep its page index
//! busy. The task continues after its requester has gone.

use std::{
    sync::{Arc, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use actix_web::web::Data;
use futures_util::{StreamExt, TryStreamExt, stream};
use model::{PageNumber, PageSize, ProductLists, ProductSort, ProductTotals};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{error::ApiError, store::StoreClients};

/// The lists stay current for at least this long.
const CURRENT_MIN: Duration = Duration::from_secs(5);

/// And for at most this long, however slow reading was.
const CURRENT_MAX: Duration = Duration::from_secs(120);

/// The lists stay current for this many times as long as it took to read them.
const READING_SHARE: u32 = 20;

/// The lists are given out for this many times as long as they are current. After they stopped being current, a request
/// has them read again, and does not wait for it.
const USABLE: u32 = 2;

/// Pause after a failure, during which no request reads the index. Otherwise requests would queue up and fail one after
/// another.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How many partitions are read in parallel: enough to hide the round trips of many small ones.
const PARTITIONS_TOGETHER: usize = 8;

/// Maximum number of listed products: about 120 MB, and as much again while they are read.
const PRODUCTS_MAX: usize = 1_000_000;

/// The lists, kept for a short time.
pub(crate) struct ListedProducts {
    stores: Data<StoreClients>,
    kept: std::sync::Mutex<Kept>,
    reading: Arc<Mutex<()>>,
}

#[derive(Default)]
struct Kept {
    read: Option<Read>,
    failed: Option<Instant>,
}

/// Lists that were read.
struct Read {
    lists: Arc<ProductLists>,
    /// When reading began. The lists may lack whatever was indexed later.
    began: Instant,
    current_for: Duration,
}

impl Read {
    fn new(lists: ProductLists, began: Instant) -> Self {
        let current_for = (began.elapsed() * READING_SHARE).clamp(CURRENT_MIN, CURRENT_MAX);
        Self { lists: Arc::new(lists), began, current_for }
    }
}

impl Kept {
    /// The lists, if they are younger than this many times the time for which they are current.
    fn younger_than(&self, times: u32) -> Option<Arc<ProductLists>> {
        let read = self.read.as_ref().filter(|read| read.began.elapsed() < read.current_for * times)?;
        Some(Arc::clone(&read.lists))
    }

    fn has_just_failed(&self) -> bool {
        self.failed.is_some_and(|failed| failed.elapsed() < RETRY_AFTER)
    }
}

/// A page of a list.
#[derive(Debug)]
pub(crate) struct ProductPage {
    lists: Arc<ProductLists>,
    sort: ProductSort,
    skip: u64,
    size: PageSize,
    /// How many products have comments.
    pub(crate) total: u64,
    pub(crate) total_pages: u64,
}

impl ProductPage {
    /// The products of the page.
    pub(crate) fn products(&self) -> impl Iterator<Item = &ProductTotals> {
        self.lists.part(self.sort, self.skip, self.size.get().into())
    }
}

impl ListedProducts {
    pub(crate) fn new(stores: Data<StoreClients>) -> Self {
        Self { stores, kept: Default::default(), reading: Arc::default() }
    }

    /// A page of a list. Page 1 exists even without products.
    ///
    /// # Errors
    /// [`ApiError::PastTheEnd`], and [`ApiError::IndexUnavailable`].
    pub(crate) async fn page(
        self: Arc<Self>,
        sort: ProductSort,
        number: PageNumber,
        size: PageSize,
    ) -> Result<ProductPage, ApiError> {
        let lists = self.lists().await?;
        let total = u64::try_from(lists.len()).unwrap_or(u64::MAX);
        let (page, total_pages) = (number.get(), size.total_pages(total));
        if page > total_pages {
            return Err(ApiError::PastTheEnd { page, total_pages });
        }
        Ok(ProductPage { lists, sort, skip: number.skip(size), size, total, total_pages })
    }

    async fn lists(self: Arc<Self>) -> Result<Arc<ProductLists>, ApiError> {
        if let Some(current) = self.kept().younger_than(1) {
            return Ok(current);
        }
        let usable = self.kept().younger_than(USABLE);
        if let Some(usable) = usable {
            if let Ok(guard) = Arc::clone(&self.reading).try_lock_owned()
                && !self.kept().has_just_failed()
            {
                actix_web::rt::spawn(async move { self.read(guard).await });
            }
            return Ok(usable);
        }
        let guard = Arc::clone(&self.reading).lock_owned().await;
        // Another task may have read them, or failed, meanwhile.
        if let Some(usable) = self.kept().younger_than(USABLE) {
            return Ok(usable);
        }
        if self.kept().has_just_failed() {
            return Err(ApiError::IndexUnavailable);
        }
        let reading = actix_web::rt::spawn(async move { self.read(guard).await });
        reading.await.map_err(ApiError::internal)?.ok_or(ApiError::IndexUnavailable)
    }

    /// Reads the totals of all products. `None` when a partition is not ready.
    async fn read(&self, _alone: OwnedMutexGuard<()>) -> Option<Arc<ProductLists>> {
        let began = Instant::now();
        let totals = stream::iter(self.stores.partitions())
            .map(async |partition| self.stores.product_totals(partition).await.ok_or(()))
            .buffered(PARTITIONS_TOGETHER)
            .try_fold(Vec::new(), async |mut all, totals| {
                all.extend(totals);
                all.truncate(PRODUCTS_MAX);
                Ok(all)
            });
        let read = match totals.await {
            Ok(totals) => sorted(totals).await.map(|lists| Read::new(lists, began)),
            Err(()) => None,
        };
        let lists = read.as_ref().map(|read| Arc::clone(&read.lists));
        let failed = read.is_none().then(Instant::now);
        let mut kept = self.kept();
        kept.failed = failed;
        if read.is_some() {
            kept.read = read;
        }
        lists
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sorts the lists on a thread for such work: a million products take about a second, and this thread answers requests.
/// `None` when that fails, which is logged.
async fn sorted(totals: Vec<ProductTotals>) -> Option<ProductLists> {
    if totals.len() == PRODUCTS_MAX {
        tracing::warn!("the lists have as many products as there may be; others are not in them");
    }
    let sorted = actix_web::web::block(|| ProductLists::new(totals)).await;
    sorted.inspect_err(|error| tracing::error!(%error, "the lists of products were not sorted")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_stay_current_for_seconds_or_twenty_times_as_long_as_they_took() {
        let now = Instant::now();
        let Some(before) = now.checked_sub(Duration::from_secs(3)) else { return };
        let quick = Read::new(ProductLists::default(), now);
        assert_eq!(quick.current_for, CURRENT_MIN);
        let slow = Read::new(ProductLists::default(), before);
        assert!((60..=CURRENT_MAX.as_secs()).contains(&slow.current_for.as_secs()), "{:?}", slow.current_for);
        let kept = Kept { read: Some(Read { current_for: Duration::from_secs(2), ..slow }), failed: None };
        assert!(kept.younger_than(1).is_none() && kept.younger_than(USABLE).is_some());
        assert!(!kept.has_just_failed() && Kept { failed: Some(now), ..kept }.has_just_failed());
    }
}
