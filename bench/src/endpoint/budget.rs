//! The budget of a run: read and write units that its calls never exceed.
//!
//! The service says only in its answer what a call consumed. So every call has an upper bound, from its request. The
//! budget is part of the SDK's client, so it sees every attempt. An attempt is sent only if its bound fits beside all that
//! was consumed and the bounds of all calls under way. Then it is charged with what the answer reports. An answer without
//! a report, or a lost one, is charged with the bound.
//!
//! [`table::capacity::Meter`] does not serve here: it counts only after a call, and only the calls of [`table::Table`].

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::anyhow;
use aws_sdk_dynamodb::{
    config::{
        ConfigBag, Intercept, RuntimeComponents,
        interceptors::{
            BeforeSerializationInterceptorContextMut, BeforeTransmitInterceptorContextRef,
            FinalizerInterceptorContextRef,
        },
    },
    error::BoxError,
    operation::{
        batch_write_item::BatchWriteItemInput, put_item::PutItemInput, query::QueryInput,
        transact_write_items::TransactWriteItemsInput,
    },
    types::{AttributeValue, Put, ReturnConsumedCapacity},
};
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use serde::Deserialize;
use table::{Consumed, capacity::Units};
use tokio::sync::watch;

use super::bounds::Bounds;

/// Clones share one budget.
#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: Units,
    /// By the name of the table.
    bounds: BTreeMap<String, Bounds>,
    state: Mutex<State>,
    /// Why the run has to end.
    exhausted: watch::Sender<Option<String>>,
}

#[derive(Debug, Default)]
struct State {
    /// By the name of the table.
    consumed: BTreeMap<String, Units>,
    /// The bounds of the calls under way.
    under_way: Units,
}

/// A call's table and upper bound. Either its read units or its write units are 0.
#[derive(Debug, Clone)]
struct Bounded {
    table: String,
    units: Units,
}

/// The attempt was admitted and is not charged yet.
#[derive(Debug)]
struct Admitted;

impl Storable for Bounded {
    type Storer = StoreReplace<Self>;
}

impl Storable for Admitted {
    type Storer = StoreReplace<Self>;
}

impl Budget {
    pub(super) fn new(limit: Units, bounds: impl IntoIterator<Item = (String, Bounds)>) -> Self {
        let bounds = bounds.into_iter().collect();
        Self(Arc::new(Shared { limit, bounds, state: Mutex::default(), exhausted: watch::Sender::default() }))
    }

    /// Units consumed so far, by the name of the table.
    pub(super) fn consumed(&self) -> BTreeMap<String, Units> {
        self.locked().consumed.clone()
    }

    /// Waits until a call does not fit into the budget. Returns the error that ends the run.
    pub(super) async fn exhausted(&self) -> anyhow::Error {
        let mut exhausted = self.0.exhausted.subscribe();
        // `self` owns the sender, so waiting cannot fail.
        let why = exhausted.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        anyhow!(why.unwrap_or_default())
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, why: &str) {
        self.0.exhausted.send_if_modified(|exhausted| {
            let is_first = exhausted.is_none();
            exhausted.get_or_insert_with(|| why.to_owned());
            is_first
        });
    }

    fn admit(&self, Bounded { units, .. }: &Bounded) -> Result<(), BoxError> {
        let limit = self.0.limit;
        let mut state = self.locked();
        let used = state.consumed.values().copied().fold(state.under_way, plus);
        let then = plus(used, *units);
        if then.read <= limit.read && then.write <= limit.write {
            state.under_way = plus(state.under_way, *units);
            return Ok(());
        }
        drop(state);
        let why = format!(
            "the budget is used up: {} of {} read units and {} of {} write units are consumed or reserved, and the next \
             call may take {} and {}",
            used.read, limit.read, used.write, limit.write, units.read, units.write
        );
        self.end(&why);
        Err(why.into())
    }

    /// Charges an admitted attempt. `reported` are the units of its answer.
    fn charge(&self, Bounded { table, units }: &Bounded, reported: Option<f64>) {
        let is_read = units.read > 0.0;
        let charged = match reported {
            Some(read) if is_read => Units { read, write: 0.0 },
            Some(write) => Units { read: 0.0, write },
            None => *units,
        };
        let mut state = self.locked();
        state.under_way = plus(state.under_way, Units { read: -units.read, write: -units.write });
        let consumed = state.consumed.entry(table.clone()).or_default();
        *consumed = plus(*consumed, charged);
        drop(state);
        if charged.read > units.read || charged.write > units.write {
            self.end(&format!("a call on {table} consumed {charged:?}, more than its bound {units:?}"));
        }
    }

    fn bounds_of(&self, table: &str) -> Result<&Bounds, BoxError> {
        Ok(self.0.bounds.get(table).ok_or_else(|| format!("the budget does not know the table {table}"))?)
    }

    fn write<'put>(
        &self,
        table: &str,
        puts: impl Iterator<Item = Option<&'put HashMap<String, AttributeValue>>>,
        bound: fn(&Bounds, &serde_dynamo::Item) -> f64,
    ) -> Result<Bounded, BoxError> {
        let (bounds, mut write) = (self.bounds_of(table)?, 0.0);
        for item in puts {
            write += bound(bounds, &item.ok_or("only puts have a bound")?.clone().into());
        }
        Ok(Bounded { table: table.to_owned(), units: Units { read: 0.0, write } })
    }

    /// The bound of a call, which gets to report what it consumes. A call of another kind has none, and is refused.
    fn bounded(&self, context: &mut BeforeSerializationInterceptorContextMut<'_>) -> Result<Bounded, BoxError> {
        let input = context.input_mut();
        if let Some(query) = input.downcast_mut::<QueryInput>() {
            query.return_consumed_capacity.get_or_insert(ReturnConsumedCapacity::Total);
            let table = query.table_name.clone().unwrap_or_default();
            let limit = query.limit.and_then(|limit| usize::try_from(limit).ok());
            let units = self.bounds_of(&table)?.query(limit.ok_or("a query without a limit has no bound")?);
            let read = if query.consistent_read == Some(true) { 2.0 * units } else { units };
            return Ok(Bounded { table, units: Units { read, write: 0.0 } });
        }
        if let Some(put) = input.downcast_mut::<PutItemInput>() {
            put.return_consumed_capacity.get_or_insert(ReturnConsumedCapacity::Total);
            let table = put.table_name.clone().unwrap_or_default();
            return self.write(&table, [put.item.as_ref()].into_iter(), Bounds::put);
        }
        if let Some(batch) = input.downcast_mut::<BatchWriteItemInput>() {
            batch.return_consumed_capacity.get_or_insert(ReturnConsumedCapacity::Total);
            let tables: Vec<_> = batch.request_items.iter().flatten().collect();
            let [(table, requests)] = tables.as_slice() else { return Err("a batch of several tables".into()) };
            let puts = requests.iter().map(|request| request.put_request.as_ref().map(|put| &put.item));
            return self.write(table, puts, Bounds::put);
        }
        if let Some(transaction) = input.downcast_mut::<TransactWriteItemsInput>() {
            transaction.return_consumed_capacity.get_or_insert(ReturnConsumedCapacity::Total);
            let puts: Vec<Option<&Put>> =
                transaction.transact_items.iter().flatten().map(|action| action.put.as_ref()).collect();
            let table = puts.iter().flatten().map(|put| put.table_name.as_str()).next().unwrap_or_default();
            return self.write(table, puts.iter().map(|put| put.map(|put| &put.item)), Bounds::put_in_transaction);
        }
        Err("a call of this kind has no bound".into())
    }
}

impl Intercept for Budget {
    fn name(&self) -> &'static str {
        "Budget"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let bounded = self.bounded(context).inspect_err(|error| self.end(&error.to_string()))?;
        config.interceptor_state().store_put(bounded);
        Ok(())
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.admit(config.load::<Bounded>().ok_or("the call has no bound")?)?;
        config.interceptor_state().store_put(Admitted);
        Ok(())
    }

    /// Runs after each attempt, also after one that was not admitted or that timed out.
    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let (Some(bounded), Some(Admitted)) = (config.load::<Bounded>(), config.load::<Admitted>()) {
            let body = context.response().and_then(|response| response.body().bytes());
            self.charge(bounded, body.and_then(reported));
        }
        config.interceptor_state().unset::<Admitted>();
        Ok(())
    }
}

/// The part of an answer that says what the call consumed, in one table or in several.
#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "ConsumedCapacity")]
    consumed: Reported,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Reported {
    One(Consumed),
    Several(Vec<Consumed>),
}

/// The units that an answer reports; `None` without a report.
fn reported(body: &[u8]) -> Option<f64> {
    match serde_json::from_slice::<Answer>(body).ok()?.consumed {
        Reported::One(consumed) => Some(consumed.capacity_units),
        Reported::Several(consumed) if consumed.is_empty() => None,
        Reported::Several(consumed) => Some(consumed.iter().map(|consumed| consumed.capacity_units).sum()),
    }
}

fn plus(one: Units, other: Units) -> Units {
    Units { read: one.read + other.read, write: one.write + other.write }
}
