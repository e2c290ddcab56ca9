//! The way to a month or a day: by its date to the page that holds its newest comment.

use model::{Filter, Period};
use table::NewComment;

use super::{addresses::assert_leads_to, comment, html::Page, site_settings, start};
use crate::fixture::{
    data,
    http::{Http, ids},
};

const PAGES: &str = "/product/p/comments";

fn three_years() -> Vec<NewComment> {
    let mut comments = Vec::new();
    for number in 0..360 {
        let language = if number % 3 == 0 { "de" } else { "en" };
        let rating = u64::try_from(number % 5).unwrap() + 1;
        comments.push(comment("p", language, rating, number * 72));
    }
    comments
}

/// Days and months within the comments' years, before, and after.
fn periods(comments: &[NewComment]) -> Vec<String> {
    let mut periods = vec!["1970-01".to_owned(), "2999-12-31".to_owned()];
    for number in [0, 1, 17, 180, 350, 359] {
        let instant = comments[number].created_at.to_string();
        let day = instant[..10].to_owned();
        let month = instant[..7].to_owned();
        periods.extend([day, month]);
    }
    periods
}

/// The comment to which a period leads: the newest that is not later, or else the first.
fn wanted<'all>(comments: &'all [NewComment], filter: &Filter, period: &str) -> &'all NewComment {
    let end = Period::parse(period).unwrap().end();
    let mut wanted = None;
    for comment in comments {
        let is_matching = filter.matches(&data::stored(comment).placement());
        if is_matching && (wanted.is_none() || comment.created_at <= end) {
            wanted = Some(comment);
        }
    }
    wanted.unwrap()
}

async fn assert_leads_to_date(
    http: &Http,
    comments: &[NewComment],
    path: &str,
    filter: &Filter,
    period: &str,
) {
    let separator = if path.contains('?') { '&' } else { '?' };
    let answer = http.get(&format!("{path}{separator}date={period}")).await;
    let wanted = wanted(comments, filter, period);
    let (page, fragment) = answer.header("location").unwrap().split_once('#').unwrap();
    let page = page.to_owned();
    let shown = Page::get(http, &page, 200).await;
    let id = format!("comment-{}", wanted.id);
    let articles = shown.all(&format!("article[id='{id}']"));
    assert_eq!(articles.len(), 1, "{path} {period}: {page}");
    // Before the first comment, and for the only one before the end, the list is the target.
    assert!(fragment == id || fragment == "comments", "{fragment}");
    assert_leads_to(&answer, &format!("{page}#{fragment}"));
}

#[tokio::test]
async fn a_date_leads_to_the_page_with_its_newest_comment_for_people_and_in_the_json_api() {
    let comments = three_years();
    let running = start(site_settings(), &comments).await;
    let http = &running.http;
    for (path, filter) in [
        ("", Filter::ANY),
        ("/en", data::filter(Some("en"), None)),
        ("/~/1.5", data::filter(None, Some("1.5"))),
        ("/de/4", data::filter(Some("de"), Some("4"))),
        ("?order=oldest", Filter::ANY),
    ] {
        let path = format!("{PAGES}{path}");
        for period in periods(&comments) {
            assert_leads_to_date(http, &comments, &path, &filter, &period).await;
        }
    }
    // A product without comments: the first page says so.
    let answer = http.get("/product/nobody/comments?date=2024-05").await;
    assert_leads_to(&answer, "/product/nobody/comments#comments");
    Page::get(http, "/product/p/dates", 404).await;
    for (query, filter) in [
        ("", Filter::ANY),
        ("order=oldest&", Filter::ANY),
        ("numbering=stable&", Filter::ANY),
        (
            "language=en&rating=1&rating=5&page_size=7&",
            data::filter(Some("en"), Some("1.5")),
        ),
    ] {
        for period in periods(&comments) {
            let target = format!("/api/v1/products/p/comments?{query}date={period}");
            let answer = http.get(&target).await;
            let location = answer
                .header("location")
                .unwrap_or_else(|| panic!("{answer:?}"));
            assert_leads_to(&answer, location);
            let shown = ids(&http.get(location).await.expect(200));
            let wanted = wanted(&comments, &filter, &period).id.to_string();
            assert!(shown.contains(&wanted), "{query}{period}: {location}");
        }
    }
    running.finish().await;
}
