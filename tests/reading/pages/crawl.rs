//! A crawler follows the links of a whole site, as a search engine does: it finds the pages of the
//! sitemap, no others that it may index, and on them every comment.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use table::NewComment;

use super::{SITE, comment, html::Page, site_settings, sitemap, stable::shown, start, three_pages};
use crate::fixture::{
    data,
    http::{Answer, Http},
    size::{Size, size},
};

fn comments() -> Vec<NewComment> {
    let count = match size() {
        Size::Small => 300,
        Size::Usual => 1_000,
        Size::Full => 3_000,
    };
    let mut comments = data::generated_comments(count);
    // Also a product with one comment, one in a single language, and one with an odd name.
    comments.push(comment("alone", "en", 2, 0));
    comments.extend((0..50).map(|number| comment("one language", "ja", 4, number)));
    comments.extend(three_pages("100% & <odd> \"product\"/☕"));
    comments
}

struct Seen {
    is_indexed: bool,
    newest: Option<String>,
    shown: Vec<String>,
    followed: Vec<String>,
    /// Links that a crawler need not follow.
    others: Vec<String>,
}

impl Seen {
    fn of(answer: Answer, target: &str) -> Self {
        let page = Page::of(answer, 200);
        let mut followed = Vec::new();
        let mut others = Vec::new();
        for link in page.all("a[href]") {
            let href = link.attr("href").unwrap().split('#').next().unwrap();
            let is_followed = link.attr("rel").is_none_or(|rel| !rel.contains("nofollow"));
            if !href.starts_with('/') {
                continue;
            }
            if is_followed {
                followed.push(href.to_owned());
            } else {
                others.push(href.to_owned());
            }
        }
        let times = page.all("article time");
        let newest = times
            .iter()
            .map(|time| time.attr("datetime").unwrap())
            .max();
        let is_canonical = page.canonical() == Some(format!("{SITE}{target}"));
        Self {
            is_indexed: page.robots() == "index,follow" && is_canonical,
            newest: newest.map(str::to_owned),
            shown: shown(&page),
            followed,
            others,
        }
    }
}

/// The page that an address leads to. A redirect leads to a page at once.
async fn get(http: &Http, target: &str) -> (String, Answer) {
    let answer = http.get(target).await;
    if !matches!(answer.status, 301 | 302) {
        return (target.to_owned(), answer);
    }
    let location = answer.header("location").unwrap();
    let to = location.split('#').next().unwrap();
    let page = http.get(to).await;
    assert_eq!(page.status, 200, "{target} leads to {to}");
    (to.to_owned(), page)
}

async fn crawl(http: &Http, from: impl IntoIterator<Item = String>) -> BTreeMap<String, Seen> {
    let mut seen = BTreeMap::new();
    let mut asked = BTreeSet::new();
    let mut open: BTreeSet<String> = from.into_iter().collect();
    while !open.is_empty() {
        asked.extend(open.iter().cloned());
        let found = stream::iter(&open)
            .map(async |target| get(http, target).await)
            .buffer_unordered(4);
        let found: Vec<(String, Answer)> = found.collect().await;
        let mut next = BTreeSet::new();
        for (target, answer) in found {
            let page = Seen::of(answer, &target);
            for link in &page.followed {
                if !asked.contains(link) {
                    next.insert(link.clone());
                }
            }
            seen.insert(target, page);
        }
        open = next;
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crawler_finds_exactly_the_pages_of_the_sitemap_and_no_broken_link() {
    let comments = comments();
    let running = start(site_settings(), &comments).await;
    let http = &running.http;
    let seen = crawl(http, ["/".to_owned()]).await;
    let indexed: BTreeSet<&String> = seen
        .iter()
        .filter(|(_, page)| page.is_indexed)
        .map(|(path, _)| path)
        .collect();
    let listed = sitemap::walk(http).await;
    let paths: BTreeSet<&String> = listed.iter().map(|(path, _)| path).collect();
    assert_eq!(paths, indexed);
    assert_eq!(listed.len(), indexed.len(), "none twice");
    for (path, lastmod) in &listed {
        if sitemap::is_list(path) {
            assert_eq!(*lastmod, None, "{path}");
        } else {
            assert!(lastmod.is_some(), "{path}");
            assert_eq!(*lastmod, seen[path].newest, "{path}");
        }
    }
    // The pages of each listing show all of its comments, each once.
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in indexed {
        if !sitemap::is_list(path) {
            let listing = path.split('?').next().unwrap().to_owned();
            let shown = seen[path].shown.iter().cloned();
            found.entry(listing).or_default().extend(shown);
        }
    }
    found.values_mut().for_each(|ids| ids.sort_unstable());
    assert_eq!(found, sitemap::indexable_listings(&comments));
    // The other links lead to pages too. Some of the many permalinks are tried.
    let others: BTreeSet<&String> = seen.values().flat_map(|page| &page.others).collect();
    let mut tried = Vec::new();
    let mut permalinks = Vec::new();
    for link in others {
        if link.starts_with("/comments/") {
            permalinks.push(link);
        } else {
            tried.push(link);
        }
    }
    tried.extend(permalinks.into_iter().step_by(20));
    println!(
        "{} pages, {} listings indexed; {} other links tried",
        seen.len(),
        found.len(),
        tried.len()
    );
    let answers = stream::iter(tried).map(async |target| {
        let (_, answer) = get(http, target).await;
        (target, answer.status)
    });
    for (target, status) in answers.buffer_unordered(4).collect::<Vec<_>>().await {
        assert_eq!(status, 200, "{target}");
    }
    running.finish().await;
}
