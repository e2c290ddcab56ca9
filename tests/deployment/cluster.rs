//! The page index in a Redis Cluster gives the same answers, and never a wrong one while masters
//! fail and slots move.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use itertools::Itertools;
use model::{
    Filter, ProductId, RatingSet,
    plan::{IndexEdit, index_edits},
};
use page_index::{PageIndex, RankedQuery};
use process::{Remedy, StoreError, now};
use rand::{SeedableRng, rngs::StdRng};
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

/// Enough products that every master serves some, whichever partitions they fall into.
const PRODUCTS: u64 = 24;

fn product(number: u64) -> ProductId {
    data::product(&format!("product {number}"))
}

async fn total(index: &PageIndex, table_id: &str, product: &ProductId) -> Result<u64, StoreError> {
    let query = RankedQuery::new(product, &Filter::ANY);
    let answers = index.ranked(&[query], table_id, now()).await?;
    Ok(answers[0]
        .as_ref()
        .unwrap_or_else(|not_ready| panic!("{product:?}: {not_ready}"))
        .all)
}

#[tokio::test]
async fn the_answers_of_a_cluster_equal_a_brute_force_sort() {
    let cluster = RedisCluster::start().await;
    let index = cluster.index();
    let mut random = StdRng::seed_from_u64(11);
    let products = products(80, &mut random);
    fill(&index, &products, &mut random).await;
    for product in &products {
        check_product(&index, product, &mut random).await;
        check_positions(
            &index,
            product,
            &Filter::new(None, RatingSet::parse("1.2.5").ok()),
        )
        .await;
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
async fn a_rebuild_refuses_masters_that_may_evict() {
    let cluster = RedisCluster::start().await;
    let (first, last) = (0, 2);
    for evicting in [first, last] {
        cluster
            .ask::<()>(evicting, "CONFIG SET maxmemory-policy allkeys-lru")
            .await;
        let error = cluster.index().begin_rebuild().await.unwrap_err();
        let port = cluster.port_of(evicting).to_string();
        let names = |detail: &String| detail.contains("allkeys-lru") && detail.contains(&port);
        assert!(
            matches!(&error, StoreError::Call { remedy: Remedy::CallOperator, detail, .. } if names(detail)),
            "{error:?}"
        );
        cluster
            .ask::<()>(evicting, "CONFIG SET maxmemory-policy noeviction")
            .await;
    }
    cluster.index().begin_rebuild().await.unwrap();
}

fn placement(of_product: u64, language: &str) -> model::Placement {
    data::placement(&product(of_product), language, 3)
}

/// Requests all products while the flag is set. Each answer is correct, or says that the index is
/// unavailable.
async fn keep_asking(
    index: &PageIndex,
    table_id: &str,
    totals_min: &[u64],
    go_on: &AtomicBool,
) -> (u64, u64) {
    let (mut answers, mut refusals) = (0, 0);
    while go_on.load(Ordering::Relaxed) {
        for (number, total_min) in (0..).zip(totals_min) {
            match total(index, table_id, &product(number)).await {
                Ok(found) => {
                    assert!(
                        found >= *total_min,
                        "product {number}: {found} of {total_min}"
                    );
                    answers += 1;
                }
                Err(error) => {
                    assert!(error.is_unavailable(), "{error:?}");
                    refusals += 1;
                }
            }
        }
        tokio::task::yield_now().await;
    }
    (answers, refusals)
}

#[tokio::test]
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
    let totals = vec![2; usize::try_from(PRODUCTS).unwrap()];
    // The replicas must hold everything that is requested later. Otherwise the test would be about
    // lost writes.
    for master in cluster.masters().await {
        cluster.ask::<u64>(master, "WAIT 1 10000").await;
    }

    let victim = cluster
        .master_of(&stores.redis().key_name(&data::rated(&product(0), 1)))
        .await;
    let go_on = AtomicBool::new(true);
    let reads = keep_asking(&stores.index, &table_id, &totals, &go_on);
    let writes = async {
        cluster.hang(victim);
        wait_for("an edit that fails", async || {
            // An edit about a comment that never existed, in the product whose master is lost.
            let edits = index_edits(&data::comment_id("nobody"), None, &[placement(0, "en")]);
            match stores.index.apply(&edits).await {
                Ok(()) => Err("all edits succeed"),
                Err(error) if error.is_unavailable() => Ok(()),
                Err(error) => panic!("{error:?}"),
            }
        })
        .await;
        stores
            .create_all(2 * PRODUCTS..3 * PRODUCTS, |number| {
                product(number % PRODUCTS)
            })
            .await;
        // The handler retries until the replica has taken over.
        stores.deliver_all().await;
        wait_for("all products", async || {
            for number in 0..PRODUCTS {
                total(&stores.index, &table_id, &product(number))
                    .await
                    .map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(())
        })
        .await;
        go_on.store(false, Ordering::Relaxed);
    };
    let ((answers, refusals), ()) = tokio::join!(reads, writes);
    assert!(
        answers > 0 && refusals > 0,
        "{answers} answers, {refusals} refusals"
    );
    assert!(!cluster.masters().await.contains(&victim));
    for number in 0..PRODUCTS {
        assert_eq!(
            total(&stores.index, &table_id, &product(number))
                .await
                .unwrap(),
            3
        );
    }
    stores.finish().await;
}

#[tokio::test]
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

#[tokio::test]
async fn a_slot_moved_during_edits_and_reads_ends_correct() {
    let cluster = RedisCluster::start().await;
    let config = cluster.config();
    let index = redis_index::connect(&config).unwrap();
    make_ready(&index, now()).await;
    // Every product has all ratings: while a slot moves, a set that does not exist may be in either
    // place.
    const RATINGS: u64 = 5;
    let edit = |number: u64| -> Vec<IndexEdit> {
        let id = data::comment_id(&format!("c{number:04}"));
        let placement = data::placement(
            &product(number % PRODUCTS),
            "en",
            1 + number / PRODUCTS % RATINGS,
        );
        data::index_comment(&id, &placement, now())
    };
    for number in 0..RATINGS * PRODUCTS {
        index.apply(&edit(number)).await.unwrap();
    }
    let key = config.key_name(&data::rated(&product(0), 1));
    let (slot, from) = (cluster.slot_of(&key).await, cluster.master_of(&key).await);
    let to = cluster
        .masters()
        .await
        .into_iter()
        .find(|master| *master != from)
        .unwrap();

    let scan = index.begin_index_scan().await.unwrap();
    assert!(index.is_index_scan_valid(&scan).await.unwrap());
    let (go_on, totals) = (
        AtomicBool::new(true),
        vec![RATINGS; usize::try_from(PRODUCTS).unwrap()],
    );
    let reads = keep_asking(&index, TABLE_ID, &totals, &go_on);
    let moves = async {
        cluster
            .ask::<()>(
                to,
                &format!("CLUSTER SETSLOT {slot} IMPORTING {}", cluster.id(from)),
            )
            .await;
        cluster
            .ask::<()>(
                from,
                &format!("CLUSTER SETSLOT {slot} MIGRATING {}", cluster.id(to)),
            )
            .await;
        // A scan is unreliable now and must fail.
        let error = index.begin_index_scan().await.unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        assert!(!index.is_index_scan_valid(&scan).await.unwrap());
        let keys: Vec<String> = cluster
            .ask(from, &format!("CLUSTER GETKEYSINSLOT {slot} 1000"))
            .await;
        assert!(keys.contains(&key));
        let mut refused = 0;
        for (moved, key) in keys.iter().enumerate() {
            cluster
                .ask::<()>(
                    from,
                    &format!("MIGRATE 127.0.0.1 {} {key} 0 10000", cluster.port_of(to)),
                )
                .await;
            if moved + 1 < keys.len() {
                // The keys of the slot are in two places. An edit runs completely in one place or
                // not at all.
                if let Err(error) = index.apply(&edit(0)).await {
                    assert!(error.is_unavailable(), "{error:?}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0);
        // All keys are on the new master, but the old one still serves the slot. Redirection finds
        // existing keys, several at once.
        let again = [edit(0), edit(PRODUCTS), edit(1), edit(2)].concat();
        index.apply(&again).await.unwrap();
        assert_eq!(total(&index, TABLE_ID, &product(0)).await.unwrap(), RATINGS);
        for node in [to, from] {
            cluster
                .ask::<()>(
                    node,
                    &format!("CLUSTER SETSLOT {slot} NODE {}", cluster.id(to)),
                )
                .await;
        }
        // From here on, new keys may also appear.
        for number in RATINGS * PRODUCTS..(RATINGS + 1) * PRODUCTS {
            wait_for("an edit", async || {
                index
                    .apply(&edit(number))
                    .await
                    .map_err(|error| error.to_string())
            })
            .await;
        }
        go_on.store(false, Ordering::Relaxed);
    };
    let ((answers, _), ()) = tokio::join!(reads, moves);
    assert!(answers > 0);
    assert_eq!(cluster.master_of(&key).await, to);
    for number in 0..PRODUCTS {
        let key = config.key_name(&data::rated(&product(number), 1));
        let members: Vec<String> = cluster
            .ask(cluster.master_of(&key).await, &format!("ZRANGE {key} 0 -1"))
            .await;
        let expected = [0, RATINGS].map(|round| format!("c{:04}", number + round * PRODUCTS));
        assert_eq!(members.into_iter().sorted().collect_vec(), expected);
    }
    wait_for("a scan", async || {
        index
            .begin_index_scan()
            .await
            .map_err(|error| error.to_string())
    })
    .await;
    // The servers are the same, but the moved keys may not have been scanned.
    assert!(!index.is_index_scan_valid(&scan).await.unwrap());
}

#[tokio::test]
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
