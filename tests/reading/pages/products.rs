//! The list of products. Each page equals that of a sort of all products by their comments, after
//! any change of these comments.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use api::PastTheEnd;
use itertools::Itertools;
use model::{Placement, ProductId, RatingCounts, Timestamp, plan::index_edits};
use process::now;
use serde_json::{Value, json};
use table::NewComment;

use super::{SITE, comment, html::Page, site_settings, start};
use crate::fixture::{
    data,
    http::{Http, good_comment, page_path, product_path},
    invariants::Contents,
    page_indexes::for_each_index,
    redis_server::TABLE_ID,
    stack::Running,
    wait_for,
};

struct ListedProduct {
    product: ProductId,
    by_rating: RatingCounts,
    last_commented_at: Timestamp,
}

/// Every product has two comments: one in English, one in German.
fn placement_of(number: u64) -> Placement {
    let product = data::product(&format!("{{product}} ~{}", number / 2));
    let language = if number % 2 == 1 { "de" } else { "en" };
    data::placement(&product, language, 1 + number % 5)
}

/// Some comments are deleted, and all of one product in fifty.
fn is_deleted(number: u64) -> bool {
    number.is_multiple_of(7) || number % 100 < 2
}

#[tokio::test]
async fn a_partition_lists_exactly_the_products_that_have_comments() {
    const COMMENTS: u64 = 2_500;
    let mut created = Vec::new();
    let mut deleted = Vec::new();
    let mut expected = BTreeSet::new();
    for number in 0..COMMENTS {
        let id = data::comment_id(&format!("c{number}"));
        let placement = placement_of(number);
        let created_at = now();
        created.extend(data::index_comment(&id, &placement, created_at));
        if is_deleted(number) {
            deleted.extend(index_edits(
                &id,
                None,
                &[data::entry(&placement, created_at)],
            ));
        } else {
            expected.insert(placement.product);
        }
    }
    let count = expected.len();
    assert!((1_000..1_250).contains(&count), "{count}");
    for_each_index(async |index| {
        let rebuild = index.begin_rebuild().await.unwrap();
        // Applying edits again changes nothing.
        for edits in [&created, &deleted, &deleted] {
            index.apply(edits).await.unwrap();
        }
        index
            .finish_rebuild(&rebuild, TABLE_ID, now())
            .await
            .unwrap();
        let mut listed = Vec::new();
        for partition in index.partitions() {
            let products = index
                .products(partition, TABLE_ID, now())
                .await
                .unwrap()
                .unwrap();
            assert!(products.is_sorted_by(|a, b| a < b));
            for product in &products {
                assert_eq!(index.partition_of(product), partition);
            }
            listed.extend(products);
        }
        listed.sort();
        assert_eq!(listed, expected.iter().cloned().collect_vec());
    })
    .await;
}

/// All products with comments, those with most first, by brute force.
async fn expected(running: &Running) -> Vec<ListedProduct> {
    let mut by_id: BTreeMap<ProductId, ListedProduct> = BTreeMap::new();
    for comment in Contents::read(running.stack.table()).await.comments() {
        let listed = by_id
            .entry(comment.product.clone())
            .or_insert(ListedProduct {
                product: comment.product,
                by_rating: RatingCounts::default(),
                last_commented_at: comment.created_at,
            });
        listed.by_rating.add(comment.rating, 1);
        listed.last_commented_at = listed.last_commented_at.max(comment.created_at);
    }
    let mut products: Vec<ListedProduct> = by_id.into_values().collect();
    products.sort_by_key(|listed| Reverse(listed.by_rating.total()));
    products
}

async fn walk(http: &Http) -> Vec<Value> {
    let mut next = Some("/api/v1/products?page_size=7".to_owned());
    let mut products = Vec::new();
    let mut pages = 0;
    while let Some(path) = next {
        let page = http.get(&path).await.expect(200);
        pages += 1;
        assert_eq!(page["page"], pages);
        assert_eq!(page["page_size"], 7);
        products.extend(page["products"].as_array().unwrap().iter().cloned());
        next = page["links"]["next"].as_str().map(str::to_owned);
        if next.is_none() {
            assert_eq!(page["total"], products.len());
            assert_eq!(page["total_pages"], pages);
        }
    }
    products
}

/// The entry of a product in the JSON list.
fn entry(listed: &ListedProduct) -> Value {
    let mut stars = 0;
    let mut by_rating = Vec::new();
    for (rating, total) in listed.by_rating.iter() {
        stars += u64::from(rating.get()) * total;
        by_rating.push(json!({ "rating": rating, "total": total }));
    }
    let total = listed.by_rating.total();
    // The tests' own paths encode more characters than the service does.
    let comments = page_path(listed.product.as_str()).replacen("/product/", "/api/v1/products/", 1);
    json!({
        "product": listed.product.as_str(),
        "total": total,
        "by_rating": by_rating,
        "average": (stars as f64 / total as f64 * 100.0).round() / 100.0,
        "last_commented_at": listed.last_commented_at,
        "comments": comments,
    })
}

/// Waits until the list has exactly the expected products in the expected order.
async fn check_list(running: &Running) -> Vec<ListedProduct> {
    let expected = expected(running).await;
    let entries: Vec<Value> = expected.iter().map(entry).collect();
    wait_for("the list", async || {
        let listed = walk(&running.http).await;
        if listed == entries {
            Ok(())
        } else {
            Err(listed)
        }
    })
    .await;
    expected
}

/// The path of a page of the list for people.
fn list_path(page: usize) -> String {
    match page {
        1 => "/products".to_owned(),
        page => format!("/products?page={page}"),
    }
}

fn page_paths(products: &[ListedProduct]) -> Vec<String> {
    products
        .iter()
        .map(|listed| page_path(listed.product.as_str()))
        .collect()
}

async fn check_pages(http: &Http, products: &[ListedProduct]) {
    let pages = products.len().div_ceil(20);
    for (number, of_page) in (1..).zip(products.chunks(20)) {
        let path = list_path(number);
        let page = Page::get(http, &path, 200).await;
        assert_eq!(page.links(".products > li > a"), page_paths(of_page));
        assert_eq!(page.canonical(), Some(format!("{SITE}{path}")));
        assert_eq!(page.robots(), "index,follow");
        let mut prev = None;
        if number > 1 {
            prev = Some(list_path(number - 1));
        }
        assert_eq!(page.attribute("a[rel=prev]", "href"), prev);
        let mut next = None;
        if number < pages {
            next = Some(list_path(number + 1));
        }
        assert_eq!(page.attribute("a[rel=next]", "href"), next);
    }
    let past_the_end = Page::get(http, &list_path(pages + 1), 404).await;
    assert_eq!(
        past_the_end.links("main a"),
        [list_path(pages), "/".to_owned()]
    );
    let home = Page::get(http, "/", 200).await;
    assert_eq!(
        home.links(".products > li > a"),
        page_paths(&products[..10])
    );
    assert_eq!(home.robots(), "index,follow");
}

/// 45 products with one to four comments each. The ids count all comments.
fn comments_on_45_products() -> Vec<NewComment> {
    let mut comments = Vec::new();
    for product in 0..45_i64 {
        let name = format!("product-{}", product * 7 % 45);
        for number in 0..=product % 4 {
            let rating = 1 + (product * 3 + number * 2).unsigned_abs() % 5;
            let mut new = comment(&name, "en", rating, product % 9 * 10 + number);
            new.id = data::comment_id(&format!("c{}", comments.len()));
            comments.push(new);
        }
    }
    comments
}

#[tokio::test]
async fn every_page_of_the_list_is_that_of_a_sort_of_all_products() {
    let mut running = start(site_settings(), &comments_on_45_products()).await;
    let http = running.http.clone();
    let products = check_list(&running).await;
    assert_eq!(products.len(), 45);
    check_pages(&http, &products).await;
    // The lists of earlier versions lead to the one that stayed.
    let answer = http
        .get("/products?page=02&sort=top_rated&utm_source=x")
        .await;
    assert_eq!(answer.status, 301);
    let leads_to = "/products?page=2&utm_source=x";
    assert_eq!(answer.header("location"), Some(leads_to));
    let past_the_end = http.get("/api/v1/products?page=4").await;
    past_the_end.expect(404);
    let sorted = http.get("/api/v1/products?sort=top_rated").await;
    sorted.expect(400);
    // A product gets its first comment, one loses its last, one changes its mean, one becomes the
    // newest.
    let single = products[44].product.clone();
    let listing = format!("{}/comments", product_path(single.as_str()));
    let listing = http.get(&listing).await.expect(200);
    let only_id = listing["comments"][0]["id"].as_str().unwrap();
    http.delete(only_id).await.expect(204);
    http.patch("c0", &json!({ "rating": 5 })).await.expect(200);
    http.post("new", &good_comment("en", 4, "Body"))
        .await
        .expect(201);
    http.post("product-0", &good_comment("en", 1, "Body"))
        .await
        .expect(201);
    running.settle().await;
    let products = check_list(&running).await;
    assert_eq!(products.len(), 45);
    assert!(products.iter().all(|listed| listed.product != single));
    running.finish().await;
}

#[tokio::test]
async fn a_site_without_comments_has_an_empty_list_that_is_not_indexed() {
    let mut settings = site_settings();
    settings.api.site.past_the_end = PastTheEnd::Redirect;
    let running = start(settings, &[]).await;
    let http = &running.http;
    for path in ["/", "/products"] {
        let page = Page::get(http, path, 200).await;
        assert_eq!(page.robots(), "noindex,follow");
        assert_eq!(page.links(".products a").len(), 0);
    }
    let empty = http.get("/api/v1/products").await.expect(200);
    assert_eq!(empty["total"], 0);
    assert_eq!(empty["total_pages"], 1);
    assert_eq!(empty["products"], json!([]));
    for missing in ["/sitemap.xml", "/sitemap/lists.xml"] {
        assert_eq!(http.get(missing).await.status, 404);
    }
    let past_the_end = http.get("/products?page=2").await;
    assert_eq!(past_the_end.status, 302);
    assert_eq!(past_the_end.header("location"), Some("/products"));
    running.finish().await;
}
