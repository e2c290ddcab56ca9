//! A page says what the record of its product says: name, link to the shop, structured data.

use hyper::Method;
use serde_json::{Value, json};

use super::{SITE, html::Page, in_turn, site_settings, start};
use crate::fixture::{http::product_path, stack::Running};

pub(super) async fn put(running: &Running, product: &str, record: &Value) {
    let path = product_path(product);
    let record = record.to_string();
    let answer = running
        .http
        .write(Method::PUT, &path, &[], record.as_bytes())
        .await;
    assert!(matches!(answer.status, 200 | 201), "{answer:?}");
}

/// The structured data of a page without its reviews and its average.
fn product_data(page: &Page) -> Value {
    let mut data = page.structured_data().unwrap();
    for name in ["review", "aggregateRating"] {
        data.as_object_mut().unwrap().remove(name);
    }
    data
}

/// What a page says to services that show a link to it.
fn shared(page: &Page, name: &str) -> Option<String> {
    page.attribute(&format!("meta[property='og:{name}']"), "content")
}

#[tokio::test]
async fn a_page_says_what_the_record_of_its_product_says() {
    let running = start(site_settings(), &in_turn("p", &["en"], &[5], 45)).await;
    let url = format!("{SITE}/product/p/comments");
    let page = Page::get(&running.http, "/product/p/comments", 200).await;
    assert_eq!(page.text("h1 bdi"), "p");
    assert_eq!(page.text("title"), "Comments on p");
    assert!(page.structured_data().is_none(), "nobody said a name");

    let shop = "https://shop.example/a?b=1&c=2";
    let record = json!({
        "name": "קפה & <b>more</b>",
        "url": shop,
        "image": "https://shop.example/a.jpg",
        "brand": "Ada",
        "gtin": "4006381333931",
        "sku": "A-3",
        "language": "he",
    });
    put(&running, "p", &record).await;
    let expected_data = json!({
        "@context": "https://schema.org",
        "@type": "Product",
        "@id": url,
        "name": record["name"],
        "url": record["url"],
        "image": record["image"],
        "brand": { "@type": "Brand", "name": "Ada" },
        "gtin": record["gtin"],
        "sku": record["sku"],
    });
    for target in ["", "?page=1", "/en", "?order=oldest"] {
        let page = Page::get(&running.http, &format!("/product/p/comments{target}"), 200).await;
        assert_eq!(page.text("h1 bdi"), "קפה & <b>more</b>");
        assert_eq!(page.attribute("h1 bdi", "lang").as_deref(), Some("he"));
        let title = page.text("title");
        assert!(
            title.starts_with("Comments on קפה & <b>more</b>"),
            "{title}"
        );
        assert_eq!(page.links("header.masthead a[href^=http]"), [shop]);
        assert_eq!(product_data(&page), expected_data);
        assert!(page.all("h1 b").is_empty());
        let image = page.attribute("img", "src");
        assert_eq!(image.as_deref(), record["image"].as_str());
        let policy = page.answer.header("content-security-policy").unwrap();
        assert!(
            policy.contains("img-src 'self' https://shop.example;"),
            "{policy}"
        );
        assert_eq!(shared(&page, "title"), Some(title));
        assert_eq!(shared(&page, "url"), page.canonical());
        assert_eq!(
            shared(&page, "description"),
            page.attribute("meta[name=description]", "content")
        );
        assert_eq!(shared(&page, "image"), image);
    }
    running.finish().await;
}

#[tokio::test]
async fn a_known_product_without_comments_is_an_empty_page_that_is_not_indexed() {
    let running = start(site_settings(), &[]).await;
    let record = json!({ "name": "Quiet", "url": "https://shop.example/quiet" });
    put(&running, "p", &record).await;
    let page = Page::get(&running.http, "/product/p/comments", 200).await;
    assert_eq!(page.text("h1 bdi"), "Quiet");
    assert_eq!(page.robots(), "noindex,follow");
    assert!(
        page.text(".notice")
            .contains("Nobody has commented on this product yet.")
    );
    assert!(page.structured_data().is_none());
    running.finish().await;
}
