//! Caches content of the page index, so that crawlers do not cause a new read for every file.
//!
//! - The number of parts of each partition, for the sitemap index: a few bytes per partition.
//! - The catalogs of the partitions requested last: at most [`CATALOGS_BYTES_MAX`].
//!
//! **Invariant:** only one task at a time reads the page index, one partition after the other, however many requests
//! wait. So memory holds only one catalog besides the cached ones. The task continues after its requester has gone. So
//! a site that is too large to be read within one request is still read completely.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use actix_web::web;
use page_index::IndexPartition;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::parts::Catalog;
use crate::{error::ApiError, store::State};

/// How long cached content is valid; a sitemap may be this old. Crawlers fetch one a few times a day.
const MAX_AGE: Duration = Duration::from_secs(600);

/// Pause after a failure, during which no request reads the index. Otherwise requests would queue up and fail one after
/// another.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Maximum size of cached catalogs in bytes: about 300,000 products.
const CATALOGS_BYTES_MAX: usize = 32 << 20;

/// The number of parts of each partition that has any.
type Parts = Vec<(u16, usize)>;

/// The cache.
#[derive(Default)]
pub(crate) struct Catalogs {
    kept: RwLock<Kept>,
    reading: Arc<Mutex<()>>,
}

#[derive(Default)]
struct Kept {
    parts: Option<(Instant, Arc<Parts>)>,
    catalogs: BTreeMap<IndexPartition, (Instant, Arc<Catalog>)>,
    failed: Option<Instant>,
}

impl Catalogs {
    /// The number of parts of each partition.
    ///
    /// # Errors
    /// [`ApiError::IndexUnavailable`].
    pub(super) async fn parts(state: &web::Data<State>) -> Result<Arc<Parts>, ApiError> {
        let known = |kept: &Kept| fresh(kept.parts.as_ref());
        Self::known_or_read(state, known, async |state: &State| {
            let mut parts = Vec::new();
            for partition in state.partitions() {
                let catalog = read(state, partition).await?;
                if catalog.parts() > 0 {
                    parts.push((partition.number(), catalog.parts()));
                }
                state.catalogs.keep(partition, catalog);
            }
            let parts = Arc::new(parts);
            state.catalogs.write().parts = Some((Instant::now(), Arc::clone(&parts)));
            Some(parts)
        })
        .await
    }

    /// The products of a partition.
    ///
    /// # Errors
    /// [`ApiError::IndexUnavailable`].
    pub(super) async fn of_partition(
        state: &web::Data<State>,
        partition: IndexPartition,
    ) -> Result<Arc<Catalog>, ApiError> {
        let known = move |kept: &Kept| fresh(kept.catalogs.get(&partition));
        Self::known_or_read(state, known, async move |state: &State| {
            let catalog = read(state, partition).await?;
            state.catalogs.keep(partition, Arc::clone(&catalog));
            Some(catalog)
        })
        .await
    }

    async fn known_or_read<T: 'static>(
        state: &web::Data<State>,
        known: impl Fn(&Kept) -> Option<Arc<T>>,
        read: impl AsyncFnOnce(&State) -> Option<Arc<T>> + 'static,
    ) -> Result<Arc<T>, ApiError> {
        if let Some(known) = known(&state.catalogs.kept()) {
            return Ok(known);
        }
        let guard: OwnedMutexGuard<()> = Arc::clone(&state.catalogs.reading).lock_owned().await;
        // Another task may have read it, or failed, meanwhile.
        if let Some(known) = known(&state.catalogs.kept()) {
            return Ok(known);
        }
        if state.catalogs.kept().failed.is_some_and(|failed| failed.elapsed() < RETRY_AFTER) {
            return Err(ApiError::IndexUnavailable);
        }
        let state = state.clone();
        let reading = actix_web::rt::spawn(async move {
            let _guard = guard;
            let found = read(&state).await;
            state.catalogs.write().failed = found.is_none().then(Instant::now);
            found
        });
        reading.await.map_err(ApiError::internal)?.ok_or(ApiError::IndexUnavailable)
    }

    /// Caches a catalog, and drops the oldest ones when the cache is full.
    fn keep(&self, partition: IndexPartition, catalog: Arc<Catalog>) {
        let mut kept = self.write();
        kept.catalogs.insert(partition, (Instant::now(), catalog));
        let mut bytes: usize = kept.catalogs.values().map(|(_, catalog)| catalog.bytes()).sum();
        while bytes > CATALOGS_BYTES_MAX {
            let oldest = kept.catalogs.iter().min_by_key(|(_, (read, _))| *read).map(|(partition, _)| *partition);
            let Some((_, dropped)) = oldest.and_then(|oldest| kept.catalogs.remove(&oldest)) else { return };
            bytes -= dropped.bytes();
        }
    }

    fn kept(&self) -> std::sync::RwLockReadGuard<'_, Kept> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Kept> {
        self.kept.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fresh<T>(known: Option<&(Instant, Arc<T>)>) -> Option<Arc<T>> {
    known.filter(|(read, _)| read.elapsed() < MAX_AGE).map(|(_, known)| Arc::clone(known))
}

async fn read(state: &State, partition: IndexPartition) -> Option<Arc<Catalog>> {
    let products = state.catalog(partition).await?;
    Some(Arc::new(Catalog::new(products, state.site.public_url.to_string().len())))
}
