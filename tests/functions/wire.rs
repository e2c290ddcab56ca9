//! Calls on a real wire. A network, a proxy or the service loses answers or their bodies, sends web
//! pages instead, or throttles. Nothing is then taken for absent, lost or written twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http_body_util::Full;
use hyper::{Method, Response, body::Bytes};
use local_stack::settings::TABLE;
use model::{
    Comment,
    plan::{DuplicateKey, DuplicateWrite},
};
use process::{StoreError, aws::Calls};
use table::{Table, TableConfig, WriteError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::Instant,
};

use crate::fixture::{
    data::{self, PRODUCT},
    function::binary,
    http::{Answer, good_comment, ids, listing, product_path, serve},
    pagemark,
    program::{Ended, Program},
    service_faults::{ServiceFault, THROTTLED, faulty_service},
    stack::{Running, settings},
    stores::Stores,
    unique_name, wait_for,
};

const _: crate::Engines =
    crate::Engines::Embedded("a proxy plays the faults, whichever engine is behind it");

/// The operations of a table that Pagemark uses.
const OPERATIONS: [&str; 10] = [
    "BatchGetItem",
    "BatchWriteItem",
    "DeleteItem",
    "DescribeTable",
    "GetItem",
    "PutItem",
    "Query",
    "Scan",
    "TransactWriteItems",
    "UpdateItem",
];

/// An absent item is `{}`. So no body is a failure, and a part that is down never causes a 404.
#[tokio::test]
async fn an_answer_without_a_body_is_unavailable_and_never_an_absence() {
    let stores = Stores::start().await;
    for operation in OPERATIONS {
        let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let of_proxy = Arc::clone(&seen);
        let url = faulty_service(&stores.engine_url(), move |called, _| {
            of_proxy.lock().unwrap().insert(called.to_owned());
            (called == operation).then_some(ServiceFault::NoBody)
        })
        .await;
        let config = TableConfig::new(stores.table.name(), Some(url.clone()));
        let table = Table::connect(&config).await;
        let comments = stores.create_all(0..1, |_| data::product(PRODUCT)).await;
        let mut is_met = false;
        for call in CALLS {
            seen.lock().unwrap().clear();
            let answer = made(call, &table, &comments[0]).await;
            if seen.lock().unwrap().contains(operation) {
                is_met = true;
                let error = answer.expect_err(call);
                assert!(error.is_unavailable(), "{operation} {call}: {error}");
                let said = error.to_string();
                let is_named = said.contains("without a body") && said.contains(&url);
                assert!(is_named, "{operation} {call}: {said}");
            } else {
                answer.unwrap_or_else(|error| panic!("{operation} {call}: {error}"));
            }
        }
        assert!(is_met, "no call tests {operation}");
        let left = stores.table.comment(&comments[0].id).await.unwrap();
        if left.is_some() {
            let deleted = stores.table.delete_comment(&comments[0].id, |_| true).await;
            deleted.unwrap();
        }
    }
    stores.stop().await;
}

const CALLS: [&str; 11] = [
    "describe",
    "comment",
    "items_of",
    "comments_in",
    "scan_segment",
    "state",
    "put_state",
    "renew_lease",
    "delete_state",
    "write_duplicates",
    "delete_comment",
];

async fn made(call: &str, table: &Table, comment: &Comment) -> Result<(), StoreError> {
    let id = &comment.id;
    match call {
        "describe" => table.describe().await.map(drop),
        "comment" => {
            let found = table.comment(id).await?;
            assert!(found.is_some(), "a comment is hidden");
            Ok(())
        }
        "items_of" => {
            let found = table.items_of(id).await?;
            assert!(!found.is_empty(), "a comment is hidden");
            Ok(())
        }
        "comments_in" => {
            let ids = [id.clone()];
            let found = table.comments_in(&comment.product, &ids).await?;
            assert!(found[0].is_some(), "a comment is hidden");
            Ok(())
        }
        "scan_segment" => {
            let found = table.scan_segment(None, 0, 1, 100).await?;
            assert!(!found.rows.is_empty(), "a comment is hidden");
            Ok(())
        }
        "state" => table.state::<u8>("none", "none").await.map(drop),
        "put_state" => {
            table
                .put_state("test", "test", &BTreeMap::from([("a", 1)]))
                .await
        }
        "renew_lease" => table.renew_lease("none", "none", 0).await.map(drop),
        "delete_state" => table.delete_state("test", "test").await,
        "write_duplicates" => {
            let filter_key = comment.placement().duplicate_keys().next().unwrap();
            let key = DuplicateKey {
                id: id.clone(),
                filter_key,
            };
            let deadline = Instant::now() + Duration::from_secs(5);
            let batch = vec![DuplicateWrite::Delete { key }];
            let mut written = table.write_duplicates(batch, deadline).await;
            match written.failed.pop() {
                Some(failed) => Err(failed.error),
                None => Ok(()),
            }
        }
        "delete_comment" => match table.delete_comment(id, |_| true).await {
            Ok(()) => Ok(()),
            Err(WriteError::Store(error)) => Err(error),
            Err(other) => panic!("{other}"),
        },
        other => panic!("{other}"),
    }
}

/// Runs `pagemark export` on an engine at a URL, with these variables.
async fn export(url: &str, variables: &[(&'static str, &str)]) -> Ended {
    let pagemark = binary("pagemark").await;
    let arguments = ["export", "--dynamodb-url", url, "--output", "/dev/null"];
    let variables = variables.iter().copied();
    Program::start(pagemark, &arguments, variables).end().await
}

#[tokio::test]
async fn a_page_instead_of_an_answer_is_named_with_its_address_and_its_first_words() {
    let url = faulty_service("http://127.0.0.1:1", |_, _| Some(ServiceFault::WebPage)).await;
    let ended = export(&url, &[]).await.expect(1);
    for said in [url.as_str(), "status 200", "Sign in to the company"] {
        assert!(ended.stderr.contains(said), "{said}: {ended:?}");
    }
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    // What the SDK says around it helps nobody.
    assert!(!ended.stderr.contains("dispatch failure"), "{ended:?}");
}

#[tokio::test]
async fn region_and_credentials_of_the_environment_are_those_of_any_engine() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = folder.path().join("credentials");
    std::fs::write(
        &profiles,
        "[default]\naws_access_key_id = OFAPROFILE\naws_secret_access_key = secret\n",
    )
    .unwrap();
    let profiles = profiles.to_str().unwrap();
    let home = folder.path().to_str().unwrap();
    std::fs::create_dir(folder.path().join(".aws")).unwrap();
    std::fs::write(
        folder.path().join(".aws/config"),
        "[default]\nregion = eu-north-1\n\n[profile shop]\nregion = eu-west-3\n\
         aws_access_key_id = OFTHESHOP\naws_secret_access_key = secret\n",
    )
    .unwrap();
    let variables = [
        ("AWS_REGION", "eu-central-1"),
        ("AWS_ACCESS_KEY_ID", "OFAVARIABLE"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    for (variables, signed) in [
        (&variables[..], "OFAVARIABLE/*/eu-central-1/"),
        (
            &[
                ("AWS_SHARED_CREDENTIALS_FILE", profiles),
                ("AWS_DEFAULT_REGION", "us-west-2"),
            ],
            "OFAPROFILE/*/us-west-2/",
        ),
        (
            &[("HOME", home), ("AWS_PROFILE", "shop")],
            "OFTHESHOP/*/eu-west-3/",
        ),
        (&[("HOME", home)], "local/*/eu-north-1/"),
        (&[], "local/*/local/"),
    ] {
        let signatures: Arc<Mutex<Vec<String>>> = Arc::default();
        let of_server = Arc::clone(&signatures);
        let address = serve(move |request| {
            let signature = request.headers()["authorization"].to_str().unwrap();
            of_server.lock().unwrap().push(signature.to_owned());
            std::future::ready(Response::new(Full::<Bytes>::from("{}")))
        })
        .await;
        export(&format!("http://{address}"), variables)
            .await
            .expect(1);
        let (key, region) = signed.split_once('*').unwrap();
        for signature in signatures.lock().unwrap().iter() {
            let is_right =
                signature.contains(&format!("Credential={key}")) && signature.contains(region);
            assert!(is_right, "{signed}: {signature}");
        }
        assert!(!signatures.lock().unwrap().is_empty());
    }
    // A profile that is not there is not replaced by constants.
    let nowhere = export(
        "http://127.0.0.1:1",
        &[("HOME", home), ("AWS_PROFILE", "shopp")],
    )
    .await
    .expect(1);
    assert!(
        nowhere.stderr.contains("profile `shopp` was not defined"),
        "{nowhere:?}"
    );
    assert_eq!(nowhere.stderr.lines().count(), 1, "{nowhere:?}");
}

#[tokio::test]
async fn what_the_url_of_an_engine_says_in_vain_is_refused_as_a_wrong_command_line() {
    for url in [
        "127.0.0.1:8000",
        "http://127.0.0.1:8000?region=eu-west-1",
        "http://key:secret@127.0.0.1:8000",
    ] {
        let ended = export(url, &[]).await.expect(2);
        assert!(ended.stderr.contains("--dynamodb-url"), "{ended:?}");
    }
}

/// The head of the answer comes at once, the rest after longer than other limits than ours allow.
#[tokio::test]
#[ignore = "takes long"]
async fn a_slow_answer_is_waited_for_as_long_as_a_call_may_take_and_no_shorter() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                assert!(client.read(&mut [0; 4096]).await.unwrap() > 0);
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
                client.write_all(head.as_bytes()).await.unwrap();
                tokio::time::sleep(Duration::from_secs(9)).await;
                // It may have given up.
                client.write_all(b"{}").await.ok();
            });
        }
    });
    for (seconds, is_in_time) in [(20, true), (2, false)] {
        let limit = Duration::from_secs(seconds);
        let calls = Calls {
            attempt_timeout: limit,
            call_timeout: limit,
            max_attempts: 1,
        };
        let config = TableConfig {
            calls,
            ..TableConfig::new(TABLE, Some(url.clone()))
        };
        let table = Table::connect(&config).await;
        match table.state::<u8>("none", "none").await {
            Ok(state) => assert!(is_in_time && state.is_none()),
            Err(error) => {
                let said = error.to_string();
                assert!(!is_in_time && said.contains("is slow"), "{said}");
            }
        }
    }
}

/// Another engine may start at the same time as the stack, or be slow.
#[tokio::test]
#[ignore = "takes long"]
async fn a_start_waits_for_another_engine_and_says_so() {
    let engine = Stores::start().await;
    let is_there = Arc::new(AtomicBool::new(false));
    let of_proxy = Arc::clone(&is_there);
    let url = faulty_service(&engine.engine_url(), move |_, _| {
        let answers = of_proxy.load(Ordering::SeqCst);
        (!answers).then_some(ServiceFault::WebPage)
    })
    .await;
    let arguments = ["up", "--listen", "127.0.0.1:0", "--demo", "0"];
    let up = pagemark::start(&[&arguments[..], &["--dynamodb-url", &url]].concat()).await;
    up.wait_for_stderr("s for the engine").await;
    is_there.store(true, Ordering::SeqCst);
    up.wait_for_stdout("a stack that is ready", |output| {
        output.contains("Pagemark is ready").then_some(())
    })
    .await;
    up.signal("INT");
    up.end().await.expect(0);
    engine.stop().await;
}

/// An engine without streams would fill the log for ever.
#[tokio::test]
#[ignore = "takes long"]
async fn a_stream_that_cannot_be_read_is_one_line_for_each_function() {
    let engine = Stores::start().await;
    let calls: Arc<Mutex<u32>> = Arc::default();
    let of_proxy = Arc::clone(&calls);
    let url = faulty_service(&engine.engine_url(), move |operation, _| {
        if operation != "DescribeStream" {
            return None;
        }
        *of_proxy.lock().unwrap() += 1;
        Some(ServiceFault::Refused("UnknownOperationException"))
    })
    .await;
    let arguments = ["up", "--listen", "127.0.0.1:0", "--demo", "0"];
    let up = pagemark::start(&[&arguments[..], &["--dynamodb-url", &url]].concat()).await;
    wait_for("repeated calls", async || {
        let calls = *calls.lock().unwrap();
        if calls >= 8 { Ok(()) } else { Err(calls) }
    })
    .await;
    let ended = up.kill().await;
    let said = ended.stderr.matches("until the stream can be read").count();
    assert_eq!(said, 2, "{ended:?}");
    engine.stop().await;
}

/// How many comments are posted while faults happen.
const POSTS: u64 = 60;
/// The share of calls that fail.
const FAULTY: f64 = 0.3;

/// The operations that fail.
const FAULTY_OPERATIONS: [&str; 5] = [
    "BatchGetItem",
    "BatchWriteItem",
    "GetRecords",
    "Query",
    "TransactWriteItems",
];

#[tokio::test]
#[ignore = "takes long"]
async fn throttling_and_lost_answers_lose_nothing_and_repeat_nothing() {
    let engine = Stores::start().await;
    let is_faulty = Arc::new(AtomicBool::new(false));
    let of_proxy = Arc::clone(&is_faulty);
    let url = faulty_service(&engine.engine_url(), move |operation, _| {
        let is_chosen = of_proxy.load(Ordering::SeqCst)
            && FAULTY_OPERATIONS.contains(&operation)
            && fastrand::f64() < FAULTY;
        if !is_chosen {
            return None;
        }
        Some(if fastrand::bool() {
            THROTTLED
        } else {
            ServiceFault::LostAnswer
        })
    })
    .await;
    let mut settings = settings();
    settings.dynamodb_url = Some(url);
    settings.dynamodb_listen = None;
    let mut running = Running::start_with(settings).await;
    is_faulty.store(true, Ordering::SeqCst);
    let mut posted = Vec::new();
    for number in 0..POSTS {
        posted.push(post_until_created(&running, number).await);
        for id in &posted {
            let read = running.http.get(&format!("/api/v1/comments/{id}")).await;
            assert_right_or_later(&read);
        }
        for query in ["page=1&page_size=5", "language=en&rating=1"] {
            assert_right_or_later(&running.http.get(&listing(query)).await);
        }
    }
    is_faulty.store(false, Ordering::SeqCst);
    running.settle().await;
    let answer = running.http.get(&listing("page=1&page_size=100")).await;
    let page = answer.expect(200);
    assert_eq!(page["total"], POSTS, "{page}");
    let mut expected = posted;
    expected.reverse();
    let shown = ids(&page);
    assert_eq!(shown, expected);
    running.finish().await;
    engine.stop().await;
}

/// Posts a comment, and repeats that until it is acknowledged, as clients do. Returns its id.
async fn post_until_created(running: &Running, number: u64) -> String {
    let target = format!("{}/comments", product_path(PRODUCT));
    let comment = good_comment("en", 1 + number % 5, &format!("Body {number}")).to_string();
    let key = unique_name("throttled");
    let headers = [("idempotency-key", key.as_str())];
    loop {
        let http = &running.http;
        let answer = http
            .write(Method::POST, &target, &headers, comment.as_bytes())
            .await;
        match answer.status {
            200 | 201 => return answer.json()["id"].as_str().unwrap().to_owned(),
            503 => {}
            _ => panic!("{answer:?}"),
        }
    }
}

#[track_caller]
fn assert_right_or_later(answer: &Answer) {
    if answer.status != 200 {
        answer.assert_later();
    }
}
