//! The pages for people: server-rendered HTML that works without JavaScript.
//!
//! Whatever a template is given is escaped by it; nothing is marked safe.

mod comments;
mod page_bar;
mod view;

use actix_web::{
    HttpRequest, HttpResponse, HttpResponseBuilder,
    http::header::{self, ContentType},
    middleware::{Compress, from_fn},
    web,
};
use askama::Template;
use model::{Filter, Order, PageNumber, PageSize};

use crate::{
    caching,
    error::{ApiError, PageError},
    links, request,
    routes::{get, not_allowed},
    state::State,
};

/// The pages need their style sheet and nothing else, so whatever else a text might smuggle in is not loaded.
const CONTENT_SECURITY_POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Registers the pages.
pub(crate) fn configure(config: &mut web::ServiceConfig) {
    let mut page = |path: &str, route: actix_web::Route| {
        config.service(
            web::resource(path)
                .route(route)
                .wrap(from_fn(caching::revalidate))
                .wrap(Compress::default())
                .default_service(not_allowed("GET, HEAD")),
        );
    };
    page("/", get().to(start));
    page("/static/style.css", get().to(style_sheet));
    page("/product/{product}/comments", get().to(comments::page));
    page("/product/{product}/comments/{language}", get().to(comments::page));
    page("/product/{product}/comments/{language}/{ratings}", get().to(comments::page));
    page("/comments/{id}", get().to(comment));
}

/// An answer with an HTML body.
pub(crate) fn html(answer: &mut HttpResponseBuilder, body: String) -> HttpResponse {
    answer
        .insert_header(ContentType::html())
        .insert_header((header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY))
        .body(body)
}

fn render(template: &impl Template) -> Result<HttpResponse, PageError> {
    let body = template.render().map_err(ApiError::internal)?;
    Ok(html(&mut HttpResponse::Ok(), body))
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'error> {
    style_sheet: &'static str,
    title: &'error str,
    detail: &'error str,
}

/// The page that tells of an error.
pub(crate) fn error_page(title: &str, detail: &str) -> String {
    // Rendering text into text does not fail; if it did, the status still tells.
    ErrorPage { style_sheet: links::STYLE_SHEET, title, detail }.render().unwrap_or_default()
}

#[derive(Template)]
#[template(path = "start.html")]
struct StartPage<'state> {
    style_sheet: &'static str,
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
    render(&StartPage { style_sheet: links::STYLE_SHEET, products: products.collect() })
}

async fn style_sheet() -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "text/css; charset=utf-8"))
        .insert_header((header::CACHE_CONTROL, "public, max-age=86400"))
        .body(include_str!("../../static/style.css"))
}

/// Leads to the page that shows a comment.
async fn comment(request: HttpRequest, state: web::Data<State>) -> Result<HttpResponse, PageError> {
    let id = request::comment_id(&request, 2)?;
    let comment = state.comment(&id).await?.ok_or(ApiError::NoSuchComment)?;
    let position = state.position(&comment, &Filter::ANY, Order::Newest).await.ok_or(ApiError::IndexUnavailable)?;
    let number = PageNumber::of_rank(position.rank, PageSize::default());
    let page = links::page(&comment.product, &Filter::ANY, number);
    // The page changes as comments come in, so nobody may remember it.
    Ok(HttpResponse::Found()
        .insert_header((header::LOCATION, page + &links::fragment(&id)))
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .finish())
}
