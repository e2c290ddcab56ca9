//! What the demo of `pagemark up` adds to pages.

use std::sync::atomic::Ordering;

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
    let (http, site) = (&running.http, running.stack.api_url().unwrap());
    assert!(Page::get(http, "/", 200).await.all(".ways").is_empty());
    for (product, details) in demo_products(&site) {
        running
            .stack
            .table()
            .put_product(product, &details, |_| true)
            .await
            .unwrap();
        let picture = http
            .get(details.image.unwrap().as_str().strip_prefix(&site).unwrap())
            .await;
        assert_eq!(
            (picture.status, picture.header("content-type")),
            (200, Some("image/svg+xml"))
        );
    }
    let front = "/product/espresso-machine/comments";
    assert!(Page::get(http, front, 200).await.all(".cost").is_empty());

    demo.store(true, Ordering::Relaxed);
    let start_page = Page::get(http, "/", 200).await;
    let ways = start_page.links(".ways a");
    assert!(ways.contains(&front));
    assert_eq!(ways.len(), 6);
    for way in ways {
        assert_eq!(http.get(way).await.status, 200, "{way}");
    }
    for path in [
        front,
        &format!("{front}?page=1"),
        &format!("{front}/en/4.5"),
    ] {
        let page = Page::get(http, path, 200).await;
        let key = path
            .strip_prefix(&format!("{front}/"))
            .filter(|_| !path.contains('?'))
            .unwrap_or("~/~");
        let cost = page.text(".cost");
        assert!(
            cost.contains(&format!("Query PRODUCT#espresso-machine/{key}: ")),
            "{cost}"
        );
        assert!(
            cost.contains(" read units")
                && cost.contains("page index: 1 call, ")
                && cost.contains("table: "),
            "{cost}"
        );
        let tag = page.answer.header("etag").unwrap();
        assert_eq!(
            http.send(Method::GET, path, &[("if-none-match", tag)], b"")
                .await
                .status,
            304,
            "{path}"
        );
    }
    running.finish().await;
}

#[tokio::test]
async fn the_demo_leaves_the_products_of_a_site_as_they_are() {
    let folder = folder_in_memory();
    let start = async |demo| {
        Up::start(
            folder.path(),
            &["--demo", demo, "--write-token", WRITE_TOKEN],
        )
        .await
    };
    let up = start("0").await;
    up.api
        .write(
            Method::PUT,
            "/api/v1/products/milk-jug",
            &[],
            br#"{"name":"Our jug"}"#,
        )
        .await
        .expect(201);
    up.stop().await;
    let up = start("20").await;
    assert!(
        Page::get(&up.api, &page_path("milk-jug"), 200)
            .await
            .text("h1")
            .contains("Our jug")
    );
    up.stop().await;
}
