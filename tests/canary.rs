//! The canary: it reports how soon readers see a comment, it reports that they do not, and what it posts is seen by it
//! alone.

use std::time::{Duration, Instant};

use api::{ApiSettings, UnknownProducts};
use hyper::Method;
use model::ProductId;
use page_indexer::PageIndexer;
use serde_json::{Value, json};
use stream_writer::StreamWriter;

use crate::fixture::{
    api::{ApiProcess, Served, api_variables},
    function::{Function, canary_variables},
    http::{Http, encoded, good_comment, page_path, product_path},
    invariants::Contents,
    mappings::{Mappings, handler},
    runtime_api::Outcome,
    stack::Running,
    stores::{INVOCATION, Stores},
    wait_for,
};

/// Time of an invocation without the page indexer: 15 s of it are for the deletion.
const NEAR: Duration = Duration::from_secs(18);

/// Starts the mapping of the stream writer.
pub(crate) fn start_writer(mappings: &mut Mappings, stores: &Stores) {
    let writer = StreamWriter::new(stores.table.clone(), stores.quarantine(), 4);
    let handle = handler(writer, async |writer, event, deadline| writer.handle(&event, deadline).await.response);
    mappings.start(stores, stream_writer::FUNCTION, infra::mapping_settings("StreamWriter").unwrap(), handle);
}

/// Starts the mapping of the page indexer.
pub(crate) fn start_indexer(mappings: &mut Mappings, stores: &Stores) {
    let indexer = PageIndexer::new(stores.index.clone(), stores.quarantine());
    let handle = handler(indexer, async |indexer, event, deadline| indexer.handle(&event, deadline).await.response);
    mappings.start(stores, page_indexer::FUNCTION, infra::mapping_settings("PageIndexer").unwrap(), handle);
}

/// The ids of the canary's comments in the table, whether readers see them or not.
async fn left(http: &Http) -> Vec<Value> {
    let target = format!("/api/v1/authors/{}/comments", encoded(ProductId::CANARY));
    let page = http.write(Method::GET, &target, &[], b"").await.expect(200);
    page["comments"].as_array().unwrap().iter().map(|comment| comment["id"].clone()).collect()
}

/// Waits until the canary's comment is in the table.
async fn wait_for_comment(http: &Http) {
    let look = async || if left(http).await.is_empty() { Err(()) } else { Ok(()) };
    wait_for("the canary's comment", look).await;
}

#[tokio::test]
async fn the_canary_measures_until_every_filter_shows_its_comment_and_leaves_nothing() {
    let stores = Stores::start_ready_with_redis().await;
    let api = ApiProcess::start(api_variables(&stores)).await;
    let canary = Function::start("canary", canary_variables(api.http.base())).await;
    let mut mappings = Mappings::default();
    start_writer(&mut mappings, &stores);
    let run = canary.api.invoke("{}", INVOCATION);
    wait_for_comment(&api.http).await;
    // Its duplicates are there, and its ranks are not: no filter counts it.
    let held = Instant::now();
    wait_for("the duplicates", async || match Contents::read(&stores.table).await.duplicates {
        31 => Ok(()),
        other => Err(other),
    })
    .await;
    let held = held.elapsed();
    start_indexer(&mut mappings, &stores);
    assert!(matches!(run.await.unwrap().outcome, Outcome::Response(_)));
    assert_eq!(left(&api.http).await, Vec::<Value>::new());
    let ended = canary.finish().await;
    let [metrics] = &ended.metrics()[..] else { panic!("{ended:?}") };
    let directive = &metrics["_aws"]["CloudWatchMetrics"][0];
    assert_eq!((&metrics["Function"], &directive["Dimensions"]), (&json!("canary"), &json!([["Function"]])));
    let freshness = metrics["Freshness"].as_u64().unwrap();
    assert!(u128::from(freshness) >= held.as_millis(), "{metrics}: the ranks came after {held:?}");
    assert!(metrics["Removal"].is_u64(), "{metrics}");
    mappings.finish(INVOCATION).await;
    assert_eq!(Contents::read(&stores.table).await.primary.len(), 0);
    stores.finish().await;
}

#[tokio::test]
async fn without_the_page_indexer_the_canary_fails_and_the_next_run_tidies_up() {
    let stores = Stores::start_ready_with_redis().await;
    let api = ApiProcess::start(api_variables(&stores)).await;
    let start = async || Function::start("canary", canary_variables(api.http.base())).await;
    let mut mappings = Mappings::default();
    start_writer(&mut mappings, &stores);

    // It deletes what readers have not seen.
    let canary = start().await;
    let Outcome::Error(error) = canary.invoke("{}", NEAR).await else { panic!("nobody has seen the comment") };
    let message = error["errorMessage"].as_str().unwrap();
    assert!(message.contains("32 filters of pagemark-canary do not show"), "{error}");
    assert_eq!(left(&api.http).await, Vec::<Value>::new());
    let ended = canary.finish().await;
    assert!(ended.metrics().is_empty(), "a time that it has not seen: {ended:?}");

    // A killed run leaves its comment to the next one.
    let canary = start().await;
    let _unanswered = canary.api.invoke("{}", INVOCATION);
    wait_for_comment(&api.http).await;
    canary.kill().await;
    let killed = left(&api.http).await;
    assert_eq!(killed.len(), 1);
    start_indexer(&mut mappings, &stores);
    let canary = start().await;
    canary.respond("{}", INVOCATION).await;
    assert_eq!(left(&api.http).await, Vec::<Value>::new());
    let ended = canary.finish().await;
    assert_eq!(ended.logged("an earlier run left it")[0]["fields"]["comment"], killed[0]);
    mappings.finish(INVOCATION).await;
    stores.finish().await;
}

#[tokio::test]
async fn no_list_page_feed_or_sitemap_shows_the_product_of_the_canary() {
    let mut running = Running::start().await;
    for product in [ProductId::CANARY, "seen"] {
        running.http.post(product, &good_comment("en", 5, "Good.")).await.expect(201);
    }
    running.settle().await;
    for part in ["comments", "stats"] {
        let answer = running.http.get(&format!("{}/{part}", product_path(ProductId::CANARY))).await;
        assert_eq!((answer.header("cache-control"), &answer.json()["total"]), (Some("no-store"), &json!(1)), "{part}");
    }

    let lists = ["/api/v1/products", "/products", "/", "/sitemap.xml"];
    let mut targets: Vec<String> = lists.map(str::to_owned).to_vec();
    let index = running.http.get("/sitemap.xml").await.body;
    let files = index.split("<loc>").skip(1).map(|part| part.split("</loc>").next().unwrap());
    targets.extend(files.map(|url| format!("/{}", url.splitn(4, '/').nth(3).unwrap())));
    let mut all = String::new();
    for target in &targets {
        let answer = running.http.wait_for_200(target).await;
        assert!(!answer.body.contains(ProductId::CANARY), "{target}: {}", answer.body);
        all += &answer.body;
    }
    assert!(all.contains("/product/seen/comments"), "the sitemap lacks the other product: {targets:?}");
    let path = page_path(ProductId::CANARY);
    for target in
        [path.clone(), format!("{path}/en"), path.replace("comments", "feed"), path.replace("comments", "dates")]
    {
        assert_eq!(running.http.get(&target).await.status, 404, "{target}");
    }
    running.finish().await;
}

#[tokio::test]
async fn the_canary_publishes_what_waits_for_a_moderator() {
    let stores = Stores::start_ready_with_redis().await;
    let mut settings = ApiSettings::default();
    settings.writing.new_comments = model::Status::Pending;
    settings.site.unknown_products = UnknownProducts::NotFound;
    let api = Served::with(&stores, settings);
    let mut mappings = Mappings::default();
    start_writer(&mut mappings, &stores);
    start_indexer(&mut mappings, &stores);
    let canary = Function::start("canary", canary_variables(api.http.base())).await;
    canary.respond("{}", INVOCATION).await;
    canary.finish().await;
    mappings.finish(INVOCATION).await;
    api.finish_with(stores).await;
}
