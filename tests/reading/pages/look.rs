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

#[tokio::test]
async fn a_sites_own_look_is_on_every_page_and_changes_its_entity_tags() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "header.html", HEADER);
    write(folder.path(), "footer.html", "<p>First footer</p>");
    fs::create_dir(folder.path().join("messages")).unwrap();
    write(
        folder.path(),
        "messages/en.ftl",
        "feed-of-comments = Comments as a feed\n",
    );
    let stores = Stores::start_ready_with_redis().await;
    stores.fill(45).await;
    let mut variables = api_variables(&stores);
    variables.retain(|(name, _)| *name != "PAGEMARK_PUBLIC_URL");
    variables.push((
        "PAGEMARK_PUBLIC_URL",
        format!("https://shop.example.com{BASE_PATH}"),
    ));
    variables.push((
        "PAGEMARK_SITE_DIR",
        folder.path().to_str().unwrap().to_owned(),
    ));
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
        let at = |text: &str| {
            page.body
                .find(text)
                .unwrap_or_else(|| panic!("{path} lacks {text}: {}", page.body))
        };
        assert!(
            at("href=\"#main\"") < at(HEADER) && at(HEADER) < at("id=\"main\""),
            "{path}: {}",
            page.body
        );
        assert!(
            at("</main>") < at("<p>First footer</p>") && page.body.trim_end().ends_with("</html>"),
            "{path}"
        );
        assert!(
            page.body.contains(&format!("href=\"{BASE_PATH}/")),
            "our own addresses have the base path"
        );
    }
    assert!(
        api.http
            .get(&list)
            .await
            .body
            .contains("Comments as a feed"),
        "a message of the site"
    );
    let fragment = api.http.get(&format!("/fragment{list}")).await;
    assert!(
        fragment.status == 200
            && !fragment.body.contains("Cart")
            && !fragment.body.contains("First footer")
    );

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
            let themed = style_sheet(&api.http, &after.body).await;
            assert_eq!(
                themed.header("cache-control"),
                Some("public, max-age=31536000, immutable")
            );
            assert_eq!(themed.body, format!("{}\n{THEME}", plain.body));
            let fragment = api.http.get("/fragment.css").await;
            assert_eq!(
                (fragment.status, fragment.header("cache-control")),
                (200, Some("no-cache"))
            );
            assert!(
                fragment.body.contains("\n&, & { --link: #070; }")
                    && !fragment.body.contains(":root")
            );
        }
        end(api).await;
    }
    stores.finish().await;
}
