//! The tables and statements of PostgreSQL and SQLite. They are identical except for the syntax of an index's further
//! columns.
//!
//! One index serves all statements on comments. [`super::starts`] has the tables of stored starts. It holds the product's comments in order, and the rating, so that a union of
//! ratings is filtered without reading the table. The table has no index that these statements do not use. The creation
//! time is a number of milliseconds, with eight bytes like a timestamp.

use anyhow::Context;
use model::{
    Cd, Comment, CommentId, CommentText, Filter, Language, ProductId, Rating, Revision, SiteData, Status, Timestamp,
};
use strum::VariantArray;

use super::starts::{BY_ANCHOR, BY_BLOCK};
use crate::listing::PAGE_SIZE;

pub(super) const CREATE_TABLE: &str = "CREATE TABLE comment (
    id text NOT NULL, product text NOT NULL, language text NOT NULL, rating smallint NOT NULL,
    created_ms bigint NOT NULL, revision text NOT NULL, title text, body text NOT NULL, author text)";

/// The key, created after loading.
pub(super) const CREATE_KEY: &str = "CREATE UNIQUE INDEX comment_id ON comment (id)";

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, VariantArray)]
pub(super) enum Way {
    /// `LIMIT` and `OFFSET`, as in most programs: page N from its number.
    #[strum(to_string = "OFFSET")]
    Offset,
    /// `LIMIT` and `OFFSET` on the index alone, which yields 20 ids, and then their rows: page N from its number.
    #[strum(to_string = "OFFSET on the index")]
    Deferred,
    /// The rows after a known comment: page N from the last comment of page N-1. Only a reader of that page knows it.
    #[strum(to_string = "keyset, start known")]
    Keyset,
    /// A stored anchor, and `OFFSET` from there: page N from its number.
    #[strum(to_string = "stored anchors")]
    Anchors,
    /// A block of comments, found by stored counts, and `OFFSET` within: page N from its number.
    #[strum(to_string = "counted blocks")]
    Blocks,
}

impl Way {
    /// The parameters are the product; then the time and id of the comment before the page, or of a stored start; then
    /// the number of rows to skip.
    pub(super) fn statement(self, filter: &Filter) -> String {
        const COLUMNS: &str = "id, product, language, rating, created_ms, revision, title, body, author";
        const NEWEST_FIRST: &str = "ORDER BY created_ms DESC, id DESC";
        let of = matching(filter);
        match self {
            Self::Offset => format!("SELECT {COLUMNS} {of} {NEWEST_FIRST} LIMIT {PAGE_SIZE} OFFSET $2"),
            Self::Deferred => format!(
                "SELECT {COLUMNS} FROM comment WHERE id IN \
                 (SELECT id {of} {NEWEST_FIRST} LIMIT {PAGE_SIZE} OFFSET $2) {NEWEST_FIRST}"
            ),
            Self::Keyset => {
                format!("SELECT {COLUMNS} {of} AND (created_ms, id) < ($2, $3) {NEWEST_FIRST} LIMIT {PAGE_SIZE}")
            }
            Self::Anchors | Self::Blocks => format!(
                "SELECT {COLUMNS} {of} AND (created_ms, id) <= ($2, $3) {NEWEST_FIRST} LIMIT {PAGE_SIZE} OFFSET $4"
            ),
        }
    }

    /// The statement that finds the stored start of a page, for the ways that have one.
    pub(super) fn start(self) -> Option<&'static str> {
        match self {
            Self::Anchors => Some(BY_ANCHOR),
            Self::Blocks => Some(BY_BLOCK),
            Self::Offset | Self::Deferred | Self::Keyset => None,
        }
    }
}

/// The number of comments, as a page bar needs it. The parameter is the product.
pub(super) fn count(filter: &Filter) -> String {
    format!("SELECT count(*) {}", matching(filter))
}

fn matching(filter: &Filter) -> String {
    let ratings = filter.ratings().map_or(String::new(), |ratings| {
        let ratings: Vec<&str> = ratings.iter().map(Rating::as_str).collect();
        format!(" AND rating IN ({})", ratings.join(", "))
    });
    format!("FROM comment WHERE product = $1{ratings}")
}

/// Number of rows before a page, counted from 1.
pub(super) fn skip(page: u64) -> anyhow::Result<i64> {
    Ok(i64::try_from((page - 1) * PAGE_SIZE as u64)?)
}

/// Time and id of the comment before a page. For the first page: a position newer than any comment.
pub(super) fn after(before: Option<&Cd>) -> (i64, &str) {
    before.map_or((i64::MAX, ""), |cd| (cd.created_at.epoch_ms(), cd.id.as_str()))
}

#[derive(Debug)]
pub(super) struct Row<'row> {
    pub(super) id: &'row str,
    pub(super) product: &'row str,
    pub(super) language: &'row str,
    pub(super) rating: i16,
    pub(super) created_ms: i64,
    pub(super) revision: &'row str,
    pub(super) title: Option<&'row str>,
    pub(super) body: &'row str,
    pub(super) author: Option<&'row str>,
}

impl Row<'_> {
    /// Converts the row with the rules for reading an item of the table: every field is checked.
    pub(super) fn into_comment(self) -> anyhow::Result<Comment> {
        Ok(Comment {
            id: CommentId::parse(self.id)?,
            product: ProductId::parse(self.product)?,
            language: Language::parse(self.language)?,
            rating: Rating::new(u64::try_from(self.rating)?)?,
            created_at: Timestamp::from_epoch_ms(self.created_ms)?,
            status: Status::Published,
            revision: Revision::parse(self.revision).context("a row's revision")?,
            text: CommentText {
                title: self.title.map(str::to_owned),
                body: self.body.to_owned(),
                author: self.author.map(str::to_owned),
            },
            site: SiteData::default(),
        })
    }
}
