//! The JSON API at the public URL, as any client uses it.

use std::time::Duration;

use anyhow::{Context, bail};
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, StatusCode, Uri, body::Bytes, header};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use model::{Filter, ProductId, Rating};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::{crypto::ring, pki_types::ServerName};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    config::ApiArgs,
    listing::{Posted, Shown},
};

/// The longest that one request may take. The API itself answers within 15 seconds.
const REQUEST_WITHIN: Duration = Duration::from_secs(20);

/// The most comments on a page of the API.
const PAGE_SIZE: u64 = 100;

/// Maximum number of pages that one listing is read to: those of 100,000 comments.
const PAGES_MAX: u64 = 1_000;

#[derive(Debug, Deserialize)]
struct Page {
    comments: Vec<Posted>,
    /// Absent while the page index is unavailable, and in the list of an author.
    #[serde(default)]
    total_pages: Option<u64>,
}

/// The totals of a product, which are those of the page index alone.
#[derive(Debug, Deserialize)]
struct Totals {
    by_rating: Vec<RatingTotal>,
}

#[derive(Debug, Deserialize)]
struct RatingTotal {
    rating: u64,
    total: u64,
}

/// A client with a token.
#[derive(Debug, Clone)]
pub struct Client {
    http: HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// Where requests go: scheme, host, port, and the path of the site.
    base: String,
    /// The host of the public URL.
    host: String,
    authorization: String,
}

impl Client {
    /// A client of this API; nothing is sent yet.
    ///
    /// # Errors
    /// The URL is none, or this machine has no certificates of authorities.
    pub fn new(api: &ApiArgs) -> anyhow::Result<Self> {
        let url: Uri = api.public_url.parse().with_context(|| format!("the public URL {:?}", api.public_url))?;
        let (Some(scheme), Some(authority)) = (url.scheme_str(), url.authority()) else {
            bail!("the public URL {:?} has no scheme or no host", api.public_url);
        };
        // The certificate must be that of the public URL, wherever the connection leads.
        let name = ServerName::try_from(authority.host().to_owned())?;
        let tls = HttpsConnectorBuilder::new().with_provider_and_native_roots(ring::default_provider())?;
        let tls = tls.https_or_http().with_server_name_resolver(FixedServerNameResolver::new(name)).enable_http1();
        let path = url.path().trim_end_matches('/');
        Ok(Self {
            http: HttpClient::builder(TokioExecutor::new()).build(tls.build()),
            base: format!("{scheme}://{}{path}/api/v1", api.connect.as_deref().unwrap_or(authority.as_str())),
            host: authority.to_string(),
            authorization: format!("Bearer {}", api.token),
        })
    }

    /// Posts a comment for readers to see. A second call with the same key answers the same comment. Where new comments
    /// are pending, it publishes it.
    pub(crate) async fn post(&self, product: &ProductId, key: &str, comment: &Value) -> anyhow::Result<Posted> {
        let target = format!("/products/{}/comments", encoded(product.as_str()));
        let (status, answer) = self.exchange(Method::POST, &target, Some(comment), Some(key)).await?;
        let posted: Posted = parsed(status, &Method::POST, &target, &answer)?;
        if posted.status.is_some() {
            let target = format!("/comments/{}", posted.id);
            let published = self.json::<Value>(Method::PATCH, &target, Some(&json!({"status": "published"}))).await;
            published.context("new comments are pending, and the token cannot publish one")?;
        }
        Ok(posted)
    }

    /// Deletes a comment, which may be deleted already.
    pub(crate) async fn delete(&self, id: &str) -> anyhow::Result<()> {
        let target = format!("/comments/{id}");
        let (status, body) = self.exchange(Method::DELETE, &target, None, None).await?;
        match status {
            StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => Ok(()),
            _ => bail!("DELETE {target}: {status} {}", text(&body)),
        }
    }

    /// The comments of an author on a product, of any status: at most a page of them.
    pub(crate) async fn of_author(&self, author: &str, product: &ProductId) -> anyhow::Result<Vec<Posted>> {
        let mut page: Page = self.json(Method::GET, &format!("/authors/{}/comments", encoded(author)), None).await?;
        page.comments.retain(|comment| comment.product == product.as_str());
        Ok(page.comments)
    }

    /// What readers see under a filter, read to its end by page numbers, and how many comments have ranks there. The total
    /// of a page does not say that: it is at least the number of comments that the page shows.
    pub(crate) async fn shown(&self, product: &ProductId, filter: &Filter) -> anyhow::Result<Shown> {
        let ids = self.ids(product, filter).await?;
        let language = filter.language().map(|language| format!("?language={language}")).unwrap_or_default();
        let target = format!("/products/{}/stats{language}", encoded(product.as_str()));
        let (status, body) = self.exchange(Method::GET, &target, None, None).await?;
        // A site may say so of a product that has no comment.
        if status == StatusCode::NOT_FOUND {
            return Ok(Shown { ids, total: 0 });
        }
        let totals: Totals = parsed(status, &Method::GET, &target, &body)?;
        let matches = |rating| filter.ratings().is_none_or(|set| Rating::new(rating).is_ok_and(|of| set.contains(of)));
        let matching = totals.by_rating.iter().filter(|of| matches(of.rating));
        Ok(Shown { ids, total: matching.map(|of| of.total).sum() })
    }

    async fn ids(&self, product: &ProductId, filter: &Filter) -> anyhow::Result<Vec<String>> {
        let mut ids = Vec::new();
        let mut last = 1;
        let mut number = 1;
        while number <= last && number <= PAGES_MAX {
            let target = listing(product, filter, number);
            let (status, body) = self.exchange(Method::GET, &target, None, None).await?;
            // A site may say so of a product that has no comment.
            if status == StatusCode::NOT_FOUND && number == 1 {
                return Ok(ids);
            }
            let page: Page = parsed(status, &Method::GET, &target, &body)?;
            let pages = page.total_pages.with_context(|| format!("{target}: the page index is unavailable"))?;
            ids.extend(page.comments.into_iter().map(|comment| comment.id));
            (last, number) = (pages, number + 1);
        }
        Ok(ids)
    }

    async fn json<T: DeserializeOwned>(&self, method: Method, target: &str, body: Option<&Value>) -> anyhow::Result<T> {
        let (status, answer) = self.exchange(method.clone(), target, body, None).await?;
        parsed(status, &method, target, &answer)
    }

    async fn exchange(
        &self,
        method: Method,
        target: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let mut request = Request::builder()
            .method(&method)
            .uri(format!("{}{target}", self.base))
            .header(header::HOST, &self.host)
            .header(header::AUTHORIZATION, &self.authorization)
            .header(header::USER_AGENT, concat!("pagemark-canary/", env!("CARGO_PKG_VERSION")))
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(Full::from(body.map(Value::to_string).unwrap_or_default()))?;
        let exchanged = tokio::time::timeout(REQUEST_WITHIN, async {
            let (head, body) = self.http.request(request).await?.into_parts();
            anyhow::Ok((head.status, body.collect().await?.to_bytes()))
        });
        let exchanged =
            exchanged.await.with_context(|| format!("{method} {target}: no answer in {REQUEST_WITHIN:?}"))?;
        exchanged.with_context(|| format!("{method} {}{target}", self.base))
    }
}

/// The path and query of a page.
fn listing(product: &ProductId, filter: &Filter, number: u64) -> String {
    let mut target = format!("/products/{}/comments?page={number}&page_size={PAGE_SIZE}", encoded(product.as_str()));
    if let Some(language) = filter.language() {
        target.push_str(&format!("&language={language}"));
    }
    for rating in filter.ratings().into_iter().flat_map(|ratings| ratings.iter().collect::<Vec<_>>()) {
        target.push_str(&format!("&rating={rating}"));
    }
    target
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn parsed<T: DeserializeOwned>(status: StatusCode, method: &Method, target: &str, body: &[u8]) -> anyhow::Result<T> {
    if !status.is_success() {
        bail!("{method} {target}: {status} {}", text(body));
    }
    serde_json::from_slice(body).with_context(|| format!("{method} {target}: {}", text(body)))
}

/// The beginning of an answer. Answers of these products hold no text of people.
fn text(body: &[u8]) -> String {
    const SHOWN_CHARS: usize = 300;
    String::from_utf8_lossy(body).chars().take(SHOWN_CHARS).collect()
}
