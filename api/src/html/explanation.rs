//! Explains errors to people: as a page, or in a fragment as a notice. All texts are in the language of the interface,
//! except of the exact reason why an input is refused: it is that of the JSON API.

use actix_web::{
    Error, ResponseError,
    body::BoxBody,
    dev::{ServiceRequest, ServiceResponse},
    error::InternalError,
    http::StatusCode,
    middleware::Next,
    web::Data,
};
use askama::Template;

use super::{
    error_page::{Help, PageError},
    fragment,
    head::Head,
};
use crate::{error::ApiError, site::Site, texts::Interface};

/// Writes the bodies of errors for people. Layers inside may answer with such an error, too.
pub(crate) async fn write(request: ServiceRequest, next: Next<BoxBody>) -> Result<ServiceResponse, Error> {
    let Some(site) = request.app_data::<Data<Site>>().cloned() else { return next.call(request).await };
    let is_fragment = fragment::is_path(request.path());
    let body: fn(&PageError, &Site) -> String = if is_fragment { notice } else { page };
    match next.call(request).await {
        Ok(answer) => {
            let error = answer.response().error().and_then(Error::as_error::<PageError>);
            let Some(body) = error.map(|error| body(error, &site)) else { return Ok(answer) };
            Ok(answer.map_body(|head, _| {
                if is_fragment {
                    head.headers.insert(fragment::ROBOTS, fragment::NO_INDEX);
                }
                BoxBody::new(body)
            }))
        }
        // The layers inside answer so when a request takes too long, or panics.
        Err(error) => {
            let Some(body) = error.as_error::<PageError>().map(|error| body(error, &site)) else { return Err(error) };
            let mut answer = error.error_response().set_body(BoxBody::new(body));
            if is_fragment {
                answer.headers_mut().insert(fragment::ROBOTS, fragment::NO_INDEX);
            }
            Err(InternalError::from_response(error, answer).into())
        }
    }
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'error> {
    head: Head,
    t: &'error Interface,
    explanation: Explanation,
    help: &'error Help,
}

/// What stands in the place of a list that cannot be shown.
#[derive(Template)]
#[template(path = "notice.html")]
struct Notice<'error> {
    /// The public URL: the links of a fragment are absolute.
    base: String,
    t: &'error Interface,
    explanation: Explanation,
    help: &'error Help,
}

// Rendering text into text does not fail; if it did, the status would still say what happened.

fn page(PageError { error, help, language }: &PageError, site: &Site) -> String {
    let t = site.interface_in(*language);
    let head = Head::new(site, heading(t, error.status_code()));
    ErrorPage { head, t, explanation: Explanation::of(t, error), help }.render().unwrap_or_default()
}

fn notice(PageError { error, help, language }: &PageError, site: &Site) -> String {
    let t = site.interface_in(*language);
    let base = site.public_url.to_string();
    Notice { base, t, explanation: Explanation::of(t, error), help }.render().unwrap_or_default()
}

fn heading(t: &Interface, status: StatusCode) -> String {
    match status {
        StatusCode::BAD_REQUEST => t.text("heading-mistake").into_owned(),
        StatusCode::NOT_FOUND => t.text("heading-nothing").into_owned(),
        StatusCode::SERVICE_UNAVAILABLE => t.text("heading-away").into_owned(),
        other => t.with("heading-error", [("status", other.as_str().into())]),
    }
}

pub(super) struct Explanation {
    pub(super) text: Option<String>,
    pub(super) reason: Option<String>,
}

impl Explanation {
    pub(super) fn of(t: &Interface, error: &ApiError) -> Self {
        let reason = || Some(error.to_string());
        if let ApiError::Invalid { field, .. } = error {
            let part = t.find(&format!("part-{field}")).unwrap_or_else(|| field.to_string());
            return Self { text: Some(t.with("error-mistake", [("part", part.into())])), reason: reason() };
        }
        let text = explain(t, error);
        Self { reason: if text.is_none() { reason() } else { None }, text }
    }
}

/// The explanation of an error; `None` for one that pages do not meet.
fn explain(t: &Interface, error: &ApiError) -> Option<String> {
    let id = match error {
        ApiError::NoRoute => "error-no-route",
        ApiError::NoSuchComment => "error-no-comment",
        ApiError::NoSuchProduct => "error-no-product",
        ApiError::IndexUnavailable => "error-index",
        ApiError::NotYetListed => "error-not-yet-listed",
        ApiError::TableUnavailable(_) | ApiError::TableRefuses(_) => "error-table",
        ApiError::Overloaded => "error-overloaded",
        ApiError::TimedOut => "error-timed-out",
        ApiError::Internal(_) => "error-internal",
        ApiError::MethodNotAllowed { allow } => return Some(t.with("error-method", [("allow", (*allow).into())])),
        ApiError::PastTheEnd { page, total_pages } => {
            return Some(t.with("error-past-the-end", [("page", (*page).into()), ("last", (*total_pages).into())]));
        }
        ApiError::PastTheArchive { page, archived: 0 } => return Some(t.page("error-past-all-numbers", *page)),
        ApiError::PastTheArchive { page, archived } => {
            return Some(t.with("error-past-the-archive", [("page", (*page).into()), ("last", (*archived).into())]));
        }
        ApiError::Invalid { .. }
        | ApiError::BrokenBody(_)
        | ApiError::BodyTooLarge
        | ApiError::BodyTooSlow
        | ApiError::UnsupportedMediaType { .. }
        | ApiError::Unauthorized
        | ApiError::ScopeOff(_)
        | ApiError::Contended
        | ApiError::FilterDoesNotMatch { .. }
        | ApiError::AlreadyExists
        | ApiError::NotAllowed(_)
        | ApiError::IdempotencyMismatch
        | ApiError::RevisionMismatch { .. }
        | ApiError::PreconditionFailed { .. }
        | ApiError::RevisionExcluded { .. }
        | ApiError::NoRoomInItem { .. } => return None,
    };
    Some(t.text(id).into_owned())
}
