//! `/fragment/product/{product}/comments…`: the list of a page of comments without the frame of the page, to be shown
//! inside a page of another site.
//!
//! The layer [`mount`] removes `/fragment` from the path, so the same code answers: the same filters, page numbers,
//! statuses and redirects. All links are absolute and lead to the pages, so that they work wherever the list is shown. The
//! address of a page becomes that of its fragment by `/fragment` in front of its path on the site.

use actix_web::{
    Error, HttpMessage, HttpRequest, HttpResponse, ResponseError,
    body::BoxBody,
    dev::{ServiceRequest, ServiceResponse},
    http::{
        StatusCode,
        header::{self, HeaderName, HeaderValue},
    },
    middleware::Next,
    web::Data,
};
use askama::Template;
use thiserror::Error;

use super::error_page::{Help, PageError, html};
use crate::{error::ApiError, http::base_path, site::Site};

/// The path that fragments are under.
const ROOT: &str = "/fragment";

const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");

/// Marks a request for a fragment.
struct Asked;

/// Whether a fragment is asked for.
pub(super) fn is_asked(request: &HttpRequest) -> bool {
    request.extensions().contains::<Asked>()
}

/// Answers the request for a fragment as that for its page. An error is a notice instead of a page.
pub(super) async fn mount(mut request: ServiceRequest, next: Next<BoxBody>) -> Result<ServiceResponse, Error> {
    base_path::remove(&mut request, ROOT);
    request.extensions_mut().insert(Asked);
    let mut answer = next.call(request).await?;
    base_path::lead(answer.headers_mut(), ROOT);
    // The comments are indexed where they have an address for people.
    answer.headers_mut().insert(ROBOTS, HeaderValue::from_static("noindex"));
    let notice = answer.response().error().and_then(Error::as_error::<PageError>).map(|error| {
        // Rendering text into text does not fail; if it did, the status would still say what happened.
        Notice { detail: error.error.to_string(), help: &error.help }.render().unwrap_or_default()
    });
    let Some(notice) = notice else { return Ok(answer) };
    let notice = answer.request().app_data::<Data<Site>>().map(|site| anchored(site, &notice)).unwrap_or(notice);
    Ok(answer.map_body(|_, _| BoxBody::new(notice)))
}

/// An error outside of the handlers, such as too many requests: a notice without links.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct FragmentError(pub(crate) ApiError);

impl ResponseError for FragmentError {
    fn status_code(&self) -> StatusCode {
        self.0.status_code()
    }

    fn error_response(&self) -> HttpResponse {
        // Rendering text into text does not fail; if it did, the status would still say what happened.
        let notice = Notice { detail: self.0.to_string(), help: &Help::default() }.render().unwrap_or_default();
        let mut answer = html(&mut self.0.answer(), "'none'", notice);
        answer.headers_mut().insert(ROBOTS, HeaderValue::from_static("noindex"));
        answer
    }
}

/// What stands in the place of a list that cannot be shown.
#[derive(Template)]
#[template(path = "notice.html")]
struct Notice<'error> {
    detail: String,
    help: &'error Help,
}

/// A list whose links are absolute. `list` is the template's text.
fn anchored(site: &Site, list: &str) -> String {
    base_path::in_page(list, &site.public_url.to_string())
}

/// The answer with a list. `links` is the header `Link` of its page, which names the canonical URL.
pub(super) fn answer(site: &Site, status: StatusCode, list: &str, links: Option<String>) -> HttpResponse {
    let mut answer = HttpResponse::build(status);
    if let Some(links) = links {
        answer.insert_header((header::LINK, links));
    }
    html(&mut answer, "'none'", anchored(site, list))
}
