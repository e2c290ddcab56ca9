//! Plans a confirmation. Three things decide what to do: what the table stores about the last
//! confirmation, the markers, and the servers that answer. No I/O, no clock.
//!
//! **Invariant:** a partition can lose only changes later than its own last confirmation and later
//! than its own watermark. Writes of a slot are replicated in their order, and a snapshot shows a
//! single moment, so a server that has the confirmation also has every earlier write.

use model::{
    Timestamp,
    planted::{self, Bug},
};
use page_index::{ConfirmationTime, IndexPartition, Mark, ServerIdentity};
use serde::{Deserialize, Serialize};

use crate::{
    find::journal::oldest_entry,
    run::settings::{JobSettings, ms},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LastConfirmation {
    pub(crate) token: String,
    /// The token before it. A partition still has it if the run was killed before the confirmation
    /// reached the partition. A partition that lost the last confirmation has it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<String>,
    pub(crate) servers: ServerIdentity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) check: Option<Check>,
}

/// The possible losses that are being checked: the changes since `began`, up to `to`. Those before
/// `from` are done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) began: Timestamp,
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
}

/// Partitions with the tokens in their markers.
pub(crate) type Tokens = Vec<(IndexPartition, String)>;

pub(crate) struct Seen<'run> {
    pub(crate) stored: Option<&'run LastConfirmation>,
    /// The markers of the partitions that are kept up to date.
    pub(crate) marks: &'run [(IndexPartition, Mark)],
    /// The servers that answered before the rest was read.
    pub(crate) servers: &'run ServerIdentity,
    /// The servers that answered when the run began.
    pub(crate) began_with: &'run ServerIdentity,
    pub(crate) present: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Replace what the table stores, unless another run has replaced it.
    Store(LastConfirmation),
    /// Leave a token in the markers that still have the tokens in `read`.
    Leave {
        read: Tokens,
        token: String,
        time: ConfirmationTime,
    },
    /// Say what was found, and that the changes since then are checked first. Readers may have
    /// believed a partition until now.
    Report {
        what: String,
        since: Timestamp,
        loses_readers: bool,
    },
    /// End the run: the servers are not those that it began with. The next run begins with what
    /// they may have lost.
    BeginAnew,
    /// Reconcile the changes that may be lost.
    CheckLosses(Check),
    /// Find out whether the page indexer keeps up, and repair what it missed in the sample.
    Sample,
    /// End the run unless these servers still answer.
    AssertServers(ServerIdentity),
    /// Confirm partitions as of the sample: leave the token, and that time.
    Confirm { read: Tokens, token: String },
}

/// Plans a confirmation. Each step is taken only after those before it are done. The new tokens are
/// for a table that stores nothing yet, and for the confirmation.
pub(crate) fn plan(
    seen: &Seen<'_>,
    settings: &JobSettings,
    [of_new_table, next]: [String; 2],
) -> Vec<Step> {
    let (known, mut steps) = judge(seen, settings, of_new_table);
    if seen.servers != seen.began_with {
        steps.push(Step::BeginAnew);
        return steps;
    }
    steps.extend(known.check.clone().map(Step::CheckLosses));
    steps.push(Step::Sample);
    let with = |token: &str| {
        seen.marks
            .iter()
            .map(|(partition, _)| (*partition, token.to_owned()))
            .collect()
    };
    let checked = known.check.map(|check| Check {
        from: check.to,
        ..check
    });
    let mut read = with(&known.token);
    let confirmed = LastConfirmation {
        token: next.clone(),
        before: Some(known.token),
        check: checked,
        ..known
    };
    steps.push(Step::Store(confirmed.clone()));
    if confirmed.check.is_some() {
        // As with watermarks: repairs may have been lost again before the servers are asked. A
        // server that takes over later has the repairs, or lacks the token.
        steps.push(Step::Leave {
            read,
            token: next.clone(),
            time: ConfirmationTime::Unchanged,
        });
        steps.push(Step::AssertServers(confirmed.servers.clone()));
        steps.push(Step::Store(LastConfirmation {
            check: None,
            ..confirmed
        }));
        read = with(&next);
    }
    steps.push(Step::Confirm { read, token: next });
    steps
}

/// Judges whether the page index is still the one of the last confirmation. Returns what the table
/// has to store. The steps that it returns come first; there are none without new possible losses.
fn judge(
    seen: &Seen<'_>,
    settings: &JobSettings,
    of_new_table: String,
) -> (LastConfirmation, Vec<Step>) {
    let Seen {
        stored,
        marks,
        servers,
        present,
        ..
    } = *seen;
    let are_other_servers = stored.is_none_or(|stored| stored.servers != *servers);
    let (mut restored, mut unreached, mut begins, mut loses_readers) =
        (Vec::new(), Vec::new(), Vec::new(), false);
    for (partition, mark) in marks {
        let is_last = stored.is_some_and(|stored| stored.token == mark.token);
        if is_last && !are_other_servers || stored.is_some() && planted::has(Bug::SnapshotBelieved)
        {
            continue;
        }
        begins.push(may_have_lost_since(mark, settings, present));
        let is_one_before =
            stored.is_some_and(|stored| stored.before.as_ref() == Some(&mark.token));
        if is_one_before && !is_last {
            // The last confirmation did not reach it.
            unreached.push((*partition, mark.token.clone()));
        } else if !is_last {
            restored.push((*partition, mark.token.clone()));
            loses_readers |= mark.confirmed.is_some();
        }
    }
    let pending = stored.and_then(|stored| stored.check.clone());
    let new = begins.into_iter().min().map(|new| {
        pending
            .as_ref()
            .map_or(new, |pending| new.min(pending.began))
    });
    let known = LastConfirmation {
        token: stored.map_or(of_new_table, |stored| stored.token.clone()),
        before: stored.and_then(|stored| stored.before.clone()),
        servers: servers.clone(),
        // Changes that were checked before may be lost again, so the check starts over. Writers'
        // clocks may be ahead.
        check: match new {
            Some(began) => Some(Check {
                began,
                from: began,
                to: present.plus_ms(ms(settings.min_age)),
            }),
            None => pending,
        },
    };
    let mut steps = Vec::new();
    if let Some(since) = new {
        steps.push(Step::Store(known.clone()));
        let what = match restored.len() {
            0 => "the page index has other servers, or lacks the last confirmation".to_owned(),
            count => format!(
                "{count} of {} partitions of the page index are older than the last confirmation, and not believed",
                marks.len()
            ),
        };
        for (read, time) in [
            (restored, ConfirmationTime::TakenAway),
            (unreached, ConfirmationTime::Unchanged),
        ] {
            if !read.is_empty() {
                steps.push(Step::Leave {
                    read,
                    token: known.token.clone(),
                    time,
                });
            }
        }
        steps.push(Step::Report {
            what,
            since,
            loses_readers,
        });
    }
    (known, steps)
}

/// The instant since which a partition may have lost changes: its own watermark, or shortly before
/// its last confirmation if that is later. Instants in the future do not count.
fn may_have_lost_since(mark: &Mark, settings: &JobSettings, present: Timestamp) -> Timestamp {
    let (is_past, oldest) = (|at: &Timestamp| *at <= present, oldest_entry(present));
    let reconciled = Some(mark.watermark).filter(is_past).unwrap_or(oldest);
    // The page indexer may lag by that much when the job confirms.
    let margin_ms = ms(settings.indexer_lag) + ms(settings.overlap);
    let confirmed = mark
        .confirmed
        .filter(is_past)
        .map(|at| at.plus_ms(-margin_ms));
    confirmed
        .map_or(reconciled, |confirmed| confirmed.max(reconciled))
        .max(oldest)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    const MINUTE_MS: i64 = 60_000;
    fn at(ms: i64) -> Timestamp {
        Timestamp::parse("2024-01-31T06:00:00Z")
            .unwrap()
            .plus_ms(ms)
    }

    fn servers(name: &str) -> ServerIdentity {
        serde_json::from_value(name.into()).unwrap()
    }

    fn mark(token: &str, watermark: Timestamp, confirmed: Timestamp) -> Mark {
        Mark {
            watermark,
            confirmed: Some(confirmed),
            token: token.to_owned(),
        }
    }

    fn remembered(token: &str, before: Option<&str>) -> LastConfirmation {
        let before = before.map(str::to_owned);
        LastConfirmation {
            token: token.to_owned(),
            before,
            servers: servers("a"),
            check: None,
        }
    }

    fn partition(name: char) -> IndexPartition {
        let number = u16::try_from(u32::from(name) - u32::from('a')).unwrap();
        IndexPartition::numbered(number, 26).unwrap()
    }

    fn with<T>(
        stored: Option<&LastConfirmation>,
        marks: &[(char, Mark)],
        server: &str,
        began_with: &str,
        look: impl FnOnce(&Seen<'_>) -> T,
    ) -> T {
        let marks: Vec<_> = marks
            .iter()
            .map(|(name, mark)| (partition(*name), mark.clone()))
            .collect();
        let (servers, began_with) = (&servers(server), &servers(began_with));
        look(&Seen {
            stored,
            marks: &marks,
            servers,
            began_with,
            present: at(0),
        })
    }

    /// A plan as text, with the servers that answer, and that answered when the run began. Instants
    /// are minutes before the present.
    fn planned(
        what: &str,
        last: Option<&LastConfirmation>,
        marks: &[(char, Mark)],
        [server, began_with]: [&str; 2],
    ) -> String {
        let tokens = ["first".to_owned(), "next".to_owned()];
        let steps = with(last, marks, server, began_with, |seen| {
            plan(seen, &JobSettings::default(), tokens)
        });
        let names = |read: &Tokens| {
            let name = |(partition, token): &(IndexPartition, String)| {
                let name = char::from(b'a' + u8::try_from(partition.number()).unwrap());
                format!(" {name}:{token}")
            };
            read.iter().map(name).collect::<String>()
        };
        let minute = |at: &Timestamp| (at.epoch_ms() - self::at(0).epoch_ms()) / MINUTE_MS;
        let span = |check: &Check| {
            format!(
                "{} of {} to {}",
                minute(&check.from),
                minute(&check.began),
                minute(&check.to)
            )
        };
        let line = |step: &Step| match step {
            Step::Store(LastConfirmation {
                token,
                before,
                check,
                ..
            }) => {
                let check = check.as_ref().map_or("nothing".to_owned(), span);
                format!(
                    "store {token} after {}, {check} to check",
                    before.as_deref().unwrap_or("none")
                )
            }
            Step::Leave { read, token, time } => {
                format!("leave {token}, {time:?}, at{}", names(read))
            }
            Step::Report {
                what,
                since,
                loses_readers,
            } => {
                format!(
                    "report since {}, loses readers: {loses_readers}, {what}",
                    minute(since)
                )
            }
            Step::BeginAnew => "begin anew".to_owned(),
            Step::CheckLosses(check) => format!("check {}", span(check)),
            Step::Sample => "sample".to_owned(),
            Step::AssertServers(servers) => format!("assert {}", servers.0),
            Step::Confirm { read, token } => format!("confirm {token} at{}", names(read)),
        };
        let lines: String = steps
            .iter()
            .map(|step| format!("  {}\n", line(step)))
            .collect();
        format!("{what}:\n{lines}")
    }

    #[test]
    fn possible_losses_are_checked_before_a_confirmation() {
        let (old, confirmed) = (at(-12 * 60 * MINUTE_MS), at(-5 * MINUTE_MS));
        let marks = [
            ('a', mark("2", old, confirmed)),
            ('b', mark("1", old, confirmed)),
            ('c', mark("0", old, at(-60 * MINUTE_MS))),
        ];
        let last = remembered("2", Some("1"));
        let plans = [
            planned("nothing is lost", Some(&last), &marks[..1], ["a", "a"]),
            planned(
                "a snapshot was restored in one partition, and the last confirmation did not reach another",
                Some(&last),
                &marks,
                ["a", "a"],
            ),
            planned("other servers answer", Some(&last), &marks[..1], ["b", "b"]),
            planned(
                "other servers answer since the run began",
                Some(&last),
                &marks[..1],
                ["b", "a"],
            ),
            planned(
                "the table stores nothing yet",
                None,
                &marks[..1],
                ["a", "a"],
            ),
        ];
        let expected = expect![[r#"
            nothing is lost:
              sample
              store next after 2, nothing to check
              confirm next at a:2
            a snapshot was restored in one partition, and the last confirmation did not reach another:
              store 2 after 1, -80 of -80 to 1 to check
              leave 2, TakenAway, at c:0
              leave 2, Unchanged, at b:1
              report since -80, loses readers: true, 1 of 3 partitions of the page index are older than the last confirmation, and not believed
              check -80 of -80 to 1
              sample
              store next after 2, 1 of -80 to 1 to check
              leave next, Unchanged, at a:2 b:2 c:2
              assert a
              store next after 2, nothing to check
              confirm next at a:next b:next c:next
            other servers answer:
              store 2 after 1, -25 of -25 to 1 to check
              report since -25, loses readers: false, the page index has other servers, or lacks the last confirmation
              check -25 of -25 to 1
              sample
              store next after 2, 1 of -25 to 1 to check
              leave next, Unchanged, at a:2
              assert b
              store next after 2, nothing to check
              confirm next at a:next
            other servers answer since the run began:
              store 2 after 1, -25 of -25 to 1 to check
              report since -25, loses readers: false, the page index has other servers, or lacks the last confirmation
              begin anew
            the table stores nothing yet:
              store first after none, -25 of -25 to 1 to check
              leave first, TakenAway, at a:2
              report since -25, loses readers: true, 1 of 1 partitions of the page index are older than the last confirmation, and not believed
              check -25 of -25 to 1
              sample
              store next after first, 1 of -25 to 1 to check
              leave next, Unchanged, at a:first
              assert a
              store next after first, nothing to check
              confirm next at a:next
        "#]];
        expected.assert_eq(&plans.concat());
    }

    #[test]
    fn a_confirmation_that_did_not_arrive_costs_no_readers() {
        let marks = [('b', mark("1", at(-12 * 60 * MINUTE_MS), at(-5 * MINUTE_MS)))];
        let last = remembered("2", Some("1"));
        let expected = expect![[r#"
            the last confirmation did not arrive:
              store 2 after 1, -25 of -25 to 1 to check
              leave 2, Unchanged, at b:1
              report since -25, loses readers: false, the page index has other servers, or lacks the last confirmation
              check -25 of -25 to 1
              sample
              store next after 2, 1 of -25 to 1 to check
              leave next, Unchanged, at b:2
              assert a
              store next after 2, nothing to check
              confirm next at b:next
        "#]];
        expected.assert_eq(&planned(
            "the last confirmation did not arrive",
            Some(&last),
            &marks,
            ["a", "a"],
        ));
    }

    #[test]
    fn tokens_and_servers_tell_since_when_something_may_be_lost() {
        let (old, confirmed) = (at(-12 * 60 * MINUTE_MS), at(-5 * MINUTE_MS));
        let mark = |watermark, confirmed| [('a', mark("2", watermark, confirmed))];
        let last = remembered("2", Some("1"));
        for (marks, server, since) in [
            (mark(old, confirmed), "a", None),
            // Shortly before the last confirmation.
            (mark(old, confirmed), "b", Some(25)),
            // Reconciled changes are not lost. A confirmation or a watermark later than the present
            // says nothing.
            (mark(at(-MINUTE_MS), confirmed), "b", Some(1)),
            (mark(old, at(MINUTE_MS)), "b", Some(12 * 60)),
        ] {
            let judge = |seen: &Seen<'_>| judge(seen, &JobSettings::default(), "first".to_owned());
            let (known, steps) = with(Some(&last), &marks, server, server, judge);
            let began = known.check.map(|check| check.began);
            assert_eq!(began, since.map(|minutes: i64| at(-minutes * MINUTE_MS)));
            assert_eq!(!steps.is_empty(), since.is_some());
        }
    }

    #[test]
    fn what_was_looked_at_is_looked_at_again_when_the_servers_change_meanwhile() {
        let check = Check {
            began: at(-90 * MINUTE_MS),
            from: at(-10 * MINUTE_MS),
            to: at(-5 * MINUTE_MS),
        };
        let last = LastConfirmation {
            check: Some(check),
            ..remembered("2", None)
        };
        let marks = [('a', mark("2", at(-12 * 60 * MINUTE_MS), at(-5 * MINUTE_MS)))];
        let same = planned("the same servers", Some(&last), &marks, ["a", "a"]);
        let others = planned("other servers", Some(&last), &marks, ["b", "b"]);
        let expected = expect![[r#"
            the same servers:
              check -10 of -90 to -5
              sample
              store next after 2, -5 of -90 to -5 to check
              leave next, Unchanged, at a:2
              assert a
              store next after 2, nothing to check
              confirm next at a:next
            other servers:
              store 2 after none, -90 of -90 to 1 to check
              report since -90, loses readers: false, the page index has other servers, or lacks the last confirmation
              check -90 of -90 to 1
              sample
              store next after 2, 1 of -90 to 1 to check
              leave next, Unchanged, at a:2
              assert b
              store next after 2, nothing to check
              confirm next at a:next
        "#]];
        expected.assert_eq(&(same + &others));
    }

    /// How many changes a second scheduled runs of `recent` repair.
    fn per_second([memory_mib, concurrency, every_min, timeout_s]: [i64; 4]) -> i64 {
        /// Comments per second that `recent` checked on two processors, beside the engine
        /// (docs/benchmarks-notes.md, "Repair"). One processor then does at least half.
        const MEASURED: i64 = 1_816;
        /// Lambda gives a function one processor at this memory, and else in proportion (AWS:
        /// "Configure Lambda function memory").
        const MIB_OF_A_PROCESSOR: i64 = 1_769;
        /// A comment takes three calls of DynamoDB, one after the other, of 5 ms each.
        const MS_OF_A_COMMENT: i64 = 15;
        let by_processor = MEASURED / 2 * memory_mib / MIB_OF_A_PROCESSOR;
        // The function keeps 15 seconds back. A run that is due while another one lasts is left
        // out.
        let lasts_min = ((timeout_s - 15) / 60).min(every_min);
        by_processor.min(concurrency * 1_000 / MS_OF_A_COMMENT) * lasts_min / every_min
    }

    #[test]
    fn the_deployed_repair_keeps_up_with_what_the_document_says_and_confirms_beyond_it() {
        const MAX_AGE_MIN: i64 = 3 * 60;
        let between = |text: &'static str, begins: &str, ends: &str| -> &'static str {
            let (_, text) = text
                .split_once(begins)
                .unwrap_or_else(|| panic!("{begins}"));
            text.split_once(ends).unwrap_or_else(|| panic!("{ends}")).0
        };
        let number = |text: &'static str, before: &str| -> i64 {
            let (_, after) = text
                .split_once(before)
                .unwrap_or_else(|| panic!("{before}"));
            after
                .split(|c: char| !c.is_ascii_digit())
                .next()
                .unwrap()
                .parse()
                .unwrap()
        };
        let template = include_str!("../../../infra/template.yaml");
        let memory = between(template, "\n  RepairJobMemory:\n", "\n\n");
        let function = between(template, "\n  RepairJob:\n", "\n  RepairPolicy:\n");
        let recent = between(function, "\n        Recent:\n", "\n        Hourly:\n");
        assert!(
            recent.contains(r#"Input: '{"command": "recent"}'"#),
            "{recent}"
        );
        let concurrency = number(function, "PAGEMARK_REPAIR_CONCURRENCY: \"");
        let (every_min, timeout_s) = (number(recent, "rate("), number(function, "Timeout: "));
        let document = include_str!("../../../docs/deploy.md");
        let row = between(
            document,
            "\n| repair of changes (`recent`)",
            " changes a second",
        );
        let keeps_up_with: i64 = row.rsplit(' ').next().unwrap().parse().unwrap();
        let deployed = [
            number(memory, "Default: "),
            concurrency,
            every_min,
            timeout_s,
        ];
        assert!(per_second(deployed) >= keeps_up_with, "{deployed:?}");
        // Each run confirms, however far behind it is. So readers believe the index also during a
        // larger import.
        assert!(
            every_min.max((timeout_s - 15) / 60) < MAX_AGE_MIN / 2,
            "{deployed:?}"
        );
        // Worse settings do not do: less memory, fewer comments at a time, shorter or fewer runs.
        for worse in [
            [512, 32, 5, 900],
            [1_769, 8, 5, 900],
            [1_769, 32, 60, 900],
            [1_769, 32, 15, 300],
        ] {
            assert!(per_second(worse) < keeps_up_with, "{worse:?}");
        }
    }
}
