//! Follows the stream of another table: each change there becomes a change of a comment here.
//!
//! - `plan`: what a change means.
//! - `position`: how far the stream was followed.
//!
//! A record holds the item before and after the change. Both are read like items of an import. A record may be applied
//! again: all later ones of its item follow, in their order. So both tables hold the same in the end, however often this
//! was killed ([ADR 73](../../../docs/adr)).

mod plan;
mod position;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    io,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, ensure};
use aws_sdk_dynamodbstreams::{
    Client,
    types::{AttributeValue as StreamValue, Record, StreamViewType},
};
use futures_util::{TryStreamExt, stream};
use model::Timestamp;
use process::{Store, StoreError, now};
use serde_dynamo::{AttributeValue, Item};
use table::{NewComment, Table, WriteError};
use thiserror::Error;
use tokio::{sync::watch, time::Instant};

use crate::{
    import::{Existing, ImportOptions, Importable, Outcome, Reading, retried},
    stream_reader::{Consumer, Pace, StreamError, StreamReader, last_of},
};
use plan::{Step, check_retention, steps};
use position::{Position, Shard};

/// How far the file may be behind with the instant until which the table is complete, in milliseconds.
const SAVE_EVERY_MS: i64 = 10_000;
/// Maximum number of look-ups of a comment to delete. Each further one follows a faster writer.
const LOOKUPS_MAX: usize = 4;
/// How many refused records are kept with their reasons; the rest is only counted.
const REASONS_KEPT: usize = 100;

/// Why following a stream ended.
#[derive(Debug, Error)]
pub enum FollowError {
    /// The file of the position cannot be read or written, or belongs to something else.
    #[error("{0}")]
    Position(#[source] io::Error),
    /// The file of rejected records cannot be written.
    #[error("the file of rejected records cannot be written: {0}; the same command goes on where this one stopped")]
    Rejects(#[source] io::Error),
    /// The table's error.
    #[error("{0}; the same command goes on where this one stopped")]
    Store(#[from] StoreError),
    /// The stream no longer has all records.
    #[error("{0}")]
    Lost(String),
}

/// What was done so far.
#[derive(Debug, Clone, Default)]
pub struct Followed {
    /// Changes that were read.
    pub records: u64,
    /// Comments that were created.
    pub created: u64,
    /// Comments that were changed.
    pub updated: u64,
    /// Comments that were deleted.
    pub deleted: u64,
    /// Changes that are not in the table.
    pub refused: u64,
    /// The first of them, with their reasons.
    pub reasons: Vec<String>,
    /// Every change before this instant is in the table.
    pub complete_until: Option<Timestamp>,
    /// The same by the clock that no one sets.
    caught_up_at: Option<Instant>,
}

/// The stream of another table.
pub struct Stream {
    client: Client,
    arn: String,
}

impl Stream {
    /// The stream of this ARN. Its records must hold the item before and after each change.
    ///
    /// # Errors
    /// There is no such stream, or its records lack images.
    pub async fn open(client: Client, arn: String) -> anyhow::Result<Self> {
        let answer = client.describe_stream().stream_arn(&arn).send().await;
        let answer = answer.with_context(|| format!("stream {arn} cannot be read"))?;
        let view = answer.stream_description.and_then(|stream| stream.stream_view_type);
        ensure!(
            view == Some(StreamViewType::NewAndOldImages),
            "stream {arn} lacks the images of items: make one of NEW_AND_OLD_IMAGES, and import the table after that"
        );
        Ok(Self { client, arn })
    }

    /// Its name in AWS.
    pub fn arn(&self) -> &str {
        &self.arn
    }
}

/// How a stream is followed.
pub struct FollowOptions<'options> {
    /// Where it is kept how far the stream was followed.
    pub position: &'options Path,
    /// When the import began that this goes on from. Needed only without a position.
    pub since: Option<Timestamp>,
    /// What decides about what is written. A position belongs to its choices.
    pub choices: &'options str,
    /// How records are written, with the file of rejected ones.
    pub import: ImportOptions,
}

/// A follower of a stream.
pub struct Follower {
    table: Table,
    reading: Reading,
    options: ImportOptions,
    position: Mutex<Position>,
    state: watch::Sender<Followed>,
    /// The first error that ends it.
    failed: watch::Sender<Option<FollowError>>,
}

impl Follower {
    /// A follower that writes to a table, from where an earlier one ended.
    ///
    /// # Errors
    /// The position cannot be used, or the stream no longer reaches back to it.
    pub fn new(
        table: Table,
        table_id: &str,
        stream: &Stream,
        reading: Reading,
        options: FollowOptions<'_>,
    ) -> Result<Self, FollowError> {
        let FollowOptions { position, since, choices, import } = options;
        let of = format!("{table_id} {} {choices}", stream.arn);
        let position = Position::open(position, of, since).map_err(FollowError::Position)?;
        check_retention(position.kept.complete_until, now()).map_err(FollowError::Lost)?;
        let options = ImportOptions { existing: Existing::Replace, ..import };
        let (position, state) = (Mutex::new(position), watch::Sender::default());
        Ok(Self { table, reading, options, position, state, failed: watch::Sender::default() })
    }

    /// What was done so far.
    pub fn state(&self) -> watch::Receiver<Followed> {
        self.state.subscribe()
    }

    /// Follows the stream until an error; with `until_caught_up`, until every change before this call is in the table.
    ///
    /// # Errors
    /// See [`FollowError`].
    pub async fn run(self, stream: Stream, until_caught_up: bool) -> Result<(), FollowError> {
        let began = Instant::now();
        let (mut state, mut failed) = (self.state(), self.failed.subscribe());
        let kept = self.locked().kept.shards.clone();
        let ended = kept.into_iter().filter(|(_, shard)| *shard == Shard::Ended).map(|(id, _)| id);
        let Stream { client, arn: stream_arn } = stream;
        let failures = self.failed.clone();
        let reader = StreamReader { client, stream_arn, pace: Pace::Service, consumer: self };
        let is_caught_up = |state: &Followed| until_caught_up && state.caught_up_at.is_some_and(|at| at >= began);
        tokio::select! {
            () = reader.run(ended) => {}
            // Its sender is in the reader, which does not end.
            _ = failed.wait_for(Option::is_some) => {}
            _ = state.wait_for(is_caught_up) => {}
        }
        failures.send_replace(None).map_or(Ok(()), Err)
    }

    /// Ends everything. The reader waits until it is dropped.
    async fn fail<T>(&self, error: FollowError) -> T {
        self.fail_with(error);
        std::future::pending().await
    }

    fn fail_with(&self, error: FollowError) {
        self.failed.send_if_modified(|failed| {
            let is_first = failed.is_none();
            failed.get_or_insert(error);
            is_first
        });
    }

    fn locked(&self) -> MutexGuard<'_, Position> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The steps of a record. A record with an image that cannot be read has none, and is refused.
    fn read(&self, record: Record) -> Result<Vec<Step>, FollowError> {
        let Some(change) = record.dynamodb else { return Ok(Vec::new()) };
        let key = Item::from(change.keys.unwrap_or_default());
        let image = |image: Option<HashMap<String, StreamValue>>| image.map(Item::from);
        let (old, new) = (image(change.old_image), image(change.new_image));
        let comment = |item: &Item| self.reading.comment(attributes(item));
        let written = match &new {
            None => Ok(None),
            Some(item) => comment(item),
        };
        match written {
            // What could not be read before is not there.
            Ok(written) => Ok(steps(old.as_ref().and_then(|old| comment(old).ok().flatten()), written)),
            Err(reason) => {
                let key = serde_json::to_string(&key).unwrap_or_default();
                let text = new.as_ref().map(|item| self.reading.line_of(item)).unwrap_or_default();
                self.refuse(format!("item {key}: {reason}"), &text)?;
                Ok(Vec::new())
            }
        }
    }

    fn refuse(&self, reason: String, text: &str) -> Result<(), FollowError> {
        let number = self.state.borrow().refused + 1;
        if let Some(rejects) = &self.options.rejects {
            rejects.write(number, &reason, text).and_then(|()| rejects.flush()).map_err(FollowError::Rejects)?;
        }
        self.state.send_modify(|state| {
            state.refused += 1;
            if state.reasons.len() < REASONS_KEPT {
                state.reasons.push(reason);
            }
        });
        Ok(())
    }

    /// Does the steps, those of one comment in their order.
    async fn apply(&self, steps: Vec<Step>) -> Result<(), FollowError> {
        let lanes = u64::from(self.options.workers.max(1));
        let mut by_lane: BTreeMap<u64, Vec<Step>> = BTreeMap::new();
        for step in steps {
            let hash = BuildHasherDefault::<DefaultHasher>::new().hash_one(step.id());
            by_lane.entry(hash % lanes).or_default().push(step);
        }
        let lanes = stream::iter(by_lane.into_values().map(Ok));
        lanes.try_for_each_concurrent(None, |steps| self.apply_in_order(steps)).await
    }

    async fn apply_in_order(&self, steps: Vec<Step>) -> Result<(), FollowError> {
        for step in steps {
            let outcome = retried(step.id(), || self.apply_one(&step)).await?;
            match (outcome, &step) {
                (Outcome::Refused(reason), _) => self.refuse(reason, "")?,
                (Outcome::Unchanged | Outcome::Differing, _) => {}
                (Outcome::Updated, Step::Delete(_)) => self.state.send_modify(|state| state.deleted += 1),
                (Outcome::Updated, Step::Put(_)) => self.state.send_modify(|state| state.updated += 1),
                (Outcome::Created, _) => self.state.send_modify(|state| state.created += 1),
            }
        }
        Ok(())
    }

    async fn apply_one(&self, step: &Step) -> Result<Outcome, StoreError> {
        match step {
            Step::Put(comment) => {
                let outcome = comment.import(&self.table, &self.options).await?;
                let is_refused = matches!(outcome, Outcome::Refused(_));
                if is_refused && self.is_hidden(comment).await? { Err(hidden(comment)) } else { Ok(outcome) }
            }
            Step::Delete(comment) => self.delete(comment).await,
        }
    }

    /// Deletes a comment if it is there. One of the same id, but of another product or time, is not what the item was.
    async fn delete(&self, comment: &NewComment) -> Result<Outcome, StoreError> {
        for _ in 0..LOOKUPS_MAX {
            let Some(present) = self.table.comment(&comment.id).await? else {
                return if self.is_hidden(comment).await? { Err(hidden(comment)) } else { Ok(Outcome::Unchanged) };
            };
            if (&present.product, present.created_at) != (&comment.product, comment.created_at) {
                return Ok(Outcome::Differing);
            }
            match self.table.delete_comment(&comment.id, Some(present.revision)).await {
                Ok(()) => return Ok(Outcome::Updated),
                Err(WriteError::Store(error)) => return Err(error),
                // Another writer was faster: look again.
                Err(_) => {}
            }
        }
        Ok(Outcome::Refused(format!("id: {} is being changed; delete it by hand", comment.id)))
    }

    /// Whether a comment is there, but duplicates that an earlier comment of its id has left in another product hide it
    /// from look-ups by id.
    async fn is_hidden(&self, comment: &NewComment) -> Result<bool, StoreError> {
        let is_there = self.table.primary_item_in(&comment.id, &comment.product).await?.is_some();
        Ok(is_there && self.table.comment(&comment.id).await?.is_none())
    }
}

fn hidden(comment: &NewComment) -> StoreError {
    let what =
        format!("duplicates in another product hide comment {} until stream-writer has removed them", comment.id);
    StoreError::unavailable(Store::Table, what)
}

impl Consumer for Follower {
    fn name(&self) -> &str {
        "follow"
    }

    fn position(&self, shard: &str) -> Option<String> {
        match self.locked().kept.shards.get(shard) {
            Some(Shard::After(record)) => Some(record.clone()),
            Some(Shard::Ended) | None => None,
        }
    }

    async fn deliver(&self, shard: &str, records: Vec<Record>) -> Result<(), StreamError> {
        let (last, count) = (last_of(&records), u64::try_from(records.len()).unwrap_or(u64::MAX));
        let read: Result<Vec<Vec<Step>>, FollowError> = records.into_iter().map(|record| self.read(record)).collect();
        let applied = match read {
            Ok(steps) => self.apply(steps.concat()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = applied {
            return self.fail(error).await;
        }
        self.state.send_modify(|state| state.records += count);
        let saved = {
            let mut position = self.locked();
            position.kept.shards.extend(last.map(|last| (shard.to_owned(), Shard::After(last))));
            position.save()
        };
        match saved {
            Ok(()) => Ok(()),
            Err(error) => self.fail(FollowError::Position(error)).await,
        }
    }

    async fn described(&self, shards: &BTreeSet<String>) {
        let gone = self.locked().kept.prune(shards);
        if let Some(shard) = gone {
            self.lost(&shard, StreamError::Gone).await;
        }
    }

    async fn lost(&self, shard: &str, error: StreamError) {
        let lost = format!(
            "shard {shard}: {error}. Changes are lost: import the table again with --update, and compare (docs/moving.md)"
        );
        self.fail(FollowError::Lost(lost)).await
    }

    fn ended(&self, shard: &str) {
        // The file gets it with the next position: to read an ended shard again changes nothing.
        self.locked().kept.shards.insert(shard.to_owned(), Shard::Ended);
    }

    fn caught_up(&self, at: Instant) {
        let age = i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX);
        let until = Timestamp::from_epoch_ms(now().epoch_ms().saturating_sub(age)).unwrap_or(Timestamp::MIN);
        let saved = {
            let mut position = self.locked();
            let is_due = until.epoch_ms() - position.kept.complete_until.epoch_ms() >= SAVE_EVERY_MS;
            if is_due {
                position.kept.complete_until = until;
                position.save()
            } else {
                Ok(())
            }
        };
        if let Err(error) = saved {
            self.fail_with(FollowError::Position(error));
        }
        self.state.send_modify(|state| (state.complete_until, state.caught_up_at) = (Some(until), Some(at)));
    }
}

fn attributes(item: &Item) -> HashMap<String, AttributeValue> {
    item.clone().into_inner()
}
