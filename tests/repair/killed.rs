//! Runs of `recent` and `quarantine` are killed between any two of their writes: duplicates, rank entries, watermarks,
//! the quarantine. The next run repairs what they left. Server: the killed process needs an index outside of it.

use functions::Quarantine;
use process::now;
use serde_json::Value;

use super::{
    process::{complete, kill_in_turn},
    product, quarantine_batch,
};
use crate::fixture::{
    gate::{self, Gate},
    s3::{BUCKET, S3},
    stores::Stores,
};

/// How often a run is killed at each kind of write.
const ROUNDS: u64 = 3;

/// Comments created before each run.
const COMMENTS: u64 = 6;

/// Creates the comments of a run.
async fn create(stores: &Stores, run: u64) {
    stores.create_all(run * COMMENTS..(run + 1) * COMMENTS, product).await;
}

#[tokio::test]
async fn the_next_run_completes_a_killed_run_of_recent() {
    let stores = Stores::start_ready_with_redis().await;
    stores.table.advance_watermark(now()).await.unwrap();
    let arguments = ["recent", "--apply", "--settle", "0s"];
    let duplicates = Gate::start(&stores.engine_url(), gate::TRANSACTIONS).await;
    let watermark = Gate::start(&duplicates.url, gate::WATERMARKS).await;
    let ranks = Gate::start(&stores.redis().url, gate::EDITS).await;
    let scripts = Gate::start(&ranks.url, gate::SCRIPTS).await;
    let variables = [("PAGEMARK_DYNAMODB_URL", &*watermark.url), ("PAGEMARK_REDIS_URL", &*scripts.url)];
    let gates = [(&duplicates, 0..3), (&ranks, 0..3), (&watermark, 1..3), (&scripts, 0..9)];
    let prepare = async |run| create(&stores, run).await;
    let kills = kill_in_turn(&stores, &variables, &gates, (ROUNDS, 111), &arguments, prepare).await;
    assert!(kills.iter().all(|kills| *kills > 0), "{kills:?}");
    complete(&stores, &[], &arguments).await;
    stores.finish().await;
}

#[tokio::test]
async fn the_next_run_completes_a_killed_run_of_quarantine() {
    let stores = Stores::start_ready_with_redis().await;
    let s3 = S3::start().await;
    let place = format!("s3://{BUCKET}/given-up");
    let quarantine = Quarantine::connect(&place.parse().unwrap(), Some(&s3.url)).await;
    let arguments = ["quarantine", "--apply"];
    let duplicates = Gate::start(&stores.engine_url(), gate::TRANSACTIONS).await;
    let ranks = Gate::start(&stores.redis().url, gate::EDITS).await;
    let removals = Gate::start(&s3.url, gate::REMOVALS).await;
    let variables = [
        ("PAGEMARK_DYNAMODB_URL", &*duplicates.url),
        ("PAGEMARK_REDIS_URL", &*ranks.url),
        ("PAGEMARK_QUARANTINE", &*place),
        ("PAGEMARK_S3_URL", &*removals.url),
    ];
    let gates = [&duplicates, &ranks, &removals].map(|gate| (gate, 0..2));
    let mut given_up = 0;
    let kills = kill_in_turn(&stores, &variables, &gates, (ROUNDS, 112), &arguments, async |run| {
        create(&stores, run).await;
        let records: Vec<Value> = stores.lambda_records().await.split_off(given_up);
        given_up += records.len();
        for batch in records.chunks(2) {
            quarantine_batch(&quarantine, batch).await;
        }
    });
    let kills = kills.await;
    assert!(kills.iter().all(|kills| *kills > 0), "{kills:?}");
    complete(&stores, &variables, &arguments).await;
    assert_eq!(quarantine.list(None, 1_000).await.unwrap(), Vec::<String>::new());
    stores.finish().await;
}
