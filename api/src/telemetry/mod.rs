//! What the service counts and measures: requests, calls of the stores, and the answers of the page
//! index. `operations` shows it.

pub(crate) mod cost;
pub(crate) mod index_watch;
pub(crate) mod metrics;
pub(crate) mod series;

/// The paths of health checks and metrics. They are answered under any load, and logged only at
/// debug level. The series do not count them.
const OPERATIONAL_PATHS: [&str; 3] = ["/livez", "/readyz", "/metrics"];

pub(crate) fn is_operational(path: &str) -> bool {
    OPERATIONAL_PATHS.contains(&path)
}
