//! The products that have comments, from which the sitemap is made.
//!
//! **Invariant:** every step also reads the partition's marker, and all steps see the same marker. So an answer never
//! comes from a partition that was lost or rebuilt during the read.
//!
//! **Invariant:** a step never blocks the server for long: it reads [`STEP`] products.

use std::collections::BTreeSet;

use model::{BaseSet, Malformed, ProductId, Timestamp};
use page_index::{IndexAnswer, IndexPartition, ProductTotal};
use process::{Store, StoreError};

use crate::{RedisIndex, connection::Routed, markers::marker_of_fields};

/// Number of products that one call reads: some tenths of a millisecond of the server's time.
const STEP: usize = 1_000;

/// Maximum number of starts of a read. It starts over when the watermark moves meanwhile: in a rebuild, and whenever
/// repair advances.
const BEGUN_MAX: usize = 3;

impl RedisIndex {
    /// The products of a partition that have comments, in ascending byte order of their ids. A product that is added or
    /// removed during the read may be included or not.
    ///
    /// # Errors
    /// The store's. Also [`StoreError::Unavailable`] when the partition's marker keeps changing.
    pub(crate) async fn totals_of_partition(
        &self,
        partition: IndexPartition,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<Vec<ProductTotal>>, StoreError> {
        'begin: for _ in 0..BEGUN_MAX {
            let (mut products, mut cursor, mut first) = (BTreeSet::new(), "0".to_owned(), None);
            loop {
                let keys = [self.keys.marker(partition), self.keys.products(partition)];
                let call = Routed::call(&self.scripts.products, &keys).arg(&cursor).arg(STEP);
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
            for some in products.chunks(STEP) {
                let mut keys = vec![self.keys.marker(partition)];
                keys.extend(some.iter().map(|product| {
                    self.keys.base_set(&BaseSet { product: product.clone(), language: None, rating: None })
                }));
                type Answer = (Option<String>, Option<i64>, Option<i64>, Vec<u64>);
                let (table, watermark, vouched, totals): Answer =
                    self.ask(Routed::call(&self.scripts.totals, &keys)).await?;
                match self.judge(marker_of_fields((table, watermark, vouched)), table_id, now) {
                    Err(not_ready) => return Ok(Err(not_ready)),
                    Ok(watermark) if first != Some(watermark) => continue 'begin,
                    Ok(_) => {}
                }
                let totals = some.iter().cloned().zip(totals).filter(|(_, total)| *total > 0);
                product_totals.extend(totals.map(|(product, total)| ProductTotal { product, total }));
            }
            product_totals.sort_by(|a, b| a.product.cmp(&b.product));
            return Ok(Ok(product_totals));
        }
        Err(StoreError::unavailable(
            Store::PageIndex,
            "the partition's marker changes faster than its products are read",
        ))
    }
}

fn product_of(escaped: &str) -> Result<ProductId, Malformed> {
    ProductId::from_escaped(escaped).map_err(|error| Malformed::new("set of products", error.to_string()))
}
