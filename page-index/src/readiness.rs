//! Readiness: whether readers may believe the page index.
//!
//! The watermark does not matter here. It says how far repair has come, not whether the partition is right (`vouches`).

use std::{fmt, time::Duration};

use model::Timestamp;

/// Why an index partition must not be believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReady {
    /// The partition has no marker: it is new, flushed, lost, or being rebuilt.
    NoMarker,
    /// The partition belongs to another table, because this one was restored or created again, or to another number of
    /// partitions.
    OtherTable,
    /// The last vouch is too old, or was taken away. An old snapshot was restored, or the page indexer or the repair
    /// job has stopped.
    Stale {
        /// When the repair job last vouched for it; `None` when that was taken away.
        vouched: Option<Timestamp>,
    },
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMarker => f.write_str("it has no marker (new, lost, or being rebuilt)"),
            Self::OtherTable => f.write_str("it belongs to another table or number of partitions"),
            Self::Stale { vouched: Some(at) } => write!(f, "the repair job last vouched for it at {at}"),
            Self::Stale { vouched: None } => f.write_str("the repair job does not vouch for it"),
        }
    }
}

/// The content of a partition's marker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Marker {
    /// See `Keys::owner`.
    owner: Option<String>,
    watermark: Option<Timestamp>,
    vouched: Option<Timestamp>,
}

impl Marker {
    /// Reads the fields `table`, `watermark` and `vouched`. An invalid instant counts as missing. So does a `vouched`
    /// of 0, which means that the vouch was taken away.
    pub(crate) fn of(owner: Option<String>, watermark: Option<i64>, vouched: Option<i64>) -> Self {
        let instant = |ms| Timestamp::from_epoch_ms(ms).ok();
        let vouched = vouched.filter(|ms| *ms > 0).and_then(instant);
        Self { owner, watermark: watermark.and_then(instant), vouched }
    }

    /// Judges the marker and returns its watermark. A marker without a watermark counts as absent.
    pub(crate) fn judge(&self, owner: &str, now: Timestamp, max_age: Duration) -> Result<Timestamp, NotReady> {
        let (Some(marked), Some(watermark)) = (&self.owner, self.watermark) else { return Err(NotReady::NoMarker) };
        if marked != owner {
            return Err(NotReady::OtherTable);
        }
        let age_ms = |vouched: Timestamp| u128::try_from(now.epoch_ms() - vouched.epoch_ms()).unwrap_or(0);
        match self.vouched {
            Some(vouched) if age_ms(vouched) <= max_age.as_millis() => Ok(watermark),
            vouched => Err(NotReady::Stale { vouched }),
        }
    }

    /// The watermark and the time of the vouch, if the marker belongs to this owner.
    pub(crate) fn of_owner(self, owner: &str) -> Option<(Timestamp, Option<Timestamp>)> {
        let watermark = self.watermark.filter(|_| self.owner.as_deref() == Some(owner))?;
        Some((watermark, self.vouched))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_marker_of_this_table_with_a_fresh_vouch_is_believed() {
        let at = |ms| Timestamp::from_epoch_ms(ms).unwrap();
        let marker = |table: &str, vouched| Marker::of(Some(table.to_owned()), Some(1_000), vouched);
        let judge = |marker: Marker| marker.judge("t1", at(10_000), Duration::from_millis(4_000));
        assert_eq!(judge(marker("t1", Some(6_000))), Ok(at(1_000)));
        assert_eq!(judge(marker("t1", Some(11_000))), Ok(at(1_000)));
        assert_eq!(judge(marker("t1", Some(5_999))), Err(NotReady::Stale { vouched: Some(at(5_999)) }));
        for never in [None, Some(0)] {
            let judged = marker("t1", never).judge("t1", at(10_000), Duration::MAX);
            assert_eq!(judged, Err(NotReady::Stale { vouched: None }), "{never:?}");
        }
        assert_eq!(judge(marker("t0", Some(6_000))), Err(NotReady::OtherTable));
        assert_eq!(judge(Marker::default()), Err(NotReady::NoMarker));
        assert_eq!(judge(Marker::of(Some("t1".to_owned()), None, Some(9_000))), Err(NotReady::NoMarker));
    }
}
