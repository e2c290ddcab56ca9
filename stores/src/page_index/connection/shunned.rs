//! Servers that did not answer in time, and that callers who must not wait therefore leave alone for a moment.
//!
//! **Invariant:** while a server does not answer, one caller in [`PAUSE`] waits for it, to find out; all others are told at
//! once (`a_page_index_that_hangs_holds_up_one_reader_at_a_time`).

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

/// How long nobody asks a server that did not answer: longer than the call of the one who finds out usually waits, and short to a
/// reader who tries again.
const PAUSE: Duration = Duration::from_secs(1);

/// After so long a server is forgotten that nobody asks any more: it has left the cluster.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// The servers that did not answer, by their addresses. Shared by all connections to them.
#[derive(Debug, Default)]
pub(super) struct Shunned {
    servers: Mutex<HashMap<String, Silence>>,
    /// Whether there are any: as a rule there are none, and that is all that a call has to know.
    any: AtomicBool,
}

/// What is known of a server that did not answer.
#[derive(Debug, Clone, Copy)]
struct Silence {
    /// When it was last found out.
    found: Instant,
    /// When it may be found out again.
    until: Instant,
}

/// Leave to ask a server. Who was to find out whether it answers again, and is dropped before that, leaves it to the next
/// caller.
#[derive(Debug)]
pub(super) struct Turn<'server> {
    shunned: &'server Shunned,
    server: &'server str,
    finds_out: bool,
}

impl Turn<'_> {
    /// Notes what the server has answered.
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
    /// Lets a caller ask a server, or tells that it did not answer just now.
    ///
    /// # Errors
    /// A time-out, as the server's own would be.
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

    /// Tells a caller who has been waiting since `began` to make a connection that somebody else has failed to make it.
    ///
    /// # Errors
    /// A time-out, as the server's own would be.
    pub(super) fn still_admit(&self, server: &str, began: Instant) -> RedisResult<()> {
        if !self.any.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.servers().get(server) {
            Some(silence) if silence.found > began => Err(silent()),
            Some(_) | None => Ok(()),
        }
    }

    /// Notes what a server has answered.
    fn note<T>(&self, server: &str, answer: &RedisResult<T>) {
        match answer {
            Err(error) if error.is_timeout() => {
                let now = Instant::now();
                let mut servers = self.servers();
                servers.retain(|_, silence| now.duration_since(silence.found) < FORGOTTEN_AFTER);
                servers.insert(server.to_owned(), Silence { found: now, until: now + PAUSE });
                self.any.store(true, Ordering::Relaxed);
            }
            // It refuses connections, or requests: that is told at once, too.
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
        // Every change leaves it whole.
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

        // A pause later.
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
