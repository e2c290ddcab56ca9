//! A site moves in while the old table is written to: an import, and then the old table's stream.

use std::path::{Path, PathBuf};

use itertools::Itertools;
use local_stack::{index_place::IndexPlace, stack::StackSettings};
use model::Status;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IteratorRandom};
use serde_json::{Value, json};
use table::NewComment;
use tempfile::TempDir;

use crate::{
    fixture::{
        data::{at_ms, body, product, rating},
        folder_in_memory,
        gate::{self, Gate},
        old_table::OldTable,
        pagemark,
        program::{Ended, Program},
        reviews,
        stack::{self, Running},
        stores::Stores,
    },
    import::{
        as_imported,
        foreign::{FOREIGN, foreign},
        imported,
        origin::{foreign_table, import, items_of_the_articles},
    },
};

/// An old table, and a new one that follows it.
struct Moving {
    stores: Stores,
    old: OldTable,
    folder: TempDir,
}

impl Moving {
    async fn start(comments: &[NewComment]) -> Self {
        let stores = Stores::start().await;
        let old = foreign_table(&stores, comments).await;
        Self { old, stores, folder: folder_in_memory() }
    }

    fn checkpoint(&self) -> PathBuf {
        self.folder.path().join("position")
    }

    /// Starts a follower. `url` is that of the engine, or of a gate before it.
    async fn start_follow(&self, url: &str, options: &[&str]) -> Program {
        let from = ["follow", "--from-table", &self.old.name, "--from-endpoint", url];
        let to = ["--table", self.stores.table.name(), "--dynamodb-url", url];
        let checkpoint = self.checkpoint();
        let kept = ["--checkpoint", checkpoint.to_str().unwrap()];
        pagemark::start(&[&from[..], &to, &kept, options].concat()).await
    }

    /// Follows until everything so far is in the new table.
    async fn catch_up(&self, options: &[&str]) -> Ended {
        let options = [options, &["--until-caught-up"]].concat();
        self.start_follow(&self.stores.engine_url(), &options).await.end().await
    }

    async fn finish(self) {
        self.old.drop_it().await;
        self.stores.deliver_all().await;
        self.stores.finish().await;
    }
}

/// Changes a comment at random as another program does: any field except the id. Or it deletes the comment, or creates it
/// again. `None` is a comment that is not there.
fn changed(rng: &mut StdRng, first: &NewComment, now: Option<&NewComment>, number: u64) -> Option<NewComment> {
    let Some(now) = now else { return Some(first.clone()) };
    let text = body(&format!("Changed for the {number}th time."));
    match rng.random_range(0..7) {
        0 => None,
        1 => Some(NewComment { product: product(&format!("moved/{}", number % 3)), ..now.clone() }),
        2 => Some(NewComment { created_at: at_ms(1_700_000_000_000 + i64::try_from(number).unwrap()), ..now.clone() }),
        3 => Some(NewComment { rating: rating(1 + number % 5), ..now.clone() }),
        4 => {
            let status = Status::UNPUBLISHED.into_iter().choose(rng).filter(|_| now.status.is_none());
            Some(NewComment { status, ..now.clone() })
        }
        _ => Some(NewComment { text, ..now.clone() }),
    }
}

/// Writes to the old table: each step changes one comment. Comments from `from` on are created by it.
async fn write(old: &OldTable, first: &[NewComment], there: &mut [Option<NewComment>], steps: u64, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    for number in 0..steps {
        let at = rng.random_range(0..first.len());
        let new = changed(&mut rng, &first[at], there[at].as_ref(), number);
        match &new {
            Some(comment) => old.put(&foreign(comment).into()).await,
            None => old.delete(&json!({"number": first[at].id})).await,
        }
        there[at] = new;
    }
}

/// The instant at which an import says that it began.
fn since(imported: &Ended) -> String {
    imported.stderr.split("follow --since ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
}

#[tokio::test]
async fn a_site_moves_in_while_it_is_written_to_and_nothing_is_lost_or_doubled() {
    // Half of the comments are there before, the writer creates the others.
    let first = reviews::reviews(160).into_iter().take(160).collect_vec();
    let moving = Moving::start(&first[..80]).await;
    let mut there = first.iter().cloned().enumerate().map(|(at, comment)| (at < 80).then_some(comment)).collect_vec();
    let Moving { stores, old, .. } = &moving;

    let (ended, ()) = tokio::join!(import(stores, old, &FOREIGN), write(old, &first, &mut there, 300, 1));
    let since = since(&ended.expect(0));
    let options = [&FOREIGN[..], &["--since", &since]].concat();
    // Killed in the middle of writes, and between two polls.
    let mut random = StdRng::seed_from_u64(19);
    for round in 0..6 {
        let (kind, calls) = if round % 3 == 2 { (gate::POLLS, 4) } else { (gate::TRANSACTIONS, 40) };
        let gate = Gate::holding(&stores.engine_url(), kind, random.random_range(0..calls)).await;
        let follow = moving.start_follow(&gate.url, &options).await;
        let killed = async {
            gate.wait_until_holding("a call of the follower").await;
            follow.kill().await;
        };
        tokio::join!(killed, write(old, &first, &mut there, 80, round + 2));
        if round == 2 {
            std::fs::copy(moving.checkpoint(), moving.folder.path().join("early")).unwrap();
        }
    }
    let caught_up = moving.catch_up(&FOREIGN).await.expect(0);
    assert!(caught_up.stdout.contains(" 0 refused; complete until "), "{caught_up:?}");
    let expected = there.into_iter().flatten().sorted_by(|a, b| a.id.cmp(&b.id)).collect_vec();
    assert_eq!(imported(stores).await, expected);

    // The comparison before the switch.
    let compared = import(stores, old, &[&FOREIGN[..], &["--dry-run", "--update"]].concat()).await.expect(0);
    let unchanged = format!(" 0 new, {} unchanged, 0 differ", expected.len());
    assert!(compared.stdout.contains(&unchanged), "{compared:?}");
    assert!(expected.iter().any(|comment| comment.status.is_some()), "none is pending or hidden");
    let to = ["export", "--table", stores.table.name(), "--dynamodb-url", &stores.engine_url()];
    assert_eq!(pagemark::run(&to).await.expect(0).stdout.lines().count(), expected.len());
    // From an earlier position, what was applied is applied again.
    std::fs::copy(moving.folder.path().join("early"), moving.checkpoint()).unwrap();
    moving.catch_up(&FOREIGN).await.expect(0);
    assert_eq!(imported(stores).await, expected);
    moving.finish().await;
}

#[tokio::test]
async fn a_data_folder_follows_a_stream_by_its_arn_and_kills_lose_nothing() {
    let first = reviews::reviews(60).into_iter().take(60).collect_vec();
    let moving = Moving::start(&first).await;
    let mut there = first.iter().cloned().map(Some).collect_vec();
    let (url, arn) = (moving.stores.engine_url(), moving.old.stream_arn().await);
    let folder = folder_in_memory();
    let kept = || StackSettings {
        data_dir: Some(folder.path().to_owned()),
        page_index: IndexPlace::Embedded,
        ..stack::settings()
    };
    Running::start_with(kept()).await.stack.stop().await;

    // Nothing of the old table is here yet: its stream began with it.
    let (checkpoint, since) = (moving.checkpoint(), process::now().to_string());
    let place = ["--data-dir", folder.path().to_str().unwrap(), "--checkpoint", checkpoint.to_str().unwrap()];
    let options = [&FOREIGN[..], &place, &["--since", &since]].concat();
    for polls in [1, 3] {
        // The kill ends the engine of the folder, too.
        let gate = Gate::holding(&url, gate::POLLS, polls).await;
        let follow = ["follow", "--from-stream", &arn, "--from-endpoint", &gate.url];
        let follow = pagemark::start(&[&follow[..], &options].concat()).await;
        let killed = async {
            gate.wait_until_holding("a poll of the follower").await;
            follow.kill().await;
        };
        let ((), ()) = tokio::join!(killed, write(&moving.old, &first, &mut there, 60, polls as u64));
    }
    let follow = ["follow", "--from-stream", &arn, "--from-endpoint", &url, "--until-caught-up"];
    let ended = pagemark::run(&[&follow[..], &options].concat()).await.expect(0);
    assert!(ended.stdout.contains(" 0 refused; complete until "), "{ended:?}");
    let mut running = Running::start_with(kept()).await;
    let expected = there.into_iter().flatten().sorted_by(|a, b| a.id.cmp(&b.id)).collect_vec();
    assert_eq!(as_imported(&running.assert_invariants().await), expected);
    running.finish().await;
    moving.finish().await;
}

fn read(path: &Path) -> Value {
    std::fs::read_to_string(path).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_change_that_cannot_be_read_is_named_and_kept_and_the_rest_followed() {
    let comments = reviews::reviews(3).into_iter().take(3).collect_vec();
    let moving = Moving::start(&comments).await;
    let mut broken = foreign(&comments[1]);
    broken.insert("score".to_owned(), 101.into());
    moving.old.put(&broken.into()).await;
    let rejects = moving.folder.path().join("rejects");
    let since = process::now().to_string();
    assert!(moving.catch_up(&FOREIGN).await.expect(1).stderr.contains("--since says when the import began"));
    let options = [&FOREIGN[..], &["--since", &since, "--rejects", rejects.to_str().unwrap()]].concat();
    let ended = moving.catch_up(&options).await.expect(1);
    let key = format!("item {{\"number\":{{\"S\":\"{}\"}}}}: rating: 101 is outside the scale", comments[1].id);
    assert!(ended.stdout.contains("4 changes: 3 comments created, 0 updated, 0 deleted, 1 refused"), "{ended:?}");
    assert!(ended.stdout.contains(&format!("refused: {key}")), "{ended:?}");
    assert_eq!(read(&rejects)["row"]["Item"]["score"], json!({"N": "101"}));
    // The next change of the item is followed again, and so is its end.
    moving.old.put(&foreign(&NewComment { text: body("Corrected."), ..comments[1].clone() }).into()).await;
    moving.old.delete(&json!({"number": comments[0].id})).await;
    let ended = moving.catch_up(&FOREIGN).await.expect(0);
    assert!(ended.stdout.contains("2 changes: 0 comments created, 1 updated, 1 deleted, 0 refused"), "{ended:?}");
    assert!(moving.catch_up(&[]).await.expect(1).stderr.contains("other options"), "another mapping");
    moving.finish().await;
}

#[tokio::test]
async fn the_stream_of_the_articles_table_is_followed_without_its_duplicates() {
    let mut moving = Moving::start(&[]).await;
    let articles = OldTable::of_the_articles(moving.stores.table.client()).await;
    std::mem::replace(&mut moving.old, articles).drop_it().await;
    let since = process::now().to_string();
    let options = ["--format", "article", "--since", &since];
    let items = |cd: &str, text: &str| items_of_the_articles(100_001, cd, "en", 5, &json!({"body": text}));
    moving.old.put_all(items("2020-11-09 12:00:00.123", "Fine.")).await;
    let ended = moving.catch_up(&options).await.expect(0);
    assert!(ended.stdout.contains("34 changes: 1 comments created"), "{ended:?}");
    moving.old.put_all(items("2020-11-09 12:00:00.123", "Edited.")).await;
    assert!(moving.catch_up(&options).await.expect(0).stdout.contains(" 1 updated, 0 deleted"));
    let key = |item: Value| json!({"pk": item["pk"], "sk": item["sk"]});
    for item in items("2020-11-09 12:00:00.123", "Edited.") {
        moving.old.delete(&key(item)).await;
    }
    assert!(moving.catch_up(&options).await.expect(0).stdout.contains(" 0 updated, 1 deleted"));
    assert_eq!(imported(&moving.stores).await, []);
    moving.finish().await;
}

#[tokio::test]
async fn a_comment_that_old_duplicates_hide_is_deleted_when_they_are_gone() {
    let comment = NewComment { product: product("z"), ..reviews::reviews(1).swap_remove(0) };
    let moving = Moving::start(std::slice::from_ref(&comment)).await;
    let since = since(&import(&moving.stores, &moving.old, &FOREIGN).await.expect(0));
    moving.stores.deliver_all().await;
    // The duplicates in product z stay until the functions run, and sort behind those of product a.
    moving.old.put(&foreign(&NewComment { product: product("a"), ..comment.clone() }).into()).await;
    moving.old.delete(&json!({"number": comment.id})).await;
    let options = [&FOREIGN[..], &["--since", &since]].concat();
    let ended = moving.catch_up(&options).await.expect(1);
    assert!(ended.stderr.contains("hide comment") && ended.stderr.contains("the same command goes on"), "{ended:?}");
    moving.stores.deliver_all().await;
    moving.catch_up(&options).await.expect(0);
    assert_eq!(imported(&moving.stores).await, []);
    moving.finish().await;
}
