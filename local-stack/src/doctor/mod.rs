//! `pagemark doctor`: looks at a data folder, whether its stack runs or not, and changes nothing in it.
//!
//! - `stopped`: the engine's file and the snapshot of the page index, under the folder's lock.
//! - `running`: what the running stack says of itself.
//! - `files`: quarantine, permissions, what was left over, room on the disk.
//! - `check`: what a check found.

mod check;
mod files;
mod running;
mod stopped;

use std::path::Path;

pub(crate) use check::{Check, State};

use crate::data_dir::{Found, lock_to_look};

/// Examines a data folder.
///
/// # Errors
/// The folder is not a data folder, or may not be read: one line that says what to do.
pub(crate) async fn examine(folder: &Path) -> anyhow::Result<Vec<Check>> {
    let found = lock_to_look(folder)?;
    let (mut checks, is_stopped) = match &found {
        Found::Free(unused) => (stopped::checks(folder, unused.killed.as_ref()).await, true),
        Found::Used(holder) => (running::checks(folder, holder.as_ref()).await, false),
    };
    checks.extend(files::checks(folder, is_stopped).await);
    // Until here, no stack may start.
    drop(found);
    Ok(checks)
}
