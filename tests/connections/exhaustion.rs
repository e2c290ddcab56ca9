//! Clients without a token cannot exhaust the service: every phase of a connection has a deadline,
//! and the memory of answers that wait for their readers is bounded.

use std::{
    io::{self, ErrorKind},
    time::Duration,
};

use api::ApiSettings;
use futures_util::{
    future::join_all,
    stream::{self, StreamExt},
};
use table::NewComment;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::fixture::{
    api::{ApiProcess, Served, api_variables},
    data::{self, PRODUCT},
    function::with,
    http::{Answer, Http, ids, listing},
    stores::Stores,
    wait_for,
};

const _: crate::Engines =
    crate::Engines::Embedded("about the API's connections; what they read is no matter");

const COMMENTS: usize = 100;

const MIB: u64 = 1024 * 1024;

async fn api_with(settings: &[(&'static str, &str)]) -> (Stores, ApiProcess) {
    let stores = Stores::start_with_redis().await;
    let api = ApiProcess::start(with(api_variables(&stores), settings)).await;
    (stores, api)
}

/// The bytes from a client that occupies a connection: what it sends at once, and what it then
/// sends repeatedly, as long as the connection exists.
const ATTACKS: [(&str, &str); 7] = [
    ("", ""),
    ("GET /robots.txt HTTP/1.1\r\nHost: a\r\n", ""),
    (
        "GET /robots.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        "",
    ),
    (
        "GET /robots.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        "1\r\nx\r\n",
    ),
    ("GET /robots.txt HTTP/1.1\r\nHost: a\r\n\r\n", ""),
    (
        "GET /robots.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /robots.txt HTTP/1.1\r\n",
        "",
    ),
    (
        "GET /robots.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /robots.txt HTTP/1.1\r\n",
        "a: b\r\n",
    ),
];

/// Attacks a connection and waits until the service ends it.
async fn outlive(mut stream: TcpStream, (begun, dripped): (&str, &str)) {
    stream.write_all(begun.as_bytes()).await.unwrap();
    let mut answer = [0; 1024];
    let end = format!("the end of the connection after {begun:?} and {dripped:?}");
    wait_for(&end, async || {
        match stream.try_read(&mut answer) {
            Ok(0) => return Ok(()),
            Err(error) if is_end(&error) => return Ok(()),
            _ => {}
        }
        match stream.try_write(dripped.as_bytes()) {
            Err(error) if is_end(&error) => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

/// Whether an error says that the service has ended the connection.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    )
}

#[tokio::test]
#[ignore = "takes long"]
async fn silent_and_dripping_connections_end_and_make_way() {
    const EACH: usize = 4;
    let connections_max = (ATTACKS.len() * EACH).to_string();
    let (stores, api) = api_with(&[
        ("PAGEMARK_MAX_CONNECTIONS", &connections_max),
        ("PAGEMARK_KEEP_ALIVE", "1"),
    ])
    .await;
    let mut attackers = Vec::new();
    for _ in 0..EACH {
        for attack in ATTACKS {
            attackers.push(outlive(api.http.connect().await, attack));
        }
    }
    let reader = async { assert_eq!(api.http.get("/robots.txt").await.status, 200) };
    tokio::join!(join_all(attackers), reader);
    assert_eq!(api.operations.get("/livez").await.status, 200);
    stores.index.clear().await.unwrap();
}

/// A request with a header whose name and value have so many bytes.
fn request_with_header(name_bytes: usize, value_bytes: usize) -> String {
    let name = "n".repeat(name_bytes);
    let value = "v".repeat(value_bytes);
    format!("GET /robots.txt HTTP/1.1\r\nHost: a\r\n{name}: {value}\r\n\r\n")
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_head_that_is_too_large_is_refused_and_not_parsed() {
    let (stores, api) = api_with(&[("PAGEMARK_KEEP_ALIVE", "1")]).await;
    let http = &api.http;
    for (name, value) in [(1, 30_000), (30_000, 1)] {
        let request = request_with_header(name, value);
        let answer = http.answer_to_bytes(&request).await;
        assert!(
            answer.starts_with("HTTP/1.1 200 "),
            "a name of {name} bytes, a value of {value}: {answer}"
        );
    }
    for (name, value) in [(65_536, 1), (1, 65_536), (100_000, 1), (1, 200_000)] {
        let request = request_with_header(name, value);
        let answer = http.answer_to_bytes(&request).await;
        assert!(
            answer.starts_with("HTTP/1.1 431 "),
            "a name of {name} bytes, a value of {value}: {answer:?}"
        );
        let answer = answer.to_ascii_lowercase();
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    }
    let unfinished = "GET /robots.txt HTTP/1.1\r\nHost: a\r\n";
    let answer = http.answer_to_bytes(unfinished).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer:?}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer:?}");

    let too_large = request_with_header(65_536, 1);
    // A request that announces an empty body has none.
    for length in ["", "Content-Length: 0\r\n"] {
        let before = format!("GET /robots.txt HTTP/1.1\r\nHost: a\r\n{length}\r\n");
        let answer = http.answer_to_bytes(&format!("{before}{too_large}")).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
        assert!(answer.contains("HTTP/1.1 431 "), "{answer:?}");
    }
    // The connection ends after an answer to a request whose body was not read.
    let before = "GET /robots.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         1\r\nx\r\n0\r\n\r\n";
    let answer = http.answer_to_bytes(&format!("{before}{too_large}")).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
    assert!(answer.contains("connection: close"), "{answer:?}");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer:?}");
    assert_eq!(
        api.metric("pagemark_http_requests_malformed_total").await,
        7.0,
        "four, one too slow, two sent ahead"
    );
    stores.index.clear().await.unwrap();
}

#[tokio::test]
#[ignore = "takes long"]
async fn clients_that_stay_after_their_last_answer_make_way() {
    const CONNECTIONS_MAX: usize = 8;
    let connections_max = CONNECTIONS_MAX.to_string();
    let (stores, api) = api_with(&[("PAGEMARK_MAX_CONNECTIONS", &connections_max)]).await;
    let mut staying = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        let mut stream = api.http.connect().await;
        stream
            .write_all(b"GET /robots.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .await
            .unwrap();
        staying.push(stream);
    }
    assert_eq!(api.http.get("/robots.txt").await.status, 200);
    drop(staying);
    stores.index.clear().await.unwrap();
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_malformed_second_request_is_told_that_its_connection_closes_and_counted() {
    let (stores, api) = api_with(&[]).await;
    let first = "HEAD /robots.txt HTTP/1.1\r\nHost: a\r\n\r\n";
    let malformed = "GET /x?y=\" HTTP/1.1\r\nHost: a\r\n\r\n";
    let both = format!("{first}{malformed}");
    // The second one is sent after the answer, or ahead.
    for (count, at_once, after_answer) in [(1_u32, first, malformed), (2, both.as_str(), "")] {
        let mut stream = api.http.connect().await;
        stream.write_all(at_once.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.unwrap());
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 "));
        stream.write_all(after_answer.as_bytes()).await.unwrap();
        let mut second = String::new();
        stream.read_to_string(&mut second).await.unwrap();
        assert!(second.starts_with("HTTP/1.1 400 "), "{second}");
        assert!(second.contains("\r\nconnection: close\r\n"), "{second}");
        // The request is counted and logged after its client has the answer.
        wait_for("the count and the log", async || {
            let counted = api.metric("pagemark_http_requests_malformed_total").await;
            let log = api.log();
            let statuses = log.iter().map(|line| &line["fields"]["status"]);
            let logged = statuses
                .filter(|status| *status == "HTTP/1.1 400 Bad Request")
                .count();
            if counted == f64::from(count) && logged == count as usize {
                Ok(())
            } else {
                Err((counted, log))
            }
        })
        .await;
    }
    stores.index.clear().await.unwrap();
}

/// Fills the table with 100 comments of the longest text: a page of 4.1 MB.
async fn fill_with_the_longest(stores: &Stores) {
    let text = data::body(&"\u{1f600}".repeat(10_000));
    let comments = (0..COMMENTS).map(|number| NewComment {
        created_at: data::at_ms(data::CREATED_MS + i64::try_from(number).unwrap()),
        text: text.clone(),
        ..data::new_comment(&format!("c{number:04}"), &data::product(PRODUCT), "en", 5)
    });
    stores.put_primary_items(comments.collect()).await;
    stores.deliver_all().await;
}

/// A client that sends a request and does not read the answer. Returns its connection and the head
/// of the waiting answer.
async fn unread(http: &Http, target: &str) -> (TcpStream, String) {
    let mut stream = http.connect().await;
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 1024];
    let head = wait_for("an answer", async || {
        match stream.peek(&mut head).await.unwrap() {
            few if few < head.len().min(300) => Err(few),
            many => Ok(String::from_utf8_lossy(&head[..many]).into_owned()),
        }
    })
    .await;
    (stream, head)
}

#[tokio::test]
#[ignore = "takes long"]
async fn answers_that_nobody_reads_hold_a_bounded_memory() {
    const ANSWER_MEMORY_MIB: u64 = 64;
    const READERS: usize = 60;
    // Additional memory for connections, the allocator and the making of answers.
    const SLACK: u64 = 64 * MIB;
    let answer_memory = ANSWER_MEMORY_MIB.to_string();
    let (stores, api) = api_with(&[("PAGEMARK_ANSWER_MEMORY", &answer_memory)]).await;
    fill_with_the_longest(&stores).await;
    let target = listing("page_size=100");
    let page = api.http.get(&target).await.expect(200);
    assert_eq!(ids(&page).len(), COMMENTS);
    let before = api.resident_bytes();
    // Half of the readers come at once. The others follow one by one, and soon find no room.
    let mut readers = join_all((0..READERS / 2).map(|_| unread(&api.http, &target))).await;
    while readers.len() < READERS {
        readers.push(unread(&api.http, &target).await);
    }
    let held = readers
        .iter()
        .filter(|(_, head)| head.starts_with("HTTP/1.1 200 "))
        .count();
    assert!(0 < held, "{held} answers of 4.1 MB are held");
    assert!(held < READERS, "{held} answers of 4.1 MB are held");
    let grown = api.resident_bytes_max().saturating_sub(before);
    println!("{held} answers held, {} MiB more at most", grown / MIB);
    assert!(
        grown <= ANSWER_MEMORY_MIB * MIB + SLACK,
        "{} MiB more",
        grown / MIB
    );
    let small = api.http.get("/robots.txt").await;
    assert_eq!(small.status, 200, "small answers are still made");
    stores.index.clear().await.unwrap();
}

/// The deployed API, as the template says.
struct Deployed {
    /// The settings that bound its memory. Others have their defaults.
    settings: Vec<(&'static str, &'static str)>,
    /// The memory of its container.
    memory_bytes: u64,
}

fn deployed() -> Deployed {
    let template = include_str!("../../infra/template.yaml");
    let (_, task) = template.split_once("\n  ApiTask:\n").unwrap();
    let mut settings = Vec::new();
    for name in [
        "PAGEMARK_MAX_IN_FLIGHT",
        "PAGEMARK_ANSWER_MEMORY",
        "PAGEMARK_MAX_CONNECTIONS",
    ] {
        if let Some((_, rest)) = task.split_once(&format!("Name: {name}, Value: \"")) {
            settings.push((name, rest.split('"').next().unwrap()));
        }
    }
    let (_, parameter) = template.split_once("\n  ApiTaskMemory:\n").unwrap();
    let (_, minimum) = parameter.split_once("    MinValue: ").unwrap();
    let memory_mib: u64 = minimum.lines().next().unwrap().parse().unwrap();
    Deployed {
        settings,
        memory_bytes: memory_mib * MIB,
    }
}

/// What an attacker sends first, for each kind of attack.
fn beginnings() -> Vec<String> {
    let mut beginnings: Vec<String> = ATTACKS
        .iter()
        .map(|(begun, _)| (*begun).to_owned())
        .collect();
    // A head of nearly the largest size that never ends.
    let value = "v".repeat(40_000);
    beginnings.push(format!("GET /robots.txt HTTP/1.1\r\nHost: a\r\nn: {value}"));
    // Requests sent ahead of an unread answer.
    beginnings.push("GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n".repeat(200));
    beginnings
}

/// Starts each kind of attack so many times.
async fn occupy(http: &Http, of_each_attack: usize) -> Vec<TcpStream> {
    let beginnings = beginnings();
    let mut occupied = Vec::new();
    for _ in 0..of_each_attack {
        for begun in &beginnings {
            let stream = http.connect().await;
            // The service stops reading at some point, and may end the connection.
            stream.try_write(begun.as_bytes()).ok();
            occupied.push(stream);
        }
    }
    occupied
}

#[tokio::test]
#[ignore = "takes long"]
async fn all_attacks_together_fit_into_the_deployed_container_and_give_memory_back() {
    // Their answers would fill the container. With the other attackers, they take nearly every
    // connection.
    const READERS: usize = 320;
    const OF_EACH_ATTACK: usize = 70;
    // Few at once, so that the API does not turn them away as too many.
    const AT_ONCE: usize = 16;
    // A part of the container's memory is the kernel's, for connections and files.
    const PART_MAX: f64 = 0.7;
    let deployed = deployed();
    let (stores, api) = api_with(&deployed.settings).await;
    fill_with_the_longest(&stores).await;
    let pages = [
        listing("page_size=100"),
        listing("page_size=100&order=oldest"),
    ];
    let page = api.http.get(&pages[0]).await.expect(200);
    assert_eq!(ids(&page).len(), COMMENTS);
    let before = api.resident_bytes();
    let occupied = occupy(&api.http, OF_EACH_ATTACK).await;
    let targets = pages.iter().cycle().take(READERS);
    let readers = stream::iter(targets)
        .map(|target| unread(&api.http, target))
        .buffer_unordered(AT_ONCE);
    let readers = tokio::select! {
        readers = readers.collect::<Vec<_>>() => readers,
        answer = failed_check(&api) => panic!("{answer:?}"),
    };
    let mut held = 0;
    let mut refused = 0;
    for (_, head) in &readers {
        if head.starts_with("HTTP/1.1 200 ") {
            held += 1;
        } else {
            assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
            assert!(head.contains("retry-after: "), "{head}");
            refused += 1;
        }
    }
    let peak = api.resident_bytes_max();
    let peak_mib = peak / MIB;
    let memory_mib = deployed.memory_bytes / MIB;
    println!("{held} answers held, {peak_mib} of {memory_mib} MiB at most");
    assert!(held > 0, "no answers are held");
    assert!(refused > 0, "the answers of {held} readers are held");
    assert!(
        peak as f64 <= PART_MAX * deployed.memory_bytes as f64,
        "{peak_mib} of {memory_mib} MiB"
    );
    assert_eq!(api.operations.get("/livez").await.status, 200);
    drop(readers);
    drop(occupied);
    let page = api.http.wait_for_200(&pages[0]).await.expect(200);
    assert_eq!(ids(&page).len(), COMMENTS, "a page is whole");
    wait_for("memory that is given back", async || {
        assert_eq!(api.operations.get("/livez").await.status, 200);
        let grown = api.resident_bytes().saturating_sub(before);
        if grown <= 32 * MIB {
            Ok(())
        } else {
            Err(format!("{} MiB more", grown / MIB))
        }
    })
    .await;
    stores.index.clear().await.unwrap();
}

async fn failed_check(api: &ApiProcess) -> Answer {
    loop {
        let answer = api.operations.get("/livez").await;
        if answer.status != 200 {
            return answer;
        }
    }
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_client_slower_than_the_floor_rate_is_cut_off_and_others_are_not() {
    let stores = Stores::start().await;
    fill_with_the_longest(&stores).await;
    // The floor rate is one megabyte in this time.
    let unread_timeout = Duration::from_secs(4);
    let settings = ApiSettings {
        unread_timeout,
        keep_alive_seconds: 1,
        ..ApiSettings::default()
    };
    let api = Served::with(&stores, settings);
    let target = listing("page_size=100");
    let (slow, _) = unread(&api.http, &target).await;
    let mut read = 0;
    let mut part = [0; 1024];
    // Reading one kilobyte per poll takes more than a minute for the page.
    wait_for(
        "the end of a slow reader's connection",
        async || match slow.try_read(&mut part) {
            Ok(0) => panic!("the whole page after {read} bytes"),
            Ok(bytes) => {
                read += bytes;
                Err(read)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(read),
            Err(_) => Ok(()),
        },
    )
    .await;
    let page = api.http.get(&target).await.expect(200);
    assert_eq!(ids(&page).len(), COMMENTS);
    api.finish().await;
    stores.index.clear().await.unwrap();
}
