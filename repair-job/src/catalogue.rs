//! Keeping the product catalogue: listing the products that a run meets, and saying what the list is worth then.
//!
//! **Invariant:** what the list is worth is said only after every product that it vouches for has been listed, by the run
//! that has listed them (`model::catalogue`; `tests/repair/catalogue.rs`).

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use model::{
    FilterKey, Instant, ProductId,
    catalogue::Catalogue,
    item::{attribute, text},
};
use serde_dynamo::Item;
use stores::{StoreError, now};

use crate::{error::RepairError, job::Run};

/// How many products a run remembers as listed: some ten megabytes. Of more, some are looked up again.
const KNOWN_MAX: usize = 100_000;

/// How often it is said anew what the list is worth, when somebody else says so at the same time.
const TRIES_MAX: usize = 5;

/// Lists products, each once as far as it remembers. A run that may not write lists none.
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
    /// The table's; some may have been listed then.
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

    /// Says that every product has been listed that the journal names from `from` until `to`.
    ///
    /// # Errors
    /// The table's.
    pub(crate) async fn followed(&self, table_id: &str, from: Instant, to: Instant) -> Result<(), RepairError> {
        self.say(|before| Catalogue::followed(before, table_id, from, to, now())).await
    }

    /// Says that every product has been listed of a scan of the whole table, which saw all that was written before `began`.
    ///
    /// # Errors
    /// The table's.
    pub(crate) async fn scanned(&self, table_id: &str, began: Instant) -> Result<(), RepairError> {
        self.say(|before| Catalogue::scanned(before, table_id, began, now())).await
    }

    /// The same of scans of all segments, the first of which saw all that was written before `began`. Unless the products
    /// of what was written since then are listed as well, nothing is said: that would make the next `recent` look at a week
    /// again, and the next audit will do.
    ///
    /// # Errors
    /// The table's.
    pub(crate) async fn audited(&self, table_id: &str, began: Instant) -> Result<(), RepairError> {
        let found = self.run.job.table.catalogue().await?;
        match found.is_some_and(|found| found.table == table_id && found.from <= began) {
            true => self.scanned(table_id, began).await,
            false => Ok(()),
        }
    }

    async fn say(&self, after: impl Fn(Option<Catalogue>) -> Catalogue) -> Result<(), RepairError> {
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
        // What was said before still holds.
        self.run
            .add_note("what the product catalogue is worth was not written down: others kept writing it".to_owned());
        Ok(())
    }
}

/// The product of a primary item, also of one that cannot be read otherwise.
pub(crate) fn product_of(item: &Item) -> Option<ProductId> {
    let sk = text(item, attribute::SK).filter(|sk| sk.ends_with(FilterKey::PRIMARY_SUFFIX))?;
    Some(FilterKey::parse(sk).ok()?.product)
}
