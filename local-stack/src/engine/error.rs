use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the engine did not start, or could not complete a request. Each error prints as one line for a person to act on.
/// A path is the data file's, unless the message says something else.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("{0} is in use; stop what listens there, or choose another address with --dynamodb-listen")]
    PortInUse(SocketAddr),
    /// The engine cannot listen on the address, for another reason than that it is taken.
    #[error("cannot listen at {0}: {1}")]
    Bind(SocketAddr, #[source] io::Error),
    #[error("{path} is in use by another running stack", path = .0.display())]
    FileInUse(PathBuf),
    /// The lock file beside the data file cannot be written.
    #[error("cannot write {path}: {1}", path = .0.display())]
    Lock(PathBuf, #[source] io::Error),
    #[error("{path} is not a data file of this engine; it was left untouched", path = .0.display())]
    ForeignFile(PathBuf),
    #[error("{path} is not a path in UTF-8, which the engine needs", path = .0.display())]
    PathNotUtf8(PathBuf),
    /// The file is broken or unreadable, cannot be written, or comes from a newer engine.
    #[error("cannot open {path}: {1}", path = .0.display())]
    Open(PathBuf, #[source] Box<dyn Error + Send + Sync>),
    #[error(
        "{path} is damaged: {1}. It was left as it is: check the disk, then restore the folder from a backup; `pagemark doctor` \
         shows whether a copy is whole",
        path = .0.display()
    )]
    Damaged(PathBuf, String),
    #[error("{0:?} is not a sequence number of this engine")]
    SequenceNumber(String),
    #[error("the engine's stream records cannot be reached: {0}")]
    StreamRecords(#[from] rusqlite::Error),
    #[error("expired items cannot be deleted: {0}")]
    Sweep(#[source] Box<dyn Error + Send + Sync>),
    #[error("cannot start the engine's threads: {0}")]
    Thread(#[source] io::Error),
}
