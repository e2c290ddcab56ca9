//! The compared design (`four-index`) gives the same comments in the same order on each page, keeps its counters right,
//! and costs what DynamoDB's rules say.
//!
//! - `pages`: walks every filter to its end in both designs.
//! - `walks`: walks during writes, and pages of which a part fails.
//! - `counters`: compares the counters with a count of the comments.
//! - `costs`: compares units with the rules.

mod costs;
mod counters;
mod pages;
mod walks;

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use four_index::{Cursor, Error, FourIndexTable, Page, PageQuery, comment_item, counter_items};
use itertools::Itertools;
use model::{Comment, CommentText, Filter, PageSize, ProductId, RatingSet, Revision};
use serde_dynamo::Item;
use table::{NewComment, Table};

use crate::fixture::{
    data::{self, filter, product},
    engine::TestEngine,
    unique_name,
};

/// Number of items in a batch (AWS: `BatchWriteItem`).
const BATCH_MAX: usize = 25;

struct Alone {
    engine: TestEngine,
    table: FourIndexTable,
    /// This table for operations that the design does not have.
    plain: Table,
}

impl Alone {
    async fn start() -> Self {
        let engine = TestEngine::start().await;
        let plain = Table::connect(&engine.table_config(unique_name("four-index"))).await;
        let table = FourIndexTable::new(plain.client().clone(), plain.name());
        table.create().await.unwrap();
        Self { engine, table, plain }
    }

    /// The table with some comments, with or without their counters.
    async fn with(comments: &[Comment], with_counters: bool) -> Self {
        let alone = Self::start().await;
        load(&alone.plain, comments, with_counters).await;
        alone
    }

    async fn finish(self) {
        self.engine.stop(&self.plain).await;
    }
}

/// Loads comments into a table in bulk, with or without their counters.
async fn load(table: &Table, comments: &[Comment], with_counters: bool) {
    let mut items = comments.iter().map(comment_item).collect_vec();
    if with_counters {
        items.extend(counter_items(comments));
    }
    for batch in items.chunks(BATCH_MAX) {
        let put = |item: &Item| {
            let put = PutRequest::builder().set_item(Some(item.clone().into())).build().unwrap();
            WriteRequest::builder().put_request(put).build()
        };
        let call = table.client().batch_write_item().request_items(table.name(), batch.iter().map(put).collect_vec());
        let left = call.send().await.unwrap().unprocessed_items.unwrap_or_default();
        assert!(left.is_empty(), "{left:?}");
    }
}

async fn items(table: &Table) -> Vec<HashMap<String, AttributeValue>> {
    let mut items = Vec::new();
    let mut start = None;
    loop {
        let scan = table.client().scan().table_name(table.name()).consistent_read(true).limit(1_000);
        let answer = scan.set_exclusive_start_key(start).send().await.unwrap();
        items.extend(answer.items.unwrap_or_default());
        start = answer.last_evaluated_key;
        if start.is_none() {
            return items;
        }
    }
}

/// A comment created `seconds` into a day.
fn comment(id: &str, product: &ProductId, language: &str, rating: u64, seconds: i64) -> Comment {
    let NewComment { id, product, language, rating, created_at, status, text, site } =
        data::new_comment(id, product, language, rating);
    let created_at = created_at.plus_ms(seconds * 1_000);
    let revision = Revision::after(None, created_at, rand::random());
    let status = status.unwrap_or_default();
    Comment { id, product, language, rating, created_at, revision, status, text, site }
}

fn with_body(comment: Comment, body: String) -> Comment {
    Comment { text: CommentText { body, ..comment.text }, ..comment }
}

fn later(old: &Comment, language: &str, rating: u64, body: String, random: u128) -> Comment {
    let revision = Revision::after(Some(old.revision), old.created_at, random);
    let new = Comment { language: data::language(language), rating: data::rating(rating), revision, ..old.clone() };
    with_body(new, body)
}

fn query(product: &ProductId, filter: &Filter, page_size: usize, skip_empty: bool) -> PageQuery {
    let page_size = PageSize::new(u64::try_from(page_size).unwrap()).unwrap();
    PageQuery { product: product.clone(), filter: filter.clone(), page_size, skip_empty }
}

/// Every rating set with each of these languages; `None` means any language.
fn every_filter(languages: &[Option<&str>]) -> Vec<Filter> {
    let sets = RatingSet::every().map(|ratings| ratings.to_string()).collect_vec();
    languages.iter().cartesian_product(&sets).map(|(language, ratings)| filter(*language, Some(ratings))).collect()
}

/// The next page of a walk. The cursor is serialized to text and parsed again.
async fn next_page(table: &FourIndexTable, query: &PageQuery, before: Option<&Page>) -> Result<Option<Page>, Error> {
    let cursor = match before {
        None => None,
        Some(Page { next: None, .. }) => return Ok(None),
        Some(Page { next: Some(cursor), .. }) => Some(Cursor::decode(&cursor.encode(), query)?),
    };
    table.page(query, cursor.as_ref()).await.map(Some)
}

/// Maximum number of pages of any walk in these tests.
const PAGES_MAX: usize = 2_000;

/// The pages of a complete walk, without an empty last page that only marks the end.
async fn walk(table: &FourIndexTable, query: &PageQuery) -> Vec<Vec<Comment>> {
    let mut pages: Vec<Vec<Comment>> = Vec::new();
    let mut last = None;
    while let Some(page) = next_page(table, query, last.as_ref()).await.unwrap() {
        assert!(pages.len() < PAGES_MAX, "{query:?}: the walk does not end");
        let shown = page.cost.items_read - page.cost.items_discarded;
        assert_eq!(shown, u32::try_from(page.comments.len()).unwrap(), "{query:?}: {:?}", page.cost);
        pages.push(page.comments.clone());
        last = Some(page);
    }
    if pages.last().is_some_and(Vec::is_empty) && pages.len() > 1 {
        pages.pop();
        let full = usize::from(query.page_size.get());
        assert!(pages.iter().all(|page| page.len() == full), "{query:?}: an empty page after one that is not full");
    }
    pages
}

/// The pages that a walk must give.
fn expected_pages(comments: &[Comment], query: &PageQuery) -> Vec<Vec<Comment>> {
    let wanted =
        comments.iter().filter(|c| c.product == query.product && query.filter.matches(&c.placement())).cloned();
    let newest_first = wanted.sorted_by_key(|comment| comment.cd()).rev().collect_vec();
    let pages = newest_first.chunks(query.page_size.get().into()).map(<[Comment]>::to_vec).collect_vec();
    if pages.is_empty() { vec![Vec::new()] } else { pages }
}
