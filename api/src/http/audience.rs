//! The kind of reader that an answer is for.

use crate::{
    error::ApiError,
    html::{error_page::PageError, fragment::FragmentError},
};

/// The kind of reader that an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// A program: problems as JSON.
    Program,
    /// A person: problems as a page.
    Person,
    /// A person who reads a page of another site: problems as a fragment of HTML.
    Fragment,
}

impl Audience {
    pub(crate) fn of_path(path: &str) -> Self {
        match path.split('/').nth(1) {
            Some("api" | "livez" | "readyz" | "metrics" | "openapi.json") => Self::Program,
            Some("fragment") => Self::Fragment,
            _ => Self::Person,
        }
    }

    /// The error in the form for this audience.
    pub(crate) fn error(self, error: ApiError) -> actix_web::Error {
        match self {
            Self::Program => error.into(),
            Self::Person => PageError::from(error).into(),
            Self::Fragment => FragmentError(error).into(),
        }
    }
}
