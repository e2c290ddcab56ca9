//! The readers. Every answer keeps its promises, also while anything fails.

use std::{collections::BTreeSet, time::Duration};

use hyper::Method;
use model::{Comment, Filter, Invariant, Timestamp};
use process::now;
use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use serde_json::Value;

use super::Soak;
use crate::{
    fixture::http,
    simulator::{
        model::{Seen, matches},
        readers::{check_shown, listing, random_filter},
        world::{Answer, Judged, PAGE_SIZE, PRODUCT},
        writers::comment_of,
    },
};

const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Pages with numbers up to this one are asked for. There are up to hundreds.
const NUMBER_MAX: u64 = 120;

/// Older comments are on archive pages (`ARCHIVED_AFTER`, and a second for rounding).
const ARCHIVED_BEFORE_MS: i64 = 4_000;

/// The pages of a walk by cursor.
const WALK_MAX: usize = 300;

pub(super) async fn read(soak: &Soak, mut random: StdRng) {
    while soak.is_stormy() {
        soak.pause(&mut random, PAUSE_MAX).await;
        let filter = random_filter(&mut random);
        match random.random_range(0..200) {
            0 => export(soak).await,
            1..4 => walk(soak, &filter).await,
            4..80 => page(soak, &mut random, &filter).await,
            80..120 => archive_page(soak, &mut random, &filter).await,
            120..140 => page_for_people(soak, &filter).await,
            _ => comment(soak, &mut random).await,
        }
    }
}

/// Whether the service has given a connection up before it read the request, as it does after a
/// SIGSTOP.
pub(super) fn is_given_up(answer: &http::Answer) -> bool {
    answer.status == 408
}

/// The answer of the API; `None` while it does not answer.
pub(super) async fn get(soak: &Soak, url: &str) -> Option<Answer> {
    let api = soak.site.api()?;
    let answer = api.try_send(Method::GET, url, &[], b"").await.ok();
    let Some(answer) = answer.filter(|answer| !is_given_up(answer)) else {
        soak.tally.add("requests of readers without an answer", 1);
        return None;
    };
    let status = answer.status;
    soak.check(
        Invariant::AbsenceIsCertain,
        [200, 301, 302, 404, 503].contains(&status),
        || format!("{url} is answered {answer:?}"),
    );
    Some(Answer {
        status,
        body: answer.body,
        named: Vec::new(),
    })
}

/// The comments of a filter that have certainly been as they are since an instant.
fn stable(soak: &Soak, filter: &Filter, since: Timestamp) -> Vec<Comment> {
    let model = soak.model();
    let mut comments = model.stable_since(since);
    comments.retain(|comment| matches(filter, comment));
    comments.into_iter().cloned().collect()
}

/// Checks a 404 of a page: with so many comments before it, it is there.
fn check_404(soak: &Soak, filter: &Filter, url: &str, number: u64, since: Timestamp) {
    if soak.whole_since.lock().unwrap().is_none() {
        return;
    }
    let mut certain = 0;
    for comment in stable(soak, filter, since) {
        // An edit that is not fanned out is not known to the page index.
        if soak.model().is_as_posted(&comment.id) {
            certain += 1;
        }
    }
    soak.check(
        Invariant::AbsenceIsCertain,
        certain <= (number - 1) * PAGE_SIZE,
        || format!("{url} is 404, and {certain} comments are certainly there"),
    );
}

async fn page(soak: &Soak, random: &mut StdRng, filter: &Filter) {
    let number = if random.random() {
        random.random_range(1..=5)
    } else {
        random.random_range(1..=NUMBER_MAX)
    };
    let order = ["newest", "oldest"].choose(random).unwrap();
    let url = format!("{}&order={order}&page={number}", listing(filter));
    numbered(soak, filter, &url, number, now()).await;
}

async fn archive_page(soak: &Soak, random: &mut StdRng, filter: &Filter) {
    let number = random.random_range(1..=NUMBER_MAX);
    let url = format!("{}&numbering=stable&page={number}", listing(filter));
    // While the clock is back, comments of the other clock are of the future. Those are on no archive
    // page.
    if soak.site.clock_is_back().await {
        return;
    }
    numbered(
        soak,
        filter,
        &url,
        number,
        now().plus_ms(-ARCHIVED_BEFORE_MS),
    )
    .await;
}

/// Reads a page with a number. Comments that have been there `since` count for it.
async fn numbered(soak: &Soak, filter: &Filter, url: &str, number: u64, since: Timestamp) {
    let Some(answer) = get(soak, url).await else {
        return;
    };
    soak.tally
        .add(format!("read: numbered pages, {}", answer.status), 1);
    match answer.status {
        200 => {
            check_shown(soak, &soak.model(), filter, url, &answer.json());
        }
        404 => check_404(soak, filter, url, number, since),
        _ => {}
    }
}

/// A page for people: only its status, which crawlers believe.
async fn page_for_people(soak: &Soak, filter: &Filter) {
    let path = match (filter.language(), filter.ratings()) {
        (None, None) => String::new(),
        (Some(language), None) => format!("/{language}"),
        (Some(language), Some(ratings)) => format!("/{language}/{ratings}"),
        (None, Some(ratings)) => format!("/~/{ratings}"),
    };
    let url = format!("/product/{PRODUCT}/comments{path}");
    let since = now();
    let Some(answer) = get(soak, &url).await else {
        return;
    };
    soak.tally
        .add(format!("read: pages for people, {}", answer.status), 1);
    if answer.status == 404 {
        check_404(soak, filter, &url, 1, since);
    }
}

/// A single comment: what was acknowledged is there, and as it was acknowledged.
async fn comment(soak: &Soak, random: &mut StdRng) {
    let known = soak.model().ids();
    let Some(id) = known.choose(random) else {
        return;
    };
    let url = format!("/api/v1/comments/{id}");
    let since = now();
    let Some(answer) = get(soak, &url).await else {
        return;
    };
    soak.tally
        .add(format!("read: single comments, {}", answer.status), 1);
    let shown = if answer.status == 200 {
        Some(comment_of(&answer.json()))
    } else {
        None
    };
    if ![200, 404].contains(&answer.status) {
        return;
    }
    let model = soak.model();
    let certain = model
        .stable_since(since)
        .into_iter()
        .find(|known| known.id == *id);
    let is_kept = match (certain, &shown) {
        (Some(certain), Some(shown)) => Seen::from(certain) == Seen::from(shown),
        (Some(_), None) => false,
        (None, _) => true,
    };
    soak.check(Invariant::WritesAreKept, is_kept, || {
        format!("{url} is {answer:?}, and {certain:?} was acknowledged")
    });
}

/// Walks to the end of a filter by cursor. It shows no comment twice. Without damage it lacks none
/// that was there when everything was whole.
async fn walk(soak: &Soak, filter: &Filter) {
    let mut seen = BTreeSet::new();
    let mut pages = String::new();
    let mut next = Some(listing(filter));
    for _ in 0..WALK_MAX {
        let Some(url) = next else {
            soak.tally.add("walks by cursor to the end", 1);
            return check_walk(soak, filter, &seen, &pages).await;
        };
        let Some(answer) = get(soak, &url).await else {
            return;
        };
        soak.tally
            .add(format!("read: pages by cursor, {}", answer.status), 1);
        if answer.status != 200 {
            soak.check(Invariant::AbsenceIsCertain, answer.status == 503, || {
                format!("a walk is answered {answer:?}")
            });
            return;
        }
        let json = answer.json();
        let shown = check_shown(soak, &soak.model(), filter, &url, &json);
        let total = &json["total"];
        pages += &format!("  {}: {total} comments in all, {shown:?}\n", now());
        for id in shown {
            soak.check(Invariant::WalksAreWhole, seen.insert(id.clone()), || {
                format!("a walk shows {id} twice, the second time at {url}")
            });
        }
        let cursor = json["cursor"]["next"].as_str();
        next = cursor.map(|cursor| format!("{}&cursor={cursor}", listing(filter)));
    }
}

/// Checks a walk, of which `pages` says what each page showed. Only comments that nobody has changed are
/// certain: after a kill, a record that is delivered again may take back a change for a moment.
async fn check_walk(soak: &Soak, filter: &Filter, seen: &BTreeSet<String>, pages: &str) {
    let Some(since) = *soak.whole_since.lock().unwrap() else {
        return;
    };
    for comment in stable(soak, filter, since) {
        if seen.contains(comment.id.as_str()) || !soak.model().is_as_posted(&comment.id) {
            continue;
        }
        let checked = soak
            .site
            .run(&["repair", "check", comment.id.as_str()])
            .await;
        let url = listing(filter);
        soak.violated(
            Invariant::WalksAreWhole,
            format!(
                "a walk of {url} lacks {}:\n{pages}{}",
                comment.id, checked.stdout
            ),
        );
        return;
    }
}

/// An export while writes continue has what was there during all of it.
async fn export(soak: &Soak) {
    let since = now();
    let (ended, exported) = soak.site.export().await;
    if !ended.status.success() {
        soak.tally.add("exports that ended with an error", 1);
        return;
    }
    soak.tally.add("exports while writes continued", 1);
    let mut ids = BTreeSet::new();
    for line in exported.lines() {
        let comment: Value = serde_json::from_str(line).unwrap();
        ids.insert(comment["id"].as_str().unwrap().to_owned());
    }
    let model = soak.model();
    for comment in model.stable_since(since) {
        soak.check(
            Invariant::PagesAreExact,
            ids.contains(comment.id.as_str()),
            || format!("an export lacks {}", comment.id),
        );
    }
}
