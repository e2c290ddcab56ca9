//! Callers that request pages: over HTTP, or with the bare SDK.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use aws_sdk_dynamodb::{operation::query::QueryOutput, types::AttributeValue};
use http_body_util::{BodyExt, Empty};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1::SendRequest,
    header,
};
use model::{
    Order,
    item::{attribute, comment_id_of_pk},
};
use serde_json::Value;
use table::{PageQuery, Table};
use tokio::task::JoinSet;

use super::process::ApiProcess;
use crate::{
    filled_stores::{FilledStores, bare_query},
    http,
    listing::{Listing, PAGE_SIZE},
};

/// SDK callers that share connections. 16 callers then use as many clients as the API has threads on two cores.
const CALLERS_A_CLIENT: usize = 8;
const TRIES_MAX: usize = 5;

pub(crate) trait Caller: Send + 'static {
    /// Requests a page of the listing, counted from 1.
    fn ask(&mut self, page: u64) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Lets the callers request all pages, each caller the next page as soon as it has an answer. Returns the duration.
pub(crate) async fn ask_all<C: Caller>(callers: Vec<C>, pages: Vec<u64>) -> anyhow::Result<Duration> {
    let (pages, next) = (Arc::new(pages), Arc::new(AtomicUsize::new(0)));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for mut caller in callers {
        let (pages, next) = (pages.clone(), next.clone());
        tasks.spawn(async move {
            while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                caller.ask(*page).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(began.elapsed())
}

/// The format in which the API shows a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    Json,
    /// JSON, by the numbers of pages that are counted from the oldest comment.
    Stable,
    Html,
    /// HTML, compressed as crawlers request it.
    Packed,
}

pub(super) struct HttpCaller {
    connection: SendRequest<Empty<Bytes>>,
    host: String,
    listing: Arc<Listing>,
    show: Show,
    unavailable: Arc<AtomicU64>,
}

impl HttpCaller {
    pub(super) async fn open(api: &ApiProcess, listing: &Arc<Listing>, show: Show) -> anyhow::Result<Self> {
        let connection = http::connect(api.address()).await?;
        let (host, unavailable) = (api.address().to_string(), api.unavailable.clone());
        Ok(Self { connection, host, listing: listing.clone(), show, unavailable })
    }

    /// The answer with a page. On a busy machine a store may be slower than the API waits; then the request is
    /// repeated.
    async fn get(&mut self, page: u64) -> anyhow::Result<Response<Incoming>> {
        let path = match self.show {
            Show::Json => self.listing.json_path(page),
            Show::Stable => self.listing.stable_json_path(page),
            Show::Html | Show::Packed => self.listing.html_path(page),
        };
        let accepted = if self.show == Show::Packed { "gzip, deflate, br" } else { "identity" };
        for _ in 0..TRIES_MAX {
            let request = Request::get(path.as_str()).header(header::HOST, &self.host);
            let request = request.header(header::ACCEPT_ENCODING, accepted).body(Empty::new())?;
            self.connection.ready().await?;
            let answer = self.connection.send_request(request).await?;
            match answer.status() {
                StatusCode::OK => {
                    let is_packed = answer.headers().contains_key(header::CONTENT_ENCODING);
                    ensure!(is_packed == (self.show == Show::Packed), "{path} was answered {:?}", answer.headers());
                    return Ok(answer);
                }
                StatusCode::SERVICE_UNAVAILABLE => {
                    self.unavailable.fetch_add(1, Ordering::Relaxed);
                    // The connection accepts the next request only after the whole answer.
                    answer.into_body().collect().await?;
                }
                status => bail!("{path} was answered {status}"),
            }
        }
        bail!("{path} was answered 503 {TRIES_MAX} times")
    }

    async fn ids(&mut self, page: u64) -> anyhow::Result<Vec<String>> {
        let body = self.get(page).await?.into_body().collect().await?.to_bytes();
        match self.show {
            Show::Json | Show::Stable => {
                let body: Value = serde_json::from_slice(&body)?;
                let comments = body.get("comments").and_then(Value::as_array).context("a page has comments")?;
                let id = |comment: &Value| Some(comment.get("id")?.as_str()?.to_owned());
                comments.iter().map(|comment| id(comment).context("a comment has an id")).collect()
            }
            Show::Html | Show::Packed => {
                let body = std::str::from_utf8(&body)?;
                let ids = body.split("id=\"comment-").skip(1).filter_map(|after| after.split('"').next());
                Ok(ids.map(str::to_owned).collect())
            }
        }
    }
}

impl Caller for HttpCaller {
    async fn ask(&mut self, page: u64) -> anyhow::Result<()> {
        let mut body = self.get(page).await?.into_body();
        while let Some(frame) = body.frame().await {
            frame?;
        }
        Ok(())
    }
}

/// A caller that knows all start keys and queries the table itself.
#[derive(Clone)]
pub(super) struct SdkCaller {
    table: Table,
    listing: Arc<Listing>,
}

impl SdkCaller {
    /// Creates `count` callers. Every [`CALLERS_A_CLIENT`] of them share separate connections, like each of the API's
    /// threads.
    pub(super) fn several(stores: &FilledStores, listing: &Arc<Listing>, count: usize) -> Vec<Self> {
        let clients = (0..count.div_ceil(CALLERS_A_CLIENT)).map(|_| stores.table.with_own_connections());
        let callers = clients.flat_map(|table| vec![Self { table, listing: listing.clone() }; CALLERS_A_CLIENT]);
        callers.take(count).collect()
    }

    async fn query(&self, page: u64) -> anyhow::Result<QueryOutput> {
        let answer = bare_query(&self.table, &self.listing.key, self.listing.before(page))?.send().await?;
        ensure!(answer.items().len() == PAGE_SIZE, "page {page} is not full");
        Ok(answer)
    }
}

impl Caller for SdkCaller {
    async fn ask(&mut self, page: u64) -> anyhow::Result<()> {
        self.query(page).await.map(drop)
    }
}

/// Like [`SdkCaller`], but reads comments from the answer as the API does, instead of the SDK's maps of attributes.
#[derive(Clone)]
pub(super) struct ReaderCaller(pub(super) SdkCaller);

impl Caller for ReaderCaller {
    async fn ask(&mut self, page: u64) -> anyhow::Result<()> {
        let SdkCaller { table, listing } = &self.0;
        let (key, start) = (listing.key.clone(), listing.before(page).cloned());
        let query = PageQuery { key, order: Order::Newest, limit: u16::try_from(PAGE_SIZE)?, start };
        ensure!(table.page(&query).await?.comments.len() == PAGE_SIZE, "page {page} is not full");
        Ok(())
    }
}

/// Refuses a page whose comments differ from those of the query, or from the expected ones.
pub(super) async fn compare(
    http: &mut HttpCaller,
    sdk: &SdkCaller,
    listing: &Listing,
    page: u64,
) -> anyhow::Result<()> {
    let expected = listing.ids(page);
    let queried = sdk.query(page).await?;
    let id = |pk: &AttributeValue| comment_id_of_pk(pk.as_s().ok()?).map(|id| id.to_string());
    let queried: Vec<String> = queried.items().iter().filter_map(|item| item.get(attribute::PK).and_then(id)).collect();
    ensure!(queried == expected, "the query for page {page} finds {queried:?} instead of {expected:?}");
    let shown = http.ids(page).await?;
    ensure!(shown == expected, "{:?} of page {page} shows {shown:?} instead of {expected:?}", http.show);
    Ok(())
}
