//! The pages for people and crawlers: server-rendered HTML that works without JavaScript.
//!
//! - `address`: the addresses of pages, and which of them is canonical.
//! - `comments`: a page of comments, made of `view`, `filters`, `page_bar`; its `head` and `structured_data`.
//! - `assets`: the files that pages load.
//! - `fold`: shows the beginning of a long text.
//! - `form`: a comment to post, in the local stack only.
//! - `help`: errors, and the links that lead on from them.
//! - `words`, `language_name`: how people write what programs know.
//!
//! **Invariant:** a template escapes all text that it receives. The only exception is [`script_json::ScriptJson`],
//! which escapes for its place in a page.

mod address;
mod assets;
mod comments;
mod filters;
mod fold;
mod form;
mod head;
mod help;
mod language_name;
mod page_bar;
mod script_json;
pub(crate) mod sitemap;
mod structured_data;
mod view;
mod words;

use actix_web::{
    HttpRequest, HttpResponse, HttpResponseBuilder, Route,
    http::header::{self, ContentType},
    middleware::from_fn,
    web,
};
use askama::Template;
use model::{Filter, Order, PageNumber, PageSize};

use crate::{
    error::{ApiError, PageError},
    http::{caching, compression},
    json::{get, not_allowed, request},
    links,
    store::State,
};
use head::{Head, Robots};
pub(crate) use help::{Help, error_page};

/// A page needs only its style sheet and icon, so nothing else is loaded, even if a text smuggles it in. Structured
/// data is not a script to a browser: it is not executed, so no source of scripts needs to be allowed. Without scripts,
/// only the tools that judge pages connect anywhere: they fetch `robots.txt` in the page's name.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                                       base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Registers the pages.
pub(crate) fn configure(config: &mut web::ServiceConfig) {
    let mut page = |path: &str, route: Route| serve(config, path, route);
    page("/", get().to(start));
    page("/static/style.css", get().to(async || assets::STYLE_SHEET.answer()));
    page("/static/icon.svg", get().to(async || assets::ICON.answer()));
    page("/product/{product}/comments", get().to(comments::page));
    page("/product/{product}/comments/{filter:.*}", get().to(comments::page));
    page("/comments/{id}", get().to(comment));
    config.service(
        web::resource("/local/product/{product}/comments")
            .route(get().to(form::show))
            .route(web::post().to(form::post))
            .default_service(not_allowed("GET, HEAD, POST")),
    );
}

/// Serves a path whose answer caches may keep for a while and revalidate.
pub(crate) fn serve(config: &mut web::ServiceConfig, path: &str, route: Route) {
    config.service(
        web::resource(path)
            .route(route)
            .wrap(from_fn(caching::revalidate))
            .wrap(from_fn(compression::compress))
            .default_service(not_allowed("GET, HEAD")),
    );
}

/// An answer with an HTML body.
pub(crate) fn html(answer: &mut HttpResponseBuilder, body: String) -> HttpResponse {
    answer
        .insert_header(ContentType::html())
        .insert_header((header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY))
        .body(body)
}

fn render(state: &State, head: &Head, template: &impl Template) -> Result<HttpResponse, PageError> {
    let body = template.render().map_err(ApiError::internal)?;
    let mut answer = HttpResponse::Ok();
    if let Some(links) = head.link_header(&state.site) {
        answer.insert_header((header::LINK, links));
    }
    Ok(html(&mut answer, body))
}

#[derive(Template)]
#[template(path = "start.html")]
struct StartPage<'state> {
    head: Head,
    products: Vec<SampleProduct<'state>>,
}

struct SampleProduct<'state> {
    name: &'state str,
    href: String,
}

async fn start(state: web::Data<State>) -> Result<HttpResponse, PageError> {
    let products = state
        .sample_products
        .iter()
        .map(|product| SampleProduct { name: product.as_str(), href: links::product_page(product) });
    let robots = Robots::index_if(state.site.indexable.admits(&Filter::ANY));
    let mut head = Head::new(&state.site, "/", "Pagemark: comments of products".to_owned(), robots);
    head.description =
        Some("Comments of products, with filters and with page numbers that are real addresses.".to_owned());
    let page = StartPage { head, products: products.collect() };
    render(&state, &page.head, &page)
}

/// Redirects to the page that shows a comment.
async fn comment(request: HttpRequest, state: web::Data<State>) -> Result<HttpResponse, PageError> {
    let id = request::comment_id(&request, 2)?;
    let comment = state.comment(&id).await?.ok_or(ApiError::NoSuchComment)?;
    let position = state.position(&comment, &Filter::ANY, Order::Newest).await.ok_or(ApiError::IndexUnavailable)?;
    let number = PageNumber::of_rank(position.rank, PageSize::default());
    let page = links::page(&comment.product, &Filter::ANY, number);
    Ok(comments::lead_to(&(page + &links::fragment(&id))))
}
