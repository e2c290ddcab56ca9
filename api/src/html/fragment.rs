//! `/fragment/product/{product}/comments…`: the list of a page of comments without the frame of the
//! page, to be shown inside a page of another site.
//!
//! The layer [`mount`] removes `/fragment` from the path, so the same code answers: the same
//! filters, page numbers, statuses and redirects. All links are absolute and lead to the pages, so
//! that they work wherever the list is shown. The address of a page becomes that of its fragment by
//! `/fragment` in front of its path on the site.

use actix_web::{
    Error, HttpMessage, HttpRequest,
    body::BoxBody,
    dev::{ServiceRequest, ServiceResponse},
    http::header::{HeaderName, HeaderValue},
    middleware::Next,
};

use model::{InvalidInput, PageSize};

use super::address::{Parameters, single};
use crate::{error::ApiError, http::base_path};

const ROOT: &str = "/fragment";

pub(super) const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");
pub(super) const NO_INDEX: HeaderValue = HeaderValue::from_static("noindex");

/// Its first heading is one of this level, unless the page around it needs another one.
const HEADING_LEVEL: u8 = 2;

struct IsFragment;

/// What a fragment shows of its page. The parameters that say so belong to no page, so they change
/// no link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fragment {
    /// The first comments of the page, at most so many, in place of the whole page.
    pub(super) comments_max: Option<PageSize>,
    /// Only the average and the number of comments.
    pub(super) is_summary: bool,
    heading_level: u8,
}

impl Fragment {
    /// What is asked for; `None` if it is the page itself.
    ///
    /// # Errors
    /// Names the parameter that is repeated, or means nothing.
    pub(super) fn of(request: &HttpRequest) -> Result<Option<Self>, ApiError> {
        if !request.extensions().contains::<IsFragment>() {
            return Ok(None);
        }
        let names = ["page_size", "summary", "heading_level"];
        let found = Parameters::read(request.query_string(), names)?;
        let [sizes, summaries, levels] = found.values;
        let comments_max = single("page_size", sizes)?;
        let comments_max = comments_max
            .map(|size| PageSize::parse(&size))
            .transpose()?;
        let is_summary = match single("summary", summaries)?.as_deref() {
            None | Some("false") => false,
            Some("" | "true") => true,
            Some(_) => return Err(ApiError::invalid("summary", "is neither true nor false")),
        };
        let heading_level = match single("heading_level", levels)? {
            Some(level) => parse_level(&level)?,
            None => HEADING_LEVEL,
        };
        Ok(Some(Self {
            comments_max,
            is_summary,
            heading_level,
        }))
    }

    /// Whether it shows less than the list of the page.
    pub(super) fn is_part(self) -> bool {
        self.comments_max.is_some() || self.is_summary
    }

    /// The level of a heading that has this one on the page; `None` if it is the same.
    pub(super) fn level(self, on_page: u8) -> Option<u8> {
        let level = on_page - HEADING_LEVEL + self.heading_level;
        Some(level).filter(|level| *level != on_page)
    }
}

/// Two more levels are below the first heading, and HTML has six.
fn parse_level(text: &str) -> Result<u8, InvalidInput> {
    match text {
        "1" => Ok(1),
        "2" => Ok(2),
        "3" => Ok(3),
        "4" => Ok(4),
        _ => Err(InvalidInput::new(
            "heading_level",
            "is not 1 to 4".to_owned(),
        )),
    }
}

pub(super) async fn mount(
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    base_path::remove(&mut request, ROOT);
    request.extensions_mut().insert(IsFragment);
    let mut answer = next.call(request).await?;
    base_path::lead(answer.headers_mut(), ROOT);
    Ok(answer)
}

pub(super) fn is_path(path: &str) -> bool {
    path.strip_prefix(ROOT)
        .is_some_and(|rest| rest.starts_with('/'))
}
