//! What a crawler finds when it comes again after posts at full speed: every archive page as it was.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, future::join_all, stream};
use hyper::Method;
use local_stack::stack::StackSettings;

use super::{html::Page, in_turn, site_settings, stable::shown, start};
use crate::fixture::{
    http::{Http, good_comment},
    size::{Size, size},
};

/// Some seconds of posts at full speed, in some seconds more than a comment takes to count for archive pages.
const ARCHIVE_AFTER_SECONDS: u32 = 5;

fn posting() -> Duration {
    Duration::from_secs(match size() {
        Size::Small => 3,
        Size::Usual => 10,
        Size::Full => 60,
    })
}

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

type Pages = BTreeMap<(&'static str, String), Kept>;

/// The pages of each filter, from the front page on, at most so many.
async fn crawl(http: &Http, pages_max: usize) -> Pages {
    let listings = stream::iter(FILTERS).map(async |filter| {
        let mut kept = Vec::new();
        let mut next = Some(format!("/product/p/comments{filter}"));
        while let Some(target) = next.filter(|_| kept.len() < pages_max) {
            let page = Page::get(http, &target, 200).await;
            let tag = page.answer.header("etag").unwrap().to_owned();
            next = page.attribute("link[rel=next]", "href");
            kept.push(((filter, target), Kept { tag, shown: shown(&page) }));
        }
        kept
    });
    listings.buffer_unordered(4).collect::<Vec<_>>().await.into_iter().flatten().collect()
}

/// Posts as fast as eight clients can, and meanwhile crawls the newest pages again and again. Returns every archive page
/// as it was first seen, and how many comments were posted.
async fn crawl_while_posting(http: &Http, seen: &mut Pages) -> u64 {
    let until = Instant::now() + posting();
    let posters = (0..8_u64).map(async |poster| {
        let mut posted = 0;
        while Instant::now() < until {
            let language = ["en", "de", "fr", "ja"][usize::try_from((poster + posted) % 4).unwrap()];
            let comment = good_comment(language, 1 + posted % 5, &format!("Later {poster} {posted}"));
            http.post("p", &comment).await.expect(201);
            posted += 1;
        }
        posted
    });
    let reading = async {
        // The youngest of the posted comments are settled then, and late if they are ever.
        while Instant::now() < until + 2 * Duration::from_secs(ARCHIVE_AFTER_SECONDS.into()) {
            for (place, page) in crawl(http, 4).await {
                if place.1.contains("page=") {
                    seen.entry(place).or_insert(page);
                }
            }
        }
    };
    tokio::join!(join_all(posters), reading).0.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posts_at_full_speed_change_no_archive_page_that_anybody_has_seen() {
    let all = in_turn(&["en", "de", "fr"], &[1, 2, 3, 4, 5], comments());
    let settings = StackSettings { archive_after_seconds: ARCHIVE_AFTER_SECONDS, ..site_settings() };
    let mut running = start(settings, &all).await;
    let http = running.http.clone();
    let mut seen = crawl(&http, usize::MAX).await;
    seen.retain(|(_, target), _| target.contains("page="));
    let before = seen.len();
    let posts = crawl_while_posting(&http, &mut seen).await;
    running.settle().await;

    let answers = stream::iter(&seen).map(async |((_, target), kept)| {
        let answer = http.send(Method::GET, target, &[("if-none-match", &kept.tag)], b"").await;
        let is_known = answer.status == 304;
        (target, is_known, is_known || shown(&Page::of(answer, 200)) == kept.shown)
    });
    let answers: Vec<_> = answers.buffer_unordered(4).collect().await;
    let changed: Vec<_> = answers.iter().filter(|(.., is_same)| !is_same).map(|(target, ..)| target).collect();
    let known = answers.iter().filter(|(_, is_known, _)| *is_known).count();
    println!("{posts} posts; of {} archive pages, {before} from before, {known} are 304", seen.len());
    assert!(changed.is_empty(), "{changed:?}");
    assert!(seen.len() > before && known * 100 >= seen.len() * 95, "{known} of {}", seen.len());
    let now = crawl(&http, usize::MAX).await;
    assert!(seen.keys().all(|address| now.contains_key(address)), "every address still answers");
    let pages = now.keys().filter(|(filter, _)| filter.is_empty()).count();
    assert_eq!(pages as u64, (comments() as u64 + posts) / 20, "one more address for each 20 comments");
    running.finish().await;
}
