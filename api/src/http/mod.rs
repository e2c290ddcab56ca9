//! What surrounds every request: the server, its connections, and the layers between a connection
//! and a handler.
//!
//! - `server`: accepts connections. `connection`: reads requests and sends answers, within bounds.
//! - The layers around all handlers: `base_path`, `cross_origin`, `load`, `answer_memory`.
//!   [`crate::service`] lists them in order.
//! - The layer around some resources: `caching`, with `compression`. `routing` registers such
//!   resources.
//! - For handlers: `path_and_query`, `body`, `asset`, `audience`, `error_page`.

pub(crate) mod answer_memory;
pub(crate) mod asset;
pub(crate) mod audience;
pub(crate) mod base_path;
pub(crate) mod body;
pub(crate) mod caching;
pub(crate) mod compression;
pub(crate) mod connection;
pub(crate) mod cross_origin;
pub(crate) mod error_page;
pub(crate) mod load;
pub(crate) mod path_and_query;
pub(crate) mod routing;
pub(crate) mod server;
