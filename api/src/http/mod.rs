//! What surrounds every request: the server, its connections, and the layers between a connection and a handler.
//!
//! - `server`: actix's server with bounded connections (`connection`); a body is requested when it is read
//!   (`expectation`).
//! - The layers, which [`crate::service`] lists in their order: `connection::follow`, `cross_origin`, `load`,
//!   `answer_memory`, `deadline`, `panics`; and of some resources, `compression` and `caching` with `entity_tag`.
//! - What handlers use: `path_and_query`, `body`, `routing`, `audience`.

pub(crate) mod answer_memory;
pub(crate) mod audience;
pub(crate) mod body;
pub(crate) mod caching;
pub(crate) mod compression;
pub(crate) mod connection;
pub(crate) mod cross_origin;
pub(crate) mod deadline;
pub(crate) mod entity_tag;
mod expectation;
pub(crate) mod load;
pub(crate) mod panics;
pub(crate) mod path_and_query;
pub(crate) mod routing;
pub(crate) mod server;
