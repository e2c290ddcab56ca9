//! Waits between attempts.

use std::time::Duration;

use tokio::time::Instant;

/// Exponential back-off with full jitter (AWS Architecture Blog, "Exponential Backoff And Jitter")
/// until a deadline.
#[derive(Debug)]
pub struct Backoff {
    deadline: Instant,
    ceiling: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(25);
    const LONGEST: Duration = Duration::from_secs(2);

    pub fn until(deadline: Instant) -> Self {
        Self {
            deadline,
            ceiling: Self::FIRST,
        }
    }

    /// Waits. Returns `false` without waiting when the wait would end after the deadline.
    pub async fn wait(&mut self) -> bool {
        let pause = self.ceiling.mul_f64(crate::random());
        self.ceiling = (self.ceiling * 2).min(Self::LONGEST);
        if Instant::now() + pause >= self.deadline {
            return false;
        }
        tokio::time::sleep(pause).await;
        true
    }
}
