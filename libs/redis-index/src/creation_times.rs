//! The creation times of comments by their ranks, for the dates in the sitemap.

use model::{BaseSet, Order, Timestamp};
use page_index::{IndexAnswer, IndexPartition, ProductRank};
use process::StoreError;

use crate::{RedisIndex, connection::Routed, markers::marker_of_fields, reads::timestamp_of};

/// Number of ranks that one call looks up: some milliseconds of the server's time.
const STEP: usize = 1_000;

impl RedisIndex {
    pub(crate) async fn times_at(
        &self,
        partition: IndexPartition,
        ranks: &[ProductRank<'_>],
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<Vec<Option<Timestamp>>>, StoreError> {
        let mut times = Vec::with_capacity(ranks.len());
        for some in ranks.chunks(STEP) {
            type Answer = (Option<String>, Option<i64>, Option<i64>, Vec<Option<f64>>);
            let (table, watermark, confirmed, scores): Answer = self.ask(self.times_call(partition, some)).await?;
            if let Err(not_ready) = self.judge(marker_of_fields((table, watermark, confirmed)), table_id, now) {
                return Ok(Err(not_ready));
            }
            for score in scores {
                times.push(score.map(timestamp_of).transpose()?);
            }
        }
        Ok(Ok(times))
    }

    /// Names each set once, although many ranks may be of one listing.
    fn times_call(&self, partition: IndexPartition, ranks: &[ProductRank<'_>]) -> Routed<'_> {
        let (mut keys, mut pairs) = (vec![self.keys.marker(partition)], Vec::with_capacity(ranks.len()));
        let mut last = None;
        for at in ranks {
            if last != Some((at.product, at.language)) {
                last = Some((at.product, at.language));
                let set = BaseSet { product: at.product.clone(), language: at.language.cloned(), rating: None };
                keys.push(self.keys.base_set(&set));
            }
            let rank = match at.order {
                Order::Newest => at.rank.to_string(),
                Order::Oldest => format!("-{}", at.rank.saturating_add(1)),
            };
            pairs.push((keys.len() - 1, rank));
        }
        let call = Routed::call(&self.scripts.creation_times, &keys);
        pairs.into_iter().fold(call, |call, (set, rank)| call.arg(set).arg(rank))
    }
}
