//! A site can show comments in pages of its own, as `docs/pages.md` describes.

use std::{collections::BTreeSet, ops::Range, path::Path};

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
};

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
    let nobody = (2..100).map(|number| format!("nobody/{number}"));
    let products: Vec<String> = PRODUCTS
        .map(|(product, _)| product.to_owned())
        .into_iter()
        .rev()
        .chain(nobody)
        .collect();
    for language in ["", "language=de", "language=fr"] {
        let asked = products
            .iter()
            .map(|product| format!("product={}", encoded(product)))
            .join("&");
        let answer = running
            .http
            .get(&format!("/api/v1/stats?{asked}&{language}"))
            .await
            .expect(200);
        assert_eq!(answer["products"].as_array().unwrap().len(), products.len());
        for (product, summary) in products.iter().zip(answer["products"].as_array().unwrap()) {
            let alone = running
                .http
                .get(&format!("{}/stats?{language}", product_path(product)))
                .await
                .expect(200);
            let fields = [
                "product",
                "total",
                "by_rating",
                "average",
                "last_commented_at",
            ];
            assert_eq!(
                *summary,
                Value::Object(
                    fields
                        .map(|field| (field.to_owned(), alone[field].clone()))
                        .into_iter()
                        .collect()
                )
            );
            assert_eq!(alone["language"], answer["language"]);
        }
    }
    running.finish().await;
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
    let (mut answers, mut filled) = (json!({}), 0);
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
                for placeholder in block
                    .text
                    .split("{{")
                    .skip(1)
                    .map(|rest| rest.split("}}").next().unwrap().trim())
                {
                    assert!(
                        !value(&answers, placeholder).is_null(),
                        "{placeholder}: {answers:#}"
                    );
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
    let with = ["href", "src", "action"];
    let elements = html
        .tree
        .nodes()
        .filter_map(|node| node.value().as_element());
    elements
        .flat_map(|element| with.iter().filter_map(|name| element.attr(name)))
        .map(str::to_owned)
        .collect()
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
        assert_eq!(
            (fragment.status, fragment.header("content-type")),
            (200, Some("text/html; charset=utf-8"))
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
        let (list, whole) = (
            Html::parse_fragment(&fragment.body),
            Html::parse_document(&shown.body),
        );
        assert!(!article_ids(&whole).is_empty());
        assert_eq!(article_ids(&list), article_ids(&whole));
        assert!(list.errors.is_empty(), "{:?}", list.errors);
        let links = addresses(&list);
        assert!(links.len() > 10);
        assert!(
            links
                .iter()
                .all(|link| link.starts_with(&format!("{SITE}/"))),
            "{links:?}"
        );
        let tag = fragment.header("etag").unwrap();
        assert_ne!(Some(tag), shown.header("etag"));
        let again = http
            .send(
                Method::GET,
                &format!("/fragment{path}"),
                &[("if-none-match", tag)],
                b"",
            )
            .await;
        assert_eq!(again.status, 304);
    }
    let product = "/product/espresso-machine/comments";
    for (asked, status, leads_to) in [
        ("/EN", 301, "/en"),
        ("?page=02&x=1", 301, "?page=2"),
        ("?page=2", 302, ""),
    ] {
        let answer = http.get(&format!("/fragment{product}{asked}")).await;
        let expected = format!("{BASE_PATH}/fragment{product}{leads_to}");
        assert_eq!(
            (answer.status, answer.header("location")),
            (status, Some(expected.as_str()))
        );
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    }
    let missing = http.get(&format!("/fragment{product}?page=999")).await;
    assert_eq!(
        (
            missing.status,
            missing.header("access-control-allow-origin")
        ),
        (404, Some("*"))
    );
    assert!(
        missing.body.starts_with("<div class=\"notice\"")
            && missing.body.contains(&format!("{SITE}{product}\""))
    );
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
        let inner = path
            .strip_prefix(BASE_PATH)
            .filter(|inner| inner.starts_with('/'));
        let inner = inner.unwrap_or_else(|| panic!("{address} is not below {BASE_PATH}"));
        self.site
            .send(
                method,
                if self.strips { inner } else { path },
                headers,
                body,
            )
            .await
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

fn named(answer: &Answer) -> Vec<String> {
    let mut named: Vec<String> = answer
        .header("location")
        .map(str::to_owned)
        .into_iter()
        .collect();
    let links = answer.header("link").unwrap_or_default();
    named.extend(
        links
            .split('<')
            .skip(1)
            .map(|link| link.split('>').next().unwrap().to_owned()),
    );
    match answer
        .header("content-type")
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap()
    {
        "text/html" => named.extend(addresses(&Html::parse_document(&answer.body))),
        "application/xml" => {
            named.extend(
                answer
                    .body
                    .split("<loc>")
                    .skip(1)
                    .map(|loc| loc.split('<').next().unwrap().to_owned()),
            );
        }
        "application/json" => {
            let json = answer.json();
            let links = json["links"]
                .as_object()
                .into_iter()
                .flat_map(|links| links.values());
            named.extend(links.filter_map(Value::as_str).map(str::to_owned));
        }
        _ => {}
    }
    named.retain(|address| !address.starts_with('#'));
    named
}

#[tokio::test]
async fn a_crawl_through_a_proxy_finds_no_address_outside_the_base_path() {
    let running = start_below_a_path().await;
    for strips in [false, true] {
        let proxy = Proxy {
            site: &running.http,
            strips,
        };
        // What no page leads to.
        let others = [
            "/robots.txt",
            "/sitemap.xml",
            "/openapi.json",
            "/static/pagemark-comments.js",
            "/api/v1/products/espresso-machine/comments?page=2&page_size=9",
            "/api/v1/products/espresso-machine/comments?page_size=9&numbering=stable",
            "/fragment/product/espresso-machine/comments",
            "/product/espresso-machine/comments/EN?page=01",
            "/product/espresso-machine/comments?page=2",
        ];
        let mut open: Vec<String> = others
            .iter()
            .chain(&["/"])
            .map(|path| format!("{BASE_PATH}{path}"))
            .collect();
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
        // Pages that lead on from errors.
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
        let robots = proxy.get(&format!("{BASE_PATH}/robots.txt")).await.body;
        assert!(
            robots.contains(&format!("Disallow: {BASE_PATH}/api/\n")),
            "{robots}"
        );
        assert!(
            robots.contains(&format!("Sitemap: {SITE}/sitemap.xml\n")),
            "{robots}"
        );
        let described = proxy.get(&format!("{BASE_PATH}/openapi.json")).await.json();
        assert_eq!(described["servers"], json!([{ "url": BASE_PATH }]));
        let (authorization, body) = (
            format!("Bearer {WRITE_TOKEN}"),
            good_comment("en", 5, "Good").to_string(),
        );
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
        ];
        let target = format!("{BASE_PATH}/api/v1/products/milk-jug/comments");
        let created = proxy
            .send(Method::POST, &target, &headers, body.as_bytes())
            .await;
        let place = created.header("location").unwrap();
        assert!(
            place.starts_with(&format!("{BASE_PATH}/api/v1/comments/")),
            "{place}"
        );
        proxy.get(place).await.expect(200);
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

const PUBLIC_PORTS: Range<u16> = 20_000..32_000;

fn at(paths: &[&'static str]) -> &'static str {
    paths
        .iter()
        .find(|path| Path::new(path).exists())
        .expect("make web-servers")
}

/// Starts nginx on a port, with its files in a folder. `http` and `server` are what stands in these
/// blocks.
fn nginx(port: u16, folder: &Path, http: &str, server: &str) -> Program {
    let (conf, own) = (folder.join("conf"), folder.display());
    let stores = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let stores = stores
        .map(|store| format!("{store}_temp_path {own}/{store};"))
        .concat();
    let text = format!(
        "daemon off; master_process off; pid {own}/pid; error_log {own}/log; events {{}}
         http {{ access_log off; {stores} {http} server {{ listen 127.0.0.1:{port}; {server} }} }}"
    );
    std::fs::write(&conf, text).unwrap();
    let program = at(&["/usr/sbin/nginx", "/usr/bin/nginx"]);
    Program::start(
        program,
        &["-c", conf.to_str().unwrap()],
        [("PATH", "/usr/bin")],
    )
}

/// A shop's page in front of the documented lines. It has its own style.
const SHOP_PAGE: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Espresso</title>\
    <link rel=\"icon\" href=\"data:,\"><style>body { margin: 0; background: #fff; } a { color: #c00; }</style><a href=\"/\">Shop</a>";

/// A shop's page shows the fragment as text to a browser that takes compressed answers. The second
/// answer comes from nginx's copy. The style of the fragment leaves that of the shop alone.
#[tokio::test]
async fn nginx_includes_a_fragment_in_a_page_of_the_shop() {
    let (running, folder) = (start().await, tempfile::tempdir().unwrap());
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
    std::fs::write(
        folder.path().join("shop.html"),
        [SHOP_PAGE, &include].concat(),
    )
    .unwrap();
    let (port, root) = (
        free_port(PUBLIC_PORTS),
        format!("root {}; {locations}", folder.path().display()),
    );
    let server = nginx(
        port,
        folder.path(),
        &format!("types {{ text/html html; }} {cache}"),
        &root,
    );
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
        assert!(
            page.status == 200
                && page.body.contains("<title>Espresso")
                && page.body.contains("<article"),
            "{page:?}"
        );
    }
    browser::run(
        "fragment.mjs",
        json!({ "url": format!("{}/shop.html", shop.base()) }),
    )
    .await;
    running.finish().await;
}

/// nginx and Apache before a service at `inner`: as `docs/pages.md` says, and in their default
/// forms.
fn web_servers(inner: &str, folder: &Path) -> Vec<(u16, Program)> {
    let apache = at(&["/usr/sbin/apache2", "/usr/sbin/httpd", "/usr/bin/httpd"]);
    let modules = at(&[
        "/usr/lib/apache2/modules",
        "/usr/lib64/httpd/modules",
        "/usr/lib/httpd/modules",
    ]);
    let of = |kind: &str| {
        let block = block("docs/pages.md", kind, "/reviews/");
        block.replace("127.0.0.1:8080", inner)
    };
    let (as_is, unchanged) = (of("nginx"), of("apache"));
    let decoding = as_is.replace(inner, &format!("{inner}/"));
    let canonical = unchanged.replace(" nocanon", "").replace("NoDecode", "On");
    let stripped = canonical.replace(&format!("{inner}{BASE_PATH}"), inner);
    assert!(decoding != as_is && canonical != unchanged && stripped != canonical);
    let configs = [
        (true, as_is),
        (true, decoding),
        (false, unchanged),
        (false, canonical),
        (false, stripped),
    ];
    let start = |(number, (is_nginx, block)): (usize, (bool, String))| {
        let (port, own) = (free_port(PUBLIC_PORTS), folder.join(number.to_string()));
        std::fs::create_dir(&own).unwrap();
        if is_nginx {
            return (port, nginx(port, &own, "", &block));
        }
        let (conf, own) = (own.join("conf"), own.display());
        let load = |name| format!("LoadModule {name}_module {modules}/mod_{name}.so\n");
        let loaded = ["mpm_prefork", "authz_core", "proxy", "proxy_http"]
            .map(load)
            .concat();
        let text = format!(
            "ServerRoot {own}\nDefaultRuntimeDir {own}\nPidFile {own}/pid\nErrorLog {own}/log\n\
             User nobody\nServerName localhost\nListen 127.0.0.1:{port}\n{loaded}{block}"
        );
        std::fs::write(&conf, text).unwrap();
        (
            port,
            Program::start(
                apache,
                &["-X", "-f", conf.to_str().unwrap()],
                [("PATH", "/usr/bin")],
            ),
        )
    };
    configs.into_iter().enumerate().map(start).collect()
}

#[tokio::test]
async fn every_id_is_reached_through_nginx_and_apache_in_each_spelling() {
    let mut running = start_below_a_path().await;
    let comments = SPELLED.iter().enumerate();
    let comments = comments
        .map(|(n, id)| data::new_comment(&format!("spelled-{n}"), &data::product(id), "en", 5));
    running.import(&comments.collect::<Vec<_>>()).await;
    let folder = tempfile::tempdir().unwrap();
    for (port, server) in web_servers(running.http.authority(), folder.path()) {
        let front = Http::new(format!("http://127.0.0.1:{port}"));
        server.wait_for_connection(&front).await;
        for id in SPELLED {
            let (ours, page) = (encoded(id), format!("/product/{}/comments", encoded(id)));
            for spelled in [
                ours.clone(),
                ours.replace("%2F", "/"),
                ours.replace("%28", "(").replace("%2C", ","),
            ] {
                for kind in [
                    "product/{}/comments",
                    "product/{}/comments/en/5",
                    "product/{}/feed",
                ] {
                    for part in
                        ["", "fragment/"]
                            .iter()
                            .take(if kind.contains("feed") { 1 } else { 2 })
                    {
                        let answer = front
                            .get(&format!(
                                "{BASE_PATH}/{part}{}",
                                kind.replace("{}", &spelled)
                            ))
                            .await;
                        assert_eq!(answer.status, 200, "{answer:?}");
                        assert!(answer.body.contains(&format!("{SITE}{page}")), "{answer:?}");
                    }
                }
                for kind in ["comments", "stats"] {
                    let answer = front
                        .get(&format!("{BASE_PATH}/api/v1/products/{spelled}/{kind}"))
                        .await;
                    assert_eq!(answer.expect(200)["total"], 1, "{spelled}/{kind}");
                }
            }
            let moved = front.get(&format!("{BASE_PATH}{page}/EN")).await;
            assert_eq!(
                (moved.status, moved.header("location")),
                (301, Some(&*format!("{BASE_PATH}{page}/en")))
            );
        }
    }
    running.finish().await;
}
