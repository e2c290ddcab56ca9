//! Where a command works, and how it finds a stack: by its data folder, or by a record in its
//! table.
//!
//! If no stack runs on a folder, one runs for the command: a second way to open engine and page
//! index would have to repeat what a start does.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use process::aws::parse_endpoint;
use table::{Table, TableConfig};

use crate::{
    control::{Running, SOCKET, engine_client},
    data_dir::{DataDir, Entrance, Occupancy, VERSION},
    index_host::remembered_redis,
    settings::{DEMO_ENGINE, StackSettings, TABLE, WITHOUT_NETWORK},
    stack::Stack,
};

/// What names AWS's endpoint of the region.
const AWS: &str = "aws";

/// The table that a command works on, as it wants to be connected. [`Attached::end`] it.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) table: Table,
    /// The stack that runs for this command.
    own: Option<Stack>,
}

impl Attached {
    /// Attaches a command to the stack of a folder, which must exist. If none runs there, this
    /// starts one for the command alone. It holds the folder's lock, and its page index is where
    /// the last stack had it. Returns when the page index has been looked at.
    async fn to_folder(
        folder: &Path,
        command: &str,
        connected: impl FnOnce(TableConfig) -> TableConfig,
    ) -> anyhow::Result<Self> {
        let shown = folder.display();
        let holder = match DataDir::existing(folder, command)? {
            Occupancy::Used(holder) => holder,
            Occupancy::Free(data_dir) => {
                let redis_url = remembered_redis(folder);
                let settings = StackSettings {
                    serves_api: false,
                    dynamodb_listen: None,
                    redis_url,
                    ..StackSettings::ephemeral(None)
                };
                let stack = Stack::start_in(data_dir, settings).await?;
                eprintln!(
                    "no stack runs on {shown}, so one runs for this command; it first brings its page index up to date"
                );
                stack.wait_until_index_looked_at().await;
                let engine = stack
                    .engine()
                    .context("a stack on a folder has an engine")?;
                let table = connect_through(engine.http_client(), connected).await;
                return Ok(Self {
                    table,
                    own: Some(stack),
                });
            }
        };
        let holder = holder.with_context(|| {
            format!("{shown} is used by a process that does not say how to reach it; try again in a moment")
        })?;
        if holder.version != VERSION {
            bail!(
                "{shown} is used by pagemark {}, and this is pagemark {VERSION}; use the same",
                holder.version
            );
        }
        let Some(Entrance { other_engine }) = holder.entrance else {
            bail!(
                "{shown} is used by {holder}, a command or a stack that is just starting; try again later"
            );
        };
        let table = match other_engine {
            Some(url) => Table::connect(&connected(TableConfig::new(TABLE, Some(url)))).await,
            None => connect_through(engine_client(folder.join(SOCKET)), connected).await,
        };
        // While a stack takes the lock, the lock file may still name a killed one.
        let found = table.describe().await;
        found.with_context(|| {
            format!("the stack of {shown} does not answer; try again in a moment")
        })?;
        Ok(Self { table, own: None })
    }

    /// The control socket of the stack that runs on the table.
    pub(crate) async fn socket(&self) -> anyhow::Result<PathBuf> {
        let running = Running::on(&self.table).await?.with_context(|| {
            format!(
                "no stack runs on the table {:?}: is `pagemark up` running there?",
                self.table.name()
            )
        })?;
        Ok(running.socket)
    }

    /// Stops the stack in order, if it runs for this command.
    pub(crate) async fn end(self) {
        if let Some(stack) = self.own {
            stack.stop().await;
        }
    }
}

/// Connects to the table of an embedded engine, by the configuration that `connected` makes of the
/// usual one.
async fn connect_through(
    engine: SharedHttpClient,
    connected: impl FnOnce(TableConfig) -> TableConfig,
) -> Table {
    let usual = TableConfig::new(TABLE, Some(WITHOUT_NETWORK.to_owned()));
    Table::connect_through(&connected(usual), engine).await
}

/// A stack, by its folder or its engine, or any table.
#[derive(Debug, clap::Args)]
pub(crate) struct TableAddress {
    /// Work on the stack of this data folder. If none runs there, one runs for this command.
    #[arg(long, global = true, value_name = "DIR", conflicts_with_all = ["table", "dynamodb_url"])]
    data_dir: Option<PathBuf>,
    /// Name of the DynamoDB table [default: pagemark]
    #[arg(long, global = true, env = "PAGEMARK_TABLE", value_name = "NAME")]
    table: Option<String>,
    /// Endpoint of the engine; `aws` for AWS's by region and credentials [default: that of `pagemark
    /// up --demo`, http://127.0.0.1:8000]
    #[arg(long, global = true, env = "PAGEMARK_DYNAMODB_URL", value_name = "URL", value_parser = engine_or_aws)]
    dynamodb_url: Option<String>,
}

fn engine_or_aws(text: &str) -> Result<String, String> {
    if text == AWS {
        return Ok(text.to_owned());
    }
    parse_endpoint(text)
}

impl TableAddress {
    /// Opens the table, connected by the configuration that `connected` makes of the usual one.
    ///
    /// # Errors
    /// The table does not exist, its engine does not answer, or the folder cannot be used.
    pub(crate) async fn open(
        &self,
        command: &str,
        connected: impl FnOnce(TableConfig) -> TableConfig,
    ) -> anyhow::Result<Attached> {
        if let Some(folder) = &self.data_dir {
            return Attached::to_folder(folder, command, connected).await;
        }
        let name = self.table.as_deref().unwrap_or(TABLE);
        let (endpoint_url, missing) = match self.dynamodb_url.as_deref() {
            // No endpoint is AWS's.
            Some(AWS) => (None, format!("no table {name:?}")),
            Some(url) => (
                Some(url.to_owned()),
                format!("no table {name:?} at {url}; is `pagemark up` running?"),
            ),
            None => (
                Some(format!("http://local@{DEMO_ENGINE}")),
                format!(
                    "no table {name:?} at {DEMO_ENGINE}, the port of `pagemark up --demo`; name another stack by its folder, \
                     as `pagemark up` prints it: --data-dir DIR"
                ),
            ),
        };
        let table = Table::connect(&connected(TableConfig::new(name, endpoint_url))).await;
        table.describe().await.context(missing)?;
        Ok(Attached { table, own: None })
    }

    /// Whether both a folder and a table are named. Of global flags, clap does not see that they
    /// exclude each other.
    pub(crate) fn is_contradictory(&self) -> bool {
        self.data_dir.is_some() && (self.table.is_some() || self.dynamodb_url.is_some())
    }
}
