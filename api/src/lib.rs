//! The HTTP service: the JSON API under `/api/v1` and the pages of comments for people.
//!
//! - [`Settings`]: the flags and variables of the process; [`ApiSettings`]: what the service needs.
//! - [`Application`]: binds, serves, stops.
//! - `listing`: one page of comments, by number or by cursor; used by the JSON API and the pages.
//! - `routes`: the JSON API; `pages`: HTML.
//! - `openapi`: the description of the JSON API.
//! - `operations`: health, metrics, access logs, and the bound on requests under way.
//! - [`links`]: every URL that the service gives out.
//! - `sitemap`: the sitemap and `robots.txt`.
//! - `site`: the public address of the site, and which pages search engines may index.
//! - `error`: all errors, and the only place that knows HTTP statuses.
//!
//! **Invariant:** a part that is down never causes a 404. If a store does not answer, or the index is not ready,
//! everything that needs it is 503.
//!
//! **Invariant:** every request is answered, also when a handler panics (`panics`).
//!
//! **Invariant:** no request waits without bound (`deadline`), and no body is read without bound (`body`). The number
//! of requests under way is bounded (`operations::load`), until their answers are whole (`compression`). The memory of
//! answers that are not yet taken is bounded (`answers`), and so is every phase of a connection (`connection`,
//! `server`). A body is requested when it is read (`expectation`). Requests after the last answer of a connection are
//! not processed (`last_answer`).

mod application;
mod error;
mod html;
mod http;
mod json;
pub mod links;
mod ops;
#[cfg(test)]
mod outside_text;
mod read;
mod secrets;
mod service;
mod settings;
mod site;
mod store;

pub use application::{Application, StartError};
pub use secrets::{CursorKey, WriteToken, WriteTokenHash};
pub use settings::{ApiSettings, REQUEST_TIMEOUT, Settings};
pub use site::{Indexable, PastTheEnd, PublicUrl, SiteArgs, SiteSettings};
