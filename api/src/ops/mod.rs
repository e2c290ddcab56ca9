//! What operators use.

pub(crate) mod access;
pub(crate) mod cost;
pub(crate) mod health;
pub(crate) mod index_watch;
pub(crate) mod metrics;
pub(crate) mod scrape;
pub(crate) mod series;

use actix_web::web;

use crate::http::routing::{get, not_allowed};

/// The paths that [`configure`] registers. They are answered under any load, and logged only at
/// debug level.
const PATHS: [&str; 3] = ["/livez", "/readyz", "/metrics"];

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

pub(crate) fn is_operational(path: &str) -> bool {
    PATHS.contains(&path)
}
