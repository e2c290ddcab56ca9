//! What operators use: health checks, metrics, and a log line for each request.

pub(crate) mod access;
pub(crate) mod health;
pub(crate) mod scrape;

use actix_web::web;

use crate::http::routing::{get, not_allowed, options};

/// Registers the paths that [`is_operational`](crate::telemetry::is_operational) knows.
pub(crate) fn configure(config: &mut web::ServiceConfig) {
    let livez = web::resource("/livez")
        .route(get().to(health::livez))
        .route(options().to(health::livez));
    let readyz = web::resource("/readyz")
        .route(get().to(health::readyz))
        .route(options().to(health::readyz));
    for health in [livez, readyz] {
        config.service(health.default_service(not_allowed("GET, HEAD, OPTIONS")));
    }
    let metrics = web::resource("/metrics").route(get().to(scrape::metrics));
    config.service(metrics.default_service(not_allowed("GET, HEAD")));
}
