//! The settings of a job, and their defaults.

use std::time::Duration;

/// Minimum age of journal entries at which their window is complete. It exceeds the time of a write (30 s, see
/// `table/src/writer.rs`), plus clock differences between writers and the delay of a page-index edit (`repair`).
pub const SETTLE_DELAY: Duration = Duration::from_secs(60);

/// How much of the time already reconciled is reconciled again.
pub const OVERLAP: Duration = Duration::from_secs(300);

/// Maximum lag of the page indexer at which the job still vouches for the page index. The lag's alarm comes first: it
/// fires when records are 5 minutes old for a quarter of an hour.
pub const INDEXER_LAG: Duration = Duration::from_secs(900);

/// Interval between two vouches of a run for the page index. The run notices within this time that Redis was restored
/// or taken over.
pub const VOUCH_EVERY: Duration = Duration::from_secs(60);

/// Lifetime of a lease that is not renewed. A killed run keeps others away for this long.
pub const LEASE: Duration = Duration::from_secs(60);

/// Settings of a job.
#[derive(Debug, Clone)]
pub struct JobSettings {
    /// Whether the job repairs differences. A dry run takes no lease and stores nothing.
    pub apply: bool,
    /// See [`SETTLE_DELAY`].
    pub settle: Duration,
    /// See [`OVERLAP`].
    pub overlap: Duration,
    /// See [`LEASE`].
    pub lease: Duration,
    /// Number of comments repaired in parallel.
    pub concurrency: usize,
    /// See [`INDEXER_LAG`].
    pub indexer_lag: Duration,
    /// See [`VOUCH_EVERY`].
    pub vouch_every: Duration,
}

impl Default for JobSettings {
    fn default() -> Self {
        Self {
            apply: false,
            settle: SETTLE_DELAY,
            overlap: OVERLAP,
            lease: LEASE,
            concurrency: 8,
            indexer_lag: INDEXER_LAG,
            vouch_every: VOUCH_EVERY,
        }
    }
}

/// A time in milliseconds.
pub(crate) fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
