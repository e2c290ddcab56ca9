//! The page index in a Redis Cluster gives the same answers, and never a wrong one while masters
//! fail and slots move.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use itertools::Itertools;
use model::{
    CommentId, Filter, ProductId, RankEntry,
    plan::{IndexEdit, index_edits},
};
use page_index::{IndexPart, PageIndex, RankedQuery};
use process::{Remedy, StoreError, now};
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};
use redis_index::RedisIndexConfig;

use crate::{
    fixture::{
        data,
        redis_cluster::RedisCluster,
        redis_server::{TABLE_ID, make_ready},
        stores::Stores,
        wait_for,
    },
    reading::selection::{check_positions, check_product, check_stats, fill, products},
};

const _: crate::Engines = crate::Engines::Both;

/// Enough products that every master serves some, whichever partitions they fall into.
const PRODUCTS: u64 = 24;

fn product(number: u64) -> ProductId {
    data::product(&format!("product {number}"))
}

async fn total(index: &PageIndex, table_id: &str, product: &ProductId) -> Result<u64, StoreError> {
    let query = RankedQuery::new(product, &Filter::ANY);
    let mut answers = index.ranked(&[query], table_id, now()).await?;
    match answers.remove(0) {
        Ok(ranked) => Ok(ranked.all),
        Err(not_ready) => panic!("{product:?}: {not_ready}"),
    }
}

#[tokio::test]
#[ignore = "takes long"]
async fn the_answers_of_a_cluster_equal_a_brute_force_sort() {
    let cluster = RedisCluster::start().await;
    let index = cluster.index();
    let mut random = StdRng::seed_from_u64(11);
    let products = products(80, &mut random);
    fill(&index, &products, &mut random).await;
    for product in &products {
        check_product(&index, product, &mut random).await;
        let filter = data::filter(None, Some("1.2.5"));
        check_positions(&index, product, &filter).await;
        check_stats(&index, product, &Filter::ANY).await;
    }
    // Every master holds a part of the index, and `clear` empties all of them.
    for master in cluster.masters().await {
        assert_ne!(cluster.ask::<u64>(master, "DBSIZE").await, 0);
    }
    index.clear().await.unwrap();
    for master in cluster.masters().await {
        assert_eq!(cluster.ask::<u64>(master, "DBSIZE").await, 0);
    }
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_rebuild_refuses_masters_that_may_evict() {
    let cluster = RedisCluster::start().await;
    // The first and the last master.
    for evicting in [0, 2] {
        cluster
            .ask::<()>(evicting, "CONFIG SET maxmemory-policy allkeys-lru")
            .await;
        let error = cluster.index().begin_rebuild().await.unwrap_err();
        let port = cluster.port_of(evicting).to_string();
        let StoreError::Call {
            remedy: Remedy::CallOperator,
            detail,
            ..
        } = &error
        else {
            panic!("{error:?}");
        };
        assert!(detail.contains("allkeys-lru"), "{error:?}");
        assert!(detail.contains(&port), "{error:?}");
        cluster
            .ask::<()>(evicting, "CONFIG SET maxmemory-policy noeviction")
            .await;
    }
    cluster.index().begin_rebuild().await.unwrap();
}

/// How often the index answered, and how often it said that it was unavailable.
#[derive(Default)]
struct Asked {
    answers: u64,
    refusals: u64,
}

/// Requests all products until the flag is set. Each has this total at least, or the index is
/// unavailable.
async fn keep_asking(
    index: &PageIndex,
    table_id: &str,
    total_min: u64,
    is_over: &AtomicBool,
) -> Asked {
    let mut asked = Asked::default();
    while !is_over.load(Ordering::Relaxed) {
        for number in 0..PRODUCTS {
            match total(index, table_id, &product(number)).await {
                Ok(found) => {
                    assert!(
                        found >= total_min,
                        "product {number}: {found} of {total_min}"
                    );
                    asked.answers += 1;
                }
                Err(error) => {
                    assert!(error.is_unavailable(), "{error:?}");
                    asked.refusals += 1;
                }
            }
        }
        tokio::task::yield_now().await;
    }
    asked
}

/// Applies an edit about a comment that never existed until it fails, because the product's master
/// is lost.
async fn wait_for_a_failing_edit(index: &PageIndex, product: &ProductId) {
    let placement = data::placement(product, "en", 3);
    let edits = index_edits(
        &data::comment_id("nobody"),
        None,
        &[data::entry(&placement, now())],
    );
    wait_for("an edit that fails", async || {
        match index.apply(&edits).await {
            Ok(()) => Err("all edits succeed"),
            Err(error) if error.is_unavailable() => Ok(()),
            Err(error) => panic!("{error:?}"),
        }
    })
    .await;
}

async fn wait_for_all_products(index: &PageIndex, table_id: &str) {
    wait_for("all products", async || {
        for number in 0..PRODUCTS {
            let answer = total(index, table_id, &product(number)).await;
            if let Err(error) = answer {
                return Err(error.to_string());
            }
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_master_that_hangs_is_replaced_and_the_index_ends_correct() {
    let cluster = RedisCluster::start().await;
    // The time-out of a deployment: a master that hangs must be noticed.
    let config = RedisIndexConfig {
        timeout: Duration::from_millis(500),
        ..cluster.config()
    };
    let stores = Stores::start_with(config).await;
    stores
        .create_all(0..2 * PRODUCTS, |number| product(number % PRODUCTS))
        .await;
    stores.deliver_all().await;
    stores.rebuild().await;
    let table_id = stores.table_id().await;
    // The replicas must hold everything that is requested later. Otherwise the test would be about
    // lost writes.
    for master in cluster.masters().await {
        cluster.ask::<u64>(master, "WAIT 1 10000").await;
    }

    let key = stores.redis().key_name(&product(0), "open");
    let victim = cluster.master_of(&key).await;
    let is_over = AtomicBool::new(false);
    let reads = keep_asking(&stores.index, &table_id, 2, &is_over);
    let writes = async {
        cluster.hang(victim);
        wait_for_a_failing_edit(&stores.index, &product(0)).await;
        stores
            .create_all(2 * PRODUCTS..3 * PRODUCTS, |number| {
                product(number % PRODUCTS)
            })
            .await;
        // The handler retries until the replica has taken over.
        stores.deliver_all().await;
        wait_for_all_products(&stores.index, &table_id).await;
        is_over.store(true, Ordering::Relaxed);
    };
    let (asked, ()) = tokio::join!(reads, writes);
    assert!(asked.answers > 0, "no answers");
    assert!(asked.refusals > 0, "no refusals");
    assert!(!cluster.masters().await.contains(&victim));
    for number in 0..PRODUCTS {
        let total = total(&stores.index, &table_id, &product(number)).await;
        assert_eq!(total.unwrap(), 3);
    }
    stores.finish().await;
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_process_that_only_pings_the_cluster_notices_a_fail_over() {
    let cluster = RedisCluster::start().await;
    let index = cluster.index();
    index.ping().await.unwrap();
    let victim = cluster.masters().await[0];
    cluster.kill(victim).await;
    wait_for("an answer of every master", async || {
        index.ping().await.map_err(|error| error.to_string())
    })
    .await;
    assert!(!cluster.masters().await.contains(&victim));
}

const RATINGS: u64 = 5;

/// Edits that put a comment into the index. Those of the first numbers have one comment of each
/// product and rating, the next ones a second comment of each product.
fn edits_of(number: u64) -> Vec<IndexEdit> {
    let id = data::comment_id(&format!("c{number:04}"));
    let product = product(number % PRODUCTS);
    let placement = data::placement(&product, "en", 1 + number / PRODUCTS % RATINGS);
    // Later than all that fill closed blocks.
    let created_at = data::at_ms(data::CREATED_MS + 1_000_000 + i64::try_from(number).unwrap());
    data::index_comment(&id, &placement, created_at)
}

/// More comments of the first product: they fill closed blocks.
const MORE: u64 = 400;

/// How many of them are added, and how many removed, after each key of a slot that moves.
const ADDED: u64 = 60;
const REMOVED: u64 = 15;

fn more(number: u64) -> (CommentId, RankEntry) {
    let placement = data::placement(&product(0), "en", 2);
    let created_at = data::at_ms(data::CREATED_MS + i64::try_from(number).unwrap());
    let id = data::comment_id(&format!("more-{number:04}"));
    (id, data::entry(&placement, created_at))
}

fn edits_of_more(numbers: Range<u64>) -> Vec<IndexEdit> {
    let mut edits = Vec::new();
    for (id, entry) in numbers.map(more) {
        edits.extend(index_edits(&id, Some(&entry), &[]));
    }
    edits
}

fn removals_of_more(numbers: Range<u64>) -> Vec<IndexEdit> {
    let mut edits = Vec::new();
    for (id, entry) in numbers.map(more) {
        edits.extend(index_edits(&id, None, &[entry]));
    }
    edits
}

/// The products with wrong counts.
async fn miscounted(index: &PageIndex) -> Vec<ProductId> {
    let mut position = index.begin_index_scan().await.unwrap();
    let mut miscounted = Vec::new();
    while let Some(part) = index.next_index_part(&mut position).await.unwrap() {
        if let IndexPart::Miscounted(product) = part {
            miscounted.push(product);
        }
    }
    miscounted
}

/// A slot that moves from one master to another.
struct MovingSlot<'cluster> {
    cluster: &'cluster RedisCluster,
    slot: u16,
    from: usize,
    to: usize,
}

impl MovingSlot<'_> {
    async fn begin(&self) {
        let Self { slot, from, to, .. } = *self;
        let importing = format!("CLUSTER SETSLOT {slot} IMPORTING {}", self.cluster.id(from));
        self.cluster.ask::<()>(to, &importing).await;
        let migrating = format!("CLUSTER SETSLOT {slot} MIGRATING {}", self.cluster.id(to));
        self.cluster.ask::<()>(from, &migrating).await;
    }

    async fn keys(&self) -> Vec<String> {
        let command = format!("CLUSTER GETKEYSINSLOT {} 1000", self.slot);
        self.cluster.ask(self.from, &command).await
    }

    async fn move_key(&self, key: &str) {
        let port = self.cluster.port_of(self.to);
        let command = format!("MIGRATE 127.0.0.1 {port} {key} 0 10000");
        self.cluster.ask::<()>(self.from, &command).await;
    }

    async fn end(&self) {
        let new_master = self.cluster.id(self.to);
        let command = format!("CLUSTER SETSLOT {} NODE {new_master}", self.slot);
        for node in [self.to, self.from] {
            self.cluster.ask::<()>(node, &command).await;
        }
    }
}

/// Moves the slot, in any order of its keys, while edits are made in it: comments are added behind
/// `numbers`, and removed from its beginning. Returns those that are left at the end.
async fn move_during_edits(
    moving: &MovingSlot<'_>,
    index: &PageIndex,
    key_of_product_0: &str,
    numbers: Range<u64>,
    random: &mut StdRng,
) -> Range<u64> {
    let scan = index.begin_index_scan().await.unwrap();
    assert!(index.is_index_scan_valid(&scan).await.unwrap());
    moving.begin().await;
    // A scan is unreliable now and must fail.
    let error = index.begin_index_scan().await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(!index.is_index_scan_valid(&scan).await.unwrap());
    let mut keys = moving.keys().await;
    keys.shuffle(random);
    assert!(keys.iter().any(|key| key == key_of_product_0));
    let mut refused = 0;
    let mut left = numbers.clone();
    for (moved, key) in keys.iter().enumerate() {
        moving.move_key(key).await;
        if moved + 1 < keys.len() {
            // The keys of the slot are on two masters. An edit counts what it does, or does nothing.
            for edits in [
                edits_of(0),
                edits_of_more(left.end..left.end + ADDED),
                removals_of_more(left.start..left.start + REMOVED),
            ] {
                if let Err(error) = index.apply(&edits).await {
                    assert!(error.is_unavailable(), "{error:?}");
                    refused += 1;
                }
            }
            left = left.start + REMOVED..left.end + ADDED;
        }
    }
    assert!(refused > 0);
    // All keys are on the new master, but the old one still serves the slot. Redirection finds
    // existing keys, several at once.
    let again = [0, PRODUCTS, 1, 2].map(edits_of).concat();
    index.apply(&again).await.unwrap();
    let found = total(index, TABLE_ID, &product(0)).await.unwrap();
    let kept = numbers.end - left.start;
    assert!(found >= RATINGS + kept, "{found} of {kept}");
    moving.end().await;
    // From here on, new keys may also appear.
    for edits in [
        edits_of_more(left.clone()),
        removals_of_more(numbers.start..left.start),
    ] {
        wait_for("the edits of a product with closed blocks", async || {
            let applied = index.apply(&edits).await;
            applied.map_err(|error| error.to_string())
        })
        .await;
    }
    let found = total(index, TABLE_ID, &product(0)).await.unwrap();
    assert_eq!(found, RATINGS + left.end - left.start);
    wait_for("a scan", async || {
        let begun = index.begin_index_scan().await;
        begun.map_err(|error| error.to_string())
    })
    .await;
    // The servers are the same, but the moved keys may not have been scanned.
    assert!(!index.is_index_scan_valid(&scan).await.unwrap());
    left
}

/// It moves back, too: then the server has the keys in another order.
#[tokio::test]
#[ignore = "takes long"]
async fn a_slot_moved_during_edits_and_reads_ends_correct() {
    let cluster = RedisCluster::start().await;
    let config = cluster.config();
    let index = redis_index::connect(&config).unwrap();
    make_ready(&index, now()).await;
    for number in 0..RATINGS * PRODUCTS {
        index.apply(&edits_of(number)).await.unwrap();
    }
    index.apply(&edits_of_more(0..MORE)).await.unwrap();
    let key = config.key_name(&product(0), "open");
    let slot = cluster.slot_of(&key).await;
    let from = cluster.master_of(&key).await;
    let mut masters = cluster.masters().await.into_iter();
    let to = masters.find(|master| *master != from).unwrap();
    let is_over = AtomicBool::new(false);
    let reads = keep_asking(&index, TABLE_ID, RATINGS, &is_over);
    let moves = async {
        let mut random = StdRng::seed_from_u64(13);
        let mut numbers = 0..MORE;
        for (from, to) in [(from, to), (to, from)] {
            let moving = MovingSlot {
                cluster: &cluster,
                slot,
                from,
                to,
            };
            numbers = move_during_edits(&moving, &index, &key, numbers, &mut random).await;
        }
        for number in RATINGS * PRODUCTS..(RATINGS + 1) * PRODUCTS {
            wait_for("an edit", async || {
                let applied = index.apply(&edits_of(number)).await;
                applied.map_err(|error| error.to_string())
            })
            .await;
        }
        is_over.store(true, Ordering::Relaxed);
    };
    let (asked, ()) = tokio::join!(reads, moves);
    assert!(asked.answers > 0);
    assert_eq!(cluster.master_of(&key).await, from);
    assert_eq!(miscounted(&index).await, []);
    for number in 0..PRODUCTS {
        let key = config.key_name(&product(number), "open");
        let mut members: Vec<String> = cluster
            .ask(cluster.master_of(&key).await, &format!("ZRANGE {key} 0 -1"))
            .await;
        members.retain(|member| member.starts_with('c') && member.ends_with(",en,1"));
        let ids = members.iter().filter_map(|member| member.split(',').next());
        let expected = [0, RATINGS].map(|round| format!("c{:04}", number + round * PRODUCTS));
        assert_eq!(ids.sorted().collect_vec(), expected);
    }
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_process_that_starts_without_its_cluster_finds_it_later() {
    let cluster = RedisCluster::start().await;
    for node in 0..cluster.len() {
        cluster.hang(node);
    }
    let index = redis_index::connect(&RedisIndexConfig {
        timeout: Duration::from_millis(200),
        ..cluster.config()
    })
    .unwrap();
    let error = index.ping().await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    for node in 0..cluster.len() {
        cluster.resume(node);
    }
    wait_for("an answer", async || {
        index.ping().await.map_err(|error| error.to_string())
    })
    .await;
}
