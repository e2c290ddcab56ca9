//! The meaning of Pagemark's data: ids, filters, keys, items, page arithmetic, and the plans of
//! writes.
//!
//! **Invariant:** this crate does no I/O, reads no clock and draws no randomness. Everything is a
//! function of its arguments and is tested as data. ARCHITECTURE.md defines the words.

mod blob;
mod comment;
mod documented;
mod error;
mod filter;
mod id;
mod invariant;
pub mod item;
pub mod journal;
mod language;
mod numbering;
mod page;
mod period;
pub mod plan;
pub mod planted;
pub mod product;
mod rating;
mod rating_counts;
pub mod record;
mod revision;
mod serde_text;
mod site_data;
pub mod size;
mod status;
mod strict_text;
#[cfg(test)]
mod tests;
mod timestamp;
pub mod visible;

pub use blob::{BlobFormat, CommentBlob};
pub use comment::{Cd, Comment, CommentText, Placement, RankEntry};
pub use documented::{Documented, Photo, Reply};
pub use error::{InvalidInput, Malformed};
pub use filter::{ANY, BaseSet, Filter, FilterKey};
pub use id::{CommentId, ProductId};
pub use invariant::Invariant;
pub use item::primaries;
pub use language::Language;
pub use numbering::StablePages;
pub use page::{ListingOrder, Order, PageNumber, PageSize};
pub use period::Period;
pub use product::{Gtin, ProductDetails, ProductRecord, WebUrl};
pub use rating::{Rating, RatingSet};
pub use rating_counts::RatingCounts;
pub use revision::Revision;
pub use site_data::{AuthorId, CommentAttributes, SiteData};
pub use status::Status;
pub use timestamp::Timestamp;
