use std::io;
use std::path::PathBuf;

use super::PROGRAM_VARIABLE;

/// Why there is no Redis server. Each prints as one line for a person to act on.
#[derive(Debug, thiserror::Error)]
pub enum RedisServerError {
    /// The program is not installed.
    #[error(
        "{program} was not found. Install it (Debian, Ubuntu: sudo apt-get install redis-server; Fedora: sudo dnf install \
         valkey; Alpine: sudo apk add redis; macOS: brew install redis), name its path by {PROGRAM_VARIABLE}, or use a \
         running server by --redis-url"
    )]
    Missing {
        /// The program that was looked for.
        program: String,
    },
    /// The program is there but cannot be run.
    #[error("{program} cannot be run: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The server ended at once, or does not answer.
    #[error("{program} {what}; the end of {}: {tail}", log.display())]
    NotReady {
        /// The program.
        program: String,
        /// What it did instead of answering.
        what: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log, joined.
        tail: String,
    },
    /// The log file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Log {
        /// The log file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The shell that kills the server when its parent was killed cannot be started or told.
    #[error("cannot start /bin/sh, which watches over the Redis server: {0}")]
    Watchdog(#[source] io::Error),
    /// No port was free.
    #[error("no free loopback port was found for the Redis server")]
    NoFreePort,
    /// The server was stopped for good.
    #[error("the Redis server was stopped")]
    Stopped,
}
