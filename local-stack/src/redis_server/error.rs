use std::io;
use std::path::PathBuf;

use super::PROGRAM_VARIABLE;

/// Why the Redis server is missing. Each error prints as one line for a person to act on.
#[derive(Debug, thiserror::Error)]
pub enum RedisServerError {
    /// The program is not installed.
    #[error(
        "{0} was not found. Install it (Debian, Ubuntu: sudo apt-get install redis-server; Fedora: sudo dnf install \
         valkey; Alpine: sudo apk add redis; macOS: brew install redis), name its path by {PROGRAM_VARIABLE}, or use a \
         running server by --redis-url"
    )]
    Missing(String),
    /// The program exists but cannot be run.
    #[error("{0} cannot be run: {1}")]
    Spawn(String, #[source] io::Error),
    /// The server ended immediately, or does not answer.
    #[error("{program} {what}; the end of {}: {tail}", log.display())]
    NotReady {
        /// The program.
        program: String,
        /// The observed behaviour.
        what: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log, joined.
        tail: String,
    },
    /// The log file cannot be written.
    #[error("cannot write {path}: {1}", path = .0.display())]
    Log(PathBuf, #[source] io::Error),
    /// The watchdog, which kills the server after its parent was killed, cannot be started or does not accept messages.
    #[error("cannot start /bin/sh, which watches over the Redis server: {0}")]
    Watchdog(#[source] io::Error),
    /// No port was free.
    #[error("no free loopback port was found for the Redis server")]
    NoFreePort,
    /// The server was stopped for good.
    #[error("the Redis server was stopped")]
    Stopped,
}
