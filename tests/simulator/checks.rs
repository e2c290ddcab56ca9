//! What holds when everything is quiet. The derived data is what the comments imply. No
//! acknowledged write is lost. The pages of some filters of each language are what the model says.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use actix_web::http::Method;
use itertools::iproduct;
use local_stack::export::{Export, ExportTarget};
use model::{Comment, Filter, Invariant, PageSize, RatingSet, Timestamp};
use rand::{RngExt, rngs::StdRng};
use serde_json::Value;

use super::{
    model::matches,
    plan::Part,
    readers::{ids, listing, random_filter},
    world::{Judged, LANGUAGES, PAGE_SIZE, PRODUCT, World},
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
        for difference in &contents.of_duplicates {
            differences.push((Invariant::DuplicatesAreExact, difference.clone()));
        }
        // A rebuild that died has left partitions without a mark, and says so.
        let table_id = world.calm_table().describe().await.unwrap().id;
        let is_marked = index.marks(&table_id).await.unwrap().len() == index.partitions().count();
        if is_marked && !loses_ranks(world) {
            let of_index = differences_of_page_index(&contents, Checked::Embedded(&index)).await;
            for difference in of_index {
                differences.push((Invariant::PageIndexIsExact, difference));
            }
        }
    }
    for (invariant, difference) in differences {
        world.violated(invariant, format!("before any repair: {difference}"));
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
pub(crate) fn published(contents: &Contents) -> Vec<Comment> {
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
        world.check(
            Invariant::PageIndexIsExact,
            answer.status == 503 || is_right,
            || format!("{url} is {answer:?}, and there are {all:?}"),
        );
    }
}

/// An audit that has ended had repaired what was damaged before it began, however often it was
/// resumed.
pub(crate) async fn passed_by_audits(world: &World) {
    let passes: Vec<(String, Value)> = world.calm_table().states("audit").await.unwrap();
    let began = passes
        .iter()
        .filter_map(|(_, pass)| pass["last_began"].as_str());
    let Some(began) = began.max().map(|began| Timestamp::parse(began).unwrap()) else {
        return;
    };
    let contents = Contents::read(&world.calm_table()).await;
    for (id, damaged) in &*world.damaged.borrow() {
        let text = id.to_string();
        let mut differences = contents.of_duplicates.iter();
        let difference = differences.find(|difference| difference.contains(&text));
        world.check(Invariant::AuditsLeaveNothing, *damaged > began || difference.is_none(), || {
            format!("{id} was damaged at {damaged}, an audit from {began} on has ended, and {difference:?}")
        });
    }
}

pub(crate) async fn at_rest(world: &World) {
    let contents = Contents::read(&world.calm_table()).await;
    let index = world.servers.calm_client();
    for (invariant, difference) in differences_at_rest(&contents, Checked::Embedded(&index)).await {
        world.violated(invariant, format!("at rest: {difference}"));
    }
    for difference in world.model.borrow().differences(&contents.comments()) {
        world.violated(Invariant::WritesAreKept, difference);
    }
    if world.plan.has(Part::Erasure) {
        check_erased_texts(world, &contents).await;
    }
    for (url, before) in world.archive.take() {
        let answer = world
            .request(&world.apis[1], Method::GET, &url, &[], None)
            .await;
        world.check(
            Invariant::PostsKeepArchivePages,
            ids(&answer.json()) == before,
            || format!("posts have changed the archive page {url}: {before:?}, and now {answer:?}"),
        );
    }
    let comments = published(&contents);
    let mut random = world.plan.random("filters at rest");
    check_some_filters(world, &mut random, &comments).await;
    let list = differences_of_list(world, &comments).await;
    world.check(Invariant::PagesAreExact, list.is_none(), || {
        list.unwrap_or_default()
    });
    feed_at_rest(world, &comments).await;
    export_at_rest(world, &contents).await;
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
            world.violated(
                Invariant::ErasedIsGone,
                format!("at rest the table still has the text {body:?}, which no comment has"),
            );
        }
    }
}

/// A few filters of each shape, each in one way: all of them would take longer than everything
/// else.
pub(crate) async fn check_some_filters(
    judged: &impl Judged,
    random: &mut StdRng,
    comments: &[Comment],
) {
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
            0 => walk_at_rest(judged, &expected, &filter).await,
            1 => stable_pages_at_rest(judged, &expected, &filter).await,
            2 => pages_at_rest(judged, &expected, &filter, "newest").await,
            _ => {
                expected.reverse();
                pages_at_rest(judged, &expected, &filter, "oldest").await;
            }
        }
    }
}

/// Checks the pages of a filter by number, in one order.
async fn pages_at_rest(judged: &impl Judged, expected: &[&str], filter: &Filter, order: &str) {
    let mut shown = Vec::new();
    let mut number = 1;
    loop {
        let url = format!("{}&order={order}&page={number}", listing(filter));
        let answer = judged.read(&url).await;
        let json = answer.json();
        if answer.status != 200 || json["total"] != expected.len() {
            return judged.violated(
                Invariant::PagesAreExact,
                format!(
                    "at rest {url} is {answer:?}, of {} comments",
                    expected.len()
                ),
            );
        }
        shown.extend(ids(&json));
        if number as u64 >= json["total_pages"].as_u64().unwrap() {
            break;
        }
        number += 1;
    }
    judged.check(Invariant::PagesAreExact, shown == expected, || {
        format!("at rest {order} {filter:?}: {shown:?}, and not {expected:?}")
    });
}

/// The front page and the archive pages, the newest first, show every comment of a filter once.
async fn stable_pages_at_rest(judged: &impl Judged, expected: &[&str], filter: &Filter) {
    let front = format!("{}&numbering=stable", listing(filter));
    let answer = judged.read(&front).await;
    let json = answer.json();
    let mut shown = ids(&json);
    let pages = json["total_pages"].as_u64().unwrap_or_default();
    for number in (1..pages).rev() {
        let url = format!("{front}&page={number}");
        let answer = judged.read(&url).await;
        judged.check(Invariant::PagesAreExact, answer.status == 200, || {
            format!("at rest {url} is {answer:?}")
        });
        shown.extend(ids(&answer.json()));
    }
    judged.check(Invariant::PagesAreExact, shown == expected, || {
        format!("at rest the archive of {filter:?}: {shown:?}, and not {expected:?}")
    });
}

/// The list of products has those with comments, and their numbers. Says what is wrong.
pub(crate) async fn differences_of_list(
    judged: &impl Judged,
    comments: &[Comment],
) -> Option<String> {
    let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
    for comment in comments {
        *expected.entry(comment.product.as_str()).or_default() += 1;
    }
    let answer = judged.read("/api/v1/products").await;
    let json = answer.json();
    let listed: BTreeMap<&str, u64> = json["products"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|listed| {
            (
                listed["product"].as_str().unwrap(),
                listed["total"].as_u64().unwrap(),
            )
        })
        .collect();
    if listed == expected {
        return None;
    }
    Some(format!(
        "at rest the list of products is {answer:?}, and not {expected:?}"
    ))
}

/// A feed has the newest comments of a filter.
pub(crate) async fn feed_at_rest(judged: &impl Judged, comments: &[Comment]) {
    let newest = comments
        .iter()
        .filter(|comment| comment.product.as_str() == PRODUCT)
        .take(PageSize::default().get().into());
    let url = format!("/product/{PRODUCT}/feed");
    let answer = judged.read(&url).await;
    let text = &answer.body;
    for comment in newest {
        judged.check(
            Invariant::PagesAreExact,
            text.contains(comment.id.as_str()),
            || format!("at rest the feed lacks {}: {answer:?}", comment.id),
        );
    }
}

/// An export has every comment, also those that readers do not see.
async fn export_at_rest(world: &World, contents: &Contents) {
    let file = world.folder.path().join("export.jsonl");
    let table = world.calm_table();
    let target = ExportTarget::at(&file).unwrap();
    if let Err(error) = Export::of(&table).comments(&target, None, false).await {
        return world.violated(
            Invariant::PagesAreExact,
            format!("at rest an export fails: {error:#}"),
        );
    }
    check_export(world, &fs::read_to_string(&file).unwrap(), contents);
}

pub(crate) fn check_export(judged: &impl Judged, exported: &str, contents: &Contents) {
    let mut ids: Vec<String> = Vec::new();
    for line in exported.lines() {
        let comment: Value = serde_json::from_str(line).unwrap();
        ids.push(comment["id"].as_str().unwrap().to_owned());
    }
    ids.sort();
    let mut expected: Vec<String> = Vec::new();
    for comment in contents.comments() {
        expected.push(comment.id.to_string());
    }
    expected.sort();
    judged.check(Invariant::PagesAreExact, ids == expected, || {
        format!("at rest an export has {ids:?}, and not {expected:?}")
    });
}

/// A walk by cursor shows every comment of a filter, once and in order.
async fn walk_at_rest(judged: &impl Judged, expected: &[&str], filter: &Filter) {
    let mut shown = Vec::new();
    let mut next = Some(listing(filter));
    while let Some(url) = next {
        // A walk that continues after the last comment is wrong already.
        if shown.len() > expected.len() {
            break;
        }
        let answer = judged.read(&url).await;
        let json = answer.json();
        shown.extend(ids(&json));
        let cursor = json["cursor"]["next"].as_str();
        next = cursor.map(|cursor| format!("{}&cursor={cursor}", listing(filter)));
    }
    judged.check(Invariant::PagesAreExact, shown == expected, || {
        format!("at rest a walk of {filter:?}: {shown:?}, and not {expected:?}")
    });
}
