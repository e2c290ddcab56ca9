//! Server: the page index after a server has evicted keys, because an operator changed its policy.

use process::now;
use repair_job::exit;

use super::{expect, is_ready, job, product};
use crate::fixture::{redis_server::OwnRedis, stores::Stores};

const _: crate::Engines = crate::Engines::Both;

/// Number of comments, and of keys of another program.
const COMMENTS: u64 = 60;
const OTHER_KEYS: u64 = 200;

/// The memory is reduced in steps until keys are evicted. Together they are less than the other
/// program's keys.
const STEPS_MAX: u64 = 8;
const STEP_BYTES: u64 = 20_000;

async fn start() -> (OwnRedis, Stores) {
    let (redis, stores) = Stores::start_ready_on_own_redis().await;
    stores.create_all(0..COMMENTS, product).await;
    stores.deliver_all().await;
    expect(0, job(&stores, true).recent().await);
    (redis, stores)
}

/// Makes the server evict some of its keys under a policy, and keeps the policy.
async fn evict_some_keys(redis: &OwnRedis, policy: &str, expiry_s: Option<u32>) {
    let text = "x".repeat(1_000);
    let expiry = match expiry_s {
        Some(seconds) => format!(" EX {seconds}"),
        None => String::new(),
    };
    for number in 0..OTHER_KEYS {
        redis
            .ask::<()>(&format!("SET of-another-program-{number} {text}{expiry}"))
            .await;
    }
    redis
        .ask::<()>(&format!("CONFIG SET maxmemory-policy {policy}"))
        .await;
    let before = info(redis, "evicted_keys").await;
    let used = info(redis, "used_memory").await;
    // What connections use comes and goes.
    for step in 1..=STEPS_MAX {
        let limit = used - step * STEP_BYTES;
        redis
            .ask::<()>(&format!("CONFIG SET maxmemory {limit}"))
            .await;
        redis.ask::<()>("SET one-more text").await;
        if info(redis, "evicted_keys").await > before {
            break;
        }
    }
    redis.ask::<()>("CONFIG SET maxmemory 0").await;
    let evicted = info(redis, "evicted_keys").await - before;
    assert!((1..OTHER_KEYS).contains(&evicted), "{evicted} were evicted");
}

async fn info(redis: &OwnRedis, field: &str) -> u64 {
    let info: redis::InfoDict = redis.ask("INFO").await;
    info.get(field).expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_with_evicted_keys_is_not_believed_until_it_is_rebuilt() {
    for is_right_again in [false, true] {
        let (redis, stores) = start().await;
        evict_some_keys(&redis, "allkeys-lru", None).await;
        if is_right_again {
            redis
                .ask::<()>("CONFIG SET maxmemory-policy noeviction")
                .await;
        }
        let report = expect(exit::SKIPPED, job(&stores, true).recent().await);
        let says = "Redis has evicted keys";
        assert!(
            report.skipped.iter().any(|what| what.contains(says)),
            "{report}"
        );
        assert!(!is_ready(&stores, now()).await);
        if !is_right_again {
            let refused = job(&stores, true).rebuild_missing(1).await.unwrap();
            let failure = refused.failure.unwrap();
            assert!(failure.contains("allkeys-lru"), "{failure}");
            redis
                .ask::<()>("CONFIG SET maxmemory-policy noeviction")
                .await;
        }
        let rebuilt = job(&stores, true).rebuild_missing(1).await.unwrap();
        assert_eq!(rebuilt.failure, None, "{rebuilt}");
        expect(0, job(&stores, true).recent().await);
        assert!(is_ready(&stores, now()).await);
        stores.assert_index().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evicted_keys_of_other_programs_do_not_matter() {
    let (redis, stores) = start().await;
    redis
        .ask::<()>("CONFIG SET maxmemory-policy volatile-lru")
        .await;
    expect(0, job(&stores, true).recent().await);
    evict_some_keys(&redis, "volatile-lru", Some(1_000)).await;
    expect(0, job(&stores, true).recent().await);
    assert!(is_ready(&stores, now()).await);
    stores.assert_index().await;
}
