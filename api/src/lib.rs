//! The HTTP service: the JSON API under `/api/v1` and the pages of comments for people.
//!
//! - [`Settings`]: what the process is told by flags and variables; [`ApiSettings`]: what the service needs.
//! - [`Application`]: binds, serves, stops.
//! - `listing`: one page of comments, by number or by cursor; used by the JSON API and the pages.
//! - `routes`: the JSON API; `pages`: HTML.
//! - `openapi`: the description of the JSON API.
//! - `operations`: health, metrics, access logs, and the bound on requests under way.
//! - [`links`]: every URL that the service gives out.
//! - `sitemap`: the sitemap and `robots.txt`.
//! - `site`: the address that the site is known by, and what search engines are told.
//! - `error`: every error there is, and the only place that knows HTTP statuses.
//!
//! **Invariant:** a reader is never told that something does not exist because a part is down: whatever needs a store
//! that does not answer, or an index that is not ready, is 503.
//!
//! **Invariant:** whatever a request holds, it is answered; also when a handler panics (`panics`).
//!
//! **Invariant:** no request waits without bound (`deadline`), no body is read without bound (`body`), and no more
//! requests than a bound are under way (`operations::load`), until their answers are whole (`compression`). What answers hold in
//! memory until they are taken has a bound (`answers`), and so has every phase of a connection (`connection`, `server`). A body is asked
//! for when it is read (`expectation`), and what comes after the last answer of a connection is not processed (`last_answer`).

mod answers;
mod application;
mod auth;
mod body;
mod caching;
mod compression;
mod conditional;
mod connection;
mod cross_origin;
mod cursor;
mod deadline;
mod error;
mod expectation;
mod index_watch;
mod last_answer;
pub mod links;
mod listing;
mod openapi;
mod operations;
#[cfg(test)]
mod outside_text;
mod pages;
mod panics;
mod per_thread;
mod request;
mod routes;
mod server;
mod settings;
mod site;
mod sitemap;
mod state;
mod table_id;

pub use application::{Application, StartError};
pub use deadline::REQUEST_TIMEOUT;
pub use settings::{ApiSettings, CursorKey, Settings, WriteToken, WriteTokenHash};
pub use site::{Indexable, PastTheEnd, PublicUrl, SiteArgs, SiteSettings};
