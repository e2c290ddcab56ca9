//! `recrawl`: what a crawler finds when it comes again after some posts.
//!
//! One product has all comments. The crawler follows the links to older
//! pages under several filters, and keeps the entity tag and the comments of each page. After the posts it asks for the
//! same addresses again, with the tags.

use std::{collections::BTreeMap, net::SocketAddr};

use anyhow::{Context, ensure};
use api::{ApiSettings, Application};
use futures_util::{StreamExt, TryStreamExt, stream};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, StatusCode, header};
use local_stack::stack::{Stack, StackSettings};
use model::{Comment, ProductId, Timestamp};
use table::NewComment;

use crate::{
    http,
    report::{Limit, Report, count},
    statistics::as_f64,
    workload::{Comments, FIRST_MS, SPAN_MS},
};

const TOKEN: &str = "bench";
const PRODUCT: &str = "recrawled";
const FILTERS: [&str; 6] = ["", "/en", "/de", "/~/5", "/~/1.2", "/en/4.5"];
const POSTS: u32 = 100;
const WRITERS: usize = 16;
const CRAWLERS: usize = 4;

/// Measures with this many comments.
pub(crate) async fn measure(report: &mut Report, comments: u32) -> anyhow::Result<()> {
    report.step(&format!("writing {} comments", count(comments)));
    let mut stack = Stack::start(StackSettings::ephemeral(TOKEN.parse().map_err(anyhow::Error::msg)?)).await?;
    stack.wait_until_index_ready().await?;
    let mut workload = Comments::new(11)?;
    post(&stack, workload.take(comments)?).await?;
    stack.settle().await;
    let address = serve(&stack)?;

    report.step("crawling");
    let kept = crawl(address).await?;
    let mut later = workload.take(POSTS)?;
    for (comment, ms) in later.iter_mut().zip(1..) {
        comment.created_at = Timestamp::from_epoch_ms(FIRST_MS + SPAN_MS + ms)?;
    }
    post(&stack, later).await?;
    stack.settle().await;

    report.step("crawling again");
    let stayed = Recrawl::of(address, &kept).await?;
    let about = format!("{POSTS} posts on {} comments, under {} filters", count(comments), FILTERS.len());
    report.add("recrawl", &about, &stayed.figures());
    report.ratio("stable_pages_changed", stayed.changed_max(), Limit::AtMost(1.0));
    report.ratio("recrawl_not_modified", stayed.not_modified_share(), Limit::AtLeast(0.95));
    stack.stop().await;
    Ok(())
}

/// Serves the stack's comments until the program ends.
fn serve(stack: &Stack) -> anyhow::Result<SocketAddr> {
    let settings = ApiSettings::default();
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let served = Application::with_stores(any_port, stack.table().clone(), stack.index().clone(), settings)?;
    let address = served.address();
    tokio::spawn(served.run_until(std::future::pending()));
    Ok(address)
}

/// Writes comments, all on one product.
async fn post(stack: &Stack, comments: Vec<Comment>) -> anyhow::Result<()> {
    let product = ProductId::parse(PRODUCT)?;
    let writes = stream::iter(comments).map(|comment| {
        let Comment { id, language, rating, created_at, text, site, .. } = comment;
        let new = NewComment { id, product: product.clone(), language, rating, created_at, status: None, text, site };
        async move { stack.table().create_comment(new, None).await.map(drop) }
    });
    Ok(writes.buffer_unordered(WRITERS).try_collect::<Vec<()>>().await.map(drop)?)
}

/// A page that the crawler has, by its filter and address.
type Kept = BTreeMap<(&'static str, String), Page>;

/// A page: its entity tag, and its text.
struct Page {
    tag: String,
    text: String,
}

impl Page {
    /// The page at an address; `None` if it still is the one with this tag.
    async fn get(address: SocketAddr, path: &str, known: Option<&str>) -> anyhow::Result<Option<Self>> {
        let mut request = Request::get(path).header(header::HOST, address.to_string());
        if let Some(tag) = known {
            request = request.header(header::IF_NONE_MATCH, tag);
        }
        let answer = http::connect(address).await?.send_request(request.body(Empty::new())?).await?;
        if answer.status() == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        ensure!(answer.status() == StatusCode::OK, "{path} was answered {}", answer.status());
        let tag = answer.headers().get(header::ETAG).context("an entity tag")?.to_str()?.to_owned();
        let text = String::from_utf8(answer.into_body().collect().await?.to_bytes().to_vec())?;
        Ok(Some(Self { tag, text }))
    }

    /// The ids of its comments.
    fn ids(&self) -> Vec<&str> {
        let ids = self.text.split("id=\"comment-").skip(1);
        ids.filter_map(|after| after.split('"').next()).collect()
    }

    /// The address of the next older page.
    fn next(&self) -> Option<String> {
        let (_, after) = self.text.split_once("<link rel=\"next\" href=\"")?;
        Some(after.split('"').next()?.to_owned())
    }
}

/// Every page that the links to older pages lead to, for each filter.
async fn crawl(address: SocketAddr) -> anyhow::Result<Kept> {
    let listings = stream::iter(FILTERS).map(async |filter| {
        let mut kept = Vec::new();
        let mut next = Some(format!("/product/{PRODUCT}/comments{filter}"));
        while let Some(path) = next {
            let page = Page::get(address, &path, None).await?.context("a page")?;
            next = page.next();
            kept.push(((filter, path), page));
        }
        anyhow::Ok(kept)
    });
    let listings: Vec<_> = listings.buffer_unordered(CRAWLERS).try_collect().await?;
    Ok(listings.into_iter().flatten().collect())
}

/// What is left of the pages of a crawl.
#[derive(Default)]
struct Recrawl {
    addresses: u64,
    /// The addresses with a number.
    numbered: u64,
    /// Those of them that were answered 304.
    not_modified: u64,
    /// How many addresses of each filter show other comments now.
    changed: BTreeMap<&'static str, u64>,
}

impl Recrawl {
    async fn of(address: SocketAddr, kept: &Kept) -> anyhow::Result<Self> {
        let answers = stream::iter(kept).map(async |((filter, path), page)| {
            let now = Page::get(address, path, Some(&page.tag)).await?;
            let is_changed = now.as_ref().is_some_and(|now| now.ids() != page.ids());
            anyhow::Ok((*filter, path.contains("page="), now.is_none(), is_changed))
        });
        let answers: Vec<_> = answers.buffer_unordered(CRAWLERS).try_collect().await?;
        let mut recrawl = Self::default();
        for (filter, is_numbered, is_known, is_changed) in answers {
            recrawl.addresses += 1;
            recrawl.numbered += u64::from(is_numbered);
            recrawl.not_modified += u64::from(is_numbered && is_known);
            *recrawl.changed.entry(filter).or_default() += u64::from(is_changed);
        }
        ensure!(recrawl.numbered > 0, "too few comments for pages with numbers");
        Ok(recrawl)
    }

    /// The most addresses of a filter that show other comments.
    fn changed_max(&self) -> f64 {
        as_f64(self.changed.values().copied().max().unwrap_or(0))
    }

    /// The share of pages with a number that were answered 304.
    fn not_modified_share(&self) -> f64 {
        as_f64(self.not_modified) / as_f64(self.numbered)
    }

    fn figures(&self) -> [(&'static str, f64, &'static str); 4] {
        [
            ("addresses", as_f64(self.addresses), ""),
            ("that show other comments", as_f64(self.changed.values().sum()), ""),
            ("with a number", as_f64(self.numbered), ""),
            ("with a number, answered 304", as_f64(self.not_modified), ""),
        ]
    }
}
