//! The settings of the stores, the same flags and `PAGEMARK_*` variables in every binary.

use std::time::Duration;

use clap::Args;

use crate::{Quarantine, page_index::PageIndexConfig, table::TableConfig};

/// Where the table is.
#[derive(Debug, Clone, Args)]
pub struct TableArgs {
    /// Name of the DynamoDB table.
    #[arg(long, env = "PAGEMARK_TABLE", value_name = "NAME")]
    pub table: String,
    /// Endpoint of a local engine, such as http://127.0.0.1:8000; without it, AWS's by region and credentials.
    #[arg(long, env = "PAGEMARK_DYNAMODB_URL", value_name = "URL")]
    pub dynamodb_url: Option<String>,
}

impl TableArgs {
    /// The table's configuration.
    pub fn config(&self) -> TableConfig {
        TableConfig::new(&self.table, self.dynamodb_url.clone())
    }
}

/// Where the page index is.
#[derive(Clone, Args)]
pub struct PageIndexArgs {
    /// URL of the Redis (7.0 or newer) or Valkey server: redis://, rediss:// or unix://.
    #[arg(long, env = "PAGEMARK_REDIS_URL", value_name = "URL", hide_env_values = true)]
    pub redis_url: String,
    /// What every key of the page index starts with.
    #[arg(long, env = "PAGEMARK_INDEX_PREFIX", value_name = "TEXT", default_value = "pagemark")]
    pub index_prefix: String,
    /// Into how many partitions the page index is split; never change it under an existing index.
    #[arg(long, env = "PAGEMARK_INDEX_PARTITIONS", value_name = "N", default_value_t = 256)]
    pub index_partitions: u16,
    /// Seconds since its last reconciliation after which the page index is not believed any more.
    #[arg(long, env = "PAGEMARK_INDEX_MAX_AGE", value_name = "SECONDS", default_value_t = 3 * 3600)]
    pub index_max_age: u64,
}

impl std::fmt::Debug for PageIndexArgs {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageIndexArgs").field("index_prefix", &self.index_prefix).finish_non_exhaustive()
    }
}

impl PageIndexArgs {
    /// The page index's configuration.
    pub fn config(&self) -> PageIndexConfig {
        PageIndexConfig {
            prefix: self.index_prefix.clone(),
            partitions: self.index_partitions,
            max_age: Duration::from_secs(self.index_max_age),
            ..PageIndexConfig::new(&self.redis_url)
        }
    }
}

/// Where records go that can never be processed.
#[derive(Debug, Clone, Args)]
pub struct QuarantineArgs {
    /// `mapping` (report them, the event source mapping's on-failure destination keeps them) or `folder:PATH`.
    #[arg(long, env = "PAGEMARK_QUARANTINE", value_name = "PLACE")]
    pub quarantine: Quarantine,
}

/// What is logged: `PAGEMARK_LOG` as `tracing-subscriber` reads it; `default` without it.
///
/// # Errors
/// What is wrong with the variable.
pub fn log_filter(default: &str) -> Result<tracing_subscriber::EnvFilter, String> {
    let chosen = std::env::var("PAGEMARK_LOG").unwrap_or_else(|_| default.to_owned());
    chosen.parse().map_err(|error| format!("PAGEMARK_LOG {chosen:?}: {error}"))
}
