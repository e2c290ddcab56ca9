//! A change of a comment is one transaction with its journal entry, guarded by the revision.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use itertools::Itertools;
use model::{Comment, CommentId, CommentText, Revision, Status, journal::JournalEntry};
use table::{CommentPatch, Created, NewComment, WriteError};

use crate::fixture::{
    data::{self, PRODUCT, rate},
    invariants::{collection, journal},
    stores::Stores,
};

const _: crate::Engines = crate::Engines::Both;

fn new_comment(id: &str, rating: u64) -> NewComment {
    let text = CommentText {
        author: Some("Ann".to_owned()),
        ..data::body("Fine.")
    };
    NewComment {
        text,
        ..data::new_comment(id, &data::product(PRODUCT), "en", rating)
    }
}

impl Stores {
    async fn create(&self, id: &str, rating: u64) -> Comment {
        let new = new_comment(id, rating);
        match self.table.create_comment(new, None).await.unwrap() {
            Created::New(comment) => comment,
            Created::Before(comment) => panic!("{comment:?} already exists"),
        }
    }

    /// The journal of a comment, in the order of its revisions.
    async fn journal_of(&self, id: &CommentId) -> Vec<JournalEntry> {
        let mut entries = journal(&self.table).await;
        entries.retain(|entry| entry.id == *id);
        entries.sort_by_key(|entry| entry.revision);
        entries
    }
}

async fn with_comment(rating: u64) -> (Stores, Comment) {
    let stores = Stores::start().await;
    let created = stores.create("c1", rating).await;
    (stores, created)
}

#[tokio::test]
async fn every_change_leaves_one_journal_entry_with_the_state_before_and_after() {
    let (stores, created) = with_comment(4).await;
    let id = created.id.clone();
    let patched = stores
        .table
        .patch_comment(&id, |_| true, &rate(5))
        .await
        .unwrap();
    stores.table.delete_comment(&id, |_| true).await.unwrap();

    let journal = stores.journal_of(&id).await;
    let [creation, patch, deletion] = journal.as_slice() else {
        panic!("{journal:?}");
    };
    assert_eq!(creation.before, None);
    assert_eq!(creation.after, Some(created.placement()));
    assert_eq!(patch.before, Some(created.placement()));
    assert_eq!(patch.after, Some(patched.placement()));
    assert_eq!(deletion.before, Some(patched.placement()));
    assert_eq!(deletion.after, None);
    assert_eq!(creation.revision, created.revision);
    assert_eq!(patch.revision, patched.revision);
    assert!(creation.revision < patch.revision);
    assert!(patch.revision < deletion.revision);
    stores.finish().await;
}

#[tokio::test]
async fn a_change_keeps_what_it_does_not_name_and_an_empty_change_writes_nothing() {
    let (stores, created) = with_comment(4).await;
    let patch = CommentPatch {
        author: Some(None),
        title: Some(Some("Hm".to_owned())),
        ..CommentPatch::default()
    };
    let patched = stores
        .table
        .patch_comment(&created.id, |_| true, &patch)
        .await
        .unwrap();
    let text = CommentText::new(Some("Hm".to_owned()), "Fine.".to_owned(), None).unwrap();
    let expected = Comment {
        text,
        revision: patched.revision,
        ..created.clone()
    };
    assert_eq!(patched, expected);
    assert!(patched.revision > created.revision);
    let stored = stores.table.comment(&created.id).await.unwrap();
    assert_eq!(stored, Some(expected));

    let again = stores
        .table
        .patch_comment(&created.id, |now| now.revision == patched.revision, &patch)
        .await
        .unwrap();
    assert_eq!(again, patched);
    assert_eq!(stores.journal_of(&created.id).await.len(), 2);
    stores.finish().await;
}

#[tokio::test]
async fn an_id_is_created_once() {
    let stores = Stores::start().await;
    let creates = join_all((0..8).map(|rating| {
        stores
            .table
            .create_comment(new_comment("c1", 1 + rating % 5), None)
    }));
    let (created, refused): (Vec<_>, Vec<_>) = creates.await.into_iter().partition_result();
    assert_eq!(created.len(), 1, "{refused:?}");
    for error in &refused {
        assert!(matches!(error, WriteError::AlreadyExists), "{refused:?}");
    }
    assert_eq!(stores.journal_of(&data::comment_id("c1")).await.len(), 1);
    stores.finish().await;
}

/// The change by the writer of this number: each of the first five changes another field, all
/// others the body.
fn patch_by(number: usize) -> CommentPatch {
    let mut patch = CommentPatch::default();
    match number {
        0 => patch.rating = Some(data::rating(5)),
        1 => patch.language = Some(data::language("ko")),
        2 => patch.title = Some(Some("Title".to_owned())),
        3 => patch.author = Some(Some("Bob".to_owned())),
        4 => patch.status = Some(Status::Hidden),
        _ => patch.body = Some(Some(format!("Body {number}"))),
    }
    patch
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_unconditional_changes_of_one_comment_all_happen() {
    const WRITERS: usize = 32;
    let (stores, created) = with_comment(1).await;
    let changes = (0..WRITERS).map(async |number| {
        let patched = stores
            .table
            .patch_comment(&created.id, |_| true, &patch_by(number))
            .await
            .unwrap();
        patched.revision
    });
    let revisions: BTreeSet<Revision> = join_all(changes).await.into_iter().collect();
    assert_eq!(revisions.len(), WRITERS);
    let comment = stores.table.comment(&created.id).await.unwrap().unwrap();
    let text = CommentText::new(
        Some("Title".to_owned()),
        comment.text.body.clone(),
        Some("Bob".to_owned()),
    )
    .unwrap();
    assert_eq!(comment.rating.get(), 5);
    assert_eq!(comment.language.as_str(), "ko");
    assert_eq!(comment.status, Status::Hidden);
    assert_eq!(comment.text, text);
    assert_eq!(Some(&comment.revision), revisions.last());
    // In the journal, each change continues from the one before.
    let journal = stores.journal_of(&created.id).await;
    let in_journal: BTreeSet<Revision> = journal[1..].iter().map(|entry| entry.revision).collect();
    assert_eq!(in_journal, revisions);
    for (entry, next) in journal.iter().tuple_windows() {
        assert_eq!(entry.after, next.before, "{journal:?}");
    }

    let deletions = (0..WRITERS).map(|_| stores.table.delete_comment(&created.id, |_| true));
    let deletions = join_all(deletions).await;
    let (done, refused): (Vec<_>, Vec<_>) = deletions.into_iter().partition_result();
    assert_eq!(done.len(), 1, "{refused:?}");
    for error in &refused {
        assert!(matches!(error, WriteError::NotFound), "{refused:?}");
    }
    stores.finish().await;
}

#[tokio::test]
async fn an_item_collection_larger_than_one_answer_is_read_completely() {
    let stores = Stores::start().await;
    let mut new = new_comment("c1", 4);
    // 32 items of 40 KB are more than one answer's megabyte.
    new.text = CommentText::new(None, "😀".repeat(CommentText::BODY_MAX_CHARS), None).unwrap();
    stores.table.create_comment(new, None).await.unwrap();
    let (primary, duplicates) = collection(&stores.table, &data::comment_id("c2")).await;
    assert_eq!(primary.len(), 0);
    assert_eq!(duplicates.len(), 0);
    stores.deliver_all().await;
    let (primary, duplicates) = collection(&stores.table, &data::comment_id("c1")).await;
    assert_eq!(primary.len(), 1);
    assert_eq!(duplicates.len(), 31);
    stores.finish().await;
}

#[tokio::test]
async fn comments_of_a_page_are_read_at_once_however_many_and_large_they_are() {
    let stores = Stores::start().await;
    // More keys than a call takes. The first 45 items are more than the 16 MB of an answer.
    let mut comments = stores.create_all(0..120, |_| data::product(PRODUCT)).await;
    for comment in &comments[..45] {
        let padding = data::text_value("x".repeat(390_000));
        stores
            .break_primary_item(&comment.id, "padding", padding)
            .await;
    }
    stores
        .break_primary_item(&comments[50].id, "language", data::text_value("?"))
        .await;
    let elsewhere = stores
        .create_numbered(500, data::product("elsewhere"))
        .await;
    let mut ids = comments
        .iter()
        .map(|comment| comment.id.clone())
        .collect_vec();
    ids.extend([elsewhere.id, data::comment_id("absent")]);
    let mut read = stores
        .table
        .comments_in(&data::product(PRODUCT), &ids)
        .await
        .unwrap();
    assert_eq!(read.split_off(120), [None, None]);
    comments.remove(50);
    let problem = read.remove(50).unwrap().unwrap_err().to_string();
    assert!(problem.contains("attribute language"), "{problem}");
    let read = read.into_iter().map(|comment| comment.unwrap().unwrap());
    assert_eq!(read.collect_vec(), comments);
    stores.stop().await;
}
