//! What operators use: health checks, metrics, and a log line for each request.

pub(crate) mod access;
pub(crate) mod health;
pub(crate) mod scrape;

use actix_web::web;

use crate::http::routing::{get, not_allowed};

/// Registers the paths that [`is_operational`](crate::telemetry::is_operational) knows.
pub(crate) fn configure(config: &mut web::ServiceConfig) {
    let mut resource = |path: &str, route: actix_web::Route| {
        config.service(
            web::resource(path)
                .route(route)
                .default_service(not_allowed("GET, HEAD")),
        );
    };
    resource("/livez", get().to(health::livez));
    resource("/readyz", get().to(health::readyz));
    resource("/metrics", get().to(scrape::metrics));
}
