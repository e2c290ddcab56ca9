//! A table that answers calls in parallel, each after an assumed delay. It replays what the engine
//! answered.
//!
//! The engine answers one call at a time, so parallel queries wait for each other there. On
//! DynamoDB they do not. Here, the first call goes to the engine, and its answer is kept for all
//! calls with the same operation and JSON.

use std::{
    collections::HashMap,
    f64::consts::TAU,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, ensure};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    header::HOST,
};
use rand::RngExt;
use serde_json::Value;

use crate::http::{self, HttpServer};

/// DynamoDB answers within "single-digit milliseconds" (AWS: "What is Amazon DynamoDB?"). An
/// assumption.
const TABLE_MEDIAN: Duration = Duration::from_millis(4);
/// To Redis in the same zone and back. An assumption.
pub(crate) const REDIS_MEDIAN: Duration = Duration::from_micros(500);
/// The 99th percentile of varying delays, of the table and of Redis, as a multiple of the median.
/// An assumption.
const P99_OF_MEDIAN: f64 = 2.5;
/// The 99th percentile of the standard normal distribution.
const NORMAL_P99: f64 = 2.326_347_9;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delay {
    /// Every answer takes the median: the best case for parallel queries.
    Equal,
    /// Log-normal: a few answers take much longer, and the slowest of several parallel queries
    /// decides.
    Varying,
}

impl Delay {
    /// The delay of an answer.
    pub(crate) fn draw(self, median: Duration, rng: &mut impl RngExt) -> Duration {
        match self {
            Self::Equal => median,
            Self::Varying => {
                // A normal deviate by the method of Box and Muller. The logarithm's argument is
                // never zero.
                let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
                let deviate = radius * (TAU * rng.random::<f64>()).cos();
                let sigma = P99_OF_MEDIAN.ln() / NORMAL_P99;
                median.mul_f64((sigma * deviate).exp())
            }
        }
    }
}

/// A thread sleeps with a precision of some tens of microseconds, and an asynchronous timer only of
/// a millisecond.
pub(crate) async fn sleep_precisely(delay: Duration) -> anyhow::Result<()> {
    Ok(tokio::task::spawn_blocking(move || thread::sleep(delay)).await?)
}

pub(crate) struct RecordedTable {
    server: HttpServer,
    recording: Arc<Recording>,
}

impl RecordedTable {
    pub(crate) async fn before(engine: SocketAddr, delay: Delay) -> anyhow::Result<Self> {
        let recording = Arc::new(Recording {
            engine,
            delay,
            answers: Mutex::default(),
            waiting: AtomicUsize::new(0),
            most_waiting: AtomicUsize::new(0),
        });
        let answering = recording.clone();
        let server = HttpServer::start(move |request| {
            let recording = answering.clone();
            async move { recording.answer(request).await }
        })
        .await?;
        Ok(Self { server, recording })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    pub(crate) fn most_waiting(&self) -> usize {
        self.recording.most_waiting.load(Ordering::Relaxed)
    }
}

type RecordedCall = (Bytes, Value);

struct Recording {
    engine: SocketAddr,
    delay: Delay,
    answers: Mutex<HashMap<RecordedCall, Response<Bytes>>>,
    waiting: AtomicUsize,
    most_waiting: AtomicUsize,
}

impl Recording {
    async fn answer(&self, request: Request<Incoming>) -> anyhow::Result<Response<Full<Bytes>>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let operation = head
            .headers
            .get("x-amz-target")
            .context("a call without an operation")?;
        let call = (
            Bytes::copy_from_slice(operation.as_bytes()),
            serde_json::from_slice(&body)?,
        );
        let answer = match self.recorded(&call) {
            Some(answer) => answer,
            None => {
                self.record(call, Request::from_parts(head, Full::new(body)))
                    .await?
            }
        };
        let delay = self.delay.draw(TABLE_MEDIAN, &mut rand::rng());
        self.most_waiting.fetch_max(
            1 + self.waiting.fetch_add(1, Ordering::Relaxed),
            Ordering::Relaxed,
        );
        sleep_precisely(delay).await?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Ok(answer.map(Full::new))
    }

    fn recorded(&self, call: &RecordedCall) -> Option<Response<Bytes>> {
        self.answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(call)
            .cloned()
    }

    async fn record(
        &self,
        call: RecordedCall,
        mut request: Request<Full<Bytes>>,
    ) -> anyhow::Result<Response<Bytes>> {
        request
            .headers_mut()
            .insert(HOST, self.engine.to_string().parse()?);
        let (head, body) = http::connect(self.engine)
            .await?
            .send_request(request)
            .await?
            .into_parts();
        let answer = Response::from_parts(head, body.collect().await?.to_bytes());
        ensure!(
            answer.status().is_success(),
            "the engine answers {}: {:?}",
            answer.status(),
            answer.body()
        );
        self.answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(call, answer.clone());
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::{
        error::SdkError,
        operation::get_item::{GetItemError, GetItemOutput},
        types::AttributeValue,
    };
    use futures_util::future::join_all;
    use rand::{SeedableRng, rngs::StdRng};
    use table::Table;

    use super::*;
    use crate::{
        http::address_in,
        stores::{TableStore, connect, create_table},
    };

    #[test]
    fn varying_delays_have_the_stated_median_and_99th_percentile() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut drawn: Vec<Duration> = (0..100_000)
            .map(|_| Delay::Varying.draw(REDIS_MEDIAN, &mut rng))
            .collect();
        drawn.sort();
        let p99 = REDIS_MEDIAN.mul_f64(P99_OF_MEDIAN);
        for (drawn, expected) in [(drawn[50_000], REDIS_MEDIAN), (drawn[99_000], p99)] {
            assert!(
                (drawn.div_duration_f64(expected) - 1.0).abs() < 0.03,
                "{drawn:?} instead of {expected:?}"
            );
        }
    }

    fn key(name: &str) -> AttributeValue {
        AttributeValue::S(name.to_owned())
    }

    async fn get(table: &Table, partition: &str) -> Result<GetItemOutput, SdkError<GetItemError>> {
        table
            .client()
            .get_item()
            .table_name(table.name())
            .key("pk", key(partition))
            .key("sk", key("b"))
            .send()
            .await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_engine_answers_a_call_once_and_then_the_recording_answers_in_parallel() {
        let store = TableStore::start().await.unwrap();
        create_table(&store.table).await.unwrap();
        store
            .table
            .client()
            .put_item()
            .table_name(store.table.name())
            .item("pk", key("a"))
            .item("sk", key("b"))
            .send()
            .await
            .unwrap();
        let engine = address_in(&store.engine_url().unwrap()).unwrap();
        let recorded = RecordedTable::before(engine, Delay::Equal).await.unwrap();
        let table = connect(store.table.name(), Some(&recorded.url())).await;
        let first = get(&table, "a").await.unwrap().item;
        assert_eq!(
            first.as_ref().map(|item| item["pk"].clone()),
            Some(key("a"))
        );
        store.stop().await;
        assert_eq!(get(&table, "a").await.unwrap().item, first);
        for answer in join_all((0..32).map(|_| get(&table, "a"))).await {
            assert_eq!(answer.unwrap().item, first);
        }
        assert!(
            recorded.most_waiting() > 1,
            "parallel calls waited for each other"
        );
        assert!(
            get(&table, "another").await.is_err(),
            "a call that the engine never answered"
        );
    }
}
