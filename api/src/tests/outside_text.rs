//! Property tests: every request and every setting is read or refused, with any content.
//!
//! The requests go to the whole service, so they reach every parser behind it: of paths, queries,
//! cursors, bodies and headers. Its stores are out of reach, and it does not wait for them.

use std::{fmt::Display, str::FromStr, time::Duration};

use actix_web::{
    http::{
        Method, StatusCode, Uri,
        header::{HeaderName, HeaderValue},
    },
    rt::System,
    test::{TestRequest, init_service, try_call_service},
};
use proptest::{
    prelude::*,
    sample::select,
    test_runner::{TestCaseResult, TestRunner},
};

use crate::{
    ApiSettings, BearerToken, CursorKey, NamedToken, PublicUrl, TokenHash,
    http::path_and_query::{decode, pairs},
    json::tests::{service_with, settings},
    links,
    service::Service,
};

/// A part of a path, or a value in a query: percent-encoded text, well-formed or not.
const PART: &str =
    r"([a-zA-Z0-9.~!$&'()*+,;=:@_-]|%[0-9A-Fa-f]{2}){0,8}|%?[0-9a-g]{0,3}|\.{1,2}|%2[eE](%2[eE])?";
/// Half of them at the edges of time.
const INSTANT: &str = r"(0000-01-01|0001-01-01|9999-12-31)T(00:00:00|23:59:(59|60))(\.9{1,10})?(Z|-00:01|-23:59|%2B00:01|%2B23:59)|[0-9]{4}-(01|12)-(01|31)T(00|23)(:|%3A)(00|59):(59|60)(Z|-[0-9]{2}:00)";
const NUMBER: &str = "[+-]?[0-9]{0,21}";
const CURSOR: &str = "[A-Za-z0-9_-]{0,130}={0,2}";
const LANGUAGE: &str = "[A-Za-z]{1,9}([-_][A-Za-z0-9]{1,9}){0,4}|~";
const RATINGS: &str = r"[0-6](\.[0-6]){0,4}|~";

fn method() -> impl Strategy<Value = Method> {
    select(
        [
            "GET", "GET", "GET", "GET", "HEAD", "POST", "POST", "PUT", "PATCH", "DELETE",
            "OPTIONS", "BREW",
        ]
        .as_slice(),
    )
    .prop_map(|name| Method::from_bytes(name.as_bytes()).unwrap())
}

/// The values for a `{}` of a path's template.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![4 => PART, 1 => NUMBER, 1 => LANGUAGE, 1 => RATINGS]
}

fn path() -> impl Strategy<Value = String> {
    const TEMPLATES: &[&str] = &[
        "/api/v1/products/{}/comments",
        "/api/v1/products/{}/comments",
        "/api/v1/products/{}/stats",
        "/api/v1/products/{}",
        "/api/v1/comments/{}",
        "/api/v1/comments/{}/position",
        "/product/{}/comments",
        "/product/{}/comments/{}/{}",
        "/product/{}/feed/{}/{}",
        "/comments/{}",
        "/sitemap/{}.xml",
        "/sitemap/{}-{}.xml",
        "/static/{}",
        "/{}/{}",
    ];
    let any = (select(TEMPLATES), [part(), part(), part()]).prop_map(|(template, parts)| {
        parts.iter().fold(template.to_owned(), |path, part| {
            path.replacen("{}", part, 1)
        })
    });
    // Paths whose parameters, headers and body are read.
    let good = select(["/api/v1/comments/c", "/product/p/comments"].as_slice());
    prop_oneof![2 => any, 1 => good.prop_map(str::to_owned), 2 => Just("/api/v1/products/p/comments".to_owned())]
}

fn query() -> impl Strategy<Value = String> {
    let pair = prop_oneof![
        ("page|p%61ge|page_size", NUMBER),
        ("as_of", INSTANT),
        ("date", "[0-9]{4}-[01][0-9](-[0-3][0-9])?"),
        ("year", NUMBER),
        ("cursor", CURSOR),
        ("language", LANGUAGE),
        ("rating", RATINGS),
        ("order", "newest|oldest|highest|lowest|[a-z]{0,3}"),
        ("[a-z]{1,3}|order|language|cursor|as_of", PART),
        (PART, PART),
    ];
    let pair = pair
        .prop_map(|(name, value)| format!("{name}={value}"))
        .boxed();
    // Several random values are rarely all valid.
    prop_oneof![3 => pair.clone(), 1 => prop::collection::vec(pair, 0..4).prop_map(|pairs| pairs.join("&"))]
}

/// Headers that the service reads, and values that are nearly right.
const HEADERS: &[(&[&str], &str)] = &[
    (
        &["if-match", "if-none-match"],
        r#"((W/)?"[0-9A-Z ]{0,26}"?[, \t]{0,2}){0,4}|\*"#,
    ),
    (&["x-forwarded-for"], "([0-9a-f:.]{0,46}[, ]{0,2}){0,4}"),
    (&["idempotency-key", "x-request-id"], "[!-~]{0,300}"),
    (
        &["accept-encoding"],
        r"((br|gzip|identity|\*)(;q=[0-9.]{0,6})?, ?){0,4}",
    ),
    (
        &["origin", "host"],
        r"(https?://)?[a-z.\[:\]]{0,12}(:[0-9]{0,6})?",
    ),
    (&["content-length"], "[0-9]{1,21}"),
    (
        &[
            "content-type",
            "content-encoding",
            "authorization",
            "user-agent",
            "access-control-request-method",
        ],
        "[ -~]{0,40}",
    ),
];

fn header() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    let names: Vec<&str> = HEADERS
        .iter()
        .flat_map(|(names, _)| *names)
        .copied()
        .collect();
    let near = select(HEADERS)
        .prop_flat_map(|(names, pattern)| (select(names), pattern.prop_map(String::into_bytes)));
    prop_oneof![8 => near, 1 => (select(names), prop::collection::vec(any::<u8>(), 0..40))]
}

fn body() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    const JSON: &str = r#"\{("(language|rating|body|title|author|name|url|gtin|x)":("(en|[a-z\\u0-9]{0,9})"|-?[0-9]{1,3}(\.[0-9]{1,2})?(e[0-9]{1,4})?|null|\[|\{\}),?){0,6}\}?"#;
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    (
        Just("application/json"),
        prop_oneof![3 => JSON.prop_map(String::into_bytes), 1 => bytes],
    )
}

/// A request that the server passes on: HTTP allows its target and its headers.
#[derive(Debug, Clone)]
struct Sent {
    method: Method,
    target: String,
    headers: Vec<(&'static str, HeaderValue)>,
    body: Vec<u8>,
}

fn request() -> impl Strategy<Value = Sent> {
    let headers = prop::collection::vec(header(), 0..5);
    (method(), path(), query(), headers, body())
        .prop_map(|(method, path, query, headers, (media_type, body))| {
            let basic = [
                ("authorization", b"Bearer secret".to_vec()),
                ("content-type", media_type.as_bytes().to_vec()),
            ];
            let headers = basic.into_iter().chain(headers);
            let headers = headers
                .filter_map(|(name, value)| Some((name, HeaderValue::from_bytes(&value).ok()?)));
            Sent {
                method,
                target: format!("{path}?{query}"),
                headers: headers.collect(),
                body,
            }
        })
        .prop_filter("a target that HTTP allows", |sent| {
            sent.target.parse::<Uri>().is_ok()
        })
}

#[test]
fn no_request_makes_the_service_fail() {
    let settings = ApiSettings {
        // A request has been read by the time a store would be called.
        request_timeout: Duration::from_millis(2),
        body_timeout: Duration::from_millis(2),
        proxies: 1,
        ..settings(&["secret"])
    };
    let system = System::new();
    let service = system.block_on(service_with(settings));
    let app = system.block_on(init_service(service.app(Service::configure_all)));
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 10_000,
        ..ProptestConfig::default()
    });
    let ran = runner.run(&request(), |sent| {
        let mut request = TestRequest::default()
            .method(sent.method)
            .uri(&sent.target)
            .set_payload(sent.body);
        for (name, value) in sent.headers {
            request = request.append_header((HeaderName::from_static(name), value));
        }
        let status = system.block_on(async {
            match try_call_service(&app, request.to_request()).await {
                Ok(answer) => answer.status(),
                Err(error) => error.error_response().status(),
            }
        });
        prop_assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR);
        prop_assert_eq!(service.load.under_way(), 0, "a permit was not released");
        Ok(())
    });
    ran.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Asserts that a parsed value reads back from its own spelling.
fn check<T: FromStr + Display + PartialEq>(text: &str) -> TestCaseResult {
    if let Ok(read) = text.parse::<T>() {
        prop_assert!(
            read.to_string()
                .parse::<T>()
                .is_ok_and(|again| again == read),
            "{:?}",
            text
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_setting_is_read_or_refused(
        url in r"(https?|HTTP|ftp)://[a-zA-Z0-9.\[\]:_@-]{0,20}(:[0-9]{0,6})?/?|.{0,20}",
        hash in "(sha256:)?[0-9a-fA-Fé]{62,65}|.{0,20}",
        token in "[a-z._-]{0,3}/(comments:(write|moderate)|products:write|[+:a-z]{0,3})([+]products:write)?|.{0,20}",
    ) {
        check::<PublicUrl>(&url)?;
        check::<TokenHash>(&hash)?;
        check::<NamedToken>(&format!("{token}/{hash}"))?;
        prop_assert_eq!(hash.parse::<CursorKey>().is_ok(), hash.len() == 64 && !hash.contains(['é', ':']));
        if let Ok(token) = url.parse::<BearerToken>() {
            prop_assert_eq!(token.hash(), TokenHash::of(&url));
        }
    }

    #[test]
    fn percent_encoded_text_is_decoded_or_refused(encoded in PART, any in ".{0,20}", product in ".{1,20}") {
        for text in [&encoded, &any] {
            if let Some(decoded) = decode(text) {
                prop_assert!(decoded.len() <= text.len());
            }
            pairs(text).for_each(drop);
        }
        if let Ok(product) = model::ProductId::parse(&product) {
            let path = links::product_page(&product);
            let decoded = path.split('/').nth(2).and_then(decode);
            prop_assert_eq!(decoded.as_deref(), Some(product.as_str()));
        }
    }

    #[test]
    fn a_part_of_the_sitemap_has_one_spelling(file in r"[0-9]{0,6}-[0-9]{0,21}(\.xml)?|\+?0{0,2}[0-9]-[0-9]\.xml|.{0,9}") {
        if let Some((partition, part)) = links::parse_sitemap_part(&file) {
            prop_assert_eq!(links::sitemap_part(partition, part), format!("/sitemap/{file}"));
        }
    }
}
