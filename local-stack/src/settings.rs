//! The settings of a stack, and the names that its parts share.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::ParseIntError,
    path::PathBuf,
    time::Duration,
};

use api::{ApiSettings, BearerToken};
use process::aws::{Calls, parse_endpoint};
use table::{CommentBlobArgs, TableConfig};

use crate::index_host::SNAPSHOT_EVERY;

/// The table's name. Each data folder belongs to one table, so the name need not change.
pub const TABLE: &str = "pagemark";
/// The folder of the quarantine in the folder of the data.
pub(crate) const QUARANTINE: &str = "quarantine";
/// Where the engine of `up --demo` listens, and where commands look without an address.
pub(crate) const DEMO_ENGINE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8000);
/// What AWS clients take for the address of an engine that they reach without a network.
pub(crate) const WITHOUT_NETWORK: &str = "http://local@localhost";
/// Time limit of one call to the engine: as long as a call with all its retries takes elsewhere. A
/// writer's journal relies on that bound.
const TABLE_TIMEOUT: Duration = Duration::from_secs(8);

/// The settings of a stack: options of `pagemark up`.
// A write and its rank take less time here than in a deployed stack, and there is one clock.
#[derive(Debug, Clone, clap::Args)]
#[command(mut_arg("archive_after_seconds", |argument| argument.default_value("15")))]
pub struct StackSettings {
    /// Open a port of the DynamoDB engine, such as 127.0.0.1:8000. Every user and process of the
    /// machine may then read and write the table.
    #[arg(long, value_name = "ADDRESS")]
    pub dynamodb_listen: Option<SocketAddr>,
    /// Use this engine, such as ministack, instead of the embedded one; its table stays there.
    #[arg(long, value_name = "URL", conflicts_with = "dynamodb_listen", value_parser = parse_endpoint)]
    pub dynamodb_url: Option<String>,
    /// Keep the page index in this Redis server (7.0 or newer, or Valkey) instead of inside this
    /// process.
    #[arg(
        long,
        env = "PAGEMARK_REDIS_URL",
        value_name = "URL",
        hide_env_values = true
    )]
    pub redis_url: Option<String>,
    #[command(flatten)]
    pub api: ApiSettings,
    /// Whether it has an API, and other commands find it: not a stack that serves only its own
    /// process.
    #[arg(skip = true)]
    pub serves_api: bool,
    /// Bearer token that allows everything [default: generated and printed]
    // Its name is `local`.
    #[arg(
        long,
        env = "PAGEMARK_WRITE_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub write_token: Option<BearerToken>,
    #[command(flatten)]
    pub comment_blob: CommentBlobArgs,
    /// Seconds between two runs of the repair job's `recent`; 0 for none.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub repair_every: Duration,
    /// Seconds between two audits of everything by the repair job; 0 for none.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    pub audit_every: Duration,
    /// The pause after a long audit is this many times as long as the audit, if that is more than
    /// the interval. So audits take at most 0.5 % of the time.
    #[arg(skip = 200_u32)]
    pub audit_rest_factor: u32,
    /// Keep the data in this folder [default: a temporary one]
    // A temporary one is removed at the end.
    #[arg(long, env = "PAGEMARK_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Start an empty site in a data folder that has lost its database.
    #[arg(long)]
    pub new: bool,
    /// Pause between two snapshots of a page index inside this process.
    #[arg(skip = SNAPSHOT_EVERY)]
    pub snapshot_every: Duration,
}

fn seconds(text: &str) -> Result<Duration, ParseIntError> {
    text.parse().map(Duration::from_secs)
}

impl StackSettings {
    /// A stack on free ports, which keeps no data and repairs nothing. Every comment counts for
    /// archive pages.
    pub fn ephemeral(write_token: Option<BearerToken>) -> Self {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            dynamodb_listen: Some(any_port),
            api: ApiSettings {
                listen: any_port,
                archive_after_seconds: 0,
                ..ApiSettings::default()
            },
            write_token,
            repair_every: Duration::ZERO,
            audit_every: Duration::ZERO,
            audit_rest_factor: 0,
            ..process::defaults(&[])
        }
    }
}

/// The settings with which a stack and its commands reach its table.
pub(crate) fn table_config(table: &str, dynamodb_url: &str) -> TableConfig {
    let calls = Calls {
        attempt_timeout: TABLE_TIMEOUT,
        call_timeout: TABLE_TIMEOUT,
        ..Calls::PROMPT
    };
    TableConfig {
        calls,
        ..TableConfig::new(table, Some(dynamodb_url.to_owned()))
    }
}
