//! The products that have comments with their totals, from which the sitemap and the product lists are made.
//!
//! **Invariant:** every step also reads the partition's marker, and all steps see the same marker. So an answer never
//! comes from a partition that was lost or rebuilt during the read.
//!
//! **Invariant:** a step never blocks the server for long: it reads [`NAMES_STEP`] names, or the totals of [`TOTALS_STEP`]
//! products.

use std::collections::BTreeSet;

use model::{BaseSet, Malformed, ProductId, ProductTotals, Rating, Timestamp};
use page_index::{IndexAnswer, IndexPartition};
use process::{Store, StoreError};

use crate::{RedisIndex, connection::Routed, keys::Keys, markers::marker_of_fields, reads::timestamp_of};

/// Number of names that one call reads: some tenths of a millisecond of the server's time.
const NAMES_STEP: usize = 1_000;

/// Number of products whose totals one call reads, with six commands each: about a millisecond of the server's time.
const TOTALS_STEP: usize = 100;

/// Maximum number of starts of a read. It starts over when the watermark moves meanwhile: in a rebuild, and whenever
/// repair advances.
const BEGUN_MAX: usize = 3;

impl RedisIndex {
    /// See [`page_index::Reads::product_totals`].
    pub(crate) async fn totals_of_partition(
        &self,
        partition: IndexPartition,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<Vec<ProductTotals>>, StoreError> {
        'begin: for _ in 0..BEGUN_MAX {
            let (mut products, mut cursor, mut first) = (BTreeSet::new(), "0".to_owned(), None);
            loop {
                let keys = [self.keys.marker(partition), self.keys.products(partition)];
                let call = Routed::call(&self.scripts.products, &keys).arg(&cursor).arg(NAMES_STEP);
                type Answer = (Option<String>, Option<i64>, Option<i64>, String, Vec<String>);
                let (table, watermark, vouched, next, found): Answer = self.ask(call).await?;
                match self.judge(marker_of_fields((table, watermark, vouched)), table_id, now) {
                    Err(not_ready) => return Ok(Err(not_ready)),
                    Ok(watermark) if *first.get_or_insert(watermark) != watermark => continue 'begin,
                    Ok(_) => {}
                }
                products.extend(found);
                cursor = next;
                if cursor == "0" {
                    break;
                }
            }
            let mut product_totals = Vec::with_capacity(products.len());
            let products: Vec<ProductId> =
                products.iter().map(|escaped| product_of(escaped)).collect::<Result<_, _>>()?;
            for some in products.chunks(TOTALS_STEP) {
                type Answer = (Option<String>, Option<i64>, Option<i64>, Vec<Vec<u64>>, Vec<Option<f64>>);
                let (table, watermark, vouched, totals, newest): Answer =
                    self.ask(self.totals_call(partition, some)).await?;
                match self.judge(marker_of_fields((table, watermark, vouched)), table_id, now) {
                    Err(not_ready) => return Ok(Err(not_ready)),
                    Ok(watermark) if first != Some(watermark) => continue 'begin,
                    Ok(_) => {}
                }
                for ((product, by_rating), newest) in some.iter().zip(totals).zip(newest) {
                    // Without a comment, the product is about to be removed.
                    let Some(newest) = newest else { continue };
                    let by_rating = by_rating.try_into().map_err(|_| Malformed::new("totals", "not five numbers"))?;
                    let last_commented_at = timestamp_of(newest)?;
                    product_totals.push(ProductTotals { product: product.clone(), by_rating, last_commented_at });
                }
            }
            product_totals.sort_by(|a, b| a.product.cmp(&b.product));
            return Ok(Ok(product_totals));
        }
        Err(StoreError::unavailable(
            Store::PageIndex,
            "the partition's marker changes faster than its products are read",
        ))
    }

    fn totals_call(&self, partition: IndexPartition, products: &[ProductId]) -> Routed<'_> {
        let mut keys = vec![self.keys.marker(partition)];
        let of_ratings = Rating::ALL.map(Some).into_iter().chain([None]);
        for product in products {
            let stem = self.keys.stem(partition, &product.escaped());
            let set = |rating| BaseSet { product: product.clone(), language: None, rating };
            keys.extend(of_ratings.clone().map(|rating| Keys::base_set_at(&stem, &set(rating))));
        }
        Routed::call(&self.scripts.totals, &keys)
    }
}

fn product_of(escaped: &str) -> Result<ProductId, Malformed> {
    ProductId::from_escaped(escaped).map_err(|error| Malformed::new("set of products", error.to_string()))
}
