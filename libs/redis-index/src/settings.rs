//! The settings of the page index: flags and `PAGEMARK_*` variables, the same for all binaries.

use std::{path::PathBuf, time::Duration};

use clap::{
    Args, ValueEnum,
    builder::{NonEmptyStringValueParser, TypedValueParser},
    value_parser,
};
use derive_more::Debug;
use model::ProductId;

use crate::{iam::IamLogin, keys::Keys};

/// Redis topology. Configured, not detected: a cluster node also answers plain clients, but only
/// for its own slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum RedisMode {
    /// One server, or an address behind which there is one at a time.
    #[default]
    Single,
    /// A Redis Cluster: any node tells who has which slots.
    Cluster,
}

/// Where the page index is.
// Without the URL, which may hold a password.
#[derive(Clone, Debug, Args)]
#[debug("RedisIndexConfig {{ prefix: {prefix:?}, .. }}")]
pub struct RedisIndexConfig {
    /// URL of the Redis (7.0 or newer) or Valkey server: redis://, rediss:// (TLS) or unix://, with
    /// user and password where needed (rediss://user:password@host:6379/). For a cluster, the URL
    /// of its configuration endpoint, or of several of its nodes, separated by commas.
    #[arg(
        long = "redis-url",
        env = "PAGEMARK_REDIS_URL",
        value_name = "URL",
        hide_env_values = true,
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub url: String,
    /// Whether the URL is of a single server (or of an endpoint that leads to the one primary), or
    /// of a Redis Cluster.
    #[arg(
        long = "redis-mode",
        env = "PAGEMARK_REDIS_MODE",
        value_name = "MODE",
        value_enum,
        default_value_t
    )]
    pub mode: RedisMode,
    /// File with the certificates (PEM) of the authorities that rediss:// trusts; without it, the
    /// system's.
    #[arg(long = "redis-ca", env = "PAGEMARK_REDIS_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Name of the replication group in ElastiCache, where the user in the URL logs in by IAM and
    /// has no password.
    #[arg(
        long = "redis-iam",
        env = "PAGEMARK_REDIS_IAM",
        value_name = "CLUSTER",
        value_parser = NonEmptyStringValueParser::new().map(IamLogin::of_process)
    )]
    pub iam: Option<IamLogin>,
    /// What every key of the page index starts with.
    #[arg(
        long = "index-prefix",
        env = "PAGEMARK_INDEX_PREFIX",
        value_name = "TEXT",
        default_value = "pagemark"
    )]
    pub prefix: String,
    /// Into how many partitions the page index is split; never change it under an existing index.
    #[arg(
        long = "index-partitions",
        env = "PAGEMARK_INDEX_PARTITIONS",
        value_name = "N",
        default_value_t = 256
    )]
    pub partitions: u16,
    /// Seconds since the repair job last confirmed it after which the page index is not believed
    /// any more.
    // The repair job confirms every five minutes. So people have three hours to react when it
    // stands still.
    #[arg(
        long = "index-max-age",
        env = "PAGEMARK_INDEX_MAX_AGE",
        value_name = "SECONDS",
        default_value = "10800",
        value_parser = value_parser!(u64).map(Duration::from_secs)
    )]
    pub max_age: Duration,
    /// How long one server may take to connect, or to answer.
    #[arg(skip = Duration::from_millis(500))]
    pub timeout: Duration,
}

/// The parameters of a URL that mean something: those of a socket of Unix are where others have user
/// and path.
const PARAMETERS: [&str; 4] = ["protocol", "db", "user", "pass"];
/// What may follow `#`: accept any certificate.
const FRAGMENT: &str = "insecure";

/// What the URL of a server says in vain, if anything.
pub(crate) fn ignored_part(url: &str) -> Option<String> {
    let (url, fragment) = url.split_once('#').unwrap_or((url, FRAGMENT));
    if fragment != FRAGMENT {
        return Some("what follows #".to_owned());
    }
    let (_, parameters) = url.split_once('?')?;
    for parameter in parameters.split('&') {
        let name = parameter.split('=').next().unwrap_or_default();
        if !PARAMETERS.contains(&name) {
            // Its value may be a secret.
            return Some(format!("the parameter {name}"));
        }
    }
    None
}

impl RedisIndexConfig {
    /// The defaults.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ..process::defaults(&["--redis-url=redis://"])
        }
    }

    /// The name of a product's key: `open`, `totals`, or another of its parts.
    pub fn key_name(&self, product: &ProductId, part: &str) -> String {
        Keys::new(&self.prefix, self.partitions).of_product(product, part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_says_in_vain_is_found_without_its_value() {
        for understood in [
            "redis://127.0.0.1:6379/",
            "rediss://host/#insecure",
            "redis://host/?protocol=resp3",
            "unix:///run/redis.sock?db=1&user=u&pass=p",
        ] {
            assert_eq!(ignored_part(understood), None, "{understood}");
        }
        for (url, ignored) in [
            ("redis://host/?timeout=5s", "the parameter timeout"),
            (
                "redis://host/?protocol=resp3&secret=x",
                "the parameter secret",
            ),
            ("rediss://host/#unsecure", "what follows #"),
        ] {
            assert_eq!(ignored_part(url).as_deref(), Some(ignored), "{url}");
        }
    }
}
