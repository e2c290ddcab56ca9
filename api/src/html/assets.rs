//! The files that pages load. A file's URL changes with its content, so browsers may cache it.

use std::sync::LazyLock;

use actix_web::{HttpResponse, http::header};
use sha2::{Digest, Sha256};

/// The style sheet.
pub(super) static STYLE_SHEET: Asset = Asset {
    media_type: "text/css; charset=utf-8",
    content: include_str!("../../static/style.css"),
    path: "/static/style.css",
    version: LazyLock::new(|| STYLE_SHEET.hashed()),
};

/// The icon.
pub(super) static ICON: Asset = Asset {
    media_type: "image/svg+xml",
    content: include_str!("../../static/icon.svg"),
    path: "/static/icon.svg",
    version: LazyLock::new(|| ICON.hashed()),
};

/// The web component that shows a fragment. Pages of other sites name it, so its address has no version.
pub(super) static COMPONENT: Asset = Asset {
    media_type: "text/javascript; charset=utf-8",
    content: include_str!("../../static/pagemark-comments.js"),
    path: "/static/pagemark-comments.js",
    version: LazyLock::new(|| COMPONENT.hashed()),
};

/// A file.
pub(super) struct Asset {
    media_type: &'static str,
    content: &'static str,
    path: &'static str,
    /// The query of the file's URL, which changes with its content.
    version: LazyLock<String>,
}

impl Asset {
    /// The URL that pages load it from.
    pub(super) fn url(&self) -> String {
        format!("{}?{}", self.path, *self.version)
    }

    fn hashed(&self) -> String {
        let hash = Sha256::digest(self.content.as_bytes());
        let version: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("v={version}")
    }

    /// The answer that sends the file, for a request with this query. Under the query of another content it must not
    /// stay in caches: another version of the service may run beside this one.
    pub(super) fn answer(&self, query: &str) -> HttpResponse {
        let caching = if query == *self.version { "public, max-age=31536000, immutable" } else { "no-cache" };
        HttpResponse::Ok()
            .insert_header((header::CONTENT_TYPE, self.media_type))
            .insert_header((header::CACHE_CONTROL, caching))
            .body(self.content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_web_component_has_at_most_3_kilobytes() {
        assert!(COMPONENT.content.len() <= 3_000, "{}", COMPONENT.content.len());
    }
}
