//! Judges whether the page index is still the one of the last confirmation. It compares three things: the markers, what
//! the table stores about that confirmation, and the servers that answer. No I/O, no clock.
//!
//! **Invariant:** a partition can lose only changes later than its own last confirmation and later than its own
//! watermark. Writes of a slot are replicated in their order, and a snapshot shows a single moment, so a server that
//! has the confirmation also has every earlier write.

use model::{
    Timestamp,
    planted::{self, Bug},
};
use page_index::{Mark, ServerIdentity};
use serde::{Deserialize, Serialize};

use crate::{
    find::journal::oldest_entry,
    run::settings::{JobSettings, ms},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LastConfirmation {
    pub(crate) token: String,
    /// The token before it. A partition still has it if the run was killed before the confirmation reached the
    /// partition. A partition that lost the last confirmation has it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<String>,
    pub(crate) servers: ServerIdentity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) check: Option<Check>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) began: Timestamp,
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Findings<P> {
    pub(crate) remembered: LastConfirmation,
    pub(crate) is_new: bool,
    /// Partitions whose token is neither the last one nor the one before it, and their tokens.
    pub(crate) restored: Vec<(P, String)>,
    /// Partitions that the last confirmation did not reach, and their tokens.
    pub(crate) unreached: Vec<(P, String)>,
}

/// Judges the markers by what the table stores. `token` is for a table that stores nothing yet.
pub(crate) fn judge<P: Copy>(
    before: Option<&LastConfirmation>,
    marks: &[(P, Mark)],
    servers: &ServerIdentity,
    settings: &JobSettings,
    present: Timestamp,
    token: String,
) -> Findings<P> {
    let are_other_servers = before.is_none_or(|before| before.servers != *servers);
    let (mut restored, mut unreached, mut begins) = (Vec::new(), Vec::new(), Vec::new());
    for (partition, mark) in marks {
        let is_last = before.is_some_and(|before| before.token == mark.token);
        if is_last && !are_other_servers || before.is_some() && planted::has(Bug::SnapshotBelieved) {
            continue;
        }
        begins.push(may_have_lost_since(mark, settings, present));
        match before.is_some_and(|before| before.before.as_ref() == Some(&mark.token)) {
            _ if is_last => {}
            true => unreached.push((*partition, mark.token.clone())),
            false => restored.push((*partition, mark.token.clone())),
        }
    }
    let pending = before.and_then(|before| before.check.clone());
    let is_new = !begins.is_empty();
    let check = match begins.into_iter().chain(pending.as_ref().map(|check| check.began)).min() {
        // Changes that were checked before may be lost again, so the check starts over. Writers' clocks may be ahead.
        Some(began) if is_new => Some(Check { began, from: began, to: present.plus_ms(ms(settings.settle)) }),
        _ => pending,
    };
    let remembered = LastConfirmation {
        token: before.map_or(token, |before| before.token.clone()),
        before: before.and_then(|before| before.before.clone()),
        servers: servers.clone(),
        check,
    };
    Findings { remembered, is_new, restored, unreached }
}

/// The instant since which a partition may have lost changes: its own watermark, or shortly before its last
/// confirmation if that is later. Instants in the future do not count.
fn may_have_lost_since(mark: &Mark, settings: &JobSettings, present: Timestamp) -> Timestamp {
    let (is_past, oldest) = (|at: &Timestamp| *at <= present, oldest_entry(present));
    let reconciled = Some(mark.watermark).filter(is_past).unwrap_or(oldest);
    // The page indexer may lag by that much when the job confirms.
    let margin_ms = ms(settings.indexer_lag) + ms(settings.overlap);
    let confirmed = mark.confirmed.filter(is_past).map(|at| at.plus_ms(-margin_ms));
    confirmed.map_or(reconciled, |confirmed| confirmed.max(reconciled)).max(oldest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;
    fn at(ms: i64) -> Timestamp {
        Timestamp::parse("2024-01-31T06:00:00Z").unwrap().plus_ms(ms)
    }

    fn servers(name: &str) -> ServerIdentity {
        serde_json::from_value(name.into()).unwrap()
    }

    fn mark(token: &str, watermark: Timestamp, confirmed: Timestamp) -> Mark {
        Mark { watermark, confirmed: Some(confirmed), token: token.to_owned() }
    }

    fn remembered(token: &str, before: Option<&str>) -> LastConfirmation {
        let before = before.map(str::to_owned);
        LastConfirmation { token: token.to_owned(), before, servers: servers("a"), check: None }
    }

    /// Judges with the default settings.
    fn judge(
        last: Option<&LastConfirmation>,
        marks: &[(char, Mark)],
        server: &str,
        present: Timestamp,
    ) -> Findings<char> {
        super::judge(last, marks, &servers(server), &JobSettings::default(), present, "new".to_owned())
    }

    #[test]
    fn tokens_and_servers_tell_what_may_be_lost_and_since_when() {
        let (old, confirmed, present) = (at(-12 * 60 * MINUTE_MS), at(-5 * MINUTE_MS), at(0));
        let marks = [
            ('a', mark("2", old, confirmed)),
            ('b', mark("1", old, confirmed)),
            ('c', mark("0", old, at(-60 * MINUTE_MS))),
        ];
        let last = remembered("2", Some("1"));
        let reconciled = [('a', mark("2", at(-MINUTE_MS), confirmed))];
        let fast = [('a', mark("2", old, at(MINUTE_MS)))];
        for (last, marks, server, restored, unreached, since) in [
            (Some(&last), &marks[..1], "a", "", "", None),
            // The last confirmation did not reach it, or was lost. The check begins shortly before the confirmation
            // that it has.
            (Some(&last), &marks[..2], "a", "", "b", Some(25)),
            // Restored from a snapshot.
            (Some(&last), &marks, "a", "c", "b", Some(80)),
            // Another server, without a sign that something is missing.
            (Some(&last), &marks[..1], "b", "", "", Some(25)),
            // A table without a stored confirmation.
            (None, &marks[..1], "a", "a", "", Some(25)),
            // Reconciled changes are not lost. A confirmation or a watermark later than the present says nothing.
            (Some(&last), &reconciled, "b", "", "", Some(1)),
            (Some(&last), &fast, "b", "", "", Some(12 * 60)),
        ] {
            let found = judge(last, marks, server, present);
            let names = |of: &[(char, String)]| of.iter().map(|(partition, _)| *partition).collect::<String>();
            let began = found.remembered.check.as_ref().map(|check| check.began);
            assert_eq!((names(&found.restored), names(&found.unreached)), (restored.to_owned(), unreached.to_owned()));
            assert_eq!(began, since.map(|minutes: i64| present.plus_ms(-minutes * MINUTE_MS)));
            assert_eq!(found.is_new, since.is_some());
        }
    }

    #[test]
    fn what_was_looked_at_is_looked_at_again_when_the_servers_change_meanwhile() {
        let check = Check { began: at(-90 * MINUTE_MS), from: at(-10 * MINUTE_MS), to: at(-5 * MINUTE_MS) };
        let last = LastConfirmation { check: Some(check.clone()), ..remembered("2", None) };
        let marks = [('a', mark("2", at(-12 * 60 * MINUTE_MS), at(-5 * MINUTE_MS)))];
        let same = judge(Some(&last), &marks, "a", at(0));
        assert_eq!((same.is_new, same.remembered.check), (false, Some(check)));
        let other = judge(Some(&last), &marks, "b", at(0));
        let anew = Check { began: at(-90 * MINUTE_MS), from: at(-90 * MINUTE_MS), to: at(MINUTE_MS) };
        assert_eq!((other.is_new, other.remembered.check), (true, Some(anew)));
    }

    #[derive(Debug, Clone, Copy)]
    struct Runs {
        every_min: i64,
        lasts_min: i64,
        reconciled: i64,
    }

    /// Comments per second that `recent` checked on two processors, beside the engine (docs/benchmarks.md,
    /// "Repair"). One processor then does at least half.
    const MEASURED: i64 = 1_816;
    /// Lambda gives a function one processor at this memory, and else in proportion (AWS: "Configure Lambda function
    /// memory").
    const MIB_OF_A_PROCESSOR: i64 = 1_769;
    /// A comment takes three calls of DynamoDB, one after the other, of 5 ms each.
    const MS_OF_A_COMMENT: i64 = 15;

    impl Runs {
        fn with(memory_mib: i64, concurrency: i64, every_min: i64, timeout_s: i64) -> Self {
            let by_processor = MEASURED / 2 * memory_mib / MIB_OF_A_PROCESSOR;
            let reconciled = by_processor.min(concurrency * 1_000 / MS_OF_A_COMMENT);
            // The function keeps 15 seconds back.
            Self { every_min, lasts_min: (timeout_s - 15) / 60, reconciled }
        }

        /// As the template deploys it.
        fn deployed() -> Self {
            let template = include_str!("../../../infra/template.yaml");
            let (_, memory) = template.split_once("\n  RepairJobMemory:\n").unwrap();
            let (_, function) = template.split_once("\n  RepairJob:\n").unwrap();
            let (function, _) = function.split_once("\n  RepairPolicy:\n").unwrap();
            let (_, recent) = function.split_once("\n        Recent:\n").unwrap();
            let (recent, _) = recent.split_once("\n        Hourly:\n").unwrap();
            assert!(recent.contains(r#"Input: '{"command": "recent"}'"#), "{recent}");
            let number = |of: &str, before: &str| -> i64 {
                let (_, after) = of.split_once(before).unwrap_or_else(|| panic!("{before}"));
                after.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
            };
            Self::with(
                number(memory, "Default: "),
                number(function, "PAGEMARK_REPAIR_CONCURRENCY: \""),
                number(recent, "rate("),
                number(function, "Timeout: "),
            )
        }
    }

    #[derive(Debug)]
    struct Outcome {
        behind_ms: i64,
        oldest_confirmation_ms: i64,
    }

    /// Simulates twelve hours in steps of a minute: how much is reconciled, and what each minute's confirmation
    /// decides. A planned fail-over happens after five hours. Its check takes time away from the backlog.
    fn twelve_hours(runs: Runs, written: i64) -> Outcome {
        let mut marks = [('a', mark("0", at(0), at(0))), ('b', mark("0", at(0), at(0)))];
        let mut last = remembered("0", None);
        let (mut oldest_confirmation_ms, mut left_min) = (0, 0);
        for minute in 1..=12 * 60 {
            let (present, server) = (at(minute * MINUTE_MS), if minute < 5 * 60 { "a" } else { "b" });
            let confirmed = marks[0].1.confirmed.unwrap();
            oldest_confirmation_ms = oldest_confirmation_ms.max(present.epoch_ms() - confirmed.epoch_ms());
            if left_min == 0 && minute % runs.every_min == 0 {
                left_min = runs.lasts_min;
            }
            if left_min == 0 {
                continue;
            }
            left_min -= 1;
            let mut done_ms = MINUTE_MS * runs.reconciled / written;
            let found = judge(Some(&last), &marks, server, present);
            assert!(found.restored.is_empty() && found.unreached.is_empty());
            last = found.remembered;
            if let Some(check) = &mut last.check {
                check.from = check.from.plus_ms(std::mem::take(&mut done_ms));
                if check.from >= check.to {
                    last.check = None;
                }
            }
            let watermark = marks[0].1.watermark.plus_ms(done_ms).min(present);
            if last.check.is_none() {
                let token = minute.to_string();
                marks.iter_mut().for_each(|(_, marked)| *marked = mark(&token, watermark, present));
                last = LastConfirmation { token, before: Some(last.token), ..last };
            }
            if watermark == present {
                left_min = 0;
            }
        }
        let behind_ms = at(12 * 60 * MINUTE_MS).epoch_ms() - marks[0].1.watermark.epoch_ms();
        Outcome { behind_ms, oldest_confirmation_ms }
    }

    const MAX_AGE_MS: i64 = 3 * 60 * MINUTE_MS;

    #[test]
    fn the_deployed_repair_keeps_up_with_what_the_document_says_and_confirms_beyond_it() {
        let document = include_str!("../../../docs/deploy.md");
        let row = document.lines().find(|line| line.starts_with("| repair of changes (`recent`)")).unwrap();
        let keeps_up_with = row.split(" changes a second").next().and_then(|text| text.rsplit(' ').next());
        let keeps_up_with: i64 = keeps_up_with.unwrap().parse().unwrap();
        let deployed = Runs::deployed();
        // After the fail-over's check it has caught up again.
        let within = twelve_hours(deployed, keeps_up_with);
        assert!(within.behind_ms <= 60 * MINUTE_MS, "{deployed:?} {within:?}");
        // An import at twice that leaves repair hours behind, and readers believe the index all the time.
        let import = twelve_hours(deployed, 2 * keeps_up_with);
        assert!(import.behind_ms > MAX_AGE_MS && import.oldest_confirmation_ms < MAX_AGE_MS / 2, "{import:?}");
        // Worse settings do not do: less memory, fewer comments at a time, shorter or fewer runs.
        for (memory, concurrency, every, timeout) in
            [(512, 32, 5, 900), (1_769, 8, 5, 900), (1_769, 32, 60, 900), (1_769, 32, 15, 300)]
        {
            let worse = twelve_hours(Runs::with(memory, concurrency, every, timeout), keeps_up_with);
            assert!(worse.behind_ms > 2 * 60 * MINUTE_MS, "{memory} MiB, {concurrency}, {every} min: {worse:?}");
        }
        let seldom = twelve_hours(Runs { every_min: 4 * 60, ..deployed }, keeps_up_with);
        assert!(seldom.oldest_confirmation_ms > MAX_AGE_MS, "{seldom:?}");
    }
}
