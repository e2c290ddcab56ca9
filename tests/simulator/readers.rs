//! The readers. Every answer keeps its promises, also while anything fails.

use std::{collections::BTreeSet, time::Duration};

use actix_web::http::Method;
use model::{Cd, Comment, Filter, FilterKey, Invariant, Order, RatingSet, Timestamp};
use page_index::{RankedQuery, Reads};
use process::now;
use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use serde_json::Value;
use table::PageQuery;

use super::{
    index::Named,
    model::{Model, matches},
    plan::Mode,
    world::{Answer, Judged, LANGUAGES, PAGE_SIZE, PRODUCT, World, product},
};
use crate::fixture::data;

/// More pages than a walk by cursor has.
const PAGES_MAX: usize = 100;

/// Checks what holds for every page of comments. Returns its ids.
pub(crate) fn check_shown(
    judged: &impl Judged,
    model: &Model,
    filter: &Filter,
    url: &str,
    json: &Value,
) -> Vec<String> {
    let shown = ids(json);
    let different: BTreeSet<&String> = shown.iter().collect();
    judged.check(
        Invariant::PagesShowTheirRanks,
        different.len() == shown.len(),
        || format!("{url} shows a comment twice: {shown:?}"),
    );
    for comment in json["comments"].as_array().into_iter().flatten() {
        let id = comment["id"].as_str().unwrap();
        let body = comment["body"].as_str().unwrap();
        judged.check(Invariant::ShownWasTrue, model.had(id, body), || {
            format!("{url}: {id} never had the text {body:?}")
        });
        judged.check(
            Invariant::ShownWasTrue,
            shows_match(filter, comment),
            || format!("{url}: {comment} does not match"),
        );
    }
    shown
}

pub(crate) fn random_filter(random: &mut StdRng) -> Filter {
    let languages = [None, Some(LANGUAGES[0]), Some(LANGUAGES[1])];
    let language = languages.choose(random).unwrap();
    let rating_sets: Vec<RatingSet> = RatingSet::every().collect();
    let ratings = if random.random_bool(0.5) {
        None
    } else {
        rating_sets.choose(random).copied()
    };
    Filter::new(language.map(data::language), ratings)
}

pub(crate) fn listing(filter: &Filter) -> String {
    let mut url = format!("/api/v1/products/{PRODUCT}/comments?page_size={PAGE_SIZE}");
    if let Some(language) = filter.language() {
        url += &format!("&language={language}");
    }
    if let Some(ratings) = filter.ratings() {
        for rating in ratings.iter() {
            url += &format!("&rating={}", rating.get());
        }
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

/// The comments of a filter that have certainly been as they are since an instant, newest first.
fn stable(world: &World, filter: &Filter, since: Timestamp) -> Vec<Comment> {
    let model = world.model.borrow();
    let mut comments = model.stable_since(since);
    comments.retain(|comment| matches(filter, comment));
    comments.into_iter().cloned().collect()
}

/// Whether a 404 is wrong: a comment that was posted, and never edited, is beyond the ranks that
/// were looked at last. A comment that lacks its rank between two others is not noticed, nor is an
/// edit before it is fanned out.
fn is_wrong_404(world: &World, filter: &Filter, answer: &Answer, since: Timestamp) -> bool {
    let looked_at_last = answer.named.iter().rev().take(2);
    let ranked: Vec<&Cd> = looked_at_last.flat_map(|named| &named.comments).collect();
    let oldest = ranked.iter().min();
    let newest = ranked.iter().max();
    for comment in stable(world, filter, since) {
        let cd = comment.cd();
        let is_older = oldest.is_none_or(|oldest| cd < **oldest);
        let is_newer = newest.is_none_or(|newest| cd > **newest);
        let is_beyond = is_older || is_newer;
        if is_beyond && world.model.borrow().is_as_posted(&comment.id) {
            return true;
        }
    }
    false
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
    let api = world.apis.choose(random).unwrap();
    let answer = world.request(api, Method::GET, url, &[], None).await;
    match answer.status {
        200 => return Some(answer),
        404 => world.check(
            Invariant::AbsenceIsCertain,
            !is_wrong_404(world, filter, &answer, since),
            || format!("{url} is a wrong 404"),
        ),
        503 => {}
        status => world.check(Invariant::AbsenceIsCertain, moved.contains(&status), || {
            format!("{url}: {answer:?}")
        }),
    }
    None
}

/// A page in the order of the listing.
async fn page(world: &World, random: &mut StdRng, filter: &Filter) {
    let number = random.random_range(1..=5_u64);
    let order = *["newest", "oldest"].choose(random).unwrap();
    let url = format!("{}&order={order}&page={number}", listing(filter));
    let since = now();
    if let Some(answer) = ask(world, random, filter, &url, &[]).await {
        let page = Page {
            world,
            filter,
            url: &url,
            since,
            has_number: number > 1,
            is_oldest_first: order == "oldest",
        };
        page.check(&answer);
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
    let page = Page {
        world,
        filter,
        url: &url,
        since,
        has_number: number > 0,
        is_oldest_first: false,
    };
    let ids = page.check(&answer);
    if number > 0 && world.plan.mode == Mode::Posts {
        let mut archive = world.archive.borrow_mut();
        let before = archive.entry(url.clone()).or_insert_with(|| ids.clone());
        world.check(Invariant::PostsKeepArchivePages, *before == ids, || {
            format!("posts have changed the archive page {url}: {before:?}, and now {ids:?}")
        });
    }
    answer.json()["total_pages"].as_u64().unwrap_or_default()
}

/// A page for people: only its status, which crawlers believe.
async fn page_for_people(world: &World, random: &mut StdRng, filter: &Filter) {
    let path = match (filter.language(), filter.ratings()) {
        (None, None) => String::new(),
        (Some(language), None) => format!("/{language}"),
        (Some(language), Some(ratings)) => format!("/{language}/{ratings}"),
        (None, Some(ratings)) => format!("/~/{ratings}"),
    };
    let url = format!("/product/{PRODUCT}/comments{path}");
    ask(world, random, filter, &url, &[301, 302]).await;
}

pub(crate) fn ids(json: &Value) -> Vec<String> {
    let comments = json["comments"].as_array().into_iter().flatten();
    comments
        .map(|comment| comment["id"].as_str().unwrap().to_owned())
        .collect()
}

/// A page that a reader has asked for.
struct Page<'asked> {
    world: &'asked World,
    filter: &'asked Filter,
    url: &'asked str,
    /// Before it was asked for.
    since: Timestamp,
    /// The page is one of ranks, and no first or front page.
    has_number: bool,
    is_oldest_first: bool,
}

impl Page<'_> {
    /// Checks what holds for every page, and what its ranks promise. Returns its ids.
    fn check(&self, answer: &Answer) -> Vec<String> {
        let Self {
            world, filter, url, ..
        } = self;
        let json = answer.json();
        let shown = check_shown(*world, &world.model.borrow(), filter, url, &json);
        if self.has_number
            && let Some(named) = answer.named.first()
        {
            self.check_ranks(&json, named);
        }
        shown
    }

    /// A numbered page is what its ranks say: these comments in this order, without those that do
    /// not exist any more.
    fn check_ranks(&self, json: &Value, named: &Named) {
        let Self {
            world, filter, url, ..
        } = self;
        let shown = ids(json);
        let mut ranked: Vec<String> = named.comments.iter().map(|cd| cd.id.to_string()).collect();
        if url.contains("numbering=stable") || self.is_oldest_first == url.contains("order=newest")
        {
            ranked.reverse();
        }
        let mut ranks = Vec::new();
        for id in &shown {
            ranks.push(ranked.iter().position(|ranked| ranked == id));
        }
        let all_are_ranked = ranks.iter().all(Option::is_some);
        world.check(
            Invariant::PagesShowTheirRanks,
            all_are_ranked && ranks.is_sorted(),
            || format!("{url} shows {shown:?}, and its ranks are {ranked:?}"),
        );
        let total = json["total"].as_u64().unwrap_or_default();
        world.check(Invariant::PagesShowTheirRanks, total >= named.total, || {
            format!(
                "{url} has the total {total}, the page index says {}",
                named.total
            )
        });
        for comment in stable(world, filter, self.since) {
            let id = comment.id.to_string();
            let has_rank = named.comments.contains(&comment.cd());
            world.check(
                Invariant::PagesShowTheirRanks,
                !has_rank || shown.contains(&id),
                || format!("{url} lacks {id}, which has a rank: {shown:?}"),
            );
        }
    }
}

/// Whether a comment on a page matches a filter.
pub(crate) fn shows_match(filter: &Filter, comment: &Value) -> bool {
    if let Some(language) = filter.language()
        && comment["language"] != language.as_str()
    {
        return false;
    }
    let rating = comment["rating"].as_u64().unwrap();
    match filter.ratings() {
        Some(ratings) => ratings.iter().any(|of| u64::from(of.get()) == rating),
        None => true,
    }
}

/// Walks to the end of a filter by cursor.
pub(crate) async fn walkers(world: &World) {
    let mut random = world.plan.random("walkers");
    while !world.is_calm() {
        tokio::time::sleep(Duration::from_millis(random.random_range(0..60_000))).await;
        let filter = random_filter(&mut random);
        walk(world, &mut random, &filter).await;
    }
}

/// The comments of a filter that both stores show to readers, by their positions.
struct Traces {
    rows: BTreeSet<Cd>,
    ranks: BTreeSet<Cd>,
}

impl Traces {
    async fn read(world: &World, filter: &Filter) -> Self {
        let product = product();
        let all = PageQuery {
            key: FilterKey {
                product: product.clone(),
                filter: filter.clone(),
            },
            order: Order::Newest,
            limit: RankedQuery::COUNT_MAX,
            start: None,
        };
        let rows = world.calm_table().page(&all).await.unwrap().comments;
        let all = RankedQuery {
            count: RankedQuery::COUNT_MAX,
            ..RankedQuery::new(&product, filter)
        };
        let index = world.servers.present();
        let (_, ranked) = index.ranked(&[all]).await.unwrap().remove(0);
        Self {
            rows: rows.iter().map(Comment::cd).collect(),
            ranks: ranked.comments.into_iter().collect(),
        }
    }

    /// Keeps what is there at another moment, too.
    fn retain(&mut self, other: &Self) {
        self.rows.retain(|cd| other.rows.contains(cd));
        self.ranks.retain(|cd| other.ranks.contains(cd));
    }

    fn have(&self, cd: &Cd) -> bool {
        self.rows.contains(cd) || self.ranks.contains(cd)
    }
}

/// A walk shows no comment twice. It lacks none that was there, and whose duplicate or rank existed
/// during the whole walk, unless the page index was away.
async fn walk(world: &World, random: &mut StdRng, filter: &Filter) {
    let since = now();
    let mut throughout = Traces::read(world, filter).await;
    let mut index_was_away = false;
    let mut seen = BTreeSet::new();
    let mut pages = 0;
    let mut next = Some(listing(filter));
    while let Some(url) = next {
        let api = world.apis.choose(random).unwrap();
        let answer = world.request(api, Method::GET, &url, &[], None).await;
        if answer.status != 200 {
            world.check(Invariant::AbsenceIsCertain, answer.status == 503, || {
                format!("a walk is answered {answer:?}")
            });
            return;
        }
        throughout.retain(&Traces::read(world, filter).await);
        let json = answer.json();
        index_was_away |= json["total"].is_null();
        for id in ids(&json) {
            let is_new = seen.insert(id.clone());
            let is_again = world.model.borrow().was_recreated(&id);
            world.check(Invariant::WalksAreWhole, is_new || is_again, || {
                format!("a walk shows {id} twice, the second time at {url}")
            });
        }
        let cursor = json["cursor"]["next"].as_str();
        next = cursor.map(|cursor| format!("{}&cursor={cursor}", listing(filter)));
        pages += 1;
        world.check(Invariant::WalksAreWhole, pages < PAGES_MAX, || {
            format!("a walk does not end: {url}")
        });
        if pages >= PAGES_MAX {
            return;
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(0..2_000))).await;
        throughout.retain(&Traces::read(world, filter).await);
    }
    if index_was_away {
        return;
    }
    for comment in stable(world, filter, since) {
        let is_shown = seen.contains(comment.id.as_str());
        world.check(
            Invariant::WalksAreWhole,
            is_shown || !throughout.have(&comment.cd()),
            || {
                let url = listing(filter);
                format!("a walk of {url} lacks {}: {seen:?}", comment.id)
            },
        );
    }
}
