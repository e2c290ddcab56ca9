//! The head of a page with what all pages share, and the header `Link`.
//!
//! **Invariant:** URLs are absolute only where the formats require it: the canonical URL,
//! structured data, sitemaps, and `Link`.

use model::WebUrl;

use super::script_json::ScriptJson;
use crate::{links, read::page_position::Neighbours, site::Site};

#[derive(Debug)]
pub(super) struct Head<'page> {
    pub(super) site: &'page Site,
    /// What templates put in front of every address on the site: the base path, or in fragments the
    /// public URL.
    pub(super) base: String,
    pub(super) title: String,
    pub(super) description: Option<String>,
    /// Whether search engines may index the page. They may always follow its links.
    pub(super) may_index: bool,
    /// The absolute URL of the page itself; `None` for error pages and forms.
    pub(super) canonical: Option<String>,
    /// Their paths and queries.
    pub(super) neighbours: Neighbours,
    /// A picture of what the page is about, for the page and for links to it.
    pub(super) picture: Option<WebUrl>,
    pub(super) structured_data: Option<ScriptJson>,
    pub(super) feed: Option<(String, String)>,
}

impl<'page> Head<'page> {
    /// The head of a page without an address of its own, such as an error.
    pub(super) fn new(site: &'page Site, title: String) -> Self {
        Self {
            site,
            base: site.public_url.base_path.clone(),
            title,
            description: None,
            may_index: false,
            canonical: None,
            neighbours: Neighbours::default(),
            picture: None,
            structured_data: None,
            feed: None,
        }
    }

    pub(super) fn of_page(site: &'page Site, path: &str, title: String, may_index: bool) -> Self {
        Self {
            may_index,
            canonical: Some(site.public_url.join(path)),
            ..Self::new(site, title)
        }
    }

    /// The header `Link` (RFC 8288). The canonical URL comes first (RFC 6596).
    pub(super) fn link_header(&self) -> Option<String> {
        let canonical = self.canonical.clone()?;
        let Neighbours {
            first,
            prev,
            next,
            last,
        } = &self.neighbours;
        let others = [
            ("first", first),
            ("prev", prev),
            ("next", next),
            ("last", last),
        ];
        let others = others
            .into_iter()
            .filter_map(|(rel, path)| Some((rel, self.site.public_url.join(path.as_ref()?))));
        Some(links::link_header(
            [("canonical", canonical)].into_iter().chain(others),
        ))
    }
}
