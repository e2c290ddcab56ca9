//! Plans an audit: the segments to check, the start position in each, and the instant from which the pass counts. No
//! I/O, no clock.
//!
//! **Invariant:** everything that counts as checked by a pass was read after that pass began. A position of an earlier
//! pass is not resumed, because this pass has not checked the items before it (`tests/repair/resumed.rs`).

use std::{collections::BTreeMap, time::Duration};

use clap::Args;
use model::Timestamp;
use page_index::IndexScanPosition;
use serde::{Deserialize, Serialize};

use crate::{
    run::settings::ms,
    state::checkpoint::{ScanState, SegmentState},
};

/// How much earlier than due a rolling run checks a segment again, so that none is ever late.
const EARLIER: Duration = Duration::from_secs(24 * 3600);

/// Resume automatically only within six hours. Items checked earlier are not rechecked, so an older pass would report
/// stale data as clean.
const RESUMED_WITHIN: Duration = Duration::from_secs(6 * 3600);

/// Default number of segments of the table.
pub(crate) const SEGMENTS: u32 = 64;

/// Target period in which rolling runs check the whole table once.
pub(crate) const EVERY: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// All segments, resuming a run that was interrupted a short while ago.
    All,
    One(u32),
    NoneOfThem,
    /// The segments whose last check is nearly a week old or older: segments under way first, then the oldest.
    Due,
}

#[derive(Debug, Clone, Copy, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditOptions {
    /// Number of segments into which the audit divides the table. With another number, it starts anew.
    #[arg(long, value_name = "N", default_value_t = SEGMENTS)]
    pub segments: u32,
    /// Number of segments, and of batches of the page index, checked in parallel.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub at_once: usize,
    /// Check only this segment, and not the page index. Segments are numbered from 0.
    // The function of big repairs asks for the one after the last, which stands for the page index.
    #[arg(long, value_name = "K", conflicts_with = "rolling")]
    pub segment: Option<u32>,
    /// Check only what was not checked in the last six days, as the hourly run does.
    #[arg(long)]
    pub rolling: bool,
    /// Do not scan the page index.
    #[arg(long)]
    pub no_index_scan: bool,
    /// Start anew instead of resuming an interrupted run.
    #[arg(long)]
    pub restart: bool,
    /// Resume an interrupted run of any age. The part that it had checked is not checked again, even if it has changed.
    #[arg(long, conflicts_with = "restart")]
    pub resume: bool,
    /// Resume only what began at or after this instant, whatever its age. It is the beginning of the big repair that
    /// this audit belongs to.
    #[arg(skip)]
    pub since: Option<Timestamp>,
}

impl Default for AuditOptions {
    fn default() -> Self {
        process::defaults(&[])
    }
}

impl AuditOptions {
    pub(crate) fn which(&self) -> Which {
        match self.segment {
            Some(segment) if segment < self.segments => Which::One(segment),
            Some(_) => Which::NoneOfThem,
            None if self.rolling => Which::Due,
            None => Which::All,
        }
    }

    pub(crate) fn scans_index(&self) -> bool {
        !self.no_index_scan && !matches!(self.which(), Which::One(_))
    }

    /// Whether a pass that began then is part of the big repair. That asks again for a segment if its answer was lost, or
    /// said that something was left out.
    fn is_done(&self, last_began: Option<Timestamp>) -> bool {
        self.since.is_some_and(|since| last_began >= Some(since))
    }
}

pub(crate) fn state_name(segment: u32, segments: u32) -> String {
    format!("{segments}/{segment:06}")
}

/// The name of the state with the start of a pass over all segments. The state is empty when no such pass is under way.
pub(crate) fn pass_name(segments: u32) -> String {
    format!("{segments}/pass")
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AuditPlan {
    /// When the pass began. A resumed pass keeps its original time.
    pub(crate) began: Timestamp,
    pub(crate) segments: Vec<(u32, SegmentState)>,
    pub(crate) done: u32,
    pub(crate) notes: Vec<String>,
}

/// Whether a rolling run checks something again whose last check began at this time. A time in the future comes from a
/// fast clock and counts as due.
fn is_due(last_began: Option<Timestamp>, present: Timestamp) -> bool {
    let age_ms = ms(EVERY - EARLIER);
    !last_began.is_some_and(|began| (present.plus_ms(-age_ms)..=present).contains(&began))
}

pub(crate) fn plan_audit(
    states: &BTreeMap<String, SegmentState>,
    options: AuditOptions,
    present: Timestamp,
) -> AuditPlan {
    let segments = options.segments.max(1);
    // A time in the future comes from a fast clock, so the actual age is unknown.
    let oldest = options.since.unwrap_or(present.plus_ms(-ms(RESUMED_WITHIN)));
    let may_resume = |began: Timestamp| began <= present && (options.resume || began >= oldest);
    let state = |segment| {
        let state = states.get(&state_name(segment, segments)).cloned().unwrap_or_default();
        state.resumed_if(|_| !options.restart)
    };
    let all = (0..segments).map(|segment| (segment, state(segment)));
    let mut pass = AuditPlan { began: present, segments: Vec::new(), done: 0, notes: Vec::new() };
    match options.which() {
        Which::All => {
            let before = states.get(&pass_name(segments)).and_then(|pass| pass.began).filter(|_| !options.restart);
            pass.began = before.filter(|began| may_resume(*began)).unwrap_or(present);
            let began = pass.began;
            // Rolling runs may meanwhile have completed some segments, or be in the middle of some. Positions from
            // before this pass are discarded.
            let is_done = |last: Timestamp| before == Some(began) && (began..=present).contains(&last);
            let left = all.filter(|(_, state)| !state.last_began.is_some_and(is_done));
            pass.segments = left.map(|(segment, state)| (segment, state.resumed_if(|since| since >= began))).collect();
            pass.done = segments - u32::try_from(pass.segments.len()).unwrap_or(segments);
            if before == Some(began) {
                let middle = pass.segments.iter().filter(|(_, state)| state.position.is_some()).count();
                pass.notes.push(format!(
                    "it resumes the pass that began at {began}: {} of {segments} segments were done, {middle} half done; \
                     what has changed there since then was not checked again (--restart does)",
                    pass.done
                ));
            } else if let Some(before) = before {
                pass.notes.push(format!("the pass that began at {before} is too old to resume: it starts anew"));
            }
        }
        Which::One(segment) => {
            let state = state(segment).resumed_if(may_resume);
            if let Some(began) = state.began {
                pass.notes.push(format!("it resumes the pass over segment {segment} that began at {began}"));
            }
            if !options.is_done(state.last_began) {
                pass.segments = vec![(segment, state)];
            }
        }
        Which::NoneOfThem => {}
        // A rolling run proves nothing about the table as a whole. Each segment counts as checked when its pass began,
        // however long it takes.
        Which::Due => {
            pass.segments = all.filter(|(_, state)| is_due(state.last_began, present)).collect();
            pass.segments.sort_by_key(|(_, state)| (state.began.is_none(), state.last_began));
        }
    }
    pass
}

/// Where a scan of the page index begins: without a position, it starts anew. It does not resume a scan that began before
/// `since`. `None` when no scan is due.
pub(crate) fn plan_index_scan(
    state: ScanState<IndexScanPosition>,
    options: AuditOptions,
    since: Option<Timestamp>,
    present: Timestamp,
) -> Option<ScanState<IndexScanPosition>> {
    let state = state.resumed_if(|_| !options.restart);
    let is_early = options.which() == Which::Due && state.position.is_none() && !is_due(state.last_began, present);
    if is_early || options.is_done(state.last_began) {
        return None;
    }
    Some(state.resumed_if(|began| since.is_none_or(|since| began >= since)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_epoch_ms(1_700_000_000_000).unwrap().plus_ms(hours * HOUR_MS)
    }

    fn half_done(began: i64, last_began: Option<i64>) -> SegmentState {
        SegmentState {
            position: Some(table::ItemKey { pk: "COMMENT#c".to_owned(), sk: "PRODUCT#p/~/~".to_owned() }),
            began: Some(at(began)),
            last_began: last_began.map(at),
            last_ended: last_began.map(at),
            ..SegmentState::default()
        }
    }

    fn done(began: i64) -> SegmentState {
        SegmentState { last_began: Some(at(began)), last_ended: Some(at(began)), ..SegmentState::default() }
    }

    /// Plans at hour 0. Returns whether each remaining segment resumes, and when the pass began.
    fn check(
        states: &[SegmentState],
        pass: Option<i64>,
        options: AuditOptions,
        left: &[(u32, bool)],
        began: i64,
    ) -> Vec<String> {
        let segments = u32::try_from(states.len()).unwrap();
        let mut named: BTreeMap<String, SegmentState> =
            (0..).zip(states).map(|(segment, state)| (state_name(segment, segments), state.clone())).collect();
        let pass = pass.map(|began| SegmentState { began: Some(at(began)), ..SegmentState::default() });
        named.extend(pass.map(|pass| (pass_name(segments), pass)));
        let planned = plan_audit(&named, AuditOptions { segments, ..options }, at(0));
        let found: Vec<(u32, bool)> =
            planned.segments.iter().map(|(segment, state)| (*segment, state.position.is_some())).collect();
        assert_eq!((found.as_slice(), planned.began), (left, at(began)), "{planned:?}");
        planned.notes
    }

    #[test]
    fn a_new_pass_ignores_the_positions_of_earlier_ones() {
        let states = [half_done(-1, None), done(-2), half_done(-100, Some(-300)), SegmentState::default()];
        let all = [(0, false), (1, false), (2, false), (3, false)];
        assert_eq!(check(&states, None, AuditOptions::default(), &all, 0), Vec::<String>::new());
    }

    #[test]
    fn a_pass_may_resume_for_some_hours_and_says_so() {
        let states = [half_done(-4, None), done(-4), half_done(-5, None), half_done(-1, Some(-200))];
        let notes = check(&states, Some(-4), AuditOptions::default(), &[(0, true), (2, false), (3, true)], -4);
        assert!(notes[0].contains("1 of 4 segments were done, 2 half done"), "{notes:?}");
    }

    #[test]
    fn an_old_pass_starts_anew_unless_resume_is_given() {
        let states = [half_done(-7, None), done(-7)];
        let notes = check(&states, Some(-7), AuditOptions::default(), &[(0, false), (1, false)], 0);
        assert!(notes[0].contains("too old"), "{notes:?}");
        let resume = AuditOptions { resume: true, ..AuditOptions::default() };
        check(&states, Some(-7), resume, &[(0, true)], -7);
    }

    #[test]
    fn one_segment_may_resume_for_some_hours() {
        let one = AuditOptions { segment: Some(0), ..AuditOptions::default() };
        assert_eq!(check(&[half_done(-5, None)], None, one, &[(0, true)], 0).len(), 1);
        assert_eq!(check(&[half_done(-7, None)], None, one, &[(0, false)], 0).len(), 0);
        check(&[half_done(-7, None)], None, AuditOptions { resume: true, ..one }, &[(0, true)], 0);
        let since = |hours| AuditOptions { since: Some(at(hours)), ..one };
        check(&[half_done(-7, None)], None, since(-7), &[(0, true)], 0);
        check(&[half_done(-5, None)], None, since(-4), &[(0, false)], 0);
        check(&[half_done(-3, Some(-6))], None, since(-7), &[], 0);
        let scanned = ScanState { last_began: Some(at(-6)), ..ScanState::default() };
        assert_eq!(plan_index_scan(scanned.clone(), since(-7), None, at(0)), None);
        assert!(plan_index_scan(scanned, since(-5), None, at(0)).is_some());
    }

    #[test]
    fn a_rolling_run_takes_segments_under_way_then_the_oldest() {
        let due = AuditOptions { rolling: true, ..AuditOptions::default() };
        let states = [done(-200), done(-100), half_done(-50, Some(-190)), done(-300)];
        check(&states, Some(-4), due, &[(2, true), (3, false), (0, false)], 0);
    }
}
