//! How pages describe themselves: titles, descriptions, neighbours, and permissions for search
//! engines.

use api::Indexable;
use serde_json::json;
use table::NewComment;

use super::{
    SITE, comment,
    html::{Page, inside, text_of},
    site_settings,
    stable::shown,
    start, three_pages,
};
use crate::fixture::http::Http;

#[tokio::test]
async fn the_filter_is_in_title_and_heading_and_can_be_removed() {
    let running = start(site_settings(), &three_pages("p")).await;
    let page = Page::get(&running.http, "/product/p/comments/en/1.5", 200).await;
    assert_eq!(
        page.text("title"),
        "Comments on p, in English, rated 1 or 5"
    );
    assert_eq!(page.text("h1"), "Comments on p, in English, rated 1 or 5");
    assert_eq!(
        page.text("main h2"),
        "12 comments in English, rated 1 or 5: 15 Nov 2023 to 16 Nov 2023"
    );
    let labels: Vec<String> = page.all(".chips a").into_iter().map(text_of).collect();
    assert_eq!(
        labels,
        [
            "Remove Language: English ×",
            "Remove Rating: 1 or 5 ×",
            "Remove all filters",
        ]
    );
    assert_eq!(
        page.links(".chips a"),
        [
            "/product/p/comments/~/1.5",
            "/product/p/comments/en",
            "/product/p/comments",
        ]
    );
    running.finish().await;
}

#[tokio::test]
async fn the_count_beside_a_filter_equals_the_count_on_its_page() {
    let running = start(site_settings(), &three_pages("p")).await;
    for filter in ["", "/~/2", "/en", "/de/1.4"] {
        let page = Page::get(&running.http, &format!("/product/p/comments{filter}"), 200).await;
        let mut links = page.all(".languages a");
        assert_eq!(links.len(), 3, "{filter}");
        // With ratings in the filter, a link that adds one leads to all of them, so its count
        // differs.
        if !filter.ends_with(char::is_numeric) {
            links.extend(page.all(".ratings a"));
            assert_eq!(links.len(), 8, "{filter}");
        }
        for link in links {
            let count = text_of(inside(link, ".count")[0]);
            let leads_to = Page::get(&running.http, link.attr("href").unwrap(), 200).await;
            let heading = leads_to.text("main h2");
            assert!(heading.starts_with(&count), "{filter}: {count}, {heading}");
        }
    }
    running.finish().await;
}

/// What a page with the oldest comments first says about itself.
struct OldestFirst {
    path: &'static str,
    title: &'static str,
    heading: &'static str,
    in_description: &'static str,
    has_next: bool,
}

const OLDEST_FIRST: [OldestFirst; 3] = [
    OldestFirst {
        path: "/product/p/comments?order=oldest",
        title: "Comments on p, oldest first",
        heading: "45 comments, page 1 of 3: 14 Nov 2023 to 15 Nov 2023, oldest first",
        in_description: "Comments 1 to 20 of 45, oldest first: ",
        has_next: true,
    },
    OldestFirst {
        path: "/product/p/comments?order=oldest&page=2",
        title: "Comments on p, page 2, oldest first",
        heading: "45 comments, page 2 of 3: 15 Nov 2023 to 16 Nov 2023, oldest first",
        in_description: "Comments 21 to 40 of 45, oldest first: ",
        has_next: true,
    },
    OldestFirst {
        path: "/product/p/comments?order=oldest&page=3",
        title: "Comments on p, page 3, oldest first",
        heading: "45 comments, page 3 of 3: 16 Nov 2023, oldest first",
        in_description: "Comments 41 to 45 of 45, oldest first: ",
        has_next: false,
    },
];

#[tokio::test]
async fn oldest_first_is_a_separate_listing_and_every_link_on_it_keeps_the_order() {
    let comments = three_pages("p");
    let running = start(site_settings(), &comments).await;
    let http = &running.http;
    let mut walked = Vec::new();
    for expected in OLDEST_FIRST {
        let page = Page::get(http, expected.path, 200).await;
        walked.extend(shown(&page));
        assert_eq!(page.canonical(), Some(format!("{SITE}{}", expected.path)));
        assert_eq!(page.robots(), "noindex,follow");
        assert_eq!(page.text("title"), expected.title);
        assert_eq!(page.text("main h2"), expected.heading);
        let description = page.attribute("meta[name=description]", "content").unwrap();
        assert!(
            description.contains(expected.in_description),
            "{description}"
        );
        let on_the_way = page.links(".filters a, .chips a, .pages a:not(.others)");
        assert!(on_the_way.len() > 10, "{}", page.answer.body);
        for href in on_the_way {
            assert!(href.contains("?order=oldest"), "{href}");
            assert_eq!(http.get(href).await.status, 200, "{href}");
        }
        for (rel, target) in page.link_header() {
            assert!(target.contains("?order=oldest"), "{rel}: {target}");
        }
        let other_orders = ["", "?order=highest", "?order=lowest"];
        assert_eq!(
            page.links(".order a"),
            other_orders.map(|query| format!("/product/p/comments{query}"))
        );
        let next = page.attribute("link[rel=next]", "href");
        assert_eq!(next.is_some(), expected.has_next);
    }
    let all: Vec<String> = comments
        .iter()
        .map(|comment| comment.id.to_string())
        .collect();
    assert_eq!(walked, all);
    running.finish().await;
}

#[tokio::test]
async fn pages_by_rating_are_separate_listings_that_are_not_indexed() {
    let running = start(site_settings(), &three_pages("p")).await;
    let http = &running.http;
    for (order, in_words) in [
        ("highest", "highest rating first"),
        ("lowest", "lowest rating first"),
    ] {
        let mut walked = Vec::new();
        for page in ["", "&page=2", "&page=3"] {
            let path = format!("/product/p/comments?order={order}{page}");
            let page = Page::get(http, &path, 200).await;
            assert_eq!(page.canonical(), Some(format!("{SITE}{path}")));
            assert_eq!(page.robots(), "noindex,follow");
            assert!(page.text("title").ends_with(in_words), "{path}");
            walked.extend(shown(&page));
        }
        assert_eq!(walked.len(), 45);
        walked.sort_unstable();
        walked.dedup();
        assert_eq!(walked.len(), 45, "a comment is on two pages");
    }
    // One rating alone is in no order of ratings.
    let page = Page::get(http, "/product/p/comments/~/3", 200).await;
    assert_eq!(
        page.links(".order a"),
        ["/product/p/comments/~/3?order=oldest"]
    );
    running.finish().await;
}

/// Five comments in English rated 5, five in German rated 4, and four in French rated 1.
fn of_three_languages() -> Vec<NewComment> {
    let mut comments = Vec::new();
    for number in 0..14 {
        comments.push(match number {
            0..5 => comment("p", "en", 5, number),
            5..10 => comment("p", "de", 4, number),
            _ => comment("p", "fr", 1, number),
        });
    }
    comments
}

fn is_indexed(page: &Page, target: &str) -> bool {
    page.robots() == "index,follow" && page.canonical() == Some(format!("{SITE}{target}"))
}

#[tokio::test]
async fn a_page_says_whether_it_may_be_indexed_and_links_to_other_pages_are_nofollow() {
    let mut settings = site_settings();
    settings.api.site.indexable = Indexable::Single;
    let running = start(settings, &of_three_languages()).await;
    for (filter, robots) in [
        ("", "index,follow"),
        ("/en", "index,follow"),
        ("/~/5", "index,follow"),
        ("/~/4.5", "noindex,follow"),
        ("/en/5", "noindex,follow"),
        // Too few comments are French.
        ("/fr", "noindex,follow"),
        ("/~/1", "noindex,follow"),
        // No page with the oldest comments first may be indexed.
        ("?order=oldest", "noindex,follow"),
        ("/en?order=oldest", "noindex,follow"),
    ] {
        let target = format!("/product/p/comments{filter}");
        let page = Page::get(&running.http, &target, 200).await;
        assert_eq!(page.robots(), robots, "{filter}");
        assert_eq!(page.canonical(), Some(format!("{SITE}{target}")));
        for link in page.all(".filters a[href], .chips a, .order a") {
            let href = link.attr("href").unwrap();
            let leads_to = Page::get(&running.http, href, 200).await;
            let is_followed = link.attr("rel") != Some("nofollow");
            assert_eq!(is_indexed(&leads_to, href), is_followed, "{href}");
        }
    }
    running.finish().await;
}

#[tokio::test]
async fn a_filter_that_shows_every_comment_names_the_unfiltered_page_as_canonical() {
    let mut comments: Vec<NewComment> = (0..45)
        .map(|number| comment("p", "en", 2, number))
        .collect();
    comments.push(comment("one", "en", 2, 1));
    let running = start(site_settings(), &comments).await;
    let http = &running.http;
    for filter in ["/en", "/~/2", "/en/2", "/~/1.2"] {
        for (path, number) in [
            ("/product/p/comments", ""),
            ("/product/p/comments", "?page=1"),
            ("/product/one/comments", ""),
        ] {
            let original = Page::get(http, &format!("{path}{number}"), 200).await;
            let canonical = format!("{SITE}{path}{number}");
            let copy = Page::get(http, &format!("{path}{filter}{number}"), 200).await;
            assert_eq!(copy.canonical(), Some(canonical.clone()), "{filter}");
            assert_eq!(copy.robots(), "index,follow", "{filter}");
            assert_eq!(copy.link_header()[0], ("canonical".to_owned(), canonical));
            assert_eq!(shown(&copy), shown(&original));
        }
    }
    running.finish().await;
}

/// The links of a page that is 404.
async fn links_of_404(http: &Http, target: &str) -> (Page, Vec<String>) {
    let page = Page::get(http, target, 404).await;
    assert_eq!(page.robots(), "noindex,follow");
    assert_eq!(page.canonical(), None);
    assert_eq!(page.structured_data(), None);
    assert_eq!(page.answer.header("cache-control"), Some("no-store"));
    assert_eq!(page.link_header(), Vec::new());
    let links: Vec<String> = page
        .links("a[href^='/product'], main a")
        .into_iter()
        .map(str::to_owned)
        .collect();
    for link in &links {
        assert_eq!(http.get(link).await.status, 200, "{target}: {link}");
    }
    (page, links)
}

#[tokio::test]
async fn a_listing_without_comments_is_404_and_every_link_on_it_leads_to_comments() {
    let running = start(
        site_settings(),
        &[comment("p", "en", 5, 1), comment("p", "de", 4, 2)],
    )
    .await;
    let http = &running.http;
    let nobody = "Nobody has commented on this product yet.";
    for target in [
        "/product/nobody/comments",
        "/product/nobody/comments/en/5",
        "/product/nobody/comments?order=oldest",
    ] {
        let (page, links) = links_of_404(http, target).await;
        assert!(page.text("main").contains(nobody), "{}", page.answer.body);
        assert!(page.all(".filters").is_empty(), "{}", page.answer.body);
        assert_eq!(links, ["/"]);
    }
    for target in ["/~/1", "/fr", "/en/1.4", "/fr/1", "/fr?order=oldest"] {
        let (page, links) = links_of_404(http, &format!("/product/p/comments{target}")).await;
        assert!(
            page.text("main")
                .contains("No comment on this product matches these filters.")
        );
        let title = page.text("title");
        assert!(title.starts_with("No comments on p, "), "{title}");
        assert!(!page.all(".filters").is_empty(), "{target}: {links:?}");
        assert!(links.len() > 1, "{target}: {links:?}");
    }
    // A program asks for a list, which is empty.
    for (product, query) in [("nobody", ""), ("p", "?language=fr")] {
        let listing = http
            .get(&format!("/api/v1/products/{product}/comments{query}"))
            .await
            .expect(200);
        assert_eq!(listing["total"], 0);
        assert_eq!(listing["comments"], json!([]));
    }
    // Past the end of nothing, a link to a first page would be wrong.
    let (_, links) = links_of_404(http, "/product/nobody/comments?page=2").await;
    assert_eq!(links, ["/"]);
    running.finish().await;
}

#[tokio::test]
async fn a_choice_without_comments_is_text_and_not_a_link() {
    let running = start(
        site_settings(),
        &[comment("p", "en", 5, 1), comment("p", "de", 4, 2)],
    )
    .await;
    let page = Page::get(&running.http, "/product/p/comments/en/4.5", 200).await;
    let ratings = page.all(".ratings a");
    let expected = [
        // Without it, the filter would match nothing.
        ("5 out of 5 ★ 100% 1 comment", None),
        (
            "4 out of 5 ★ 0% 0 comments",
            Some("/product/p/comments/en/5"),
        ),
        ("3 out of 5 ★ 0% 0 comments", None),
        ("2 out of 5 ★ 0% 0 comments", None),
        ("1 out of 5 ★ 0% 0 comments", None),
    ];
    assert_eq!(ratings.len(), expected.len());
    for (rating, (text, leads_to)) in ratings.into_iter().zip(expected) {
        assert_eq!(text_of(rating), text);
        assert_eq!(rating.attr("href"), leads_to, "{text}");
    }
    assert_eq!(page.links(".languages a[href]").len(), 3);
    let page = Page::get(&running.http, "/product/p/comments/~/5", 200).await;
    assert_eq!(
        page.links(".languages a[href]"),
        ["/product/p/comments/~/5", "/product/p/comments/en/5"]
    );
    running.finish().await;
}

#[tokio::test]
async fn a_file_stays_in_caches_for_a_year_under_the_address_that_pages_name() {
    let running = start(site_settings(), &[comment("p", "en", 5, 1)]).await;
    let page = Page::get(&running.http, "/product/p/comments", 200).await;
    for link in ["stylesheet", "icon"] {
        let address = page
            .attribute(&format!("link[rel={link}]"), "href")
            .unwrap();
        let (path, _) = address.split_once('?').unwrap();
        for (target, caching) in [
            (address.as_str(), "public, max-age=31536000, immutable"),
            (&format!("{path}?v=00000000"), "no-cache"),
            (path, "no-cache"),
        ] {
            let answer = running.http.get(target).await;
            assert_eq!(answer.status, 200, "{target}");
            assert_eq!(answer.header("cache-control"), Some(caching), "{target}");
        }
    }
    running.finish().await;
}
