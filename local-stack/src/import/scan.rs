//! Reads the items of another table by a parallel scan (Amazon DynamoDB Developer Guide, "Scanning tables").
//!
//! The scan takes from each segment one answer after the other, eventually consistent. Comments that change meanwhile may
//! be read as they were before or after; `pagemark follow` brings the changes since the scan began.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use process::StoreError;
use serde_dynamo::Item;
use table::store_error;
use tokio::sync::mpsc;

use super::{
    Checkpoint,
    format::Reading,
    line::printable,
    retry::retried,
    scan_position::{KeptScan, Segment},
    source::{Numbered, Source, SourceError},
};
use crate::origin::Origin;

/// How many items one answer holds at most: as many as are read ahead of the import.
const ITEMS_MAX: i32 = 500;
/// A scan of a table, from the beginning or from where an earlier one ended.
pub struct Scan {
    client: Client,
    table: String,
    /// The names of the attributes of an item's key.
    keys: Vec<String>,
    kept: KeptScan,
}

/// An answer of the scan: the items of a segment, and the key of the last one, unless it was the segment's end.
struct Answer {
    segment: usize,
    items: Vec<Item>,
    next: Option<Item>,
    /// Whether the items are those that an earlier import refused.
    is_again: bool,
}

impl Scan {
    /// A scan of a table in segments. With a checkpoint it goes on where an import with the same options ended.
    pub fn of(origin: &Origin, segments: u32, options: &str, checkpoint: Option<&Checkpoint>) -> Self {
        let began = KeptScan::begin(format!("{} {options}", origin.id()), segments);
        let kept = match checkpoint {
            Some(checkpoint) => checkpoint.begin_scan(origin.name().to_owned(), began),
            None => began,
        };
        Self { client: origin.dynamodb(), table: origin.table().to_owned(), keys: origin.keys().to_vec(), kept }
    }

    /// When the first import of this scan began, as text of RFC 3339. Later changes of the table may be missing.
    pub fn began(&self) -> &str {
        &self.kept.began
    }

    /// How many segments an earlier import has not read to their ends, of how many.
    pub fn left(&self) -> (usize, usize) {
        let left = self.kept.segments.iter().filter(|segment| **segment != Segment::Done).count();
        (left, self.kept.segments.len())
    }

    /// The comments of the table. The numbers of its items are in the order of their arrival. Must be called in a Tokio
    /// runtime.
    pub fn source(self, reading: Reading, checkpoint: Option<Arc<Checkpoint>>) -> Source {
        let (total, keys) = (self.left().0, self.keys.clone());
        let (sender, mut answers) = mpsc::channel(self.kept.segments.len());
        tokio::spawn(self.read(sender));
        let (mut number, mut ended, mut failed) = (0, 0, false);
        let mut under_way: Option<(Answer, VecDeque<Item>)> = None;
        let end_answer = {
            let checkpoint = checkpoint.clone();
            move |last: u64, answer: Answer| {
                if let Some(checkpoint) = checkpoint.as_ref().filter(|_| !answer.is_again) {
                    checkpoint.end_answer(last, answer.segment, answer.next);
                }
            }
        };
        Source::of_lines(std::iter::from_fn(move || {
            loop {
                let Some((_, items)) = &mut under_way else {
                    match answers.blocking_recv() {
                        Some(Ok(mut answer)) => {
                            ended += usize::from(answer.next.is_none() && !answer.is_again);
                            let items = std::mem::take(&mut answer.items).into();
                            under_way = Some((answer, items));
                            continue;
                        }
                        Some(Err(error)) => return Some(Err(error)),
                        // The task that reads has panicked, or the runtime ends.
                        None if ended < total && !std::mem::replace(&mut failed, true) => {
                            return Some(Err(SourceError::Scan("it ended early".to_owned())));
                        }
                        None => return None,
                    }
                };
                let Some(item) = items.pop_front() else {
                    if let Some((answer, _)) = under_way.take() {
                        end_answer(number, answer);
                    }
                    continue;
                };
                let key = key_of(&item, &keys);
                let text = reading.line_of(&item);
                let content = reading.comment(item.into_inner()).transpose();
                let Some(content) = content else { continue };
                number += 1;
                if let Some(checkpoint) = &checkpoint {
                    checkpoint.begin_item(number, key.clone());
                }
                let content = content.map_err(|reason| format!("item {}: {reason}", printable(&key)));
                return Some(Ok(Numbered { number, content, text }));
            }
        }))
    }

    /// Reads the refused items first, then what is left of all segments in parallel.
    async fn read(self, answers: mpsc::Sender<Result<Answer, SourceError>>) {
        let Some(again) = sent(self.refused().await, &answers).await else { return };
        if !again.items.is_empty() && answers.send(Ok(again)).await.is_err() {
            return;
        }
        let segments = self.kept.segments.iter().enumerate().filter(|(_, kept)| **kept != Segment::Done);
        let read = segments.map(|(segment, kept)| self.read_segment(segment, kept.clone(), &answers));
        futures_util::future::join_all(read).await;
    }

    async fn read_segment(&self, segment: usize, kept: Segment, answers: &mpsc::Sender<Result<Answer, SourceError>>) {
        let mut after = match kept {
            Segment::After(key) => Some(key),
            Segment::Unread | Segment::Done => None,
        };
        loop {
            let Some(answer) = sent(self.answer(segment, after).await, answers).await else { return };
            after = answer.next.clone();
            // Nobody takes answers any more after an error or an interrupt.
            if answers.send(Ok(answer)).await.is_err() || after.is_none() {
                return;
            }
        }
    }

    async fn answer(&self, segment: usize, after: Option<Item>) -> Result<Answer, SourceError> {
        let total = self.kept.segments.len();
        // One segment is sent as an ordinary scan: the embedded engine sorts the whole table for each answer of a
        // parallel scan.
        let segments = i32::try_from(segment).ok().zip(i32::try_from(total).ok()).filter(|_| total > 1);
        let after: Option<HashMap<String, AttributeValue>> = after.map(Into::into);
        let call = self.client.scan().table_name(&self.table).limit(ITEMS_MAX).set_exclusive_start_key(after);
        let call =
            call.set_segment(segments.map(|(segment, _)| segment)).set_total_segments(segments.map(|(_, total)| total));
        let scan = || async { call.clone().send().await.map_err(store_error) };
        let answer = retried("a scan", scan).await.map_err(unreadable)?;
        let items = answer.items.unwrap_or_default().into_iter().map(Item::from).collect();
        let next = answer.last_evaluated_key.filter(|key| !key.is_empty()).map(Item::from);
        Ok(Answer { segment, items, next, is_again: false })
    }

    /// The items that an earlier import refused, as they are now.
    async fn refused(&self) -> Result<Answer, SourceError> {
        let mut items = Vec::new();
        for key in &self.kept.refused {
            let key: Item = serde_json::from_str(key).map_err(|error| SourceError::Scan(error.to_string()))?;
            let call = self.client.get_item().table_name(&self.table).set_key(Some(key.into()));
            let read = || async { call.clone().send().await.map_err(store_error) };
            items.extend(retried("an item", read).await.map_err(unreadable)?.item.map(Item::from));
        }
        Ok(Answer { segment: 0, items, next: None, is_again: true })
    }
}

/// Sends an error, and returns anything else.
async fn sent(
    read: Result<Answer, SourceError>,
    answers: &mpsc::Sender<Result<Answer, SourceError>>,
) -> Option<Answer> {
    match read {
        Ok(answer) => Some(answer),
        Err(error) => {
            // Fails when nobody takes answers any more.
            answers.send(Err(error)).await.ok();
            None
        }
    }
}

fn unreadable(error: StoreError) -> SourceError {
    SourceError::Scan(error.to_string())
}

/// The key of an item as JSON, such as `{"pk":{"S":"1"}}`.
fn key_of(item: &Item, keys: &[String]) -> String {
    let key = keys.iter().filter_map(|name| Some((name.clone(), item.get(name)?.clone())));
    serde_json::to_string(&Item::from(key.collect::<HashMap<_, _>>())).unwrap_or_default()
}
