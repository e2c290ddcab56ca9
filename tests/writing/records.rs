//! The records of products: they are put and deleted under conditions, and a site moves with them.

use std::{fs, time::Duration};

use ::api::{ApiSettings, SiteSettings, UnknownProducts};
use hyper::Method;
use model::product::record_key;
use process::aws::Calls;
use serde_json::{Value, json};
use table::{Table, TableConfig};

use crate::fixture::{
    api::Served,
    data::{self, PRODUCT},
    faults::{TableFault, chosen_faults_table},
    folder_in_memory,
    http::{Answer, Http, good_comment, page_path, product_path},
    pagemark,
    stores::Stores,
};

fn whole() -> Value {
    json!({
        "name": "Espresso machine", "url": "https://shop.example/a?b=1", "image": "https://shop.example/a.jpg",
        "brand": "Ada", "gtin": "4006381333931", "sku": "A-3", "language": "EN",
    })
}

async fn put(http: &Http, product: &str, headers: &[(&str, &str)], record: &Value) -> Answer {
    http.write(
        Method::PUT,
        &product_path(product),
        headers,
        record.to_string().as_bytes(),
    )
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
        assert_eq!(
            api.http.get(&path).await.problem()["type"],
            "urn:pagemark:problem:no-such-product"
        );
        let created = put(&api.http, product, &[], &whole()).await;
        let (tag, created) = (tag(&created), created.expect(201));
        let read = api.http.get(&path).await;
        assert_eq!(
            (read.header("etag"), read.header("cache-control")),
            (Some(tag.as_str()), Some("no-cache"))
        );
        assert_eq!(read.json(), created);
        assert_eq!(
            format!("\"{}\"", created["revision"].as_str().unwrap()),
            tag
        );
        let mut expected = whole();
        expected["product"] = product.into();
        expected["language"] = "en".into();
        expected["revision"] = created["revision"].clone();
        assert_eq!(created, expected);
    }
    let least = put(
        &api.http,
        "least",
        &[],
        &json!({ "name": "Only a name", "sku": "" }),
    )
    .await
    .expect(201);
    assert_eq!((&least["sku"], &least["url"]), (&Value::Null, &Value::Null));
    let refused = put(
        &api.http,
        "least",
        &[],
        &json!({ "name": "A", "gtin": "4006381333932" }),
    )
    .await;
    assert_eq!(
        (refused.status, refused.problem()["field"].as_str()),
        (400, Some("gtin"))
    );
    let body = whole().to_string();
    let without_token = [("content-type", "application/json")];
    let refused = api
        .http
        .send(
            Method::PUT,
            &product_path("p"),
            &without_token,
            body.as_bytes(),
        )
        .await;
    assert_eq!(refused.status, 401);
    api.finish_with(stores).await;
}

#[tokio::test]
async fn a_record_is_written_at_the_expected_revision_or_not_at_all() {
    let stores = Stores::start().await;
    let api = Served::of(&stores);
    let http = &api.http;
    let named = |name: &str| json!({ "name": name });
    let refused = |answer: Answer, current: Option<&str>| {
        assert_eq!(
            (answer.status, answer.header("etag")),
            (412, current),
            "{answer:?}"
        );
        assert_eq!(
            answer.problem()["type"],
            "urn:pagemark:problem:revision-mismatch"
        );
    };
    // Nothing is there yet.
    refused(
        put(http, "p", &[("if-match", "*")], &named("A")).await,
        None,
    );
    assert_eq!(delete(http, "p", &[]).await.status, 404);
    let first = put(http, "p", &[("if-none-match", "*")], &named("A")).await;
    let (first, _) = (tag(&first), first.expect(201));
    refused(
        put(http, "p", &[("if-none-match", "*")], &named("B")).await,
        Some(&first),
    );
    refused(
        put(http, "p", &[("if-match", "\"other\"")], &named("B")).await,
        Some(&first),
    );
    // The same again changes nothing.
    let same = put(http, "p", &[], &named("A")).await;
    assert_eq!((same.status, tag(&same)), (200, first.clone()));
    let second = put(http, "p", &[("if-match", &first)], &named("B")).await;
    let second = (tag(&second), second.expect(200)["name"].clone());
    assert_eq!(second.1, "B");
    assert!(second.0 > first, "revisions ascend");
    refused(
        put(http, "p", &[("if-match", &first)], &named("C")).await,
        Some(&second.0),
    );
    refused(
        delete(http, "p", &[("if-match", &first)]).await,
        Some(&second.0),
    );
    assert_eq!(
        delete(http, "p", &[("if-match", &second.0)]).await.status,
        204
    );
    assert_eq!(http.get(&product_path("p")).await.status, 404);
    api.finish_with(stores).await;
}

#[tokio::test]
async fn a_site_moves_with_the_records_of_its_products() {
    let (from, to) = (Stores::start().await, Stores::start().await);
    let (api, other) = (Served::of(&from), Served::of(&to));
    for product in ["p", "a/b", "😀"] {
        put(&api.http, product, &[], &whole()).await.expect(201);
    }
    put(
        &api.http,
        "least",
        &[],
        &json!({ "name": "Only \"a\" name\\" }),
    )
    .await
    .expect(201);
    let folder = folder_in_memory();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let export = async |stores: &Stores, name: &str, more: &[&str]| {
        let (table, url) = (stores.table.name(), stores.engine_url());
        let (comments, products) = (path("comments"), path(name));
        let of = [
            "export",
            "--table",
            table,
            "--dynamodb-url",
            url.as_str(),
            "--output",
            comments.as_str(),
        ];
        pagemark::run(&[&of[..], &["--products", products.as_str()], more].concat()).await
    };
    let import = async |name: &str, more: &[&str]| {
        let (table, url) = (to.table.name(), to.engine_url());
        let products = path(name);
        let of = [
            "import",
            "--table",
            table,
            "--dynamodb-url",
            url.as_str(),
            "--products",
            products.as_str(),
        ];
        pagemark::run(&[&of[..], more].concat()).await
    };
    let ended = export(&from, "first.jsonl.gz", &[]).await.expect(0);
    assert!(
        ended.stderr.contains("the records of 4 products"),
        "{ended:?}"
    );
    assert!(
        import("first.jsonl.gz", &[])
            .await
            .expect(0)
            .stdout
            .contains("4 new, 0 unchanged")
    );
    assert!(
        import("first.jsonl.gz", &[])
            .await
            .expect(0)
            .stdout
            .contains("0 new, 4 unchanged")
    );
    export(&from, "first", &[]).await.expect(0);
    export(&to, "second", &[]).await.expect(0);
    let lines = fs::read_to_string(path("first")).unwrap();
    assert_eq!(lines, fs::read_to_string(path("second")).unwrap());
    assert_eq!(
        lines.lines().next().unwrap(),
        r#"{"product":"a/b","name":"Espresso machine","url":"https://shop.example/a?b=1","image":"https://shop.example/a.jpg","brand":"Ada","gtin":"4006381333931","sku":"A-3","language":"en"}"#
    );
    assert_eq!(
        other.http.get(&product_path("least")).await.json()["name"],
        "Only \"a\" name\\"
    );

    // An existing record stays, unless the import is told to update. Bad lines are named, and the
    // others imported.
    let changed = lines.replace("Only", "Just")
        + "{\"product\":\"new\"}\n{\"product\":\"new\",\"name\":\"New\"}\n";
    fs::write(path("changed"), changed).unwrap();
    let ended = import("changed", &[]).await.expect(1);
    assert!(
        ended.stdout.contains("1 new, 3 unchanged, 1 differ"),
        "{ended:?}"
    );
    assert!(
        ended
            .stdout
            .contains("changed: line 5: missing field `name`"),
        "{ended:?}"
    );
    let ended = import("changed", &["--update"]).await.expect(1);
    assert!(
        ended.stdout.contains("0 new, 4 unchanged, 1 updated"),
        "{ended:?}"
    );

    // Through a link its file is replaced. A device is written to and stays. Records do not replace
    // the comments.
    std::os::unix::fs::symlink(path("second"), path("link")).unwrap();
    fs::write(path("second"), "replaced").unwrap();
    export(&from, "link", &[]).await.expect(0);
    assert!(fs::symlink_metadata(path("link")).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(path("second")).unwrap(), lines);
    std::os::unix::fs::symlink("/dev/null", path("device")).unwrap();
    export(&from, "device", &[]).await.expect(0);
    assert!(fs::symlink_metadata(path("device")).unwrap().is_symlink());
    std::os::unix::fs::symlink(path("comments"), path("same")).unwrap();
    assert!(
        export(&from, "same", &[])
            .await
            .expect(1)
            .stderr
            .contains("need two files")
    );

    // Chosen products only; an item that is no record is named, and the rest exported.
    let key = record_key(&data::product("broken"));
    let item = [("pk", key.0), ("sk", key.1)]
        .map(|(name, text)| (name.to_owned(), data::text_value(text).unwrap()));
    to.put_raw(std::collections::HashMap::from(item).into())
        .await;
    let ended = export(&to, "second", &[]).await.expect(1);
    assert!(ended.stderr.contains("sk \"broken\""), "{ended:?}");
    assert_eq!(
        fs::read_to_string(path("second")).unwrap().lines().count(),
        5
    );
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
            serving
                .http
                .get(&format!("{path}{target}"))
                .await
                .expect(200);
            let answer = strict.http.get(&format!("{path}{target}")).await;
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
    strict
        .http
        .post("unknown", &good_comment("en", 5, "Body"))
        .await
        .expect(201);
    strict
        .http
        .get(&format!("{}/comments", product_path("unknown")))
        .await
        .expect(200);
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
    let is_of_record = |body: &str| body.contains("PRODUCTS#");
    let faulty: Table = chosen_faults_table(&config, move |body| {
        is_of_record(body).then_some(TableFault::Throttle)
    })
    .await;
    let api = Served::start(
        faulty,
        stores.index.clone(),
        settings(UnknownProducts::NotFound),
    );
    for shows_the_id in [page_path(PRODUCT).as_str(), "/products", "/"] {
        let page = api.http.get(shows_the_id).await;
        assert_eq!(
            (page.status, page.header("cache-control")),
            (200, Some("no-store")),
            "{page:?}"
        );
        assert!(!page.body.contains("The name") && page.body.contains(PRODUCT));
    }
    api.http
        .get(&format!("{}/comments", product_path("unknown")))
        .await
        .expect(200);
    api.http.get(&product_path(PRODUCT)).await.assert_later();
    api.finish_with(stores).await;
}

fn details(name: &str) -> model::ProductDetails {
    let name = name.to_owned();
    model::ProductDetails {
        name,
        url: None,
        image: None,
        brand: None,
        gtin: None,
        sku: None,
        language: None,
    }
}
