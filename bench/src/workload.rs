//! The comments of the measurements, the events made from them, and the functions that handle
//! events.

use std::time::Duration;

use anyhow::{Context, ensure};
use aws_lambda_events::dynamodb::Event;
use cost::primary_item;
use functions::{Quarantine, invocation::Handled};
use local_stack::demo::demo_comments;
use model::{
    Comment, CommentId, CommentText, Language, ProductId, Rating, Revision, SiteData, Status,
    Timestamp,
    plan::{DuplicateWrite, IndexEdit, index_edits},
    record::decode_batch,
};
use page_index::PageIndex;
use page_indexer::PageIndexer;
use rand::{
    RngExt, SeedableRng,
    distr::{Distribution, weighted::WeightedIndex},
    rngs::StdRng,
};
use serde_dynamo::Item;
use serde_json::{Value, json};
use stream_writer::{StreamWriter, plan_calls};
use table::{NewComment, Table};

/// Records per invocation: the setting of the event source mappings in the deployment template.
pub(crate) const EVENT_RECORDS: usize = 100;

/// How many of ten comments belong to the top product.
const TOP_PRODUCT_OF_TEN: u32 = 3;
/// Number of other products. The k-th one is drawn in proportion to 1/k (Zipf's law).
const PRODUCTS: u32 = 10_000;
/// Languages with their relative frequencies.
const LANGUAGES: [(&str, u32); 7] = [
    ("en", 60),
    ("de", 12),
    ("fr", 10),
    ("es", 8),
    ("pt-BR", 5),
    ("he", 3),
    ("ja", 2),
];
/// Relative frequencies of the ratings 1 to 5.
const RATING_WEIGHTS: [u32; 5] = [14, 6, 9, 21, 50];
/// The time of the first comment, 2024-01-01T00:00:00Z; then the time span of all comments, two
/// years.
pub(crate) const FIRST_MS: i64 = 1_704_067_200_000;
pub(crate) const SPAN_MS: i64 = 2 * 365 * 24 * 3_600_000;
const TEXTS: u64 = 1_000;
/// Calls in parallel: the function's default.
pub(crate) const WRITE_CONCURRENCY: usize = 8;

/// The mean time between two comments that are drawn in the order of their times.
const STEP_MS: i64 = SPAN_MS / 1_000_000;

/// An endless generator of comments. Ids are ULIDs. A given seed always gives the same comments.
pub(crate) struct Comments {
    is_in_order: bool,
    rng: StdRng,
    top_product: ProductId,
    products: Vec<ProductId>,
    product_weights: WeightedIndex<f64>,
    languages: Vec<Language>,
    language_weights: WeightedIndex<u32>,
    rating_weights: WeightedIndex<u32>,
    texts: Vec<CommentText>,
    drawn: u32,
}

impl Comments {
    pub(crate) fn new(seed: u64) -> anyhow::Result<Self> {
        let mut products = Vec::new();
        for number in 1..=PRODUCTS {
            products.push(product(number)?);
        }
        Ok(Self {
            is_in_order: false,
            rng: StdRng::seed_from_u64(seed),
            top_product: product(0)?,
            products,
            product_weights: WeightedIndex::new((1..=PRODUCTS).map(|rank| 1.0 / f64::from(rank)))?,
            languages: LANGUAGES
                .iter()
                .map(|(tag, _)| Language::parse(tag))
                .collect::<Result<_, _>>()?,
            language_weights: WeightedIndex::new(LANGUAGES.map(|(_, weight)| weight))?,
            rating_weights: WeightedIndex::new(RATING_WEIGHTS)?,
            texts: demo_comments(TEXTS, Timestamp::from_epoch_ms(FIRST_MS)?)
                .map(|comment| comment.text)
                .collect(),
            drawn: 0,
        })
    }

    /// Draws in the order of creation times, as sites do.
    pub(crate) fn in_order(self) -> Self {
        Self {
            is_in_order: true,
            ..self
        }
    }

    pub(crate) fn draw(&mut self) -> anyhow::Result<Comment> {
        let rng = &mut self.rng;
        let after_ms = if self.is_in_order {
            i64::from(self.drawn) * STEP_MS + rng.random_range(0..STEP_MS)
        } else {
            rng.random_range(0..SPAN_MS)
        };
        let created_at = Timestamp::from_epoch_ms(FIRST_MS + after_ms)?;
        // A revision is a ULID, like our comment ids.
        let id = Revision::after(None, created_at, rng.random());
        let revision = Revision::after(None, created_at, rng.random());
        let is_top = self.drawn % 10 < TOP_PRODUCT_OF_TEN;
        let product = if is_top {
            Some(&self.top_product)
        } else {
            self.products.get(self.product_weights.sample(rng))
        };
        let language = self.languages.get(self.language_weights.sample(rng));
        let text = self.texts.get(rng.random_range(0..self.texts.len()));
        self.drawn += 1;
        Ok(Comment {
            id: CommentId::parse(&id.to_string())?,
            product: product.context("a product")?.clone(),
            language: language.context("a language")?.clone(),
            rating: Rating::new(1 + self.rating_weights.sample(rng) as u64)?,
            created_at,
            revision,
            status: Status::Published,
            text: text.context("a text")?.clone(),
            site: SiteData::default(),
        })
    }

    pub(crate) fn take(&mut self, count: u32) -> anyhow::Result<Vec<Comment>> {
        (0..count).map(|_| self.draw()).collect()
    }
}

fn product(number: u32) -> anyhow::Result<ProductId> {
    Ok(ProductId::parse(&format!("shop/item-{number:05}"))?)
}

pub(crate) fn events(comments: &[Comment]) -> anyhow::Result<Vec<Event>> {
    let mut events = Vec::new();
    let mut number = 0;
    for comments in comments.chunks(EVENT_RECORDS) {
        let mut records = Vec::new();
        for comment in comments {
            number += 1;
            records.push(record(None, Some(&primary_item(comment)?), number)?);
        }
        events.push(serde_json::from_value(json!({ "Records": records }))?);
    }
    Ok(events)
}

/// The event of one change of a primary item.
pub(crate) fn event(
    old: Option<&Item>,
    new: Option<&Item>,
    sequence_number: u64,
) -> anyhow::Result<Event> {
    Ok(serde_json::from_value(
        json!({ "Records": [record(old, new, sequence_number)?] }),
    )?)
}

fn record(old: Option<&Item>, new: Option<&Item>, sequence_number: u64) -> anyhow::Result<Value> {
    let event_name = match (old, new) {
        (None, _) => "INSERT",
        (Some(_), Some(_)) => "MODIFY",
        (Some(_), None) => "REMOVE",
    };
    let any = new.or(old).context("a change has an image")?;
    let change = json!({
        "ApproximateCreationDateTime": 1_767_225_600.0,
        "Keys": { "pk": any.get("pk"), "sk": any.get("sk") },
        "SequenceNumber": format!("{sequence_number:021}"),
        "SizeBytes": 400,
        "StreamViewType": "NEW_AND_OLD_IMAGES",
        "OldImage": old,
        "NewImage": new,
    });
    Ok(json!({
        "eventID": format!("{sequence_number:032x}"),
        "eventName": event_name,
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "eu-central-1",
        "eventSourceARN": "arn:aws:dynamodb:eu-central-1:000000000000:table/bench/stream/2026-01-01T00:00:00.000",
        "dynamodb": change,
    }))
}

pub(crate) fn new_comment(comment: Comment) -> NewComment {
    let Comment {
        id,
        product,
        language,
        rating,
        created_at,
        text,
        site,
        ..
    } = comment;
    NewComment {
        id,
        product,
        language,
        rating,
        created_at,
        status: None,
        text,
        site,
    }
}

pub(crate) fn insertion(comment: &Comment) -> Vec<IndexEdit> {
    index_edits(&comment.id, Some(&comment.entry()), &[])
}

pub(crate) fn stream_writer(table: &Table) -> StreamWriter {
    StreamWriter::new(table.clone(), Quarantine::Mapping, WRITE_CONCURRENCY)
}

pub(crate) fn page_indexer(index: &PageIndex) -> PageIndexer {
    PageIndexer::new(index.clone(), Quarantine::Mapping)
}

/// The writes of duplicates that follow from an event, call by call.
pub(crate) fn planned_calls(event: &Event) -> Vec<Vec<DuplicateWrite>> {
    plan_calls(&decode_batch(&event.records).changes)
}

/// A time limit for a handler, far above any duration.
pub(crate) fn deadline() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_secs(600)
}

/// Refuses the answer of a handler that did not process its whole batch.
pub(crate) fn expect_processed(handled: &Handled) -> anyhow::Result<()> {
    let failures = handled.response.batch_item_failures.len();
    ensure!(
        failures == 0,
        "the handler reports {failures} records for retry"
    );
    Ok(())
}
