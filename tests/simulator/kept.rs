//! Schedules that have found a bug, as small as they could be made. They are kept as plans, not as
//! seeds: a new part changes what a seed draws.
//!
//! `make simulate BUGS=1` prints those of planted bugs in this form. A schedule that found a real
//! fault is kept without a bug.

use model::planted::Bug;

use super::plan::{Mode, Part, Plan};
use crate::fixture::invariant::Invariant;

pub(crate) struct Kept {
    bug: Option<Bug>,
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
            bug: self.bug,
        }
    }
}

/// A plan as it is kept.
pub(crate) fn as_kept(plan: &Plan, broke: Invariant) -> String {
    let bug = match plan.bug {
        Some(bug) => format!("Some(Bug::{bug:?})"),
        None => "None".to_owned(),
    };
    let parts: Vec<String> = plan.parts.iter().map(|part| format!("{part:?}")).collect();
    format!(
        "Kept {{ bug: {bug}, seed: {}, mode: Mode::{}, changes: {}, parts: &[{}], broke: Invariant::{broke:?} }},",
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
        Kept { bug: Some(Bug::FirstImageWins), seed: 9, mode: Mode::FaultsThatEnd, changes: 3, parts: &[Importer], broke: Invariant::PageIndexIsExact },
        Kept { bug: Some(Bug::DeletedStays), seed: 9, mode: Mode::FaultsThatEnd, changes: 13, parts: &[Customers, Hours, Check], broke: Invariant::DuplicatesAreExact },
        Kept { bug: Some(Bug::DeletedIsRanked), seed: 34, mode: Mode::FaultsThatEnd, changes: 14, parts: &[Customers, Check, TableAway], broke: Invariant::PageIndexIsExact },
        Kept { bug: Some(Bug::UnprocessedIsDone), seed: 47, mode: Mode::AnyFaults, changes: 4, parts: &[Importer, Unprocessed], broke: Invariant::DuplicatesAreExact },
        Kept { bug: Some(Bug::ForgottenImage), seed: 160, mode: Mode::FaultsThatEnd, changes: 14, parts: &[Customers, Importer, Hours, Audit, WriterStops, Kill, Erasure], broke: Invariant::DuplicatesAreExact },
        Kept { bug: Some(Bug::UnreadIsAbsent), seed: 62, mode: Mode::AnyFaults, changes: 14, parts: &[Customers, Walkers, Unprocessed, Redelivery, IndexerStops], broke: Invariant::WalksAreWhole },
        Kept { bug: Some(Bug::NothingIsRetried), seed: 78, mode: Mode::Posts, changes: 4, parts: &[Customers, TableAway], broke: Invariant::DuplicatesAreExact },
        Kept { bug: Some(Bug::NoGuard), seed: 15, mode: Mode::AnyFaults, changes: 12, parts: &[Customers, Importer, Check, SlowCalls], broke: Invariant::DuplicatesAreExact },
        Kept { bug: Some(Bug::SnapshotBelieved), seed: 11, mode: Mode::FaultsThatEnd, changes: 5, parts: &[Importer, Hours, Recent, IndexRefuses], broke: Invariant::PagesAreExact },
        Kept { bug: Some(Bug::NoSecondLook), seed: 74, mode: Mode::FaultsThatEnd, changes: 13, parts: &[Customers, Check, Redelivery], broke: Invariant::PageIndexIsExact },
        Kept { bug: Some(Bug::ProductIsPassedOver), seed: 0, mode: Mode::AnyFaults, changes: 1, parts: &[Customers], broke: Invariant::PagesAreExact },
        Kept { bug: Some(Bug::SkipOffByOne), seed: 0, mode: Mode::AnyFaults, changes: 4, parts: &[Customers], broke: Invariant::PagesAreExact },
        Kept { bug: Some(Bug::TrustsDuplicates), seed: 3, mode: Mode::FaultsThatEnd, changes: 5, parts: &[Customers, Importer, Readers, Walkers, Redelivery, IndexerStops], broke: Invariant::WalksAreWhole },
        Kept { bug: Some(Bug::ShowsUnranked), seed: 333, mode: Mode::FaultsThatEnd, changes: 6, parts: &[Customers, Readers, Hours, SlowCalls, RecordsLost, Clocks], broke: Invariant::PagesShowTheirRanks },
        Kept { bug: Some(Bug::NotSettled), seed: 598, mode: Mode::Posts, changes: 11, parts: &[Customers, Readers, LostAnswers, SlowCalls, LateWrites, Clocks], broke: Invariant::PostsKeepArchivePages },
        Kept { bug: Some(Bug::PastIsNotFound), seed: 0, mode: Mode::AnyFaults, changes: 4, parts: &[Customers, Readers], broke: Invariant::AbsenceIsCertain },
        Kept { bug: Some(Bug::CursorRepeats), seed: 1, mode: Mode::AnyFaults, changes: 5, parts: &[Customers], broke: Invariant::PagesAreExact },
        Kept { bug: Some(Bug::WalkPassesOverLostDuplicates), seed: 21, mode: Mode::AnyFaults, changes: 11, parts: &[Customers, Importer, Walkers, TableAway], broke: Invariant::WalksAreWhole },
        Kept { bug: Some(Bug::WalkPassesOverLostRanks), seed: 11, mode: Mode::FaultsThatEnd, changes: 10, parts: &[Customers, Walkers, Hours, IndexRefuses], broke: Invariant::WalksAreWhole },
        Kept { bug: Some(Bug::KeyForgotten), seed: 1, mode: Mode::AnyFaults, changes: 5, parts: &[Customers], broke: Invariant::RepeatedPostsCreateNothing },
        Kept { bug: Some(Bug::HiddenIsNotErased), seed: 3, mode: Mode::FaultsThatEnd, changes: 2, parts: &[Importer, Erasure], broke: Invariant::ErasedIsGone },
        Kept { bug: Some(Bug::FailedQueryIsEmpty), seed: 2, mode: Mode::Posts, changes: 3, parts: &[Customers, Readers, Walkers, Hours, Throttled, SlowCalls, LateWrites, IndexAnswersLost, Redelivery, Crashes, IndexRefuses], broke: Invariant::WalksAreWhole },
        Kept { bug: Some(Bug::PositionPassesRepairs), seed: 10, mode: Mode::AnyFaults, changes: 14, parts: &[Customers, Editors, Readers, Hours, Audit, SlowCalls, JobDies, Damage], broke: Invariant::AuditsLeaveNothing },
    ]
};
