//! Bytes that a client sends ahead of the answer. The API requests no body in vain, and processes
//! no request after the last answer of a connection.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::fixture::{
    api::Served,
    data::PRODUCT,
    http::{WRITE_TOKEN, good_comment, product_path},
    invariants::Contents,
    stores::Stores,
};

const _: crate::Engines =
    crate::Engines::Embedded("about the API's connections; what they read is no matter");

/// A request after which the connection ends.
const LAST: &str = "GET /livez HTTP/1.1\r\nHost: api\r\nConnection: close\r\n\r\n";

/// The status of each of these answers.
fn statuses(answers: &str) -> Vec<&str> {
    answers
        .split("HTTP/1.1 ")
        .skip(1)
        .map(|answer| &answer[..3])
        .collect()
}

/// The head of a request with the write token, without the end of the headers.
fn head(method: &str, path: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {WRITE_TOKEN}\r\n\
         Content-Type: application/json\r\n"
    )
}

/// A head that announces a body, and waits until it is requested.
fn expecting(head: &str, length: usize) -> String {
    format!("{head}Expect: 100-continue\r\nContent-Length: {length}\r\n\r\n")
}

/// A whole request whose head says how long its body is.
fn sized(head: &str, body: &str) -> String {
    let length = body.len();
    format!("{head}Content-Length: {length}\r\n\r\n{body}")
}

/// A whole request whose body is sent as one chunk.
fn chunked(head: &str, body: &str) -> String {
    let length = body.len();
    format!("{head}Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n")
}

#[tokio::test]
async fn a_body_is_requested_when_it_is_read_and_not_before() {
    let stores = Stores::start().await;
    let api = Served::of(&stores);
    let comments = format!("{}/comments", product_path(PRODUCT));
    let body = good_comment("en", 5, "Body").to_string();
    let post = head("POST", &comments);
    let patch = head("PATCH", "/api/v1/comments/c1");
    let wrong_type = post.replace("application/json", "text/plain");
    for (head, length, status) in [
        (post.replace(WRITE_TOKEN, "wrong"), 10, "401"),
        (post.replace("Authorization: ", "X-Other: "), 10, "401"),
        (post.clone(), 200_000, "413"),
        (wrong_type, 10, "415"),
        (format!("{post}Idempotency-Key: two words\r\n"), 10, "400"),
        (format!("{patch}If-Match: a\r\n"), 10, "400"),
        (head("POST", "/api/v1/products/%FF/comments"), 10, "400"),
        (head("POST", "/nowhere"), 10, "404"),
        (head("PUT", &comments), 10, "405"),
    ] {
        let request = expecting(&head, length);
        let answers = api.http.answer_to_cut_bytes(&request).await;
        assert_eq!(statuses(&answers), [status], "{head}: {answers}");
        assert!(
            answers.to_ascii_lowercase().contains("connection: close"),
            "{answers}"
        );
    }

    let mut stream = api.http.connect().await;
    let announced = expecting(&post, body.len());
    stream.write_all(announced.as_bytes()).await.unwrap();
    let mut asked = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    stream.read_exact(&mut asked).await.unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).await.unwrap();
    stream.write_all(LAST.as_bytes()).await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert_eq!(
        statuses(&rest),
        ["201", "200"],
        "the connection stays open: {rest}"
    );

    // The API need not request a body that the client sends without waiting.
    let mut request = expecting(&format!("{post}Connection: close\r\n"), body.len());
    request.push_str(&body);
    let answers = api.http.answer_to_cut_bytes(&request).await;
    assert_eq!(statuses(&answers).last(), Some(&"201"), "{answers}");
    assert_eq!(Contents::read(&stores.table).await.primary.len(), 2);
    api.finish_with(stores).await;
}

#[tokio::test]
async fn nothing_is_processed_after_the_last_answer_of_a_connection() {
    let stores = Stores::start().await;
    let api = Served::of(&stores);
    let comments = format!("{}/comments", product_path(PRODUCT));
    let body = good_comment("en", 5, "Body").to_string();
    let post = head("POST", &comments);
    let refused = post.replace(WRITE_TOKEN, "wrong");
    let large = "x".repeat(200_000);
    // The request that follows would create a comment.
    let behind = sized(&post, &body);
    for (first, status) in [
        (sized(&post, &large), "413"),
        (chunked(&post, &large), "413"),
        (sized(&refused, &body), "401"),
        (chunked(&refused, &body), "401"),
        (sized("GET /livez HTTP/1.1\r\nHost: api\r\n", "body"), "200"),
        (LAST.to_owned(), "200"),
        ("GET /livez HTTP/1.0\r\nHost: api\r\n\r\n".to_owned(), "200"),
        (sized(&format!("{post}Connection: close\r\n"), "{}"), "400"),
    ] {
        let answers = api
            .http
            .answer_to_cut_bytes(&format!("{first}{behind}{behind}"))
            .await;
        let statuses: Vec<&str> = answers
            .split("HTTP/1.")
            .skip(1)
            .map(|answer| &answer[2..5])
            .collect();
        assert_eq!(statuses, [status], "{first:.300}: {answers}");
        // In HTTP/1.0 the connection closes by default.
        if !first.contains("HTTP/1.0") {
            let answers = answers.to_ascii_lowercase();
            assert!(answers.contains("connection: close"), "{answers}");
        }
    }
    let created = Contents::read(&stores.table).await.primary;
    assert_eq!(created.len(), 0, "nothing was created");

    let empty = sized(&post, "{}");
    let answers = api
        .http
        .answer_to_cut_bytes(&format!("{behind}{empty}{LAST}"))
        .await;
    assert_eq!(
        statuses(&answers),
        ["201", "400", "200"],
        "requests before the last are processed: {answers}"
    );
    api.finish_with(stores).await;
}
