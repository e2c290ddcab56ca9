//! The page index of a deployed process: its settings, and how to connect to it.
//!
//! The index is in Redis. The programs do not need to know that: they name this crate, and call
//! what `page-index` offers. The index in the memory of `pagemark up` is not behind this crate,
//! because nothing deployed may contain it (ADR 52, `deny.toml`).

pub use redis_index::{RedisIndexConfig as PageIndexSettings, connect};
