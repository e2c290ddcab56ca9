//! No reader draws conclusions from a partition of the page index that is not ready. Only the
//! rebuild that filled a partition makes it ready.

use std::{ops::Range, time::Duration};

use model::{Cd, Filter, ProductId, Timestamp, plan::IndexEdit};
use page_index::{IndexAnswer, NotReady, PageIndex, PositionQuery, Ranked, RankedQuery};
use process::now;
use redis_index::RedisIndexConfig;

use crate::fixture::{
    data::{self, PRODUCT},
    gate::{self, Gate},
    page_indexes::for_each_index,
    redis_server::{self, OwnRedis, TABLE_ID, make_ready},
    wait_for,
};

const _: crate::Engines = crate::Engines::Both;

async fn ask(index: &PageIndex, table_id: &str, at: Timestamp) -> IndexAnswer<Ranked> {
    let product = data::product(PRODUCT);
    let answers = index
        .ranked(&[RankedQuery::new(&product, &Filter::ANY)], table_id, at)
        .await
        .unwrap();
    let [answer] = answers.try_into().unwrap();
    // All other questions get the same judgement.
    let judgement = answer.clone().map(drop);
    let partition = index.partition_of(&product);
    let products = index.products(partition, table_id, at).await.unwrap();
    assert_eq!(products.map(drop), judgement);
    let cd = Cd {
        created_at: at,
        id: data::comment_id("c1"),
    };
    let query = PositionQuery {
        product: &product,
        filter: &Filter::ANY,
        cd: &cd,
        settled_at: None,
    };
    let position = index.position(&query, table_id, at).await.unwrap();
    assert_eq!(position.map(drop), judgement);
    answer
}

/// No question about any partition is answered, for this reason.
async fn assert_refused(index: &PageIndex, table_id: &str, at: Timestamp, expected: NotReady) {
    assert_eq!(ask(index, table_id, at).await, Err(expected.clone()));
    let readiness = index.readiness(table_id, at).await.unwrap();
    for (_, answer) in &readiness {
        assert_eq!(answer.as_ref(), Err(&expected), "{readiness:?}");
    }
}

fn nothing(reached: Timestamp) -> Ranked {
    Ranked {
        comments: Vec::new(),
        total: 0,
        settled: 0,
        all: 0,
        reached,
        stats: None,
    }
}

#[tokio::test]
async fn only_a_rebuilt_index_of_this_table_with_a_young_confirmation_is_used() {
    for_each_index(async |index| {
        assert_eq!(ask(&index, TABLE_ID, now()).await, Err(NotReady::NoMarker));
        let rebuild = index.begin_rebuild().await.unwrap();
        assert_eq!(ask(&index, TABLE_ID, now()).await, Err(NotReady::NoMarker));
        let watermark = now();
        index
            .finish_rebuild(&rebuild, TABLE_ID, watermark)
            .await
            .unwrap();
        assert_eq!(ask(&index, TABLE_ID, now()).await, Ok(nothing(watermark)));
        assert_refused(&index, "the-table-restored", now(), NotReady::OtherTable).await;
        // The confirmation of a rebuild has the time of its watermark.
        let max_age_ms = 3 * 3600 * 1000;
        let in_time = watermark.plus_ms(max_age_ms);
        assert!(ask(&index, TABLE_ID, in_time).await.is_ok());
        let too_late = watermark.plus_ms(max_age_ms + 1);
        let stale = NotReady::Stale {
            confirmed: Some(watermark),
        };
        assert_refused(&index, TABLE_ID, too_late, stale).await;
        // The start of the next rebuild removes the markers, with everything else.
        index.begin_rebuild().await.unwrap();
        assert_eq!(ask(&index, TABLE_ID, now()).await, Err(NotReady::NoMarker));
    })
    .await;
}

fn edits_of(comments: Range<u64>, product: impl Fn(u64) -> ProductId) -> Vec<IndexEdit> {
    let mut edits = Vec::new();
    for number in comments {
        let placement = data::placement(&product(number), "en", 1 + number % 5);
        let id = data::comment_id(&format!("c{number}"));
        edits.extend(data::index_comment(&id, &placement, now()));
    }
    edits
}

fn one_product(_number: u64) -> ProductId {
    data::product(PRODUCT)
}

async fn is_marked(index: &PageIndex) -> bool {
    let readiness = index.readiness(TABLE_ID, now()).await.unwrap();
    readiness.iter().any(|(_, answer)| answer.is_ok())
}

#[tokio::test]
async fn an_index_restored_from_a_snapshot_of_its_rebuild_is_not_marked_ready() {
    let redis = OwnRedis::start().await;
    let index = redis.index();
    let rebuild = index.begin_rebuild().await.unwrap();
    index.apply(&edits_of(0..10, one_product)).await.unwrap();
    redis.ask::<()>("SAVE").await;
    index.apply(&edits_of(10..20, one_product)).await.unwrap();
    redis.restore(&index).await;
    // The restored server has the token and half of the members, and accepts the remaining edits.
    index.apply(&edits_of(20..30, one_product)).await.unwrap();
    let sizes = index
        .sizes(&Filter::ANY.base_sets(&one_product(0)))
        .await
        .unwrap();
    assert_eq!(sizes.iter().sum::<u64>(), 20);
    let error = index
        .finish_rebuild(&rebuild, TABLE_ID, now())
        .await
        .unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().contains("started again"), "{error}");
    assert!(!is_marked(&index).await);
    // The next rebuild starts anew.
    let watermark = now();
    make_ready(&index, watermark).await;
    assert_eq!(ask(&index, TABLE_ID, now()).await, Ok(nothing(watermark)));
}

/// Its identity would not show it: run and history stay until it has the data of the new master.
#[tokio::test]
async fn a_master_that_became_a_replica_does_not_say_who_it_is() {
    let redis = OwnRedis::start().await;
    let index = redis.index();
    index.server_identity().await.unwrap();
    // A master that does not answer.
    redis.ask::<()>("REPLICAOF 127.0.0.1 1").await;
    let error = index.server_identity().await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    redis.ask::<()>("REPLICAOF NO ONE").await;
    index.server_identity().await.unwrap();
}

#[tokio::test]
async fn a_server_that_was_a_replica_during_a_rebuild_is_not_marked_ready() {
    let redis = OwnRedis::start().await;
    let other = OwnRedis::start().await;
    let index = redis.index();
    let rebuild = index.begin_rebuild().await.unwrap();
    index.apply(&edits_of(0..10, one_product)).await.unwrap();
    // The other server took over with the data that it had by then. This server follows it, and
    // then takes over again.
    for key in redis.ask::<Vec<String>>("KEYS *:rebuild").await {
        let token: String = redis.ask(&format!("GET {key}")).await;
        other.ask::<()>(&format!("SET {key} {token}")).await;
    }
    redis.follow(&other).await;
    redis.ask::<()>("REPLICAOF NO ONE").await;
    wait_for("the server", async || {
        index.ping().await.map_err(|error| error.to_string())
    })
    .await;
    let error = index
        .finish_rebuild(&rebuild, TABLE_ID, now())
        .await
        .unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(!is_marked(&index).await);
}

#[tokio::test]
async fn of_two_rebuilds_only_the_later_may_mark_the_index_ready() {
    for_each_index(async |index| {
        let first = index.begin_rebuild().await.unwrap();
        let second = index.begin_rebuild().await.unwrap();
        let error = index
            .finish_rebuild(&first, TABLE_ID, now())
            .await
            .unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        assert_eq!(ask(&index, TABLE_ID, now()).await, Err(NotReady::NoMarker));
        let watermark = now();
        index
            .finish_rebuild(&second, TABLE_ID, watermark)
            .await
            .unwrap();
        assert!(ask(&index, TABLE_ID, now()).await.is_ok());
        // A repeated call, as after a lost answer, still succeeds. For any other call the token is
        // used up.
        index
            .finish_rebuild(&second, TABLE_ID, watermark)
            .await
            .unwrap();
        assert!(
            index
                .finish_rebuild(&second, TABLE_ID, watermark.plus_ms(1))
                .await
                .is_err()
        );
        assert!(
            index
                .finish_rebuild(&first, "another-table", watermark)
                .await
                .is_err()
        );
    })
    .await;
}

#[tokio::test]
async fn rebuilds_that_overlap_never_leave_a_damaged_index_that_is_ready() {
    // Enough products that emptying the index takes several steps. The other rebuild runs after
    // each of these steps.
    const COMMENTS: u64 = 4_000;
    let redis = OwnRedis::start().await;
    let config = RedisIndexConfig {
        timeout: Duration::from_secs(10),
        ..redis_server::config_at(&redis.server.url())
    };
    let index = redis_index::connect(&config).unwrap();
    let gate = Gate::start(&redis.server.url(), gate::SCANS).await;
    let slow = redis_index::connect(&RedisIndexConfig {
        url: gate.url.clone(),
        ..config
    })
    .unwrap();
    let edits = edits_of(0..COMMENTS, |number| {
        data::product(&format!("product-{number}"))
    });
    let mut held = 0;
    for steps in 0.. {
        index.apply(&edits).await.unwrap();
        gate.hold_after(steps);
        let slow_index = slow.clone();
        let slow_rebuild = tokio::spawn(async move { slow_index.begin_rebuild().await.unwrap() });
        let is_held = wait_for("the slow rebuild to be held, or through", async || {
            let is_held = gate.is_holding();
            if is_held || slow_rebuild.is_finished() {
                Ok(is_held)
            } else {
                Err("neither")
            }
        });
        if !is_held.await {
            break;
        }
        held += 1;
        let rebuild = index.begin_rebuild().await.unwrap();
        index.apply(&edits).await.unwrap();
        index
            .finish_rebuild(&rebuild, TABLE_ID, now())
            .await
            .unwrap();
        gate.open();
        slow_rebuild.await.unwrap();
        // After any outcome of the two rebuilds, every ready partition is complete.
        let mut ready = Vec::new();
        for (partition, answer) in index.readiness(TABLE_ID, now()).await.unwrap() {
            if answer.is_ok() {
                ready.push(partition);
            }
        }
        for edit in &edits {
            if ready.contains(&index.partition_of(&edit.product)) {
                let sizes = index.sizes(&edit.add[..1]).await.unwrap();
                let product = edit.product.as_str();
                assert_eq!(sizes, [1], "held after {steps} steps: {product} is missing");
            }
        }
    }
    assert!(held > 3, "the slow rebuild was held {held} times only");
}
