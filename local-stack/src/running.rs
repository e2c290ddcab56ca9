//! The record of a running stack, with which other commands find its parts.
//!
//! The record is a state item in the stack's table. So the table's address is enough to find the rest.

use std::path::Path;

use process::StoreError;
use serde::{Deserialize, Serialize};
use table::Table;

use crate::index_place::PlacedIndex;

/// The kind of state, and the name of the only one of that kind.
const STATE: (&str, &str) = ("local-stack", "running");

/// The parts of a running stack other than its table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningStack {
    /// Where the page index is.
    pub(crate) page_index: RunningIndex,
    /// The folder of the quarantine.
    pub(crate) quarantine: String,
}

/// Where the page index of a running stack is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RunningIndex {
    /// Inside the stack's process.
    Embedded {
        /// The socket through which the stack takes commands for it.
        control: String,
    },
    /// In Redis. Its URL may hold a password, so it is not recorded.
    Redis {
        /// The prefix of the index's keys.
        prefix: String,
    },
}

impl RunningStack {
    /// A stack with its control socket, if it has one, and the folder of its quarantine.
    pub(crate) fn new(placed: &PlacedIndex, control: &Path, quarantine: &Path) -> Self {
        let page_index = match placed {
            PlacedIndex::Embedded(_) => RunningIndex::Embedded { control: absolute(control) },
            PlacedIndex::Redis(config) => RunningIndex::Redis { prefix: config.prefix.clone() },
        };
        Self { page_index, quarantine: absolute(quarantine) }
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
}

/// The path from any working folder.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}
