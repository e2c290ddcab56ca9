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
    let chips: Vec<(String, &str)> = page
        .all(".chips a")
        .into_iter()
        .map(|chip| (text_of(chip), chip.attr("href").unwrap()))
        .collect();
    let expected = [
        ("Remove Language: English ×", "/product/p/comments/~/1.5"),
        ("Remove Rating: 1 or 5 ×", "/product/p/comments/en"),
        ("Remove all filters", "/product/p/comments"),
    ];
    assert_eq!(
        chips,
        expected.map(|(label, href)| (label.to_owned(), href))
    );
    running.finish().await;
}

#[tokio::test]
async fn the_count_beside_a_filter_equals_the_count_on_its_page() {
    let running = start(site_settings(), &three_pages("p")).await;
    for filter in ["", "/~/2", "/en", "/de/1.4"] {
        let page = Page::get(&running.http, &format!("/product/p/comments{filter}"), 200).await;
        // With ratings in the filter, a link that adds one leads to all of them, so its count
        // differs.
        let ratings = if filter.ends_with(char::is_numeric) {
            ""
        } else {
            ", .ratings a"
        };
        let links = page.all(&format!(".languages a{ratings}"));
        assert_eq!(
            links.len(),
            if ratings.is_empty() { 3 } else { 8 },
            "{filter}"
        );
        for link in links {
            let count = text_of(inside(link, ".count")[0]);
            let leads_to = Page::get(&running.http, link.attr("href").unwrap(), 200).await;
            assert!(
                leads_to.text("main h2").starts_with(&count),
                "{filter}: {count}, {}",
                leads_to.text("main h2")
            );
        }
    }
    running.finish().await;
}

#[tokio::test]
async fn oldest_first_is_a_separate_listing_and_every_link_on_it_keeps_the_order() {
    let comments = three_pages("p");
    let running = start(site_settings(), &comments).await;
    let http = &running.http;
    let mut walked = Vec::new();
    for number in 1..=3 {
        let page_number = if number > 1 {
            format!("&page={number}")
        } else {
            String::new()
        };
        let target = format!("/product/p/comments?order=oldest{page_number}");
        let page = Page::get(http, &target, 200).await;
        walked.extend(
            page.all("article")
                .iter()
                .map(|article| article.attr("id").unwrap().to_owned()),
        );
        assert_eq!(
            (page.canonical(), page.robots()),
            (Some(format!("{SITE}{target}")), "noindex,follow".to_owned())
        );
        let place = if number > 1 {
            format!(", page {number}")
        } else {
            String::new()
        };
        assert_eq!(
            page.text("title"),
            format!("Comments on p{place}, oldest first")
        );
        let (from, to) = (number * 20 - 19, (number * 20).min(45));
        let days = [
            "14 Nov 2023 to 15 Nov 2023",
            "15 Nov 2023 to 16 Nov 2023",
            "16 Nov 2023",
        ][number - 1];
        assert_eq!(
            page.text("main h2"),
            format!("45 comments, page {number} of 3: {days}, oldest first")
        );
        let description = page.attribute("meta[name=description]", "content").unwrap();
        assert!(
            description.contains(&format!("Comments {from} to {to} of 45, oldest first: ")),
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
        assert_eq!(
            page.attribute(".order a", "href").unwrap(),
            "/product/p/comments"
        );
        assert_eq!(
            page.attribute("link[rel=next]", "href").is_some(),
            number < 3
        );
    }
    let expected: Vec<String> = comments
        .iter()
        .map(|comment| format!("comment-{}", comment.id))
        .collect();
    assert_eq!(walked, expected);
    running.finish().await;
}

/// Five comments in English rated 5, five in German rated 4, and four in French rated 1.
fn of_three_languages() -> Vec<NewComment> {
    let of = |number: i64| match number {
        0..5 => comment("p", "en", 5, number),
        5..10 => comment("p", "de", 4, number),
        _ => comment("p", "fr", 1, number),
    };
    (0..14).map(of).collect()
}

fn is_indexed(page: &Page, target: &str) -> bool {
    page.robots() == "index,follow" && page.canonical() == Some(format!("{SITE}{target}"))
}

#[tokio::test]
async fn a_page_says_whether_it_may_be_indexed_and_links_to_other_pages_are_nofollow() {
    let mut settings = site_settings();
    settings.api.site.indexable = Indexable::Single;
    let running = start(settings, &of_three_languages()).await;
    // Too few comments are French. No page with the oldest comments first may be indexed.
    let never = [
        "/~/4.5",
        "/en/5",
        "/fr",
        "/~/1",
        "?order=oldest",
        "/en?order=oldest",
    ]
    .map(|filter| (filter, false));
    for (filter, indexed) in ["", "/en", "/~/5"]
        .map(|filter| (filter, true))
        .into_iter()
        .chain(never)
    {
        let target = format!("/product/p/comments{filter}");
        let page = Page::get(&running.http, &target, 200).await;
        let expected = if indexed {
            "index,follow"
        } else {
            "noindex,follow"
        };
        assert_eq!(page.robots(), expected, "{filter}");
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
        for page in [
            "/product/p/comments",
            "/product/p/comments?page=1",
            "/product/one/comments",
        ] {
            let (path, number) = page
                .split_once('?')
                .map_or((page, ""), |(path, _)| (path, "?page=1"));
            let copy = Page::get(http, &format!("{path}{filter}{number}"), 200).await;
            let robots = (copy.canonical(), copy.robots());
            assert_eq!(
                robots,
                (Some(format!("{SITE}{page}")), "index,follow".to_owned()),
                "{filter}"
            );
            assert_eq!(
                copy.link_header()[0],
                ("canonical".to_owned(), format!("{SITE}{page}"))
            );
            assert_eq!(shown(&copy), shown(&Page::get(http, page, 200).await));
        }
    }
    running.finish().await;
}

/// The links of a page that is 404.
async fn links_of_404(http: &Http, target: &str) -> (Page, Vec<String>) {
    let page = Page::get(http, target, 404).await;
    assert_eq!(
        (
            page.robots().as_str(),
            page.canonical(),
            page.structured_data()
        ),
        ("noindex,follow", None, None)
    );
    assert_eq!(
        (page.answer.header("cache-control"), page.link_header()),
        (Some("no-store"), Vec::new())
    );
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
        assert!(
            page.text("main").contains(nobody) && page.all(".filters").is_empty(),
            "{}",
            page.answer.body
        );
        assert_eq!(links, ["/"]);
    }
    for target in ["/~/1", "/fr", "/en/1.4", "/fr/1", "/fr?order=oldest"] {
        let (page, links) = links_of_404(http, &format!("/product/p/comments{target}")).await;
        assert!(
            page.text("main")
                .contains("No comment on this product matches these filters.")
        );
        assert!(
            page.text("title").starts_with("No comments on p, "),
            "{}",
            page.text("title")
        );
        assert!(
            !page.all(".filters").is_empty() && links.len() > 1,
            "{target}: {links:?}"
        );
    }
    // A program asks for a list, which is empty.
    for (product, query) in [("nobody", ""), ("p", "?language=fr")] {
        let listing = http
            .get(&format!("/api/v1/products/{product}/comments{query}"))
            .await
            .expect(200);
        assert_eq!(
            (&listing["total"], &listing["comments"]),
            (&json!(0), &json!([]))
        );
    }
    // Past the end of nothing, there is no first page to go to.
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
    let ratings: Vec<(String, Option<&str>)> = page
        .all(".ratings a")
        .iter()
        .map(|choice| (text_of(*choice), choice.attr("href")))
        .collect();
    let without = |rating: u8| (format!("{rating} out of 5 ★ 0% 0 comments"), None);
    let expected = [
        // Without it, the filter would match nothing.
        ("5 out of 5 ★ 100% 1 comment".to_owned(), None),
        (
            "4 out of 5 ★ 0% 0 comments".to_owned(),
            Some("/product/p/comments/en/5"),
        ),
        without(3),
        without(2),
        without(1),
    ];
    assert_eq!(ratings, expected);
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
            assert_eq!(
                (answer.status, answer.header("cache-control")),
                (200, Some(caching)),
                "{target}"
            );
        }
    }
    running.finish().await;
}
