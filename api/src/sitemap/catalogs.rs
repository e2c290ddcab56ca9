//! What has been read of the page index lately, so that crawlers do not have it read again for every file.
//!
//! - How many parts each partition has, for the sitemap index: some bytes a partition.
//! - The catalogs of the partitions that were asked for last: [`CATALOGS_BYTES_MAX`] at most.
//!
//! **Invariant:** the page index is read by one task at a time, however many ask, and one partition after the other: so
//! beside what is kept there is one catalog in memory. The task goes on when whoever asked has gone, so that a site too
//! large to be read within one request is read all the same.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use actix_web::web;
use stores::page_index::IndexPartition;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::parts::Catalog;
use crate::{error::ApiError, state::State};

/// How long what was read is good: a sitemap may be that far behind. Crawlers fetch one some times a day.
const MAX_AGE: Duration = Duration::from_secs(600);

/// After a failure nobody asks for so long, so that requests do not queue up to fail one after another.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The most bytes of catalogs that are kept: some 300,000 products.
const CATALOGS_BYTES_MAX: usize = 32 << 20;

/// How many parts each partition that has any has.
type Parts = Vec<(u16, usize)>;

/// What has been read.
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
    /// How many parts each partition has.
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
        // Somebody else may have read it, or failed to, meanwhile.
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

    /// Keeps a catalog, and drops the oldest ones where there are too many.
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
