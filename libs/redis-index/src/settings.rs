//! The settings of the page index: flags and `PAGEMARK_*` variables, the same for all binaries.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum, builder::NonEmptyStringValueParser};
use derive_more::Debug;
use model::BaseSet;

use crate::{iam::IamLogin, keys::Keys};

/// Redis topology. Configured, not detected: a cluster node also answers plain clients, but only for its own slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum RedisMode {
    /// One server, or an address behind which there is one at a time.
    #[default]
    Single,
    /// A Redis Cluster: any node tells who has which slots.
    Cluster,
}

// Without the URL, which may hold a password.
#[derive(Clone, Debug)]
#[debug("RedisIndexConfig {{ prefix: {prefix:?}, .. }}")]
pub struct RedisIndexConfig {
    /// `redis://` or `rediss://`, with user and password where needed; or `unix://`. For a cluster: one or several of
    /// its nodes, separated by commas.
    pub url: String,
    pub mode: RedisMode,
    /// A file with the certificates (PEM) of the authorities that `rediss://` trusts, instead of the system's.
    pub ca: Option<PathBuf>,
    /// How the user in the URL logs in by IAM; `None` when the URL has its password, if it needs one.
    pub iam: Option<IamLogin>,
    pub prefix: String,
    /// Number of partitions of the index. It never changes during the life of an index.
    pub partitions: u16,
    pub timeout: Duration,
    pub max_age: Duration,
}

impl RedisIndexConfig {
    /// The defaults: 256 partitions, half a second per call, confirmations that hold for three hours. The repair job
    /// confirms every five minutes. So people have three hours to react when it stands still.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            mode: RedisMode::Single,
            ca: None,
            iam: None,
            prefix: "pagemark".to_owned(),
            partitions: 256,
            timeout: Duration::from_millis(500),
            max_age: Duration::from_secs(3 * 3600),
        }
    }

    pub fn key_name(&self, set: &BaseSet) -> String {
        Keys::new(&self.prefix, self.partitions).base_set(set)
    }
}

/// Where the page index is.
// Without the URL, which may hold a password.
#[derive(Clone, Debug, Args)]
#[debug("RedisIndexArgs {{ index_prefix: {index_prefix:?}, .. }}")]
pub struct RedisIndexArgs {
    /// URL of the Redis (7.0 or newer) or Valkey server: redis://, rediss:// (TLS) or unix://, with user and password
    /// where needed (rediss://user:password@host:6379/). For a cluster, the URL of its configuration endpoint, or of
    /// several of its nodes, separated by commas.
    #[arg(
        long,
        env = "PAGEMARK_REDIS_URL",
        value_name = "URL",
        hide_env_values = true,
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub redis_url: String,
    /// Whether the URL is of a single server (or of an endpoint that leads to the one primary), or of a Redis Cluster.
    #[arg(long, env = "PAGEMARK_REDIS_MODE", value_name = "MODE", value_enum, default_value_t = RedisMode::Single)]
    pub redis_mode: RedisMode,
    /// File with the certificates (PEM) of the authorities that rediss:// trusts; without it, the system's.
    #[arg(long, env = "PAGEMARK_REDIS_CA", value_name = "FILE")]
    pub redis_ca: Option<PathBuf>,
    /// Name of the replication group in ElastiCache, where the user in the URL logs in by IAM and has no password.
    #[arg(long, env = "PAGEMARK_REDIS_IAM", value_name = "CLUSTER", value_parser = NonEmptyStringValueParser::new())]
    pub redis_iam: Option<String>,
    /// What every key of the page index starts with.
    #[arg(long, env = "PAGEMARK_INDEX_PREFIX", value_name = "TEXT", default_value = "pagemark")]
    pub index_prefix: String,
    /// Into how many partitions the page index is split; never change it under an existing index.
    #[arg(long, env = "PAGEMARK_INDEX_PARTITIONS", value_name = "N", default_value_t = 256)]
    pub index_partitions: u16,
    /// Seconds since the repair job last confirmed it after which the page index is not believed any more.
    #[arg(long, env = "PAGEMARK_INDEX_MAX_AGE", value_name = "SECONDS", default_value_t = 3 * 3600)]
    pub index_max_age: u64,
}

impl RedisIndexArgs {
    pub fn config(&self) -> RedisIndexConfig {
        RedisIndexConfig {
            mode: self.redis_mode,
            ca: self.redis_ca.clone(),
            iam: self.redis_iam.clone().map(IamLogin::of_process),
            prefix: self.index_prefix.clone(),
            partitions: self.index_partitions,
            max_age: Duration::from_secs(self.index_max_age),
            ..RedisIndexConfig::new(&self.redis_url)
        }
    }
}
