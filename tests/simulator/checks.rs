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
    let contents = Contents::read(&world.calm_table()).await;
    let index = world.servers.calm_client();
    let mut differences = Vec::new();
    if !world.plan.has(Part::Damage) {
        differences.extend(contents.of_duplicates.clone());
        // A rebuild that died has left partitions without a mark, and says so.
        let table_id = world.calm_table().describe().await.unwrap().id;
        let is_marked = index.marks(&table_id).await.unwrap().len() == index.partitions().count();
        if is_marked && !loses_ranks(world) {
            let of_index = differences_of_page_index(&contents, Checked::Embedded(&index)).await;
            differences.extend(of_index);
        }
    }
    for difference in differences {
        world.violated(format!("before any repair: {difference}"));
    }
}

/// Whether ranks may be lost that only a repair brings back.
fn loses_ranks(world: &World) -> bool {
    let jobs = [Part::Recent, Part::Audit, Part::Rebuild, Part::Quarantine];
    let job_may_die = world.plan.has(Part::JobDies) && has_any(world, &jobs);
    let servers_may_lose = has_any(
        world,
        &[
            Part::IndexEmptied,
            Part::IndexRestored,
            Part::IndexFailsOver,
        ],
    );
    job_may_die || servers_may_lose
}

fn has_any(world: &World, parts: &[Part]) -> bool {
    parts.iter().any(|part| world.plan.has(*part))
}

/// The published comments, newest first.
fn published(contents: &Contents) -> Vec<Comment> {
    let mut comments = contents.comments();
    comments.retain(|comment| comment.status.is_published());
    comments.sort_by_key(|comment| Reverse(comment.cd()));
    comments
}

/// The ids of those comments that match a filter.
fn matching_ids<'comments>(comments: &'comments [Comment], filter: &Filter) -> Vec<&'comments str> {
    let matching = comments.iter().filter(|comment| matches(filter, comment));
    matching.map(|comment| comment.id.as_str()).collect()
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
        let all = matching_ids(&comments, &filter);
        let first_page = &all[..all.len().min(usize::try_from(PAGE_SIZE).unwrap())];
        let url = format!("{}&page=1", listing(&filter));
        let answer = world
            .request(&world.apis[0], Method::GET, &url, &[], None)
            .await;
        let json = answer.json();
        let is_total_right = json["total"] == all.len() || json["index"] == "unavailable";
        let is_right = is_total_right && ids(&json) == first_page;
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
        check_erased_texts(world, &contents).await;
    }
    for (url, before) in world.archive.take() {
        let answer = world
            .request(&world.apis[1], Method::GET, &url, &[], None)
            .await;
        world.check(ids(&answer.json()) == before, || {
            format!("posts have changed the archive page {url}: {before:?}, and now {answer:?}")
        });
    }
    check_some_filters(world, &published(&contents)).await;
}

/// The table has no text any more that no comment has.
async fn check_erased_texts(world: &World, contents: &Contents) {
    let stored = format!("{:?}", all_items(&world.calm_table()).await);
    let comments = contents.comments();
    let present: BTreeSet<&str> = comments
        .iter()
        .map(|comment| comment.text.body.as_deref().unwrap_or_default())
        .collect();
    for body in world.all_bodies() {
        let is_stored = stored.contains(&format!("\"{body}\""));
        if is_stored && !present.contains(body.as_str()) {
            world.violated(format!(
                "at rest the table still has the text {body:?}, which no comment has"
            ));
        }
    }
}

/// A few filters of each shape, each in one way: all of them would take longer than everything
/// else.
async fn check_some_filters(world: &World, comments: &[Comment]) {
    let mut random = world.plan.random("filters at rest");
    let mut rating_sets = vec![None];
    for ratings in RatingSet::every() {
        if random.random_ratio(1, 10) {
            rating_sets.push(Some(ratings));
        }
    }
    let languages = [None, Some(LANGUAGES[0]), Some(LANGUAGES[1])];
    for (language, ratings) in iproduct!(languages, rating_sets) {
        let filter = Filter::new(language.map(data::language), ratings);
        let mut expected = matching_ids(comments, &filter);
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
    let mut shown = Vec::new();
    let mut number = 1;
    loop {
        let url = format!("{}&order={order}&page={number}", listing(filter));
        let api = &world.apis[number % 2];
        let answer = world.request(api, Method::GET, &url, &[], None).await;
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
    let mut shown = Vec::new();
    let mut next = Some(listing(filter));
    while let Some(url) = next {
        // A walk that continues after the last comment is wrong already.
        if shown.len() > expected.len() {
            break;
        }
        let answer = world
            .request(&world.apis[0], Method::GET, &url, &[], None)
            .await;
        let json = answer.json();
        shown.extend(ids(&json));
        let cursor = json["cursor"]["next"].as_str();
        next = cursor.map(|cursor| format!("{}&cursor={cursor}", listing(filter)));
    }
    world.check(shown == expected, || {
        format!("at rest a walk of {filter:?}: {shown:?}, and not {expected:?}")
    });
}
