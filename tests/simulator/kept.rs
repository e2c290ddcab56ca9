//! Schedules that have found a bug, as small as they could be made. They are kept as plans, not as
//! seeds: a new part changes what a seed draws.
//!
//! `make simulate BUGS=1` prints those of planted bugs in this form. A schedule that found a real
//! fault is kept without a bug.

use model::{Invariant, planted::Bug};

use super::plan::{Mode, Part, Plan};

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

#[rustfmt::skip]
pub(crate) const KEPT: &[Kept] = {
    use Part::*;
    &[
    ]
};
