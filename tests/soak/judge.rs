//! What holds when the faults have ended and the repair job has run.

use std::{fs, time::Duration};

use local_stack::import::to_line;
use model::Invariant;
use process::now;
use rand::rngs::StdRng;
use repair_job::exit;
use tokio::time::Instant;

use super::{Soak, site::ARCHIVED_AFTER, writers::imported};
use crate::{
    fixture::{
        data,
        invariants::{Checked, Contents, differences_at_rest},
        program::Ended,
    },
    simulator::{
        checks::{check_export, check_some_filters, differences_of_list, feed_at_rest, published},
        world::Judged,
    },
};

/// How long the repair job may take until nothing is left to repair.
const REPAIRED_WITHIN: Duration = Duration::from_secs(600);

/// How long the list of products may be old, while it is asked for.
const LISTED_WITHIN: Duration = Duration::from_secs(30);

/// Between two clocks of one machine, and the rounding of dates.
const SLACK: Duration = Duration::from_secs(1);

const POLL: Duration = Duration::from_millis(300);

pub(super) async fn judge(soak: &Soak, random: &mut StdRng, number: u64) {
    soak.site.correct_clock(&soak.tally).await;
    let table = soak.site.table().await;
    import(soak, number).await;
    repair(soak).await;
    // The front page leads to no archive page with the comments that are too new for one.
    tokio::time::sleep(ARCHIVED_AFTER + SLACK).await;
    let contents = Contents::read(&table).await;
    let config = soak.site.index_config(&table).await;
    for (invariant, difference) in differences_at_rest(&contents, Checked::Redis(&config)).await {
        soak.violated(invariant, format!("at rest: {difference}"));
    }
    let truth = contents.comments();
    let differences = soak.model().differences(&truth);
    for difference in differences {
        soak.violated(Invariant::WritesAreKept, difference);
    }
    let comments = published(&contents);
    check_some_filters(soak, random, &comments).await;
    let began = Instant::now();
    while let Some(difference) = differences_of_list(soak, &comments).await {
        if began.elapsed() > LISTED_WITHIN {
            soak.violated(Invariant::PagesAreExact, difference);
            break;
        }
        tokio::time::sleep(POLL).await;
    }
    feed_at_rest(soak, &comments).await;
    export(soak, &contents).await;
    soak.tally.add(
        "comments judged at rest",
        u64::try_from(truth.len()).unwrap(),
    );
    let since = now();
    soak.model().learn(&truth, since);
    *soak.whole_since.lock().unwrap() = Some(since.plus_ms(1));
}

/// Imports a comment. The command ends when everything that was written is visible.
async fn import(soak: &Soak, number: u64) {
    let comment = imported(soak, number);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("comments.jsonl");
    fs::write(&file, to_line(data::stored(&comment)).unwrap()).unwrap();
    {
        let mut model = soak.model();
        model.begin(&comment.id, now());
        model.note_created(&comment.id);
    }
    let ended = soak.site.run(&["import", file.to_str().unwrap()]).await;
    soak.check(Invariant::WorkEnds, ended.status.success(), || {
        format!("an import in a quiet system has failed: {ended:?}")
    });
    soak.model()
        .answered(&comment.id, Some(data::stored(&comment)), now());
    soak.tally.add("acknowledged: imports", 1);
}

/// Runs the repair job until an audit finds nothing.
async fn repair(soak: &Soak) {
    let began = Instant::now();
    loop {
        for command in ["quarantine", "recent", "audit"] {
            let ended = soak
                .site
                .run(&["repair", command, "--apply", "--json"])
                .await;
            count(soak, &ended);
        }
        let ended = soak.site.run(&["repair", "audit"]).await;
        match ended.code() {
            0 => return,
            // The stack's own run has begun before.
            exit::HELD => {}
            _ => soak
                .tally
                .add("audits that were not the last of their round", 1),
        }
        if began.elapsed() > REPAIRED_WITHIN {
            return soak.violated(
                Invariant::WorkEnds,
                format!("in a quiet system an audit still ends with {ended:?}"),
            );
        }
        tokio::time::sleep(POLL).await;
    }
}

fn count(soak: &Soak, ended: &Ended) {
    // A run that is held by another one reports nothing.
    let Ok(report) = serde_json::from_str::<serde_json::Value>(&ended.stdout) else {
        return;
    };
    let repaired = report["repaired"].as_u64().unwrap_or_default();
    soak.tally.add("differences repaired by commands", repaired);
}

async fn export(soak: &Soak, contents: &Contents) {
    let (ended, exported) = soak.site.export().await;
    soak.check(Invariant::PagesAreExact, ended.status.success(), || {
        format!("at rest an export fails: {ended:?}")
    });
    if ended.status.success() {
        check_export(soak, &exported, contents);
    }
}
