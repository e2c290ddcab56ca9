//! The products that have comments, for the list of products and the sitemap.
//!
//! **Invariant:** every step also reads the partition's marker, and all steps see the same marker. So an answer never
//! comes from a partition that was lost or rebuilt during the read.
//!
//! **Invariant:** a step never blocks the server for long: it reads [`STEP`] names or sets, or the totals of
//! [`TOTALS_STEP`] products.

use std::collections::BTreeSet;

use model::{BaseSet, Filter, Language, Malformed, ProductId, Rating, RatingCounts, Timestamp};
use page_index::{IndexAnswer, IndexPartition, ListedProduct, NotReady, Stats};
use process::{Store, StoreError};
use redis::FromRedisValue;

use crate::{
    RedisIndex, connection::Routed, keys::Keys, markers::marker_of_fields, reads::timestamp_of, stats::rating_counts,
};

/// Number of names or sets that one call reads: some tenths of a millisecond of the server's time.
const STEP: usize = 1_000;

/// Number of products whose totals one call reads, with ten commands each: about a millisecond of the server's time.
const TOTALS_STEP: usize = 100;

/// Maximum number of starts of a read. It starts over when the watermark moves meanwhile: in a rebuild, and whenever
/// repair advances.
const BEGUN_MAX: usize = 3;

/// Why a read ended early.
enum Interrupted {
    /// Readers must not believe the partition.
    NotReady(NotReady),
    /// The marker is not the one that the first step saw.
    MarkerChanged,
    Failed(StoreError),
}

impl From<StoreError> for Interrupted {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl From<Malformed> for Interrupted {
    fn from(error: Malformed) -> Self {
        Self::Failed(error.into())
    }
}

/// A read of a partition, in several steps.
struct Reading<'index> {
    index: &'index RedisIndex,
    partition: IndexPartition,
    table_id: &'index str,
    now: Timestamp,
    /// The watermark that the first step saw.
    watermark: Option<Timestamp>,
}

impl RedisIndex {
    /// See [`page_index::Reads::products`].
    pub(crate) async fn products_of_partition(
        &self,
        partition: IndexPartition,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<Vec<ListedProduct>>, StoreError> {
        for _ in 0..BEGUN_MAX {
            let mut reading = Reading { index: self, partition, table_id, now, watermark: None };
            match reading.listed_products().await {
                Ok(products) => return Ok(Ok(products)),
                Err(Interrupted::NotReady(not_ready)) => return Ok(Err(not_ready)),
                Err(Interrupted::Failed(error)) => return Err(error),
                Err(Interrupted::MarkerChanged) => {}
            }
        }
        let problem = "the partition's marker changes faster than its products are read";
        Err(StoreError::unavailable(Store::PageIndex, problem))
    }
}

impl<'index> Reading<'index> {
    async fn listed_products(&mut self) -> Result<Vec<ListedProduct>, Interrupted> {
        let mut listed = Vec::new();
        for products in self.products().await?.chunks(STEP) {
            let totals = self.totals(products).await?;
            let languages = self.languages(products).await?;
            let sets = products.iter().zip(&languages).flat_map(|(product, languages)| {
                languages.iter().flat_map(|language| Filter::new(Some(language.clone()), None).base_sets(product))
            });
            let sizes = self.sizes(sets.collect()).await?;
            let mut of_languages = sizes.chunks(Rating::ALL.len()).map(|sizes| sizes.iter().sum::<u64>());
            for ((product, totals), languages) in products.iter().zip(totals).zip(languages) {
                let by_language = languages.into_iter().zip(of_languages.by_ref()).filter(|(_, total)| *total > 0);
                let by_language = by_language.collect();
                // Without a comment, the product is about to be removed.
                let Some((by_rating, last_commented_at)) = totals else { continue };
                listed.push(ListedProduct { product: product.clone(), by_rating, last_commented_at, by_language });
            }
        }
        listed.sort_by(|a, b| a.product.cmp(&b.product));
        Ok(listed)
    }

    /// The totals of each product, and the creation time of its newest comment; `None` without comments.
    async fn totals(&mut self, products: &[ProductId]) -> Result<Vec<Option<(RatingCounts, Timestamp)>>, Interrupted> {
        let mut totals = Vec::with_capacity(products.len());
        for products in products.chunks(TOTALS_STEP) {
            let (counts, newest): (Vec<Vec<u64>>, Vec<Option<f64>>) = self.ask(self.totals_call(products)).await?;
            for (counts, newest) in counts.into_iter().zip(newest) {
                let of = newest.map(|newest| Ok::<_, StoreError>((rating_counts(counts)?, timestamp_of(newest)?)));
                totals.push(of.transpose()?);
            }
        }
        Ok(totals)
    }

    fn totals_call(&self, products: &[ProductId]) -> Routed<'index> {
        let index = self.index;
        let mut keys = vec![index.keys.marker(self.partition)];
        for product in products {
            let stem = index.keys.stem(self.partition, &product.escaped());
            keys.extend(Filter::ANY.base_sets(product).iter().map(|set| Keys::base_set_at(&stem, set)));
        }
        Routed::call(&index.scripts.totals, &keys)
    }

    /// The names of the products, also of those that have no comment left.
    async fn products(&mut self) -> Result<Vec<ProductId>, Interrupted> {
        let index = self.index;
        let keys = [index.keys.marker(self.partition), index.keys.products(self.partition)];
        let (mut products, mut cursor) = (BTreeSet::new(), "0".to_owned());
        loop {
            let call = Routed::call(&index.scripts.products, &keys).arg(&cursor).arg(STEP);
            let (next, found): (String, Vec<String>) = self.ask(call).await?;
            products.extend(found);
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
        Ok(products.iter().map(|escaped| product_of(escaped)).collect::<Result<_, _>>()?)
    }

    /// The first languages of each product, in the order of their tags.
    async fn languages(&mut self, products: &[ProductId]) -> Result<Vec<Vec<Language>>, Interrupted> {
        let index = self.index;
        let mut keys = vec![index.keys.marker(self.partition)];
        keys.extend(products.iter().map(|product| index.keys.languages(product)));
        let found: Vec<Vec<String>> = self.ask(Routed::call(&index.scripts.languages, &keys)).await?;
        let of_product = |tags: Vec<String>| {
            let mut languages: Vec<Language> = tags.iter().map(|tag| language_of(tag)).collect::<Result<_, _>>()?;
            languages.sort();
            languages.truncate(Stats::LANGUAGES_MAX);
            Ok::<_, Malformed>(languages)
        };
        Ok(found.into_iter().map(of_product).collect::<Result<_, _>>()?)
    }

    /// The sizes of sets, in their order.
    async fn sizes(&mut self, sets: Vec<BaseSet>) -> Result<Vec<u64>, Interrupted> {
        let index = self.index;
        let mut sizes = Vec::with_capacity(sets.len());
        for some in sets.chunks(STEP) {
            let mut keys = vec![index.keys.marker(self.partition)];
            keys.extend(some.iter().map(|set| index.keys.base_set(set)));
            sizes.extend(self.ask::<Vec<u64>>(Routed::call(&index.scripts.sizes, &keys)).await?);
        }
        Ok(sizes)
    }

    /// Takes a step: a script that returns the marker's fields and an answer.
    async fn ask<T: FromRedisValue>(&mut self, call: Routed<'_>) -> Result<T, Interrupted> {
        type Answer<T> = (Option<String>, Option<i64>, Option<i64>, T);
        let (table, watermark, confirmed, answer): Answer<T> = self.index.ask(call).await?;
        let marker = marker_of_fields((table, watermark, confirmed));
        let watermark = self.index.judge(marker, self.table_id, self.now).map_err(Interrupted::NotReady)?;
        if *self.watermark.get_or_insert(watermark) != watermark {
            return Err(Interrupted::MarkerChanged);
        }
        Ok(answer)
    }
}

fn product_of(escaped: &str) -> Result<ProductId, Malformed> {
    ProductId::from_escaped(escaped).map_err(|error| Malformed::new("set of products", error.to_string()))
}

fn language_of(tag: &str) -> Result<Language, Malformed> {
    Language::parse(tag).map_err(|error| Malformed::new("set of languages", error.to_string()))
}
