//! What a crawler finds when it comes again after some posts: with stable numbers, nearly everything as it was.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use hyper::Method;

use super::{html::Page, in_turn, site_settings, stable::shown, start};
use crate::fixture::{
    http::{Http, good_comment},
    size::{Size, size},
};

const POSTS: u64 = 100;

const FILTERS: [&str; 6] = ["", "/en", "/de", "/~/5", "/~/1.2", "/en/4.5"];

fn comments() -> usize {
    match size() {
        Size::Small => 600,
        Size::Usual => 2_000,
        Size::Full => 10_000,
    }
}

struct Kept {
    tag: String,
    shown: Vec<String>,
}

async fn crawl(http: &Http) -> BTreeMap<(&'static str, String), Kept> {
    let listings = stream::iter(FILTERS).map(async |filter| {
        let mut kept = Vec::new();
        let mut next = Some(format!("/product/p/comments{filter}"));
        while let Some(target) = next {
            let page = Page::get(http, &target, 200).await;
            let tag = page.answer.header("etag").unwrap().to_owned();
            next = page.attribute("link[rel=next]", "href");
            kept.push(((filter, target), Kept { tag, shown: shown(&page) }));
        }
        kept
    });
    listings.buffer_unordered(4).collect::<Vec<_>>().await.into_iter().flatten().collect()
}

#[derive(Debug, Default)]
struct Recrawl {
    pages: usize,
    numbered: usize,
    /// Those of them that were answered 304.
    not_modified: usize,
    /// For each filter, the addresses that show other comments now.
    changed: BTreeMap<&'static str, Vec<String>>,
}

impl Recrawl {
    async fn of(http: &Http, kept: &BTreeMap<(&'static str, String), Kept>) -> Self {
        let answers = stream::iter(kept).map(async |((filter, target), kept)| {
            let answer = http.send(Method::GET, target, &[("if-none-match", &kept.tag)], b"").await;
            let is_known = answer.status == 304;
            let is_same = is_known || shown(&Page::of(answer, 200)) == kept.shown;
            (*filter, target, is_same, is_known)
        });
        let mut recrawl = Self { pages: kept.len(), ..Self::default() };
        for (filter, target, is_same, is_known) in answers.buffer_unordered(4).collect::<Vec<_>>().await {
            let is_numbered = target.contains("page=");
            recrawl.numbered += usize::from(is_numbered);
            recrawl.not_modified += usize::from(is_numbered && is_known);
            if !is_same {
                recrawl.changed.entry(filter).or_default().push(target.clone());
            }
        }
        recrawl
    }

    fn print(&self) {
        let changed: usize = self.changed.values().map(Vec::len).sum();
        let most = self.changed.values().map(Vec::len).max().unwrap_or(0);
        let share = 100.0 * self.not_modified as f64 / self.numbered as f64;
        println!(
            "of {} addresses of {} filters, {changed} show other comments after {POSTS} posts, at most \
             {most} of a filter; {share:.1} % of {} numbered pages are 304",
            self.pages,
            FILTERS.len(),
            self.numbered
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_hundred_posts_only_the_front_page_of_a_filter_has_changed() {
    let all = in_turn(&["en", "de", "fr"], &[1, 2, 3, 4, 5], comments());
    let mut running = start(site_settings(), &all).await;
    let http = running.http.clone();
    let before = crawl(&http).await;

    let languages = ["en", "de", "fr", "ja"].into_iter().cycle();
    let posts = stream::iter((0..POSTS).zip(languages)).map(async |(number, language)| {
        http.post("p", &good_comment(language, 1 + number % 5, &format!("Later {number}"))).await.expect(201)
    });
    posts.buffer_unordered(4).collect::<Vec<_>>().await;
    running.settle().await;

    let stayed = Recrawl::of(&http, &before).await;
    stayed.print();
    for filter in FILTERS {
        let front = vec![format!("/product/p/comments{filter}")];
        assert_eq!(stayed.changed.get(filter), Some(&front), "{filter}");
    }
    assert!(stayed.not_modified * 100 >= stayed.numbered * 95, "{stayed:?}");
    let now = crawl(&http).await;
    assert!(before.keys().all(|address| now.contains_key(address)), "every address still answers");
    let new = now.keys().filter(|(filter, target)| filter.is_empty() && !before.contains_key(&("", target.clone())));
    assert_eq!(new.count() as u64, POSTS / 20, "one more address for each 20 comments");
    running.finish().await;
}
