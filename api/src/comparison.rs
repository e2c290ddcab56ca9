//! Entry points for a benchmark of another design. Both designs then render the same page of the same comments and
//! answer through the same layers. Nothing deployed uses this module.
//!
//! The other design has no page index, so its pages have no numbers, and each page links only to the next one.
//! Everything else is identical: the template, structured data, entity tags, compression, request limits and the access
//! log.

use std::net::SocketAddr;

use actix_web::{HttpRequest, HttpResponse, Route, web};
use model::{Comment, Filter, PageNumber, ProductId};
use stores::{
    PageIndex, Table,
    page_index::{PageIndexConfig, Stats},
};

use crate::{
    ApiSettings, Application, StartError,
    error::{ApiError, PageError},
    pages::{self, compared},
};

/// A Redis address that is never contacted: such a page needs no Redis.
const NO_REDIS: &str = "redis://127.0.0.1:1";

/// A page that another design has read.
#[derive(Debug)]
pub struct ComparedPage {
    /// The product of the comments.
    pub product: ProductId,
    /// The filter of the listing.
    pub filter: Filter,
    /// How many pages were read to get here, including this one.
    pub number: PageNumber,
    /// The comments, newest first.
    pub comments: Vec<Comment>,
    /// Number of comments that match the filter.
    pub total: u64,
    /// The product's other counts.
    pub stats: Stats,
    /// Path and query of the next page.
    pub next: Option<String>,
}

/// The product and filter in a page address, parsed like the service's pages.
///
/// # Errors
/// When the address belongs to no page.
pub fn read_address(request: &HttpRequest) -> Result<(ProductId, Filter), actix_web::Error> {
    Ok(compared::read_address(request).map_err(PageError::from)?)
}

/// The page, rendered like the service's pages.
///
/// # Errors
/// When rendering fails, which is a bug.
pub fn answer(request: &HttpRequest, page: ComparedPage) -> Result<HttpResponse, actix_web::Error> {
    Ok(compared::answer(request, page)?)
}

/// A store error, answered like the service's errors.
pub fn unavailable(error: stores::StoreError) -> actix_web::Error {
    PageError::from(ApiError::from(error)).into()
}

/// Serves a route at an address with entity tags and compression, like the service's pages.
pub fn serve(config: &mut web::ServiceConfig, path: &str, route: Route) {
    pages::serve(config, path, route);
}

/// The service with other pages, which `configure` registers on each of its threads. `table` is only described.
///
/// # Errors
/// When the service cannot listen on the address, for example because it is in use.
pub fn application(
    listen: SocketAddr,
    table: Table,
    settings: ApiSettings,
    configure: impl Fn(&mut web::ServiceConfig) + Clone + Send + 'static,
) -> Result<Application, StartError> {
    let index = PageIndex::connect(&PageIndexConfig::new(NO_REDIS.to_owned()))?;
    Application::with_pages(listen, table, index, settings, configure)
}
