//! Maintains the product catalogue: lists the products that a run meets, and records what the list then covers.
//!
//! **Invariant:** a run extends the recorded coverage only after it has listed every product of that coverage itself
//! (`model::catalogue`; `tests/repair/catalogue.rs`).

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use model::{
    FilterKey, ProductId, Timestamp,
    catalogue::Catalogue,
    item::{attribute, text},
};
use process::{StoreError, now};
use serde_dynamo::Item;

use crate::runner::Run;

/// Maximum number of products that a run remembers as listed: about ten megabytes. Beyond it, some products are looked
/// up again.
const KNOWN_MAX: usize = 100_000;

/// Maximum number of tries to record the coverage when other runs write it concurrently.
const TRIES_MAX: usize = 5;

/// Lists products, each once as far as memory allows. A dry run lists none.
pub(crate) struct Listing<'run> {
    run: &'run Run<'run>,
    known: Mutex<HashSet<ProductId>>,
}

impl<'run> Listing<'run> {
    pub(crate) fn new(run: &'run Run<'run>) -> Self {
        Self { run, known: Mutex::default() }
    }

    /// Lists products.
    ///
    /// # Errors
    /// The table's. Some products may have been listed.
    pub(crate) async fn list(&self, products: impl IntoIterator<Item = ProductId>) -> Result<(), StoreError> {
        if !self.run.may_remember() {
            return Ok(());
        }
        let unknown: HashSet<ProductId> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            products.into_iter().filter(|product| !known.contains(product)).collect()
        };
        if unknown.is_empty() {
            return Ok(());
        }
        let unknown: Vec<ProductId> = unknown.into_iter().collect();
        self.run.job.table.list_products(&unknown).await?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() + unknown.len() > KNOWN_MAX {
            known.clear();
        }
        known.extend(unknown.into_iter().take(KNOWN_MAX));
        Ok(())
    }

    /// Records that every product is listed that the journal names from `from` until `to`.
    ///
    /// # Errors
    /// The table's.
    pub(crate) async fn followed(&self, table_id: &str, from: Timestamp, to: Timestamp) -> Result<(), StoreError> {
        self.say(|before| Catalogue::followed(before, table_id, from, to, now())).await
    }

    /// Records that a scan of the whole table listed every product. The scan saw all writes before `began`.
    ///
    /// # Errors
    /// The table's.
    pub(crate) async fn scanned(&self, table_id: &str, began: Timestamp) -> Result<(), StoreError> {
        self.say(|before| Catalogue::scanned(before, table_id, began, now())).await
    }

    /// Like [`Self::scanned`], but for scans of all segments. The first scan saw all writes before `began`.
    ///
    /// Records nothing unless the products of all writes since `began` are listed as well. Otherwise the next `recent`
    /// would have to read a week of the journal again. The next audit can record it instead.
    ///
    /// # Errors
    /// The table's.
    pub(crate) async fn audited(&self, table_id: &str, began: Timestamp) -> Result<(), StoreError> {
        let found = self.run.job.table.catalogue().await?;
        match found.is_some_and(|found| found.table == table_id && found.from <= began) {
            true => self.scanned(table_id, began).await,
            false => Ok(()),
        }
    }

    async fn say(&self, after: impl Fn(Option<Catalogue>) -> Catalogue) -> Result<(), StoreError> {
        let table = &self.run.job.table;
        for _ in 0..TRIES_MAX {
            if !self.run.may_remember() {
                return Ok(());
            }
            let before = table.catalogue().await?;
            let after = after(before.clone());
            if before.as_ref() == Some(&after) || table.replace_catalogue(before.as_ref(), &after).await? {
                return Ok(());
            }
        }
        // The previously recorded coverage still holds.
        self.run
            .ledger
            .add_note("what the product catalogue is worth was not written down: others kept writing it".to_owned());
        Ok(())
    }
}

/// The product of a primary item. Works also for an item that is otherwise unreadable.
pub(crate) fn product_of(item: &Item) -> Option<ProductId> {
    let sk = text(item, attribute::SK).filter(|sk| sk.ends_with(FilterKey::PRIMARY_SUFFIX))?;
    Some(FilterKey::parse(sk).ok()?.product)
}
