//! Which runs of `recent` a stack leaves out because the journal has no new entry: no comment has changed, and no reader
//! has reported one.
//!
//! A run looks at the changes since the watermark and the overlap before it, except those younger than the settle delay. It
//! is left out only if there are none. The next run begins at the watermark of the last one, so it looks at everything in
//! between. Even a change that nobody noticed waits for [`RUN_AT_LEAST_EVERY`] at most.

use std::time::Duration;

use tokio::time::Instant;

use crate::{event_source_mapping::MappingState, settling::Settling};

/// The longest time between two runs, because the start of the next stack reads the journal since the watermark.
const RUN_AT_LEAST_EVERY: Duration = Duration::from_secs(600);

/// Decides whether the next run is left out.
#[derive(Debug)]
pub(crate) struct QuietRuns {
    mappings: Settling,
    begun: Instant,
    interval: Duration,
    /// How long runs look at a change, after which it counts as old.
    lately: Duration,
    /// The end of the last run, if it found nothing to repair and nothing that needs another run.
    clean_at: Option<Instant>,
}

impl QuietRuns {
    /// For runs at an interval, or a little later. `window` is the settle delay and the overlap together. What came before
    /// `begun` counts as a change of this moment.
    pub(crate) fn new(mappings: Settling, begun: Instant, interval: Duration, window: Duration) -> Self {
        Self { mappings, begun, interval, lately: 2 * interval + window, clean_at: None }
    }

    /// Whether the run that is due may be left out. A change of the last interval may be missed, but not by the next look.
    pub(crate) fn leaves_out(&self, now: Instant) -> bool {
        let is_quiet = |state: &MappingState| {
            let changed_at = state.journal_entry_at.map_or(self.begun, |at| at.max(self.begun));
            now - changed_at > self.lately && state.caught_up_at.is_some_and(|at| now - at < self.interval)
        };
        let is_clean = self.clean_at.is_some_and(|at| now - at < RUN_AT_LEAST_EVERY);
        is_clean && self.mappings.states().iter().all(is_quiet)
    }

    pub(crate) fn has_run(&mut self, now: Instant, is_clean: bool) {
        self.clean_at = is_clean.then_some(now);
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use repair_job::JobSettings;
    use tokio::sync::watch;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_secs(60);

    struct Mappings([watch::Sender<MappingState>; 2]);

    impl Mappings {
        fn new() -> Self {
            Self([watch::Sender::default(), watch::Sender::default()])
        }

        /// Runs with the default schedule.
        fn runs(&self, begun: Instant) -> QuietRuns {
            let mappings = Settling::of(self.0.each_ref().map(watch::Sender::subscribe), None);
            let JobSettings { settle, overlap, .. } = JobSettings::default();
            QuietRuns::new(mappings, begun, MINUTE, settle + overlap)
        }

        /// The last of the changes that each has passed, and up to when each has read everything.
        fn show(&self, changed: [Option<Instant>; 2], read: [Instant; 2]) {
            for ((mapping, journal_entry_at), read) in self.0.iter().zip(changed).zip(read) {
                let caught_up_at = Some(read);
                mapping.send_replace(MappingState { caught_up_at, journal_entry_at, ..MappingState::default() });
            }
        }
    }

    #[test]
    fn it_is_quiet_while_both_mappings_have_read_all_and_found_no_change() {
        let (mappings, begun) = (Mappings::new(), Instant::now());
        let mut runs = mappings.runs(begun);
        let (now, lately) = (begun + 60 * MINUTE, runs.lately);
        runs.has_run(now - MINUTE, true);
        // When each mapping has seen a change, and how many seconds ago it had read everything.
        let leaves_out = |changed: [Option<Instant>; 2], read: [u32; 2]| {
            mappings.show(changed, read.map(|seconds| now - seconds * SECOND));
            runs.leaves_out(now)
        };
        let (old, new) = (Some(now - lately - SECOND), Some(now - lately + SECOND));
        assert!(leaves_out([None, None], [1, 1]));
        assert!(leaves_out([old, old], [59, 1]));
        assert!(!leaves_out([new, old], [1, 1]), "a comment has changed");
        assert!(!leaves_out([old, new], [1, 1]), "a comment has changed");
        assert!(!leaves_out([old, old], [1, 61]), "one mapping is behind, so there may be changes");
        assert!(!leaves_out([old, old], [61, 1]));
        let mut runs = mappings.runs(now - lately);
        runs.has_run(now - MINUTE, true);
        mappings.show([None, None], [now, now]);
        assert!(!runs.leaves_out(now), "what was before the first look counts as a change");
        assert!(runs.leaves_out(now + SECOND));
    }

    /// A day of a stack with the default schedule.
    struct Day {
        begun: Instant,
        /// When each run was due, and whether it was left out.
        due: Vec<(Instant, bool)>,
        changes: Vec<Instant>,
    }

    /// Plays a day whose comments change at times drawn from a seed: several within some minutes, then none for hours.
    fn play_a_day(seed: u64, are_clean: bool) -> Day {
        let (mut random, begun) = (StdRng::seed_from_u64(seed), Instant::now());
        let mut at = begun;
        let mut changes = Vec::new();
        while at < begun + 24 * 60 * MINUTE {
            let pause_s = if random.random_ratio(1, 4) { 4 * 3600 } else { 300 };
            at += Duration::from_millis(random.random_range(0..1_000 * pause_s));
            changes.push(at);
        }
        let mappings = Mappings::new();
        let mut runs = mappings.runs(begun);
        let mut due = Vec::new();
        let mut now = begun;
        while now < begun + 24 * 60 * MINUTE {
            now += MINUTE;
            // Each mapping looks at least every five seconds, and an invocation takes at most half of a minute.
            let read = [0, 1].map(|_| now - Duration::from_millis(random.random_range(0..35_000)));
            // A mapping passes a change at once, or later.
            let passed = read.map(|read| changes.iter().rfind(|at| **at < read).copied());
            mappings.show(passed, read);
            let is_left_out = runs.leaves_out(now);
            due.push((now, is_left_out));
            if !is_left_out {
                now += Duration::from_millis(random.random_range(1..2_000));
                runs.has_run(now, are_clean);
            }
        }
        Day { begun, due, changes }
    }

    #[test]
    fn a_run_is_left_out_only_if_it_would_look_at_no_change() {
        let JobSettings { settle, overlap, .. } = JobSettings::default();
        for seed in 0..200 {
            let Day { begun, due, changes } = play_a_day(seed, true);
            for ((before, _), (now, _)) in
                due.iter().zip(due.iter().skip(1)).filter(|(_, (_, is_left_out))| *is_left_out)
            {
                // Where a run before it would have left the watermark.
                let watermark = *before - settle;
                let looked_at = changes.iter().find(|at| **at >= watermark - overlap && **at <= *now - settle);
                assert_eq!(looked_at.map(|at| *at - begun), None, "seed {seed}, left out at {:?}", *now - begun);
            }
            let left_out = due.iter().filter(|(_, is_left_out)| *is_left_out).count();
            assert!(left_out > due.len() / 10, "seed {seed}: {left_out} of {} runs are left out", due.len());
        }
    }

    #[test]
    fn none_is_left_out_after_an_unclean_one_or_for_more_than_eleven_minutes() {
        let day = play_a_day(1, true);
        let runs: Vec<Instant> = day.due.iter().filter(|(_, is_left_out)| !is_left_out).map(|(now, _)| *now).collect();
        let longest = runs.iter().zip(runs.iter().skip(1)).map(|(run, next)| *next - *run).max();
        assert!(longest > Some(RUN_AT_LEAST_EVERY / 2) && longest <= Some(RUN_AT_LEAST_EVERY + MINUTE), "{longest:?}");
        let day = play_a_day(1, false);
        assert!(day.due.iter().all(|(_, is_left_out)| !is_left_out));
    }
}
