//! The table itself, and what the repair job alone does with it: scans, the journal, guarded
//! writes, and stored state.
//!
//! **Invariant:** a guarded write never undoes a later change of its comment, however late it
//! arrives: the transaction that writes also checks the condition (`tests/simulator`).
//!
//! The job's state is in separate items, `STATE#<what>`, `<name>`. They have no `cd`, so no index
//! holds them. Their sort keys do not end like a primary item's, so they trigger no function.

use std::{error::Error, time::Duration};

use aws_sdk_dynamodb::{
    error::{ProvideErrorMetadata, SdkError},
    operation::put_item::builders::PutItemFluentBuilder,
    types::{
        AttributeValue, BillingMode, ConditionCheck, IndexStatus, StreamSpecification,
        StreamViewType, TableStatus, TimeToLiveSpecification, TransactWriteItem,
    },
};
use model::{
    CommentId, Revision, Timestamp,
    item::{PlacedComment, attribute, text},
    journal::{JOURNAL_SHARDS, JournalEntry, JournalItem, journal_pk},
    plan::{
        DuplicateWrite,
        reconcile::{Expected, Guard},
    },
    planted::{self, Bug},
    primaries::PrimariesKey,
};
use process::{Backoff, Remedy, Store, StoreError, now, random};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_dynamo::Item;
use tokio::time::Instant;

use crate::{
    Table,
    definition::{TableDescription, attribute_definitions, indexes, key_schema},
    duplicates::to_action,
    error::{refused, store_error},
    item::{ItemKey, SdkItem, from_sdk_item, item_key, primary_key, to_sdk_item},
    parts::{JournalRow, Part, Position},
    transaction::{Condition, DECIDING, Transacted},
};

/// Maximum number of calls to list states of one kind.
const LIST_CALLS_MAX: usize = 100;

const WATERMARK: &str = "watermark";
const LEASE: &str = "lease";
const DUPLICATES: &str = "duplicates";

/// A lease: which run works, and how long others must respect it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub holder: String,
    /// Host and process, so that a person can find the run.
    pub who: String,
    pub since: Timestamp,
    /// When the lease ends unless it is renewed, in milliseconds since 1970.
    pub until_ms: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Watermark {
    up_to: Timestamp,
}

fn state_pk(what: &str) -> String {
    format!("STATE#{what}")
}

fn state_key(what: &str, name: &str) -> SdkItem {
    item_key(state_pk(what), name.to_owned())
}

fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// The answer to a conditional write; `None` when its condition did not hold.
fn unless_condition_failed<T, E>(sent: Result<T, SdkError<E>>) -> Result<Option<T>, StoreError>
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    match sent {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.code() == Some("ConditionalCheckFailedException") => Ok(None),
        Err(error) => Err(store_error(error)),
    }
}

impl Table {
    /// Creates the table if it is missing, and waits until it is active. Only for the local stack
    /// and tests: deployments create it from the template.
    ///
    /// # Errors
    /// The store's, or when the table is not active within 30 s.
    pub async fn create_if_missing(&self) -> Result<TableDescription, StoreError> {
        let stream = StreamSpecification::builder()
            .stream_enabled(true)
            .stream_view_type(StreamViewType::NewAndOldImages)
            .build()
            .map_err(refused)?;
        let created = self
            .client
            .create_table()
            .table_name(self.name())
            .set_attribute_definitions(Some(attribute_definitions().map_err(refused)?))
            .set_key_schema(Some(
                key_schema(attribute::PK, attribute::SK).map_err(refused)?,
            ))
            .set_global_secondary_indexes(Some(indexes().map_err(refused)?))
            .billing_mode(BillingMode::PayPerRequest)
            .stream_specification(stream)
            .send()
            .await;
        match created {
            Ok(_) => {}
            Err(error) if error.code() == Some("ResourceInUseException") => {
                return self.wait_until_active().await;
            }
            Err(error) => return Err(store_error(error)),
        }
        let description = self.wait_until_active().await?;
        let time_to_live = TimeToLiveSpecification::builder()
            .enabled(true)
            .attribute_name(attribute::EXPIRES_AT)
            .build()
            .map_err(refused)?;
        self.client
            .update_time_to_live()
            .table_name(self.name())
            .time_to_live_specification(time_to_live)
            .send()
            .await
            .map_err(store_error)?;
        Ok(description)
    }

    async fn wait_until_active(&self) -> Result<TableDescription, StoreError> {
        let mut backoff = Backoff::until(Instant::now() + Duration::from_secs(30));
        loop {
            let description = self.describe().await?;
            if description.is_active {
                return Ok(description);
            }
            if !backoff.wait().await {
                return Err(StoreError::unavailable(
                    Store::Table,
                    "it is not active after 30 s",
                ));
            }
        }
    }

    pub async fn describe(&self) -> Result<TableDescription, StoreError> {
        let answer = self
            .client
            .describe_table()
            .table_name(self.name())
            .send()
            .await
            .map_err(store_error)?;
        let table = answer
            .table
            .ok_or_else(|| StoreError::unavailable(Store::Table, "it described no table"))?;
        let indexes = table.global_secondary_indexes();
        let is_active = table.table_status == Some(TableStatus::Active)
            && indexes
                .iter()
                .all(|index| index.index_status == Some(IndexStatus::Active));
        // DynamoDB Local gives no TableId (docs/engines.md). AWS always does (API reference,
        // TableDescription).
        let created = table
            .creation_date_time
            .as_ref()
            .and_then(|created| created.to_millis().ok());
        let id = table
            .table_id
            .or_else(|| Some(format!("{}-{}", self.name(), created?)));
        let id = id.ok_or_else(|| {
            StoreError::refused(
                Store::Table,
                "the table has neither id nor date of creation",
            )
        })?;
        let items = table
            .item_count
            .and_then(|count| u64::try_from(count).ok())
            .unwrap_or(0);
        Ok(TableDescription {
            id,
            stream_arn: table.latest_stream_arn,
            items,
            is_active,
        })
    }

    /// One answer of a scan of a segment, which reads at most `limit` items, eventually consistent.
    /// Callers look again before they conclude anything.
    pub async fn scan_segment(
        &self,
        from: Option<ItemKey>,
        segment: u32,
        segments: u32,
        limit: u32,
    ) -> Result<Part<Item, ItemKey>, StoreError> {
        let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        self.meter.read.admit().await;
        let scan = self
            .client
            .scan()
            .table_name(self.name())
            // One segment is sent as an ordinary scan: the embedded engine sorts the whole table
            // for each answer of a parallel scan.
            .set_segment((segments > 1).then(|| number(segment)))
            .set_total_segments((segments > 1).then(|| number(segments)))
            .limit(number(limit))
            .set_exclusive_start_key(from.map(|key| item_key(key.pk, key.sk)))
            .set_return_consumed_capacity(self.meter.report());
        let answer = scan.send().await.map_err(store_error)?;
        self.meter.read.charge(&answer.consumed_capacity);
        Ok(Part {
            rows: answer
                .items
                .unwrap_or_default()
                .into_iter()
                .map(Item::from)
                .collect(),
            next: answer.last_evaluated_key.as_ref().map(ItemKey::of),
        })
    }

    /// The first entries of one shard of the journal, of the hour that `from` is in, from `from`
    /// (inclusive) to `to` (exclusive), strongly consistent. There are `limit` of them, or more
    /// until some are later than `from`.
    pub async fn journal_part(
        &self,
        shard: u32,
        from: Timestamp,
        to: Timestamp,
        limit: i32,
    ) -> Result<Part<JournalRow>, StoreError> {
        let (mut rows, mut latest, mut position) = (Vec::new(), from, None);
        loop {
            self.meter.read.admit().await;
            // No entry's sort key equals a bare instant, so BETWEEN's inclusive end excludes the
            // instant `to`.
            let answer = self
                .query_of(journal_pk(from, shard % JOURNAL_SHARDS))
                .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
                .expression_attribute_values(":from", AttributeValue::S(from.to_string()))
                .expression_attribute_values(":to", AttributeValue::S(to.to_string()))
                .limit(limit)
                .set_exclusive_start_key(position)
                .set_return_consumed_capacity(self.meter.report())
                .send()
                .await
                .map_err(store_error)?;
            self.meter.read.charge(&answer.consumed_capacity);
            for item in answer.items.unwrap_or_default() {
                let ItemKey { sk, .. } = ItemKey::of(&item);
                // A foreign tool may have written an instant in a form that sorts elsewhere.
                let is_ours = |text: &str, at: &Timestamp| at.to_string() == text;
                let at = sk.split_once('#').and_then(|(text, _)| {
                    Timestamp::parse(text).ok().filter(|at| is_ours(text, at))
                });
                latest = at.filter(|at| *at > latest).unwrap_or(latest);
                let entry = match from_sdk_item::<JournalItem>(item) {
                    Ok(item) => JournalEntry::try_from(item),
                    Err(StoreError::Malformed(malformed)) => Err(malformed),
                    Err(error) => return Err(error),
                };
                rows.push(JournalRow { at: latest, entry });
            }
            position = answer.last_evaluated_key;
            if position.is_none() || latest > from {
                return Ok(Part {
                    rows,
                    next: position.map(Position),
                });
            }
        }
    }

    /// Writes duplicates of a comment in transactions, each of which checks every guard. No call
    /// starts after `deadline`.
    ///
    /// DynamoDB rejects a transaction whose items together are too large (4 MB). Such a transaction
    /// is halved until the rejected write is alone.
    ///
    /// # Errors
    /// The store's; some of the writes may have happened by then.
    pub async fn write_guarded(
        &self,
        id: &CommentId,
        guards: &[Guard],
        mut writes: Vec<DuplicateWrite>,
        deadline: Instant,
    ) -> Result<Transacted, StoreError> {
        let checks: Vec<TransactWriteItem> = guards
            .iter()
            .map(|guard| self.check(id, guard))
            .collect::<Result<_, _>>()?;
        let room = Self::TRANSACTION_MAX.saturating_sub(checks.len()).max(1);
        let mut parts: Vec<Vec<DuplicateWrite>> = Vec::new();
        while !writes.is_empty() {
            parts.push(writes.split_off(writes.len().saturating_sub(room)));
        }
        // A rejected write does not prevent the others.
        let mut rejected = None;
        while let Some(mut part) = parts.pop() {
            let writes = part
                .iter()
                .map(|write| to_action(write.clone(), self.name()));
            let actions = checks
                .iter()
                .cloned()
                .map(Ok)
                .chain(writes)
                .collect::<Result<_, _>>()?;
            match self.transact_until(deadline, actions).await {
                Ok(Transacted::Done) => {}
                // The writes that had already happened are right for the earlier state of the
                // comment.
                Ok(failed @ Transacted::ConditionsFailed(_)) => return Ok(failed),
                Err(error) if error.remedy() == Remedy::Quarantine && part.len() > 1 => {
                    parts.push(part.split_off(part.len() / 2));
                    parts.push(part);
                }
                Err(error) if error.remedy() == Remedy::Quarantine => rejected = Some(error),
                Err(error) => return Err(error),
            }
        }
        rejected.map_or(Ok(Transacted::Done), Err)
    }

    /// Takes over a comment whose primary item is only incomplete. It gives the item a new
    /// revision, and the keys of the index `primaries` if the comment is published. The condition
    /// is that the item is as it was read. The transaction has an entry of the journal. No call
    /// starts after `deadline`.
    ///
    /// # Errors
    /// The store's; the write may have happened by then.
    pub async fn take_over(
        &self,
        comment: &PlacedComment,
        item: &Item,
        deadline: Instant,
    ) -> Result<Transacted, StoreError> {
        let before =
            text(item, attribute::REVISION).and_then(|revision| Revision::parse(revision).ok());
        let revision = Revision::after(before, now(), random());
        let mut given = vec![(attribute::REVISION, revision.to_string())];
        if comment.status.is_published() {
            let PrimariesKey { shard, pcd } = comment.primaries_key();
            given.extend([(attribute::SHARD, shard), (attribute::PCD, pcd)]);
        }
        let given = given
            .into_iter()
            .map(|(name, text)| (name, Some(AttributeValue::S(text))));
        let actions = vec![
            self.update_as_read((&comment.id, &comment.placement.product), item, given)?,
            self.put_journal(&comment.id, revision, None, Some(comment.placement.clone()))?,
        ];
        // The journal relies on this bound: see `writer`.
        let deadline = deadline.min(Instant::now() + self.config.started_within);
        self.transact_until(deadline, actions).await
    }

    fn check(&self, id: &CommentId, guard: &Guard) -> Result<TransactWriteItem, StoreError> {
        let key = primary_key(id, &guard.product);
        let check = ConditionCheck::builder()
            .table_name(self.name())
            .set_key(Some(key));
        let check = match &guard.expected {
            Expected::Absent => check.condition_expression("attribute_not_exists(pk)"),
            Expected::Revision(_) if planted::has(Bug::NoGuard) => {
                check.condition_expression("attribute_exists(pk)")
            }
            Expected::Revision(revision) => check
                .condition_expression("#revision = :revision")
                .expression_attribute_names("#revision", attribute::REVISION)
                .expression_attribute_values(":revision", AttributeValue::S(revision.to_string())),
            Expected::Invalid(item) => {
                let Condition {
                    expression,
                    names,
                    values,
                } = Condition::as_read(item, DECIDING);
                let values = Some(values).filter(|values| !values.is_empty());
                check
                    .condition_expression(expression)
                    .set_expression_attribute_names(Some(names))
                    .set_expression_attribute_values(values)
            }
        };
        Ok(TransactWriteItem::builder()
            .condition_check(check.build().map_err(refused)?)
            .build())
    }

    /// Strongly consistent.
    pub async fn state<T: DeserializeOwned>(
        &self,
        what: &str,
        name: &str,
    ) -> Result<Option<T>, StoreError> {
        self.item(state_key(what, name))
            .await?
            .map(from_sdk_item)
            .transpose()
    }

    /// All states of a kind with their names, strongly consistent.
    pub async fn states<T: DeserializeOwned>(
        &self,
        what: &str,
    ) -> Result<Vec<(String, T)>, StoreError> {
        let too_many = || {
            StoreError::refused(
                Store::Table,
                format!("there are too many states of {what} to read"),
            )
        };
        let (items, _) = self
            .items(state_pk(what), LIST_CALLS_MAX)
            .await?
            .ok_or_else(too_many)?;
        items
            .into_iter()
            .map(|item| Ok((ItemKey::of(&item).sk, from_sdk_item(item)?)))
            .collect()
    }

    pub async fn put_state<T: Serialize>(
        &self,
        what: &str,
        name: &str,
        state: &T,
    ) -> Result<(), StoreError> {
        let put = self.put(what, name, state)?;
        self.meter.write.admit().await;
        let answer = put
            .set_return_consumed_capacity(self.meter.report())
            .send()
            .await
            .map_err(store_error)?;
        self.meter.write.charge(&answer.consumed_capacity);
        Ok(())
    }

    /// Replaces the state that was read (`None` when there was none). Returns `false` when another
    /// one was stored meanwhile.
    pub async fn replace_state<T: Serialize>(
        &self,
        what: &str,
        name: &str,
        before: Option<&T>,
        after: &T,
    ) -> Result<bool, StoreError> {
        let put = self.put(what, name, after)?;
        let put = match before.map(to_sdk_item).transpose()?.map(Item::from) {
            None => put.condition_expression("attribute_not_exists(pk)"),
            Some(before) => {
                let Condition {
                    expression,
                    names,
                    values,
                } = Condition::as_read(&before, before.keys().map(String::as_str));
                put.condition_expression(expression)
                    .set_expression_attribute_names(Some(names))
                    .set_expression_attribute_values(Some(values))
            }
        };
        let put = put.set_return_consumed_capacity(self.meter.report());
        self.meter.write.admit().await;
        let answer = unless_condition_failed(put.send().await)?;
        self.meter
            .write
            .charge(answer.iter().flat_map(|answer| &answer.consumed_capacity));
        Ok(answer.is_some())
    }

    fn put<T: Serialize>(
        &self,
        what: &str,
        name: &str,
        state: &T,
    ) -> Result<PutItemFluentBuilder, StoreError> {
        let mut item = to_sdk_item(state)?;
        item.extend(state_key(what, name));
        Ok(self
            .client
            .put_item()
            .table_name(self.name())
            .set_item(Some(item)))
    }

    /// The instant up to which the journal is reconciled into the duplicates; `None` before the
    /// first time.
    pub async fn watermark(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self
            .state::<Watermark>(WATERMARK, DUPLICATES)
            .await?
            .map(|watermark| watermark.up_to))
    }

    /// Advances the watermark; a later watermark stays.
    pub async fn advance_watermark(&self, to: Timestamp) -> Result<(), StoreError> {
        let put = self.put(WATERMARK, DUPLICATES, &Watermark { up_to: to })?;
        // The texts of instants sort by time.
        let put = put.condition_expression("attribute_not_exists(pk) OR up_to < :to");
        let put = put.expression_attribute_values(":to", AttributeValue::S(to.to_string()));
        unless_condition_failed(put.send().await).map(drop)
    }

    /// Moves a wrong watermark back, unless another run has moved it meanwhile.
    pub async fn set_watermark_back(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<(), StoreError> {
        let (from, to) = (Watermark { up_to: from }, Watermark { up_to: to });
        self.replace_state(WATERMARK, DUPLICATES, Some(&from), &to)
            .await
            .map(drop)
    }

    pub async fn delete_state(&self, what: &str, name: &str) -> Result<(), StoreError> {
        self.meter.write.admit().await;
        let delete = self
            .client
            .delete_item()
            .table_name(self.name())
            .set_key(Some(state_key(what, name)));
        let answer = delete
            .set_return_consumed_capacity(self.meter.report())
            .send()
            .await
            .map_err(store_error)?;
        self.meter.write.charge(&answer.consumed_capacity);
        Ok(())
    }

    /// Takes the lease of a scope if it is free or has expired. Returns `None` on success,
    /// otherwise the lease of the current holder.
    pub async fn take_lease(
        &self,
        scope: &str,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Option<Lease>, StoreError> {
        let put = self
            .put(LEASE, scope, lease)?
            // A holder may take its lease again: the SDK repeats an attempt whose answer was lost.
            .condition_expression("attribute_not_exists(pk) OR until_ms < :now OR holder = :holder")
            .expression_attribute_values(":now", number(now.epoch_ms()))
            .expression_attribute_values(":holder", AttributeValue::S(lease.holder.clone()));
        if unless_condition_failed(put.send().await)?.is_some() {
            return Ok(None);
        }
        // Some engines do not return the item that failed the condition.
        let holder = self.state(LEASE, scope).await?;
        let given_back =
            || StoreError::unavailable(Store::Table, "the lease has just been given back");
        holder.ok_or_else(given_back).map(Some)
    }

    /// Extends a lease; `false` when another run holds it by now.
    pub async fn renew_lease(
        &self,
        scope: &str,
        holder: &str,
        until_ms: i64,
    ) -> Result<bool, StoreError> {
        let update = self
            .client
            .update_item()
            .table_name(self.name())
            .set_key(Some(state_key(LEASE, scope)))
            .update_expression("SET until_ms = :until")
            .condition_expression("holder = :holder")
            .expression_attribute_values(":until", number(until_ms))
            .expression_attribute_values(":holder", AttributeValue::S(holder.to_owned()));
        Ok(unless_condition_failed(update.send().await)?.is_some())
    }

    /// Releases a lease; another run's lease stays.
    pub async fn release_lease(&self, scope: &str, holder: &str) -> Result<(), StoreError> {
        let delete = self
            .client
            .delete_item()
            .table_name(self.name())
            .set_key(Some(state_key(LEASE, scope)))
            .condition_expression("holder = :holder")
            .expression_attribute_values(":holder", AttributeValue::S(holder.to_owned()));
        unless_condition_failed(delete.send().await).map(drop)
    }

    /// All leases, including expired ones.
    pub async fn leases(&self) -> Result<Vec<(String, Lease)>, StoreError> {
        self.states(LEASE).await
    }
}
