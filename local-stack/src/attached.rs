//! Where a command works, and how it finds a stack: by its data folder, or by a record in its
//! table.
//!
//! If no stack runs on a folder, one runs for the command: a second way to open engine and page
//! index would have to repeat what a start does.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use table::{Table, TableConfig};

use crate::{
    control::Running,
    data_dir::{DataDir, Entrance, Occupancy, VERSION},
    index_host::remembered_redis,
    settings::{LOCAL_ENGINE, StackSettings, TABLE},
    stack::Stack,
};

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
                    redis_url,
                    ..StackSettings::ephemeral(None)
                };
                let stack = Stack::start_in(data_dir, settings).await?;
                eprintln!("no stack runs on {shown}, so one runs for this command");
                stack.wait_until_index_looked_at().await;
                return Ok(Self {
                    table: connect(stack.dynamodb_url(), connected).await,
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
        let Some(Entrance {
            dynamodb_url,
            table_id,
        }) = holder.entrance
        else {
            bail!(
                "{shown} is used by {holder}, a command or a stack that is just starting; try again later"
            );
        };
        // While a stack takes the lock, the lock file may still name a killed one. Another stack
        // may listen at that one's address by now.
        let table = connect(&dynamodb_url, connected).await;
        let found = table.describe().await;
        if found
            .with_context(|| format!("the stack of {shown} does not answer at {dynamodb_url}"))?
            .id
            != table_id
        {
            bail!(
                "the engine at {dynamodb_url} belongs to another stack than {shown}; try again in a moment"
            );
        }
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

/// Connects to the table of a stack, by the configuration that `connected` makes of the usual one.
async fn connect(dynamodb_url: &str, connected: impl FnOnce(TableConfig) -> TableConfig) -> Table {
    let usual = TableConfig::new(TABLE, Some(dynamodb_url.to_owned()));
    Table::connect(&connected(usual)).await
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
    /// Endpoint of the engine; `aws` for AWS's by region and credentials [default:
    /// http://127.0.0.1:8000]
    #[arg(long, global = true, env = "PAGEMARK_DYNAMODB_URL", value_name = "URL")]
    dynamodb_url: Option<String>,
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
        // No endpoint is AWS's.
        let url =
            Some(self.dynamodb_url.as_deref().unwrap_or(LOCAL_ENGINE)).filter(|url| *url != "aws");
        let name = self.table.as_deref().unwrap_or(TABLE);
        let table =
            Table::connect(&connected(TableConfig::new(name, url.map(str::to_owned)))).await;
        table.describe().await.with_context(|| match url {
            Some(url) => format!("no table {name:?} at {url}; is `pagemark up` running?"),
            None => format!("no table {name:?}"),
        })?;
        Ok(Attached { table, own: None })
    }

    /// Whether both a folder and a table are named. Of global flags, clap does not see that they
    /// exclude each other.
    pub(crate) fn is_contradictory(&self) -> bool {
        self.data_dir.is_some() && (self.table.is_some() || self.dynamodb_url.is_some())
    }
}
