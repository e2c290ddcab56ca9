//! The records of products: they are put and deleted under conditions, and a site moves with them.

use std::{collections::HashMap, fs, os::unix::fs::symlink, path::Path, time::Duration};

use ::api::{ApiSettings, SiteSettings, UnknownProducts};
use hyper::Method;
use model::product::record_key;
use process::aws::Calls;
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use table::{Table, TableConfig};

use crate::fixture::{
    api::Served,
    data::{self, PRODUCT},
    faults::{TableFault, chosen_faults_table},
    folder_in_memory,
    http::{Answer, Http, good_comment, page_path, product_path},
    pagemark,
    program::Ended,
    stores::Stores,
};

const _: crate::Engines = crate::Engines::Both;

fn whole() -> Value {
    json!({
        "name": "Espresso machine",
        "url": "https://shop.example/a?b=1",
        "image": "https://shop.example/a.jpg",
        "brand": "Ada",
        "gtin": "4006381333931",
        "sku": "A-3",
        "language": "EN",
    })
}

fn named(name: &str) -> Value {
    json!({ "name": name })
}

async fn put(http: &Http, product: &str, headers: &[(&str, &str)], record: &Value) -> Answer {
    let path = product_path(product);
    let body = record.to_string();
    http.write(Method::PUT, &path, headers, body.as_bytes())
        .await
}

async fn delete(http: &Http, product: &str, headers: &[(&str, &str)]) -> Answer {
    http.write(Method::DELETE, &product_path(product), headers, b"")
        .await
}

fn tag(answer: &Answer) -> String {
    answer.header("etag").unwrap().to_owned()
}

#[tokio::test]
async fn a_record_is_read_as_it_was_put() {
    let stores = Stores::start().await;
    let api = Served::of(&stores);
    for product in ["p", "a/b", "/~/~", "COMMENT#c1", "ä b", "😀"] {
        let path = product_path(product);
        let missing = api.http.get(&path).await;
        assert_eq!(
            missing.problem()["type"],
            "urn:pagemark:problem:no-such-product"
        );
        let created = put(&api.http, product, &[], &whole()).await;
        let tag = tag(&created);
        let created = created.expect(201);
        let read = api.http.get(&path).await;
        assert_eq!(read.header("etag"), Some(tag.as_str()));
        assert_eq!(read.header("cache-control"), Some("no-cache"));
        assert_eq!(read.json(), created);
        let revision = created["revision"].as_str().unwrap();
        assert_eq!(format!("\"{revision}\""), tag);
        let mut expected = whole();
        expected["product"] = product.into();
        expected["language"] = "en".into();
        expected["revision"] = created["revision"].clone();
        assert_eq!(created, expected);
    }
    let only_a_name = json!({ "name": "Only a name", "sku": "" });
    let least = put(&api.http, "least", &[], &only_a_name).await.expect(201);
    assert_eq!(least["sku"], Value::Null);
    assert_eq!(least["url"], Value::Null);
    let wrong_check_digit = json!({ "name": "A", "gtin": "4006381333932" });
    let refused = put(&api.http, "least", &[], &wrong_check_digit).await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.problem()["field"].as_str(), Some("gtin"));
    let without_token = [("content-type", "application/json")];
    let path = product_path("p");
    let body = whole().to_string();
    let refused = api
        .http
        .send(Method::PUT, &path, &without_token, body.as_bytes())
        .await;
    assert_eq!(refused.status, 401);
    api.finish_with(stores).await;
}

fn assert_refused(answer: &Answer, current: Option<&str>) {
    assert_eq!(answer.status, 412, "{answer:?}");
    assert_eq!(answer.header("etag"), current, "{answer:?}");
    assert_eq!(
        answer.problem()["type"],
        "urn:pagemark:problem:revision-mismatch"
    );
}

#[tokio::test]
async fn a_record_is_written_at_the_expected_revision_or_not_at_all() {
    let stores = Stores::start().await;
    let api = Served::of(&stores);
    let http = &api.http;
    // Nothing is there yet.
    let refused = put(http, "p", &[("if-match", "*")], &named("A")).await;
    assert_refused(&refused, None);
    assert_eq!(delete(http, "p", &[]).await.status, 404);

    let created = put(http, "p", &[("if-none-match", "*")], &named("A")).await;
    assert_eq!(created.status, 201, "{created:?}");
    let first = tag(&created);
    let refused = put(http, "p", &[("if-none-match", "*")], &named("B")).await;
    assert_refused(&refused, Some(&first));
    let refused = put(http, "p", &[("if-match", "\"other\"")], &named("B")).await;
    assert_refused(&refused, Some(&first));
    // A repetition changes nothing.
    let same = put(http, "p", &[], &named("A")).await;
    assert_eq!(same.status, 200);
    assert_eq!(tag(&same), first);

    let changed = put(http, "p", &[("if-match", &first)], &named("B")).await;
    let second = tag(&changed);
    assert_eq!(changed.expect(200)["name"], "B");
    assert!(second > first, "revisions ascend");
    let refused = put(http, "p", &[("if-match", &first)], &named("C")).await;
    assert_refused(&refused, Some(&second));
    let refused = delete(http, "p", &[("if-match", &first)]).await;
    assert_refused(&refused, Some(&second));
    let deleted = delete(http, "p", &[("if-match", &second)]).await;
    assert_eq!(deleted.status, 204);
    assert_eq!(http.get(&product_path("p")).await.status, 404);
    api.finish_with(stores).await;
}

/// The path of a file of a test's folder.
fn path_in(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}

/// Exports a site: its records into the file of this name, its comments into `comments`.
async fn export(stores: &Stores, folder: &Path, name: &str) -> Ended {
    let comments = path_in(folder, "comments");
    let products = path_in(folder, name);
    pagemark::run(&[
        "export",
        "--table",
        stores.table.name(),
        "--dynamodb-url",
        &stores.engine_url(),
        "--output",
        &comments,
        "--products",
        &products,
    ])
    .await
}

/// Imports records from the file of this name.
async fn import(stores: &Stores, folder: &Path, name: &str, options: &[&str]) -> Ended {
    let url = stores.engine_url();
    let products = path_in(folder, name);
    let command = [
        "import",
        "--table",
        stores.table.name(),
        "--dynamodb-url",
        &url,
        "--products",
        &products,
    ];
    pagemark::run(&[&command, options].concat()).await
}

/// An existing record stays, unless the import has `--update`. Bad lines are named, and the
/// others imported. `lines` are those of the four records.
async fn assert_changed_records_differ(stores: &Stores, folder: &Path, lines: &str) {
    let mut changed = lines.replace("Only", "Just");
    changed.push_str("{\"product\":\"new\"}\n");
    changed.push_str("{\"product\":\"new\",\"name\":\"New\"}\n");
    fs::write(folder.join("changed"), changed).unwrap();

    let ended = import(stores, folder, "changed", &[]).await.expect(1);
    let counts = "1 new, 3 unchanged, 1 differ";
    assert!(ended.stdout.contains(counts), "{ended:?}");
    let mistake = "changed: line 5: missing field `name`";
    assert!(ended.stdout.contains(mistake), "{ended:?}");

    let ended = import(stores, folder, "changed", &["--update"])
        .await
        .expect(1);
    let counts = "0 new, 4 unchanged, 1 updated";
    assert!(ended.stdout.contains(counts), "{ended:?}");
}

fn is_symlink(path: &Path) -> bool {
    fs::symlink_metadata(path).unwrap().is_symlink()
}

/// Through a link its file is replaced. A device is written to and stays. Records do not replace
/// the comments. `lines` are those of the four records.
async fn assert_links_stay(stores: &Stores, folder: &Path, lines: &str) {
    let target = folder.join("target");
    let link = folder.join("link");
    fs::write(&target, "replaced").unwrap();
    symlink(&target, &link).unwrap();
    export(stores, folder, "link").await.expect(0);
    assert!(is_symlink(&link));
    assert_eq!(fs::read_to_string(target).unwrap(), lines);

    let device = folder.join("device");
    symlink("/dev/null", &device).unwrap();
    export(stores, folder, "device").await.expect(0);
    assert!(is_symlink(&device));

    symlink(folder.join("comments"), folder.join("same")).unwrap();
    let refused = export(stores, folder, "same").await.expect(1);
    assert!(refused.stderr.contains("need two files"), "{refused:?}");
}

#[tokio::test]
async fn a_site_moves_with_the_records_of_its_products() {
    let from = Stores::start().await;
    let to = Stores::start().await;
    let api = Served::of(&from);
    let other = Served::of(&to);
    for product in ["p", "a/b", "😀"] {
        put(&api.http, product, &[], &whole()).await.expect(201);
    }
    let least = named("Only \"a\" name\\");
    put(&api.http, "least", &[], &least).await.expect(201);
    let folder = folder_in_memory();
    let folder = folder.path();

    let ended = export(&from, folder, "first.jsonl.gz").await.expect(0);
    assert!(
        ended.stderr.contains("the records of 4 products"),
        "{ended:?}"
    );
    for counts in ["4 new, 0 unchanged", "0 new, 4 unchanged"] {
        let ended = import(&to, folder, "first.jsonl.gz", &[]).await.expect(0);
        assert!(ended.stdout.contains(counts), "{ended:?}");
    }
    export(&from, folder, "first").await.expect(0);
    export(&to, folder, "second").await.expect(0);
    let lines = fs::read_to_string(folder.join("first")).unwrap();
    let again = fs::read_to_string(folder.join("second")).unwrap();
    assert_eq!(lines, again);
    assert_eq!(
        lines.lines().next().unwrap(),
        r#"{"product":"a/b","name":"Espresso machine","url":"https://shop.example/a?b=1","image":"https://shop.example/a.jpg","brand":"Ada","gtin":"4006381333931","sku":"A-3","language":"en"}"#
    );
    let least = other.http.get(&product_path("least")).await;
    assert_eq!(least.json()["name"], "Only \"a\" name\\");

    assert_changed_records_differ(&to, folder, &lines).await;
    assert_links_stay(&from, folder, &lines).await;

    // An item that is not a record is named, and the rest exported.
    let (pk, sk) = record_key(&data::product("broken"));
    let broken = HashMap::from([
        ("pk".to_owned(), AttributeValue::S(pk)),
        ("sk".to_owned(), AttributeValue::S(sk)),
    ]);
    to.put_raw(broken.into()).await;
    let ended = export(&to, folder, "third").await.expect(1);
    assert!(ended.stderr.contains("sk \"broken\""), "{ended:?}");
    let exported = fs::read_to_string(folder.join("third")).unwrap();
    assert_eq!(exported.lines().count(), 5);
    api.finish_with(from).await;
    other.finish_with(to).await;
}

fn settings(unknown_products: UnknownProducts) -> ApiSettings {
    let site = SiteSettings {
        unknown_products,
        ..process::defaults(&[])
    };
    ApiSettings {
        site,
        product_max_age: Duration::ZERO,
        ..ApiSettings::default()
    }
}

#[tokio::test]
async fn only_a_product_that_nobody_knows_can_be_404() {
    let stores = Stores::start_ready().await;
    let serving = Served::with(&stores, settings(UnknownProducts::Serve));
    let strict = Served::with(&stores, settings(UnknownProducts::NotFound));
    stores.create_numbered(1, data::product("commented")).await;
    stores.deliver_all().await;
    put(&strict.http, "recorded", &[], &whole())
        .await
        .expect(201);
    for product in ["commented", "recorded", "unknown"] {
        let path = product_path(product);
        for target in [
            "/comments",
            "/comments?language=ko&rating=1",
            "/comments?numbering=stable",
            "/stats?language=ko",
        ] {
            let target = format!("{path}{target}");
            serving.http.get(&target).await.expect(200);
            let answer = strict.http.get(&target).await;
            if product == "unknown" {
                assert_eq!(
                    answer.problem()["type"],
                    "urn:pagemark:problem:no-such-product",
                    "{answer:?}"
                );
                assert_eq!(answer.status, 404);
            } else {
                answer.expect(200);
            }
        }
    }
    // A comment makes a product known.
    let comment = good_comment("en", 5, "Body");
    strict.http.post("unknown", &comment).await.expect(201);
    let listing = format!("{}/comments", product_path("unknown"));
    strict.http.get(&listing).await.expect(200);
    stores.deliver_all().await;
    serving.finish().await;
    strict.finish_with(stores).await;
}

#[tokio::test]
async fn a_record_that_another_process_wrote_ends_a_404_at_once() {
    let stores = Stores::start_ready().await;
    let keeping = ApiSettings {
        product_max_age: Duration::from_secs(3_600),
        ..settings(UnknownProducts::NotFound)
    };
    let api = Served::with(&stores, keeping);
    let targets = [
        format!("{}/comments", product_path("new")),
        page_path("new"),
    ];
    for target in &targets {
        assert_eq!(api.http.get(target).await.status, 404, "{target}");
    }
    stores
        .table
        .put_product(&data::product("new"), &details("The name"), |_| true)
        .await
        .unwrap();
    for target in &targets {
        assert_eq!(api.http.get(target).await.status, 200, "{target}");
    }
    api.finish_with(stores).await;
}

#[tokio::test]
async fn a_record_that_cannot_be_read_neither_hides_a_page_nor_makes_it_404() {
    let stores = Stores::start_ready().await;
    stores.create_numbered(1, data::product(PRODUCT)).await;
    stores.deliver_all().await;
    stores
        .table
        .put_product(&data::product(PRODUCT), &details("The name"), |_| true)
        .await
        .unwrap();
    let config = TableConfig {
        calls: Calls {
            max_attempts: 1,
            ..Calls::PROMPT
        },
        ..TableConfig::new(stores.table.name(), Some(stores.engine_url()))
    };
    let faulty: Table = chosen_faults_table(&config, |body| {
        let is_of_record = body.contains("PRODUCTS#");
        if is_of_record {
            Some(TableFault::Throttle)
        } else {
            None
        }
    })
    .await;
    let api = Served::start(
        faulty,
        stores.index.clone(),
        settings(UnknownProducts::NotFound),
    );
    for shows_the_id in [page_path(PRODUCT).as_str(), "/products", "/"] {
        let page = api.http.get(shows_the_id).await;
        assert_eq!(page.status, 200, "{page:?}");
        assert_eq!(page.header("cache-control"), Some("no-store"), "{page:?}");
        assert!(!page.body.contains("The name"), "{page:?}");
        assert!(page.body.contains(PRODUCT), "{page:?}");
    }
    let listing = format!("{}/comments", product_path("unknown"));
    api.http.get(&listing).await.expect(200);
    api.http.get(&product_path(PRODUCT)).await.assert_later();
    api.finish_with(stores).await;
}

fn details(name: &str) -> model::ProductDetails {
    model::ProductDetails {
        name: name.to_owned(),
        url: None,
        image: None,
        brand: None,
        gtin: None,
        sku: None,
        language: None,
    }
}
