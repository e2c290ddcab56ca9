//! The files that pages load, besides the style sheet, which belongs to the site's look.

use std::sync::LazyLock;

use crate::http::asset::Asset;

pub(super) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("image/svg+xml", "/static/icon.svg", include_str!("../../static/icon.svg")));

/// The web component that shows a fragment. Pages of other sites name it, so its address has no version.
pub(super) static COMPONENT: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("text/javascript; charset=utf-8", "/static/pagemark-comments.js", COMPONENT_SCRIPT));

const COMPONENT_SCRIPT: &str = include_str!("../../static/pagemark-comments.js");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_web_component_has_at_most_4_kilobytes() {
        assert!(COMPONENT_SCRIPT.len() <= 4_000, "{}", COMPONENT_SCRIPT.len());
    }
}
