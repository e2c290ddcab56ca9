//! A value that is read for all requests at once. One task at a time reads it. The value is read
//! again when old, and after a pause when a read failed.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Mutex, time::Instant};

/// Pause after a read that failed. Otherwise requests would queue up while a store is away, and
/// fail one after another.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

pub(crate) struct Kept<T> {
    state: parking_lot::Mutex<KeptState<T>>,
    reading: Arc<Mutex<()>>,
}

/// A value that was just read.
pub(crate) struct Fresh<T> {
    pub(crate) value: T,
    /// How long it is not read again.
    pub(crate) pause: Duration,
    /// How long it is used: also beyond the pause, if it cannot be read again.
    pub(crate) used_for: Duration,
}

struct KeptState<T> {
    /// The value, and until when it is used.
    value: Option<(T, Instant)>,
    pause_until: Option<Instant>,
}

impl<T: Clone> KeptState<T> {
    fn usable(&self, now: Instant) -> Option<T> {
        let (value, until) = self.value.as_ref()?;
        if now < *until {
            Some(value.clone())
        } else {
            None
        }
    }

    fn pauses(&self, now: Instant) -> bool {
        self.pause_until.is_some_and(|until| now < until)
    }

    fn keep(&mut self, read: Option<Fresh<T>>, now: Instant) {
        let pause = match read {
            Some(Fresh {
                value,
                pause,
                used_for,
            }) => {
                self.value = Some((value, now + used_for));
                pause
            }
            None => PAUSE_AFTER_FAILURE,
        };
        self.pause_until = Some(now + pause);
    }
}

impl<T: Clone + Send + 'static> Kept<T> {
    pub(crate) fn new() -> Arc<Self> {
        let state = KeptState {
            value: None,
            pause_until: None,
        };
        Arc::new(Self {
            state: parking_lot::Mutex::new(state),
            reading: Arc::default(),
        })
    }

    /// The value that was read last, if it may still be used.
    pub(crate) fn usable(&self) -> Option<T> {
        self.state.lock().usable(Instant::now())
    }

    fn pauses(&self) -> bool {
        self.state.lock().pauses(Instant::now())
    }

    /// The value, or `None` while it cannot be read. If it is older than its pause, `read` begins
    /// in the background. A read that has begun ends, also when its requester has gone.
    pub(crate) async fn get<R>(self: &Arc<Self>, read: impl FnOnce() -> R) -> Option<T>
    where
        R: Future<Output = Option<Fresh<T>>> + Send + 'static,
    {
        let usable = self.usable();
        let alone = match usable {
            Some(_) => Arc::clone(&self.reading).try_lock_owned().ok(),
            None => Some(Arc::clone(&self.reading).lock_owned().await),
        };
        let alone = match alone {
            Some(alone) if !self.pauses() => alone,
            // Another task may have read meanwhile.
            _ => return usable.or_else(|| self.usable()),
        };
        let kept = Arc::clone(self);
        let read = read();
        let reading = tokio::spawn(async move {
            let _alone = alone;
            let read = read.await;
            let value = read.as_ref().map(|read| read.value.clone());
            kept.state.lock().keep(read, Instant::now());
            value
        });
        if usable.is_some() {
            return usable;
        }
        let read = reading.await;
        read.inspect_err(
            |error| tracing::error!(%error, "a read that all requests share has panicked"),
        )
        .ok()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that is not read again for 8 seconds, and is used for 16.
    fn fresh(value: char) -> Fresh<char> {
        let [pause, used_for] = [8, 16].map(Duration::from_secs);
        Fresh {
            value,
            pause,
            used_for,
        }
    }

    #[test]
    fn a_value_is_read_again_after_its_pause_and_used_until_its_end() {
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        let mut state = KeptState {
            value: None,
            pause_until: None,
        };
        assert!(state.usable(began).is_none() && !state.pauses(began));
        state.keep(Some(fresh('a')), after(0));
        assert!(state.pauses(after(7)) && !state.pauses(after(8)));
        // Where it cannot be read, there is a pause of a second, and the last value stays in use.
        state.keep(None, after(9));
        assert!(state.pauses(after(9)) && !state.pauses(after(10)));
        assert_eq!(
            (state.usable(after(15)), state.usable(after(16))),
            (Some('a'), None)
        );
        state.keep(Some(fresh('b')), after(20));
        assert_eq!(state.usable(after(35)), Some('b'));
    }
}
