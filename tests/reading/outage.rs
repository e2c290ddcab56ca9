//! Redis is a rebuildable index. While it is down, page 1 and cursors answer without totals, and
//! page 2 answers "later". After a loss of data, no reader believes it until it is rebuilt, and
//! then it is exactly right.

use std::path::Path;

use local_stack::settings::StackSettings;
use redis_index::RedisIndexConfig;
use serde_json::{Value, json};

use crate::fixture::{
    data::{self, PRODUCT},
    folder_in_memory,
    http::{self, Answer, Http, SLACK, encoded, good_comment, ids, product_path},
    redis_server::OwnRedis,
    stack::{Running, settings_at},
    wait_for,
};

const _: crate::Engines = crate::Engines::BothExcept(&[crate::Excused {
    test: "a_restarted_stack_has_all_its_data_whatever_redis_holds",
    why: "the restarted stack has a data folder, and so the embedded engine",
}]);

fn listing(query: &str) -> String {
    http::listing(&format!("page_size=5&{query}"))
}

async fn start_with_comments(settings: StackSettings) -> Running {
    let mut running = Running::start_with(settings).await;
    for number in 0..30 {
        let comment = good_comment("fr", 1 + number % 5, &format!("Body {number}"));
        running.http.post(PRODUCT, &comment).await.expect(201);
    }
    running.settle().await;
    running
}

/// Gets an answer. It must come in time in any state of Redis.
async fn timed(http: &Http, target: &str) -> Answer {
    // The service waits for the index twice the time of a call: connecting and asking.
    let within = RedisIndexConfig::new("").timeout * 2 + SLACK;
    let answer = tokio::time::timeout(within, http.get(target)).await;
    answer.unwrap_or_else(|_| panic!("{target}: no answer in {within:?}"))
}

async fn assert_degraded(http: &Http, cursor: &str, first: &Value) {
    let page = timed(http, &listing("page=1")).await.expect(200);
    assert_eq!(page["total"], Value::Null);
    assert_eq!(page["total_pages"], Value::Null);
    assert_eq!(page["index"], "unavailable");
    assert_eq!(ids(&page), ids(first));
    let by_cursor = listing(&format!("cursor={}", encoded(cursor)));
    let next = timed(http, &by_cursor).await.expect(200);
    assert_eq!(next["total"], Value::Null);
    assert_eq!(next["index"], "unavailable");
    assert_eq!(ids(&next).len(), 5);
    for query in ["page=2", "page=6", "page=7", "page=1000000"] {
        timed(http, &listing(query)).await.assert_later();
    }
    let id = &ids(first)[0];
    for target in [
        format!("/api/v1/comments/{id}/position"),
        format!("{}/stats", product_path(PRODUCT)),
        format!("/api/v1/stats?product={}", encoded(PRODUCT)),
        // The API cannot distinguish an empty page from a page that has not been fanned out yet.
        format!("{}/comments", product_path("nobody/commented/this")),
    ] {
        timed(http, &target).await.assert_later();
    }
    let comment = format!("/api/v1/comments/{id}");
    timed(http, &comment).await.expect(200);
    timed(http, "/livez").await.expect(200);
    // Pages are still served, so the service stays in its load balancer.
    timed(http, "/readyz").await.expect(200);
}

#[tokio::test]
async fn without_redis_page_1_and_cursors_work_and_writes_are_indexed_later() {
    let redis = OwnRedis::start().await;
    let with_redis = settings_at(&redis);
    let mut running = start_with_comments(with_redis).await;
    let http = running.http.clone();
    let first = http.get(&listing("page=1")).await.expect(200);
    assert_eq!(first["total"], 30);
    assert_eq!(first["index"], "ready");
    let cursor = first["cursor"]["next"].as_str().unwrap();

    // A server that hangs: its connections stay open, but it does not answer.
    redis.server.signal("STOP");
    assert_degraded(&http, cursor, &first).await;
    redis.server.signal("CONT");
    http.wait_for_200(&listing("page=2")).await;

    // A server that was killed.
    redis.server.kill().await;
    assert_degraded(&http, cursor, &first).await;
    let patched = &ids(&first)[1];
    http.patch(patched, &json!({ "rating": 5, "language": "en" }))
        .await
        .expect(200);
    http.delete(&ids(&first)[2]).await.expect(204);
    let new_id = http
        .posted(PRODUCT, &good_comment("ko", 2, "During the outage"))
        .await;
    wait_for("the new comment on page 1", async || {
        let page = http.get(&listing("page=1")).await.expect(200);
        if ids(&page).contains(&new_id) {
            Ok(())
        } else {
            Err(page)
        }
    })
    .await;

    redis.server.restart().await;
    let second = http.wait_for_200(&listing("page=2")).await.json();
    assert_eq!(second["index"], "ready");
    running.assert_invariants().await;
    let page = http.get(&listing("page=1")).await.expect(200);
    assert_eq!(page["total"], 30, "one more, one less");
    running.finish().await;
}

/// Settings of a stack that keeps its data in this folder.
fn settings_keeping(folder: &Path, redis: &OwnRedis) -> StackSettings {
    StackSettings {
        data_dir: Some(folder.to_owned()),
        ..settings_at(redis)
    }
}

#[tokio::test]
async fn a_restarted_stack_has_all_its_data_whatever_redis_holds() {
    let redis = OwnRedis::start().await;
    let folder = folder_in_memory();
    let running = start_with_comments(settings_keeping(folder.path(), &redis)).await;
    let config = running.stack.redis_config().unwrap().clone();
    running.finish().await;

    // The index was correct once. Since then it has lost a member and got one that never existed.
    let open = config.key_name(&data::product(PRODUCT), "open");
    redis.ask::<()>(&format!("ZPOPMAX {open}")).await;
    redis.ask::<()>(&format!("ZADD {open} 1 nobody,en,1")).await;

    let mut running = Running::start_with(settings_keeping(folder.path(), &redis)).await;
    running.assert_invariants().await;
    let page = running.http.get(&listing("page=1")).await.expect(200);
    assert_eq!(page["total"], 30);
    running.finish().await;
}
