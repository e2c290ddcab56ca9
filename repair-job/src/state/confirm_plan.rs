//! Plans a confirmation. Three things decide what to do: what the table stores about the last
//! confirmation, the markers, and the servers that answer. No I/O, no clock.
//!
//! **Invariant:** a partition can lose only changes later than its own last confirmation and later
//! than its own watermark. Writes of a slot are replicated in their order, and a snapshot shows a
//! single moment, so a server that has the confirmation also has every earlier write.

use model::{
    Invariant, Timestamp,
    planted::{self, Bug},
};
use page_index::{Check, ConfirmationTime, IndexPartition, LastConfirmation, Mark, ServerIdentity};

use crate::{
    find::journal::oldest_entry,
    run::settings::{JobSettings, ms},
};

const EVICTED: &str = "Redis has evicted keys since the last confirmation, so the page index is not believed until it is \
                       rebuilt; a rebuild needs the maxmemory-policy noeviction or volatile-…";

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

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
    /// Remove this table's markers. Readers do not believe the index until the rebuild that follows.
    RemoveMarkers,
    /// End the run, which has lost the index for this reason.
    GiveUp(&'static str),
    /// Confirm nothing, for this reason.
    Refuse(String),
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
/// for a check of possible losses, and for the confirmation.
pub(crate) fn plan(
    seen: &Seen<'_>,
    settings: &JobSettings,
    [of_check, next]: [String; 2],
) -> Vec<Step> {
    debug_assert!(
        seen.marks.is_sorted_by(|(a, _), (b, _)| a < b),
        "{}: {:?}",
        Invariant::MarkersAreTrue,
        seen.marks
    );
    if let Some(steps) = after_evictions(seen) {
        return steps;
    }
    let (known, mut steps) = judge(seen, settings, of_check);
    if seen.servers != seen.began_with {
        steps.push(Step::BeginAnew);
        return steps;
    }
    steps.extend(known.check.clone().map(Step::CheckLosses));
    if planted::has(Bug::ConfirmedTooEarly) {
        steps.retain(|step| !matches!(step, Step::CheckLosses(_)));
    }
    steps.push(Step::Sample);
    let checked = known.check.map(|check| Check {
        from: check.to,
        ..check
    });
    let confirmed = LastConfirmation {
        token: next.clone(),
        before: Some(known.token.clone()),
        servers: known.servers,
        check: checked,
    };
    steps.push(Step::Store(confirmed.clone()));
    // As with watermarks: a server may have been replaced since the servers were asked, and lack
    // what was repaired or sampled. One that takes over after the assertion has it, or lacks the
    // token.
    steps.push(Step::Leave {
        read: tokens(seen.marks, &known.token),
        token: next.clone(),
        time: ConfirmationTime::Unchanged,
    });
    steps.push(Step::AssertServers(confirmed.servers.clone()));
    if confirmed.check.is_some() {
        steps.push(Step::Store(LastConfirmation {
            check: None,
            ..confirmed
        }));
    }
    steps.push(Step::Confirm {
        read: tokens(seen.marks, &next),
        token: next,
    });
    steps
}

/// All steps for an index from which keys may have been evicted, or may be at any time. Nothing says
/// which keys, so a repair of what changed lately does not suffice.
fn after_evictions(seen: &Seen<'_>) -> Option<Vec<Step>> {
    if let Some(stored) = seen.stored
        && seen.servers.may_have_evicted_since(&stored.servers)
    {
        // The markers go first: a run that dies in between finds the evicted keys again.
        let counted = LastConfirmation {
            servers: seen.servers.clone(),
            ..stored.clone()
        };
        return Some(vec![
            Step::RemoveMarkers,
            Step::Store(counted),
            Step::GiveUp(EVICTED),
        ]);
    }
    let policy = seen.servers.evicting_policy()?;
    Some(vec![Step::Refuse(format!(
        "maxmemory-policy is {policy}, so Redis may evict keys of the page index; it must be noeviction or volatile-…"
    ))])
}

/// All partitions, with one token.
fn tokens(marks: &[(IndexPartition, Mark)], token: &str) -> Tokens {
    marks
        .iter()
        .map(|(partition, _)| (*partition, token.to_owned()))
        .collect()
}

/// Judges whether the page index is still the one of the last confirmation. Returns what the table
/// has to store. The steps that it returns come first; there are none without new possible losses.
fn judge(
    seen: &Seen<'_>,
    settings: &JobSettings,
    of_check: String,
) -> (LastConfirmation, Vec<Step>) {
    let losses = possible_losses(seen, settings);
    let mut known = LastConfirmation {
        token: of_check,
        before: None,
        servers: seen.servers.clone(),
        check: None,
    };
    if let Some(stored) = seen.stored {
        known.before = Some(stored.token.clone());
        known.check = stored.check.clone();
    }
    let Some(mut began) = losses.since else {
        if let Some(stored) = seen.stored {
            known.token = stored.token.clone();
            known.before = stored.before.clone();
        }
        return (known, Vec::new());
    };
    // Changes that were checked before may be lost again, so the check starts over.
    if let Some(pending) = &known.check {
        began = began.min(pending.began);
    }
    known.check = Some(Check {
        began,
        from: began,
        // Writers' clocks may be ahead.
        to: seen.present.plus_ms(ms(settings.min_age)),
    });
    let what = match losses.restored.len() {
        0 => "the page index has other servers, or lacks the last confirmation".to_owned(),
        count => format!(
            "{count} of {} partitions of the page index are older than the last confirmation, and not believed",
            seen.marks.len()
        ),
    };
    // All partitions get a new token, never the stored one. Another run may be about to confirm, and
    // would take that for the proof that nothing is lost.
    let mut steps = vec![Step::Store(known.clone())];
    for (read, time) in [
        (losses.restored, ConfirmationTime::TakenAway),
        (losses.others, ConfirmationTime::Unchanged),
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
        since: began,
        loses_readers: losses.loses_readers,
    });
    (known, steps)
}

/// What the partitions may have lost since the last confirmation.
struct Losses {
    /// Since when; `None` when nothing can be lost.
    since: Option<Timestamp>,
    restored: Tokens,
    others: Tokens,
    /// Whether readers believed one of the restored partitions until now.
    loses_readers: bool,
}

fn possible_losses(seen: &Seen<'_>, settings: &JobSettings) -> Losses {
    let mut losses = Losses {
        since: None,
        restored: Vec::new(),
        others: Vec::new(),
        loses_readers: false,
    };
    for (partition, mark) in seen.marks {
        let read = (*partition, mark.token.clone());
        let trust = trust_in(mark, seen);
        if trust == Trust::Restored {
            losses.restored.push(read);
            losses.loses_readers |= mark.confirmed.is_some();
        } else {
            losses.others.push(read);
        }
        if trust == Trust::Kept {
            continue;
        }
        let since = may_have_lost_since(mark, settings, seen.present);
        losses.since = Some(losses.since.unwrap_or(since).min(since));
    }
    losses
}

/// Whether a partition still has everything that it had at the last confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// It has the last confirmation, in the same servers: nothing is lost.
    Kept,
    /// It has the last confirmation, but other servers answer.
    OtherServers,
    /// The last confirmation did not reach it.
    Unreached,
    /// It has an older confirmation, or a different table's.
    Restored,
}

fn trust_in(mark: &Mark, seen: &Seen<'_>) -> Trust {
    let Some(stored) = seen.stored else {
        return Trust::Restored;
    };
    if planted::has(Bug::SnapshotBelieved) {
        return Trust::Kept;
    }
    if mark.token == stored.token {
        if *seen.servers == stored.servers {
            Trust::Kept
        } else {
            Trust::OtherServers
        }
    } else if stored.before.as_ref() == Some(&mark.token) {
        Trust::Unreached
    } else {
        Trust::Restored
    }
}

/// The instant since which a partition may have lost changes: its own watermark, or shortly before
/// its last confirmation if that is later. Instants in the future do not count.
fn may_have_lost_since(mark: &Mark, settings: &JobSettings, present: Timestamp) -> Timestamp {
    let oldest = oldest_entry(present);
    let mut since = oldest;
    if mark.watermark <= present {
        since = since.max(mark.watermark);
    }
    if let Some(confirmed) = mark.confirmed
        && confirmed <= present
    {
        // The page indexer may lag by that much when the job confirms.
        let margin_ms = ms(settings.indexer_lag) + ms(settings.overlap);
        since = since.max(confirmed.plus_ms(-margin_ms));
    }
    since
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
        look(&Seen {
            stored,
            marks: &marks,
            servers: &servers(server),
            began_with: &servers(began_with),
            present: at(0),
        })
    }

    fn minute(instant: &Timestamp) -> i64 {
        (instant.epoch_ms() - at(0).epoch_ms()) / MINUTE_MS
    }

    fn span_text(check: &Check) -> String {
        format!(
            "{} of {} to {}",
            minute(&check.from),
            minute(&check.began),
            minute(&check.to)
        )
    }

    fn tokens_text(read: &Tokens) -> String {
        let mut text = String::new();
        for (partition, token) in read {
            let name = char::from(b'a' + u8::try_from(partition.number()).unwrap());
            text += &format!(" {name}:{token}");
        }
        text
    }

    fn step_text(step: &Step) -> String {
        match step {
            Step::Store(LastConfirmation {
                token,
                before,
                servers,
                check,
            }) => {
                let before = before.as_deref().unwrap_or("none");
                let check = match check {
                    Some(check) => span_text(check),
                    None => "nothing".to_owned(),
                };
                let servers = &servers.0;
                format!("store {token} after {before} in {servers}, {check} to check")
            }
            Step::Leave { read, token, time } => {
                format!("leave {token}, {time:?}, at{}", tokens_text(read))
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
            Step::RemoveMarkers => "remove the markers".to_owned(),
            Step::GiveUp(why) => format!("give up: {why}"),
            Step::Refuse(why) => format!("refuse: {why}"),
            Step::BeginAnew => "begin anew".to_owned(),
            Step::CheckLosses(check) => format!("check {}", span_text(check)),
            Step::Sample => "sample".to_owned(),
            Step::AssertServers(servers) => format!("assert {}", servers.0),
            Step::Confirm { read, token } => format!("confirm {token} at{}", tokens_text(read)),
        }
    }

    /// A plan as text, with the servers that answer, and that answered when the run began. Instants
    /// are minutes before the present.
    fn planned(
        what: &str,
        last: Option<&LastConfirmation>,
        marks: &[(char, Mark)],
        [server, began_with]: [&str; 2],
    ) -> String {
        let tokens = ["check".to_owned(), "next".to_owned()];
        let steps = with(last, marks, server, began_with, |seen| {
            plan(seen, &JobSettings::default(), tokens)
        });
        let lines: String = steps
            .iter()
            .map(|step| format!("  {}\n", step_text(step)))
            .collect();
        format!("{what}:\n{lines}")
    }

    #[test]
    fn possible_losses_are_checked_before_a_confirmation() {
        let old = at(-12 * 60 * MINUTE_MS);
        let confirmed = at(-5 * MINUTE_MS);
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
              store next after 2 in a, nothing to check
              leave next, Unchanged, at a:2
              assert a
              confirm next at a:next
            a snapshot was restored in one partition, and the last confirmation did not reach another:
              store check after 2 in a, -80 of -80 to 1 to check
              leave check, TakenAway, at c:0
              leave check, Unchanged, at a:2 b:1
              report since -80, loses readers: true, 1 of 3 partitions of the page index are older than the last confirmation, and not believed
              check -80 of -80 to 1
              sample
              store next after check in a, 1 of -80 to 1 to check
              leave next, Unchanged, at a:check b:check c:check
              assert a
              store next after check in a, nothing to check
              confirm next at a:next b:next c:next
            other servers answer:
              store check after 2 in b, -25 of -25 to 1 to check
              leave check, Unchanged, at a:2
              report since -25, loses readers: false, the page index has other servers, or lacks the last confirmation
              check -25 of -25 to 1
              sample
              store next after check in b, 1 of -25 to 1 to check
              leave next, Unchanged, at a:check
              assert b
              store next after check in b, nothing to check
              confirm next at a:next
            other servers answer since the run began:
              store check after 2 in b, -25 of -25 to 1 to check
              leave check, Unchanged, at a:2
              report since -25, loses readers: false, the page index has other servers, or lacks the last confirmation
              begin anew
            the table stores nothing yet:
              store check after none in a, -25 of -25 to 1 to check
              leave check, TakenAway, at a:2
              report since -25, loses readers: true, 1 of 1 partitions of the page index are older than the last confirmation, and not believed
              check -25 of -25 to 1
              sample
              store next after check in a, 1 of -25 to 1 to check
              leave next, Unchanged, at a:check
              assert a
              store next after check in a, nothing to check
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
              store check after 2 in a, -25 of -25 to 1 to check
              leave check, Unchanged, at b:1
              report since -25, loses readers: false, the page index has other servers, or lacks the last confirmation
              check -25 of -25 to 1
              sample
              store next after check in a, 1 of -25 to 1 to check
              leave next, Unchanged, at b:check
              assert a
              store next after check in a, nothing to check
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
    fn a_partition_that_lacks_the_stored_token_never_gets_it() {
        let old = at(-12 * 60 * MINUTE_MS);
        let confirmed = at(-5 * MINUTE_MS);
        let last = remembered("2", Some("1"));
        for token in ["1", "0"] {
            let marks = [('a', mark(token, old, confirmed))];
            let tokens = ["check".to_owned(), "next".to_owned()];
            let steps = with(Some(&last), &marks, "b", "b", |seen| {
                plan(seen, &JobSettings::default(), tokens)
            });
            for step in steps {
                if let Step::Leave { token, .. } | Step::Confirm { token, .. } = step {
                    assert_ne!(token, last.token);
                }
            }
        }
    }

    #[test]
    fn an_index_that_may_lack_evicted_keys_is_not_repaired_but_rebuilt() {
        let marks = [('a', mark("2", at(-12 * 60 * MINUTE_MS), at(-5 * MINUTE_MS)))];
        let last = LastConfirmation {
            servers: servers("r/h/noeviction/3"),
            ..remembered("2", Some("1"))
        };
        let evicting = "r/h/allkeys-lru/3";
        let evicted = "r/h/noeviction/4";
        let plans = [
            planned(
                "a server may evict keys",
                Some(&last),
                &marks,
                [evicting, evicting],
            ),
            planned(
                "a server has evicted keys",
                Some(&last),
                &marks,
                [evicted, "r/h/noeviction/3"],
            ),
        ];
        let expected = expect![[r#"
            a server may evict keys:
              refuse: maxmemory-policy is allkeys-lru, so Redis may evict keys of the page index; it must be noeviction or volatile-…
            a server has evicted keys:
              remove the markers
              store 2 after 1 in r/h/noeviction/4, nothing to check
              give up: Redis has evicted keys since the last confirmation, so the page index is not believed until it is rebuilt; a rebuild needs the maxmemory-policy noeviction or volatile-…
        "#]];
        expected.assert_eq(&plans.concat());
    }

    #[test]
    fn tokens_and_servers_tell_since_when_something_may_be_lost() {
        let old = at(-12 * 60 * MINUTE_MS);
        let confirmed = at(-5 * MINUTE_MS);
        let last = remembered("2", Some("1"));
        for (watermark, confirmed, server, since) in [
            (old, confirmed, "a", None),
            // Shortly before the last confirmation.
            (old, confirmed, "b", Some(25)),
            // Reconciled changes are not lost. A confirmation or a watermark later than the present
            // says nothing.
            (at(-MINUTE_MS), confirmed, "b", Some(1)),
            (old, at(MINUTE_MS), "b", Some(12 * 60)),
        ] {
            let marks = [('a', mark("2", watermark, confirmed))];
            let (known, steps) = with(Some(&last), &marks, server, server, |seen| {
                judge(seen, &JobSettings::default(), "check".to_owned())
            });
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
              store next after 2 in a, -5 of -90 to -5 to check
              leave next, Unchanged, at a:2
              assert a
              store next after 2 in a, nothing to check
              confirm next at a:next
            other servers:
              store check after 2 in b, -90 of -90 to 1 to check
              leave check, Unchanged, at a:2
              report since -90, loses readers: false, the page index has other servers, or lacks the last confirmation
              check -90 of -90 to 1
              sample
              store next after check in b, 1 of -90 to 1 to check
              leave next, Unchanged, at a:check
              assert b
              store next after check in b, nothing to check
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

    fn between<'text>(text: &'text str, begins: &str, ends: &str) -> &'text str {
        let (_, text) = text
            .split_once(begins)
            .unwrap_or_else(|| panic!("{begins}"));
        text.split_once(ends).unwrap_or_else(|| panic!("{ends}")).0
    }

    fn number_after(text: &str, before: &str) -> i64 {
        let (_, after) = text
            .split_once(before)
            .unwrap_or_else(|| panic!("{before}"));
        let digits = after.split(|c: char| !c.is_ascii_digit()).next();
        digits.unwrap().parse().unwrap()
    }

    #[test]
    fn the_deployed_repair_keeps_up_with_what_the_document_says_and_confirms_beyond_it() {
        const MAX_AGE_MIN: i64 = 3 * 60;
        let template = include_str!("../../../infra/template.yaml");
        let memory = between(template, "\n  RepairJobMemory:\n", "\n\n");
        let function = between(template, "\n  RepairJob:\n", "\n  RepairPolicy:\n");
        let recent = between(function, "\n        Recent:\n", "\n        Hourly:\n");
        assert!(
            recent.contains(r#"Input: '{"command": "recent"}'"#),
            "{recent}"
        );
        let concurrency = number_after(function, "PAGEMARK_REPAIR_CONCURRENCY: \"");
        let every_min = number_after(recent, "rate(");
        let timeout_s = number_after(function, "Timeout: ");
        let document = include_str!("../../../docs/deploy.md");
        let row = between(
            document,
            "\n| repair of changes (`recent`)",
            " changes a second",
        );
        let keeps_up_with: i64 = row.rsplit(' ').next().unwrap().parse().unwrap();
        let deployed = [
            number_after(memory, "Default: "),
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
