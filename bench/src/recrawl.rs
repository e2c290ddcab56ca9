//! `recrawl`: what a crawler finds when it comes again after some posts.
//!
//! One product has all comments. The crawler follows the links to older pages under several filters, and keeps the entity
//! tag and the comments of each page. After the posts it asks for the same addresses again, with the tags.

use std::{collections::BTreeMap, net::SocketAddr};

use anyhow::{Context, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, StatusCode, header};
use local_stack::stack::{Stack, StackSettings};
use model::{Comment, ProductId, Timestamp};

use crate::{
    http::{self, address_in},
    measure::as_f64,
    report::{Report, count},
    workload::{Comments, FIRST_MS, SPAN_MS, new_comment},
};

const TOKEN: &str = "the-token-of-bench";
const PRODUCT: &str = "recrawled";
const FILTERS: [&str; 6] = ["", "/en", "/de", "/~/5", "/~/1.2", "/en/4.5"];
const POSTS: u32 = 100;

pub(crate) async fn measure(report: &mut Report, comments: u32) -> anyhow::Result<()> {
    report.step(&format!("writing {} comments", count(comments)));
    let mut stack = Stack::start(StackSettings::ephemeral(TOKEN.parse().map_err(anyhow::Error::msg)?)).await?;
    stack.wait_until_index_ready().await?;
    let api = address_in(&stack.api_url().context("the stack has no API")?)?;
    let mut workload = Comments::new(11)?;
    post(&mut stack, workload.take(comments)?).await?;
    report.step("crawling");
    let kept = crawl(api).await?;
    let mut later = workload.take(POSTS)?;
    for (comment, ms) in later.iter_mut().zip(1..) {
        comment.created_at = Timestamp::from_epoch_ms(FIRST_MS + SPAN_MS + ms)?;
    }
    post(&mut stack, later).await?;

    report.step("crawling again");
    let (mut changed, mut numbered, mut not_modified) = (BTreeMap::<&str, u64>::new(), 0, 0);
    for ((filter, path), page) in &kept {
        let now = Page::get(api, path, Some(&page.tag)).await?;
        let is_numbered = path.contains("page=");
        numbered += u64::from(is_numbered);
        not_modified += u64::from(is_numbered && now.is_none());
        *changed.entry(filter).or_default() += u64::from(now.is_some_and(|now| now.ids() != page.ids()));
    }
    stack.stop().await;
    ensure!(numbered > 0, "too few comments for pages with numbers");
    let about = format!("after {POSTS} posts on {} comments, under {} filters", count(comments), FILTERS.len());
    report.noted("addresses", as_f64(kept.len() as u64), "", &about);
    let most = changed.into_values().max().unwrap_or(0);
    report.noted("stable_pages_changed", as_f64(most), "addresses", "of a filter, with other comments; at most 1");
    let share = as_f64(not_modified) / as_f64(numbered);
    report.noted("recrawl_not_modified", share, "", "share of pages with a number, answered 304; at least 0.95");
    Ok(())
}

/// Writes comments, all on one product, and waits until they are visible.
async fn post(stack: &mut Stack, comments: Vec<Comment>) -> anyhow::Result<()> {
    let product = ProductId::parse(PRODUCT)?;
    for comment in comments {
        let comment = Comment { product: product.clone(), ..comment };
        stack.table().create_comment(new_comment(comment), None).await?;
    }
    stack.settle().await;
    Ok(())
}

type Kept = BTreeMap<(&'static str, String), Page>;

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

    fn ids(&self) -> Vec<&str> {
        let ids = self.text.split("id=\"comment-").skip(1);
        ids.filter_map(|after| after.split('"').next()).collect()
    }

    fn next(&self) -> Option<String> {
        let (_, after) = self.text.split_once("<link rel=\"next\" href=\"")?;
        Some(after.split('"').next()?.to_owned())
    }
}

/// Every page that the links to older pages lead to, for each filter.
async fn crawl(address: SocketAddr) -> anyhow::Result<Kept> {
    let mut kept = Kept::new();
    for filter in FILTERS {
        let mut next = Some(format!("/product/{PRODUCT}/comments{filter}"));
        while let Some(path) = next {
            let page = Page::get(address, &path, None).await?.context("a page")?;
            next = page.next();
            kept.insert((filter, path), page);
        }
    }
    Ok(kept)
}
