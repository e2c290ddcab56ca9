//! The middleware around every request, and the server that runs it.

pub(crate) mod answers;
pub(crate) mod caching;
pub(crate) mod compression;
pub(crate) mod connection;
pub(crate) mod cross_origin;
pub(crate) mod deadline;
pub(crate) mod expectation;
pub(crate) mod last_answer;
pub(crate) mod load;
pub(crate) mod panics;
pub(crate) mod server;
