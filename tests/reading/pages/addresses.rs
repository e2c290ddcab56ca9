//! Every page has one address, and every other spelling leads there in one step.

use hyper::Method;

use super::{SITE, comment, html::Page, site_settings, start, three_pages};
use crate::fixture::http::{Answer, Http};

/// Asserts that an address redirects to a canonical one for each method. The target has the
/// parameters of campaigns that the request had, and does not redirect.
pub(super) async fn assert_moved(http: &Http, from: &str, canonical: &str, campaign: &str) {
    let mut to = canonical.to_owned();
    if !campaign.is_empty() {
        to.push(if canonical.contains('?') { '&' } else { '?' });
        to.push_str(campaign);
    }

    for method in [Method::GET, Method::HEAD] {
        let answer = http.send(method, from, &[], b"").await;
        assert_eq!(answer.status, 301, "{answer:?}");
        assert_eq!(answer.header("location"), Some(to.as_str()), "{answer:?}");
        assert_eq!(answer.body, "");
    }
    let page = Page::get(http, &to, 200).await;
    assert_eq!(page.canonical(), Some(format!("{SITE}{canonical}")));
}

pub(super) fn assert_leads_to(answer: &Answer, to: &str) {
    assert_eq!(answer.status, 302, "{answer:?}");
    assert_eq!(answer.header("location"), Some(to), "{answer:?}");
    assert_eq!(
        answer.header("cache-control"),
        Some("no-store"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn every_spelling_of_an_address_redirects_to_the_canonical_one() {
    let mut comments = three_pages("p");
    comments.push(comment("p", "pt-BR", 3, 45));
    let running = start(site_settings(), &comments).await;
    let http = &running.http;
    for (to, others) in [
        (
            "",
            vec![
                "/",
                "/~",
                "/~/~",
                "/~/1.2.3.4.5/",
                "?order=newest",
                "?language=&rating=",
            ],
        ),
        ("?page=1", vec!["/?page=1", "?page=1&order=newest"]),
        (
            "?page=1",
            vec![
                "/%7E/%7e?page=1",
                "?page=01",
                "?page=+1",
                "?page=%2B1",
                "?pag%65=1",
            ],
        ),
        (
            "/en",
            vec!["/EN", "/en/~", "/en/", "/eng", "/e%6e/", "/en/5.4.3.2.1"],
        ),
        ("/pt-BR", vec!["/pt-br"]),
        ("/~/1.5", vec!["/~/5.1", "/~/1.1.5"]),
        ("?order=oldest", vec!["?order=oldest&page=1"]),
        ("/en?order=oldest", vec!["/en/~?order=%6Fldest"]),
        // The spelling of the API.
        ("/en", vec!["?language=en", "?language=EN&rating="]),
        ("/~/1.5", vec!["?rating=1&rating=5", "?rating=5&rating=1"]),
        (
            "/en/1.5",
            vec!["/en?rating=1&rating=5", "/~/1.5?language=en"],
        ),
    ] {
        for from in others {
            let from = format!("/product/p/comments{from}");
            let to = format!("/product/p/comments{to}");
            assert_moved(http, &from, &to, "").await;
        }
    }
    for (from, to, campaign) in [
        ("/~?utm_source=x", "", "utm_source=x"),
        (
            "/~?utm_source=x&page=1&fbclid=y%20z",
            "?page=1",
            "utm_source=x&fbclid=y%20z",
        ),
    ] {
        let from = format!("/product/p/comments{from}");
        let to = format!("/product/p/comments{to}");
        assert_moved(http, &from, &to, campaign).await;
    }
    running.finish().await;
}

#[tokio::test]
async fn other_parameters_and_their_order_are_ignored_and_invalid_ones_are_refused() {
    let running = start(site_settings(), &three_pages("p")).await;
    let http = &running.http;
    for (query, canonical) in [
        ("?utm_source=newsletter&page=1", "?page=1"),
        ("?page=1&x", "?page=1"),
        ("?page=1&orders=7&ratings=1&&=", "?page=1"),
        ("?%FF=%FF&page=1", "?page=1"),
        ("?page=2&order=oldest", "?order=oldest&page=2"),
        ("?page=2&gclid=x&order=oldest", "?order=oldest&page=2"),
    ] {
        let page = Page::get(http, &format!("/product/p/comments{query}"), 200).await;
        assert_eq!(
            page.canonical().unwrap(),
            format!("{SITE}/product/p/comments{canonical}"),
            "{query}"
        );
        assert_eq!(page.all("article").len(), 20);
    }
    for (named, targets) in [
        (
            "rating",
            vec!["/~/6", "/~/5.", "/~/4-5", "?rating=6", "/~/5?rating=4"],
        ),
        (
            "language",
            vec!["/e", "/%FF", "?language=e", "/en?language=de"],
        ),
        (
            "page",
            vec![
                "?page=0",
                "?page=x",
                "?page=",
                "?page=2&page=2",
                "?page=99999999999999999999",
            ],
        ),
        ("order", vec!["?order=latest", "?order=oldest&order=oldest"]),
    ] {
        for target in targets {
            let page = Page::get(http, &format!("/product/p/comments{target}"), 400).await;
            assert!(
                page.text("main").contains(&format!("{named}: ")),
                "{}",
                page.answer.body
            );
            assert_eq!(page.robots(), "noindex,follow");
        }
    }
    for target in [
        "/product/p",
        "/product/p/comments/en/5/1",
        "/product/p/comments//5",
        "/product//comments",
    ] {
        let page = Page::get(http, target, 404).await;
        assert_eq!(page.robots(), "noindex,follow");
    }
    running.finish().await;
}

const PAST_THE_END: [(&str, &str); 6] = [
    ("/product/p/comments?page=3", "/product/p/comments"),
    (
        "/product/p/comments?page=1000000000000",
        "/product/p/comments",
    ),
    ("/product/p/comments/en?page=2", "/product/p/comments/en"),
    ("/product/q/comments?page=2", "/product/q/comments"),
    (
        "/product/p/comments?order=oldest&page=4",
        "/product/p/comments?order=oldest&page=3",
    ),
    (
        "/product/p/comments/~/1?order=oldest&page=2",
        "/product/p/comments/~/1?order=oldest",
    ),
];

#[tokio::test]
async fn a_page_past_the_end_is_404_with_links_to_pages_that_exist() {
    let running = start(site_settings(), &three_pages("p")).await;
    let http = &running.http;
    for (target, _) in PAST_THE_END {
        let page = Page::get(http, target, 404).await;
        assert_eq!(page.robots(), "noindex,follow");
        assert_eq!(page.canonical(), None);
        for link in page.links("main a") {
            assert_eq!(http.get(link).await.status, 200, "{target}: {link}");
        }
    }
    let all = "/product/p/comments";
    let page = Page::get(http, &format!("{all}/en?page=9"), 404).await;
    assert_eq!(page.links("main a"), ["/product/p/comments/en", all, "/"]);
    let page = Page::get(http, &format!("{all}/en?order=oldest&page=9"), 404).await;
    let expected = [
        "/en?order=oldest&page=2",
        "/en?order=oldest",
        "?order=oldest",
    ]
    .map(|to| format!("{all}{to}"));
    assert_eq!(page.links("main a")[..3], expected);
    running.finish().await;
}

#[tokio::test]
async fn a_page_past_the_end_redirects_to_one_that_exists_if_configured() {
    let mut settings = site_settings();
    settings.api.site.past_the_end = api::PastTheEnd::Redirect;
    let running = start(settings, &three_pages("p")).await;
    for (target, to) in PAST_THE_END {
        assert_leads_to(&running.http.get(target).await, to);
    }
    running.finish().await;
}
