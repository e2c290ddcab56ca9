//! Plans an audit: what remains to check, and where it begins. No I/O, no clock.
//!
//! **Invariant:** everything that counts as checked since an instant was read after that instant. A
//! position of an earlier pass is not resumed, because that pass may have checked the items before
//! it too early (`tests/repair/resumed.rs`).

use std::{collections::BTreeMap, ops::Range, time::Duration};

use clap::Args;
use model::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    run::settings::ms,
    state::checkpoint::{ScanState, SegmentState},
};

/// How much earlier than due a rolling run checks a segment again, so that none is ever late.
const EARLIER: Duration = Duration::from_secs(24 * 3600);

/// Default number of segments of the table.
pub(crate) const SEGMENTS: u32 = 64;

/// Target period in which rolling runs check the whole table once.
pub(crate) const EVERY: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Debug, Clone, Copy, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditOptions {
    /// Number of segments into which the audit divides the table. Checks with a different number do
    /// not count.
    #[arg(long, value_name = "N", default_value_t = SEGMENTS)]
    pub segments: u32,
    /// Number of segments, and of batches of the page index, checked in parallel.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub at_once: usize,
    /// Check only this segment, and not the page index. Segments are numbered from 0.
    // The function of big repairs asks for the one after the last, which stands for the page index.
    #[arg(long, value_name = "K", conflicts_with = "rolling")]
    pub segment: Option<u32>,
    /// Check only what was not checked in the last six days, as the hourly run does, and do not
    /// compare the table's own indexes with the table.
    #[arg(long)]
    pub rolling: bool,
    /// Do not scan the page index.
    #[arg(long)]
    pub no_index_scan: bool,
    /// Resume an audit that began at this time, such as 2024-01-31T06:00:00Z. Items checked since
    /// then are not checked again, even if it has changed.
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse, conflicts_with = "rolling")]
    pub since: Option<Timestamp>,
}

impl Default for AuditOptions {
    fn default() -> Self {
        process::defaults(&[])
    }
}

impl AuditOptions {
    /// The segments to check.
    pub(crate) fn wanted(&self) -> Range<u32> {
        match self.segment {
            Some(one) => one..self.segments.min(one.saturating_add(1)),
            None => 0..self.segments,
        }
    }

    /// Whether the table's own indexes are compared with the table. That is a read unit for each
    /// comment, as much as the rest of its check. DynamoDB keeps its indexes whole, so the hourly
    /// run spends nothing on it.
    pub(crate) fn compares_indexes(&self) -> bool {
        !self.rolling
    }

    pub(crate) fn scans_index(&self) -> bool {
        !self.no_index_scan && self.segment.is_none_or(|one| one >= self.segments)
    }

    /// Where a scan continues. Without a position it begins anew. `None` when it is done. The time
    /// of a scan is its beginning.
    ///
    /// A rolling run proves nothing about the table as a whole, so it resumes a scan of any age.
    pub(crate) fn remaining<P>(
        &self,
        state: ScanState<P>,
        present: Timestamp,
    ) -> Option<ScanState<P>> {
        let mut done_since = self.since;
        let mut resumed_since = self.since;
        if self.rolling {
            done_since = Some(present.plus_ms(-ms(EVERY - EARLIER)));
            resumed_since = Some(Timestamp::MIN);
        }
        if is_within(state.last_began, done_since, present) {
            None
        } else if is_within(state.began, resumed_since, present) {
            Some(state)
        } else {
            Some(state.begun_anew())
        }
    }
}

/// Whether something began between two instants. A time in the future comes from a fast clock, so
/// its actual age is unknown.
fn is_within(began: Option<Timestamp>, since: Option<Timestamp>, present: Timestamp) -> bool {
    match (began, since) {
        (Some(began), Some(since)) => (since..=present).contains(&began),
        _ => false,
    }
}

pub(crate) fn state_name(segment: u32, segments: u32) -> String {
    format!("{segments}/{segment:06}")
}

/// The segments that remain to check: those under way first, then those whose last check is the
/// oldest.
pub(crate) fn plan_audit(
    states: &BTreeMap<String, SegmentState>,
    options: AuditOptions,
    present: Timestamp,
) -> Vec<(u32, SegmentState)> {
    let mut remaining = Vec::new();
    for segment in options.wanted() {
        let stored = states.get(&state_name(segment, options.segments));
        let state = stored.cloned().unwrap_or_default();
        if let Some(state) = options.remaining(state, present) {
            remaining.push((segment, state));
        }
    }
    remaining.sort_by_key(|(_, state)| (state.began.is_none(), state.last_began));
    remaining
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_epoch_ms(1_700_000_000_000)
            .unwrap()
            .plus_ms(hours * HOUR_MS)
    }

    fn half_done(began: i64, last_began: Option<i64>) -> SegmentState {
        SegmentState {
            position: Some(table::ItemKey {
                pk: "COMMENT#c".to_owned(),
                sk: "PRODUCT#p/~/~".to_owned(),
            }),
            began: Some(at(began)),
            last_began: last_began.map(at),
            ..SegmentState::default()
        }
    }

    fn done(began: i64) -> SegmentState {
        SegmentState {
            last_began: Some(at(began)),
            ..SegmentState::default()
        }
    }

    /// Plans at hour 0. Checks which segments remain, and whether each resumes.
    fn check(states: &[SegmentState], options: AuditOptions, remaining: &[(u32, bool)]) {
        let segments = u32::try_from(states.len()).unwrap();
        let named = (0..)
            .zip(states)
            .map(|(segment, state)| (state_name(segment, segments), state.clone()))
            .collect();
        let planned = plan_audit(
            &named,
            AuditOptions {
                segments,
                ..options
            },
            at(0),
        );
        let found: Vec<(u32, bool)> = planned
            .iter()
            .map(|(segment, state)| (*segment, state.position.is_some()))
            .collect();
        assert_eq!(found, remaining, "{planned:?}");
    }

    #[test]
    fn an_audit_ignores_what_earlier_ones_have_done() {
        let states = [
            half_done(-1, None),
            done(-2),
            half_done(-100, Some(-300)),
            SegmentState::default(),
        ];
        check(
            &states,
            AuditOptions::default(),
            &[(0, false), (3, false), (2, false), (1, false)],
        );
    }

    fn since(hours: i64) -> AuditOptions {
        AuditOptions {
            since: Some(at(hours)),
            ..AuditOptions::default()
        }
    }

    #[test]
    fn an_audit_since_an_instant_resumes_what_began_then_or_later() {
        let states = [
            half_done(-4, None),
            done(-4),
            half_done(-5, None),
            half_done(-1, Some(-200)),
            done(1),
        ];
        check(
            &states,
            since(-4),
            &[(0, true), (3, true), (2, false), (4, false)],
        );
        check(
            &states,
            AuditOptions {
                segment: Some(1),
                ..since(-4)
            },
            &[],
        );
        check(
            &states,
            AuditOptions {
                segment: Some(0),
                ..since(-3)
            },
            &[(0, false)],
        );
        // The page index.
        check(
            &states,
            AuditOptions {
                segment: Some(5),
                ..since(-4)
            },
            &[],
        );
        assert_eq!(since(-4).remaining(done(-4), at(0)), None);
        assert!(since(-3).remaining(done(-4), at(0)).is_some());
    }

    #[test]
    fn a_rolling_run_takes_segments_under_way_then_the_oldest() {
        let due = AuditOptions {
            rolling: true,
            ..AuditOptions::default()
        };
        let states = [
            done(-200),
            done(-100),
            half_done(-50, Some(-190)),
            done(-300),
        ];
        check(&states, due, &[(2, true), (3, false), (0, false)]);
    }
}
