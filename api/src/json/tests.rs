//! Tests of routes whose answers need no store.

use actix_web::{
    body::to_bytes,
    http::{Method, StatusCode, header},
    test::{TestRequest, init_service, try_call_service},
};
use deployed_index::PageIndexSettings;
use serde_json::Value;
use table::{Table, TableConfig};

use crate::{ApiSettings, NamedToken, TokenHash, WritingSettings, service::Service};

struct Answer {
    status: StatusCode,
    headers: header::HeaderMap,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        Some(self.headers.get(name)?.to_str().unwrap())
    }

    fn problem(&self) -> Value {
        assert_eq!(
            self.headers.get(header::CONTENT_TYPE).unwrap(),
            "application/problem+json",
            "{}",
            self.body
        );
        let problem: Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!(problem["status"], self.status.as_u16());
        problem
    }
}

/// A service whose stores are out of reach: no program listens at port 1.
pub(crate) async fn service_with(settings: ApiSettings) -> Service {
    let table = Table::connect(&TableConfig::new(
        "comments",
        Some("http://127.0.0.1:1".to_owned()),
    ))
    .await;
    let index = deployed_index::connect(&PageIndexSettings::new("redis://127.0.0.1:1")).unwrap();
    Service::new(table, index, settings, ([127, 0, 0, 1], 8080).into()).unwrap()
}

/// Like [`service_with`], with the token `secret`.
pub(crate) async fn service() -> Service {
    service_with(settings(&["secret"])).await
}

async fn ask_with(request: TestRequest, settings: ApiSettings) -> Answer {
    let service = service_with(settings).await;
    let app = init_service(service.app(Service::configure_all)).await;
    let answer = match try_call_service(&app, request.to_request()).await {
        Ok(answer) => answer.into_parts().1,
        // The server itself turns the error into an answer.
        Err(error) => error.error_response(),
    };
    let status = answer.status();
    let headers = answer.headers().clone();
    let body = String::from_utf8(to_bytes(answer.into_body()).await.unwrap().to_vec()).unwrap();
    Answer {
        status,
        headers,
        body,
    }
}

pub(crate) fn settings(tokens: &[&str]) -> ApiSettings {
    let named = tokens
        .iter()
        .map(|token| NamedToken::of_all_scopes(token.parse().unwrap(), TokenHash::of(token)));
    let writing = WritingSettings {
        tokens: named.collect(),
        ..WritingSettings::default()
    };
    ApiSettings {
        writing,
        ..ApiSettings::default()
    }
}

async fn ask(request: TestRequest) -> Answer {
    ask_with(request, settings(&["secret"])).await
}

#[actix_web::test]
async fn a_page_takes_a_product_exactly_or_refuses_it_by_name() {
    for part in [
        "%FF",
        "%E2%98",
        "%00",
        "%0A",
        "%7F",
        "%C2%85",
        "..",
        "%2E%2E",
        "%2e",
        "100%",
        "%zz",
        &"x".repeat(201),
    ] {
        let page = ask(TestRequest::with_uri(&format!("/product/{part}/comments"))).await;
        assert_eq!(page.status, StatusCode::BAD_REQUEST, "{part}");
        assert!(page.body.contains("product: "), "{}", page.body);
        for address in ["comments", "stats"].map(|of| format!("/api/v1/products/{part}/{of}")) {
            assert_eq!(
                ask(TestRequest::with_uri(&address)).await.problem()["field"],
                "product",
                "{part}"
            );
        }
        let post = TestRequest::post().insert_header((header::AUTHORIZATION, "Bearer secret"));
        let posted = ask(post
            .uri(&format!("/api/v1/products/{part}/comments"))
            .set_json(Value::Null))
        .await;
        assert_eq!(
            (posted.status, posted.problem()["field"].as_str()),
            (StatusCode::BAD_REQUEST, Some("product"))
        );
    }
}

#[actix_web::test]
async fn without_stores_reading_is_503_and_never_404() {
    let odd = "assurance%2Fdirect%23%7E%25%7B%22%E2%98%95%D7%A7";
    for uri in [
        format!("/api/v1/products/{odd}/comments"),
        format!("/api/v1/products/{odd}/comments?page=2"),
        "/api/v1/products/p/stats".to_owned(),
        "/api/v1/comments/c1".to_owned(),
        // In the canonical spelling of pages, an unreserved character is not encoded.
        format!(
            "/product/{}/comments/en/1.5?page=2",
            odd.replace("%7E", "~")
        ),
        "/comments/c1".to_owned(),
        "/api/v1/products".to_owned(),
        "/products?page=999".to_owned(),
        "/sitemap.xml".to_owned(),
        "/sitemap/0-1.xml".to_owned(),
        "/product/p/comments?date=2024-05".to_owned(),
        "/api/v1/products/p/comments?date=2024-05".to_owned(),
        "/readyz".to_owned(),
    ] {
        let answer = ask(TestRequest::with_uri(&uri)).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{uri}");
        assert!(
            !answer.body.contains("127.0.0.1"),
            "internals are shown: {}",
            answer.body
        );
        if uri != "/readyz" {
            assert!(answer.headers.contains_key(header::RETRY_AFTER), "{uri}");
        }
    }
    assert_eq!(
        ask(TestRequest::with_uri("/livez")).await.status,
        StatusCode::OK
    );
}

#[actix_web::test]
async fn unknown_addresses_and_methods_are_answered_in_the_readers_format() {
    for uri in [
        "/api",
        "/api/v1",
        "/api/v1/products/p/comments/",
        "/api/v2/x",
    ] {
        let answer = ask(TestRequest::with_uri(uri)).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{uri}");
        assert_eq!(
            answer.problem()["type"],
            "urn:pagemark:problem:no-such-address"
        );
    }
    let page = ask(TestRequest::with_uri("/nothing")).await;
    assert_eq!(page.status, StatusCode::NOT_FOUND);
    assert!(page.body.starts_with("<!doctype html>"));
    let put = ask(TestRequest::with_uri("/api/v1/comments/c1").method(Method::PUT)).await;
    assert_eq!(put.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(
        put.headers.get(header::ALLOW).unwrap(),
        "GET, HEAD, PATCH, DELETE"
    );
    put.problem();
    let post = ask(TestRequest::post().uri("/product/p/comments")).await;
    assert_eq!(post.headers.get(header::ALLOW).unwrap(), "GET, HEAD");
}

#[actix_web::test]
async fn writing_without_a_token_is_refused() {
    let uri = "/api/v1/products/p/comments";
    let missing = ask(TestRequest::post().uri(uri)).await;
    assert_eq!(missing.status, StatusCode::UNAUTHORIZED);
    assert_eq!(
        missing.headers.get(header::WWW_AUTHENTICATE).unwrap(),
        "Bearer"
    );
    let with_token = (header::AUTHORIZATION, "Bearer secret");
    let off = TestRequest::post().uri(uri).insert_header(with_token);
    let off = ask_with(off, settings(&[])).await;
    assert_eq!(off.status, StatusCode::FORBIDDEN);
    assert!(
        off.problem()["detail"]
            .as_str()
            .unwrap()
            .contains("without a token that has the scope comments:write")
    );
}

#[actix_web::test]
async fn the_start_page_and_its_style_need_no_store() {
    let page = ask(TestRequest::with_uri("/")).await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(
        page.headers
            .get(header::CONTENT_TYPE)
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("text/html")
    );
    let loaded: Vec<&str> = page
        .body
        .split('"')
        .filter(|text| text.starts_with("/static/"))
        .collect();
    assert_eq!(loaded.len(), 2, "{}", page.body);
    for file in loaded {
        assert_eq!(
            ask(TestRequest::with_uri(file)).await.status,
            StatusCode::OK,
            "{file}"
        );
    }
}

#[actix_web::test]
async fn every_answer_names_its_request() {
    let given = TestRequest::with_uri("/nothing").insert_header(("X-Request-Id", "caller-7"));
    assert_eq!(
        ask(given).await.headers.get("x-request-id").unwrap(),
        "caller-7"
    );
    // A cache would give the caller's id to others.
    let kept = TestRequest::with_uri("/openapi.json").insert_header(("X-Request-Id", "caller-7"));
    assert_eq!(ask(kept).await.headers.get("x-request-id"), None);
    let made = ask(TestRequest::with_uri("/nothing")).await;
    assert_eq!(made.headers.get("x-request-id").unwrap().len(), 26);
}

#[actix_web::test]
async fn requests_beyond_the_limit_are_refused_at_once() {
    let no_requests = ApiSettings {
        in_flight_max: 0,
        ..settings(&["secret"])
    };
    for uri in ["/api/v1/products/p/comments", "/api/v1/comments/c1"] {
        let answer = ask_with(TestRequest::with_uri(uri), no_requests.clone()).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.problem()["type"], "urn:pagemark:problem:overloaded");
        assert!(answer.headers.contains_key(header::RETRY_AFTER));
    }
    let request = TestRequest::with_uri("/product/p/comments");
    let page = ask_with(request, no_requests.clone()).await;
    assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(page.body.starts_with("<!doctype html>"));
    for uri in ["/livez", "/metrics"] {
        let answer = ask_with(TestRequest::with_uri(uri), no_requests.clone()).await;
        assert_eq!(answer.status, StatusCode::OK);
    }
}

#[actix_web::test]
async fn scripts_of_other_sites_may_read_all_answers_but_not_write() {
    for (uri, status) in [
        ("/openapi.json", 200),
        ("/api/v1/products/p/comments?page=0", 400),
        ("/api/v1/nothing", 404),
    ] {
        let answer =
            ask(TestRequest::with_uri(uri).insert_header((header::ORIGIN, "https://shop.example")))
                .await;
        assert_eq!(answer.status.as_u16(), status, "{uri}");
        assert_eq!(
            answer.header("access-control-allow-origin"),
            Some("*"),
            "{uri}"
        );
        let exposed = answer.header("access-control-expose-headers").unwrap();
        assert!(
            ["ETag", "Link", "Retry-After", "X-Request-Id"]
                .iter()
                .all(|name| exposed.contains(name)),
            "{exposed}"
        );
    }
    // A page does not need this.
    let page = ask(TestRequest::with_uri("/product/p/comments?page=0")).await;
    assert_eq!(page.header("access-control-allow-origin"), None);

    for wanted in ["GET", "POST", "DELETE"] {
        let preflight = TestRequest::with_uri("/api/v1/products/p/comments")
            .method(Method::OPTIONS)
            .insert_header((header::ORIGIN, "https://shop.example"))
            .insert_header((header::ACCESS_CONTROL_REQUEST_METHOD, wanted));
        let answer = ask(preflight).await;
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (StatusCode::NO_CONTENT, "")
        );
        assert_eq!(
            answer.header("access-control-allow-methods"),
            Some("GET, HEAD")
        );
        let allowed = answer.header("access-control-allow-headers").unwrap();
        assert!(
            !allowed.to_lowercase().contains("authorization"),
            "{allowed}"
        );
    }
    let no_preflight = TestRequest::with_uri("/api/v1/products/p/comments").method(Method::OPTIONS);
    assert_eq!(
        ask(no_preflight).await.status,
        StatusCode::METHOD_NOT_ALLOWED
    );
}
