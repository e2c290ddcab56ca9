//! Whether comments have changed lately, by what the mappings have read of the stream.

use std::time::Duration;

use tokio::{sync::watch, time::Instant};

use crate::event_source_mapping::MappingState;

/// The last changes of comments that both mappings have processed.
///
/// A mapping counts the records of primary items alone. So what the stack itself writes, such as duplicates and the
/// state of the repair job, is no change.
#[derive(Debug)]
pub(crate) struct LastChanges {
    mappings: [watch::Receiver<MappingState>; 2],
    /// How many records the mappings had processed at the last look.
    records: u64,
    looked_at: Instant,
    /// The first look after the last change, or the last look at which a mapping was behind.
    changed_at: Instant,
}

impl LastChanges {
    /// Begins to look at the mappings. What came before counts as a change of this moment.
    pub(crate) fn of(mappings: [watch::Receiver<MappingState>; 2]) -> Self {
        let now = Instant::now();
        Self { mappings, records: 0, looked_at: now, changed_at: now }
    }

    /// Looks again, and returns how long no comment has changed for certain. A change since the last look may be missed,
    /// but not by the next look.
    pub(crate) fn quiet_for(&mut self, now: Instant) -> Duration {
        let states = self.mappings.each_ref().map(|mapping| mapping.borrow().clone());
        let records = states.iter().map(|state| state.records).sum();
        let is_read = |state: &MappingState| state.caught_up_at.is_some_and(|at| at > self.looked_at);
        if records != self.records || !states.iter().all(is_read) {
            (self.records, self.changed_at) = (records, now);
        }
        self.looked_at = now;
        now - self.changed_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn it_is_quiet_while_both_mappings_have_read_all_and_found_no_change() {
        let mappings = [watch::Sender::default(), watch::Sender::default()];
        let begun = Instant::now();
        let mut changes = LastChanges::of(mappings.each_ref().map(watch::Sender::subscribe));
        changes.looked_at = begun;
        let mut minute = 0;
        // Looks a minute later. `read` says how many seconds ago each mapping had read everything.
        let mut look = |records: u64, read: [u64; 2]| {
            minute += 1;
            let now = begun + minute * MINUTE;
            for (mapping, read) in mappings.iter().zip(read) {
                let caught_up_at = Some(now - Duration::from_secs(read));
                mapping.send_replace(MappingState { caught_up_at, records, ..MappingState::default() });
            }
            changes.quiet_for(now)
        };
        assert_eq!(look(5, [1, 1]), Duration::ZERO, "what was before the first look counts as a change");
        assert_eq!(look(5, [1, 1]), MINUTE);
        assert_eq!(look(5, [59, 1]), 2 * MINUTE);
        assert_eq!(look(6, [1, 1]), Duration::ZERO, "a comment has changed");
        assert_eq!(look(6, [1, 1]), MINUTE);
        assert_eq!(look(6, [1, 61]), Duration::ZERO, "one mapping is behind, so there may be changes");
        assert_eq!(look(6, [61, 1]), Duration::ZERO);
        assert_eq!(look(6, [1, 1]), MINUTE);
    }
}
