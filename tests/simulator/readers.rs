//! Who reads. Every answer keeps its promises, whatever has failed.

use std::{collections::BTreeSet, time::Duration};

use actix_web::http::Method;
use model::{Comment, Filter, Rating, RatingSet, Timestamp};
use process::now;
use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use serde_json::Value;

use super::{
    index::Named,
    model::matches,
    plan::Mode,
    world::{Answer, LANGUAGES, PAGE_SIZE, PRODUCT, World},
};
use crate::fixture::data;

/// More pages than a walk by cursor has.
const PAGES_MAX: usize = 100;

pub(crate) fn random_filter(random: &mut StdRng) -> Filter {
    let language = [None, Some(LANGUAGES[0]), Some(LANGUAGES[1])]
        .choose(random)
        .unwrap()
        .map(data::language);
    let ratings: Vec<RatingSet> = RatingSet::every().collect();
    let ratings = if random.random_bool(0.5) {
        None
    } else {
        ratings.choose(random).copied()
    };
    Filter::new(language, ratings)
}

pub(crate) fn listing(filter: &Filter) -> String {
    let mut url = format!("/api/v1/products/{PRODUCT}/comments?page_size={PAGE_SIZE}");
    if let Some(language) = filter.language() {
        url += &format!("&language={language}");
    }
    for rating in filter.ratings().into_iter().flat_map(RatingSet::iter) {
        url += &format!("&rating={}", Rating::get(rating));
    }
    url
}

pub(crate) async fn readers(world: &World) {
    let mut random = world.plan.random("readers");
    // Few pages are looked at before and after a change.
    let pause_ms = if world.plan.mode == Mode::Posts {
        4_000
    } else {
        20_000
    };
    while !world.is_calm() {
        tokio::time::sleep(Duration::from_millis(random.random_range(0..pause_ms))).await;
        let filter = random_filter(&mut random);
        match random.random_range(0..10) {
            0..4 => stable_page(world, &mut random, &filter).await,
            4..8 => page(world, &mut random, &filter).await,
            _ => page_for_people(world, &mut random, &filter).await,
        }
    }
}

/// The comments of a filter that have certainly been there for a while.
fn stable(world: &World, filter: &Filter, since: Timestamp) -> Vec<Comment> {
    let model = world.model.borrow();
    model
        .stable_since(since)
        .into_iter()
        .filter(|comment| matches(filter, comment))
        .cloned()
        .collect()
}

/// Whether a 404 is wrong: a comment that was posted, and never edited, is beyond the ranks that
/// were looked at last. One that lacks its rank between two others is not noticed, nor is an edit
/// before it is fanned out.
fn is_wrong_404(world: &World, filter: &Filter, answer: &Answer, since: Timestamp) -> bool {
    let ends = answer
        .named
        .iter()
        .rev()
        .take(2)
        .flat_map(|named| &named.comments);
    let (oldest, newest) = (ends.clone().min(), ends.max());
    let comments = stable(world, filter, since)
        .into_iter()
        .map(|comment| comment.cd());
    let mut posted = comments.filter(|cd| world.model.borrow().is_as_posted(&cd.id));
    posted.any(|cd| {
        oldest.is_none_or(|oldest| cd < *oldest) || newest.is_none_or(|newest| cd > *newest)
    })
}

/// Asks for a page. Returns the answer if it is one; any other keeps its promises. `moved` are the
/// redirects that may be.
async fn ask(
    world: &World,
    random: &mut StdRng,
    filter: &Filter,
    url: &str,
    moved: &[u16],
) -> Option<Answer> {
    let since = now();
    let answer = world
        .request(
            world.apis.choose(random).unwrap(),
            Method::GET,
            url,
            &[],
            None,
        )
        .await;
    match answer.status {
        200 => return Some(answer),
        404 => world.check(!is_wrong_404(world, filter, &answer, since), || {
            format!("{url} is a wrong 404")
        }),
        503 => {}
        status => world.check(moved.contains(&status), || format!("{url}: {answer:?}")),
    }
    None
}

/// A page in the order of the listing.
async fn page(world: &World, random: &mut StdRng, filter: &Filter) {
    let (number, order) = (
        random.random_range(1..=5_u64),
        *["newest", "oldest"].choose(random).unwrap(),
    );
    let (url, since) = (
        format!("{}&order={order}&page={number}", listing(filter)),
        now(),
    );
    if let Some(answer) = ask(world, random, filter, &url, &[]).await {
        check_page(
            world,
            &url,
            filter,
            &answer,
            since,
            number > 1,
            order == "oldest",
        );
    }
}

/// A page in stable numbering: mostly the front page, and then the last one of the archive.
async fn stable_page(world: &World, random: &mut StdRng, filter: &Filter) {
    let number = if random.random() {
        0
    } else {
        random.random_range(1..=4)
    };
    let pages = numbered_page(world, random, filter, number).await;
    if pages > 1 {
        numbered_page(world, random, filter, pages - 1).await;
    }
}

/// Reads a page in stable numbering; 0 is the front page. Returns how many pages there are.
async fn numbered_page(world: &World, random: &mut StdRng, filter: &Filter, number: u64) -> u64 {
    let mut url = format!("{}&numbering=stable", listing(filter));
    if number > 0 {
        url += &format!("&page={number}");
    }
    let since = now();
    // Its comments may be on the front page still.
    let Some(answer) = ask(world, random, filter, &url, &[302]).await else {
        return 0;
    };
    let ids = check_page(world, &url, filter, &answer, since, number > 0, false);
    if number > 0 && world.plan.mode == Mode::Posts {
        let mut archive = world.archive.borrow_mut();
        let before = archive.entry(url.clone()).or_insert_with(|| ids.clone());
        let text =
            || format!("posts have changed the archive page {url}: {before:?}, and now {ids:?}");
        world.check(*before == ids, text);
    }
    answer.json()["total_pages"].as_u64().unwrap_or_default()
}

/// A page for people: only its status, which crawlers believe.
async fn page_for_people(world: &World, random: &mut StdRng, filter: &Filter) {
    let path = match (filter.language(), filter.ratings()) {
        (None, None) => String::new(),
        (Some(language), None) => format!("/{language}"),
        (language, Some(ratings)) => format!(
            "/{}/{ratings}",
            language.map_or("~".to_owned(), ToString::to_string)
        ),
    };
    ask(
        world,
        random,
        filter,
        &format!("/product/{PRODUCT}/comments{path}"),
        &[301, 302],
    )
    .await;
}

pub(crate) fn ids(json: &Value) -> Vec<String> {
    let comments = json["comments"].as_array().into_iter().flatten();
    comments
        .map(|comment| comment["id"].as_str().unwrap().to_owned())
        .collect()
}

/// Checks what holds for every page, and what its ranks promise. Returns its ids.
fn check_page(
    world: &World,
    url: &str,
    filter: &Filter,
    answer: &Answer,
    since: Timestamp,
    is_numbered: bool,
    is_oldest_first: bool,
) -> Vec<String> {
    let json = answer.json();
    let shown = ids(&json);
    world.check(
        shown.iter().collect::<BTreeSet<_>>().len() == shown.len(),
        || format!("{url} shows a comment twice: {shown:?}"),
    );
    for comment in json["comments"].as_array().into_iter().flatten() {
        let (id, body) = (
            comment["id"].as_str().unwrap(),
            comment["body"].as_str().unwrap(),
        );
        world.check(world.model.borrow().had(id, body), || {
            format!("{url}: {id} never had the text {body:?}")
        });
        let language = filter
            .language()
            .is_none_or(|language| comment["language"] == language.as_str());
        let rating = comment["rating"].as_u64().unwrap();
        let ratings = filter
            .ratings()
            .is_none_or(|ratings| ratings.iter().any(|of| u64::from(of.get()) == rating));
        world.check(language && ratings, || {
            format!("{url}: {comment} does not match")
        });
    }
    if let (true, Some(named)) = (is_numbered, answer.named.first()) {
        check_ranks(world, url, filter, &json, named, since, is_oldest_first);
    }
    shown
}

/// A numbered page is what its ranks say: these comments in this order, without those that do not
/// exist any more.
fn check_ranks(
    world: &World,
    url: &str,
    filter: &Filter,
    json: &Value,
    named: &Named,
    since: Timestamp,
    is_oldest_first: bool,
) {
    let shown = ids(json);
    let mut ranked: Vec<String> = named.comments.iter().map(|cd| cd.id.to_string()).collect();
    if url.contains("numbering=stable") || is_oldest_first == url.contains("order=newest") {
        ranked.reverse();
    }
    let places: Vec<Option<usize>> = shown
        .iter()
        .map(|id| ranked.iter().position(|ranked| ranked == id))
        .collect();
    let text = || format!("{url} shows {shown:?}, and its ranks are {ranked:?}");
    world.check(
        places.iter().all(Option::is_some) && places.is_sorted(),
        text,
    );
    let total = json["total"].as_u64().unwrap_or_default();
    world.check(total >= named.total, || {
        format!(
            "{url} has the total {total}, the page index says {}",
            named.total
        )
    });
    for comment in stable(world, filter, since) {
        let id = comment.id.to_string();
        let has_rank = named.comments.iter().any(|cd| *cd == comment.cd());
        world.check(!has_rank || shown.contains(&id), || {
            format!("{url} lacks {id}, which has a rank: {shown:?}")
        });
    }
}

/// Walks to the end of a filter by cursor.
pub(crate) async fn walkers(world: &World) {
    let mut random = world.plan.random("walkers");
    while !world.is_calm() {
        tokio::time::sleep(Duration::from_millis(random.random_range(0..60_000))).await;
        let filter = random_filter(&mut random);
        let mut url = Some(listing(&filter));
        let (mut seen, mut pages) = (BTreeSet::new(), 0);
        while let Some(next) = url.take() {
            let api = world.apis.choose(&mut random).unwrap();
            let answer = world.request(api, Method::GET, &next, &[], None).await;
            if answer.status != 200 {
                world.check(answer.status == 503, || {
                    format!("a walk is answered {answer:?}")
                });
                break;
            }
            let json = answer.json();
            for id in ids(&json) {
                let is_new = seen.insert(id.clone());
                let is_again = world.model.borrow().was_recreated(&id);
                world.check(is_new || is_again, || {
                    format!("a walk shows {id} twice, the second time at {next}")
                });
            }
            let cursor = json["cursor"]["next"].as_str();
            url = cursor.map(|cursor| format!("{}&cursor={cursor}", listing(&filter)));
            pages += 1;
            world.check(pages < PAGES_MAX, || format!("a walk does not end: {next}"));
            if pages >= PAGES_MAX {
                break;
            }
            tokio::time::sleep(Duration::from_millis(random.random_range(0..2_000))).await;
        }
    }
}
