//! Circuit breakers for servers that did not answer in time, for callers that must not wait.
//!
//! **Invariant:** while a server does not answer, one caller per [`PAUSE`] waits for it as the
//! half-open probe. All others fail at once
//! (`a_page_index_that_hangs_holds_up_one_reader_at_a_time`).

use std::{
    collections::HashMap,
    io,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use redis::{RedisError, RedisResult};

/// Circuit-breaker open time. Longer than the usual wait of the probe, and short for a reader who
/// retries.
const PAUSE: Duration = Duration::from_secs(1);

/// A server that has had no request for this long is forgotten: it has left the cluster.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// The open breakers by server address. All connections to these servers share them. Usually none
/// is open.
#[derive(Debug, Default)]
pub(crate) struct CircuitBreakers(Mutex<HashMap<String, OpenBreaker>>);

#[derive(Debug, Clone, Copy)]
struct OpenBreaker {
    found: Instant,
    until: Instant,
}

/// Permission to ask a server. A half-open probe that is dropped without a result lets the next
/// caller probe.
#[derive(Debug)]
pub(super) struct Permit<'server> {
    breakers: &'server CircuitBreakers,
    server: &'server str,
    is_probe: bool,
}

impl Permit<'_> {
    pub(super) fn record<T>(mut self, answer: &RedisResult<T>) {
        self.is_probe = false;
        self.breakers.record(self.server, answer);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.is_probe
            && let Some(breaker) = self.breakers.0.lock().get_mut(self.server)
        {
            breaker.until = Instant::now();
        }
    }
}

impl CircuitBreakers {
    /// Admits a caller, or fails like the server because it did not answer a moment ago.
    pub(super) fn admit<'server>(
        &'server self,
        server: &'server str,
    ) -> RedisResult<Permit<'server>> {
        let mut is_probe = false;
        if let Some(breaker) = self.0.lock().get_mut(server) {
            let now = Instant::now();
            if now < breaker.until {
                return Err(open());
            }
            breaker.until = now + PAUSE;
            is_probe = true;
        }
        Ok(Permit {
            breakers: self,
            server,
            is_probe,
        })
    }

    /// Fails in the same way for a caller that has waited since `began` for a connection, when
    /// another caller failed to open it meanwhile.
    pub(super) fn still_admit(&self, server: &str, began: Instant) -> RedisResult<()> {
        match self.0.lock().get(server) {
            Some(breaker) if breaker.found > began => Err(open()),
            Some(_) | None => Ok(()),
        }
    }

    fn record<T>(&self, server: &str, answer: &RedisResult<T>) {
        match answer {
            Err(error) if error.is_timeout() => {
                let now = Instant::now();
                let mut servers = self.0.lock();
                servers.retain(|_, breaker| now.duration_since(breaker.found) < FORGOTTEN_AFTER);
                servers.insert(
                    server.to_owned(),
                    OpenBreaker {
                        found: now,
                        until: now + PAUSE,
                    },
                );
            }
            // The server refuses connections or requests. Such errors arrive at once anyway.
            Err(_) => {}
            Ok(_) => drop(self.0.lock().remove(server)),
        }
    }
}

fn open() -> RedisError {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "it did not answer in time a moment ago",
    )
    .into()
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::error::store_error;

    #[test]
    fn an_error_with_all_its_causes_says_once_that_a_server_did_not_answer() {
        let error = store_error(open());
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            text += &format!(": {source}");
            cause = source.source();
        }
        let says = text
            .matches("it did not answer in time a moment ago")
            .count();
        assert_eq!(says, 1, "{text}");
    }

    #[test]
    fn one_caller_probes_a_silent_server_and_the_others_fail_at_once() {
        let (breakers, began) = (CircuitBreakers::default(), Instant::now());
        assert!(breakers.admit("a").is_ok());
        breakers.record::<()>(
            "a",
            &Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()),
        );
        assert!(breakers.admit("a").is_ok(), "a refusal opens no breaker");
        breakers.record::<()>("a", &Err(open()));
        assert!(breakers.admit("a").unwrap_err().is_timeout());
        assert!(breakers.still_admit("a", began).unwrap_err().is_timeout());
        assert!(breakers.admit("b").is_ok() && breakers.still_admit("b", began).is_ok());

        // Simulates that a pause has passed.
        breakers.0.lock().get_mut("a").unwrap().until = Instant::now();
        let later = Instant::now();
        let probe = breakers.admit("a").unwrap();
        assert!(
            breakers.still_admit("a", later).is_ok(),
            "this one is the probe"
        );
        assert!(breakers.admit("a").is_err());
        drop(probe);
        let next = breakers.admit("a").unwrap();
        assert!(breakers.admit("a").is_err(), "the next one is the probe");
        next.record::<()>(&Err(
            io::Error::from(io::ErrorKind::ConnectionRefused).into()
        ));
        assert!(breakers.admit("a").is_err());
        breakers.record("b", &Ok(()));
        assert!(breakers.admit("a").is_err());
        breakers.record("a", &Ok(()));
        assert!(breakers.admit("a").is_ok() && breakers.admit("a").is_ok());
    }
}
