//! What a seed does: its actors, and the faults that they meet.

use std::{collections::BTreeSet, fmt};

use model::planted::Bug;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use strum::IntoEnumIterator;

/// What a schedule is for. It decides what is checked, and which faults may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub(crate) enum Mode {
    /// Comments are only posted, and clocks and lag are within the bound of ADR 57: no archive page
    /// ever changes.
    Posts,
    /// All faults end: one `recent` repairs everything, or one audit where the page index was lost.
    FaultsThatEnd,
    /// Any faults, also those that only an audit repairs, and clocks that are minutes apart.
    AnyFaults,
}

/// An actor or a kind of fault. Each draws from a separate stream, so one that is left out
/// changes no other.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    strum::Display,
    strum::EnumIter,
    strum::EnumString,
)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Part {
    /// Actors. A customer posts; an editor changes and deletes; an importer creates, deletes and
    /// creates again under the same ids and old dates.
    Customers,
    Editors,
    Importer,
    /// Read numbered pages, the front page and lists; walk by cursor.
    Readers,
    Walkers,
    /// Writers pause for minutes, so that delays, leases and confirmations end meanwhile.
    Hours,
    /// The hourly jobs.
    Recent,
    /// A person who has single comments checked and repaired, while they are changed.
    Check,
    Audit,
    Rebuild,
    /// Calls of the table: lost before it, answered with an error although done, throttled or
    /// failed, done in part, done late.
    LostCalls,
    LostAnswers,
    Throttled,
    Unprocessed,
    SlowCalls,
    LateWrites,
    /// One process cannot reach the table for some time.
    TableAway,
    /// Calls of the page index.
    IndexCallsLost,
    IndexAnswersLost,
    /// Deliveries: again from an earlier record; an invocation dies; a function never gets some
    /// records; it stands still.
    Redelivery,
    Crashes,
    RecordsLost,
    WriterStops,
    IndexerStops,
    /// The servers of the page index: emptied, restored from a snapshot, replaced by a replica that
    /// lags, refusing writes.
    IndexEmptied,
    IndexRestored,
    IndexFailsOver,
    IndexRefuses,
    /// The job dies between any two calls.
    JobDies,
    /// Clocks of the processes differ.
    Clocks,
    /// A duplicate is lost or altered, or a rank is, by something else than Pagemark.
    Damage,
    /// `kill -9` of `pagemark up`, and its start.
    Kill,
    /// An author wants everything erased, while it is changed and imported again.
    Erasure,
    /// What a function never gets is in quarantine, and its operator works it off.
    Quarantine,
    /// A run of the job loses its lease, and another one begins.
    LeasesLost,
}

impl Part {
    /// Whether the part may be in schedules of this mode.
    fn is_in(self, mode: Mode) -> bool {
        let shifts_pages = matches!(
            self,
            Self::Editors
                | Self::Importer
                | Self::Erasure
                | Self::Check
                | Self::RecordsLost
                | Self::IndexEmptied
                | Self::IndexRestored
                | Self::IndexFailsOver
        );
        match mode {
            Mode::Posts => !shifts_pages && self != Self::Damage,
            Mode::FaultsThatEnd => self != Self::Damage,
            Mode::AnyFaults => true,
        }
    }

    /// Whether less can be checked before the last repair, because something is lost that only a
    /// repair brings back.
    fn hides_faults(self) -> bool {
        // A page index that can be killed has no other faults.
        matches!(
            self,
            Self::Damage
                | Self::IndexEmptied
                | Self::IndexFailsOver
                | Self::IndexRestored
                | Self::RecordsLost
                | Self::Kill
        )
    }

    /// Faults that cannot happen to a page index in the process of `pagemark up`.
    fn is_of_servers(self) -> bool {
        matches!(
            self,
            Self::IndexCallsLost
                | Self::IndexAnswersLost
                | Self::IndexRefuses
                | Self::IndexEmptied
                | Self::IndexFailsOver
                | Self::IndexRestored
        )
    }

    fn is_always_there(self) -> bool {
        matches!(self, Self::Customers | Self::Readers)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) mode: Mode,
    pub(crate) parts: BTreeSet<Part>,
    /// How many changes each writer makes.
    pub(crate) changes: usize,
    /// A bug that the simulator must find.
    pub(crate) bug: Option<Bug>,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mode = match random.random_range(0..10) {
            0..2 => Mode::Posts,
            2..7 => Mode::FaultsThatEnd,
            _ => Mode::AnyFaults,
        };
        let share: f64 = random.random_range(0.2..0.8);
        let mut drawn = BTreeSet::new();
        for part in Part::iter() {
            let probability = if part.hides_faults() {
                0.4 * share
            } else {
                share
            };
            if random.random_bool(probability) {
                drawn.insert(part);
            }
        }
        let is_one_process = drawn.contains(&Part::Kill);
        let mut parts = BTreeSet::new();
        for part in Part::iter() {
            let is_impossible = is_one_process && part.is_of_servers();
            let happens = drawn.contains(&part) && !is_impossible;
            if part.is_in(mode) && (part.is_always_there() || happens) {
                parts.insert(part);
            }
        }
        Self {
            seed,
            mode,
            parts,
            changes: random.random_range(4..=14),
            bug: None,
        }
    }

    pub(crate) fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    pub(crate) fn without(&self, part: Part) -> Self {
        let mut plan = self.clone();
        plan.parts.remove(&part);
        plan
    }

    pub(crate) fn with(&self, bug: Option<Bug>) -> Self {
        Self {
            bug,
            ..self.clone()
        }
    }

    /// A stream of random numbers for one part of the schedule.
    pub(crate) fn random(&self, name: &str) -> StdRng {
        let mut seed = self.seed ^ 0xcbf2_9ce4_8422_2325;
        for byte in name.bytes() {
            seed = (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        StdRng::seed_from_u64(seed)
    }

    /// What repeats this schedule: the command's variables.
    pub(crate) fn command(&self) -> String {
        let whole = Self::of(self.seed);
        let left_out = whole.parts.difference(&self.parts);
        let left_out: Vec<String> = left_out.map(ToString::to_string).collect();
        let mut command = format!("make simulate SEED={}", self.seed);
        if !left_out.is_empty() {
            command += &format!(" WITHOUT={}", left_out.join(","));
        }
        if self.changes != whole.changes {
            command += &format!(" CHANGES={}", self.changes);
        }
        if let Some(bug) = self.bug {
            command += &format!(" BUG={bug}");
        }
        command
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.parts.iter().map(ToString::to_string).collect();
        write!(
            f,
            "seed {} ({}, {} changes): {}",
            self.seed,
            self.mode,
            self.changes,
            parts.join(" ")
        )
    }
}
