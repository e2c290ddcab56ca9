//! The four-index design behind a cache of pages: the money of Pagemark's Redis, spent on a cache.
//!
//! - A read asks Redis once, by a `GET`. The key is the filter and the cursor, the value the page as JSON. A miss adds
//!   the query, and a `SET` with an expiry. The reader waits for the `SET`.
//! - A hit is not parsed, in the cache's favour: an API can send the text as it is. Pagemark's page is decoded.
//! - **The hit rate is an assumption.** A fixed pattern decides which reads hit, so the rate is exact. Before a read that
//!   must miss, the page is removed, which is not timed.
//! - **Invalidation is not counted.** A write would have to remove cached pages of 32 filters, or readers would see old
//!   pages until they expire.
//! - Only pages that take one query are timed. A hit takes the same under every filter, and `reads` has a miss of several
//!   queries.

use anyhow::ensure;
use four_index::Cursor;
use model::Comment;
use redis::aio::MultiplexedConnection;
use serde_json::json;

use super::{
    contestants::{self, Ask, Reader},
    costs::Costs,
    reads::{Depth, is_one_query},
};
use crate::{
    options::Effort,
    report::{FOUR_INDEXES_CACHED, HITS_OF_TEN, PAGEMARK, Quantity, Report, Table, row},
    statistics::{Latencies, timed},
    workload::redis_connection,
};

/// Longer than any measurement.
const EXPIRY_S: u32 = 3_600;

/// A reader of the four-index design with a cache.
struct CachedReader<'reader> {
    reader: &'reader Reader,
    redis: MultiplexedConnection,
}

impl CachedReader<'_> {
    /// The page as text, and whether it came from the cache.
    async fn page(&mut self, key: &str, ask: &Ask) -> anyhow::Result<(String, bool)> {
        if let Some(page) = redis::cmd("GET").arg(key).query_async(&mut self.redis).await? {
            return Ok((page, true));
        }
        let page = text(&self.reader.four_index(ask, true).await?);
        redis::cmd("SET").arg(key).arg(&page).arg("EX").arg(EXPIRY_S).exec_async(&mut self.redis).await?;
        Ok((page, false))
    }

    async fn forget(&mut self, key: &str) -> anyhow::Result<()> {
        Ok(redis::cmd("DEL").arg(key).exec_async(&mut self.redis).await?)
    }
}

/// A page as JSON: what a cache stores, and what a site answers.
pub(crate) fn page_json(comments: &[Comment], next: Option<&Cursor>, total: Option<u64>) -> String {
    let comments = comments.iter().map(|comment| {
        json!({
            "id": comment.id, "language": comment.language, "rating": comment.rating, "revision": comment.revision,
            "created_at": comment.created_at, "text": comment.text, "attributes": comment.site.attributes,
        })
    });
    json!({ "comments": comments.collect::<Vec<_>>(), "next": next.map(Cursor::encode), "total": total }).to_string()
}

fn text(page: &four_index::Page) -> String {
    page_json(&page.comments, page.next.as_ref(), None)
}

/// Whether a read hits, if `hits` of ten do. They are spread evenly, and the first of ten reads misses.
fn is_hit(read: u32, hits: u32) -> bool {
    let hits_until = |place: u32| place * hits / 10;
    hits_until(read % 10 + 1) > hits_until(read % 10)
}

/// The latencies of a filter's middle page in Pagemark and behind a cache.
pub(super) struct CachedReading {
    filter: String,
    ratings: usize,
    pagemark: Latencies,
    /// For each of [`HITS_OF_TEN`].
    cached: [Latencies; HITS_OF_TEN.len()],
}

/// Reads the middle pages that take one query, in any language.
pub(super) async fn read<'costs>(
    reader: &Reader,
    redis_url: &str,
    costs: impl IntoIterator<Item = &'costs Costs>,
    load: Effort,
) -> anyhow::Result<Vec<CachedReading>> {
    let mut cached = CachedReader { reader, redis: redis_connection(redis_url).await? };
    let mut readings = Vec::new();
    for Costs { ask, depth, .. } in costs {
        let listing = &ask.listing;
        if *depth == Depth::Deep && contestants::is_any_language(listing) && is_one_query(listing) {
            readings.push(read_page(&mut cached, ask, load).await?);
        }
    }
    Ok(readings)
}

/// Reads in rounds in which Pagemark and the hit rates take turns. The first round warms up.
async fn read_page(cached: &mut CachedReader<'_>, ask: &Ask, load: Effort) -> anyhow::Result<CachedReading> {
    ensure!(load.a_half.is_multiple_of(10), "{} reads have no exact hit rate", load.a_half);
    let cursor = ask.cursor.as_ref().map(Cursor::encode).unwrap_or_default();
    let key = format!("page:{}:{cursor}", ask.listing.key);
    let expected = text(&cached.reader.four_index(ask, true).await?);
    let mut latencies = [Latencies::new()?, Latencies::new()?, Latencies::new()?];
    let mut pagemark = Latencies::new()?;
    for round in 0..=load.rounds {
        let behind_cache = HITS_OF_TEN.into_iter().zip(&mut latencies).map(|(hits, times)| (Some(hits), times));
        let mut turns: Vec<_> = [(None, &mut pagemark)].into_iter().chain(behind_cache).collect();
        let first = round as usize % turns.len();
        turns.rotate_left(first);
        for (hits, times) in turns {
            for read in 0..load.a_half {
                let took = match hits {
                    None => timed(cached.reader.pagemark(ask)).await?.1,
                    Some(hits) => {
                        if !is_hit(read, hits) {
                            cached.forget(&key).await?;
                        }
                        let ((page, has_hit), took) = timed(cached.page(&key, ask)).await?;
                        ensure!(
                            has_hit == is_hit(read, hits) && page == expected,
                            "{key}: a wrong page, or not a miss"
                        );
                        took
                    }
                };
                if round > 0 {
                    times.record(took);
                }
            }
        }
    }
    Ok(CachedReading {
        filter: contestants::name(&ask.listing),
        ratings: ask.listing.ratings(),
        pagemark,
        cached: latencies,
    })
}

impl CachedReading {
    fn by_design(&self) -> impl Iterator<Item = (&'static str, &Latencies)> {
        [(PAGEMARK, &self.pagemark)].into_iter().chain(FOUR_INDEXES_CACHED.into_iter().zip(&self.cached))
    }
}

/// The table: one row per filter and hit rate.
pub(super) fn table(name: &str, load: Effort, about: &str, readings: &[CachedReading]) -> Table {
    let Effort { rounds, a_half } = load;
    let about = format!(
        "The middle page, one client, {rounds} rounds of {a_half} reads of each in turn{about}. The cache is in Redis: a hit is \
         one GET, a miss adds the query and a SET. **The hit rate is an assumption**, and a fixed pattern makes it exact. \
         Removing cached pages after a write is not counted. With hits and misses the mean says more than the median."
    );
    let rows = readings.iter().flat_map(|reading| {
        reading.by_design().map(|(design, times)| {
            row![
                ("filter", reading.filter.as_str()),
                ("design", design),
                ("p50, us", times.p50_us()),
                ("mean, us", times.mean_us()),
                ("Pagemark's mean by this", reading.pagemark.mean_us() / times.mean_us()),
            ]
        })
    });
    Table::new(name, about, rows)
}

/// Reports the means with varying delays.
pub(super) fn numbers(report: &mut Report, readings: &[CachedReading]) {
    for reading in readings {
        let (one, any) = (Quantity::OneRatingPageDelayedMeanUs, Quantity::AnyRatingPageDelayedMeanUs);
        let quantity = if reading.ratings == 1 { one } else { any };
        for (design, times) in reading.by_design() {
            report.number(quantity, design, times.mean_us());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_hits_of_ten_reads_hit_and_the_first_misses() {
        for (hits, pattern) in [(0, ".........."), (5, ".x.x.x.x.x"), (9, ".xxxxxxxxx")] {
            let found: String = (0..10).map(|read| if is_hit(read, hits) { 'x' } else { '.' }).collect();
            assert_eq!(found, pattern);
            assert!((0..100).all(|read| is_hit(read, hits) == is_hit(read % 10, hits)));
        }
    }

    #[test]
    fn a_design_behind_a_cache_is_named_by_its_hits() {
        for (hits, design) in HITS_OF_TEN.into_iter().zip(FOUR_INDEXES_CACHED) {
            assert!(design.ends_with(&format!(", {} % hits", 10 * hits)), "{hits}: {design}");
        }
    }
}
