//! What readers ask: where pages start, how far the ranks of a filter reach, and where a comment stands.

use async_trait::async_trait;
use model::{Cd, CommentId, Filter, Language, Malformed, Order, ProductId, Timestamp};
use page_index::{
    Ends, Extent, IndexAnswer, IndexPartition, ListedProduct, PageStart, PageStartQuery, Position, ProductRank, Reads,
    Stats, Summary,
};
use process::StoreError;

use crate::{RedisIndex, connection::Routed, markers::marker_of_fields};

/// The comment at the start of a page that a call returns.
#[derive(Debug, Clone, Copy)]
enum Reach {
    JustBefore,
    First,
}

/// Number of ranks that one call looks up: some milliseconds of the server's time.
const RANKS_STEP: usize = 50;

/// The script's answer: the marker, the total, a member with its score, and the newest score.
type StartAnswer = (Option<String>, Option<i64>, Option<i64>, u64, Option<String>, Option<f64>, Option<f64>);

#[async_trait]
impl Reads for RedisIndex {
    async fn page_start(
        &self,
        query: &PageStartQuery<'_>,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<PageStart>, StoreError> {
        let answer = self.ask(self.start_call(query, Reach::JustBefore)).await?;
        self.read_start(answer, query, table_id, now)
    }

    async fn comments_of_page(
        &self,
        query: &PageStartQuery<'_>,
        count: u64,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<Vec<Cd>>, StoreError> {
        let first_at = |skip| self.start_call(&PageStartQuery { skip, ..query.clone() }, Reach::First);
        let calls = (query.skip..query.skip.saturating_add(count)).map(first_at);
        let starts = self.starts(calls, query, table_id, now).await?;
        Ok(starts.map(|starts| starts.into_iter().filter_map(|start| start.before).collect()))
    }

    async fn extent(
        &self,
        query: &PageStartQuery<'_>,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<Extent>, StoreError> {
        let first_in = |order| self.start_call(&PageStartQuery { skip: 0, order, ..query.clone() }, Reach::First);
        let starts = self.starts([Order::Newest, Order::Oldest].map(first_in), query, table_id, now).await?;
        Ok(starts.map(|starts| {
            let total = starts.iter().map(|start| start.total).max().unwrap_or(0);
            let ends: Vec<Cd> = starts.into_iter().filter_map(|start| start.before).collect();
            let ends = ends.try_into().ok().map(|[newest, oldest]: [Cd; 2]| Ends { newest, oldest });
            Extent { total, ends }
        }))
    }

    async fn position(
        &self,
        product: &ProductId,
        filter: &Filter,
        cd: &Cd,
        order: Order,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<Position>, StoreError> {
        let keys = self.keys_of(product, filter);
        let call = Routed::call(&self.scripts.position, &keys).arg(cd.id.as_str()).arg(cd.created_at.epoch_ms());
        type Answer = (Option<String>, Option<i64>, Option<i64>, u64, u64, u64);
        let (table, watermark, confirmed, indexed, preceding, present): Answer = self.ask(call).await?;
        Ok(self.judge(marker_of_fields((table, watermark, confirmed)), table_id, now).map(|_| {
            let total = (indexed + 1).saturating_sub(present);
            let rank = match order {
                Order::Newest => preceding,
                Order::Oldest => total.saturating_sub(1 + preceding),
            };
            Position { total, rank }
        }))
    }

    async fn stats(
        &self,
        product: &ProductId,
        filter: &Filter,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<Stats>, StoreError> {
        self.count(product, filter, table_id, now).await
    }

    async fn summaries(
        &self,
        products: &[ProductId],
        language: Option<&Language>,
        table_id: &str,
        now: Timestamp,
    ) -> Result<Vec<IndexAnswer<Summary>>, StoreError> {
        self.summarise(products, language, table_id, now).await
    }

    async fn products(
        &self,
        partition: IndexPartition,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<Vec<ListedProduct>>, StoreError> {
        self.products_of_partition(partition, table_id, now).await
    }

    async fn creation_times(
        &self,
        partition: IndexPartition,
        ranks: &[ProductRank<'_>],
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<Vec<Option<Timestamp>>>, StoreError> {
        let mut times = Vec::with_capacity(ranks.len());
        for some in ranks.chunks(RANKS_STEP) {
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
}

impl RedisIndex {
    fn keys_of(&self, product: &ProductId, filter: &Filter) -> Vec<String> {
        let sets = filter.base_sets(product);
        [self.marker_of(product)].into_iter().chain(sets.iter().map(|set| self.keys.base_set(set))).collect()
    }

    async fn starts<'scripts>(
        &self,
        calls: impl IntoIterator<Item = Routed<'scripts>>,
        query: &PageStartQuery<'_>,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<Vec<PageStart>>, StoreError> {
        let answers = self.ask_all(calls).await?.into_iter();
        let starts: Vec<IndexAnswer<PageStart>> =
            answers.map(|answer| self.read_start(answer, query, table_id, now)).collect::<Result<_, _>>()?;
        Ok(starts.into_iter().collect())
    }

    fn start_call(&self, query: &PageStartQuery<'_>, reach: Reach) -> Routed<'_> {
        Routed::call(&self.scripts.page_start, &self.keys_of(query.product, query.filter))
            .arg(query.skip)
            .arg(query.order.to_string())
            .arg(query.as_of.map_or(String::new(), |as_of| as_of.epoch_ms().to_string()))
            .arg(match reach {
                Reach::JustBefore => 1,
                Reach::First => 0,
            })
    }

    fn read_start(
        &self,
        (table, watermark, confirmed, total, member, score, newest): StartAnswer,
        query: &PageStartQuery<'_>,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<PageStart>, StoreError> {
        let watermark = match self.judge(marker_of_fields((table, watermark, confirmed)), table_id, now) {
            Ok(watermark) => watermark,
            Err(not_ready) => return Ok(Err(not_ready)),
        };
        // Without comments, the index has reached the watermark: the journal has been reconciled up to it.
        let newest = newest.map(timestamp_of).transpose()?.unwrap_or(watermark);
        let reached = query.as_of.unwrap_or(newest.min(now));
        let before = match (member, score) {
            (Some(member), Some(score)) => Some(cd_of(&member, score)?),
            _ => None,
        };
        Ok(Ok(PageStart { total, before, reached }))
    }

    /// Names each set once, although many ranks may be of one listing.
    fn times_call(&self, partition: IndexPartition, ranks: &[ProductRank<'_>]) -> Routed<'_> {
        let (mut keys, mut pairs) = (vec![self.keys.marker(partition)], Vec::with_capacity(ranks.len()));
        let (mut last, mut listings) = (None, 0);
        for at in ranks {
            if last != Some((at.product, at.language)) {
                last = Some((at.product, at.language));
                let sets = Filter::new(at.language.cloned(), None).base_sets(at.product);
                keys.extend(sets.iter().map(|set| self.keys.base_set(set)));
                listings += 1;
            }
            let rank = match at.order {
                Order::Newest => at.rank.to_string(),
                Order::Oldest => format!("-{}", at.rank.saturating_add(1)),
            };
            pairs.push((listings, rank));
        }
        let call = Routed::call(&self.scripts.creation_times, &keys);
        pairs.into_iter().fold(call, |call, (listing, rank)| call.arg(listing).arg(rank))
    }
}

fn cd_of(member: &str, score: f64) -> Result<Cd, StoreError> {
    let id = CommentId::parse(member).map_err(|error| Malformed::new("member", error.to_string()))?;
    Ok(Cd { created_at: timestamp_of(score)?, id })
}

#[expect(clippy::cast_possible_truncation, reason = "scores are whole milliseconds, exact in a double")]
pub(super) fn timestamp_of(score: f64) -> Result<Timestamp, StoreError> {
    Ok(Timestamp::from_epoch_ms(score as i64).map_err(|error| Malformed::new("score", error.to_string()))?)
}
