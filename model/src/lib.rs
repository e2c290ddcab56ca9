//! What Pagemark's data means: ids, filters, keys, items, page arithmetic, and the plans of what to write.
//!
//! **Invariant:** nothing here does I/O, reads a clock or draws randomness. Everything is a function of its
//! arguments and is tested as data. The words are those of ARCHITECTURE.md.

mod blob;
pub mod catalogue;
mod comment;
mod error;
mod filter;
mod id;
mod instant;
pub mod item;
pub mod journal;
mod language;
#[cfg(test)]
mod outside_text;
mod page;
pub mod plan;
mod rating;
pub mod record;
mod revision;
pub mod size;
pub mod visible;

pub use blob::{BlobFormat, CommentBlob};
pub use comment::{Cd, Comment, CommentText, Placement};
pub use error::{InvalidInput, Malformed};
pub use filter::{ANY, BaseSet, Filter, FilterKey};
pub use id::{CommentId, ProductId};
pub use instant::Instant;
pub use language::Language;
pub use page::{Order, PageNumber, PageSize};
pub use rating::{Rating, RatingSet};
pub use revision::Revision;
