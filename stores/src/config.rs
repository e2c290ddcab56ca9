//! The settings of the stores: one set of flags and `PAGEMARK_*` variables for all binaries. Also reads the settings of
//! any binary.

use std::{path::PathBuf, time::Duration};

use clap::{
    Arg, Args, Command, Parser,
    builder::NonEmptyStringValueParser,
    error::{ContextKind, ContextValue},
};
use model::BlobFormat;

use crate::{
    Quarantine, metrics,
    page_index::{PageIndexConfig, RedisMode},
    quarantine::QuarantinePlace,
    table::TableConfig,
};

/// Where the table is.
#[derive(Debug, Clone, Args)]
pub struct TableArgs {
    /// Name of the DynamoDB table.
    #[arg(long, env = "PAGEMARK_TABLE", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
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

/// How comments are written, for the binaries that write any.
#[derive(Debug, Clone, Args)]
pub struct CommentBlobArgs {
    /// How comments' texts are written: `map` (legible in the console) or `zstd` (compressed where that is smaller). Both are always read.
    #[arg(long, env = "PAGEMARK_COMMENT_BLOB", value_name = "FORMAT", default_value_t)]
    pub comment_blob: BlobFormat,
}

/// Where the page index is.
#[derive(Clone, Args)]
pub struct PageIndexArgs {
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
    /// What every key of the page index starts with.
    #[arg(long, env = "PAGEMARK_INDEX_PREFIX", value_name = "TEXT", default_value = "pagemark")]
    pub index_prefix: String,
    /// Into how many partitions the page index is split; never change it under an existing index.
    #[arg(long, env = "PAGEMARK_INDEX_PARTITIONS", value_name = "N", default_value_t = 256)]
    pub index_partitions: u16,
    /// Seconds since the repair job last vouched for it after which the page index is not believed any more.
    #[arg(long, env = "PAGEMARK_INDEX_MAX_AGE", value_name = "SECONDS", default_value_t = 3 * 3600)]
    pub index_max_age: u64,
}

impl std::fmt::Debug for PageIndexArgs {
    /// Omits the URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageIndexArgs").field("index_prefix", &self.index_prefix).finish_non_exhaustive()
    }
}

impl PageIndexArgs {
    /// The page index's configuration.
    pub fn config(&self) -> PageIndexConfig {
        PageIndexConfig {
            mode: self.redis_mode,
            ca: self.redis_ca.clone(),
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
    /// `s3://BUCKET` or `s3://BUCKET/PREFIX`, `folder:PATH`, or `mapping` (report them; after its last try, the event
    /// source mapping puts them to its on-failure destination).
    #[arg(long, env = "PAGEMARK_QUARANTINE", value_name = "PLACE")]
    pub quarantine: QuarantinePlace,
    /// Endpoint of a local S3, such as http://127.0.0.1:9000; without it, AWS's by region and credentials.
    #[arg(long, env = "PAGEMARK_S3_URL", value_name = "URL")]
    pub s3_url: Option<String>,
}

impl QuarantineArgs {
    /// The quarantine; nothing is sent yet.
    pub async fn connect(&self) -> Quarantine {
        Quarantine::connect(&self.quarantine, self.s3_url.as_deref()).await
    }
}

/// Where metrics go.
#[derive(Debug, Clone, Args)]
pub struct MetricsArgs {
    /// The namespace of the metrics in CloudWatch; each stack of an account needs one of its own.
    #[arg(
        long,
        env = "PAGEMARK_METRICS_NAMESPACE",
        value_name = "NAME",
        default_value = metrics::NAMESPACE,
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub metrics_namespace: String,
}

/// Reads the settings of this process from its flags and variables. Ends the process when one is missing or wrong.
///
/// The message names the variable beside the flag, because a deployed function is configured only by variables.
pub fn parse_settings<S: Parser>() -> S {
    let parsed = S::command().try_get_matches().and_then(|mut matches| S::from_arg_matches_mut(&mut matches));
    parsed.unwrap_or_else(|error| with_variables(error, S::command()).exit())
}

/// Adds the settings' variables to the error, after their flags.
fn with_variables(mut error: clap::Error, mut command: Command) -> clap::Error {
    // Only a built command knows how an error names its arguments.
    command.build();
    let named = |flag: &String| match variable_of(flag, &command) {
        Some(variable) => format!("{flag} (or the variable {variable})"),
        None => flag.clone(),
    };
    let named = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) => Some(ContextValue::String(named(flag))),
        Some(ContextValue::Strings(flags)) => Some(ContextValue::Strings(flags.iter().map(named).collect())),
        _ => None,
    };
    // Even a wrong value may be a secret, such as a token in the place of its hash.
    if let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg)
        && is_secret(flag, &command)
    {
        error.insert(ContextKind::InvalidValue, ContextValue::String("…".to_owned()));
    }
    if let Some(named) = named {
        error.insert(ContextKind::InvalidArg, named);
    }
    error
}

/// Whether the values of a flag must stay hidden, for a command or its subcommands.
fn is_secret(flag: &str, command: &Command) -> bool {
    command.get_arguments().any(|argument| argument.to_string() == flag && argument.is_hide_env_values_set())
        || command.get_subcommands().any(|below| is_secret(flag, below))
}

/// The variable of a flag in the spelling of an error, such as `--table <NAME>`, for the command or its subcommands.
fn variable_of(flag: &str, command: &Command) -> Option<String> {
    let own = command.get_arguments().find(|argument| argument.to_string() == flag).and_then(Arg::get_env);
    match own {
        Some(variable) => Some(variable.to_string_lossy().into_owned()),
        None => command.get_subcommands().find_map(|below| variable_of(flag, below)),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, builder::Resettable};

    use super::*;

    #[derive(Debug, Parser)]
    #[command(name = "tested")]
    struct Settings {
        #[command(flatten)]
        table: TableArgs,
        #[command(flatten)]
        page_index: PageIndexArgs,
        #[command(flatten)]
        quarantine: QuarantineArgs,
        #[command(flatten)]
        comment_blob: CommentBlobArgs,
    }

    /// The message about some flags must name a variable.
    fn check(flags: &[&str], variable: &str) {
        // Ignores the variables that are set for the tests themselves.
        let command = Settings::command().mut_args(|argument| argument.env(Resettable::Reset));
        let error = command.try_get_matches_from([&["tested"], flags].concat()).unwrap_err();
        let message = with_variables(error, Settings::command()).to_string();
        assert!(message.contains(variable), "{message}");
    }

    #[test]
    fn a_missing_or_wrong_setting_is_named_by_its_variable() {
        let (table, redis) = (["--table", "t"], ["--redis-url", "redis://localhost/"]);
        check(&[redis.as_slice(), &["--quarantine", "mapping"]].concat(), "PAGEMARK_TABLE");
        check(&[table.as_slice(), &["--quarantine", "mapping"]].concat(), "PAGEMARK_REDIS_URL");
        check(&[table, redis].concat(), "PAGEMARK_QUARANTINE");
        check(&["--table", ""], "PAGEMARK_TABLE");
        check(&[table.as_slice(), &["--redis-url", ""]].concat(), "PAGEMARK_REDIS_URL");
        check(&["--quarantine", "anywhere"], "PAGEMARK_QUARANTINE");
        check(&["--index-partitions", "many"], "PAGEMARK_INDEX_PARTITIONS");
        check(&["--redis-mode", "sentinel"], "PAGEMARK_REDIS_MODE");
        check(&["--comment-blob", "gzip"], "PAGEMARK_COMMENT_BLOB");
    }
}
