//! Plans a rebuild: its steps, what it reads of the journal, and what the table stores about it. No
//! I/O, no clock. The model of the protocol (`protocol_model`) takes the same steps.

use model::{
    Timestamp,
    planted::{self, Bug},
};
use page_index::{LastConfirmation, Rebuild};

use crate::{
    find::journal::{Window, journal_from, journal_to},
    run::settings::{JobSettings, ms},
};

/// A step of a rebuild whose partitions are empty, and have its token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RebuildStep {
    /// Fill the partitions from the table's index `primaries`.
    Fill,
    /// Reconcile the unresolved comments, and the changes since this instant: `primaries` may have
    /// lacked them.
    Reconcile { from: Timestamp },
    /// Store the rebuild's token as the one of the last confirmation.
    Remember,
    /// Mark the partitions, as of the instant up to which the journal was reconciled.
    Finish,
}

/// Plans the rest of a rebuild that began at `began`. Each step is taken only after those before it
/// are done.
pub(crate) fn plan(began: Timestamp, settings: &JobSettings) -> Vec<RebuildStep> {
    let from = journal_from(began, settings);
    let mut steps = vec![
        RebuildStep::Fill,
        RebuildStep::Reconcile { from },
        RebuildStep::Remember,
        RebuildStep::Finish,
    ];
    if planted::has(Bug::MarkedBeforeJournal) {
        steps.retain(|step| *step != RebuildStep::Reconcile { from });
    }
    steps
}

/// A pass over the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pass {
    pub(crate) window: Window,
    /// Up to when it finds every change. Later entries may arrive after it has looked for them.
    pub(crate) reconciled_to: Timestamp,
}

/// The pass that begins at `present`.
pub(crate) fn pass(from: Timestamp, present: Timestamp, settings: &JobSettings) -> Pass {
    Pass {
        window: Window {
            from,
            to: journal_to(present, settings),
        },
        reconciled_to: present.plus_ms(-ms(settings.min_age)),
    }
}

/// What the table stores when a rebuild is about to mark its partitions. If they are not all, the
/// token of the other partitions becomes the one before. The next run then checks what they may
/// have lost, and readers believe them meanwhile.
pub(crate) fn confirmation_of(
    rebuild: &Rebuild,
    is_whole: bool,
    stored: Option<&LastConfirmation>,
) -> LastConfirmation {
    let mut next = LastConfirmation {
        token: rebuild.token.clone(),
        before: None,
        servers: rebuild.servers.clone(),
        check: None,
    };
    if !is_whole && let Some(stored) = stored {
        next.before = Some(stored.token.clone());
        next.check = stored.check.clone();
        // What these have evicted concerns the other partitions.
        next.servers = stored.servers.clone();
    }
    next
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use page_index::{Check, IndexPartition, ServerIdentity};

    use super::*;

    fn minute(minutes: i64) -> Timestamp {
        Timestamp::parse("2024-01-31T06:00:00Z")
            .unwrap()
            .plus_ms(60_000 * minutes)
    }

    #[test]
    fn a_rebuild_marks_after_it_has_reconciled_what_the_tables_index_may_have_lacked() {
        // The index lags by ten minutes, entries arrive a minute late, and passes overlap.
        let from = minute(-16);
        assert_eq!(
            plan(minute(0), &JobSettings::default()),
            [
                RebuildStep::Fill,
                RebuildStep::Reconcile { from },
                RebuildStep::Remember,
                RebuildStep::Finish,
            ]
        );
    }

    #[test]
    fn a_pass_looks_for_early_entries_and_relies_only_on_those_that_have_arrived() {
        let settings = JobSettings {
            min_age: Duration::from_secs(60),
            ..JobSettings::default()
        };
        let Pass {
            window,
            reconciled_to,
        } = pass(minute(-16), minute(5), &settings);
        assert_eq!(
            (window.from, window.to, reconciled_to),
            (minute(-16), minute(6), minute(4))
        );
    }

    #[test]
    fn a_rebuild_of_some_partitions_leaves_a_check_and_the_servers_of_the_others() {
        let rebuild = Rebuild {
            token: "rebuilt".to_owned(),
            servers: ServerIdentity("new".to_owned()),
            partitions: IndexPartition::all(1).collect(),
        };
        let stored = LastConfirmation {
            token: "last".to_owned(),
            before: Some("earlier".to_owned()),
            servers: ServerIdentity("old".to_owned()),
            check: Some(Check {
                began: minute(-9),
                from: minute(-5),
                to: minute(0),
            }),
        };
        let of_whole = LastConfirmation {
            token: "rebuilt".to_owned(),
            before: None,
            servers: rebuild.servers.clone(),
            check: None,
        };
        let of_some = LastConfirmation {
            token: "rebuilt".to_owned(),
            before: Some("last".to_owned()),
            ..stored.clone()
        };
        assert_eq!(confirmation_of(&rebuild, true, Some(&stored)), of_whole);
        assert_eq!(confirmation_of(&rebuild, false, Some(&stored)), of_some);
        assert_eq!(confirmation_of(&rebuild, false, None), of_whole);
    }
}
