//! What a benchmark of another design needs of this service, so that both make the same page of the same comments, and
//! answer through the same layers. Nothing that is deployed uses it.
//!
//! The other design has no page index, so its pages have no numbers to be found by: a link leads on to the next one. All
//! else is the same: the template, structured data, entity tags, compression, the bounds of requests, the access log.

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

/// A Redis server that nobody asks: no part of such a page comes from there.
const NO_REDIS: &str = "redis://127.0.0.1:1";

/// What another design has read for a page.
#[derive(Debug)]
pub struct ComparedPage {
    /// Whose comments.
    pub product: ProductId,
    /// Which of them.
    pub filter: Filter,
    /// How many pages it took to get here, this one included.
    pub number: PageNumber,
    /// The comments, newest first.
    pub comments: Vec<Comment>,
    /// How many there are that the filter matches.
    pub total: u64,
    /// How many there are otherwise.
    pub stats: Stats,
    /// Where the next page is: a path and query.
    pub next: Option<String>,
}

/// The product and the filter that the address of a page names, as the service itself reads them.
///
/// # Errors
/// The address of no page.
pub fn read_address(request: &HttpRequest) -> Result<(ProductId, Filter), actix_web::Error> {
    Ok(compared::read_address(request).map_err(PageError::from)?)
}

/// The page as the service itself shows it.
///
/// # Errors
/// A mistake of ours.
pub fn answer(request: &HttpRequest, page: ComparedPage) -> Result<HttpResponse, actix_web::Error> {
    Ok(compared::answer(request, page)?)
}

/// A store's failure, as the service answers it.
pub fn unavailable(error: stores::StoreError) -> actix_web::Error {
    PageError::from(ApiError::from(error)).into()
}

/// Serves a route at an address, with entity tags and compression, as the service's own pages are served.
pub fn serve(config: &mut web::ServiceConfig, path: &str, route: Route) {
    pages::serve(config, path, route);
}

/// The service with other pages than its own, which `configure` registers on each of its threads; `table` is only
/// described.
///
/// # Errors
/// The address is in use, or cannot be listened at.
pub fn application(
    listen: SocketAddr,
    table: Table,
    settings: ApiSettings,
    configure: impl Fn(&mut web::ServiceConfig) + Clone + Send + 'static,
) -> Result<Application, StartError> {
    let index = PageIndex::connect(&PageIndexConfig::new(NO_REDIS.to_owned()))?;
    Application::with_pages(listen, table, index, settings, configure)
}
