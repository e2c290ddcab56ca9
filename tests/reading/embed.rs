//! A site can show comments in its own pages, as `docs/pages.md` describes.

use std::{collections::BTreeSet, path::Path};

use hyper::Method;
use itertools::Itertools;
use local_stack::settings::StackSettings;
use scraper::{Html, Selector};
use serde_json::{Value, json};

use crate::fixture::{
    browser, data,
    documents::{block, blocks},
    free_port,
    http::{Answer, Http, WRITE_TOKEN, encoded, good_comment, product_path},
    program::Program,
    stack::{Running, settings},
    web_servers::{PUBLIC_PORTS, apache, nginx, own_folder},
};

const _: crate::Engines =
    crate::Engines::Embedded("about pages; other modules prove what they read");

/// What the requests of `docs/pages.md` ask for.
const PRODUCTS: [(&str, u64); 2] = [("espresso-machine", 45), ("milk-jug", 3)];

async fn start() -> Running {
    start_with(settings()).await
}

async fn start_with(settings: StackSettings) -> Running {
    let mut running = Running::start_with(settings).await;
    let mut comments = Vec::new();
    for (product, count) in PRODUCTS {
        for number in 0..count {
            let language = ["en", "de"][usize::from(number % 3 == 0)];
            let id = format!("{product}-{number}");
            comments.push(data::new_comment(
                &id,
                &data::product(product),
                language,
                1 + number % 5,
            ));
        }
    }
    running.import(&comments).await;
    running
}

#[tokio::test]
async fn the_stats_of_100_products_are_those_of_each_one() {
    let running = start().await;
    let http = &running.http;
    let mut products = vec!["milk-jug".to_owned(), "espresso-machine".to_owned()];
    for number in 2..100 {
        products.push(format!("without-comments/{number}"));
    }
    for language in ["", "language=de", "language=fr"] {
        let asked = products
            .iter()
            .map(|product| format!("product={}", encoded(product)))
            .join("&");
        let target = format!("/api/v1/stats?{asked}&{language}");
        let answer = http.get(&target).await.expect(200);
        let summaries = answer["products"].as_array().unwrap();
        assert_eq!(summaries.len(), products.len());
        for (product, summary) in products.iter().zip(summaries) {
            let target = format!("{}/stats?{language}", product_path(product));
            let alone = http.get(&target).await.expect(200);
            let expected = json!({
                "product": alone["product"],
                "total": alone["total"],
                "by_rating": alone["by_rating"],
                "average": alone["average"],
                "last_commented_at": alone["last_commented_at"],
            });
            assert_eq!(*summary, expected);
            assert_eq!(alone["language"], answer["language"]);
        }
    }
    running.finish().await;
}

/// The parts of a text between these two marks, in their order.
fn between(text: &str, before: &str, after: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for rest in text.split(before).skip(1) {
        let (part, _) = rest.split_once(after).unwrap_or((rest, ""));
        parts.push(part.to_owned());
    }
    parts
}

/// The value of a template's placeholder, such as `products.0.total`.
fn value<'answer>(answer: &'answer Value, placeholder: &str) -> &'answer Value {
    let pointer = format!("/{}", placeholder.replace('.', "/"));
    answer
        .pointer(&pointer)
        .unwrap_or_else(|| panic!("{placeholder} is not in {answer:#}"))
}

#[tokio::test]
async fn the_requests_of_the_recipe_answer_what_its_templates_show() {
    let running = start().await;
    let mut answers = json!({});
    let mut filled = 0;
    for block in blocks("docs/pages.md") {
        match block.kind.as_str() {
            "http" => {
                answers = json!({});
                for line in block.text.lines() {
                    let (name, request) = line
                        .split_once(": GET ")
                        .unwrap_or_else(|| panic!("{line}"));
                    answers[name] = running.http.get(request).await.expect(200);
                }
            }
            "html" => {
                for placeholder in between(&block.text, "{{", "}}") {
                    let shown = value(&answers, placeholder.trim());
                    assert!(!shown.is_null(), "{placeholder}: {answers:#}");
                    filled += 1;
                }
            }
            _ => {}
        }
    }
    assert!(filled >= 8, "the document has only {filled} placeholders");
    running.finish().await;
}

/// The public URL of the tests' site. Only the proxy of the test is there.
const SITE: &str = "https://shop.example.com/reviews";

const BASE_PATH: &str = "/reviews";

/// A stack with comments on [`PRODUCTS`] that is known as [`SITE`].
async fn start_below_a_path() -> Running {
    let mut settings = settings();
    settings.api.site.public_url = Some(SITE.parse().unwrap());
    start_with(settings).await
}

fn addresses(html: &Html) -> Vec<String> {
    let mut addresses = Vec::new();
    let elements = html
        .tree
        .nodes()
        .filter_map(|node| node.value().as_element());
    for element in elements {
        for attribute in ["href", "src", "action"] {
            addresses.extend(element.attr(attribute).map(str::to_owned));
        }
    }
    addresses
}

fn article_ids(html: &Html) -> Vec<String> {
    let articles = Selector::parse("article").unwrap();
    html.select(&articles)
        .map(|article| article.attr("id").unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_fragment_is_the_list_of_its_page_with_links_to_pages() {
    let running = start_below_a_path().await;
    let http = &running.http;
    for page in ["", "/en", "/~/1.5", "?page=1", "?order=oldest&page=2"] {
        let path = format!("/product/espresso-machine/comments{page}");
        let shown = http.get(&path).await;
        let fragment = http.get(&format!("/fragment{path}")).await;
        assert_eq!(fragment.status, 200);
        assert_eq!(
            fragment.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        assert_eq!(fragment.header("x-robots-tag"), Some("noindex"));
        assert_eq!(fragment.header("access-control-allow-origin"), Some("*"));
        assert_eq!(
            fragment.header("link"),
            shown.header("link"),
            "the canonical URL is that of the page"
        );
        for frame in ["<html", "<head", "<body", "<main", "<h1", "<script"] {
            assert!(!fragment.body.contains(frame), "{frame}: {fragment:?}");
        }
        let list = Html::parse_fragment(&fragment.body);
        let whole = Html::parse_document(&shown.body);
        assert!(!article_ids(&whole).is_empty());
        assert_eq!(article_ids(&list), article_ids(&whole));
        assert!(list.errors.is_empty(), "{:?}", list.errors);
        let links = addresses(&list);
        assert!(links.len() > 10);
        for link in &links {
            assert!(link.starts_with(&format!("{SITE}/")), "{links:?}");
        }
        let tag = fragment.header("etag").unwrap();
        assert_ne!(Some(tag), shown.header("etag"));
        let target = format!("/fragment{path}");
        let known = [("if-none-match", tag)];
        let again = http.send(Method::GET, &target, &known, b"").await;
        assert_eq!(again.status, 304);
    }
    let product = "/product/espresso-machine/comments";
    for (asked, status, leads_to) in [
        ("/EN", 301, "/en"),
        ("?page=02&x=1", 301, "?page=2&x=1"),
        ("?page=2", 302, ""),
        ("?page=2&page_size=3&summary", 302, "?page_size=3&summary"),
    ] {
        let answer = http.get(&format!("/fragment{product}{asked}")).await;
        let expected = format!("{BASE_PATH}/fragment{product}{leads_to}");
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("location"), Some(expected.as_str()));
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    }
    let missing = http.get(&format!("/fragment{product}?page=999")).await;
    assert_eq!(missing.status, 404);
    assert_eq!(missing.header("access-control-allow-origin"), Some("*"));
    assert!(missing.body.starts_with("<div class=\"notice\""));
    assert!(missing.body.contains(&format!("{SITE}{product}\"")));
    running.finish().await;
}

/// The texts of all elements that a selector finds.
fn texts(html: &Html, selector: &str) -> Vec<String> {
    let selector = Selector::parse(selector).unwrap();
    let mut texts = Vec::new();
    for element in html.select(&selector) {
        texts.push(
            element
                .text()
                .collect::<String>()
                .split_whitespace()
                .join(" "),
        );
    }
    texts
}

#[tokio::test]
async fn a_fragment_shows_as_much_of_its_page_as_is_asked_for() {
    let mut settings = settings();
    settings.api.site.public_url = Some(SITE.parse().unwrap());
    settings.api.site.write_url = Some(
        "https://shop.example.com/write?p={product}"
            .parse()
            .unwrap(),
    );
    let running = start_with(settings).await;
    let http = &running.http;
    let path = "/product/espresso-machine/comments";
    let page = Html::parse_document(&http.get(path).await.body);
    let get = async |query: &str| {
        let answer = http.get(&format!("/fragment{path}?{query}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        Html::parse_fragment(&answer.body)
    };

    let excerpt = get("page_size=3").await;
    assert_eq!(article_ids(&excerpt), article_ids(&page)[..3]);
    assert_eq!(
        texts(&excerpt, ".tools a"),
        ["All comments on this product"]
    );
    assert!(texts(&excerpt, "nav.pages").is_empty());
    assert_eq!(article_ids(&get("page_size=100").await), article_ids(&page));

    let summary = get("summary").await;
    let all = "★★★☆☆ 3.00 out of 5, from 45 comments";
    assert_eq!(texts(&summary, ".pagemark-list"), [all]);
    assert_eq!(addresses(&summary), [format!("{SITE}{path}")]);
    assert!(texts(&summary, "article, h2, nav").is_empty());

    let deeper = get("heading_level=3").await;
    let levels = texts(&deeper, "h2[aria-level='3'], h3[aria-level='4']");
    assert_eq!(levels.len(), texts(&deeper, "h2, h3").len());
    assert_eq!(texts(&deeper, "h2, h3"), texts(&get("").await, "h2, h3"));

    // These are no parameters of pages, so links and canonical addresses have none of them.
    for address in addresses(&get("page_size=3&heading_level=3").await) {
        assert!(
            !address.contains("page_size") && !address.contains("level"),
            "{address}"
        );
    }
    let moved = http.get(&format!("/fragment{path}/EN?page_size=3")).await;
    let leads_to = format!("{BASE_PATH}/fragment{path}/en?page_size=3");
    assert_eq!(moved.header("location"), Some(leads_to.as_str()));
    assert_eq!(http.get(&format!("{path}?page_size=0")).await.status, 200);
    for wrong in [
        "page_size=0",
        "page_size=2&page_size=3",
        "summary=some",
        "heading_level=5",
    ] {
        let answer = http.get(&format!("/fragment{path}?{wrong}")).await;
        assert_eq!(answer.status, 400, "{answer:?}");
    }

    // Where customers write, also where nobody has written yet.
    for (product, status) in [("espresso-machine", 200), ("a%2Fb", 404)] {
        let answer = http
            .get(&format!("/fragment/product/{product}/comments"))
            .await;
        assert_eq!(answer.status, status);
        let write = format!("https://shop.example.com/write?p={product}");
        assert!(addresses(&Html::parse_fragment(&answer.body)).contains(&write));
    }
    running.finish().await;
}

/// A choice of a language that changes nothing is not offered.
#[tokio::test]
async fn a_product_with_comments_in_one_language_offers_no_choice_of_a_language() {
    let mut running = Running::start_with(settings()).await;
    let mut comments = Vec::new();
    for (id, product, language) in [("1", "one", "en"), ("2", "two", "en"), ("3", "two", "de")] {
        comments.push(data::new_comment(id, &data::product(product), language, 5));
    }
    running.import(&comments).await;
    for (path, offered) in [
        ("one/comments", 0),
        ("two/comments", 3),
        ("one/comments/en", 2),
    ] {
        let answer = running.http.get(&format!("/fragment/product/{path}")).await;
        let languages = texts(&Html::parse_fragment(&answer.body), ".languages a");
        assert_eq!(languages.len(), offered, "{path}: {languages:?}");
    }
    running.finish().await;
}

/// A proxy that serves the site under [`BASE_PATH`], and nothing else.
struct Proxy<'site> {
    site: &'site Http,
    strips: bool,
}

impl Proxy<'_> {
    async fn send(
        &self,
        method: Method,
        address: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let path = address
            .strip_prefix("https://shop.example.com")
            .unwrap_or(address);
        let Some(inner) = path
            .strip_prefix(BASE_PATH)
            .filter(|inner| inner.starts_with('/'))
        else {
            panic!("{address} is not below {BASE_PATH}");
        };
        let target = if self.strips { inner } else { path };
        self.site.send(method, target, headers, body).await
    }

    async fn get(&self, address: &str) -> Answer {
        self.send(Method::GET, address, &[], b"").await
    }
}

/// Whether an address has a filter of several ratings. There are many, and their pages have no
/// other kind of link.
fn has_several_ratings(address: &str) -> bool {
    let path = address.split('?').next().unwrap();
    path.contains("/comments/") && path.rsplit('/').next().unwrap().contains('.')
}

/// The addresses that an answer names, in its headers and in its body.
fn named(answer: &Answer) -> Vec<String> {
    let mut named = Vec::new();
    named.extend(answer.header("location").map(str::to_owned));
    let links = answer.header("link").unwrap_or_default();
    named.extend(between(links, "<", ">"));
    let content_type = answer.header("content-type").unwrap_or_default();
    match content_type.split(';').next().unwrap() {
        "text/html" => named.extend(addresses(&Html::parse_document(&answer.body))),
        "application/xml" => named.extend(between(&answer.body, "<loc>", "<")),
        "application/json" => {
            if let Some(links) = answer.json()["links"].as_object() {
                let links = links.values().filter_map(Value::as_str);
                named.extend(links.map(str::to_owned));
            }
        }
        _ => {}
    }
    named.retain(|address| !address.starts_with('#'));
    named
}

/// Follows all addresses from the start page and from others to which no page leads. Each must be
/// below the base path.
async fn crawl(proxy: &Proxy<'_>) {
    let starts = [
        "/robots.txt",
        "/sitemap.xml",
        "/openapi.json",
        "/static/pagemark-comments.js",
        "/api/v1/products/espresso-machine/comments?page=2&page_size=9",
        "/api/v1/products/espresso-machine/comments?page_size=9&numbering=stable",
        "/fragment/product/espresso-machine/comments",
        "/product/espresso-machine/comments/EN?page=01",
        "/product/espresso-machine/comments?page=2",
        "/",
    ];
    let mut open: Vec<String> = starts.map(|path| format!("{BASE_PATH}{path}")).to_vec();
    let mut seen: BTreeSet<String> = open.iter().cloned().collect();
    while let Some(address) = open.pop() {
        let answer = proxy.get(&address).await;
        assert!(
            [200, 301, 302].contains(&answer.status),
            "{address}: {answer:?}"
        );
        for found in named(&answer) {
            let found = found.split('#').next().unwrap().to_owned();
            let is_below = [SITE, BASE_PATH]
                .iter()
                .any(|base| found.starts_with(&format!("{base}/")));
            assert!(is_below, "{address} names {found}");
            if !has_several_ratings(&found) && seen.insert(found.clone()) {
                open.push(found);
            }
        }
    }
    assert!(seen.len() > 60, "only {} addresses were found", seen.len());
}

/// Pages of errors lead on to pages that exist.
async fn assert_errors_lead_on(proxy: &Proxy<'_>) {
    for missing in [
        "/product/espresso-machine/comments?page=999",
        "/product/p/comments/e",
        "/nothing",
    ] {
        let answer = proxy.get(&format!("{BASE_PATH}{missing}")).await;
        assert!([400, 404].contains(&answer.status), "{answer:?}");
        for found in named(&answer) {
            assert_eq!(proxy.get(&found).await.status, 200, "{missing}: {found}");
        }
    }
}

/// What names the base path in other ways than by links.
async fn assert_base_path_is_told(proxy: &Proxy<'_>) {
    let robots = proxy.get(&format!("{BASE_PATH}/robots.txt")).await.body;
    let disallowed = format!("Disallow: {BASE_PATH}/api/\n");
    assert!(robots.contains(&disallowed), "{robots}");
    let sitemap = format!("Sitemap: {SITE}/sitemap.xml\n");
    assert!(robots.contains(&sitemap), "{robots}");

    let described = proxy.get(&format!("{BASE_PATH}/openapi.json")).await.json();
    assert_eq!(described["servers"], json!([{ "url": BASE_PATH }]));

    let authorization = format!("Bearer {WRITE_TOKEN}");
    let headers = [
        ("authorization", authorization.as_str()),
        ("content-type", "application/json"),
    ];
    let target = format!("{BASE_PATH}/api/v1/products/milk-jug/comments");
    let body = good_comment("en", 5, "Good").to_string();
    let created = proxy
        .send(Method::POST, &target, &headers, body.as_bytes())
        .await;
    let location = created.header("location").unwrap();
    assert!(
        location.starts_with(&format!("{BASE_PATH}/api/v1/comments/")),
        "{location}"
    );
    proxy.get(location).await.expect(200);
}

#[tokio::test]
async fn a_crawl_through_a_proxy_finds_no_address_outside_the_base_path() {
    let running = start_below_a_path().await;
    for strips in [false, true] {
        let proxy = Proxy {
            site: &running.http,
            strips,
        };
        crawl(&proxy).await;
        assert_errors_lead_on(&proxy).await;
        assert_base_path_is_told(&proxy).await;
    }
    running.finish().await;
}

/// Product ids whose paths proxies write in other ways than we do.
const SPELLED: [&str; 4] = [
    "a/b c/5",
    "a,:'()!*+&=@;$b",
    "x[y]\"<>^`{|}\\",
    "é 100%?#x%2Fy",
];

/// A shop's page in front of the documented lines. It has its own style.
const SHOP_PAGE: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Espresso</title>\
    <link rel=\"icon\" href=\"data:,\"><style>body { margin: 0; background: #fff; } a { color: #c00; }</style><a href=\"/\">Shop</a>";

/// A shop's page shows the fragment as text to a browser that takes compressed answers. The second
/// answer comes from nginx's copy. The style of the fragment leaves that of the shop alone.
#[tokio::test]
#[ignore = "needs nginx and Chromium"]
async fn nginx_includes_a_fragment_in_a_page_of_the_shop() {
    let running = start().await;
    let folder = tempfile::tempdir().unwrap();
    let documented = block("docs/pages.md", "nginx", "ssi on");
    let (cache, locations) = documented.split_once("\n\n").unwrap();
    let cache = cache.replace(
        "/var/cache/nginx/comments",
        &format!("{}/cache", folder.path().display()),
    );
    let locations = locations.replace(
        "https://comments.example.com",
        &format!("http://{}", running.http.authority()),
    );
    let include = block("docs/pages.md", "html", "include virtual");
    let include = include.replace("https://comments.example.com", running.http.base());
    let shop_page = [SHOP_PAGE, &include].concat();
    std::fs::write(folder.path().join("shop.html"), shop_page).unwrap();
    let port = free_port(PUBLIC_PORTS);
    let in_http = format!("types {{ text/html html; }} {cache}");
    let in_server = format!("root {}; {locations}", folder.path().display());
    let server = nginx(port, folder.path(), &in_http, &in_server);
    let shop = Http::new(format!("http://127.0.0.1:{port}"));
    server.wait_for_connection(&shop).await;
    for _ in 0..2 {
        let page = shop
            .send(
                Method::GET,
                "/shop.html",
                &[("accept-encoding", "gzip, br, zstd")],
                b"",
            )
            .await;
        assert_eq!(page.status, 200, "{page:?}");
        assert!(page.body.contains("<title>Espresso"), "{page:?}");
        assert!(page.body.contains("<article"), "{page:?}");
    }
    let url = format!("{}/shop.html", shop.base());
    browser::run("fragment.mjs", json!({ "url": url })).await;
    running.finish().await;
}

/// The documented configuration of a proxy, before a service at `inner`.
fn documented_proxy(kind: &str, inner: &str) -> String {
    let block = block("docs/pages.md", kind, "/reviews/");
    block.replace("127.0.0.1:8080", inner)
}

/// nginx and Apache before a service at `inner`: as `docs/pages.md` says, and in their default
/// forms.
fn web_servers(inner: &str, folder: &Path) -> Vec<(u16, Program)> {
    let mut servers = Vec::new();

    let as_is = documented_proxy("nginx", inner);
    let decoding = as_is.replace(inner, &format!("{inner}/"));
    assert_ne!(decoding, as_is);
    for (name, block) in [("nginx", as_is), ("nginx-decoding", decoding)] {
        let port = free_port(PUBLIC_PORTS);
        let server = nginx(port, &own_folder(folder, name), "", &block);
        servers.push((port, server));
    }

    let unchanged = documented_proxy("apache", inner);
    let canonical = unchanged.replace(" nocanon", "").replace("NoDecode", "On");
    let stripped = canonical.replace(&format!("{inner}{BASE_PATH}"), inner);
    assert_ne!(canonical, unchanged);
    assert_ne!(stripped, canonical);
    for (name, block) in [
        ("apache", unchanged),
        ("apache-canonical", canonical),
        ("apache-stripped", stripped),
    ] {
        let port = free_port(PUBLIC_PORTS);
        let server = apache(port, &own_folder(folder, name), &[], &block);
        servers.push((port, server));
    }
    servers
}

/// Each kind of address that has a product's id in it answers to this spelling of the id. `page` is
/// the canonical path of the product's page.
async fn assert_reached(front: &Http, spelled: &str, page: &str) {
    for path in [
        format!("product/{spelled}/comments"),
        format!("fragment/product/{spelled}/comments"),
        format!("product/{spelled}/comments/en/5"),
        format!("fragment/product/{spelled}/comments/en/5"),
        format!("product/{spelled}/feed"),
    ] {
        let answer = front.get(&format!("{BASE_PATH}/{path}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.body.contains(&format!("{SITE}{page}")), "{answer:?}");
    }
    for kind in ["comments", "stats"] {
        let target = format!("{BASE_PATH}/api/v1/products/{spelled}/{kind}");
        let answer = front.get(&target).await.expect(200);
        assert_eq!(answer["total"], 1, "{spelled}/{kind}");
    }
}

#[tokio::test]
#[ignore = "needs nginx and Apache"]
async fn every_id_is_reached_through_nginx_and_apache_in_each_spelling() {
    let mut running = start_below_a_path().await;
    let mut comments = Vec::new();
    for (number, product) in SPELLED.iter().enumerate() {
        let id = format!("spelled-{number}");
        comments.push(data::new_comment(&id, &data::product(product), "en", 5));
    }
    running.import(&comments).await;
    let folder = tempfile::tempdir().unwrap();
    for (port, server) in web_servers(running.http.authority(), folder.path()) {
        let front = Http::new(format!("http://127.0.0.1:{port}"));
        server.wait_for_connection(&front).await;
        for id in SPELLED {
            let ours = encoded(id);
            let page = format!("/product/{ours}/comments");
            assert_reached(&front, &ours, &page).await;
            assert_reached(&front, &ours.replace("%2F", "/"), &page).await;
            let partly_decoded = ours.replace("%28", "(").replace("%2C", ",");
            assert_reached(&front, &partly_decoded, &page).await;

            let moved = front.get(&format!("{BASE_PATH}{page}/EN")).await;
            let canonical = format!("{BASE_PATH}{page}/en");
            assert_eq!(moved.status, 301);
            assert_eq!(moved.header("location"), Some(canonical.as_str()));
        }
    }
    running.finish().await;
}
