//! Schedules that have found a planted bug, as small as they could be made. They are kept as plans, not as
//! seeds: a new part changes what a seed draws.
//!
//! `make simulate BUGS=1` prints them in this form.

use model::{Invariant, planted::Bug};

use super::plan::{Mode, Part, Plan};

pub(crate) struct Kept {
    pub(crate) bug: Bug,
    seed: u64,
    mode: Mode,
    changes: usize,
    parts: &'static [Part],
    /// The promise that it broke.
    pub(crate) broke: Invariant,
}

impl Kept {
    pub(crate) fn plan(&self) -> Plan {
        Plan {
            seed: self.seed,
            mode: self.mode,
            parts: self.parts.iter().copied().collect(),
            changes: self.changes,
            bug: Some(self.bug),
        }
    }
}

/// A plan as it is kept.
pub(crate) fn as_kept(plan: &Plan, bug: Bug, broke: Invariant) -> String {
    let parts: Vec<String> = plan.parts.iter().map(|part| format!("{part:?}")).collect();
    format!(
        "Kept {{ bug: Bug::{bug:?}, seed: {}, mode: Mode::{}, changes: {}, parts: &[{}], broke: Invariant::{broke:?} }},",
        plan.seed,
        plan.mode,
        plan.changes,
        parts.join(", "),
    )
}

// A line each, as they are printed.
#[rustfmt::skip]
pub(crate) const KEPT: &[Kept] = {
    use Part::*;
    &[
        Kept { bug: Bug::FirstImageWins, seed: 9, mode: Mode::FaultsThatEnd, changes: 3, parts: &[Importer], broke: Invariant::PageIndexIsExact },
        Kept { bug: Bug::DeletedStays, seed: 9, mode: Mode::FaultsThatEnd, changes: 13, parts: &[Customers, Hours, Check], broke: Invariant::DuplicatesAreExact },
        Kept { bug: Bug::DeletedIsRanked, seed: 34, mode: Mode::FaultsThatEnd, changes: 14, parts: &[Customers, Check, TableAway], broke: Invariant::PageIndexIsExact },
        Kept { bug: Bug::UnprocessedIsDone, seed: 47, mode: Mode::AnyFaults, changes: 4, parts: &[Importer, Unprocessed], broke: Invariant::DuplicatesAreExact },
        Kept { bug: Bug::ForgottenImage, seed: 160, mode: Mode::FaultsThatEnd, changes: 14, parts: &[Customers, Importer, Hours, Audit, WriterStops, Kill, Erasure], broke: Invariant::DuplicatesAreExact },
        Kept { bug: Bug::UnreadIsAbsent, seed: 62, mode: Mode::AnyFaults, changes: 14, parts: &[Customers, Walkers, Unprocessed, Redelivery, IndexerStops], broke: Invariant::WalksAreWhole },
        Kept { bug: Bug::NothingIsRetried, seed: 78, mode: Mode::Posts, changes: 4, parts: &[Customers, TableAway], broke: Invariant::DuplicatesAreExact },
        Kept { bug: Bug::NoGuard, seed: 16, mode: Mode::AnyFaults, changes: 12, parts: &[Customers, Importer, Check, SlowCalls], broke: Invariant::DuplicatesAreExact },
        Kept { bug: Bug::SnapshotBelieved, seed: 11, mode: Mode::FaultsThatEnd, changes: 5, parts: &[Importer, Hours, Recent, IndexRefuses], broke: Invariant::PagesAreExact },
        Kept { bug: Bug::EditIsLeft, seed: 60, mode: Mode::FaultsThatEnd, changes: 9, parts: &[Importer, Hours, Check, IndexCallsLost], broke: Invariant::PageIndexIsExact },
        Kept { bug: Bug::NoSecondLook, seed: 81, mode: Mode::FaultsThatEnd, changes: 13, parts: &[Customers, Check, Redelivery], broke: Invariant::PageIndexIsExact },
        Kept { bug: Bug::ProductIsPassedOver, seed: 0, mode: Mode::AnyFaults, changes: 1, parts: &[Customers], broke: Invariant::PagesAreExact },
        Kept { bug: Bug::SkipOffByOne, seed: 0, mode: Mode::AnyFaults, changes: 4, parts: &[Customers], broke: Invariant::PagesAreExact },
        Kept { bug: Bug::TrustsDuplicates, seed: 3, mode: Mode::FaultsThatEnd, changes: 5, parts: &[Customers, Importer, Readers, Walkers, Redelivery, IndexerStops], broke: Invariant::WalksAreWhole },
        Kept { bug: Bug::ShowsUnranked, seed: 333, mode: Mode::FaultsThatEnd, changes: 6, parts: &[Customers, Readers, Hours, SlowCalls, RecordsLost, Clocks], broke: Invariant::PagesShowTheirRanks },
        Kept { bug: Bug::NotSettled, seed: 711, mode: Mode::Posts, changes: 11, parts: &[Customers, Readers, LostAnswers, SlowCalls, LateWrites, Clocks], broke: Invariant::PostsKeepArchivePages },
        Kept { bug: Bug::PastIsNotFound, seed: 0, mode: Mode::AnyFaults, changes: 4, parts: &[Customers, Readers], broke: Invariant::AbsenceIsCertain },
        Kept { bug: Bug::CursorRepeats, seed: 1, mode: Mode::AnyFaults, changes: 5, parts: &[Customers], broke: Invariant::PagesAreExact },
        Kept { bug: Bug::WalkPassesOverLostDuplicates, seed: 21, mode: Mode::AnyFaults, changes: 11, parts: &[Customers, Importer, Walkers, TableAway], broke: Invariant::WalksAreWhole },
        Kept { bug: Bug::WalkPassesOverLostRanks, seed: 11, mode: Mode::FaultsThatEnd, changes: 10, parts: &[Customers, Walkers, Hours, IndexRefuses], broke: Invariant::WalksAreWhole },
        Kept { bug: Bug::KeyForgotten, seed: 1, mode: Mode::AnyFaults, changes: 5, parts: &[Customers], broke: Invariant::RepeatedPostsCreateNothing },
        Kept { bug: Bug::HiddenIsNotErased, seed: 3, mode: Mode::FaultsThatEnd, changes: 2, parts: &[Importer, Erasure], broke: Invariant::ErasedIsGone },
        Kept { bug: Bug::FailedQueryIsEmpty, seed: 34, mode: Mode::Posts, changes: 3, parts: &[Customers, Readers, Walkers, Hours, Throttled, SlowCalls, LateWrites, IndexAnswersLost, Redelivery, Crashes, IndexRefuses], broke: Invariant::WalksAreWhole },
        Kept { bug: Bug::PositionPassesRepairs, seed: 10, mode: Mode::AnyFaults, changes: 14, parts: &[Customers, Editors, Readers, Hours, Audit, SlowCalls, JobDies, Damage], broke: Invariant::AuditsLeaveNothing },
    ]
};
