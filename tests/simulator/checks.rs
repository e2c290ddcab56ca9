//! What holds when everything is quiet. The derived data is what the comments imply. No acknowledged write is lost. The pages
//! of some filters of each language are what the model says.

use std::cmp::Reverse;

use actix_web::http::Method;
use itertools::iproduct;
use model::{Comment, Filter, RatingSet};

use super::{
    model::matches,
    plan::Part,
    readers::listing,
    world::{LANGUAGES, PAGE_SIZE, World},
};
use crate::fixture::{
    data,
    invariants::{Checked, Contents, differences_at_rest, differences_of_duplicates, differences_of_page_index},
};

/// What the functions alone have made, without a repair: they need none, unless something was lost that they had made.
pub(crate) async fn before_repair(world: &World) {
    let loses_ranks = [Part::IndexEmptied, Part::IndexRestored, Part::IndexFailsOver, Part::Rebuild];
    let contents = Contents::read(&world.calm_table()).await;
    let index = world.servers.calm_client();
    let mut differences = Vec::new();
    if !world.plan.has(Part::Damage) {
        differences.extend(differences_of_duplicates(&contents));
        if !loses_ranks.into_iter().any(|part| world.plan.has(part)) {
            differences.extend(differences_of_page_index(&contents, Checked::Embedded(&index)).await);
        }
    }
    for difference in differences {
        world.violated(format!("before any repair: {difference}"));
    }
}

pub(crate) async fn at_rest(world: &World) {
    let contents = Contents::read(&world.calm_table()).await;
    let index = world.servers.calm_client();
    for difference in differences_at_rest(&contents, Checked::Embedded(&index)).await {
        world.violated(format!("at rest: {difference}"));
    }
    let mut comments = contents.comments();
    for difference in world.model.borrow().differences(&comments) {
        world.violated(difference);
    }
    comments.retain(|comment| comment.status.is_published());
    comments.sort_by_key(|comment| Reverse(comment.cd()));
    // A few filters of each shape: all of them would take longer than everything else.
    let mut random = world.plan.random("filters at rest");
    let ratings: Vec<RatingSet> = RatingSet::every().collect();
    let languages = [None, Some(LANGUAGES[0]), Some(LANGUAGES[1])];
    let chosen = |_: &RatingSet| rand::RngExt::random_ratio(&mut random, 1, 10);
    let sets: Vec<Option<RatingSet>> =
        std::iter::once(None).chain(ratings.into_iter().filter(chosen).map(Some)).collect();
    for (language, ratings) in iproduct!(languages, sets) {
        pages_at_rest(world, &comments, &Filter::new(language.map(data::language), ratings)).await;
    }
}

/// Checks the pages of a filter by number, in either order.
async fn pages_at_rest(world: &World, comments: &[Comment], filter: &Filter) {
    let mut expected: Vec<&str> =
        comments.iter().filter(|comment| matches(filter, comment)).map(|comment| comment.id.as_str()).collect();
    for order in ["newest", "oldest"] {
        let (mut shown, mut number) = (Vec::new(), 1);
        loop {
            let url = format!("{}&order={order}&page={number}", listing(filter));
            let answer = world.request(&world.apis[number % 2], Method::GET, &url, &[], None).await;
            let json = answer.json();
            if answer.status != 200 || json["total"] != expected.len() {
                return world.violated(format!("at rest {url} is {answer:?}, of {} comments", expected.len()));
            }
            let comments = json["comments"].as_array().into_iter().flatten();
            shown.extend(comments.map(|comment| comment["id"].as_str().unwrap().to_owned()));
            if number as u64 >= json["total_pages"].as_u64().unwrap() {
                break;
            }
            number += 1;
        }
        world.check(shown == expected, || format!("at rest {order} {filter:?}: {shown:?}, and not {expected:?}"));
        expected.reverse();
    }
    let pages = (expected.len() as u64 / PAGE_SIZE).saturating_sub(1);
    for number in 1..=pages {
        let url = format!("{}&numbering=stable&page={number}", listing(filter));
        let answer = world.request(&world.apis[0], Method::GET, &url, &[], None).await;
        // The comments of the last minute are not settled.
        world.check([200, 302].contains(&answer.status), || format!("at rest {url} is {answer:?}"));
    }
}
