//! Pages that explain an error, and the links that lead on from there.

use actix_web::http::StatusCode;
use askama::Template;
use model::{Filter, PageNumber};

use super::{
    address::Address,
    head::{Head, Robots},
};
use crate::error::ApiError;

/// What a reader can do about an error.
#[derive(Debug, Default)]
pub(crate) struct Help {
    /// A hint at what works meanwhile.
    meanwhile: Option<&'static str>,
    links: Vec<HelpLink>,
}

#[derive(Debug)]
struct HelpLink {
    label: String,
    href: String,
}

impl Help {
    /// The links that lead on from a page of comments that cannot be shown.
    pub(super) fn for_page(address: &Address, error: &ApiError) -> Self {
        let mut help = Self::default();
        let mut lead = |label: &str, href: String| help.links.push(HelpLink { label: label.to_owned(), href });
        let first = || address.page(PageNumber::FIRST);
        let is_filtered = address.query.filter != Filter::ANY;
        if let ApiError::PastTheEnd { total_pages, .. } = error {
            if let Ok(last) = PageNumber::new(*total_pages)
                && last > PageNumber::FIRST
            {
                lead(&format!("The last page, page {last}"), address.page(last));
            }
            lead("Page 1", first());
        } else {
            lead("Try again", address.canonical());
        }
        if let ApiError::NotYetListed = error
            && address.number > PageNumber::FIRST
        {
            lead("Page 1", first());
        }
        if let ApiError::IndexUnavailable = error {
            if address.number > PageNumber::FIRST {
                lead(&format!("Page 1, with the {} comments", address.query.order), first());
            }
            help.meanwhile = Some(match address.number {
                PageNumber::FIRST => {
                    "No comments were found here, but whether there are none cannot be told at the moment. \
                     Pages with comments can be read meanwhile."
                }
                _ => "Only the numbering of pages is missing at the moment. Page 1 can be read meanwhile.",
            });
        }
        if is_filtered {
            help.links.push(HelpLink {
                label: "All comments on this product".to_owned(),
                href: address.listing_page(&Filter::ANY, PageNumber::FIRST),
            });
        }
        help
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

/// The page that explains an error.
pub(crate) fn error_page(status: StatusCode, detail: &str, help: &Help) -> String {
    let heading = match status {
        StatusCode::BAD_REQUEST => "There is a mistake in this address",
        StatusCode::NOT_FOUND => "There is no such page",
        StatusCode::SERVICE_UNAVAILABLE => "This page is away for a moment",
        other => other.canonical_reason().unwrap_or("Error"),
    };
    let head = Head::uncanonical(heading.to_owned(), Robots::NoIndex);
    // Rendering text into text does not fail; if it did, the status would still say what happened.
    ErrorPage { head, heading, detail, help }.render().unwrap_or_default()
}
