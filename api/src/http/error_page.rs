//! Errors of pages for people. `explanation` writes them, in the language of the interface.

use actix_web::{
    HttpResponse, HttpResponseBuilder, ResponseError,
    http::{
        StatusCode,
        header::{self, ContentType},
    },
};
use model::Filter;
use thiserror::Error;

use crate::{error::ApiError, texts::InterfaceLanguage};

/// An answer with an HTML body, whose forms may be sent to `form_action`: `'none'` or `'self'`.
///
/// A page loads its style sheet, its icon, and pictures from these origins. It loads nothing else,
/// even if a text smuggles it in. Browsers do not execute structured data, so no source of scripts is
/// allowed. Without scripts, only the tools that judge pages connect anywhere: they fetch
/// `robots.txt` in the page's name.
pub(crate) fn html(
    answer: &mut HttpResponseBuilder,
    picture_origins: &[String],
    form_action: &str,
    body: String,
) -> HttpResponse {
    let mut pictures = String::new();
    for origin in picture_origins {
        pictures.push(' ');
        pictures.push_str(origin);
    }
    let policy = format!(
        "default-src 'none'; style-src 'self'; img-src 'self'{pictures}; connect-src 'self'; base-uri 'none'; \
         form-action {form_action}; frame-ancestors 'none'"
    );
    answer
        .insert_header(ContentType::html())
        .insert_header((header::CONTENT_SECURITY_POLICY, policy))
        .body(body)
}

#[derive(Debug, Error)]
#[error("{error}")]
pub(crate) struct PageError {
    pub(crate) error: ApiError,
    pub(crate) help: Help,
    /// The language of the page's comments, which may decide about that of the page.
    pub(crate) language: Option<InterfaceLanguage>,
}

#[derive(Debug, Default)]
pub(crate) struct Help {
    pub(crate) meanwhile: Option<&'static str>,
    pub(crate) links: Vec<(String, String)>,
}

impl PageError {
    pub(crate) fn of_filter(self, filter: &Filter) -> Self {
        Self {
            language: filter.language().and_then(InterfaceLanguage::of),
            ..self
        }
    }
}

impl<E: Into<ApiError>> From<E> for PageError {
    fn from(error: E) -> Self {
        Self {
            error: error.into(),
            help: Help::default(),
            language: None,
        }
    }
}

impl ResponseError for PageError {
    fn status_code(&self) -> StatusCode {
        self.error.status_code()
    }

    /// The answer without its body, which `explanation::write` adds.
    fn error_response(&self) -> HttpResponse {
        html(&mut self.error.answer(), &[], "'none'", String::new())
    }
}
