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
    html::{Page, assert_turns, whole_text},
    in_turn,
    names::put,
    site_settings, start,
    structured_data::shown_reviews,
    three_pages,
};
use crate::fixture::{
    api::Served,
    data,
    http::{Answer, Http, good_comment, ids},
    stores::Stores,
};

const PAGES: &str = "/product/p/comments";

/// The ids of the comments on a page for people, from top to bottom.
pub(super) fn shown(page: &Page) -> Vec<String> {
    let mut ids = Vec::new();
    for article in page.all("article") {
        let id = article.attr("id").unwrap();
        ids.push(id.strip_prefix("comment-").unwrap().to_owned());
    }
    ids
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
    let english = Page::get(http, &format!("{PAGES}/en"), 200).await;
    assert_eq!(shown(&english).len(), 30);
    for (target, to) in [
        ("/product/p/comments?page=2", "/product/p/comments"),
        ("/product/p/comments/en?page=1", "/product/p/comments/en"),
        ("/product/q/comments?page=1", "/product/q/comments"),
    ] {
        assert_leads_to(&http.get(target).await, to);
    }
    let another_spelling = format!("{PAGES}?page=01&order=newest");
    assert_moved(http, &another_spelling, &format!("{PAGES}?page=1"), "").await;
    running.finish().await;
}

const FRONT: &str = "/product/a%2Fb/comments";

/// A page of 65 comments: what it says about itself, and the pages before and after it in the order
/// of the listing.
struct Expected {
    path: &'static str,
    title: &'static str,
    heading: &'static str,
    prev: Option<&'static str>,
    next: Option<&'static str>,
}

const FRONT_AND_ARCHIVE: [Expected; 3] = [
    Expected {
        path: FRONT,
        title: "Comments on a/b",
        heading: "65 comments: the newest, 16 Nov 2023 to 17 Nov 2023",
        prev: None,
        next: Some("/product/a%2Fb/comments?page=2"),
    },
    Expected {
        path: "/product/a%2Fb/comments?page=2",
        title: "Comments on a/b, page 2",
        heading: "65 comments, page 2 of 2 from the oldest: 15 Nov 2023 to 16 Nov 2023",
        prev: Some("/product/a%2Fb/comments?page=3"),
        next: Some("/product/a%2Fb/comments?page=1"),
    },
    Expected {
        path: "/product/a%2Fb/comments?page=1",
        title: "Comments on a/b, page 1",
        heading: "65 comments, page 1 of 2 from the oldest: 14 Nov 2023 to 15 Nov 2023",
        prev: Some("/product/a%2Fb/comments?page=2"),
        next: None,
    },
];

/// A page leads to its neighbours, to the front page and to the last page.
fn assert_neighbours(page: &Page, expected: &Expected) {
    let prev = page.attribute("link[rel=prev]", "href");
    assert_eq!(prev.as_deref(), expected.prev);
    let next = page.attribute("link[rel=next]", "href");
    assert_eq!(next.as_deref(), expected.next);
    assert_turns(page, expected.prev, expected.next);
    let mut links = Vec::new();
    for (rel, path) in [
        ("canonical", Some(expected.path)),
        ("first", Some(FRONT)),
        ("prev", expected.prev),
        ("next", expected.next),
        ("last", Some("/product/a%2Fb/comments?page=1")),
    ] {
        if let Some(path) = path {
            links.push((rel.to_owned(), format!("{SITE}{path}")));
        }
    }
    assert_eq!(page.link_header(), links);
    let newest = page.all("nav.pages li a, nav.pages li strong")[0];
    assert_eq!(whole_text(newest), "Newest");
    // The front page does not link to itself.
    if let Some(href) = newest.attr("href") {
        assert_eq!(href, format!("{FRONT}#comments"));
    }
}

#[tokio::test]
async fn an_archive_page_names_its_neighbours_by_numbers_and_no_total_in_its_head() {
    let comments: Vec<NewComment> = (0..65)
        .map(|number| comment("a/b", "en", 3, number))
        .collect();
    let running = start(site_settings(), &comments).await;
    put(&running, "a/b", &json!({ "name": "a/b" })).await;
    let mut descriptions = BTreeSet::new();
    for expected in FRONT_AND_ARCHIVE {
        let page = Page::get(&running.http, expected.path, 200).await;
        let is_front = expected.path == FRONT;
        assert_eq!(page.text("title"), expected.title);
        assert_eq!(page.text("main h2"), expected.heading);
        assert_neighbours(&page, &expected);
        // The average of the product changes with each comment, so only the front page has it in
        // its description. Search engines want it in the structured data of every page.
        let description = page.attribute("meta[name=description]", "content").unwrap();
        let has_average = description.contains("Rated 3.00 out of 5 by 65 comments");
        assert_eq!(has_average, is_front, "{description}");
        assert_eq!(description.contains("65"), is_front, "{description}");
        assert!(descriptions.insert(description), "each page has its own");
        let data = page.structured_data().unwrap();
        assert_eq!(data["aggregateRating"]["reviewCount"], 65, "{data}");
        assert_eq!(data["review"], json!(shown_reviews(&page)));
        assert_eq!(page.text(".average"), "★ 3.00 out of 5, from 65 comments");
        // HEAD is GET without the body.
        let head = running
            .http
            .send(Method::HEAD, expected.path, &[], b"")
            .await;
        assert_eq!(head.status, 200);
        assert_eq!(head.header("link"), page.answer.header("link"));
        assert_eq!(head.body, "");
    }
    // The JSON listings have such links, too.
    let url = "/api/v1/products/a%2Fb/comments";
    let listing = running.http.get(&format!("{url}?page=2")).await;
    let expected = [
        format!("<{url}?page=1>; rel=\"first\""),
        format!("<{url}?page=1>; rel=\"prev\""),
        format!("<{url}?page=3>; rel=\"next\""),
        format!("<{url}?page=4>; rel=\"last\""),
    ];
    assert_eq!(listing.header("link"), Some(expected.join(", ").as_str()));
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
        let page = Page::get(&running.http, &format!("{PAGES}{page}"), 200).await;
        assert!(shown(&page).contains(&id.to_owned()));
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
        Some("public, max-age=30, stale-while-revalidate=0, stale-if-error=0")
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
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("last-modified"), None, "{answer:?}");
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
    // Everything newer has moved up by one.
    let page = Page::get(&http, &page, 200).await;
    assert_eq!(shown(&page).len(), 20);
    assert_eq!(shown(&page)[0].as_str(), comments[20].id.as_str());
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
    let front = format!("{list}?numbering=stable");
    let listed = api.http.get(&front).await.expect(200);
    assert_eq!(listed["total"], 106);
    assert_eq!(listed["total_pages"], 2);
    assert_eq!(ids(&listed).len(), 39);
    let next = listed["links"]["next"].as_str().unwrap();
    assert!(next.contains("cursor="), "{listed}");
    let archived = api.http.get(&format!("{front}&page=1")).await.expect(200);
    assert_eq!(archived["total"], 45);
    assert_eq!(archived["total_pages"], 2);
    let position = format!("/api/v1/comments/{first}/position?numbering=stable");
    let position = api.http.get(&position).await.expect(200);
    assert_eq!(
        position,
        json!({ "page": null, "position": 61, "total": 106 })
    );
    let permalink = api.http.get(&format!("/comments/{first}")).await;
    assert_leads_to(&permalink, &format!("{PAGES}#comment-{first}"));
    let dated = api.http.get(&format!("{front}&date=2999-01")).await;
    assert_leads_to(&dated, &front);
    let page = Page::get(&api.http, &format!("{PAGES}?page=1"), 200).await;
    assert_eq!(
        page.text("main h2"),
        "45 comments, page 1 of 1 from the oldest: 14 Nov 2023"
    );
    let partition = stores.index.partition_of(&data::product("p")).number();
    let part = format!("/sitemap/{partition}-1.xml");
    let sitemap = api.http.get(&part).await.body;
    for (page, is_listed) in [
        ("?page=1", true),
        ("?page=2", false),
        ("/en?page=1", false),
        ("/en?page=2", false),
    ] {
        let entry = format!("{PAGES}{page}</loc>");
        assert_eq!(sitemap.contains(&entry), is_listed, "{sitemap}");
    }
    api.finish_with(stores).await;
}

/// The JSON listing of 330 comments with stable numbers, by pages of one size.
struct Listing<'site> {
    http: &'site Http,
    comments: &'site [NewComment],
    page_size: usize,
    /// Number of archive pages.
    archived: usize,
}

impl Listing<'_> {
    const PATH: &'static str = "/api/v1/products/p/comments";

    async fn get(&self, number: usize) -> Answer {
        let target = format!(
            "{}?page_size={}&page={number}&numbering=stable",
            Self::PATH,
            self.page_size
        );
        self.http.get(&target).await
    }

    async fn front(&self) -> Value {
        let target = format!(
            "{}?page_size={}&numbering=stable",
            Self::PATH,
            self.page_size
        );
        self.http.get(&target).await.expect(200)
    }

    /// Walks by links from the front page through the archive, and on each page checks the way
    /// back.
    async fn assert_links(&self) {
        let mut page = self.front().await;
        let mut walked = ids(&page);
        while let Some(next) = page["links"]["next"].as_str().map(str::to_owned) {
            let newer = page["links"]["self"].clone();
            page = self.http.get(&next).await.expect(200);
            assert_eq!(ids(&page).len(), self.page_size);
            let prev = page["links"]["prev"].as_str().unwrap();
            let back = self.http.get(prev).await;
            // The newer neighbour of the last archive page leads to the front page.
            let leads_to = back.header("location").unwrap_or(prev);
            assert_eq!(leads_to, newer);
            walked.extend(ids(&page));
        }
        assert_eq!(page["page"], 1);
        assert_eq!(walked, newest_ids(self.comments));
    }

    async fn ids_by_cursor(&self, page: &Value, direction: &str) -> Vec<String> {
        let cursor = page["cursor"][direction].as_str().unwrap();
        let target = format!(
            "{}?page_size={}&cursor={cursor}",
            Self::PATH,
            self.page_size
        );
        ids(&self.http.get(&target).await.expect(200))
    }

    /// Cursors lead from the front page into the archive, and from an archive page in both
    /// directions.
    async fn assert_cursors(&self) {
        let front = self.front().await;
        let second = self.get(self.archived - 1).await.expect(200);
        let last = self.get(self.archived).await.expect(200);
        assert_eq!(self.ids_by_cursor(&front, "next").await, ids(&last));
        assert_eq!(self.ids_by_cursor(&last, "next").await, ids(&second));
        assert_eq!(self.ids_by_cursor(&second, "prev").await, ids(&last));
    }

    /// The number after the last archive page leads to the front page, and no other does.
    async fn assert_ends(&self) {
        let front = self.front().await;
        let moved = self.get(self.archived + 1).await;
        assert_leads_to(&moved, front["links"]["self"].as_str().unwrap());
        let beyond = self.get(self.archived + 2).await;
        assert_eq!(beyond.status, 404);
        assert_eq!(
            beyond.problem()["type"],
            "urn:pagemark:problem:past-the-end"
        );
    }

    async fn assert_positions(&self) {
        let size = self.page_size;
        let in_archive = self.archived * size;
        for number in [0, in_archive - 1, in_archive, 329] {
            let id = &self.comments[number].id;
            let query = format!("page_size={size}&numbering=stable");
            let target = format!("/api/v1/comments/{id}/position?{query}");
            let position = self.http.get(&target).await.expect(200);
            let page = if number < in_archive {
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
}

#[tokio::test]
async fn json_listings_take_stable_numbers_too() {
    let comments = in_turn("p", &["en"], &[1, 2, 3, 4, 5], 330);
    let running = start(site_settings(), &comments).await;
    let http = &running.http;
    for (page_size, on_front, archived) in [(100, 130, 2), (20, 30, 15), (7, 8, 46)] {
        let listing = Listing {
            http,
            comments: &comments,
            page_size,
            archived,
        };
        let front = listing.front().await;
        assert_eq!(front["page"], Value::Null, "{front}");
        assert_eq!(front["as_of"], Value::Null, "{front}");
        assert_eq!(front["links"]["prev"], Value::Null, "{front}");
        assert_eq!(front["total"], 330);
        assert_eq!(front["total_pages"], archived + 1);
        assert_eq!(ids(&front).len(), on_front);
        listing.assert_links().await;
        listing.assert_cursors().await;
        listing.assert_ends().await;
        listing.assert_positions().await;
    }
    // In the order of the listing, and only among those that match.
    let address = format!("/api/v1/comments/{}/position", comments[9].id);
    for (query, page, position) in [
        ("order=oldest&page_size=3", 4, 10),
        ("page_size=3&rating=5", 22, 65),
    ] {
        let found = http.get(&format!("{address}?{query}")).await.expect(200);
        assert_eq!(found["page"], page, "{query}");
        assert_eq!(found["position"], position, "{query}");
    }
    let other = http.get(&format!("{address}?language=fr")).await;
    assert_eq!(other.status, 404);
    running.finish().await;
}
