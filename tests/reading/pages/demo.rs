//! What the demo of `pagemark up` adds to pages.

use std::{path::Path, sync::atomic::Ordering};

use hyper::Method;
use local_stack::demo::{PICTURES, demo_comments, demo_products};
use process::now;

use super::{html::Page, start};
use crate::fixture::{
    folder_in_memory,
    http::{WRITE_TOKEN, page_path},
    pagemark::Up,
    stack::settings,
};

#[tokio::test]
async fn the_demo_says_what_to_try_and_what_each_page_cost_outside_its_entity_tag() {
    let mut settings = settings();
    settings.api.site.pictures = PICTURES;
    let demo = settings.api.site.demo.clone();
    let running = start(settings, &demo_comments(400, now()).collect::<Vec<_>>()).await;
    let http = &running.http;
    let site = running.stack.api_url().unwrap();
    // The start page of a public site lists the products, and describes nothing.
    let public = Page::get(http, "/", 200).await;
    assert_eq!(public.text("h1"), "All products with comments");
    assert!(public.all(".ways, dl, code").is_empty());
    for (product, details) in demo_products(&site) {
        running
            .stack
            .table()
            .put_product(product, &details, |_| true)
            .await
            .unwrap();
        let image = details.image.unwrap();
        let picture = http.get(image.as_str().strip_prefix(&site).unwrap()).await;
        assert_eq!(picture.status, 200);
        assert_eq!(picture.header("content-type"), Some("image/svg+xml"));
    }
    let front = "/product/espresso-machine/comments";
    assert!(Page::get(http, front, 200).await.all(".cost").is_empty());

    demo.store(true, Ordering::Relaxed);
    let start_page = Page::get(http, "/", 200).await;
    let ways = start_page.links(".ways a");
    assert!(ways.contains(&front));
    assert_eq!(ways.len(), 6);
    assert!(!start_page.all("dl code").is_empty());
    for way in ways {
        assert_eq!(http.get(way).await.status, 200, "{way}");
    }
    for (rest, filter) in [("", "~/~"), ("?page=1", "~/~"), ("/en/4.5", "en/4.5")] {
        let path = format!("{front}{rest}");
        let page = Page::get(http, &path, 200).await;
        let cost = page.text(".cost");
        for part in [
            format!("Query PRODUCT#espresso-machine/{filter}: ").as_str(),
            " read units",
            "page index: 1 call, ",
            "table: ",
        ] {
            assert!(cost.contains(part), "{cost}");
        }
        let tag = page.answer.header("etag").unwrap();
        let known = [("if-none-match", tag)];
        let again = http.send(Method::GET, &path, &known, b"").await;
        assert_eq!(again.status, 304, "{path}");
    }
    running.finish().await;
}

/// `pagemark up` on this folder, with so many comments of the demo.
async fn up_with_demo(folder: &Path, comments: &str) -> Up {
    let options = ["--demo", comments, "--write-token", WRITE_TOKEN];
    Up::start(folder, &options).await
}

#[tokio::test]
async fn the_demo_leaves_the_products_of_a_site_as_they_are() {
    let folder = folder_in_memory();
    let up = up_with_demo(folder.path(), "0").await;
    let record = br#"{"name":"Our jug"}"#;
    let put = up
        .api
        .write(Method::PUT, "/api/v1/products/milk-jug", &[], record)
        .await;
    put.expect(201);
    up.stop().await;
    let up = up_with_demo(folder.path(), "20").await;
    let page = Page::get(&up.api, &page_path("milk-jug"), 200).await;
    assert!(page.text("h1").contains("Our jug"));
    up.stop().await;
}
