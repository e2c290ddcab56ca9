//! The page index in Redis sorted sets.
//!
//! - `keys`: the names of the keys.
//! - `scripts`: the Lua behind it; `scripts/select.lua` finds a rank in a union of base sets.
//! - `connection`: which server a command goes to, and what happens when that server is gone.
//! - `error`: the meaning of the client's errors.
//! - `pages`, `stats`, `product_totals`: what readers ask.
//! - `known_languages`: a cache that saves a call.
//! - `edits`: the writes of `page-indexer` and the repair job.
//! - `rebuild`: empties the index, and marks it ready once it has been filled.
//! - `watermarks`: advances the instants up to which partitions are reconciled.
//! - `vouches`: the repair job's confirmations that readers may believe partitions.
//! - `ranks`: reads the positions of comments, for callers that compare the index with the table.
//! - `index_scan`: reads everything that the index holds, in steps that can resume later.
//! - `walk`: visits all keys on every server.
//! - `up_to_date`: whether a repair may believe what it read.
//!
//! **Invariant:** one script returns ranks and totals together with the partition's marker. So a caller never concludes
//! anything from a partition that is not ready.

mod connection;
mod edits;
mod error;
mod index_scan;
mod keys;
mod known_languages;
mod pages;
mod product_totals;
mod ranks;
mod rebuild;
mod scripts;
mod stats;
mod up_to_date;
mod vouches;
mod walk;
mod watermarks;

use std::{sync::Arc, time::Duration};

use futures_util::future::try_join_all;
use model::{ProductId, Timestamp};
use process::{Store, StoreError};
use redis::FromRedisValue;

use crate::{IndexAnswer, PageIndexConfig, RedisMode, readiness::Marker};
use connection::{Connection, Routed};
use error::store_error;
pub use index_scan::{IndexPart, IndexScanPosition};
pub use keys::IndexPartition;
use keys::Keys;
use known_languages::KnownLanguages;
pub use rebuild::Rebuild;
use scripts::Scripts;
pub use vouches::{Mark, VouchTime};
pub use watermarks::{Advance, ServerIdentity};

/// The page index.
///
/// Every call may fail with the store's error. `# Errors` names only what else a call may fail with, or what that error
/// means there.
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
    pub fn with_circuit_breakers(&self) -> Self {
        Self { connection: self.connection.with_circuit_breakers(), ..self.clone() }
    }

    /// Whether each partition is ready, with its watermark.
    pub async fn readiness(
        &self,
        table_id: &str,
        now: Timestamp,
    ) -> Result<Vec<(IndexPartition, IndexAnswer<Timestamp>)>, StoreError> {
        let markers = self.markers(self.keys.partitions()).await?;
        let judged = markers.into_iter().map(|(marker, _)| self.judge(marker, table_id, now));
        Ok(self.keys.partitions().zip(judged).collect())
    }

    /// The markers of partitions, and the tokens in them.
    async fn markers(
        &self,
        partitions: impl IntoIterator<Item = IndexPartition>,
    ) -> Result<Vec<(Marker, Option<String>)>, StoreError> {
        let fields = ["table", "watermark", "vouched", "token"];
        let commands =
            partitions.into_iter().map(|partition| Routed::new("HMGET", &self.keys.marker(partition)).arg(&fields));
        type Answer = (Option<String>, Option<i64>, Option<i64>, Option<String>);
        let answers: Vec<Answer> = self.ask_all(commands).await?;
        let markers = answers
            .into_iter()
            .map(|(table, watermark, vouched, token)| (Marker::of(table, watermark, vouched), token));
        Ok(markers.collect())
    }

    /// Whether the servers answer.
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
