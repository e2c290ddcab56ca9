//! `/fragment/product/{product}/comments…`: the list of a page of comments without the frame of the
//! page, to be shown inside a page of another site.
//!
//! The layer [`mount`] removes `/fragment` from the path, so the same code answers: the same
//! filters, page numbers, statuses and redirects. All links are absolute and lead to the pages, so
//! that they work wherever the list is shown. The address of a page becomes that of its fragment by
//! `/fragment` in front of its path on the site.

use actix_web::{
    Error, HttpMessage, HttpRequest,
    body::BoxBody,
    dev::{ServiceRequest, ServiceResponse},
    http::header::{HeaderName, HeaderValue},
    middleware::Next,
};

use crate::http::base_path;

const ROOT: &str = "/fragment";

pub(super) const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");
pub(super) const NO_INDEX: HeaderValue = HeaderValue::from_static("noindex");

struct IsFragment;

pub(super) fn is_asked(request: &HttpRequest) -> bool {
    request.extensions().contains::<IsFragment>()
}

pub(super) async fn mount(
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    base_path::remove(&mut request, ROOT);
    request.extensions_mut().insert(IsFragment);
    let mut answer = next.call(request).await?;
    base_path::lead(answer.headers_mut(), ROOT);
    Ok(answer)
}

pub(super) fn is_path(path: &str) -> bool {
    path.strip_prefix(ROOT)
        .is_some_and(|rest| rest.starts_with('/'))
}
