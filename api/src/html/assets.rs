//! The files that pages load. A file's URL changes with its content, so browsers may cache it.

use std::sync::LazyLock;

use actix_web::{HttpResponse, http::header};
use sha2::{Digest, Sha256};

/// The style sheet.
pub(super) static STYLE_SHEET: Asset = Asset {
    media_type: "text/css; charset=utf-8",
    content: include_str!("../../static/style.css"),
    url: LazyLock::new(|| STYLE_SHEET.versioned("/static/style.css")),
};

/// The icon.
pub(super) static ICON: Asset = Asset {
    media_type: "image/svg+xml",
    content: include_str!("../../static/icon.svg"),
    url: LazyLock::new(|| ICON.versioned("/static/icon.svg")),
};

/// The web component that shows a fragment. Pages of other sites name it, so its address has no version.
pub(super) static COMPONENT: Asset = Asset {
    media_type: "text/javascript; charset=utf-8",
    content: include_str!("../../static/pagemark-comments.js"),
    url: LazyLock::new(|| COMPONENT.versioned("/static/pagemark-comments.js")),
};

/// A file.
pub(super) struct Asset {
    media_type: &'static str,
    content: &'static str,
    url: LazyLock<String>,
}

impl Asset {
    /// The URL that pages load it from.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    fn versioned(&self, path: &str) -> String {
        let hash = Sha256::digest(self.content.as_bytes());
        let version: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("{path}?v={version}")
    }

    /// The answer that sends the file.
    pub(super) fn answer(&self) -> HttpResponse {
        HttpResponse::Ok()
            .insert_header((header::CONTENT_TYPE, self.media_type))
            .insert_header((header::CACHE_CONTROL, "public, max-age=86400"))
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
