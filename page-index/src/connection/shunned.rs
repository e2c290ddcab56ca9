//! Circuit breakers for servers that did not answer in time, for callers that must not wait.
//!
//! **Invariant:** while a server does not answer, one caller per [`PAUSE`] waits for it as the half-open probe. All
//! others fail at once (`a_page_index_that_hangs_holds_up_one_reader_at_a_time`).

use std::{
    collections::HashMap,
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use redis::{RedisError, RedisResult};

/// Circuit-breaker open time. Longer than the usual wait of the probe, and short for a reader who retries.
const PAUSE: Duration = Duration::from_secs(1);

/// A server that has had no request for this long is forgotten: it has left the cluster.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// The open circuit breakers by server address. All connections to these servers share them.
#[derive(Debug, Default)]
pub(super) struct Shunned {
    servers: Mutex<HashMap<String, Silence>>,
    /// Whether any breaker is open. Usually none is, and then a call needs no lock.
    any: AtomicBool,
}

/// State of a breaker for a server that did not answer.
#[derive(Debug, Clone, Copy)]
struct Silence {
    /// When the last time-out was found.
    found: Instant,
    /// When the next probe may run.
    until: Instant,
}

/// Permission to ask a server. A half-open probe that is dropped without a result passes its turn to the next caller.
#[derive(Debug)]
pub(super) struct Turn<'server> {
    shunned: &'server Shunned,
    server: &'server str,
    finds_out: bool,
}

impl Turn<'_> {
    /// Records the server's answer.
    pub(super) fn note<T>(mut self, answer: &RedisResult<T>) {
        self.finds_out = false;
        self.shunned.note(self.server, answer);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.finds_out
            && let Some(silence) = self.shunned.servers().get_mut(self.server)
        {
            silence.until = Instant::now();
        }
    }
}

impl Shunned {
    /// Admits a caller, or fails because the server did not answer a moment ago.
    ///
    /// # Errors
    /// A time-out, like the server's own.
    pub(super) fn admit<'server>(&'server self, server: &'server str) -> RedisResult<Turn<'server>> {
        let anybodys = Turn { shunned: self, server, finds_out: false };
        if !self.any.load(Ordering::Relaxed) {
            return Ok(anybodys);
        }
        let now = Instant::now();
        match self.servers().get_mut(server) {
            Some(silence) if now < silence.until => Err(silent()),
            Some(silence) => {
                silence.until = now + PAUSE;
                Ok(Turn { finds_out: true, ..anybodys })
            }
            None => Ok(anybodys),
        }
    }

    /// Fails for a caller that has waited since `began` for a connection, when another caller failed to open it
    /// meanwhile.
    ///
    /// # Errors
    /// A time-out, like the server's own.
    pub(super) fn still_admit(&self, server: &str, began: Instant) -> RedisResult<()> {
        if !self.any.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.servers().get(server) {
            Some(silence) if silence.found > began => Err(silent()),
            Some(_) | None => Ok(()),
        }
    }

    /// Records a server's answer.
    fn note<T>(&self, server: &str, answer: &RedisResult<T>) {
        match answer {
            Err(error) if error.is_timeout() => {
                let now = Instant::now();
                let mut servers = self.servers();
                servers.retain(|_, silence| now.duration_since(silence.found) < FORGOTTEN_AFTER);
                servers.insert(server.to_owned(), Silence { found: now, until: now + PAUSE });
                self.any.store(true, Ordering::Relaxed);
            }
            // The server refuses connections or requests. Such errors arrive at once anyway.
            Err(_) => {}
            Ok(_) if self.any.load(Ordering::Relaxed) => {
                let mut servers = self.servers();
                servers.remove(server);
                self.any.store(!servers.is_empty(), Ordering::Relaxed);
            }
            Ok(_) => {}
        }
    }

    fn servers(&self) -> MutexGuard<'_, HashMap<String, Silence>> {
        // Every change leaves the state consistent, so a poisoned lock is safe.
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn silent() -> RedisError {
    io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time a moment ago").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_finds_out_and_the_others_are_told() {
        let (shunned, began) = (Shunned::default(), Instant::now());
        assert!(shunned.admit("a").is_ok());
        shunned.note::<()>("a", &Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()));
        assert!(shunned.admit("a").is_ok(), "who refuses does not keep anybody waiting");
        shunned.note::<()>("a", &Err(silent()));
        assert!(shunned.admit("a").unwrap_err().is_timeout());
        assert!(shunned.still_admit("a", began).unwrap_err().is_timeout());
        assert!(shunned.admit("b").is_ok() && shunned.still_admit("b", began).is_ok());

        // Simulates that a pause has passed.
        shunned.servers().get_mut("a").unwrap().until = Instant::now();
        let later = Instant::now();
        let turn = shunned.admit("a").unwrap();
        assert!(shunned.still_admit("a", later).is_ok(), "this one finds out");
        assert!(shunned.admit("a").is_err());
        drop(turn);
        let next = shunned.admit("a").unwrap();
        assert!(shunned.admit("a").is_err(), "the next one does");
        next.note::<()>(&Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()));
        assert!(shunned.admit("a").is_err());
        shunned.note("b", &Ok(()));
        assert!(shunned.admit("a").is_err());
        shunned.note("a", &Ok(()));
        assert!(shunned.admit("a").is_ok() && shunned.admit("a").is_ok());
    }
}
