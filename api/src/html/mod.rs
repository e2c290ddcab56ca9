//! The pages for people and crawlers: server-rendered HTML that works without JavaScript.
//!
//! - `address`: the addresses of pages, and which of them is canonical.
//! - `comments`: a page of comments, made of `view`, `filters`, `place`, `page_bar`; its `head` and `structured_data`.
//! - `assets`: the files that pages load.
//! - `fold`: shows the beginning of a long text.
//! - `fragment`: the list of a page, for pages of other sites.
//! - `form`: a comment to post, in the local stack only.
//! - `error_page`: errors, and the links that lead on from them.
//! - `sitemap`: the sitemap and `robots.txt`.
//! - `words`, `language_name`: how people write what programs know.
//!
//! **Invariant:** a template escapes all text that it receives. The only exception is [`script_json::ScriptJson`],
//! which escapes for its place in a page.

mod address;
mod assets;
mod comments;
pub(crate) mod error_page;
mod filters;
mod fold;
mod form;
mod fragment;
mod head;
mod language_name;
mod page_bar;
mod place;
mod script_json;
pub(crate) mod sitemap;
mod structured_data;
mod view;
mod words;

use actix_web::{HttpRequest, HttpResponse, Route, http::header, middleware::from_fn, web};
use askama::Template;
use model::{Filter, Order, PageNumber, PageSize, ProductId, StablePage, StablePages};
use page_index::Position;

use crate::{
    error::ApiError,
    http::{
        base_path, caching,
        path_and_query::comment_id,
        routing::{cached, get, not_allowed},
    },
    links,
    site::{PageNumbers, Site},
    store::StoreClients,
};
use error_page::{PageError, html};
use head::Head;

/// Registers the pages, the sitemap and `robots.txt`.
pub(crate) fn configure(config: &mut web::ServiceConfig, max_age_seconds: u32) {
    let mut page = |path: &str, route: Route| {
        config.service(cached(path, "GET, HEAD", max_age_seconds).route(route));
    };
    page("/", get().to(start));
    page("/static/style.css", get().to(async || assets::STYLE_SHEET.answer()));
    page("/static/icon.svg", get().to(async || assets::ICON.answer()));
    page("/product/{product}/comments", get().to(comments::page));
    page("/product/{product}/comments/{filter:.*}", get().to(comments::page));
    for path in ["/fragment/product/{product}/comments", "/fragment/product/{product}/comments/{filter:.*}"] {
        page(path, get().to(comments::page).wrap(from_fn(fragment::mount)));
    }
    page("/static/pagemark-comments.js", get().to(async || assets::COMPONENT.answer()));
    page("/comments/{id}", get().to(comment));
    page("/robots.txt", get().to(sitemap::robots));
    page(links::SITEMAP, get().to(sitemap::index));
    page("/sitemap/{file}", get().to(sitemap::part));
    config.service(
        web::resource("/local/product/{product}/comments")
            .wrap(from_fn(base_path::extend))
            .route(get().to(form::show))
            .route(web::post().to(form::post))
            .default_service(not_allowed("GET, HEAD, POST")),
    );
}

fn render(site: &Site, head: &Head, template: &impl Template) -> Result<HttpResponse, PageError> {
    let body = template.render().map_err(ApiError::internal)?;
    let mut answer = HttpResponse::Ok();
    if let Some(links) = head.link_header(site) {
        answer.insert_header((header::LINK, links));
    }
    Ok(html(&mut answer, "'none'", body))
}

#[derive(Template)]
#[template(path = "start.html")]
struct StartPage<'site> {
    head: Head,
    /// Whether pages have stable numbers.
    is_stable: bool,
    products: &'site [ProductId],
    /// The path of the site's root, empty or such as `/reviews`.
    base_path: &'site str,
}

async fn start(site: web::Data<Site>) -> Result<HttpResponse, PageError> {
    let may_index = site.indexable.admits(&Filter::ANY);
    let mut head = Head::new(&site, "/", "Pagemark: comments of products".to_owned(), may_index);
    head.description =
        Some("Comments of products, with filters and with page numbers that are real addresses.".to_owned());
    let is_stable = site.page_numbers == PageNumbers::Stable;
    let page = StartPage { head, is_stable, products: &site.sample_products, base_path: site.public_url.base_path() };
    render(&site, &page.head, &page)
}

/// Redirects to the page that shows a comment.
async fn comment(
    request: HttpRequest,
    stores: web::Data<StoreClients>,
    site: web::Data<Site>,
) -> Result<HttpResponse, PageError> {
    let id = comment_id(&request, 2)?;
    let comment = stores.comment(&id).await?.ok_or(ApiError::NoSuchComment)?;
    let position = stores.position(&comment, &Filter::ANY, Order::Oldest).await.ok_or(ApiError::IndexUnavailable)?;
    let Position { total, rank } = position;
    let number = match (site.page_numbers, StablePages::new(total, PageSize::default()).of_rank(rank)) {
        (PageNumbers::Stable, StablePage::Front) => None,
        (PageNumbers::Stable, StablePage::Archive(number)) => Some(number),
        (PageNumbers::NewestFirst, _) => {
            let number = PageNumber::of_rank(total.saturating_sub(1 + rank), PageSize::default());
            Some(number).filter(|number| *number != PageNumber::FIRST)
        }
    };
    let page = links::page(&comment.product, &Filter::ANY, number);
    Ok(caching::lead_to(&(page + &links::fragment(&id))))
}
