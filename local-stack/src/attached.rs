//! A command attaches to the stack of a data folder: the one that runs there, or one that runs for the command.
//!
//! A second way to open engine and page index would have to repeat what a start does: deliver the stream again, reconcile
//! the journal, write the snapshot. So the command runs a stack without an API, and stops it in order.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use table::Table;

use crate::{
    control::SOCKET,
    data_dir::{DataDir, Entrance, Found, Holder, VERSION},
    stack::{Stack, StackSettings, TABLE, table_config},
};

/// The stack of a data folder, for a command. [`Attached::end`] it.
#[derive(Debug)]
pub(crate) struct Attached {
    folder: PathBuf,
    dynamodb_url: String,
    has_socket: bool,
    /// The stack that runs for this command.
    own: Option<Stack>,
}

impl Attached {
    /// Attaches a command to the stack of a folder. If none runs, it takes the folder's lock and starts one, which serves
    /// this process alone. Returns when its page index has been looked at. Creates no folder.
    ///
    /// # Errors
    /// The path leads to no data folder, another command uses the folder, or the stack does not start: one line that says
    /// what to do.
    pub(crate) async fn to(folder: &Path, command: &str) -> anyhow::Result<Self> {
        let (dynamodb_url, has_socket, own) = match DataDir::existing(folder, command)? {
            Found::Used(holder) => {
                let entrance = entrance_of(folder, holder)?;
                check_table(folder, &entrance).await?;
                (entrance.dynamodb_url, entrance.has_socket, None)
            }
            Found::Free(data_dir) => {
                let stack = Stack::start_in(data_dir, settings()?).await?;
                eprintln!("no stack runs on {}, so one runs for this command", folder.display());
                stack.wait_until_index_looked_at().await;
                (stack.dynamodb_url().to_owned(), true, Some(stack))
            }
        };
        Ok(Self { folder: folder.to_owned(), dynamodb_url, has_socket, own })
    }

    /// The endpoint of the engine. The table is [`TABLE`].
    pub(crate) fn dynamodb_url(&self) -> &str {
        &self.dynamodb_url
    }

    /// The control socket; `None` if the stack's page index is in Redis.
    pub(crate) fn socket(&self) -> Option<PathBuf> {
        self.has_socket.then(|| self.folder.join(SOCKET))
    }

    /// The stack that runs for this command; `None` if another process runs it.
    pub(crate) fn own(&mut self) -> Option<&mut Stack> {
        self.own.as_mut()
    }

    /// Stops the stack in order, if it runs for this command: its page index is saved, and the folder is free again.
    pub(crate) async fn end(self) {
        if let Some(stack) = self.own {
            stack.stop().await;
        }
    }
}

/// The way into the stack of a folder that is used.
fn entrance_of(folder: &Path, holder: Option<Holder>) -> anyhow::Result<Entrance> {
    let folder = folder.display();
    let holder = holder.with_context(|| {
        format!("{folder} is used by a process that does not say how to reach it: a stack that is just starting, or an older pagemark; try again in a moment")
    })?;
    if holder.version != VERSION {
        let version = holder.version;
        bail!("{folder} is used by pagemark {version}, and this command is pagemark {VERSION}; use the same");
    }
    let is_stack = holder.is_stack();
    let who = holder.to_string();
    match holder.entrance {
        Some(entrance) => Ok(entrance),
        None if is_stack => bail!("{who} is just starting on {folder}; try again in a moment"),
        None => bail!("{folder} is used by {who}; run this command when that one has ended"),
    }
}

/// Refuses an engine that does not hold the table of the folder's stack. While that stack takes the lock, the lock file
/// may still name a killed one. Another stack may listen at that one's address by now.
async fn check_table(folder: &Path, entrance: &Entrance) -> anyhow::Result<()> {
    let Entrance { dynamodb_url, table_id, .. } = entrance;
    let folder = folder.display();
    let table = Table::connect(&table_config(TABLE, dynamodb_url)).await;
    let found = table.describe().await;
    let found = found.with_context(|| format!("the stack of {folder} does not answer at {dynamodb_url}"))?;
    if found.id != *table_id {
        bail!("the engine at {dynamodb_url} belongs to another stack than {folder}; try again in a moment");
    }
    Ok(())
}

/// The settings of a stack for one command: without an API, schedules and a fixed port.
fn settings() -> anyhow::Result<StackSettings> {
    // Such a stack has no API, so the token is of no use.
    let write_token = process::new_ulid().parse().map_err(anyhow::Error::msg)?;
    Ok(StackSettings { listen: None, ..StackSettings::ephemeral(write_token) })
}
