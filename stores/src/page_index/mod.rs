//! The page index: Redis sorted sets that give a comment's rank in every base set.
//!
//! - `keys`: the names of the keys.
//! - `readiness`: whether a partition may be believed.
//! - `edits`: writing; used by `page-indexer` and the repair job.
//! - `rebuild`: emptying the index, and marking it ready once it has been filled.
//! - `watermarks`: up to when partitions are reconciled, and moving that on.
//! - `extent`: how far the ranks of a filter reach.
//! - `vouches`: the repair job says of partitions that readers may believe them.
//! - `ranks`, `sweep`: reading where comments are, for whoever compares the index with the table.
//! - `walk`: all keys there are, on every server.
//! - `kept`: whether what was read may be believed by whoever mends.
//! - `known_languages`: what saves a call.
//! - `catalog`: which products there are.
//! - `scripts`: the Lua behind it; `scripts/select.lua` finds a rank in a union of base sets.
//! - `connection`: which server a command goes to, and what happens when it is not there any more.
//!
//! **Invariant:** an answer about ranks and totals comes together with the partition's marker, from one script, so
//! nobody concludes anything from a partition that is not ready.

mod catalog;
mod connection;
mod edits;
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
use model::{BaseSet, Cd, CommentId, Filter, Instant, Language, Malformed, Order, ProductId, Rating};
use redis::FromRedisValue;

use crate::error::{Store, StoreError};
pub use catalog::ProductTotal;
use connection::{Connection, Routed};
pub use extent::{Ends, Extent};
pub use keys::IndexPartition;
use keys::Keys;
use known_languages::KnownLanguages;
use readiness::Marker;
pub use readiness::NotReady;
pub use rebuild::Rebuild;
use scripts::Scripts;
pub use sweep::{SweepPosition, Swept};
pub use vouches::{Mark, VouchTime};
pub use watermarks::{Advance, Marked, ServerIdentity};

/// What Redis is: told, not found out, because a server that is part of a cluster answers a plain client too, with the
/// slots that it happens to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum RedisMode {
    /// One server, or an address behind which there is one at a time.
    #[default]
    Single,
    /// A Redis Cluster: any node tells who has which slots.
    Cluster,
}

/// How the page index is reached.
#[derive(Clone)]
pub struct PageIndexConfig {
    /// `redis://` or `rediss://`, with user and password where needed; or `unix://`. For a cluster, one or several of its
    /// nodes, separated by commas.
    pub url: String,
    /// What is there.
    pub mode: RedisMode,
    /// A file with the certificates (PEM) of the authorities that `rediss://` trusts, instead of the system's.
    pub ca: Option<PathBuf>,
    /// What every key starts with.
    pub prefix: String,
    /// Into how many parts the index is split. It never changes during the life of an index.
    pub partitions: u16,
    /// The longest that one call may take.
    pub timeout: Duration,
    /// The longest that a vouch makes a partition believable.
    pub max_age: Duration,
}

impl std::fmt::Debug for PageIndexConfig {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageIndexConfig").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl PageIndexConfig {
    /// The defaults: 256 partitions, half a second a call, vouches that hold for three hours. The repair job vouches every
    /// five minutes, so people have three hours when it stands still.
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

/// Which comment at the start of a page is asked for.
#[derive(Debug, Clone, Copy)]
enum Reach {
    JustBefore,
    First,
}

/// Where a page starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageStart {
    /// How many comments the filter matches.
    pub total: u64,
    /// The comment just before the page, `None` when the page starts at the beginning (or lies past the end).
    pub before: Option<Cd>,
    /// An instant that the page index has reached under the filter, never later than the present: it counts no comment that
    /// is dated later (unless that is dated later than the present), and later ones are still to come. The `as_of` that was
    /// asked for, where one was.
    pub reached: Instant,
}

/// What the script answers: the marker, the total, a member with its score, and the newest score.
type StartAnswer = (Option<String>, Option<i64>, Option<i64>, u64, Option<String>, Option<f64>, Option<f64>);

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
    /// By rating, all five of them, whichever the filter wants; in its language.
    pub by_rating: Vec<(Rating, u64)>,
    /// The same whatever the language.
    pub by_rating_in_any_language: Vec<(Rating, u64)>,
    /// By language, the first [`Stats::LANGUAGES_MAX`] that the product has by their tags, whichever the filter wants,
    /// ascending; with its ratings.
    pub by_language: Vec<(Language, u64)>,
    /// How many languages the product has.
    pub languages: u64,
    /// When the last in the filter's language was made.
    pub last_commented_at: Option<Instant>,
}

impl Stats {
    /// Of how many languages comments are counted: more than any product has whose languages are people's. There are no end of
    /// well-formed tags, and counting takes up to four sets a language.
    pub const LANGUAGES_MAX: usize = 200;
}

/// How often [`PageIndex::stats`] asks again because a language came or went meanwhile.
const STATS_TRIES_MAX: usize = 4;

impl PageIndex {
    /// A client of the page index; connections are made when they are first needed, kept from call to call, and made
    /// again when they are lost.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when a URL is not one, or the certificates cannot be read.
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

    /// The longest that one answer may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The same with connections of its own.
    pub fn with_own_connections(&self) -> Self {
        Self { connection: self.connection.another(), ..self.clone() }
    }

    /// The same for those who must not wait, by connections of its own: a server that did not answer in time is not asked for
    /// a second, but by one caller a second who finds out whether it answers again. Until then calls fail at once. Those
    /// who share this, or clients [with connections of their own](Self::with_own_connections) made of it, share what they found.
    pub fn shunning(&self) -> Self {
        Self { connection: self.connection.shunning(), ..self.clone() }
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
        let answer = self.ask(self.start_call(query, Reach::JustBefore)).await?;
        self.read_start(answer, query, table_id, now)
    }

    /// The first `count` comments of a page, as many as there are, in one round trip. Each is looked for by itself, so what
    /// changes meanwhile may shift them by a place.
    ///
    /// # Errors
    /// The store's.
    pub async fn comments_of_page(
        &self,
        query: &PageStartQuery<'_>,
        count: u64,
        table_id: &str,
        now: Instant,
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
        now: Instant,
    ) -> Result<IndexAnswer<PageStart>, StoreError> {
        let watermark = match self.judge(Marker::of(table, watermark, vouched), table_id, now) {
            Ok(watermark) => watermark,
            Err(not_ready) => return Ok(Err(not_ready)),
        };
        // Where there is no comment, the journal has been reconciled up to the watermark.
        let newest = newest.map(instant_of).transpose()?.unwrap_or(watermark);
        let reached = query.as_of.unwrap_or(newest.min(now));
        let before = match (member, score) {
            (Some(member), Some(score)) => Some(cd_of(&member, score)?),
            _ => None,
        };
        Ok(Ok(PageStart { total, before, reached }))
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

    /// How many comments a product has beside a filter: by rating in its language, by language with its ratings.
    ///
    /// # Errors
    /// The store's.
    pub async fn stats(
        &self,
        product: &ProductId,
        filter: &Filter,
        table_id: &str,
        now: Instant,
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
        now: Instant,
    ) -> Result<Vec<(IndexPartition, IndexAnswer<Instant>)>, StoreError> {
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
            // Another server may be in the place of one that does not answer.
            self.connection.doubt();
        }
        answered.map(|_| ())
    }

    /// Sends one command.
    async fn ask<T: FromRedisValue>(&self, command: Routed<'_>) -> Result<T, StoreError> {
        let answers = self.ask_all([command]).await?;
        answers.into_iter().next().ok_or_else(|| StoreError::unavailable(Store::PageIndex, "no answer"))
    }

    /// Sends commands, one pipeline a server, in no order.
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

    fn judge(&self, marker: Marker, table_id: &str, now: Instant) -> IndexAnswer<Instant> {
        marker.judge(&self.keys.owner(table_id), now, self.max_age)
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
