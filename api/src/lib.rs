//! The HTTP service: the JSON API under `/api/v1` and the pages of comments for people.
//!
//! | room | what it holds |
//! | --- | --- |
//! | `settings`, `secrets`, `callers`, `site` | the flags and variables of the process, its secrets, who may write, the public address |
//! | `look` | the site's own style sheet, header and footer, from a folder |
//! | `application` | binds, serves, stops |
//! | `service` | what requests share, and the layers that each one passes, in order |
//! | `http` | the server, its connections, and the layers |
//! | `json`, `html` | the two forms of answers: the JSON API with its description and all writes, the pages with their sitemap |
//! | `read` | one page of comments, by number or by cursor: plan, page index, table; the walk over all products |
//! | `store` | the clients of table and page index; every call is measured |
//! | `texts` | the texts of pages, in the languages of the interface |
//! | `telemetry` | what is counted and measured, below `store` |
//! | `operations` | health, metrics and access logs for operators, above it |
//! | [`links`], `listing`, `error`, `entity_tag` | every URL that the service gives out; what a page is a page of; all errors and their HTTP statuses; validators |
//!
//! **Invariant:** a part that is down never causes a 404. If a store does not answer, or the index
//! is not ready, everything that needs it is 503.
//!
//! **Invariant:** every request is answered, also when a handler panics (`http::load`).
//!
//! **Invariant:** nothing waits or grows without bound: requests (`http::load`), bodies
//! (`http::body`), the memory of answers (`http::answer_memory`), and every wait on a connection
//! (`http::connection`).

mod application;
mod callers;
mod entity_tag;
mod error;
mod html;
mod http;
mod json;
pub mod links;
mod listing;
mod look;
mod operations;
mod read;
mod secrets;
mod service;
mod settings;
mod site;
mod store;
mod telemetry;
#[cfg(test)]
mod tests;
mod texts;

pub use application::{Application, StartError, in_process};
pub use look::LookError;
pub use secrets::{BearerToken, CursorKey, NamedToken, TokenHash, TokenName, TokenScope};
pub use settings::{ApiSettings, REQUEST_TIMEOUT, Settings, WritingSettings};
pub use site::{Indexable, PastTheEnd, PublicUrl, SiteSettings, UnknownProducts};
pub use telemetry::series::{PROCESS, Series};
pub use texts::InterfaceLanguage;
