//! Clients without a token cannot exhaust the service: every phase of a connection has a deadline,
//! and the memory of answers that wait for their readers is bounded.

use std::{io::ErrorKind, time::Duration};

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
    let is_end = |kind| matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
    let mut answer = [0; 1024];
    wait_for(
        &format!("the end of the connection after {begun:?} and {dripped:?}"),
        async || {
            match stream.try_read(&mut answer) {
                Ok(0) => return Ok(()),
                Err(error) if is_end(error.kind()) => return Ok(()),
                _ => {}
            }
            match stream.try_write(dripped.as_bytes()) {
                Err(error) if is_end(error.kind()) => Ok(()),
                other => Err(other),
            }
        },
    )
    .await;
}

#[tokio::test]
async fn silent_and_dripping_connections_end_and_make_way() {
    const EACH: usize = 4;
    let places = (ATTACKS.len() * EACH).to_string();
    let (stores, api) = api_with(&[
        ("PAGEMARK_MAX_CONNECTIONS", &places),
        ("PAGEMARK_KEEP_ALIVE", "1"),
    ])
    .await;
    let mut attackers = Vec::new();
    for attack in ATTACKS.into_iter().cycle().take(ATTACKS.len() * EACH) {
        attackers.push(outlive(api.http.connect().await, attack));
    }
    let reader = async { assert_eq!(api.http.get("/robots.txt").await.status, 200) };
    tokio::join!(join_all(attackers), reader);
    assert_eq!(api.operations.get("/livez").await.status, 200);
    stores.index.clear().await.unwrap();
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused_and_not_parsed() {
    let (stores, api) = api_with(&[("PAGEMARK_KEEP_ALIVE", "1")]).await;
    let head = |name: usize, value: usize| {
        format!(
            "GET /robots.txt HTTP/1.1\r\nHost: a\r\n{}: {}\r\n\r\n",
            "n".repeat(name),
            "v".repeat(value)
        )
    };
    for (name, value) in [(1, 30_000), (30_000, 1)] {
        let answer = api.http.answer_to_bytes(&head(name, value)).await;
        assert!(
            answer.starts_with("HTTP/1.1 200 "),
            "a name of {name} bytes, a value of {value}: {answer}"
        );
    }
    for (name, value) in [(65_536, 1), (1, 65_536), (100_000, 1), (1, 200_000)] {
        let answer = api.http.answer_to_bytes(&head(name, value)).await;
        assert!(
            answer.starts_with("HTTP/1.1 431 "),
            "a name of {name} bytes, a value of {value}: {answer:?}"
        );
        assert!(
            answer
                .to_ascii_lowercase()
                .contains("\r\nconnection: close\r\n"),
            "{answer}"
        );
    }
    let begun = api
        .http
        .answer_to_bytes("GET /robots.txt HTTP/1.1\r\nHost: a\r\n")
        .await;
    assert!(
        begun.starts_with("HTTP/1.1 408 ") && begun.contains("\r\nconnection: close\r\n"),
        "{begun:?}"
    );
    let after = async |before: &str| {
        api.http
            .answer_to_bytes(&format!("{before}{}", head(65_536, 1)))
            .await
    };
    // A request that announces an empty body has none.
    for length in ["", "Content-Length: 0\r\n"] {
        let answer = after(&format!(
            "GET /robots.txt HTTP/1.1\r\nHost: a\r\n{length}\r\n"
        ))
        .await;
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.contains("HTTP/1.1 431 "),
            "{answer:?}"
        );
    }
    // The connection ends after an answer to a request whose body was not read.
    let unread_body = "GET /robots.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    let answer = after(unread_body).await;
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.contains("connection: close"),
        "{answer:?}"
    );
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer:?}");
    assert_eq!(
        api.metric("pagemark_http_requests_malformed_total").await,
        7.0,
        "four, one too slow, two sent ahead"
    );
    stores.index.clear().await.unwrap();
}

#[tokio::test]
async fn clients_that_stay_after_their_last_answer_make_way() {
    const PLACES: usize = 8;
    let (stores, api) = api_with(&[("PAGEMARK_MAX_CONNECTIONS", &PLACES.to_string())]).await;
    let mut staying = Vec::new();
    for _ in 0..PLACES {
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
async fn a_malformed_second_request_is_told_that_its_connection_closes_and_counted() {
    let (stores, api) = api_with(&[]).await;
    let (first, malformed) = (
        "HEAD /robots.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /x?y=\" HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    // The second one is sent ahead, or after the answer.
    for (count, parts) in [
        (1.0, [first, malformed]),
        (2.0, [&format!("{first}{malformed}"), ""]),
    ] {
        let mut stream = api.http.connect().await;
        stream.write_all(parts[0].as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.unwrap());
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 "));
        stream.write_all(parts[1].as_bytes()).await.unwrap();
        let mut second = String::new();
        stream.read_to_string(&mut second).await.unwrap();
        assert!(
            second.starts_with("HTTP/1.1 400 ") && second.contains("\r\nconnection: close\r\n"),
            "{second}"
        );
        // It is counted and logged after its client has the answer.
        wait_for("the count and the log", async || {
            let (counted, log) = (
                api.metric("pagemark_http_requests_malformed_total").await,
                api.log(),
            );
            let logged = log
                .iter()
                .filter(|line| line["fields"]["status"] == "HTTP/1.1 400 Bad Request")
                .count();
            if (counted, logged as f64) == (count, count) {
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
async fn answers_that_nobody_reads_hold_a_bounded_memory() {
    const ANSWER_MEMORY_MIB: u64 = 64;
    const READERS: usize = 60;
    // Additional memory for connections, the allocator and the making of answers.
    const SLACK: u64 = 64 * MIB;
    let (stores, api) =
        api_with(&[("PAGEMARK_ANSWER_MEMORY", &ANSWER_MEMORY_MIB.to_string())]).await;
    fill_with_the_longest(&stores).await;
    let target = listing("page_size=100");
    assert_eq!(
        ids(&api.http.get(&target).await.expect(200)).len(),
        COMMENTS
    );
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
    assert!(
        0 < held && held < READERS,
        "{held} answers of 4.1 MB are held"
    );
    let grown = api.resident_bytes_max().saturating_sub(before);
    println!("{held} answers held, {} MiB more at most", grown / MIB);
    assert!(
        grown <= ANSWER_MEMORY_MIB * MIB + SLACK,
        "{} MiB more",
        grown / MIB
    );
    assert_eq!(
        api.http.get("/robots.txt").await.status,
        200,
        "small answers are still made"
    );
    stores.index.clear().await.unwrap();
}

/// The settings of the deployed API that bound its memory, and the memory of its container.
fn deployed() -> (Vec<(&'static str, String)>, u64) {
    let template = include_str!("../../infra/template.yaml");
    let (_, task) = template.split_once("\n  ApiTask:\n").unwrap();
    let after = |text: &str| {
        Some(
            task.split_once(text)?
                .1
                .split('"')
                .next()
                .unwrap()
                .to_owned(),
        )
    };
    let bounds = [
        "PAGEMARK_MAX_IN_FLIGHT",
        "PAGEMARK_ANSWER_MEMORY",
        "PAGEMARK_MAX_CONNECTIONS",
    ];
    let set = bounds
        .into_iter()
        .filter_map(|name| Some((name, after(&format!("Name: {name}, Value: \""))?)));
    let (_, parameter) = template.split_once("\n  ApiTaskMemory:\n").unwrap();
    let (_, minimum) = parameter.split_once("    MinValue: ").unwrap();
    let memory_mib: u64 = minimum.lines().next().unwrap().parse().unwrap();
    (set.collect(), memory_mib * MIB)
}

#[tokio::test]
async fn all_attacks_together_fit_into_the_memory_of_the_deployed_container_and_give_it_back() {
    // Their answers would fill the container. With the other attackers, they take nearly every
    // connection.
    const READERS: usize = 320;
    const OF_EACH_ATTACK: usize = 70;
    // Few at once, so that the API does not turn them away as too many.
    const AT_ONCE: usize = 16;
    // A part of the container's memory is the kernel's, for connections and files.
    const PART_MAX: f64 = 0.7;
    let (settings, memory) = deployed();
    let settings: Vec<_> = settings
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let (stores, api) = api_with(&settings).await;
    fill_with_the_longest(&stores).await;
    let pages = [
        listing("page_size=100"),
        listing("page_size=100&order=oldest"),
    ];
    assert_eq!(
        ids(&api.http.get(&pages[0]).await.expect(200)).len(),
        COMMENTS
    );
    let before = api.resident_bytes();
    // A head of nearly the largest size that never ends, and requests sent ahead of an unread
    // answer.
    let head = format!(
        "GET /robots.txt HTTP/1.1\r\nHost: a\r\nn: {}",
        "v".repeat(40_000)
    );
    let ahead = "GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n".repeat(200);
    let begun = ATTACKS
        .iter()
        .map(|(begun, _)| *begun)
        .chain([head.as_str(), &ahead]);
    let mut occupied = Vec::new();
    for begun in begun.cycle().take((ATTACKS.len() + 2) * OF_EACH_ATTACK) {
        let stream = api.http.connect().await;
        // The service stops reading at some point, and may end the connection.
        stream.try_write(begun.as_bytes()).ok();
        occupied.push(stream);
    }
    let readers = pages
        .iter()
        .cycle()
        .take(READERS)
        .map(|target| unread(&api.http, target));
    let readers = stream::iter(readers)
        .buffer_unordered(AT_ONCE)
        .collect::<Vec<_>>();
    let readers = tokio::select! {
        readers = readers => readers,
        answer = failed_check(&api) => panic!("{answer:?}"),
    };
    let is_held = |head: &&String| head.starts_with("HTTP/1.1 200 ");
    let (held, refused): (Vec<_>, Vec<_>) = readers.iter().map(|(_, head)| head).partition(is_held);
    for head in &refused {
        assert!(
            head.starts_with("HTTP/1.1 503 ") && head.contains("retry-after: "),
            "{head}"
        );
    }
    let peak = api.resident_bytes_max();
    println!(
        "{} answers held, {} of {} MiB at most",
        held.len(),
        peak / MIB,
        memory / MIB
    );
    assert!(
        !held.is_empty() && !refused.is_empty(),
        "the answers of {} readers are held",
        held.len()
    );
    assert!(
        peak as f64 <= PART_MAX * memory as f64,
        "{} of {} MiB",
        peak / MIB,
        memory / MIB
    );
    assert_eq!(api.operations.get("/livez").await.status, 200);
    drop((readers, occupied));
    assert_eq!(
        ids(&api.http.wait_for_200(&pages[0]).await.expect(200)).len(),
        COMMENTS,
        "a page is whole"
    );
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
    assert_eq!(
        ids(&api.http.get(&target).await.expect(200)).len(),
        COMMENTS
    );
    api.finish().await;
    stores.index.clear().await.unwrap();
}
