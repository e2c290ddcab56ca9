//! A site's own look: from a folder, read again at SIGHUP, and never from a folder with a mistake.

use std::{fs, path::Path};

use hyper::Method;
use scraper::{Html, Selector};
use serde_json::Value;

use crate::fixture::{
    api::{ApiProcess, api_variables},
    data::PRODUCT,
    http::{Answer, Http, page_path},
    pagemark::{self, Up},
    stores::Stores,
    wait_for,
};

const HEADER: &str = "<div class=\"shop\"><a href=\"/cart\">Cart</a></div>";
const THEME: &str = ":root, :host { --link: #070; }\n.shop { background: url(/shop.png); }\n";

/// The path of the public URL.
const BASE_PATH: &str = "/reviews";

fn write(folder: &Path, name: &str, content: &str) {
    fs::write(folder.join(name), content).unwrap();
}

/// The style sheet that a page names.
async fn style_sheet(http: &Http, page: &str) -> Answer {
    let links = Selector::parse("link[rel=stylesheet]").unwrap();
    let page = Html::parse_document(page);
    let named: Vec<&str> = page.select(&links).map(|link| link.attr("href").unwrap()).collect();
    assert_eq!(named.len(), 1, "{named:?}");
    http.get(named[0]).await
}

/// Waits until a page contains a text.
async fn becomes(http: &Http, path: &str, text: &str) -> Answer {
    wait_for(text, async || {
        let page = http.get(path).await;
        if page.body.contains(text) { Ok(page) } else { Err(page) }
    })
    .await
}

/// The lines of the log about the folder.
fn about_the_folder(api: &ApiProcess) -> Vec<Value> {
    let message = |line: &Value| line["fields"]["message"].as_str().unwrap_or_default().contains("site folder");
    api.log().into_iter().filter(message).collect()
}

#[tokio::test]
async fn a_sites_own_look_is_on_every_page_and_read_again_at_sighup() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "header.html", HEADER);
    write(folder.path(), "footer.html", "<p>First footer</p>");
    fs::create_dir(folder.path().join("messages")).unwrap();
    write(folder.path(), "messages/en.ftl", "feed-of-comments = Comments as a feed\n");
    let stores = Stores::start_ready_with_redis().await;
    stores.fill(45).await;
    let mut variables = api_variables(&stores);
    variables.retain(|(name, _)| *name != "PAGEMARK_PUBLIC_URL");
    variables.push(("PAGEMARK_PUBLIC_URL", format!("https://shop.example.com{BASE_PATH}")));
    variables.push(("PAGEMARK_SITE_DIR", folder.path().to_str().unwrap().to_owned()));
    let api = ApiProcess::start(variables).await;
    let list = page_path(PRODUCT);
    let archived = format!("{list}?page=1");
    for (path, status) in [
        (list.as_str(), 200),
        (&archived, 200),
        ("/", 200),
        ("/products", 200),
        ("/product/nobody/comments", 404),
        ("/no-such-page", 404),
    ] {
        let page = api.http.get(path).await;
        assert_eq!(page.status, status, "{page:?}");
        let at = |text: &str| page.body.find(text).unwrap_or_else(|| panic!("{path} lacks {text}: {}", page.body));
        assert!(at("href=\"#main\"") < at(HEADER) && at(HEADER) < at("id=\"main\""), "{path}: {}", page.body);
        assert!(at("</main>") < at("<p>First footer</p>") && page.body.trim_end().ends_with("</html>"), "{path}");
        assert!(page.body.contains(&format!("href=\"{BASE_PATH}/")), "our own addresses have the base path");
    }
    assert!(api.http.get(&list).await.body.contains("Comments as a feed"), "a message of the site");
    let fragment = api.http.get(&format!("/fragment{list}")).await;
    assert!(fragment.status == 200 && !fragment.body.contains("Cart") && !fragment.body.contains("First footer"));

    // A new footer and a theme: other bytes under other tags and another address.
    let before = api.http.get(&archived).await;
    let tag = before.header("etag").unwrap();
    let unchanged = async || api.http.send(Method::GET, &archived, &[("if-none-match", tag)], b"").await.status == 304;
    assert!(unchanged().await);
    let plain = style_sheet(&api.http, &before.body).await;
    write(folder.path(), "footer.html", "<p>Second footer</p>");
    write(folder.path(), "theme.css", THEME);
    assert!(unchanged().await, "it is not read by itself");
    api.hang_up();
    let after = becomes(&api.http, &archived, "<p>Second footer</p>").await;
    assert!(!unchanged().await && after.header("etag") != Some(tag));
    assert!(after.body.contains(HEADER) && !after.body.contains("First footer"));
    let themed = style_sheet(&api.http, &after.body).await;
    assert_eq!(themed.header("cache-control"), Some("public, max-age=31536000, immutable"));
    assert_eq!(themed.body, format!("{}\n{THEME}", plain.body));

    // A mistake changes nothing, not even the good file beside it.
    write(folder.path(), "header.html", "<p>New header</p>");
    write(folder.path(), "footer.html", "<div>\n<script>alert(1)</script>\n</div>");
    api.hang_up();
    let logged = wait_for("the line about the mistake", async || {
        let lines = about_the_folder(&api);
        if lines.len() == 2 { Ok(lines) } else { Err(lines) }
    })
    .await;
    let [read, mistake] = [&logged[0], &logged[1]];
    assert_eq!((&read["level"], &read["fields"]["changed"]), (&"INFO".into(), &"theme.css, footer.html".into()));
    assert_eq!(mistake["level"], "ERROR");
    let error = mistake["fields"]["error"].as_str().unwrap();
    let place = format!("{}/footer.html, line 2: <script> is refused", folder.path().display());
    assert!(error.starts_with(&place), "{error}");
    let kept = api.http.get(&archived).await;
    assert_eq!((&kept.body, kept.header("etag")), (&after.body, after.header("etag")));
    write(folder.path(), "footer.html", "");
    api.hang_up();
    let corrected = becomes(&api.http, &archived, "<p>New header</p>").await;
    assert!(!corrected.body.contains("Second footer"));
    api.terminate();
    assert!(api.ended().await.success());
    stores.finish().await;
}

#[tokio::test]
async fn pagemark_up_refuses_a_folder_with_a_mistake_and_reads_a_good_one_at_sighup() {
    let [folder, data] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    write(folder.path(), "footer.htm", "<p>First footer</p>");
    let site = ["--site-dir", folder.path().to_str().unwrap(), "--demo", "0"];
    let up = ["up", "--listen", "127.0.0.1:0", "--dynamodb-listen", "127.0.0.1:0"];
    let refused = pagemark::run(&[up.as_slice(), &site].concat()).await.expect(1);
    let known = "may have theme.css, header.html, footer.html";
    assert!(refused.stderr.contains("footer.htm has a name") && refused.stderr.contains(known), "{refused:?}");
    fs::rename(folder.path().join("footer.htm"), folder.path().join("footer.html")).unwrap();
    let up = Up::start(data.path(), &site).await;
    let http = Http::new(format!("http://{}", up.api));
    assert!(http.get("/").await.body.contains("First footer"));
    write(folder.path(), "footer.html", "<p>Second footer</p>");
    up.hang_up();
    becomes(&http, "/", "Second footer").await;
    up.stop().await;
}
