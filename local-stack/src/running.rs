//! The record of a running stack, with which other commands find its parts.
//!
//! The record is a state item in the stack's table. So the table's address is enough to find the rest.

use std::path::Path;

use process::StoreError;
use redis_index::RedisIndexConfig;
use serde::{Deserialize, Serialize};
use table::Table;

use crate::index_keeper::INDEX_MAX_AGE;

/// The kind of state, and the name of the only one of that kind.
const STATE: (&str, &str) = ("local-stack", "running");

/// The parts of a running stack other than its table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningStack {
    /// The URL of the stack's own Redis server; `None` when the server was given to the stack, because that URL may
    /// hold a password.
    pub(crate) redis_url: Option<String>,
    /// The prefix of the page index's keys.
    pub(crate) index_prefix: String,
    /// The folder of the quarantine.
    pub(crate) quarantine: String,
}

impl RunningStack {
    /// A stack with its data in a folder; `redis_url` is its own server's.
    pub(crate) fn new(redis_url: Option<String>, index_prefix: String, quarantine: &Path) -> Self {
        let quarantine = std::path::absolute(quarantine).unwrap_or_else(|_| quarantine.to_owned());
        Self { redis_url, index_prefix, quarantine: quarantine.to_string_lossy().into_owned() }
    }

    /// The stack that runs on a table, if one does.
    pub(crate) async fn on(table: &Table) -> Result<Option<Self>, StoreError> {
        table.state(STATE.0, STATE.1).await
    }

    /// Writes the record.
    pub(crate) async fn announce(&self, table: &Table) -> Result<(), StoreError> {
        table.put_state(STATE.0, STATE.1, self).await
    }

    /// Removes the record of the stack that ran on a table.
    pub(crate) async fn withdraw(table: &Table) -> Result<(), StoreError> {
        table.delete_state(STATE.0, STATE.1).await
    }

    /// The settings with which the page index is reached at a URL.
    pub(crate) fn index_config(&self, redis_url: &str) -> RedisIndexConfig {
        RedisIndexConfig {
            max_age: INDEX_MAX_AGE,
            prefix: self.index_prefix.clone(),
            ..RedisIndexConfig::new(redis_url)
        }
    }
}
