//! Walks every filter to its end in both designs. Each page must have the same comments in the same order.

use futures_util::{StreamExt, stream};
use itertools::Itertools;
use model::{Comment, Filter, Order, ProductId};
use serde_json::{Value, json};
use table::{NewComment, Table};

use super::{FourIndexTable, comment, every_filter, expected_pages, load, product, query, walk};
use crate::{
    fixture::{
        engine::{self, EngineKind},
        http::Http,
        invariants::Contents,
        stack::Running,
        unique_name,
    },
    ordering::listing_url,
};

const CONCURRENCY: usize = 4;

fn new(comment: Comment) -> NewComment {
    let Comment { id, product, language, rating, created_at, status, text, site, .. } = comment;
    NewComment { id, product, language, rating, created_at, status: Some(status), text, site }
}

/// A product with many comments at one instant, some in each partition, and other comments around them.
fn with_ties(count: i64) -> Vec<Comment> {
    let product = product("ties/a b#1");
    let ratings = [5, 1, 5, 4, 2, 5, 3];
    let comments = (0..count).zip(ratings.into_iter().cycle()).map(|(number, rating)| {
        // Two of three comments have one of two instants. Ids are not in order.
        let seconds = if number % 3 == 0 { number } else { 100 * (number % 2) };
        let language = if number % 5 == 0 { "pt-BR" } else { "en" };
        comment(&format!("t{}", number * 7_919 % 1_000), &product, language, rating, seconds)
    });
    comments.collect()
}

/// Products with empty partitions and with partitions of a single comment, which is the newest, the oldest, or in
/// between.
fn with_gaps() -> Vec<Comment> {
    let (many, few, one) = (product("gaps"), product("few"), product("one"));
    let mut comments = (0..9).map(|number| comment(&format!("g{number}"), &many, "en", 5, number * 10)).collect_vec();
    for (id, language, rating, seconds) in [("newest", "en", 1, 95), ("oldest", "en", 3, -5), ("middle", "ja", 4, 45)] {
        comments.push(comment(id, &many, language, rating, seconds));
    }
    comments.extend([comment("f1", &few, "en", 2, 1), comment("f2", &few, "en", 4, 1), comment("o", &one, "he", 3, 1)]);
    comments
}

fn json_of(comment: &Comment) -> Value {
    json!({
        "id": comment.id.as_str(),
        "product": comment.product.as_str(),
        "language": comment.language.as_str(),
        "rating": comment.rating.get(),
        "created_at": comment.created_at.to_string(),
        "title": comment.text.title,
        "body": comment.text.body,
        "author": comment.text.author,
        "attributes": comment.site.attributes,
        "revision": comment.revision.to_string(),
    })
}

async fn pages_by_number(http: &Http, product: &ProductId, filter: &Filter, page_size: usize) -> Vec<Vec<Value>> {
    let url = listing_url(product, filter, Order::Newest, page_size);
    let mut pages = Vec::new();
    for number in 1.. {
        let mut page = http.get(&format!("{url}&page={number}")).await.expect(200);
        let Value::Array(comments) = page["comments"].take() else { panic!("{page}") };
        pages.push(comments);
        if page["total_pages"].as_u64().unwrap() <= number {
            break;
        }
    }
    pages
}

type Listing = (ProductId, Filter, usize);

async fn check_all(http: &Http, four: &FourIndexTable, all: &[Comment], listings: Vec<Listing>) {
    let checks = stream::iter(&listings).map(|listing| check(http, four, all, listing)).buffer_unordered(CONCURRENCY);
    let pages: usize = checks.collect::<Vec<_>>().await.iter().sum();
    println!("{} comments, {} listings, {pages} pages", all.len(), listings.len());
}

/// Walks a listing in both designs. Returns its number of pages.
async fn check(http: &Http, four: &FourIndexTable, all: &[Comment], listing: &Listing) -> usize {
    let (product, filter, page_size) = listing;
    let pagemark = pages_by_number(http, product, filter, *page_size).await;
    for skip_empty in [false, true] {
        let query = query(product, filter, *page_size, skip_empty);
        let pages = walk(four, &query).await;
        assert_eq!(pages, expected_pages(all, &query), "{query:?}");
        let pages = pages.iter().map(|page| page.iter().map(json_of).collect_vec()).collect_vec();
        assert_eq!(pages, pagemark, "{query:?}");
    }
    pagemark.len()
}

async fn both(comments: &[NewComment]) -> (Running, FourIndexTable, Table, Vec<Comment>) {
    let mut running = Running::start().await;
    running.import(comments).await;
    let all = Contents::read(running.stack.table()).await.comments();
    assert_eq!(all.len(), comments.len());
    let plain = Table::new(running.stack.table().client().clone(), unique_name("four-index"));
    let four = FourIndexTable::new(plain.client().clone(), plain.name());
    four.create().await.unwrap();
    load(&plain, &all, true).await;
    (running, four, plain, all)
}

fn languages_of<'all>(all: &'all [Comment], product: &ProductId) -> Vec<Option<&'all str>> {
    let of_product = all.iter().filter(|comment| comment.product == *product);
    of_product.map(|comment| Some(comment.language.as_str())).chain([None]).unique().collect()
}

async fn finish(running: Running, plain: &Table) {
    engine::delete_table(plain).await;
    running.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_designs_give_the_same_pages_with_ties_and_empty_partitions() {
    let ties = if engine::kind() == EngineKind::Embedded { 31 } else { 12 };
    let comments = [with_ties(ties), with_gaps()].concat().into_iter().map(new).collect_vec();
    let (running, four, plain, all) = both(&comments).await;
    let mut listings = Vec::new();
    for product in all.iter().map(|comment| comment.product.clone()).unique() {
        let mut languages = languages_of(&all, &product);
        // A language without comments is a valid filter too.
        languages.extend((product.as_str() == "gaps").then_some(Some("sw")));
        let filters = every_filter(&languages).into_iter().cartesian_product([1, 3, 20]);
        listings.extend(filters.map(|(filter, page_size)| (product.clone(), filter, page_size)));
    }
    listings.extend(every_filter(&[None]).into_iter().map(|filter| (product("nothing"), filter, 3)));
    check_all(&running.http, &four, &all, listings).await;
    finish(running, &plain).await;
}
