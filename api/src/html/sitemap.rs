//! `/sitemap.xml`, `/sitemap/{partition}-{part}.xml` and `/robots.txt`: the list of pages for
//! crawlers.
//!
//! The part `lists.xml` has the start page and the list of products. Its entries have no date:
//! every comment may change them.
//!
//! **Invariant:** the pages of a sitemap come from a walk over a ready page index. Without one the
//! answer is 503, never an empty or shorter list (`without_stores_reading_is_503_and_never_404`).
//!
//! The `lastmod` of an entry is the creation time of the newest comment on that page, when the part
//! was read. It says when comments were added. An edit or a deletion does not move it. While the
//! times cannot be read, entries have none (`a_sitemap_that_was_read_outlives_the_page_index`).
//! Search engines refuse dates before 1970 or ahead, so there are none.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use model::{Filter, Timestamp};

use super::products;
use crate::{
    error::ApiError,
    http::error_page::PageError,
    links,
    read::products::{Products, Walk, parts},
    site::Site,
};

/// Maximum number of children of a sitemap index (sitemaps.org). At some 8,000 URLs a part, that is
/// 400,000,000 pages.
const CHILDREN_MAX: usize = 50_000;

/// Maximum number of pages of the product list in the sitemap: 200,000 products. Links lead to the
/// other pages.
const LIST_PAGES_MAX: u64 = 10_000;

const NAMESPACE: &str = "http://www.sitemaps.org/schemas/sitemap/0.9";

/// Whether the site has a sitemap: only if some pages may be indexed.
fn is_offered(site: &Site) -> bool {
    site.settings.indexable.admits(&Filter::ANY)
}

/// Does not forbid pages with `noindex`: a crawler must fetch a page to see its `noindex`.
pub(super) async fn robots(site: web::Data<Site>) -> HttpResponse {
    let mut text = format!(
        "User-agent: *\nDisallow: {}/api/\n",
        site.public_url.base_path
    );
    if is_offered(&site) {
        text.push_str(&format!(
            "\nSitemap: {}\n",
            site.public_url.join(links::SITEMAP)
        ));
    }
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "text/plain; charset=utf-8"))
        .body(text)
}

async fn walk(site: &Site, products: &web::Data<Products>) -> Result<Arc<Walk>, ApiError> {
    if is_offered(site) {
        Arc::clone(products).walk().await
    } else {
        Err(ApiError::NoRoute)
    }
}

pub(super) async fn index(
    site: web::Data<Site>,
    products: web::Data<Products>,
) -> Result<HttpResponse, PageError> {
    let walk = walk(&site, &products).await?;
    let all = walk.partitions().flat_map(|(partition, sitemap)| {
        (1..=sitemap.parts()).map(move |part| links::sitemap_part(partition, part))
    });
    let mut children: Vec<String> = all.take(CHILDREN_MAX - 1).collect();
    if children.is_empty() {
        // A sitemap must not be empty.
        return Err(ApiError::NoRoute.into());
    }
    children.push(links::SITEMAP_OF_LISTS.to_owned());
    if children.len() == CHILDREN_MAX {
        tracing::warn!(
            "the sitemap has as many parts as there may be; the pages of others are not in it"
        );
    }
    let entries = children.iter().map(|path| {
        let url = site.public_url.join(path);
        format!("<sitemap><loc>{url}</loc></sitemap>\n")
    });
    Ok(xml_answer("sitemapindex", entries))
}

pub(super) async fn lists(
    site: web::Data<Site>,
    products: web::Data<Products>,
) -> Result<HttpResponse, PageError> {
    let walk = walk(&site, &products).await?;
    let pages = products::addresses(&walk, LIST_PAGES_MAX).ok_or(ApiError::NoRoute)?;
    let paths = ["/".to_owned()].into_iter().chain(pages);
    let entries = paths.map(|path| entry(&site.public_url.join(&path).replace('&', "&amp;"), None));
    Ok(xml_answer("urlset", entries))
}

pub(super) async fn part(
    request: HttpRequest,
    site: web::Data<Site>,
    products: web::Data<Products>,
) -> Result<HttpResponse, PageError> {
    let named = request
        .uri()
        .path()
        .split('/')
        .nth(2)
        .and_then(links::parse_sitemap_part);
    let (partition, number) = named.ok_or(ApiError::NoRoute)?;
    let walk = walk(&site, &products).await?;
    let at = number.checked_sub(1).ok_or(ApiError::NoRoute)?;
    let (_, sitemap) = walk
        .partitions()
        .find(|(found, _)| *found == partition)
        .ok_or(ApiError::NoRoute)?;
    let pages = sitemap.pages(at).ok_or(ApiError::NoRoute)?;
    let dates = products.dates(&walk, sitemap, at).await;
    let now = process::now();
    let entries = pages.iter().enumerate().map(|(index, page)| {
        // None while the times cannot be read, for a page that has lost its comments, and for a
        // date that programs refuse.
        let date = dates
            .as_ref()
            .and_then(|dates| *dates.get(index)?)
            .filter(|date| date.is_between_1970_and(now));
        // Everything that XML would not take literally is percent-encoded in a URL.
        entry(&site.public_url.join(&page.path), date)
    });
    Ok(xml_answer("urlset", entries))
}

fn entry(url: &str, date: Option<Timestamp>) -> String {
    match date {
        Some(date) => [
            parts::BEFORE_URL,
            url,
            parts::BEFORE_DATE,
            &date.to_string(),
            parts::AFTER_DATE,
            "\n",
        ]
        .concat(),
        None => [parts::BEFORE_URL, url, parts::AFTER_URL, "\n"].concat(),
    }
}

fn xml_answer(root: &str, entries: impl Iterator<Item = String>) -> HttpResponse {
    let mut body =
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{root} xmlns=\"{NAMESPACE}\">\n");
    body.extend(entries);
    body.push_str(&format!("</{root}>\n"));
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "application/xml; charset=utf-8"))
        .body(body)
}
