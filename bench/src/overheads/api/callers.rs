//! Callers that request pages: over HTTP, or with the bare SDK.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1::SendRequest,
    header,
};
use serde_json::Value;
use table::Table;
use tokio::task::JoinSet;

use crate::{
    http,
    listing::{Listing, PAGE_SIZE},
    measure::timed,
    stores::{PageReader, bare_query},
};

/// Callers of this process that share connections. 16 callers then use as many clients as the API has threads on two
/// cores.
const CALLERS_A_CLIENT: usize = 8;
const TRIES_MAX: usize = 5;

pub(crate) trait Caller: Send + 'static {
    /// Requests a page of the listing, counted from 1.
    fn ask(&mut self, page: u64) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Lets the callers request all pages, each caller the next page as soon as it has an answer. Returns the duration.
pub(crate) async fn ask_all<C: Caller>(callers: Vec<C>, pages: Vec<u64>) -> anyhow::Result<Duration> {
    let (pages, next) = (Arc::new(pages), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    let asked = async {
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
        Ok(())
    };
    Ok(timed(asked).await?.1)
}

/// Clones of a caller for several threads: each thread has separate connections.
pub(crate) fn several<C: Clone>(count: usize, of_thread: impl Fn() -> C) -> Vec<C> {
    let threads = (0..count.div_ceil(CALLERS_A_CLIENT)).map(|_| of_thread());
    threads.flat_map(|caller| vec![caller; CALLERS_A_CLIENT]).take(count).collect()
}

/// The format in which the API shows a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Json,
    Html,
}

pub(super) struct HttpCaller {
    connection: SendRequest<Empty<Bytes>>,
    host: String,
    listing: Arc<Listing>,
    show: Show,
}

impl HttpCaller {
    pub(super) async fn open(api: SocketAddr, listing: &Arc<Listing>, show: Show) -> anyhow::Result<Self> {
        Ok(Self { connection: http::connect(api).await?, host: api.to_string(), listing: listing.clone(), show })
    }

    /// On a busy machine a store may be slower than the API waits. Then the request is repeated.
    async fn get(&mut self, page: u64) -> anyhow::Result<Response<Incoming>> {
        let path = match self.show {
            Show::Json => self.listing.json_path(page),
            Show::Html => self.listing.html_path(page),
        };
        for _ in 0..TRIES_MAX {
            let request = Request::get(path.as_str()).header(header::HOST, &self.host).body(Empty::new())?;
            self.connection.ready().await?;
            let answer = self.connection.send_request(request).await?;
            match answer.status() {
                StatusCode::OK => return Ok(answer),
                // The connection accepts the next request only after the whole answer.
                StatusCode::SERVICE_UNAVAILABLE => drop(answer.into_body().collect().await?),
                status => bail!("{path} was answered {status}"),
            }
        }
        bail!("{path} was answered 503 {TRIES_MAX} times")
    }

    /// Refuses a page that shows other comments than expected.
    pub(super) async fn compare(&mut self, page: u64) -> anyhow::Result<()> {
        let body = self.get(page).await?.into_body().collect().await?.to_bytes();
        if self.show == Show::Json {
            let body: Value = serde_json::from_slice(&body)?;
            let comments = body.get("comments").and_then(Value::as_array).context("a page has comments")?;
            return self.listing.expect_page(page, comments.iter().filter_map(|comment| comment.get("id")?.as_str()));
        }
        let ids = std::str::from_utf8(&body)?.split("id=\"comment-").skip(1);
        self.listing.expect_page(page, ids.filter_map(|after| after.split('"').next()))
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
    pub(super) table: Table,
    pub(super) listing: Arc<Listing>,
}

impl Caller for SdkCaller {
    async fn ask(&mut self, page: u64) -> anyhow::Result<()> {
        let answer = bare_query(&self.table, &self.listing.key, self.listing.before(page))?.send().await?;
        ensure!(answer.items().len() == PAGE_SIZE, "page {page} is not full");
        Ok(())
    }
}

/// A caller that reads pages like the API, without HTTP.
#[derive(Clone)]
pub(crate) struct ReaderCaller {
    pub(crate) reader: PageReader,
    pub(crate) listing: Arc<Listing>,
}

impl Caller for ReaderCaller {
    async fn ask(&mut self, page: u64) -> anyhow::Result<()> {
        let shown = self.reader.page(&self.listing, page).await?.len();
        ensure!(shown == PAGE_SIZE, "page {page} shows {shown} comments");
        Ok(())
    }
}
