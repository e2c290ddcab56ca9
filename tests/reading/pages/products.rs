//! The list of products. Each page equals that of a sort of all products by their comments, after
//! any change of these comments.

use std::{cmp::Reverse, collections::BTreeMap};

use api::PastTheEnd;
use itertools::Itertools;
use model::{Comment, ProductId, RatingCounts, Timestamp, plan::index_edits};
use process::now;
use serde_json::{Value, json};

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

#[tokio::test]
async fn a_partition_lists_exactly_the_products_that_have_comments() {
    const COMMENTS: u64 = 2_500;
    for_each_index(async |index| {
        let placement = |number: u64| {
            let product = data::product(&format!("{{product}} ~{}", number / 2));
            data::placement(
                &product,
                ["en", "de"][usize::from(number % 2 == 1)],
                1 + number % 5,
            )
        };
        let id = |number: u64| data::comment_id(&format!("c{number}"));
        // Some comments are deleted, and all of one product in fifty.
        let is_deleted = |number: &u64| number.is_multiple_of(7) || number % 100 < 2;
        let first = (0..COMMENTS)
            .flat_map(|number| data::index_comment(&id(number), &placement(number), now()));
        let deleted = (0..COMMENTS).filter(is_deleted);
        let then = deleted
            .flat_map(|number| index_edits(&id(number), None, &[placement(number)]))
            .collect_vec();
        let rebuild = index.begin_rebuild().await.unwrap();
        // Applying edits again changes nothing.
        for edits in [&first.collect_vec(), &then, &then] {
            index.apply(edits).await.unwrap();
        }
        index
            .finish_rebuild(&rebuild, TABLE_ID, now())
            .await
            .unwrap();
        let mut all = Vec::new();
        for partition in index.partitions() {
            let products = index
                .products(partition, TABLE_ID, now())
                .await
                .unwrap()
                .unwrap();
            assert!(products.is_sorted_by(|a, b| a < b));
            assert!(
                products
                    .iter()
                    .all(|product| index.partition_of(product) == partition)
            );
            all.extend(products);
        }
        let left = (0..COMMENTS)
            .filter(|number| !is_deleted(number))
            .map(|number| placement(number).product);
        let expected = left.sorted().dedup().collect_vec();
        assert!(
            (1_000..1_250).contains(&expected.len()),
            "{}",
            expected.len()
        );
        assert_eq!(all.into_iter().sorted().collect_vec(), expected);
    })
    .await;
}

/// All products with comments, those with most first, by brute force.
async fn expected(running: &Running) -> Vec<ListedProduct> {
    let mut listed: BTreeMap<ProductId, (RatingCounts, Timestamp)> = BTreeMap::new();
    for Comment {
        product,
        rating,
        created_at,
        ..
    } in Contents::read(running.stack.table()).await.comments()
    {
        let (by_rating, last) = listed
            .entry(product)
            .or_insert((RatingCounts::default(), created_at));
        by_rating.add(rating, 1);
        *last = created_at.max(*last);
    }
    let whole = |(product, (by_rating, last_commented_at))| ListedProduct {
        product,
        by_rating,
        last_commented_at,
    };
    let mut products: Vec<ListedProduct> = listed.into_iter().map(whole).collect();
    products.sort_by_key(|of| Reverse(of.by_rating.total()));
    products
}

async fn walk(http: &Http) -> Vec<Value> {
    let mut next = Some("/api/v1/products?page_size=7".to_owned());
    let (mut products, mut pages) = (Vec::new(), 0);
    while let Some(path) = next {
        let page = http.get(&path).await.expect(200);
        pages += 1;
        assert_eq!(
            (&page["page"], &page["page_size"]),
            (&json!(pages), &json!(7))
        );
        products.extend(page["products"].as_array().unwrap().iter().cloned());
        next = page["links"]["next"].as_str().map(str::to_owned);
        if next.is_none() {
            assert_eq!(
                (&page["total"], &page["total_pages"]),
                (&json!(products.len()), &json!(pages))
            );
        }
    }
    products
}

/// Waits until the list has exactly the expected products in the expected order.
async fn check_list(running: &Running) -> Vec<ListedProduct> {
    let expected = expected(running).await;
    let entry = |of: &ListedProduct| {
        let stars: u64 = of
            .by_rating
            .iter()
            .map(|(rating, count)| u64::from(rating.get()) * count)
            .sum();
        json!({
            "product": of.product.as_str(),
            "total": of.by_rating.total(),
            "by_rating": of.by_rating.iter().map(|(rating, total)| json!({ "rating": rating, "total": total }))
                .collect::<Value>(),
            "average": (stars as f64 / of.by_rating.total() as f64 * 100.0).round() / 100.0,
            "last_commented_at": of.last_commented_at,
            // The tests' own paths encode more characters than the service does.
            "comments": page_path(of.product.as_str()).replacen("/product/", "/api/v1/products/", 1)
        })
    };
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

async fn check_pages(http: &Http, products: &[ListedProduct]) {
    let path = |page: usize| match page {
        1 => "/products".to_owned(),
        page => format!("/products?page={page}"),
    };
    let pages = products.len().div_ceil(20);
    for (number, of_page) in (1..).zip(products.chunks(20)) {
        let page = Page::get(http, &path(number), 200).await;
        let expected: Vec<String> = of_page
            .iter()
            .map(|of| page_path(of.product.as_str()))
            .collect();
        assert_eq!(page.links(".products > li > a"), expected);
        assert_eq!(
            (page.canonical(), page.robots()),
            (
                Some(format!("{SITE}{}", path(number))),
                "index,follow".to_owned()
            )
        );
        assert_eq!(
            page.attribute("a[rel=prev]", "href"),
            (number > 1).then(|| path(number - 1))
        );
        assert_eq!(
            page.attribute("a[rel=next]", "href"),
            (number < pages).then(|| path(number + 1))
        );
    }
    let past_the_end = Page::get(http, &path(pages + 1), 404).await;
    assert_eq!(past_the_end.links("main a"), [path(pages), "/".to_owned()]);
    let home = Page::get(http, "/", 200).await;
    let most: Vec<String> = products[..10]
        .iter()
        .map(|of| page_path(of.product.as_str()))
        .collect();
    assert_eq!(
        (home.links(".products > li > a"), home.robots()),
        (
            most.iter().map(String::as_str).collect(),
            "index,follow".to_owned()
        )
    );
}

#[tokio::test]
async fn every_page_of_the_list_is_that_of_a_sort_of_all_products() {
    let comments: Vec<_> = (0..45_i64)
        .flat_map(|product| {
            let name = format!("product-{}", product * 7 % 45);
            (0..=product % 4).map(move |number| {
                let rating = 1 + (product * 3 + number * 2).unsigned_abs() % 5;
                comment(&name, "en", rating, product % 9 * 10 + number)
            })
        })
        .enumerate()
        .map(|(number, mut new)| {
            new.id = data::comment_id(&format!("c{number}"));
            new
        })
        .collect();
    let mut running = start(site_settings(), &comments).await;
    let products = check_list(&running).await;
    assert_eq!(products.len(), 45);
    check_pages(&running.http, &products).await;
    // The lists of earlier versions lead to the one that stayed.
    let answer = running
        .http
        .get("/products?page=02&sort=top_rated&utm_source=x")
        .await;
    assert_eq!(
        (answer.status, answer.header("location")),
        (301, Some("/products?page=2"))
    );
    running
        .http
        .get("/api/v1/products?page=4")
        .await
        .expect(404);
    running
        .http
        .get("/api/v1/products?sort=top_rated")
        .await
        .expect(400);
    // A product gets its first comment, one loses its last, one changes its mean, one becomes the
    // newest.
    let single = products[44].product.clone();
    let http = running.http.clone();
    let listing = http
        .get(&format!("{}/comments", product_path(single.as_str())))
        .await
        .expect(200);
    http.delete(listing["comments"][0]["id"].as_str().unwrap())
        .await
        .expect(204);
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
    assert!(products.iter().all(|of| of.product != single));
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
        assert_eq!(
            (page.robots().as_str(), page.links(".products a").len()),
            ("noindex,follow", 0)
        );
    }
    let empty = http.get("/api/v1/products").await.expect(200);
    assert_eq!(
        (&empty["total"], &empty["total_pages"], &empty["products"]),
        (&json!(0), &json!(1), &json!([]))
    );
    for missing in ["/sitemap.xml", "/sitemap/lists.xml"] {
        assert_eq!(http.get(missing).await.status, 404);
    }
    let past_the_end = http.get("/products?page=2").await;
    assert_eq!(
        (past_the_end.status, past_the_end.header("location")),
        (302, Some("/products"))
    );
    running.finish().await;
}
