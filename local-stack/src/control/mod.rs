//! The control socket: other processes run the repair job's commands inside a running stack.
//!
//! A page index inside the stack's process is out of reach for other processes. So `pagemark repair` sends its command
//! to the stack, through a Unix socket in the folder of the stack's data.
//!
//! - `server`: the stack's side. `client`: the side of `pagemark repair`.
//!
//! Each connection carries one command, in lines of JSON:
//!
//! 1. The client sends a `Request`. Client and server must be the same version.
//! 2. The server answers with `Answer::Progress` about every second, and ends with `Answer::Ended` or `Answer::Failed`.
//! 3. The end of the client's direction asks the run to stop. The run then reports what it did until then. This holds for
//!    a client that still reads, and for one that has gone.

mod client;
mod server;

use std::io::{Error, ErrorKind};

use repair_job::Outcome;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use crate::data_dir::VERSION;
pub use client::{ask, request};
pub use server::ControlSocket;

/// The name of the socket in the folder of the data.
pub const SOCKET: &str = "control.sock";

/// What a client sends.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    /// The client's version.
    version: String,
    /// A `RunArgs`. It is read only if the version is right, because another version may have other arguments.
    args: serde_json::Value,
}

/// What the server sends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// The run is under way.
    Progress {
        /// Number of comments done.
        comments: u64,
        /// The share of the work that is done, from 0 to 1.
        share: f64,
    },
    /// The command is done.
    Ended(Outcome),
    /// The command could not be run: the error, then what caused it.
    Failed(Vec<String>),
}

/// Reads a line without its line feed; `None` at the end of the stream.
///
/// # Errors
/// The stream's, and [`ErrorKind::InvalidData`] if the line has more than `bytes_max` bytes or no line feed.
async fn read_line(reader: &mut (impl AsyncBufRead + Unpin), bytes_max: u64) -> Result<Option<Vec<u8>>, Error> {
    let mut line = Vec::new();
    reader.take(bytes_max.saturating_add(1)).read_until(b'\n', &mut line).await?;
    match line.pop() {
        Some(b'\n') => Ok(Some(line)),
        Some(_) => Err(Error::new(ErrorKind::InvalidData, format!("no line of at most {bytes_max} bytes"))),
        None => Ok(None),
    }
}

/// A message as a line.
fn line_of(message: &impl Serialize) -> Result<Vec<u8>, Error> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}
