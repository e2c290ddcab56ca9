//! The page index in Redis, in counted blocks of comments, on servers that several processes share.
//!
//! **Invariant:** one script returns ranks and totals together with the partition's marker. So a
//! caller never concludes anything from a partition that is not ready.

mod connection;
mod contents;
mod edits;
mod error;
mod iam;
mod keys;
mod markers;
mod member;
mod reads;
mod rebuild;
mod scripts;
mod settings;
#[cfg(test)]
mod tests;
mod walk;

use std::{sync::Arc, time::Duration};

use model::ProductId;
use page_index::{Backend, PageIndex};
use process::{Store, StoreError};
use redis::FromRedisValue;

use connection::{Connection, Routed};
use error::{store_error, store_error_at};
pub use iam::IamLogin;
use keys::Keys;
use scripts::{Scripts, Sizes};
pub use settings::{RedisIndexConfig, RedisMode};

/// How many commands are sent together: enough to hide the round trip, few enough to stay far below
/// the time-out.
const TOGETHER_MAX: usize = 256;

/// The page index in Redis. Clones share its connections.
#[derive(Clone, derive_more::Debug)]
#[debug("RedisIndex {{ keys: {keys:?}, .. }}")]
struct RedisIndex {
    connection: Connection,
    keys: Keys,
    scripts: Arc<Scripts>,
    timeout: Duration,
}

/// A client of the page index in Redis. Connections open on first use, stay open between calls, and
/// open again when they are lost.
pub fn connect(config: &RedisIndexConfig) -> Result<PageIndex, StoreError> {
    let index = RedisIndex {
        connection: Connection::open(config)?,
        keys: Keys::new(&config.prefix, config.partitions),
        scripts: Arc::new(Scripts::new(&Sizes::STORED)),
        timeout: config.timeout,
    };
    Ok(PageIndex::new(index, config.max_age))
}

impl RedisIndex {
    async fn ask<T: FromRedisValue>(&self, command: Routed<'_>) -> Result<T, StoreError> {
        let answers = self.ask_all([command]).await?;
        answers
            .into_iter()
            .next()
            .ok_or_else(|| StoreError::unavailable(Store::PageIndex, "no answer"))
    }

    async fn ask_all<'scripts, T: FromRedisValue>(
        &self,
        commands: impl IntoIterator<Item = Routed<'scripts>>,
    ) -> Result<Vec<T>, StoreError> {
        let mut commands: Vec<Routed<'_>> = commands.into_iter().collect();
        let mut answers = Vec::with_capacity(commands.len());
        while !commands.is_empty() {
            let later = commands.split_off(TOGETHER_MAX.min(commands.len()));
            let together = std::mem::replace(&mut commands, later);
            answers.append(&mut self.bounded(self.connection.run(together)).await?);
        }
        let answers = answers
            .into_iter()
            .map(redis::from_redis_value)
            .collect::<Result<_, _>>();
        answers.map_err(|error| store_error(error.into()))
    }

    fn marker_of(&self, product: &ProductId) -> String {
        self.keys.marker(self.keys.partition_of(product))
    }

    /// Bounds the time of a call, including the time to connect.
    async fn bounded<T>(
        &self,
        call: impl Future<Output = redis::RedisResult<T>>,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout(self.timeout * 2, call).await {
            Ok(answer) => answer.map_err(|error| store_error_at(&self.connection, error)),
            Err(_) => Err(StoreError::unavailable(
                Store::PageIndex,
                format!("{}: no answer in time", self.connection),
            )),
        }
    }
}

impl Backend for RedisIndex {
    fn partition_count(&self) -> u16 {
        self.keys.partitions
    }

    fn with_own_connections(&self, with_circuit_breakers: bool) -> Arc<dyn Backend> {
        let breakers = with_circuit_breakers.then(Arc::default);
        Arc::new(Self {
            connection: self.connection.another(breakers),
            ..self.clone()
        })
    }
}
