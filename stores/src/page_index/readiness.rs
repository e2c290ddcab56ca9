//! Readiness: whether the page index may be believed.

use std::{fmt, time::Duration};

use model::Instant;

/// Why an index partition must not be believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReady {
    /// It has no marker: new, flushed, lost, or being rebuilt.
    NoMarker,
    /// It belongs to another table (this one was restored or created again), or to another number of partitions.
    OtherTable,
    /// Its watermark is too old: an old snapshot was restored, or repair stands still.
    Stale {
        /// Up to when the journal has been reconciled into it.
        watermark: Instant,
    },
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMarker => f.write_str("it has no marker (new, lost, or being rebuilt)"),
            Self::OtherTable => f.write_str("it belongs to another table or number of partitions"),
            Self::Stale { watermark } => write!(f, "it is reconciled only up to {watermark}"),
        }
    }
}

/// What a partition's marker says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Marker {
    /// See `Keys::owner`.
    pub(super) owner: Option<String>,
    pub(super) watermark: Option<i64>,
}

impl Marker {
    /// Judges the marker. A watermark that is missing or no instant counts as no marker.
    pub(super) fn judge(&self, owner: &str, now: Instant, max_age: Duration) -> Result<Instant, NotReady> {
        let watermark = self.watermark.and_then(|ms| Instant::from_epoch_ms(ms).ok());
        let (Some(marked), Some(watermark)) = (&self.owner, watermark) else { return Err(NotReady::NoMarker) };
        if marked != owner {
            return Err(NotReady::OtherTable);
        }
        let age_ms = u128::try_from(now.epoch_ms() - watermark.epoch_ms()).unwrap_or(0);
        if age_ms > max_age.as_millis() { Err(NotReady::Stale { watermark }) } else { Ok(watermark) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fresh_marker_of_this_table_is_believed() {
        let at = |ms| Instant::from_epoch_ms(ms).unwrap();
        let marker = |table: &str, ms| Marker { owner: Some(table.to_owned()), watermark: Some(ms) };
        let judge = |marker: Marker| marker.judge("t1", at(10_000), Duration::from_millis(4_000));
        assert_eq!(judge(marker("t1", 6_000)), Ok(at(6_000)));
        assert_eq!(judge(marker("t1", 11_000)), Ok(at(11_000)));
        assert_eq!(judge(marker("t1", 5_999)), Err(NotReady::Stale { watermark: at(5_999) }));
        assert_eq!(judge(marker("t0", 6_000)), Err(NotReady::OtherTable));
        assert_eq!(judge(Marker::default()), Err(NotReady::NoMarker));
        assert_eq!(judge(Marker { owner: Some("t1".to_owned()), watermark: None }), Err(NotReady::NoMarker));
    }
}
