//! The pages for people and crawlers: server-rendered HTML that works without JavaScript.
//!
//! - `address`: the addresses of pages, and which of them is canonical.
//! - `comments`: a page of comments, made of `view`, `filters`, `place`, `page_bar`; its `head`, `description` and
//!   `structured_data`. `counts` tells how many comments its filters have.
//! - `products`: the list of products, and the start page.
//! - `contrast`: two comments that differ, on the front page.
//! - `assets`: the files that pages load.
//! - `feed`: the newest comments for readers of feeds.
//! - `fold`: shows the beginning of a long text.
//! - `fragment`: the list of a page, for pages of other sites.
//! - `reply`: the shop's reply below a comment.
//! - `error_page`: errors, and the links that lead on from them; `explanation`: writes them.
//! - `sitemap`: the sitemap and `robots.txt`.
//! - `words`, `language_name`: how people write what programs know. All texts are in `crate::texts`.
//!
//! **Invariant:** a template escapes all text that it receives. There are two exceptions: the site's own header and footer,
//! which are trusted, and [`script_json::ScriptJson`], which escapes for its place in a page.

mod address;
mod assets;
mod comments;
mod contrast;
mod counts;
mod description;
pub(crate) mod error_page;
pub(crate) mod explanation;
mod feed;
mod filters;
mod fold;
mod fragment;
mod head;
mod language_name;
mod page_bar;
mod place;
mod products;
mod reply;
mod script_json;
mod sitemap;
mod structured_data;
mod view;
mod words;

use actix_web::{
    HttpRequest, HttpResponse, Route,
    http::{StatusCode, header},
    middleware::from_fn,
    web,
};
use askama::Template;
use model::{CommentId, Filter};

use crate::{
    error::ApiError,
    http::{
        caching,
        path_and_query::path_part,
        routing::{cached, get},
    },
    links,
    site::Site,
    store::StoreClients,
};
use address::Address;
use error_page::{PageError, html};
use head::Head;

pub(crate) fn configure(config: &mut web::ServiceConfig, max_age_seconds: u32) {
    let mut page = |path: &str, route: Route| {
        config.service(cached(path, "GET, HEAD", max_age_seconds).route(route));
    };
    page("/", get().to(products::start));
    page(links::PRODUCTS, get().to(products::list));
    page(
        "/static/style.css",
        get().to(async |request: HttpRequest, site: web::Data<Site>| {
            site.look.style_sheet.answer(request.query_string())
        }),
    );
    page(
        "/fragment.css",
        get().to(async |request: HttpRequest, site: web::Data<Site>| {
            site.look.fragment_style_sheet.answer(request.query_string())
        }),
    );
    page("/static/icon.svg", get().to(async |request: HttpRequest| assets::ICON.answer(request.query_string())));
    page("/static/demo/{picture}", get().to(assets::picture));
    page("/product/{product}/comments", get().to(comments::page));
    page("/product/{product}/comments/{filter:.*}", get().to(comments::page));
    page("/product/{product}/feed", get().to(feed::feed));
    page("/product/{product}/feed/{filter:.*}", get().to(feed::feed));
    for path in ["/fragment/product/{product}/comments", "/fragment/product/{product}/comments/{filter:.*}"] {
        page(path, get().to(comments::page).wrap(from_fn(fragment::mount)));
    }
    page(
        "/static/pagemark-comments.js",
        get().to(async |request: HttpRequest| assets::COMPONENT.answer(request.query_string())),
    );
    page("/comments/{id}", get().to(comment));
    page("/robots.txt", get().to(sitemap::robots));
    page(links::SITEMAP, get().to(sitemap::index));
    page(links::SITEMAP_OF_LISTS, get().to(sitemap::lists));
    page("/sitemap/{file}", get().to(sitemap::part));
}

/// The answer with a page. `form_action` says where its forms may lead: see [`html`].
fn render(
    site: &Site,
    status: StatusCode,
    head: &Head,
    template: &impl Template,
    form_action: &str,
) -> Result<HttpResponse, PageError> {
    let body = template.render().map_err(ApiError::internal)?;
    let mut answer = HttpResponse::build(status);
    if let Some(links) = head.link_header(site) {
        answer.insert_header((header::LINK, links));
    }
    Ok(html(&mut answer, head.picture.as_ref(), form_action, body))
}

async fn comment(request: HttpRequest, stores: web::Data<StoreClients>) -> Result<HttpResponse, PageError> {
    let id = CommentId::parse(&path_part(&request, 2, "id")?)?;
    let comment = stores.comment(&id).await?.ok_or(ApiError::NoSuchComment)?;
    let position = stores.position(&comment, &Filter::ANY).await.ok_or(ApiError::IndexUnavailable)?;
    let address = Address::of_product(comment.product);
    let page = address.page(address.number_of(position));
    Ok(caching::lead_to(&(page + &links::fragment(&id))))
}
