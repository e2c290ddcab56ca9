//! The page index: Redis sorted sets that give a comment's rank in every base set.
//!
//! - `keys`: the names of the keys.
//! - `readiness`: whether readers may believe a partition.
//! - `edits`: the writes of `page-indexer` and the repair job.
//! - `rebuild`: empties the index, and marks it ready once it has been filled.
//! - `watermarks`: reads and advances the instants up to which partitions are reconciled.
//! - `extent`: how far the ranks of a filter reach.
//! - `vouches`: the repair job's confirmations that readers may believe partitions.
//! - `ranks`, `sweep`: read the positions of comments, for callers that compare the index with the table.
//! - `walk`: visits all keys on every server.
//! - `kept`: whether a repair may believe what it read.
//! - `known_languages`: a cache that saves a call.
//! - `catalog`: the products that have comments.
//! - `scripts`: the Lua behind it; `scripts/select.lua` finds a rank in a union of base sets.
//! - `connection`: which server a command goes to, and what happens when that server is gone.
//!
//! **Invariant:** one script returns ranks and totals together with the partition's marker. So a caller never concludes
//! anything from a partition that is not ready.

mod args;
mod catalog;
mod connection;
mod edits;
mod error;
mod extent;
mod kept;
mod keys;
mod known_languages;
mod ranks;
mod readiness;
mod rebuild;
mod scripts;
mod sweep;
mod vouches;
mod walk;
mod watermarks;

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::try_join_all;
use model::{BaseSet, Cd, CommentId, Filter, Language, Malformed, Order, ProductId, Rating, Timestamp};
use redis::FromRedisValue;

pub use args::PageIndexArgs;
pub use catalog::ProductTotal;
use connection::{Connection, Routed};
use error::store_error;
pub use extent::{Ends, Extent};
pub use keys::IndexPartition;
use keys::Keys;
use known_languages::KnownLanguages;
use process::{Store, StoreError};
use readiness::Marker;
pub use readiness::NotReady;
pub use rebuild::Rebuild;
use scripts::Scripts;
pub use sweep::{SweepPosition, Swept};
pub use vouches::{Mark, VouchTime};
pub use watermarks::{Advance, Marked, ServerIdentity};

/// Redis topology. Configured, not detected: a cluster node also answers plain clients, but only for its own slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum RedisMode {
    /// One server, or an address behind which there is one at a time.
    #[default]
    Single,
    /// A Redis Cluster: any node tells who has which slots.
    Cluster,
}

/// How to reach the page index.
#[derive(Clone)]
pub struct PageIndexConfig {
    /// `redis://` or `rediss://`, with user and password where needed; or `unix://`. For a cluster: one or several of
    /// its nodes, separated by commas.
    pub url: String,
    /// The topology of the servers at the URL.
    pub mode: RedisMode,
    /// A file with the certificates (PEM) of the authorities that `rediss://` trusts, instead of the system's.
    pub ca: Option<PathBuf>,
    /// The prefix of every key.
    pub prefix: String,
    /// Number of partitions of the index. It never changes during the life of an index.
    pub partitions: u16,
    /// Maximum time of one call.
    pub timeout: Duration,
    /// How long a vouch makes a partition believable.
    pub max_age: Duration,
}

impl std::fmt::Debug for PageIndexConfig {
    /// Omits the URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageIndexConfig").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl PageIndexConfig {
    /// The defaults: 256 partitions, half a second per call, vouches that hold for three hours. The repair job vouches
    /// every five minutes. So people have three hours to react when it stands still.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            mode: RedisMode::Single,
            ca: None,
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
    connection: Connection,
    keys: Keys,
    scripts: Arc<Scripts>,
    known_languages: KnownLanguages,
    timeout: Duration,
    max_age: Duration,
}

impl std::fmt::Debug for PageIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageIndex").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// The answer of a partition, or why the partition must not be believed.
pub type IndexAnswer<T> = Result<T, NotReady>;

/// A request for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageStartQuery<'query> {
    /// The product.
    pub product: &'query ProductId,
    /// The filter.
    pub filter: &'query Filter,
    /// Number of comments before the page.
    pub skip: u64,
    /// The order of the comments.
    pub order: Order,
    /// Comments dated later do not count.
    pub as_of: Option<Timestamp>,
}

/// The comment at the start of a page that a call returns.
#[derive(Debug, Clone, Copy)]
enum Reach {
    JustBefore,
    First,
}

/// Where a page starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageStart {
    /// Number of comments that the filter matches.
    pub total: u64,
    /// The comment just before the page, `None` when the page starts at the beginning (or lies past the end).
    pub before: Option<Cd>,
    /// An instant that the page index has reached under the filter, never later than the present. The index counts no
    /// comment dated later, except comments dated later than the present. Later comments may still come. Equals the
    /// query's `as_of`, if set.
    pub reached: Timestamp,
}

/// The script's answer: the marker, the total, a member with its score, and the newest score.
type StartAnswer = (Option<String>, Option<i64>, Option<i64>, u64, Option<String>, Option<f64>, Option<f64>);

/// Where a comment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Number of comments that the filter matches, including this one.
    pub total: u64,
    /// Number of them that precede it.
    pub rank: u64,
}

/// How many comments a product has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// By rating, in the filter's language. Includes all five ratings, whichever the filter selects.
    pub by_rating: Vec<(Rating, u64)>,
    /// By rating, in any language.
    pub by_rating_in_any_language: Vec<(Rating, u64)>,
    /// By language in ascending order of the tags, with the filter's ratings. Includes the first
    /// [`Stats::LANGUAGES_MAX`] languages of the product, whichever the filter selects.
    pub by_language: Vec<(Language, u64)>,
    /// Number of languages that the product has.
    pub languages: u64,
    /// Creation time of the newest comment in the filter's language.
    pub last_commented_at: Option<Timestamp>,
}

impl Stats {
    /// Maximum number of languages whose comments are counted. A product never has as many languages that people speak.
    /// The number of well-formed tags is unlimited, and counting takes up to four sets per language.
    pub const LANGUAGES_MAX: usize = 200;
}

/// Maximum number of tries of [`PageIndex::stats`]. It tries again when a language is added or removed meanwhile.
const STATS_TRIES_MAX: usize = 4;

impl PageIndex {
    /// A client of the page index. Connections open on first use, stay open between calls, and open again when they are
    /// lost.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when a URL is invalid, or the certificates cannot be read.
    pub fn connect(config: &PageIndexConfig) -> Result<Self, StoreError> {
        Ok(Self {
            connection: Connection::open(config)?,
            keys: Keys::new(&config.prefix, config.partitions),
            scripts: Arc::new(Scripts::new()),
            known_languages: KnownLanguages::default(),
            timeout: config.timeout,
            max_age: config.max_age,
        })
    }

    /// Maximum time of one answer.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// This client with separate connections.
    pub fn with_own_connections(&self) -> Self {
        Self { connection: self.connection.another(), ..self.clone() }
    }

    /// This client with separate connections, for callers that must not wait. A server that does not answer in time
    /// opens a circuit breaker for a second. Meanwhile calls fail at once, except one half-open probe per second.
    /// Clones of this client share the breakers. So do clients made from it [with separate
    /// connections](Self::with_own_connections).
    pub fn shunning(&self) -> Self {
        Self { connection: self.connection.shunning(), ..self.clone() }
    }

    /// Where a page starts, and the total. One round trip reads both together with the marker.
    ///
    /// # Errors
    /// The store's.
    pub async fn page_start(
        &self,
        query: &PageStartQuery<'_>,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<PageStart>, StoreError> {
        let answer = self.ask(self.start_call(query, Reach::JustBefore)).await?;
        self.read_start(answer, query, table_id, now)
    }

    /// The first `count` comments of a page, or as many as exist, in one round trip. Each is looked up independently,
    /// so a concurrent change may shift them by a place.
    ///
    /// # Errors
    /// The store's.
    pub async fn comments_of_page(
        &self,
        query: &PageStartQuery<'_>,
        count: u64,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<Vec<Cd>>, StoreError> {
        let first_at = |skip| self.start_call(&PageStartQuery { skip, ..query.clone() }, Reach::First);
        let answers: Vec<StartAnswer> =
            self.ask_all((query.skip..query.skip.saturating_add(count)).map(first_at)).await?;
        let mut comments = Vec::with_capacity(answers.len());
        for answer in answers {
            match self.read_start(answer, query, table_id, now)? {
                Ok(start) => comments.extend(start.before),
                Err(not_ready) => return Ok(Err(not_ready)),
            }
        }
        Ok(Ok(comments))
    }

    fn start_call(&self, query: &PageStartQuery<'_>, reach: Reach) -> Routed<'_> {
        let mut keys = vec![self.marker_of(query.product)];
        keys.extend(query.filter.base_sets(query.product).iter().map(|set| self.keys.base_set(set)));
        let mut call = Routed::call(&self.scripts.page_start, &keys);
        call.arg(query.skip).arg(query.order.to_string());
        call.arg(query.as_of.map_or(String::new(), |as_of| as_of.epoch_ms().to_string()));
        call.arg(match reach {
            Reach::JustBefore => 1,
            Reach::First => 0,
        });
        call
    }

    fn read_start(
        &self,
        (table, watermark, vouched, total, member, score, newest): StartAnswer,
        query: &PageStartQuery<'_>,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<PageStart>, StoreError> {
        let watermark = match self.judge(Marker::of(table, watermark, vouched), table_id, now) {
            Ok(watermark) => watermark,
            Err(not_ready) => return Ok(Err(not_ready)),
        };
        // Without comments, the index has reached the watermark: the journal has been reconciled up to it.
        let newest = newest.map(instant_of).transpose()?.unwrap_or(watermark);
        let reached = query.as_of.unwrap_or(newest.min(now));
        let before = match (member, score) {
            (Some(member), Some(score)) => Some(cd_of(&member, score)?),
            _ => None,
        };
        Ok(Ok(PageStart { total, before, reached }))
    }

    /// Where a comment stands under a filter that matches it. A comment that is not indexed yet counts as if it were.
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
        now: Timestamp,
    ) -> Result<IndexAnswer<Position>, StoreError> {
        let mut keys = vec![self.marker_of(product)];
        keys.extend(filter.base_sets(product).iter().map(|set| self.keys.base_set(set)));
        let mut call = Routed::call(&self.scripts.position, &keys);
        call.arg(cd.id.as_str()).arg(cd.created_at.epoch_ms());
        type Answer = (Option<String>, Option<i64>, Option<i64>, u64, u64, u64);
        let (table, watermark, vouched, indexed, preceding, present): Answer = self.ask(call).await?;
        Ok(self.judge(Marker::of(table, watermark, vouched), table_id, now).map(|_| {
            let total = (indexed + 1).saturating_sub(present);
            let rank = match order {
                Order::Newest => preceding,
                Order::Oldest => total.saturating_sub(1 + preceding),
            };
            Position { total, rank }
        }))
    }

    /// How many comments a product has: by rating in the filter's language, and by language with the filter's ratings.
    ///
    /// # Errors
    /// The store's.
    pub async fn stats(
        &self,
        product: &ProductId,
        filter: &Filter,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<Stats>, StoreError> {
        let set = |language: Option<&Language>, rating| {
            self.keys.base_set(&BaseSet { product: product.clone(), language: language.cloned(), rating })
        };
        let language = filter.language();
        let sets_a_language = filter.ratings().map_or(1, |ratings| ratings.iter().count());
        let mut languages = self.known_languages.of(product);
        for _ in 0..STATS_TRIES_MAX {
            let mut keys = vec![self.marker_of(product), self.keys.languages(product)];
            keys.extend(Rating::ALL.into_iter().map(|rating| set(language, Some(rating))));
            keys.extend(Rating::ALL.into_iter().map(|rating| set(None, Some(rating))));
            keys.push(set(language, None));
            for known in &languages {
                let of_language = Filter::new(Some(known.clone()), filter.ratings()).base_sets(product);
                keys.extend(of_language.iter().map(|set| self.keys.base_set(set)));
            }
            let call = Routed::call(&self.scripts.stats, &keys);
            type Answer =
                (Option<String>, Option<i64>, Option<i64>, Vec<String>, Vec<u64>, Vec<u64>, Option<f64>, Vec<u64>);
            let (table, watermark, vouched, found, by_rating, in_any_language, last, by_language): Answer =
                self.ask(call).await?;
            if let Err(not_ready) = self.judge(Marker::of(table, watermark, vouched), table_id, now) {
                return Ok(Err(not_ready));
            }
            let mut found: Vec<Language> = found
                .iter()
                .map(|tag| Language::parse(tag).map_err(|error| Malformed::new("set of languages", error.to_string())))
                .collect::<Result<_, _>>()?;
            found.sort();
            let count = u64::try_from(found.len()).unwrap_or(u64::MAX);
            found.truncate(Stats::LANGUAGES_MAX);
            if found != languages {
                self.known_languages.keep(product, &found);
                languages = found;
                continue;
            }
            return Ok(Ok(Stats {
                by_rating: Rating::ALL.into_iter().zip(by_rating).collect(),
                by_rating_in_any_language: Rating::ALL.into_iter().zip(in_any_language).collect(),
                by_language: languages
                    .into_iter()
                    .zip(by_language.chunks(sets_a_language).map(|sets| sets.iter().sum()))
                    .collect(),
                languages: count,
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
        now: Timestamp,
    ) -> Result<Vec<(IndexPartition, IndexAnswer<Timestamp>)>, StoreError> {
        let command = |partition| {
            let mut command = Routed::new("HMGET", &self.keys.marker(partition));
            command.arg("table").arg("watermark").arg("vouched");
            command
        };
        let markers: Vec<(Option<String>, Option<i64>, Option<i64>)> =
            self.ask_all(self.keys.partitions().map(command)).await?;
        let judged = markers
            .into_iter()
            .map(|(table, watermark, vouched)| self.judge(Marker::of(table, watermark, vouched), table_id, now));
        Ok(self.keys.partitions().zip(judged).collect())
    }

    /// Whether the servers answer.
    ///
    /// # Errors
    /// The store's.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let answered = self.bounded(async {
            let masters = self.connection.masters().await?;
            let ping = redis::cmd("PING");
            let pings = masters.iter().map(|master| master.query::<()>(&ping));
            try_join_all(pings).await
        });
        let answered = answered.await;
        if answered.is_err() {
            // Another server may have replaced one that does not answer.
            self.connection.doubt();
        }
        answered.map(|_| ())
    }

    /// Sends one command.
    async fn ask<T: FromRedisValue>(&self, command: Routed<'_>) -> Result<T, StoreError> {
        let answers = self.ask_all([command]).await?;
        answers.into_iter().next().ok_or_else(|| StoreError::unavailable(Store::PageIndex, "no answer"))
    }

    /// Sends commands in one pipeline per server. They run in any order.
    async fn ask_all<'scripts, T: FromRedisValue>(
        &self,
        commands: impl IntoIterator<Item = Routed<'scripts>>,
    ) -> Result<Vec<T>, StoreError> {
        let commands = commands.into_iter().collect();
        self.bounded(async {
            let answers = self.connection.run(commands).await?;
            Ok(answers.into_iter().map(redis::from_redis_value).collect::<Result<_, _>>()?)
        })
        .await
    }

    fn marker_of(&self, product: &ProductId) -> String {
        self.keys.marker(self.keys.partition_of(product))
    }

    fn judge(&self, marker: Marker, table_id: &str, now: Timestamp) -> IndexAnswer<Timestamp> {
        marker.judge(&self.keys.owner(table_id), now, self.max_age)
    }

    /// Bounds the time of a call, including the time to connect.
    async fn bounded<T>(&self, call: impl Future<Output = redis::RedisResult<T>>) -> Result<T, StoreError> {
        match tokio::time::timeout(self.timeout * 2, call).await {
            Ok(answer) => answer.map_err(store_error),
            Err(_) => Err(StoreError::unavailable(Store::PageIndex, "no answer in time")),
        }
    }
}

fn cd_of(member: &str, score: f64) -> Result<Cd, StoreError> {
    let id = CommentId::parse(member).map_err(|error| Malformed::new("member", error.to_string()))?;
    Ok(Cd { created_at: instant_of(score)?, id })
}

#[expect(clippy::cast_possible_truncation, reason = "scores are whole milliseconds, exact in a double")]
fn instant_of(score: f64) -> Result<Timestamp, StoreError> {
    Ok(Timestamp::from_epoch_ms(score as i64).map_err(|error| Malformed::new("score", error.to_string()))?)
}
