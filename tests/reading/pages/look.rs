//! A site's own look is a folder that is read at the start.

use std::{fs, path::Path};

use hyper::Method;
use scraper::{Html, Selector};

use crate::fixture::{
    api::{ApiProcess, api_variables},
    data::PRODUCT,
    http::{Answer, Http, page_path},
    stores::Stores,
};

const HEADER: &str = "<div class=\"shop\"><a href=\"/cart\">Cart</a></div>";
const THEME: &str = ":root, :host { --link: #070; }\n.shop { background: url(/shop.png); }\n";

const BASE_PATH: &str = "/reviews";

fn write(folder: &Path, name: &str, content: &str) {
    fs::write(folder.join(name), content).unwrap();
}

async fn style_sheet(http: &Http, page: &str) -> Answer {
    let links = Selector::parse("link[rel=stylesheet]").unwrap();
    let page = Html::parse_document(page);
    let named: Vec<&str> = page
        .select(&links)
        .map(|link| link.attr("href").unwrap())
        .collect();
    assert_eq!(named.len(), 1, "{named:?}");
    http.get(named[0]).await
}

async fn end(api: ApiProcess) {
    api.terminate();
    assert!(api.ended().await.success());
}

/// The variables of an API whose site has its own look in this folder.
fn variables_with_look(stores: &Stores, folder: &Path) -> Vec<(&'static str, String)> {
    let mut variables = api_variables(stores);
    variables.retain(|(name, _)| *name != "PAGEMARK_PUBLIC_URL");
    let public_url = format!("https://shop.example.com{BASE_PATH}");
    variables.push(("PAGEMARK_PUBLIC_URL", public_url));
    let folder = folder.to_str().unwrap().to_owned();
    variables.push(("PAGEMARK_SITE_DIR", folder));
    variables
}

/// Where a text begins in a page that must have it.
fn position_in(page: &Answer, text: &str) -> usize {
    page.body
        .find(text)
        .unwrap_or_else(|| panic!("no {text} in {page:?}"))
}

/// A page has the header of the site before its own content, and the footer behind it.
fn assert_has_look(page: &Answer) {
    let header = position_in(page, HEADER);
    assert!(position_in(page, "href=\"#main\"") < header, "{page:?}");
    assert!(header < position_in(page, "id=\"main\""), "{page:?}");
    let footer = position_in(page, "<p>First footer</p>");
    assert!(position_in(page, "</main>") < footer, "{page:?}");
    assert!(page.body.trim_end().ends_with("</html>"), "{page:?}");
    assert!(
        page.body.contains(&format!("href=\"{BASE_PATH}/")),
        "our own addresses have the base path"
    );
}

/// Pages name a style sheet that ends with the site's theme, and fragments have the theme too.
async fn assert_has_theme(http: &Http, page: &Answer, plain: &Answer) {
    let themed = style_sheet(http, &page.body).await;
    assert_eq!(
        themed.header("cache-control"),
        Some("public, max-age=31536000, immutable")
    );
    assert_eq!(themed.body, format!("{}\n{THEME}", plain.body));
    let fragment = http.get("/fragment.css").await;
    assert_eq!(fragment.status, 200);
    assert_eq!(fragment.header("cache-control"), Some("no-cache"));
    assert!(fragment.body.contains("\n&, & { --link: #070; }"));
    assert!(!fragment.body.contains(":root"));
}

#[tokio::test]
async fn a_sites_own_look_is_on_every_page_and_changes_its_entity_tags() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "header.html", HEADER);
    write(folder.path(), "footer.html", "<p>First footer</p>");
    fs::create_dir(folder.path().join("messages")).unwrap();
    let message = "feed-of-comments = Comments as a feed\n";
    write(folder.path(), "messages/en.ftl", message);
    let stores = Stores::start_ready_with_redis().await;
    stores.fill(45).await;
    let variables = variables_with_look(&stores, folder.path());
    let api = ApiProcess::start(variables.clone()).await;
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
        assert_has_look(&page);
    }
    let front = api.http.get(&list).await;
    assert!(
        front.body.contains("Comments as a feed"),
        "a message of the site"
    );
    let fragment = api.http.get(&format!("/fragment{list}")).await;
    assert_eq!(fragment.status, 200);
    assert!(!fragment.body.contains("Cart"));
    assert!(!fragment.body.contains("First footer"));

    let before = api.http.get(&archived).await;
    let plain = style_sheet(&api.http, &before.body).await;
    end(api).await;

    // Another look: other bytes under other tags and another address.
    let known = [("if-none-match", before.header("etag").unwrap())];
    let looks = [
        ("footer.html", "<p>First footer</p>", 304),
        ("footer.html", "Second footer", 200),
        ("theme.css", THEME, 200),
    ];
    for (name, content, status) in looks {
        write(folder.path(), name, content);
        let api = ApiProcess::start(variables.clone()).await;
        let after = api.http.send(Method::GET, &archived, &known, b"").await;
        assert_eq!(after.status, status, "{name}: {after:?}");
        if name == "theme.css" {
            assert_has_theme(&api.http, &after, &plain).await;
        }
        end(api).await;
    }
    stores.finish().await;
}
