//! Judges whether the page index is still the one of the last vouch, by the markers, the table's memory and the servers
//! that answer. No I/O, no clock.
//!
//! **Invariant:** a partition can lose only changes later than its own last vouch and later than its own watermark.
//! Writes of a slot are replicated in their order, and a snapshot shows a single moment, so a server that has the
//! vouch also has every earlier write.

use model::Timestamp;
use page_index::{Mark, ServerIdentity};
use serde::{Deserialize, Serialize};

/// What the table stores about the last vouch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Remembered {
    /// Its token.
    pub(crate) token: String,
    /// The token before it. A partition still has it if the run was killed before the vouch reached the partition. A
    /// partition that lost the last vouch has it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<String>,
    /// The servers that answered before the token was left.
    pub(crate) servers: ServerIdentity,
    /// The period to check before the next vouch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) check: Option<Check>,
}

/// A period whose changes the page index may have lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) began: Timestamp,
    /// How far the period has been checked.
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
}

/// What the partitions' tokens show.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Findings<P> {
    /// What the table should store from now on.
    pub(crate) remembered: Remembered,
    /// Whether the table has yet to store it.
    pub(crate) is_new: bool,
    /// Partitions whose token is neither the last one nor the one before it, and their tokens.
    pub(crate) restored: Vec<(P, String)>,
    /// Partitions that the last vouch did not reach, and their tokens.
    pub(crate) unreached: Vec<(P, String)>,
}

/// The times that a judgement depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) present: Timestamp,
    /// The journal may lack entries before this instant.
    pub(crate) oldest: Timestamp,
    /// A vouch does not cover changes within this time before it.
    pub(crate) margin_ms: i64,
    /// How far the clocks of writers may be ahead.
    pub(crate) settle_ms: i64,
}

/// Judges the markers by what the table stores. `token` is for a table that stores nothing yet.
pub(crate) fn judge<P: Copy>(
    before: Option<&Remembered>,
    marks: &[(P, Mark)],
    servers: &ServerIdentity,
    times: Times,
    token: String,
) -> Findings<P> {
    let are_other_servers = before.is_none_or(|before| before.servers != *servers);
    let (mut restored, mut unreached, mut begins) = (Vec::new(), Vec::new(), Vec::new());
    for (partition, mark) in marks {
        let is_last = before.is_some_and(|before| before.token == mark.token);
        if is_last && !are_other_servers {
            continue;
        }
        begins.push(may_have_lost_since(mark, times));
        match before.is_some_and(|before| before.before.as_ref() == Some(&mark.token)) {
            _ if is_last => {}
            true => unreached.push((*partition, mark.token.clone())),
            false => restored.push((*partition, mark.token.clone())),
        }
    }
    let pending = before.and_then(|before| before.check.clone());
    let is_new = !begins.is_empty();
    let check = match begins.into_iter().chain(pending.as_ref().map(|check| check.began)).min() {
        // Changes that were checked before may be lost again, so the check starts over.
        Some(began) if is_new => Some(Check { began, from: began, to: times.present.plus_ms(times.settle_ms) }),
        _ => pending,
    };
    let remembered = Remembered {
        token: before.map_or(token, |before| before.token.clone()),
        before: before.and_then(|before| before.before.clone()),
        servers: servers.clone(),
        check,
    };
    Findings { remembered, is_new, restored, unreached }
}

/// The instant since which a partition may have lost changes: its own watermark, or shortly before its last vouch if
/// that is later. Instants in the future do not count.
fn may_have_lost_since(mark: &Mark, times: Times) -> Timestamp {
    let is_past = |at: &Timestamp| *at <= times.present;
    let reconciled = Some(mark.watermark).filter(is_past).unwrap_or(times.oldest);
    let vouched = mark.vouched.filter(is_past).map(|at| at.plus_ms(-times.margin_ms));
    vouched.map_or(reconciled, |vouched| vouched.max(reconciled)).max(times.oldest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{find::journal::oldest_entry, settings::ms};

    const MINUTE_MS: i64 = 60_000;
    /// Changes per second that are written, and that are reconciled.
    const WRITTEN: i64 = 1_000;
    const RECONCILED: i64 = 450;

    fn at(ms: i64) -> Timestamp {
        Timestamp::parse("2024-01-31T06:00:00Z").unwrap().plus_ms(ms)
    }

    fn times(present: Timestamp) -> Times {
        let margin_ms = ms(crate::INDEXER_LAG) + ms(crate::OVERLAP);
        Times { present, oldest: oldest_entry(present), margin_ms, settle_ms: ms(crate::SETTLE_DELAY) }
    }

    fn servers(name: &str) -> ServerIdentity {
        serde_json::from_value(name.into()).unwrap()
    }

    fn mark(token: &str, watermark: Timestamp, vouched: Timestamp) -> Mark {
        Mark { watermark, vouched: Some(vouched), token: token.to_owned() }
    }

    fn remembered(token: &str, before: Option<&str>) -> Remembered {
        let before = before.map(str::to_owned);
        Remembered { token: token.to_owned(), before, servers: servers("a"), check: None }
    }

    fn names(partitions: &[(char, String)]) -> String {
        partitions.iter().map(|(partition, _)| *partition).collect()
    }

    #[test]
    fn tokens_and_servers_tell_what_may_be_lost_and_since_when() {
        let (old, vouched, present) = (at(-12 * 60 * MINUTE_MS), at(-5 * MINUTE_MS), at(0));
        let marks = [
            ('a', mark("2", old, vouched)),
            ('b', mark("1", old, vouched)),
            ('c', mark("0", old, at(-60 * MINUTE_MS))),
        ];
        let judge = |remembered: Option<&Remembered>, marks: &[(char, Mark)], server: &str| {
            let found = judge(remembered, marks, &servers(server), times(present), "new".to_owned());
            let since =
                found.remembered.check.as_ref().map(|check| (present.epoch_ms() - check.began.epoch_ms()) / MINUTE_MS);
            (found.is_new, names(&found.restored), names(&found.unreached), since)
        };
        let (last, text) = (remembered("2", Some("1")), str::to_owned);
        assert_eq!(judge(Some(&last), &marks[..1], "a"), (false, text(""), text(""), None));
        // The last vouch did not reach it, or was lost. The check begins shortly before the vouch that it has.
        assert_eq!(judge(Some(&last), &marks[..2], "a"), (true, text(""), text("b"), Some(25)));
        // Restored from a snapshot.
        assert_eq!(judge(Some(&last), &marks, "a"), (true, text("c"), text("b"), Some(80)));
        // Another server, without a sign that something is missing.
        assert_eq!(judge(Some(&last), &marks[..1], "b"), (true, text(""), text(""), Some(25)));
        // A table without a stored vouch.
        assert_eq!(judge(None, &marks[..1], "a"), (true, text("a"), text(""), Some(25)));
        // Reconciled changes are not lost. A vouch or a watermark later than the present says nothing.
        let reconciled = [('a', mark("2", at(-MINUTE_MS), vouched))];
        assert_eq!(judge(Some(&last), &reconciled, "b"), (true, text(""), text(""), Some(1)));
        let fast = [('a', mark("2", old, at(MINUTE_MS)))];
        assert_eq!(judge(Some(&last), &fast, "b"), (true, text(""), text(""), Some(12 * 60)));
    }

    #[test]
    fn what_was_looked_at_is_looked_at_again_when_the_servers_change_meanwhile() {
        let check = Check { began: at(-90 * MINUTE_MS), from: at(-10 * MINUTE_MS), to: at(-5 * MINUTE_MS) };
        let last = Remembered { check: Some(check.clone()), ..remembered("2", None) };
        let marks = [('a', mark("2", at(-12 * 60 * MINUTE_MS), at(-5 * MINUTE_MS)))];
        let same = judge(Some(&last), &marks, &servers("a"), times(at(0)), String::new());
        assert_eq!((same.is_new, same.remembered.check), (false, Some(check)));
        let other = judge(Some(&last), &marks, &servers("b"), times(at(0)), String::new());
        let anew = Check { began: at(-90 * MINUTE_MS), from: at(-90 * MINUTE_MS), to: at(MINUTE_MS) };
        assert_eq!((other.is_new, other.remembered.check), (true, Some(anew)));
    }

    /// Simulates twelve hours in steps of a minute: how much is reconciled, and what each minute's vouch decides. A
    /// planned fail-over happens after five hours. Its check takes time away from the backlog.
    #[test]
    fn twelve_hours_of_1_000_changes_a_second_leave_every_minute_vouched_for() {
        let max_age_ms = 3 * 60 * MINUTE_MS;
        let mut marks = [('a', mark("0", at(0), at(0))), ('b', mark("0", at(0), at(0)))];
        let mut last = remembered("0", None);
        let (mut checked, mut oldest_vouch_ms) = (0, 0);
        for minute in 1..=12 * 60 {
            let (present, server) = (at(minute * MINUTE_MS), if minute < 5 * 60 { "a" } else { "b" });
            let mut done_ms = MINUTE_MS * RECONCILED / WRITTEN;
            let found = judge(Some(&last), &marks, &servers(server), times(present), String::new());
            assert!(found.restored.is_empty() && found.unreached.is_empty());
            last = found.remembered;
            if let Some(check) = &mut last.check {
                checked += 1;
                check.from = check.from.plus_ms(std::mem::take(&mut done_ms));
                if check.from >= check.to {
                    last.check = None;
                }
            }
            let watermark = marks[0].1.watermark.plus_ms(done_ms);
            if last.check.is_none() {
                let token = minute.to_string();
                marks.iter_mut().for_each(|(_, marked)| *marked = mark(&token, watermark, present));
                last = Remembered { token, before: Some(last.token), ..last };
            }
            let vouched = marks[0].1.vouched.unwrap();
            oldest_vouch_ms = oldest_vouch_ms.max(present.epoch_ms() - vouched.epoch_ms());
        }
        let behind_ms = at(12 * 60 * MINUTE_MS).epoch_ms() - marks[0].1.watermark.epoch_ms();
        assert!(behind_ms > max_age_ms, "repair is only {behind_ms} ms behind");
        assert!((1..=60).contains(&checked), "the fail-over was looked at for {checked} minutes");
        assert!(oldest_vouch_ms < max_age_ms / 2, "a vouch grew {oldest_vouch_ms} ms old");
    }
}
