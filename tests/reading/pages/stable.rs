//! Pages are counted from the oldest comment, and the newest comments are on the page without a
//! number.

use std::collections::BTreeSet;

use hyper::Method;
use serde_json::{Value, json};
use table::NewComment;

use super::{
    SITE,
    addresses::{assert_leads_to, assert_moved},
    comment,
    html::{Page, assert_turns},
    in_turn,
    names::put,
    site_settings, start,
    structured_data::shown_reviews,
    three_pages,
};
use crate::fixture::{
    api::Served,
    data,
    http::{Http, good_comment, ids},
    stores::Stores,
};

const PAGES: &str = "/product/p/comments";

/// The ids of the comments on a page for people, from top to bottom.
pub(super) fn shown(page: &Page) -> Vec<String> {
    let id = |article: &scraper::ElementRef<'_>| {
        article
            .attr("id")
            .unwrap()
            .trim_start_matches("comment-")
            .to_owned()
    };
    page.all("article").iter().map(id).collect()
}

fn newest_ids(comments: &[NewComment]) -> Vec<String> {
    comments
        .iter()
        .rev()
        .map(|comment| comment.id.to_string())
        .collect()
}

#[tokio::test]
async fn a_number_leads_to_its_page_or_to_the_front_page() {
    let comments = three_pages("p");
    let running = start(site_settings(), &comments).await;
    let http = &running.http;
    let front = Page::get(http, PAGES, 200).await;
    assert_eq!(shown(&front), newest_ids(&comments[20..]));
    let first = Page::get(http, &format!("{PAGES}?page=1"), 200).await;
    assert_eq!(shown(&first), newest_ids(&comments[..20]));
    // 30 comments are all on the front page, as is a product without comments.
    assert_eq!(
        shown(&Page::get(http, &format!("{PAGES}/en"), 200).await).len(),
        30
    );
    for (target, to) in [
        ("p/comments?page=2", "p/comments"),
        ("p/comments/en?page=1", "p/comments/en"),
    ] {
        assert_leads_to(
            &http.get(&format!("/product/{target}")).await,
            &format!("/product/{to}"),
        );
    }
    assert_leads_to(
        &http.get("/product/q/comments?page=1").await,
        "/product/q/comments",
    );
    assert_moved(
        http,
        &format!("{PAGES}?page=01&order=newest"),
        &format!("{PAGES}?page=1"),
    )
    .await;
    running.finish().await;
}

#[tokio::test]
async fn an_archive_page_names_its_neighbours_by_numbers_and_no_total_in_its_head() {
    let comments: Vec<NewComment> = (0..65)
        .map(|number| comment("a/b", "en", 3, number))
        .collect();
    let running = start(site_settings(), &comments).await;
    let path = |page: u64| match page {
        0 => "/product/a%2Fb/comments".to_owned(),
        page => format!("/product/a%2Fb/comments?page={page}"),
    };
    put(&running, "a/b", &json!({ "name": "a/b" })).await;
    let mut descriptions = BTreeSet::new();
    // Each page with its title, its heading, and the pages before and after it in the order of the
    // listing.
    for (number, title, heading, prev, next) in [
        (
            0,
            "Comments on a/b",
            "65 comments: the newest, 16 Nov 2023 to 17 Nov 2023",
            None,
            Some(2),
        ),
        (
            2,
            "Comments on a/b, page 2",
            "65 comments, page 2 of 3: 15 Nov 2023 to 16 Nov 2023",
            Some(3),
            Some(1),
        ),
        (
            1,
            "Comments on a/b, page 1",
            "65 comments, page 1 of 3: 14 Nov 2023 to 15 Nov 2023",
            Some(2),
            None,
        ),
    ] {
        let page = Page::get(&running.http, &path(number), 200).await;
        assert_eq!(
            (page.text("title").as_str(), page.text("main h2").as_str()),
            (title, heading)
        );
        let (prev, next) = (prev.map(path), next.map(path));
        assert_eq!(page.attribute("link[rel=prev]", "href"), prev);
        assert_eq!(page.attribute("link[rel=next]", "href"), next);
        assert_turns(&page, prev.as_deref(), next.as_deref());
        let links = [
            ("canonical", Some(path(number))),
            ("first", Some(path(0))),
            ("prev", prev),
            ("next", next),
        ];
        let links = links.into_iter().chain([("last", Some(path(1)))]);
        let links =
            links.filter_map(|(rel, path)| Some((rel.to_owned(), format!("{SITE}{}", path?))));
        assert_eq!(page.link_header(), links.collect::<Vec<_>>());
        let newest = page.all("nav.pages li a, nav.pages li strong").remove(0);
        assert_eq!(newest.text().collect::<String>(), "Newest");
        let front = path(0) + "#comments";
        assert_eq!(newest.attr("href").unwrap_or(&front), front);
        // The average of the product changes with each comment, so only the front page says it to
        // search engines.
        let description = page.attribute("meta[name=description]", "content").unwrap();
        assert_eq!(
            description.contains("Rated 3.00 out of 5 by 65 comments"),
            number == 0,
            "{description}"
        );
        assert_eq!(description.contains("65"), number == 0, "{description}");
        assert!(descriptions.insert(description), "each page has its own");
        let data = page.structured_data().unwrap();
        assert_eq!(data.get("aggregateRating").is_some(), number == 0, "{data}");
        assert_eq!(data["review"], json!(shown_reviews(&page)));
        assert_eq!(page.text(".average"), "★ 3.00 out of 5, from 65 comments");
        // HEAD is GET without the body.
        let head = running
            .http
            .send(Method::HEAD, &path(number), &[], b"")
            .await;
        assert_eq!(
            (head.status, head.header("link"), head.body.as_str()),
            (200, page.answer.header("link"), "")
        );
    }
    // The JSON listings have such links, too.
    let listing = running
        .http
        .get("/api/v1/products/a%2Fb/comments?page=2")
        .await;
    let url = "/api/v1/products/a%2Fb/comments";
    let expected = format!(
        "<{url}?page=1>; rel=\"first\", <{url}?page=1>; rel=\"prev\", <{url}?page=3>; rel=\"next\", <{url}?page=4>; rel=\"last\""
    );
    assert_eq!(listing.header("link"), Some(expected.as_str()));
    running.finish().await;
}

#[tokio::test]
async fn a_permalink_leads_to_the_page_that_shows_the_comment() {
    let comments = three_pages("p");
    let running = start(site_settings(), &comments).await;
    for (number, page) in [(44, ""), (20, ""), (19, "?page=1"), (0, "?page=1")] {
        let id = comments[number].id.as_str();
        let answer = running.http.get(&format!("/comments/{id}")).await;
        assert_leads_to(&answer, &format!("{PAGES}{page}#comment-{id}"));
        assert!(
            shown(&Page::get(&running.http, &format!("{PAGES}{page}"), 200).await)
                .contains(&comments[number].id.to_string())
        );
    }
    Page::get(&running.http, "/comments/nobody", 404).await;
    running.finish().await;
}

async fn revalidate(http: &Http, target: &str, tag: &str) -> u16 {
    http.send(Method::GET, target, &[("if-none-match", tag)], b"")
        .await
        .status
}

#[tokio::test]
async fn only_a_change_of_its_own_comments_makes_a_full_page_another() {
    let comments = three_pages("p");
    let mut running = start(site_settings(), &comments).await;
    let http = running.http.clone();
    let page = format!("{PAGES}?page=1");
    let before = http.get(&page).await;
    let tag = before.header("etag").unwrap().to_owned();
    assert_eq!(
        before.header("cache-control"),
        Some("public, max-age=30, must-revalidate, stale-if-error=0")
    );
    let fragment = format!("/fragment{page}");
    let tag_of_fragment = http.get(&fragment).await.header("etag").unwrap().to_owned();
    let front = http.get(PAGES).await.header("etag").unwrap().to_owned();

    // New comments in new languages, and a deletion on the front page: counts and filters change.
    for language in ["fr", "it"] {
        http.post("p", &good_comment(language, 1, "Later"))
            .await
            .expect(201);
    }
    http.delete(comments[44].id.as_str()).await.expect(204);
    running.settle().await;
    assert_eq!(revalidate(&http, &page, &tag).await, 304);
    assert_eq!(revalidate(&http, &fragment, &tag_of_fragment).await, 304);
    assert_eq!(revalidate(&http, PAGES, &front).await, 200);
    let after = http.get(&page).await;
    assert_eq!(after.header("etag"), Some(tag.as_str()));
    assert!(after.body != before.body, "{after:?}");
    assert!(after.body.contains("46 comments"), "{after:?}");

    // A date never says that a page is unchanged.
    for target in [&page, PAGES] {
        let since = [("if-modified-since", "Fri, 01 Jan 2100 00:00:00 GMT")];
        let answer = http.send(Method::GET, target, &since, b"").await;
        assert_eq!(
            (answer.status, answer.header("last-modified")),
            (200, None),
            "{answer:?}"
        );
    }

    // An edit of a comment on the page, and a deletion of a second one.
    http.patch(comments[3].id.as_str(), &json!({ "body": "Edited" }))
        .await
        .expect(200);
    running.settle().await;
    let edited = http
        .send(Method::GET, &page, &[("if-none-match", &tag)], b"")
        .await;
    assert_eq!(edited.status, 200, "{edited:?}");
    assert!(edited.body.contains("Edited"), "{edited:?}");
    let tag = edited.header("etag").unwrap().to_owned();
    http.delete(comments[4].id.as_str()).await.expect(204);
    running.settle().await;
    assert_eq!(revalidate(&http, &page, &tag).await, 200);
    // Everything newer has moved up by a place.
    let page = Page::get(&http, &page, 200).await;
    assert_eq!(
        (shown(&page).len(), shown(&page)[0].as_str()),
        (20, comments[20].id.as_str())
    );
    running.finish().await;
}

#[tokio::test]
async fn every_number_is_of_the_comments_that_are_old_enough() {
    let stores = Stores::start_ready().await;
    stores.create_all(0..45, |_| data::product("p")).await;
    let api = Served::of(&stores);
    let first = api.http.posted("p", &good_comment("en", 1, "New")).await;
    for number in 0..60 {
        api.http
            .post("p", &good_comment("en", 1, &format!("Newer {number}")))
            .await
            .expect(201);
    }
    stores.deliver_all().await;
    let list = "/api/v1/products/p/comments";
    let listed = api
        .http
        .get(&format!("{list}?numbering=stable"))
        .await
        .expect(200);
    assert_eq!(
        (&listed["total"], &listed["total_pages"], ids(&listed).len()),
        (&json!(106), &json!(2), 39)
    );
    assert!(
        listed["links"]["next"]
            .as_str()
            .unwrap()
            .contains("cursor="),
        "{listed}"
    );
    let archived = api
        .http
        .get(&format!("{list}?numbering=stable&page=1"))
        .await
        .expect(200);
    assert_eq!(
        (&archived["total"], &archived["total_pages"]),
        (&json!(45), &json!(2))
    );
    let position = api
        .http
        .get(&format!(
            "/api/v1/comments/{first}/position?numbering=stable"
        ))
        .await
        .expect(200);
    assert_eq!(
        position,
        json!({ "page": null, "position": 61, "total": 106 })
    );
    assert_leads_to(
        &api.http.get(&format!("/comments/{first}")).await,
        &format!("{PAGES}#comment-{first}"),
    );
    let dated = api
        .http
        .get(&format!("{list}?numbering=stable&date=2999-01"))
        .await;
    assert_leads_to(&dated, &format!("{list}?numbering=stable"));
    let page = Page::get(&api.http, &format!("{PAGES}?page=1"), 200).await;
    assert_eq!(
        page.text("main h2"),
        "45 comments, page 1 of 2: 14 Nov 2023"
    );
    let part = format!(
        "/sitemap/{}-1.xml",
        stores.index.partition_of(&data::product("p")).number()
    );
    let sitemap = api.http.get(&part).await.body;
    for filter in ["", "/en"] {
        let has = |page: u8| sitemap.contains(&format!("{PAGES}{filter}?page={page}</loc>"));
        assert_eq!([has(1), has(2)], [filter.is_empty(), false], "{sitemap}");
    }
    api.finish_with(stores).await;
}

#[tokio::test]
async fn json_listings_take_stable_numbers_too() {
    let comments = in_turn("p", &["en"], &[1, 2, 3, 4, 5], 330);
    let running = start(site_settings(), &comments).await;
    let http = &running.http;
    let api = "/api/v1/products/p/comments";
    let get = async |query: &str| {
        http.get(&format!("{api}?{query}numbering=stable"))
            .await
            .expect(200)
    };
    for (size, on_front, archived) in [(100, 130, 2), (20, 30, 15), (7, 8, 46)] {
        let query = format!("page_size={size}&");
        let front = get(&query).await;
        assert_eq!(
            [&front["page"], &front["as_of"], &front["links"]["prev"]],
            [&Value::Null; 3],
            "{front}"
        );
        assert_eq!(
            (&front["total"], &front["total_pages"]),
            (&json!(330), &json!(archived + 1))
        );
        let mut walked = ids(&front);
        assert_eq!(walked.len(), on_front);
        let mut page = front.clone();
        while let Some(next) = page["links"]["next"].as_str().map(str::to_owned) {
            let prev = page["links"]["self"].clone();
            page = http.get(&next).await.expect(200);
            assert_eq!(ids(&page).len(), size);
            let back = http.get(page["links"]["prev"].as_str().unwrap()).await;
            // The newer neighbour of the last archive page leads to the front page.
            let leads_to = back
                .header("location")
                .map_or(page["links"]["prev"].clone(), Value::from);
            assert_eq!(leads_to, prev);
            walked.extend(ids(&page));
        }
        assert_eq!(
            (page["page"].clone(), walked),
            (json!(1), newest_ids(&comments))
        );
        // Cursors lead from the front page into the archive, and from an archive page in both
        // directions.
        let follow = async |page: &Value, direction: &str| {
            let cursor = page["cursor"][direction].as_str().unwrap();
            ids(&http
                .get(&format!("{api}?page_size={size}&cursor={cursor}"))
                .await
                .expect(200))
        };
        let second = get(&format!("{query}page={}&", archived - 1)).await;
        let last = get(&format!("{query}page={archived}&")).await;
        assert_eq!(follow(&front, "next").await, ids(&last));
        assert_eq!(
            (follow(&last, "next").await, follow(&second, "prev").await),
            (ids(&second), ids(&last))
        );
        let moved = http
            .get(&format!(
                "{api}?{query}page={}&numbering=stable",
                archived + 1
            ))
            .await;
        assert_leads_to(&moved, front["links"]["self"].as_str().unwrap());
        let beyond = http
            .get(&format!(
                "{api}?{query}page={}&numbering=stable",
                archived + 2
            ))
            .await;
        assert_eq!(
            (beyond.status, &beyond.problem()["type"]),
            (404, &json!("urn:pagemark:problem:past-the-end"))
        );
        for number in [0, archived * size - 1, archived * size, 329] {
            let id = &comments[number].id;
            let position = http
                .get(&format!(
                    "/api/v1/comments/{id}/position?{query}numbering=stable"
                ))
                .await
                .expect(200);
            let page = if number < archived * size {
                json!(number / size + 1)
            } else {
                Value::Null
            };
            assert_eq!(
                position,
                json!({ "page": page, "position": 330 - number, "total": 330 })
            );
        }
    }
    // In the order of the listing, and only among those that match.
    let position = async |query: &str| {
        http.get(&format!(
            "/api/v1/comments/{}/position?{query}",
            comments[9].id
        ))
        .await
    };
    for (query, page, place) in [
        ("order=oldest&page_size=3", 4, 10),
        ("page_size=3&rating=5", 22, 65),
    ] {
        assert_eq!(position(query).await.expect(200)["page"], page, "{query}");
        assert_eq!(
            position(query).await.expect(200)["position"],
            place,
            "{query}"
        );
    }
    assert_eq!(position("language=fr").await.status, 404);
    running.finish().await;
}
