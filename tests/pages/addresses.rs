//! Every page has one address, and every other spelling leads there in one step. Pages are counted from the newest comment
//! here; `stable` has those with stable numbers.

use hyper::Method;
use local_stack::stack::StackSettings;

use super::{SITE, comment, html::Page, newest_first, start, three_pages};
use crate::fixture::{
    http::{Answer, Http},
    stack::Running,
};

/// Asserts that an address redirects to another for each method, and that the other does not redirect.
pub(super) async fn assert_moved(http: &Http, from: &str, to: &str) {
    for method in [Method::GET, Method::HEAD] {
        let answer = http.send(method, from, &[], b"").await;
        assert_eq!((answer.status, answer.header("location")), (301, Some(to)), "{answer:?}");
        assert_eq!(answer.body, "");
    }
    assert_eq!(Page::get(http, to, 200).await.canonical(), Some(format!("{SITE}{to}")));
}

pub(super) fn assert_leads_to(answer: &Answer, to: &str) {
    assert_eq!((answer.status, answer.header("location")), (302, Some(to)), "{answer:?}");
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{answer:?}");
}

#[tokio::test]
async fn every_spelling_of_an_address_redirects_to_the_canonical_one() {
    let mut comments = three_pages("p");
    comments.push(comment("p", "pt-BR", 3, 45));
    comments.extend(three_pages("a/b c~d"));
    let mut some = three_pages("few");
    some.truncate(3);
    comments.extend(some);
    let running = start(newest_first(), &comments).await;
    let http = &running.http;
    for (to, others) in [
        ("", vec!["?page=1", "/", "/~", "/~/~", "/~?page=1&utm_source=x", "/~/1.2.3.4.5/", "?order=newest"]),
        ("?page=2", vec!["/?page=2", "?page=2&order=newest"]),
        ("?page=3", vec!["/%7E/%7e?page=3", "?page=03", "?page=+3", "?page=%2B3", "?pag%65=3"]),
        ("?page=3", vec!["/~?utm_source=x&page=3&fbclid=y"]),
        ("/en", vec!["/EN", "/en/~", "/en/", "/e%6e", "/en/5.4.3.2.1"]),
        ("/pt-BR", vec!["/pt-br"]),
        ("/~/1.5", vec!["/~/5.1", "/~/1.1.5"]),
        ("?order=oldest&page=2", vec!["?page=2&order=oldest"]),
        ("?order=oldest", vec!["?order=oldest&page=1"]),
        ("/en?order=oldest", vec!["/en/~?utm_source=x&order=%6Fldest"]),
    ] {
        for from in others {
            assert_moved(http, &format!("/product/p/comments{from}"), &format!("/product/p/comments{to}")).await;
        }
    }
    for spelling in ["a%2fb%20c~d", "a%2Fb%20c%7Ed", "%61%2Fb%20c~d"] {
        let to = "/product/a%2Fb%20c~d/comments?page=2";
        assert_moved(http, &format!("/product/{spelling}/comments?page=2"), to).await;
    }
    running.finish().await;
}

#[tokio::test]
async fn other_parameters_are_ignored_and_invalid_ones_are_refused() {
    let running = start(newest_first(), &three_pages("p")).await;
    let http = &running.http;
    for query in ["?utm_source=newsletter&page=2", "?page=2&x", "?page=2&orders=7&rating=1&&=", "?%FF=%FF&page=2"] {
        let page = Page::get(http, &format!("/product/p/comments{query}"), 200).await;
        assert_eq!(page.canonical().unwrap(), format!("{SITE}/product/p/comments?page=2"), "{query}");
        assert_eq!(page.all("article").len(), 20);
    }
    for (named, targets) in [
        ("rating", vec!["/~/6", "/~/5.", "/~/4-5"]),
        ("language", vec!["/e", "/%FF"]),
        ("page", vec!["?page=0", "?page=x", "?page=", "?page=2&page=2", "?page=99999999999999999999"]),
        ("order", vec!["?order=latest", "?order=oldest&order=oldest"]),
    ] {
        for target in targets {
            let page = Page::get(http, &format!("/product/p/comments{target}"), 400).await;
            assert!(page.text("main").contains(&format!("{named}: ")), "{}", page.answer.body);
            assert_eq!(page.robots(), "noindex,follow");
        }
    }
    for target in ["/product/p", "/product/p/comments/en/5/1", "/product/p/comments//5", "/product//comments"] {
        assert_eq!(Page::get(http, target, 404).await.robots(), "noindex,follow");
    }
    running.finish().await;
}

/// Requests pages past the end.
async fn past_the_end(settings: StackSettings) -> (Running, Vec<Answer>) {
    let running = start(settings, &three_pages("p")).await;
    let mut answers = Vec::new();
    for target in ["p/comments?page=4", "p/comments?page=1000000000000", "p/comments/~/1?page=2", "q/comments?page=2"] {
        answers.push(running.http.get(&format!("/product/{target}")).await);
    }
    (running, answers)
}

#[tokio::test]
async fn a_page_past_the_end_is_404_with_links_to_pages_that_exist() {
    let (running, answers) = past_the_end(newest_first()).await;
    assert!(answers.iter().all(|answer| answer.status == 404), "{answers:?}");
    let page = Page::get(&running.http, "/product/p/comments/en?page=9", 404).await;
    assert_eq!((page.robots().as_str(), page.canonical()), ("noindex,follow", None));
    let links = page.links("main a");
    let expected = ["/product/p/comments/en?page=2", "/product/p/comments/en", "/product/p/comments", "/"];
    assert_eq!(links, expected);
    for link in links {
        assert_eq!(running.http.get(link).await.status, 200, "{link}");
    }
    let page = Page::get(&running.http, "/product/p/comments/en?order=oldest&page=9", 404).await;
    let links = page.links("main a");
    let expected =
        ["/en?order=oldest&page=2", "/en?order=oldest", "?order=oldest"].map(|to| format!("/product/p/comments{to}"));
    assert_eq!(links[..3], expected);
    running.finish().await;
}

#[tokio::test]
async fn a_page_past_the_end_redirects_to_the_last_one_if_configured() {
    let mut settings = newest_first();
    settings.site.past_the_end = api::PastTheEnd::Redirect;
    let (running, answers) = past_the_end(settings).await;
    let expected = ["p/comments?page=3", "p/comments?page=3", "p/comments/~/1", "q/comments"];
    for (answer, to) in answers.iter().zip(expected) {
        assert_leads_to(answer, &format!("/product/{to}"));
    }
    let answer = running.http.get("/product/p/comments?order=oldest&page=4").await;
    assert_leads_to(&answer, "/product/p/comments?order=oldest&page=3");
    running.finish().await;
}

#[tokio::test]
async fn a_permalink_leads_to_the_page_that_shows_the_comment() {
    let comments = three_pages("p");
    let running = start(newest_first(), &comments).await;
    for (number, page) in [(44, ""), (24, "?page=2"), (0, "?page=3")] {
        let id = comments[number].id.as_str();
        let answer = running.http.get(&format!("/comments/{id}")).await;
        assert_leads_to(&answer, &format!("/product/p/comments{page}#comment-{id}"));
        let page = Page::get(&running.http, &format!("/product/p/comments{page}"), 200).await;
        assert_eq!(page.all(&format!("article[id='comment-{id}']")).len(), 1);
    }
    Page::get(&running.http, "/comments/nobody", 404).await;
    running.finish().await;
}
