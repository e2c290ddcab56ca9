//! Judges whether the page index is still the one of the last vouch, by its markers, by what the table stores about that
//! vouch, and by the servers that answer. No I/O, no clock.
//!
//! **Invariant:** a partition can lose only changes later than its own last vouch and later than its own watermark.
//! Writes of a slot are replicated in their order, and a snapshot shows a single moment, so a server that has the
//! vouch also has every earlier write.

use model::Timestamp;
use page_index::{Mark, ServerIdentity};
use serde::{Deserialize, Serialize};

use crate::{
    find::journal::oldest_entry,
    settings::{JobSettings, ms},
};

/// What the table stores about the last vouch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LastVouch {
    /// The token that it left in the markers.
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
    pub(crate) remembered: LastVouch,
    /// Whether the table has yet to store it.
    pub(crate) is_new: bool,
    /// Partitions whose token is neither the last one nor the one before it, and their tokens.
    pub(crate) restored: Vec<(P, String)>,
    /// Partitions that the last vouch did not reach, and their tokens.
    pub(crate) unreached: Vec<(P, String)>,
}

/// Judges the markers by what the table stores. `token` is for a table that stores nothing yet.
pub(crate) fn judge<P: Copy>(
    before: Option<&LastVouch>,
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
        if is_last && !are_other_servers {
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
    let remembered = LastVouch {
        token: before.map_or(token, |before| before.token.clone()),
        before: before.and_then(|before| before.before.clone()),
        servers: servers.clone(),
        check,
    };
    Findings { remembered, is_new, restored, unreached }
}

/// The instant since which a partition may have lost changes: its own watermark, or shortly before its last vouch if
/// that is later. Instants in the future do not count.
fn may_have_lost_since(mark: &Mark, settings: &JobSettings, present: Timestamp) -> Timestamp {
    let (is_past, oldest) = (|at: &Timestamp| *at <= present, oldest_entry(present));
    let reconciled = Some(mark.watermark).filter(is_past).unwrap_or(oldest);
    // The page indexer may lag by that much when the job vouches.
    let margin_ms = ms(settings.indexer_lag) + ms(settings.overlap);
    let vouched = mark.vouched.filter(is_past).map(|at| at.plus_ms(-margin_ms));
    vouched.map_or(reconciled, |vouched| vouched.max(reconciled)).max(oldest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;
    /// Changes per second that are written, and that are reconciled.
    const WRITTEN: i64 = 1_000;
    const RECONCILED: i64 = 450;

    fn at(ms: i64) -> Timestamp {
        Timestamp::parse("2024-01-31T06:00:00Z").unwrap().plus_ms(ms)
    }

    fn servers(name: &str) -> ServerIdentity {
        serde_json::from_value(name.into()).unwrap()
    }

    fn mark(token: &str, watermark: Timestamp, vouched: Timestamp) -> Mark {
        Mark { watermark, vouched: Some(vouched), token: token.to_owned() }
    }

    fn remembered(token: &str, before: Option<&str>) -> LastVouch {
        let before = before.map(str::to_owned);
        LastVouch { token: token.to_owned(), before, servers: servers("a"), check: None }
    }

    /// Judges with the default settings.
    fn judge(last: Option<&LastVouch>, marks: &[(char, Mark)], server: &str, present: Timestamp) -> Findings<char> {
        super::judge(last, marks, &servers(server), &JobSettings::default(), present, "new".to_owned())
    }

    #[test]
    fn tokens_and_servers_tell_what_may_be_lost_and_since_when() {
        let (old, vouched, present) = (at(-12 * 60 * MINUTE_MS), at(-5 * MINUTE_MS), at(0));
        let marks = [
            ('a', mark("2", old, vouched)),
            ('b', mark("1", old, vouched)),
            ('c', mark("0", old, at(-60 * MINUTE_MS))),
        ];
        let last = remembered("2", Some("1"));
        let reconciled = [('a', mark("2", at(-MINUTE_MS), vouched))];
        let fast = [('a', mark("2", old, at(MINUTE_MS)))];
        for (last, marks, server, restored, unreached, since) in [
            (Some(&last), &marks[..1], "a", "", "", None),
            // The last vouch did not reach it, or was lost. The check begins shortly before the vouch that it has.
            (Some(&last), &marks[..2], "a", "", "b", Some(25)),
            // Restored from a snapshot.
            (Some(&last), &marks, "a", "c", "b", Some(80)),
            // Another server, without a sign that something is missing.
            (Some(&last), &marks[..1], "b", "", "", Some(25)),
            // A table without a stored vouch.
            (None, &marks[..1], "a", "a", "", Some(25)),
            // Reconciled changes are not lost. A vouch or a watermark later than the present says nothing.
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
        let last = LastVouch { check: Some(check.clone()), ..remembered("2", None) };
        let marks = [('a', mark("2", at(-12 * 60 * MINUTE_MS), at(-5 * MINUTE_MS)))];
        let same = judge(Some(&last), &marks, "a", at(0));
        assert_eq!((same.is_new, same.remembered.check), (false, Some(check)));
        let other = judge(Some(&last), &marks, "b", at(0));
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
            let found = judge(Some(&last), &marks, server, present);
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
                last = LastVouch { token, before: Some(last.token), ..last };
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
