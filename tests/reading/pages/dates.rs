//! The way to a month or a day: by its date to the page that holds its newest comment.

use model::{Filter, Language, Period, RatingSet};
use table::NewComment;

use super::{addresses::assert_leads_to, comment, html::Page, site_settings, start};
use crate::fixture::{
    data,
    http::{Http, ids},
};

const PAGES: &str = "/product/p/comments";

fn three_years() -> Vec<NewComment> {
    let of = |number: i64| {
        let language = if number % 3 == 0 { "de" } else { "en" };
        comment(
            "p",
            language,
            u64::try_from(number % 5).unwrap() + 1,
            number * 72,
        )
    };
    (0..360).map(of).collect()
}

/// Days and months within the comments' years, before, and after.
fn periods(comments: &[NewComment]) -> Vec<String> {
    let dated = [0, 1, 17, 180, 350, 359].map(|at: usize| comments[at].created_at.to_string());
    let days = dated.iter().map(|instant| instant[..10].to_owned());
    let months = dated.iter().map(|instant| instant[..7].to_owned());
    days.chain(months)
        .chain(["1970-01", "2999-12-31"].map(str::to_owned))
        .collect()
}

fn wanted<'all>(comments: &'all [NewComment], filter: &Filter, period: &str) -> &'all NewComment {
    let end = Period::parse(period).unwrap().end();
    let mut matching = comments
        .iter()
        .filter(|comment| filter.matches(&data::stored(comment).placement()));
    let first = matching.clone().next().unwrap();
    matching
        .rfind(|comment| comment.created_at <= end)
        .unwrap_or(first)
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
    assert_eq!(
        shown.all(&format!("article[id='{id}']")).len(),
        1,
        "{path} {period}: {page}"
    );
    // Before the first comment, and for the only one before the end, the list is the target.
    assert!(fragment == id || fragment == "comments", "{fragment}");
    assert_leads_to(&answer, &format!("{page}#{fragment}"));
}

#[tokio::test]
async fn a_date_leads_to_the_page_with_its_newest_comment_for_people_and_in_the_json_api() {
    let comments = three_years();
    let running = start(site_settings(), &comments).await;
    for (filter, order) in [
        ("", ""),
        ("/en", ""),
        ("/~/1.5", ""),
        ("/de/4", ""),
        ("", "?order=oldest"),
    ] {
        let mut parts = filter.split('/').skip(1);
        let language = parts.next().and_then(|tag| Language::parse(tag).ok());
        let parsed = Filter::new(
            language,
            parts.next().and_then(|set| RatingSet::parse(set).ok()),
        );
        for period in periods(&comments) {
            let path = format!("{PAGES}{filter}{order}");
            assert_leads_to_date(&running.http, &comments, &path, &parsed, &period).await;
        }
    }
    // Nobody has commented here: the first page says so.
    assert_leads_to(
        &running
            .http
            .get("/product/nobody/comments?date=2024-05")
            .await,
        "/product/nobody/comments#comments",
    );
    Page::get(&running.http, "/product/p/dates", 404).await;
    let api = "/api/v1/products/p/comments";
    for query in [
        "",
        "order=oldest&",
        "numbering=stable&",
        "language=en&rating=1&rating=5&page_size=7&",
    ] {
        let mut filter = Filter::ANY;
        if query.contains("language") {
            filter = Filter::new(Language::parse("en").ok(), RatingSet::parse("1.5").ok());
        }
        for period in periods(&comments) {
            let answer = running
                .http
                .get(&format!("{api}?{query}date={period}"))
                .await;
            let location = answer
                .header("location")
                .unwrap_or_else(|| panic!("{answer:?}"))
                .to_owned();
            assert_leads_to(&answer, &location);
            let shown = ids(&running.http.get(&location).await.expect(200));
            let wanted = wanted(&comments, &filter, &period).id.to_string();
            assert!(shown.contains(&wanted), "{query}{period}: {location}");
        }
    }
    running.finish().await;
}
