//! The head of a page and its header `Link`, for browsers and search engines.
//!
//! **Invariant:** URLs are absolute only where the formats require it: the canonical URL, structured data, sitemaps,
//! and `Link`.

use super::script_json::ScriptJson;
use crate::{links, site::Site};

/// The head of a page.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) title: String,
    pub(super) description: Option<String>,
    /// The permissions for search engines. They may always follow links.
    pub(super) robots: &'static str,
    /// The absolute URL of the page itself; `None` for error pages.
    pub(super) canonical: Option<String>,
    pub(super) neighbours: Neighbours,
    pub(super) structured_data: Option<ScriptJson>,
}

/// Path and query of other pages of the same listing. The first and last page are known when the total is known.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    pub(super) first: Option<String>,
    pub(super) prev: Option<String>,
    pub(super) next: Option<String>,
    pub(super) last: Option<String>,
}

impl Head {
    /// The head of a page at a path.
    pub(super) fn new(site: &Site, path: &str, title: String, may_index: bool) -> Self {
        let robots = if may_index { "index,follow" } else { "noindex,follow" };
        Self { canonical: Some(site.public_url.join(path)), robots, ..Self::uncanonical(title) }
    }

    /// The head of a page without a canonical address, which search engines may not index.
    pub(super) fn uncanonical(title: String) -> Self {
        Self {
            title,
            description: None,
            robots: "noindex,follow",
            canonical: None,
            neighbours: Neighbours::default(),
            structured_data: None,
        }
    }

    /// The header `Link` (RFC 8288). The canonical URL comes first (RFC 6596).
    pub(super) fn link_header(&self, site: &Site) -> Option<String> {
        let canonical = self.canonical.clone()?;
        let Neighbours { first, prev, next, last } = &self.neighbours;
        let others = [("first", first), ("prev", prev), ("next", next), ("last", last)];
        let others = others.into_iter().filter_map(|(rel, path)| Some((rel, site.public_url.join(path.as_ref()?))));
        Some(links::link_header([("canonical", canonical)].into_iter().chain(others)))
    }
}
