//! What readers are promised: which comments a page shows, in which order, while anything lags or
//! fails.

mod backends;
mod behind;
mod by_rating;
mod embed;
pub(crate) mod ordering;
mod outage;
mod pages;
mod readiness;
pub(crate) mod selection;
mod serving;
mod turning;
mod walks;
mod web_caches;
