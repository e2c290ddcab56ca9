//! Web servers that keep answers show no deleted text after its age. Tags to which a web server has
//! appended are taken as ours. Health checks, tags and writes work behind each web server.

use std::{path::Path, time::Duration};

use api::ApiSettings;
use hyper::Method;
use tokio::time::{Instant, sleep_until};

use crate::fixture::{
    api::{Served, metric},
    free_port,
    http::{Http, ids, listing},
    program::Program,
    stores::Stores,
    wait_for,
    web_servers::{PUBLIC_PORTS, apache, caddy, haproxy, nginx, own_folder, varnish},
};

const _: crate::Engines = crate::Engines::Embedded("about answers; the engine does not matter");

/// The age of answers: a copy is shown for that long.
const MAX_AGE_SECONDS: u32 = 2;

/// nginx keeps whole seconds, so it shows a copy for up to a second longer.
const ROUNDING_SECONDS: u32 = 1;

/// Varnish and nginx with a cache before a service at `inner`.
fn caches(inner: &str, folder: &Path) -> Vec<(Http, Program)> {
    let mut caches = Vec::new();
    let port = free_port(PUBLIC_PORTS);
    let server = varnish(port, &own_folder(folder, "varnish"), inner);
    caches.push((Http::new(format!("http://127.0.0.1:{port}")), server));

    let port = free_port(PUBLIC_PORTS);
    let own = own_folder(folder, "nginx");
    let zone = format!(
        "proxy_cache_path {}/cache keys_zone=comments:1m;",
        own.display()
    );
    let location = format!("location / {{ proxy_pass http://{inner}; proxy_cache comments; }}");
    let server = nginx(port, &own, &zone, &location);
    caches.push((Http::new(format!("http://127.0.0.1:{port}")), server));
    caches
}

/// How many listings the service has answered.
async fn listings(http: &Http) -> f64 {
    let route = "/api/v1/products/{product}/comments";
    metric(
        http,
        &format!(r#"pagemark_http_requests_total{{route="{route}",method="GET",status="200"}}"#),
    )
    .await
}

#[tokio::test]
#[ignore = "needs Varnish and nginx"]
async fn no_cache_shows_a_deleted_text_after_its_age() {
    let stores = Stores::start().await;
    let comments = stores.fill(3).await;
    let settings = ApiSettings {
        cache_max_age_seconds: MAX_AGE_SECONDS,
        ..ApiSettings::default()
    };
    let api = Served::with(&stores, settings);
    let folder = tempfile::tempdir().unwrap();
    let caches = caches(api.http.authority(), folder.path());
    for (cache, server) in &caches {
        server.wait_for_connection(cache).await;
        let before = listings(&api.http).await;
        // The second answer is a copy.
        for _ in 0..2 {
            let page = cache.get(&listing("")).await.expect(200);
            assert_eq!(ids(&page).len(), 3, "{page}");
        }
        assert_eq!(listings(&api.http).await - before, 1.0, "{server:?}");
    }
    let last_kept = Instant::now();
    let deleted = comments[1].id.as_str();
    api.http.delete(deleted).await.expect(204);
    stores.deliver_all().await;
    let age = Duration::from_secs((MAX_AGE_SECONDS + ROUNDING_SECONDS).into());
    sleep_until(last_kept + age).await;
    for (cache, server) in &caches {
        let page = cache.get(&listing("")).await;
        assert_eq!(page.status, 200, "{page:?}");
        assert!(!page.body.contains(deleted), "{page:?} of {server:?}");
    }
    api.finish_with(stores).await;
}

#[tokio::test]
#[ignore = "needs Apache"]
async fn a_tag_to_which_apache_has_appended_is_that_tag() {
    let stores = Stores::start().await;
    let comments = stores.fill(1).await;
    let api = Served::of(&stores);
    let folder = tempfile::tempdir().unwrap();
    let port = free_port(PUBLIC_PORTS);
    let inner = api.http.authority();
    let block = format!("ProxyPass / http://{inner}/\nSetOutputFilter DEFLATE\n");
    let server = apache(port, folder.path(), &["filter", "deflate"], &block);
    let apache = Http::new(format!("http://127.0.0.1:{port}"));
    server.wait_for_connection(&apache).await;
    let address = format!("/api/v1/comments/{}", comments[0].id);
    let (read, _) = apache.get_coded(&address, "gzip").await;
    let tag = read.headers["etag"].to_str().unwrap();
    assert!(tag.ends_with("-gzip\""), "{read:?}");

    let known = [("if-none-match", tag), ("accept-encoding", "gzip")];
    let again = apache.send(Method::GET, &address, &known, b"").await;
    assert_eq!(again.status, 304, "{again:?}");
    let at_revision = [("if-match", tag)];
    for status in [200, 412] {
        let body = br#"{"rating": 4}"#;
        let changed = apache
            .write(Method::PATCH, &address, &at_revision, body)
            .await;
        assert_eq!(changed.status, status, "{changed:?}");
    }
    api.finish_with(stores).await;
}

/// Waits until a web server has checked the health of the service at `/` twice, with this method as
/// metrics name it: `OPTIONS` is among the others.
async fn wait_for_checks(http: &Http, method: &str, status: u16) {
    let name =
        format!(r#"pagemark_http_requests_total{{route="/",method="{method}",status="{status}"}}"#);
    wait_for("health checks", async || {
        let scraped = http.get("/metrics").await.body;
        let checks = scraped.lines().find_map(|line| line.strip_prefix(&name));
        match checks.and_then(|checks| checks.trim().parse::<f64>().ok()) {
            Some(checks) if checks >= 2.0 => Ok(()),
            _ => Err(scraped),
        }
    })
    .await;
}

#[tokio::test]
#[ignore = "needs nginx, Apache, Varnish, HAProxy and Caddy"]
async fn health_checks_tags_and_writes_work_behind_each_web_server_as_it_comes() {
    let stores = Stores::start().await;
    let comments = stores.fill(1).await;
    let api = Served::of(&stores);
    let inner = api.http.authority();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| (free_port(PUBLIC_PORTS), own_folder(folder.path(), name));
    let mut servers = Vec::new();
    let (port, own) = at("haproxy");
    servers.push((port, haproxy(port, &own, inner)));
    let (port, own) = at("caddy");
    servers.push((port, caddy(port, &own, inner)));
    let (port, own) = at("nginx");
    let location =
        format!("gzip on; gzip_proxied any; location / {{ proxy_pass http://{inner}; }}");
    servers.push((port, nginx(port, &own, "", &location)));
    let (port, own) = at("apache");
    let block = format!("ProxyPass / http://{inner}/\nSetOutputFilter DEFLATE\n");
    servers.push((port, apache(port, &own, &["filter", "deflate"], &block)));
    let (port, own) = at("varnish");
    servers.push((port, varnish(port, &own, inner)));

    wait_for_checks(&api.http, "other", 204).await;
    wait_for_checks(&api.http, "GET", 200).await;
    let address = format!("/api/v1/comments/{}", comments[0].id);
    for (port, server) in &servers {
        let front = Http::new(format!("http://127.0.0.1:{port}"));
        server.wait_for_connection(&front).await;
        for coding in ["identity", "gzip"] {
            let (page, _) = front.get_coded("/products", coding).await;
            assert_eq!(page.status, 200, "{page:?} of {server:?}");
            let tag = page.headers["etag"].to_str().unwrap();
            let known = [("if-none-match", tag), ("accept-encoding", coding)];
            let again = front.send(Method::GET, "/products", &known, b"").await;
            assert_eq!(again.status, 304, "{again:?} of {server:?}");
        }
        let (read, _) = front.get_coded(&address, "gzip").await;
        let tag = read.headers["etag"].to_str().unwrap();
        let body = format!(r#"{{"title": "Behind {port}"}}"#);
        for status in [200, 412] {
            let known = [("if-match", tag)];
            let changed = front
                .write(Method::PATCH, &address, &known, body.as_bytes())
                .await;
            assert_eq!(changed.status, status, "{changed:?} of {server:?}");
        }
    }
    drop(servers);
    api.finish_with(stores).await;
}
