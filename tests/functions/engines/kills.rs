//! What an engine keeps when it is killed.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_sdk_dynamodb::types::{Put, TransactWriteItem};
use table::{AUTHORS, GSI, MODERATION, PRIMARIES, Table, TableConfig};
use tokio::task::JoinSet;

use super::{Item, indexed, s};
use crate::fixture::{folder_in_memory, pagemark::Up, unique_name, wait_for};

const WRITERS: usize = 16;

/// How many acknowledged items precede the kill.
const ITEMS_BEFORE: usize = 500;

const INDEXES: [&str; 4] = [GSI, PRIMARIES, MODERATION, AUTHORS];

/// An item with the keys of every index.
fn in_every_index(pk: &str) -> Item {
    let mut item = indexed(pk, "1", pk);
    for attribute in ["shard", "pcd", "author_id", "unpublished", "unpublished_cd"] {
        item.insert(attribute.to_owned(), s(pk));
    }
    item
}

async fn put(table: &Table, pk: &str) -> bool {
    let put = table.client().put_item().table_name(table.name());
    put.set_item(Some(in_every_index(pk))).send().await.is_ok()
}

async fn put_in_transaction(table: &Table, pks: [&str; 2]) -> bool {
    let mut transaction = table.client().transact_write_items();
    for pk in pks {
        let put = Put::builder()
            .table_name(table.name())
            .set_item(Some(in_every_index(pk)))
            .build()
            .unwrap();
        transaction = transaction.transact_items(TransactWriteItem::builder().put(put).build());
    }
    transaction.send().await.is_ok()
}

/// Puts items until the engine ends, singly and in transactions. Returns those that it has
/// acknowledged, and counts them.
async fn write(table: Table, writer: usize, count: Arc<AtomicUsize>) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for round in 0.. {
        let [single, first, second] =
            ["single", "first", "second"].map(|kind| format!("{writer}-{round}-{kind}"));
        if !put(&table, &single).await {
            break;
        }
        acknowledged.push(single);
        if !put_in_transaction(&table, [&first, &second]).await {
            break;
        }
        acknowledged.extend([first, second]);
        count.fetch_add(3, Ordering::Relaxed);
    }
    acknowledged
}

/// The partition keys that a scan of the table finds, or a scan of an index.
async fn keys(table: &Table, index: Option<&str>) -> BTreeSet<String> {
    let scan = table.client().scan().table_name(table.name());
    let scan = scan.set_index_name(index.map(str::to_owned));
    let mut items = scan.into_paginator().items().send();
    let mut keys = BTreeSet::new();
    while let Some(item) = items.next().await {
        keys.insert(item.unwrap()["pk"].as_s().unwrap().clone());
    }
    keys
}

async fn start(folder: &Path) -> Up {
    Up::start(
        folder,
        &["--demo", "0", "--repair-every", "0", "--audit-every", "0"],
    )
    .await
}

async fn connect(up: &Up, name: &str) -> Table {
    Table::connect(&TableConfig::new(
        name,
        Some(format!("http://{}", up.engine)),
    ))
    .await
}

/// Only `pagemark up` runs the embedded engine in a separate process, which a test can kill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_kill_everything_acknowledged_is_in_the_table_and_in_each_index() {
    let folder = folder_in_memory();
    let name = unique_name("killed");
    let up = start(folder.path()).await;
    let table = connect(&up, &name).await;
    table.create_if_missing().await.unwrap();

    let count = Arc::new(AtomicUsize::new(0));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(write(table.clone(), writer, Arc::clone(&count)));
    }
    wait_for("acknowledged items", async || {
        let acknowledged = count.load(Ordering::Relaxed);
        if acknowledged < ITEMS_BEFORE {
            Err(acknowledged)
        } else {
            Ok(())
        }
    })
    .await;
    up.kill().await;
    let acknowledged: BTreeSet<String> = writers.join_all().await.concat().into_iter().collect();

    let up = start(folder.path()).await;
    let table = connect(&up, &name).await;
    let kept = keys(&table, None).await;
    let missing: Vec<_> = acknowledged.difference(&kept).collect();
    assert!(missing.is_empty(), "the table lacks {missing:?}");
    for index in INDEXES {
        assert_eq!(keys(&table, Some(index)).await, kept, "the index {index}");
    }
    up.stop().await;
}
