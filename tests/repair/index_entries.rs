//! An audit compares the table's own indexes with the table. An engine that lost entries of them
//! serves listings, rebuilds and exports that lack comments.

use std::time::Duration;

use model::{
    AuthorId, Comment, CommentId, Status,
    plan::reconcile::DriftKind::{MissingEntry, StaleDuplicate},
};
use repair_job::{JobSettings, Report, exit, indexes_compared};
use table::{AUTHORS, CommentPatch, GSI, MODERATION, PRIMARIES};

use super::{assert_clean, job, job_of, product, settings, start_with, whole};
use crate::fixture::stores::Stores;

const _: crate::Engines =
    crate::Engines::Embedded("its indexes are files that a test can take entries from");

/// A comment of an author, an unpublished one, and others.
async fn start() -> (Stores, Vec<Comment>) {
    let (stores, mut comments) = start_with(0..6, |_| product(0)).await;
    for (number, patch) in [
        CommentPatch {
            author_id: Some(AuthorId::parse("u-7").ok()),
            ..CommentPatch::default()
        },
        CommentPatch {
            status: Some(Status::Hidden),
            ..CommentPatch::default()
        },
    ]
    .iter()
    .enumerate()
    {
        let id = comments[number].id.clone();
        let patched = stores.table.patch_comment(&id, |_| true, patch).await;
        comments[number] = patched.unwrap();
    }
    stores.deliver_all().await;
    (stores, comments)
}

fn counts(report: &Report) -> (u64, u64) {
    let count = |kind| report.drifted.get(&kind).copied().unwrap_or_default();
    (count(MissingEntry), count(StaleDuplicate))
}

async fn revision_of(stores: &Stores, id: &CommentId) -> String {
    let comment = stores.table.comment(id).await.unwrap().unwrap();
    comment.revision.to_string()
}

#[tokio::test]
async fn an_audit_finds_what_an_index_of_the_table_has_lost_and_writes_it_again() {
    let (stores, comments) = start().await;
    assert_clean(&job(&stores, true).audit(whole()).await);
    for (number, index) in [(0, AUTHORS), (1, MODERATION), (2, PRIMARIES), (3, GSI)] {
        let id = &comments[number].id;
        stores.engine.lose_entries(&stores.table, index, id);
        for _ in 0..2 {
            let looked = job(&stores, false).audit(whole()).await;
            let code = exit::DRIFT_FOUND | exit::DRIFT_LEFT;
            assert_eq!(
                (counts(&looked), looked.exit_code()),
                ((1, 0), code),
                "{looked}"
            );
        }
        let checked = job(&stores, false).check(id, None).await;
        assert_eq!(counts(&checked), (1, 0), "{checked}");
        let entries = &checked.comment.as_ref().unwrap().entries;
        let wrong: Vec<_> = entries
            .iter()
            .filter(|entry| entry.state != "right")
            .collect();
        let [entry] = wrong.as_slice() else {
            panic!("{wrong:?}");
        };
        assert_eq!(
            (entry.what.as_str(), entry.state.as_str()),
            ("index entry", "missing entry")
        );
        assert!(
            entry.key.starts_with(&format!("{index} PRODUCT#")),
            "{entry:?}"
        );
        let before = revision_of(&stores, id).await;
        let repaired = job(&stores, true).audit(whole()).await;
        // The new revision makes the duplicates stale.
        let duplicates = if index == MODERATION { 0 } else { 31 };
        assert_eq!(
            (counts(&repaired), repaired.exit_code()),
            ((1, duplicates), exit::DRIFT_FOUND),
            "{index} {repaired}"
        );
        assert_ne!(before, revision_of(&stores, id).await);
        assert_clean(&job(&stores, true).audit(whole()).await);
        stores.assert_invariants().await;
    }
    stores.finish().await;
}

#[tokio::test]
async fn an_index_is_not_asked_for_what_was_written_a_moment_ago() {
    let (stores, comments) = start().await;
    stores
        .engine
        .lose_entries(&stores.table, PRIMARIES, &comments[2].id);
    let patient = JobSettings {
        min_age: Duration::from_secs(600),
        ..settings(true)
    };
    let job_later = job_of(stores.table.clone(), stores.index.clone(), patient);
    assert_clean(&job_later.audit(whole()).await);
    let repaired = job(&stores, true).audit(whole()).await;
    assert_eq!(counts(&repaired).0, 1, "{repaired}");
    stores.finish().await;
}

#[tokio::test]
async fn the_indexes_count_as_compared_when_each_part_of_the_table_was() {
    let (stores, _) = start().await;
    let of_part = |segment| repair_job::AuditOptions {
        segments: 2,
        segment: Some(segment),
        ..whole()
    };
    job(&stores, true).audit(of_part(0)).await;
    assert_eq!(indexes_compared(&stores.table).await.unwrap(), None);
    job(&stores, true).audit(of_part(1)).await;
    let compared = indexes_compared(&stores.table).await.unwrap().unwrap();
    // A pass begins anew, and counts from when it began.
    job(&stores, true).audit(of_part(0)).await;
    let later = indexes_compared(&stores.table).await.unwrap().unwrap();
    assert!(later > compared);
    stores.finish().await;
}
