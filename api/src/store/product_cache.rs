//! The records of products, and those that were read last.
//!
//! A page view reads the record of its product, so without a cache it would cost another half read
//! unit. A record that cannot be read again stays in use: pages of a busy product keep its name
//! while the table is throttled.

use std::{collections::HashMap, sync::Arc, time::Duration};

use model::{ProductDetails, ProductId, ProductRecord, Revision};
use parking_lot::Mutex;
use process::StoreError;
use table::{ProductPut, WriteError};
use tokio::time::Instant;

use super::StoreClients;

/// Maximum number of products in the cache. Their records take some 2 MB, at their limits 30 MB.
/// Products without a record count too. A full cache forgets the half that was read first.
const PRODUCTS_MAX: usize = 4_096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KnownRecord {
    Record(Arc<ProductRecord>),
    None,
    Unreadable,
}

impl KnownRecord {
    pub(crate) fn record(&self) -> Option<&ProductRecord> {
        if let Self::Record(record) = self {
            Some(record)
        } else {
            None
        }
    }
}

impl From<Option<ProductRecord>> for KnownRecord {
    fn from(record: Option<ProductRecord>) -> Self {
        match record {
            Some(record) => Self::Record(Arc::new(record)),
            None => Self::None,
        }
    }
}

impl StoreClients {
    pub(crate) async fn product(
        &self,
        product: &ProductId,
    ) -> Result<Option<ProductRecord>, StoreError> {
        self.table.product(product).await
    }

    /// The record of a product as it was at most the maximum age ago. Where it cannot be read, an
    /// older one is used: a page is served without its product's name rather than not at all.
    pub(crate) async fn known_record(&self, product: &ProductId) -> KnownRecord {
        let (before, is_old) = self.records.get(product);
        if !is_old {
            return before;
        }
        let asked = Instant::now();
        match self.table.product_to_show(product).await {
            Ok(record) => {
                let known = KnownRecord::from(record);
                self.records.keep(product, known.clone(), asked);
                known
            }
            Err(error) => {
                tracing::warn!(%error, "the record of a product cannot be read");
                before
            }
        }
    }

    /// Whether a product has a record now. The answer may make a page 404, so a cached "none" is
    /// read again, strongly consistent. A record that cannot be read is not taken for a missing
    /// one.
    pub(crate) async fn has_record(&self, product: &ProductId) -> bool {
        if self.known_record(product).await != KnownRecord::None {
            return true;
        }
        let asked = Instant::now();
        let Ok(record) = self.product(product).await else {
            return true;
        };
        let has_record = record.is_some();
        self.records.keep(product, record.into(), asked);
        has_record
    }

    pub(crate) async fn put_product(
        &self,
        product: &ProductId,
        details: &ProductDetails,
        allows: impl Fn(Option<Revision>) -> bool,
    ) -> Result<ProductPut, WriteError> {
        let put = self.table.put_product(product, details, allows).await?;
        self.records
            .keep(product, Some(put.record.clone()).into(), Instant::now());
        Ok(put)
    }

    pub(crate) async fn delete_product(
        &self,
        product: &ProductId,
        allows: impl Fn(Option<Revision>) -> bool,
    ) -> Result<(), WriteError> {
        self.table.delete_product(product, allows).await?;
        self.records
            .keep(product, KnownRecord::None, Instant::now());
        Ok(())
    }
}

pub(super) struct ProductCache {
    known: Mutex<HashMap<ProductId, (Instant, KnownRecord)>>,
    max_age: Duration,
}

impl ProductCache {
    pub(super) fn new(max_age: Duration) -> Self {
        Self {
            known: Mutex::default(),
            max_age,
        }
    }

    /// The known record of a product, and whether it must be read again. If that fails, what is
    /// known is used.
    pub(super) fn get(&self, product: &ProductId) -> (KnownRecord, bool) {
        match self.known.lock().get(product) {
            Some((read, known)) => (known.clone(), read.elapsed() >= self.max_age),
            None => (KnownRecord::Unreadable, true),
        }
    }

    /// Keeps what was asked for, or written, at an instant. It replaces nothing that is younger: a
    /// slow read must not bring back what a write has changed meanwhile.
    pub(super) fn keep(&self, product: &ProductId, known: KnownRecord, at: Instant) {
        let mut all = self.known.lock();
        if all.get(product).is_some_and(|(kept, _)| *kept > at) {
            return;
        }
        if all.len() >= PRODUCTS_MAX && !all.contains_key(product) {
            let mut read: Vec<Instant> = all.values().map(|(read, _)| *read).collect();
            let (_, median, _) = read.select_nth_unstable(PRODUCTS_MAX / 2);
            all.retain(|_, (read, _)| *read > *median);
        }
        all.insert(product.clone(), (at, known));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(number: usize) -> ProductId {
        ProductId::parse(&format!("p{number}")).unwrap()
    }

    #[test]
    fn a_record_is_fresh_up_to_its_maximum_age_and_is_kept_beyond() {
        for (max_age, is_old) in [(Duration::from_secs(3_600), false), (Duration::ZERO, true)] {
            let cache = ProductCache::new(max_age);
            assert_eq!(cache.get(&product(1)), (KnownRecord::Unreadable, true));
            cache.keep(&product(1), KnownRecord::None, Instant::now());
            assert_eq!(cache.get(&product(1)), (KnownRecord::None, is_old));
        }
    }

    #[test]
    fn a_read_that_began_before_a_write_does_not_replace_what_was_written() {
        let cache = ProductCache::new(Duration::from_secs(3_600));
        let asked = Instant::now();
        cache.keep(
            &product(1),
            KnownRecord::None,
            asked + Duration::from_millis(1),
        );
        cache.keep(&product(1), KnownRecord::Unreadable, asked);
        assert_eq!(cache.get(&product(1)), (KnownRecord::None, false));
    }

    #[test]
    fn the_cache_has_a_bounded_number_of_products() {
        let cache = ProductCache::new(Duration::from_secs(3_600));
        for number in 0..3 * PRODUCTS_MAX {
            cache.keep(&product(number), KnownRecord::None, Instant::now());
            assert!(cache.known.lock().len() <= PRODUCTS_MAX);
        }
        // The last ones are there, the first ones are not.
        assert_eq!(
            cache.get(&product(3 * PRODUCTS_MAX - 2)),
            (KnownRecord::None, false)
        );
        assert_eq!(cache.get(&product(0)), (KnownRecord::Unreadable, true));
    }
}
