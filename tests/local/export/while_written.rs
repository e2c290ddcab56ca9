//! Exports while comments are created, changed and deleted.

use std::collections::BTreeMap;
use std::fs;

use model::{CommentId, Filter, Timestamp};
use process::now;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use table::{CommentPatch, Created, NewComment};

use local_stack::import::to_line;

use super::{Exporter, field};
use crate::fixture::{
    data::{comment_id, entry, new_comment, product},
    gate::{self, Gate},
};

/// The states of a comment: from when each was acknowledged, and its line, or `None` when it was
/// deleted.
type History = Vec<(Timestamp, Option<String>)>;

struct Writer<'run> {
    exporter: &'run Exporter,
    random: StdRng,
    histories: BTreeMap<CommentId, History>,
}

impl Writer<'_> {
    async fn write(&mut self) {
        let table = &self.exporter.stores.table;
        let number = self.random.random_range(0..120_u64);
        let id = comment_id(&format!("w{number:03}"));
        let history = self.histories.entry(id.clone()).or_default();
        let is_there = history.last().is_some_and(|(_, line)| line.is_some());
        let body = format!("State {}", history.len());
        let comment = if !is_there {
            // A comment that is created again has another time.
            let created_at = now().plus_ms(-self.random.random_range(0..1_000_000_000));
            let product = product(&format!("p{}", number % 9));
            let new = NewComment {
                created_at,
                ..new_comment(id.as_str(), &product, "en", 1 + number % 5)
            };
            match table.create_comment(new, None).await.unwrap() {
                Created::New(comment) | Created::Before(comment) => Some(comment),
            }
        } else if self.random.random_range(0..3) == 0 {
            table.delete_comment(&id, |_| true).await.unwrap();
            None
        } else {
            let patch = CommentPatch {
                body: Some(Some(body)),
                ..CommentPatch::default()
            };
            Some(table.patch_comment(&id, |_| true, &patch).await.unwrap())
        };
        history.push((now(), comment.map(|comment| to_line(comment).unwrap())));
        // A reader may have missed it, where it is or where it was.
        let product = product(&format!("p{}", self.random.random_range(0..9)));
        let looked_for = entry(&Filter::ANY.placement_in(&product), now());
        table.report(&id, &looked_for).await.unwrap();
    }

    /// Asserts that an export holds each comment in the state that was acknowledged last before
    /// `holds`, or a later one.
    fn assert_holds(&self, lines: &str, holds: Timestamp) {
        let ids = field(lines, "id");
        let exported: BTreeMap<&str, &str> =
            ids.iter().map(String::as_str).zip(lines.lines()).collect();
        assert_eq!(exported.len(), ids.len(), "a comment is there twice");
        for (id, history) in &self.histories {
            let found = exported.get(id.as_str()).copied();
            let known = history.iter().rposition(|(at, _)| *at < holds);
            if known.is_none() && found.is_none() {
                // It need not exist yet.
                continue;
            }
            let possible = &history[known.unwrap_or(0)..];
            let mut lines = possible.iter().map(|(_, line)| line.as_deref());
            assert!(
                lines.any(|line| line == found),
                "{id}: {found:?} of {history:?} at {holds}"
            );
        }
    }
}

/// The instant up to which an export says that it holds every change.
fn holds(stderr: &str) -> Timestamp {
    let line = stderr
        .lines()
        .find(|line| line.contains("every change acknowledged before "))
        .unwrap();
    let (_, instant) = line.split_once("acknowledged before ").unwrap();
    Timestamp::parse(instant.split(' ').next().unwrap()).unwrap()
}

#[tokio::test]
async fn no_acknowledged_change_is_lost_and_no_comment_doubled_while_writes_go_on() {
    for (seed, kind) in [
        (0, gate::PAGES),
        (1, gate::PRIMARIES),
        (2, gate::JOURNAL),
        (3, gate::PAGES),
    ] {
        let exporter = Exporter::start().await;
        let mut writer = Writer {
            exporter: &exporter,
            random: StdRng::seed_from_u64(seed),
            histories: BTreeMap::new(),
        };
        for _ in 0..250 {
            writer.write().await;
        }
        let began = now();
        // The export stands still at one call while comments change, and then continues while they
        // change.
        let gate = Gate::holding(&exporter.stores.engine_url(), kind, 4).await;
        let mut program = exporter
            .start_export(&gate.url, &exporter.file(), &[])
            .await;
        gate.wait_until_holding("a call of the export").await;
        for _ in 0..150 {
            writer.write().await;
        }
        gate.open();
        while program.status().is_none() {
            writer.write().await;
        }
        let ended = program.end().await.expect(0);
        let holds = holds(&ended.stderr);
        assert!(holds > began, "{holds} {began}");
        writer.assert_holds(&fs::read_to_string(exporter.file()).unwrap(), holds);

        // Without writes, it equals the table.
        assert_eq!(exporter.exported().await, exporter.expected().await);
        exporter.end().await;
    }
}
