//! Files that pages load. A file's URL changes with its content, so browsers may cache it.

use actix_web::{HttpResponse, http::header, web::Bytes};
use sha2::{Digest, Sha256};

#[derive(Debug)]
pub(crate) struct Asset {
    media_type: &'static str,
    path: &'static str,
    content: Bytes,
    /// The query of the file's URL, which changes with its content.
    version: String,
}

impl Asset {
    pub(crate) fn new(
        media_type: &'static str,
        path: &'static str,
        content: impl Into<Bytes>,
    ) -> Self {
        let content = content.into();
        let hash = Sha256::digest(&content);
        let version: String = hash
            .iter()
            .take(4)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self {
            media_type,
            path,
            content,
            version: format!("v={version}"),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}?{}", self.path, self.version)
    }

    /// The answer that sends the file, for a request with this query. Under the query of different
    /// content it must not stay in caches: another version of the service may run beside this one.
    pub(crate) fn answer(&self, query: &str) -> HttpResponse {
        let caching = if query == self.version {
            "public, max-age=31536000, immutable"
        } else {
            "no-cache"
        };
        HttpResponse::Ok()
            .insert_header((header::CONTENT_TYPE, self.media_type))
            .insert_header((header::CACHE_CONTROL, caching))
            .body(self.content.clone())
    }
}
