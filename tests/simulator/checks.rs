//! What holds when everything is quiet. The derived data is what the comments imply. No
//! acknowledged write is lost. The pages of some filters of each language are what the model says.

use std::{cmp::Reverse, collections::BTreeSet, time::Duration};

use actix_web::http::Method;
use itertools::iproduct;
use model::{Comment, Filter, RatingSet};
use rand::RngExt;

use super::{
    model::matches,
    plan::Part,
    readers::{ids, listing, random_filter},
    world::{LANGUAGES, PAGE_SIZE, World},
};
use crate::fixture::{
    data,
    invariants::{Checked, Contents, all_items, differences_at_rest, differences_of_page_index},
};

/// What the functions alone have made, without a repair: they need none, unless something was lost
/// that they had made.
pub(crate) async fn before_repair(world: &World) {
    if world.loses_records() {
        return;
    }
    let has = |part: &Part| world.plan.has(*part);
    let is_job_lost = has(&Part::JobDies)
        && [Part::Recent, Part::Audit, Part::Rebuild, Part::Quarantine]
            .iter()
            .any(has);
    let loses_ranks = is_job_lost
        || [
            Part::IndexEmptied,
            Part::IndexRestored,
            Part::IndexFailsOver,
        ]
        .iter()
        .any(has);
    let contents = Contents::read(&world.calm_table()).await;
    let index = world.servers.calm_client();
    let mut differences = Vec::new();
    if !world.plan.has(Part::Damage) {
        differences.extend(contents.of_duplicates.clone());
        // A rebuild that died has left partitions without a mark, and says so.
        let table_id = world.calm_table().describe().await.unwrap().id;
        let is_marked = index.marks(&table_id).await.unwrap().len() == index.partitions().count();
        if is_marked && !loses_ranks {
            differences
                .extend(differences_of_page_index(&contents, Checked::Embedded(&index)).await);
        }
    }
    for difference in differences {
        world.violated(format!("before any repair: {difference}"));
    }
}

/// The published comments, newest first.
fn published(contents: &Contents) -> Vec<Comment> {
    let mut comments = contents.comments();
    comments.retain(|comment| comment.status.is_published());
    comments.sort_by_key(|comment| Reverse(comment.cd()));
    comments
}

/// Reads while the last repair runs. What the page index has lost is not believed any more, or it
/// is known to be right.
pub(crate) async fn read_meanwhile(world: &World) {
    let comments = published(&Contents::read(&world.calm_table()).await);
    let mut random = world.plan.random("readers of the last repair");
    if world.plan.has(Part::Damage) || world.loses_records() {
        // What only a repair notices.
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(Duration::from_millis(random.random_range(0..100))).await;
        let filter = random_filter(&mut random);
        let matching = comments.iter().filter(|comment| matches(&filter, comment));
        let all: Vec<&str> = matching.map(|comment| comment.id.as_str()).collect();
        let first: Vec<&str> = all.iter().zip(0..PAGE_SIZE).map(|(id, _)| *id).collect();
        let url = format!("{}&page=1", listing(&filter));
        let answer = world
            .request(&world.apis[0], Method::GET, &url, &[], None)
            .await;
        let json = answer.json();
        let is_right =
            (json["total"] == all.len() || json["index"] == "unavailable") && ids(&json) == first;
        world.check(answer.status == 503 || is_right, || {
            format!("{url} is {answer:?}, and there are {all:?}")
        });
    }
}

pub(crate) async fn at_rest(world: &World) {
    let contents = Contents::read(&world.calm_table()).await;
    let index = world.servers.calm_client();
    for difference in differences_at_rest(&contents, Checked::Embedded(&index)).await {
        world.violated(format!("at rest: {difference}"));
    }
    for difference in world.model.borrow().differences(&contents.comments()) {
        world.violated(difference);
    }
    if world.plan.has(Part::Erasure) {
        let stored = format!("{:?}", all_items(&world.calm_table()).await);
        let comments = contents.comments();
        let texts: BTreeSet<&str> = comments
            .iter()
            .map(|comment| comment.text.body.as_str())
            .collect();
        let gone = world
            .all_bodies()
            .filter(|body| !texts.contains(body.as_str()));
        for left in gone.filter(|body| stored.contains(&format!("\"{body}\""))) {
            world.violated(format!(
                "at rest the table still has the text {left:?}, which no comment has"
            ));
        }
    }
    for (url, before) in world.archive.take() {
        let answer = world
            .request(&world.apis[1], Method::GET, &url, &[], None)
            .await;
        world.check(ids(&answer.json()) == before, || {
            format!("posts have changed the archive page {url}: {before:?}, and now {answer:?}")
        });
    }
    let comments = published(&contents);
    // A few filters of each shape, each in one way: all of them would take longer than everything
    // else.
    let mut random = world.plan.random("filters at rest");
    let ratings: Vec<RatingSet> = RatingSet::every().collect();
    let languages = [None, Some(LANGUAGES[0]), Some(LANGUAGES[1])];
    let chosen = |_: &RatingSet| random.random_ratio(1, 10);
    let sets: Vec<Option<RatingSet>> = std::iter::once(None)
        .chain(ratings.into_iter().filter(chosen).map(Some))
        .collect();
    for (language, ratings) in iproduct!(languages, sets) {
        let filter = Filter::new(language.map(data::language), ratings);
        let mut expected: Vec<&str> = comments
            .iter()
            .filter(|comment| matches(&filter, comment))
            .map(|comment| comment.id.as_str())
            .collect();
        match random.random_range(0..4) {
            0 => walk_at_rest(world, &expected, &filter).await,
            1 => stable_pages_at_rest(world, expected.len(), &filter).await,
            2 => pages_at_rest(world, &expected, &filter, "newest").await,
            _ => {
                expected.reverse();
                pages_at_rest(world, &expected, &filter, "oldest").await;
            }
        }
    }
}

/// Checks the pages of a filter by number, in one order.
async fn pages_at_rest(world: &World, expected: &[&str], filter: &Filter, order: &str) {
    let (mut shown, mut number) = (Vec::new(), 1);
    loop {
        let url = format!("{}&order={order}&page={number}", listing(filter));
        let answer = world
            .request(&world.apis[number % 2], Method::GET, &url, &[], None)
            .await;
        let json = answer.json();
        if answer.status != 200 || json["total"] != expected.len() {
            return world.violated(format!(
                "at rest {url} is {answer:?}, of {} comments",
                expected.len()
            ));
        }
        shown.extend(ids(&json));
        if number as u64 >= json["total_pages"].as_u64().unwrap() {
            break;
        }
        number += 1;
    }
    world.check(shown == expected, || {
        format!("at rest {order} {filter:?}: {shown:?}, and not {expected:?}")
    });
}

async fn stable_pages_at_rest(world: &World, comments: usize, filter: &Filter) {
    let pages = (comments as u64 / PAGE_SIZE).saturating_sub(1);
    for number in 1..=pages {
        let url = format!("{}&numbering=stable&page={number}", listing(filter));
        let answer = world
            .request(&world.apis[0], Method::GET, &url, &[], None)
            .await;
        // The comments of the last minute are not settled.
        world.check([200, 302].contains(&answer.status), || {
            format!("at rest {url} is {answer:?}")
        });
    }
}

/// A walk by cursor shows every comment of a filter, once and in order.
async fn walk_at_rest(world: &World, expected: &[&str], filter: &Filter) {
    let (mut shown, mut url) = (Vec::new(), Some(listing(filter)));
    while let Some(next) = url.take().filter(|_| shown.len() <= expected.len()) {
        let json = world
            .request(&world.apis[0], Method::GET, &next, &[], None)
            .await
            .json();
        shown.extend(ids(&json));
        url = json["cursor"]["next"]
            .as_str()
            .map(|cursor| format!("{}&cursor={cursor}", listing(filter)));
    }
    world.check(shown == expected, || {
        format!("at rest a walk of {filter:?}: {shown:?}, and not {expected:?}")
    });
}
