//! The kind of reader that an answer is for.

use super::error_page::PageError;
use crate::error::ApiError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    Program,
    Person,
}

impl Audience {
    pub(crate) fn of_path(path: &str) -> Self {
        match path.split('/').nth(1) {
            Some("api" | "livez" | "readyz" | "metrics" | "openapi.json") => Self::Program,
            _ => Self::Person,
        }
    }

    pub(crate) fn error(self, error: ApiError) -> actix_web::Error {
        match self {
            Self::Program => error.into(),
            Self::Person => PageError::from(error).into(),
        }
    }
}
