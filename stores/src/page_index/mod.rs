//! The page index: Redis sorted sets that give a comment's rank in every base set.
//!
//! - `keys`: the names of the keys.
//! - `readiness`: whether a partition may be believed.
//! - `edits`: writing; used by `page-indexer` and the repair job.
//! - `rebuild`: emptying the index, and marking it ready once it has been filled.
//! - `scripts`: the Lua behind it; `scripts/select.lua` finds a rank in a union of base sets.
//!
//! **Invariant:** an answer about ranks and totals comes together with the partition's marker, from one script, so
//! nobody concludes anything from a partition that is not ready.

mod edits;
mod keys;
mod readiness;
mod rebuild;
mod scripts;

use std::{sync::Arc, time::Duration};

use model::{BaseSet, Cd, CommentId, Filter, Instant, Language, Malformed, Order, ProductId, Rating};
use redis::{
    Client,
    aio::{ConnectionManager, ConnectionManagerConfig},
};

use crate::error::{Store, StoreError};
pub use keys::IndexPartition;
use keys::Keys;
use readiness::Marker;
pub use readiness::NotReady;
pub use rebuild::Rebuild;
use scripts::Scripts;

/// How the page index is reached.
#[derive(Clone)]
pub struct PageIndexConfig {
    /// `redis://` or `rediss://`, with user and password where needed; or `unix://`.
    pub url: String,
    /// What every key starts with.
    pub prefix: String,
    /// Into how many parts the index is split. It never changes during the life of an index.
    pub partitions: u16,
    /// The longest that one call may take.
    pub timeout: Duration,
    /// From which age of its watermark on a partition is not ready.
    pub max_age: Duration,
}

impl std::fmt::Debug for PageIndexConfig {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageIndexConfig").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl PageIndexConfig {
    /// The defaults: 256 partitions, half a second a call, a watermark of at most three hours, which is three runs
    /// of the hourly repair job.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            prefix: "pagemark".to_owned(),
            partitions: 256,
            timeout: Duration::from_millis(500),
            max_age: Duration::from_secs(3 * 3600),
        }
    }
}

/// The page index.
#[derive(Clone)]
pub struct PageIndex {
    connection: ConnectionManager,
    keys: Keys,
    scripts: Arc<Scripts>,
    timeout: Duration,
    max_age: Duration,
}

impl std::fmt::Debug for PageIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageIndex").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// The answer of a partition: what was asked for, or why the partition must not be believed.
pub type IndexAnswer<T> = Result<T, NotReady>;

/// Which page is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageStartQuery<'query> {
    /// The product.
    pub product: &'query ProductId,
    /// The filter.
    pub filter: &'query Filter,
    /// How many comments stand before the page.
    pub skip: u64,
    /// In which order.
    pub order: Order,
    /// Comments dated later do not count.
    pub as_of: Option<Instant>,
}

/// Where a page starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageStart {
    /// How many comments the filter matches.
    pub total: u64,
    /// The comment just before the page, `None` when the page starts at the beginning (or lies past the end).
    pub before: Option<Cd>,
}

/// Where a comment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// How many comments the filter matches, this one included.
    pub total: u64,
    /// How many of them precede it.
    pub rank: u64,
}

/// How many comments a product has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// By rating, all five of them.
    pub by_rating: Vec<(Rating, u64)>,
    /// By language, ascending by tag.
    pub by_language: Vec<(Language, u64)>,
    /// When the last was made.
    pub last_commented_at: Option<Instant>,
}

/// How often [`PageIndex::stats`] asks again because a language came or went meanwhile.
const STATS_TRIES_MAX: usize = 4;

impl PageIndex {
    /// A client of the page index; the connection is made when it is first needed, and again when it is lost.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when the URL is not one.
    pub fn connect(config: &PageIndexConfig) -> Result<Self, StoreError> {
        let manager = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(config.timeout))
            .set_response_timeout(Some(config.timeout))
            // A caller waits for one attempt to connect, not for a series of them.
            .set_number_of_retries(1)
            .set_min_delay(Duration::from_millis(50))
            .set_max_delay(Duration::from_millis(500));
        Ok(Self {
            connection: ConnectionManager::new_lazy_with_config(Client::open(config.url.as_str())?, manager)?,
            keys: Keys::new(&config.prefix, config.partitions),
            scripts: Arc::new(Scripts::new()),
            timeout: config.timeout,
            max_age: config.max_age,
        })
    }

    /// Where a page starts, and the total, read together with the marker in one round trip.
    ///
    /// # Errors
    /// The store's.
    pub async fn page_start(
        &self,
        query: &PageStartQuery<'_>,
        table_id: &str,
        now: Instant,
    ) -> Result<IndexAnswer<PageStart>, StoreError> {
        let mut call = self.scripts.page_start.prepare_invoke();
        call.key(self.marker_of(query.product));
        for set in query.filter.base_sets(query.product) {
            call.key(self.keys.base_set(&set));
        }
        call.arg(query.skip).arg(query.order.to_string());
        call.arg(query.as_of.map_or(String::new(), |as_of| as_of.epoch_ms().to_string()));
        type Answer = (Option<String>, Option<i64>, u64, Option<String>, Option<f64>);
        let (table, watermark, total, member, score): Answer =
            self.bounded(call.invoke_async(&mut self.connection())).await?;
        if let Err(not_ready) = self.judge(table, watermark, table_id, now) {
            return Ok(Err(not_ready));
        }
        let before = match (member, score) {
            (Some(member), Some(score)) => Some(cd_of(&member, score)?),
            _ => None,
        };
        Ok(Ok(PageStart { total, before }))
    }

    /// Where a comment stands under a filter that matches it. One that is not indexed yet is counted as if it were.
    ///
    /// # Errors
    /// The store's.
    pub async fn position(
        &self,
        product: &ProductId,
        filter: &Filter,
        cd: &Cd,
        order: Order,
        table_id: &str,
        now: Instant,
    ) -> Result<IndexAnswer<Position>, StoreError> {
        let mut call = self.scripts.position.prepare_invoke();
        call.key(self.marker_of(product));
        for set in filter.base_sets(product) {
            call.key(self.keys.base_set(&set));
        }
        call.arg(cd.id.as_str()).arg(cd.created_at.epoch_ms());
        type Answer = (Option<String>, Option<i64>, u64, u64, u64);
        let (table, watermark, indexed, preceding, present): Answer =
            self.bounded(call.invoke_async(&mut self.connection())).await?;
        Ok(self.judge(table, watermark, table_id, now).map(|_| {
            let total = (indexed + 1).saturating_sub(present);
            let rank = match order {
                Order::Newest => preceding,
                Order::Oldest => total.saturating_sub(1 + preceding),
            };
            Position { total, rank }
        }))
    }

    /// How many comments a product has, by rating (of one language, when `language` is given) and by language.
    ///
    /// # Errors
    /// The store's.
    pub async fn stats(
        &self,
        product: &ProductId,
        language: Option<&Language>,
        table_id: &str,
        now: Instant,
    ) -> Result<IndexAnswer<Stats>, StoreError> {
        let set = |language: Option<&Language>, rating| {
            self.keys.base_set(&BaseSet { product: product.clone(), language: language.cloned(), rating })
        };
        let mut languages: Vec<Language> = Vec::new();
        for _ in 0..STATS_TRIES_MAX {
            let mut call = self.scripts.stats.prepare_invoke();
            call.key(self.marker_of(product)).key(self.keys.languages(product));
            for rating in Rating::ALL {
                call.key(set(language, Some(rating)));
            }
            call.key(set(language, None));
            for known in &languages {
                call.key(set(Some(known), None));
            }
            type Answer = (Option<String>, Option<i64>, Vec<String>, Vec<u64>, Option<f64>, Vec<u64>);
            let (table, watermark, found, by_rating, last, by_language): Answer =
                self.bounded(call.invoke_async(&mut self.connection())).await?;
            if let Err(not_ready) = self.judge(table, watermark, table_id, now) {
                return Ok(Err(not_ready));
            }
            let mut found: Vec<Language> = found
                .iter()
                .map(|tag| Language::parse(tag).map_err(|error| Malformed::new("set of languages", error.to_string())))
                .collect::<Result<_, _>>()?;
            found.sort();
            if found != languages {
                languages = found;
                continue;
            }
            return Ok(Ok(Stats {
                by_rating: Rating::ALL.into_iter().zip(by_rating).collect(),
                by_language: languages.into_iter().zip(by_language).collect(),
                last_commented_at: last.map(instant_of).transpose()?,
            }));
        }
        Err(StoreError::unavailable(Store::PageIndex, "the product's languages change faster than they can be read"))
    }

    /// Whether each partition is ready, with its watermark.
    ///
    /// # Errors
    /// The store's.
    pub async fn readiness(
        &self,
        table_id: &str,
        now: Instant,
    ) -> Result<Vec<(IndexPartition, IndexAnswer<Instant>)>, StoreError> {
        let mut pipeline = redis::pipe();
        for partition in self.keys.partitions() {
            pipeline.cmd("HMGET").arg(self.keys.marker(partition)).arg("table").arg("watermark");
        }
        let markers: Vec<(Option<String>, Option<i64>)> =
            self.bounded(pipeline.query_async(&mut self.connection())).await?;
        let judged = markers.into_iter().map(|(table, watermark)| self.judge(table, watermark, table_id, now));
        Ok(self.keys.partitions().zip(judged).collect())
    }

    /// Whether the server answers.
    ///
    /// # Errors
    /// The store's.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let command = redis::cmd("PING");
        self.bounded(command.query_async::<()>(&mut self.connection())).await
    }

    fn connection(&self) -> ConnectionManager {
        self.connection.clone()
    }

    fn marker_of(&self, product: &ProductId) -> String {
        self.keys.marker(self.keys.partition_of(product))
    }

    fn judge(
        &self,
        table: Option<String>,
        watermark: Option<i64>,
        table_id: &str,
        now: Instant,
    ) -> IndexAnswer<Instant> {
        Marker { owner: table, watermark }.judge(&self.keys.owner(table_id), now, self.max_age)
    }

    /// Bounds a call, connecting included.
    async fn bounded<T>(&self, call: impl Future<Output = redis::RedisResult<T>>) -> Result<T, StoreError> {
        match tokio::time::timeout(self.timeout * 2, call).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(StoreError::unavailable(Store::PageIndex, "no answer in time")),
        }
    }
}

fn cd_of(member: &str, score: f64) -> Result<Cd, StoreError> {
    let id = CommentId::parse(member).map_err(|error| Malformed::new("member", error.to_string()))?;
    Ok(Cd { created_at: instant_of(score)?, id })
}

#[expect(clippy::cast_possible_truncation, reason = "scores are whole milliseconds, exact in a double")]
fn instant_of(score: f64) -> Result<Instant, StoreError> {
    Ok(Instant::from_epoch_ms(score as i64).map_err(|error| Malformed::new("score", error.to_string()))?)
}
