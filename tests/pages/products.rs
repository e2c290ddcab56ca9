//! The lists of products. Each page equals that of a sort of all products by their comments, after any change of these
//! comments.

use std::collections::BTreeMap;

use api::PastTheEnd;
use local_stack::stack::StackSettings;
use model::{Cd, Placement, ProductLists, ProductSort, ProductTotals, plan::index_edits};
use process::now;
use serde_json::{Value, json};

use super::{SITE, comment, html::Page, in_turn, site_settings, start};
use crate::fixture::{
    data,
    http::{Http, good_comment, page_path, product_path},
    invariants::Contents,
    page_indexes::for_each_index,
    redis_server::{OwnRedis, TABLE_ID},
    stack::{Running, settings_at},
    wait_for,
};

/// The totals of all products, by brute force.
fn totals(comments: impl IntoIterator<Item = (Placement, Cd)>) -> Vec<ProductTotals> {
    let mut totals: BTreeMap<_, ProductTotals> = BTreeMap::new();
    for (placement, cd) in comments {
        let product = placement.product;
        let new = ProductTotals { product: product.clone(), by_rating: [0; 5], last_commented_at: cd.created_at };
        let of = totals.entry(product).or_insert(new);
        of.by_rating[usize::from(placement.rating.get()) - 1] += 1;
        of.last_commented_at = of.last_commented_at.max(cd.created_at);
    }
    totals.into_values().collect()
}

#[tokio::test]
async fn a_partition_lists_every_product_with_its_totals() {
    const COMMENTS: usize = 2_500;
    for_each_index(async |index| {
        let product = |number: usize| data::product(&format!("{{product}} ~{}", number / 2));
        let placement = |number: usize, rating: usize| {
            data::placement(&product(number), ["en", "de"][number % 2], 1 + rating as u64 % 5)
        };
        let (mut first, mut then, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..COMMENTS {
            let cd = Cd { created_at: data::at_ms(number as i64), id: data::comment_id(&format!("c{number}")) };
            let before = placement(number, number);
            first.extend(data::index_comment(&cd.id, &before, cd.created_at));
            // Some comments are deleted, and all of one product in fifty. Some get another rating.
            let after = match number {
                _ if number % 7 == 0 || number % 100 < 2 => None,
                _ if number % 11 == 0 => Some(placement(number, number + 1)),
                _ => Some(before.clone()),
            };
            then.extend(index_edits(&cd.id, after.as_ref().map(|after| (after, cd.created_at)), &[before]));
            left.extend(after.map(|after| (after, cd)));
        }
        let rebuild = index.begin_rebuild().await.unwrap();
        // Applying edits again changes nothing.
        for edits in [&first, &then, &then] {
            index.apply(edits).await.unwrap();
        }
        index.finish_rebuild(&rebuild, TABLE_ID, now()).await.unwrap();
        let mut all = Vec::new();
        for partition in index.partitions() {
            let totals = index.product_totals(partition, TABLE_ID, now()).await.unwrap().unwrap();
            assert!(totals.is_sorted_by(|a, b| a.product < b.product));
            assert!(totals.iter().all(|of| index.partition_of(&of.product) == partition));
            all.extend(totals);
        }
        all.sort_by(|a, b| a.product.cmp(&b.product));
        let expected = totals(left);
        assert!((1_000..COMMENTS / 2).contains(&expected.len()), "{}", expected.len());
        assert_eq!(all, expected);
    })
    .await;
}

/// The lists that follow from the comments in the table.
async fn expected(running: &Running) -> ProductLists {
    let comments = Contents::read(running.stack.table()).await.comments();
    ProductLists::new(totals(comments.into_iter().map(|comment| (comment.placement(), comment.cd()))))
}

/// All products of a list in the JSON API, page by page.
async fn walk(http: &Http, sort: ProductSort) -> Vec<Value> {
    let mut next = Some(format!("/api/v1/products?sort={sort}&page_size=7"));
    let (mut products, mut pages) = (Vec::new(), 0);
    while let Some(path) = next {
        let answer = http.get(&path).await;
        let page = answer.json();
        assert_eq!((answer.status, &page["sort"]), (200, &json!(sort)), "{answer:?}");
        pages += 1;
        assert_eq!((&page["page"], &page["page_size"]), (&json!(pages), &json!(7)));
        products.extend(page["products"].as_array().unwrap().iter().cloned());
        next = page["links"]["next"].as_str().map(str::to_owned);
        if next.is_none() {
            assert_eq!((&page["total"], &page["total_pages"]), (&json!(products.len()), &json!(pages)));
        }
    }
    products
}

/// Waits until every list has exactly the expected products in the expected order.
async fn check_lists(running: &Running) -> ProductLists {
    let expected = expected(running).await;
    for sort in ProductSort::ALL {
        let entry = |totals: &ProductTotals| {
            let stars: u64 = totals.ratings().map(|(rating, count)| u64::from(rating.get()) * count).sum();
            json!({
                "product": totals.product.as_str(),
                "total": totals.comments(),
                "by_rating": totals.ratings().map(|(rating, total)| json!({ "rating": rating, "total": total }))
                    .collect::<Value>(),
                "average": (stars as f64 / totals.comments() as f64 * 100.0).round() / 100.0,
                "last_commented_at": totals.last_commented_at,
                // The tests' own paths encode more characters than the service does.
                "comments": page_path(totals.product.as_str()).replacen("/product/", "/api/v1/products/", 1)
            })
        };
        let entries: Vec<Value> = expected.part(sort, 0, u64::MAX).map(entry).collect();
        wait_for("the lists", async || {
            let listed = walk(&running.http, sort).await;
            if listed == entries { Ok(()) } else { Err((sort, listed)) }
        })
        .await;
    }
    expected
}

/// Checks the pages of a list for people.
async fn check_pages(http: &Http, lists: &ProductLists, sort: ProductSort) {
    let path = |page: u64| match (sort, page) {
        (ProductSort::MostCommented, 1) => "/products".to_owned(),
        (ProductSort::MostCommented, page) => format!("/products?page={page}"),
        (sort, 1) => format!("/products?sort={sort}"),
        (sort, page) => format!("/products?sort={sort}&page={page}"),
    };
    let pages = (lists.len() as u64).div_ceil(20);
    for number in 1..=pages {
        let page = Page::get(http, &path(number), 200).await;
        let expected: Vec<String> =
            lists.part(sort, (number - 1) * 20, 20).map(|totals| page_path(totals.product.as_str())).collect();
        assert_eq!(page.links(".products > li > a"), expected);
        assert_eq!(page.canonical(), Some(format!("{SITE}{}", path(number))));
        let robots = if sort == ProductSort::MostCommented { "index,follow" } else { "noindex,follow" };
        assert_eq!(page.robots(), robots);
        assert_eq!(page.attribute("a[rel=prev]", "href"), (number > 1).then(|| path(number - 1)));
        assert_eq!(page.attribute("a[rel=next]", "href"), (number < pages).then(|| path(number + 1)));
        assert_eq!(page.links(".sorts [aria-current=true]"), [path(1)]);
    }
    let past_the_end = Page::get(http, &path(pages + 1), 404).await;
    assert_eq!(past_the_end.links("main a"), [path(pages), "/".to_owned()]);
}

#[tokio::test]
async fn every_page_of_every_list_is_that_of_a_sort_of_all_products() {
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
    let lists = check_lists(&running).await;
    assert_eq!(lists.len(), 45);
    for sort in ProductSort::ALL {
        check_pages(&running.http, &lists, sort).await;
    }
    let home = Page::get(&running.http, "/", 200).await;
    let most: Vec<String> =
        lists.part(ProductSort::MostCommented, 0, 10).map(|totals| page_path(totals.product.as_str())).collect();
    assert_eq!(
        (home.links(".products > li > a"), home.robots().as_str()),
        (most.iter().map(String::as_str).collect(), "index,follow")
    );
    for (asked, leads_to) in [
        ("/products?page=1&sort=most_commented", "/products"),
        ("/products?page=02&sort=top_rated&utm_source=x", "/products?sort=top_rated&page=2"),
    ] {
        let answer = running.http.get(asked).await;
        assert_eq!((answer.status, answer.header("location")), (301, Some(leads_to)));
    }
    running.http.get("/api/v1/products?page=4").await.expect(404);
    // A product gets its first comment, one loses its last, one changes its mean, one becomes the newest.
    let single = lists.part(ProductSort::MostCommented, 44, 1).next().unwrap().product.clone();
    let http = running.http.clone();
    let listing = http.get(&format!("{}/comments", product_path(single.as_str()))).await.expect(200);
    http.delete(listing["comments"][0]["id"].as_str().unwrap()).await.expect(204);
    http.patch("c0", &json!({ "rating": 5 })).await.expect(200);
    http.post("new", &good_comment("en", 4, "Body")).await.expect(201);
    http.post("product-0", &good_comment("en", 1, "Body")).await.expect(201);
    running.settle().await;
    let lists = check_lists(&running).await;
    assert_eq!(lists.len(), 45);
    assert!(lists.part(ProductSort::TopRated, 0, 45).all(|totals| totals.product != single));
    running.finish().await;
}

#[tokio::test]
async fn without_a_ready_index_there_are_no_lists() {
    let redis = OwnRedis::start().await;
    let settings = StackSettings { page_index: settings_at(&redis).page_index, ..site_settings() };
    let running = start(settings, &in_turn(&["en"], &[5], 3)).await;
    let http = &running.http;
    let before = check_lists(&running).await;
    assert_eq!(before.len(), 1);
    redis.kill().await;
    for path in ["/api/v1/products", "/products", "/products?page=999", "/sitemap/lists.xml"] {
        wait_for(path, async || {
            let answer = http.get(path).await;
            if answer.status == 503 { Ok(answer) } else { Err(answer) }
        })
        .await
        .assert_later();
    }
    let home = Page::get(http, "/", 200).await;
    assert_eq!((home.robots().as_str(), home.answer.header("cache-control")), ("index,follow", Some("no-store")));
    assert!(home.links(".products a").is_empty());
    // The server comes back without data, and a rebuild fills it.
    redis.server.restart().await.unwrap();
    http.wait_for_200("/products").await;
    check_lists(&running).await;
    running.finish().await;
}

#[tokio::test]
async fn a_site_without_comments_has_an_empty_list_that_is_not_indexed() {
    let mut settings = site_settings();
    settings.site.past_the_end = PastTheEnd::Redirect;
    let running = start(settings, &[]).await;
    let http = &running.http;
    for path in ["/", "/products"] {
        let page = Page::get(http, path, 200).await;
        assert_eq!((page.robots().as_str(), page.links(".products a").len()), ("noindex,follow", 0));
    }
    let empty = http.get("/api/v1/products").await.expect(200);
    assert_eq!((&empty["total"], &empty["total_pages"], &empty["products"]), (&json!(0), &json!(1), &json!([])));
    assert_eq!(http.get("/sitemap/lists.xml").await.status, 404);
    let past_the_end = http.get("/products?sort=top_rated&page=2").await;
    assert_eq!((past_the_end.status, past_the_end.header("location")), (302, Some("/products?sort=top_rated")));
    running.finish().await;
}
