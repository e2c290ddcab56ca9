//! Pages that explain an error, and the links that lead on from there.

use actix_web::{
    HttpResponse, HttpResponseBuilder, ResponseError,
    http::{
        StatusCode,
        header::{self, ContentType},
    },
};
use askama::Template;
use thiserror::Error;

use super::head::Head;
use crate::error::ApiError;

/// An answer with an HTML body, whose forms may be sent to `form_action`: `'none'` or `'self'`.
///
/// A page needs only its style sheet and icon, so nothing else is loaded, even if a text smuggles it in. Structured
/// data is not a script to a browser: it is not executed, so no source of scripts needs to be allowed. Without scripts,
/// only the tools that judge pages connect anywhere: they fetch `robots.txt` in the page's name.
pub(super) fn html(answer: &mut HttpResponseBuilder, form_action: &str, body: String) -> HttpResponse {
    let policy = format!(
        "default-src 'none'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action {form_action}; frame-ancestors 'none'"
    );
    answer.insert_header(ContentType::html()).insert_header((header::CONTENT_SECURITY_POLICY, policy)).body(body)
}

/// An error of a page for people.
#[derive(Debug, Error)]
#[error("{error}")]
pub(crate) struct PageError {
    pub(super) error: ApiError,
    pub(super) help: Help,
}

/// What a reader can do about an error.
#[derive(Debug, Default)]
pub(super) struct Help {
    /// A hint at what works meanwhile.
    pub(super) meanwhile: Option<&'static str>,
    /// Each with its text and its address.
    pub(super) links: Vec<(String, String)>,
}

impl<E: Into<ApiError>> From<E> for PageError {
    fn from(error: E) -> Self {
        Self { error: error.into(), help: Help::default() }
    }
}

impl ResponseError for PageError {
    fn status_code(&self) -> StatusCode {
        self.error.status_code()
    }

    fn error_response(&self) -> HttpResponse {
        let heading = match self.status_code() {
            StatusCode::BAD_REQUEST => "There is a mistake in this address",
            StatusCode::NOT_FOUND => "There is no such page",
            StatusCode::SERVICE_UNAVAILABLE => "This page is away for a moment",
            other => other.canonical_reason().unwrap_or("Error"),
        };
        let head = Head { title: heading.to_owned(), ..Head::default() };
        let page = ErrorPage { head, heading, detail: &self.error.to_string(), help: &self.help };
        // Rendering text into text does not fail; if it did, the status would still say what happened.
        let body = page.render().unwrap_or_default();
        html(&mut self.error.answer(), "'none'", body)
    }
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'error> {
    head: Head,
    heading: &'static str,
    detail: &'error str,
    help: &'error Help,
}
