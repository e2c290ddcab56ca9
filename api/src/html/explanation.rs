//! Explains errors to people: as a page, or in a fragment as a notice. All texts are in the
//! language of the interface, except of the exact reason why an input is refused: it is that of the
//! JSON API.

use actix_web::{
    Error, ResponseError,
    body::BoxBody,
    dev::{ServiceRequest, ServiceResponse},
    http::StatusCode,
    middleware::Next,
    web::Data,
};
use askama::Template;

use super::{fragment, head::Head};
use crate::{
    error::ApiError,
    http::{
        error_page::{Help, PageError},
        routing::changed,
    },
    site::Site,
    texts::Interface,
};

/// Writes the bodies of errors for people.
pub(crate) async fn write(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let Some(site) = request.app_data::<Data<Site>>().cloned() else {
        return next.call(request).await;
    };
    let is_fragment = fragment::is_path(request.path());
    changed(next.call(request).await, |mut answer| {
        if is_fragment {
            // The comments are indexed where they have an address for people.
            answer
                .headers_mut()
                .insert(fragment::ROBOTS, fragment::NO_INDEX);
        }
        let error = answer.error().and_then(|error| error.as_error());
        match error.map(|error| text(error, &site, is_fragment)) {
            Some(body) => answer.set_body(BoxBody::new(body)),
            None => answer,
        }
    })
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'error> {
    head: Head<'error>,
    t: &'error Interface,
    text: Option<String>,
    /// The exact reason, in English.
    reason: Option<String>,
    help: &'error Help,
}

/// What is shown instead of a list that cannot be shown.
#[derive(Template)]
#[template(path = "notice.html")]
struct Notice<'error> {
    /// The public URL: the links of a fragment are absolute.
    base: String,
    page: ErrorPage<'error>,
}

fn text(
    PageError {
        error,
        help,
        language,
    }: &PageError,
    site: &Site,
    is_fragment: bool,
) -> String {
    let t = site.interface_in(*language);
    let text = explain(t, error);
    let shows_reason = text.is_none() || matches!(error, ApiError::Invalid { .. });
    let reason = if shows_reason {
        Some(error.to_string())
    } else {
        None
    };
    let head = Head::new(site, heading(t, error.status_code()));
    let page = ErrorPage {
        head,
        t,
        text,
        reason,
        help,
    };
    let rendered = if is_fragment {
        let base = site.public_url.to_string();
        Notice { base, page }.render()
    } else {
        page.render()
    };
    // Rendering text into text does not fail; if it did, the status would still say what happened.
    rendered.unwrap_or_default()
}

fn heading(t: &Interface, status: StatusCode) -> String {
    match status {
        StatusCode::BAD_REQUEST => t.text("heading-mistake").into_owned(),
        StatusCode::NOT_FOUND => t.text("heading-nothing").into_owned(),
        StatusCode::SERVICE_UNAVAILABLE => t.text("heading-away").into_owned(),
        other => t.with("heading-error", [("status", other.as_str().into())]),
    }
}

/// The explanation of an error; `None` for one that pages do not meet: then its exact reason is
/// shown.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "pages meet few of the errors"
)]
fn explain(t: &Interface, error: &ApiError) -> Option<String> {
    let id = match error {
        ApiError::NoRoute => "error-no-route",
        ApiError::NoSuchComment => "error-no-comment",
        ApiError::NoSuchProduct => "error-no-product",
        ApiError::IndexUnavailable => "error-index",
        ApiError::NotYetListed => "error-not-yet-listed",
        ApiError::TableUnavailable(_) => "error-table",
        ApiError::Overloaded => "error-overloaded",
        ApiError::TimedOut => "error-timed-out",
        ApiError::Internal(_) => "error-internal",
        ApiError::Invalid { field, .. } => {
            let part = t
                .find(&format!("part-{field}"))
                .unwrap_or_else(|| field.to_string());
            return Some(t.with_one("error-mistake", "part", part));
        }
        ApiError::MethodNotAllowed { allow } => {
            return Some(t.with_one("error-method", "allow", *allow));
        }
        ApiError::PastTheEnd { page, total_pages } => {
            return Some(t.with(
                "error-past-the-end",
                [("page", page.into()), ("last", total_pages.into())],
            ));
        }
        ApiError::PastTheArchive { page, archived: 0 } => {
            return Some(t.page("error-past-all-numbers", *page));
        }
        ApiError::PastTheArchive { page, archived } => {
            return Some(t.with(
                "error-past-the-archive",
                [("page", page.into()), ("last", archived.into())],
            ));
        }
        _ => return None,
    };
    Some(t.text(id).into_owned())
}
