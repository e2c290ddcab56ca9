//! The tables and statements of PostgreSQL and SQLite.
//!
//! One index serves all statements on comments: a union of ratings is filtered without reading the
//! table.
//!
//! **Counted blocks** find a comment shortly before a page and skip few rows from there. Every
//! comment of a listing belongs to a block of up to about 1,000 consecutive ones. A block stores
//! its newest key and its number of comments. A running sum from the newest block finds the block
//! of a page. Each of the 32 listings of a comment needs its own blocks, and each write must keep
//! their counts right in its transaction. That is not timed here.

use anyhow::Context;
use model::{
    Cd, Comment, CommentId, CommentText, Filter, Language, ProductId, Rating, Revision, SiteData,
    Status, Timestamp,
};
use strum::VariantArray;

use crate::listing::{ExpectedListing, PAGE_SIZE, drawn};

pub(super) const CREATE_TABLE: &str = "CREATE TABLE comment (
    id text NOT NULL, product text NOT NULL, language text NOT NULL, rating smallint NOT NULL,
    created_ms bigint NOT NULL, revision text NOT NULL, title text, body text NOT NULL, author text)";

/// Created after loading. SQLite's indexes have no columns besides those of their order. The index
/// of blocks also has their counts, so that the running sum reads it alone.
pub(super) const CREATE_INDEXES: &str = "
    CREATE UNIQUE INDEX comment_id ON comment (id);
    CREATE INDEX comment_newest ON comment (product, created_ms DESC, id DESC, rating);
    CREATE TABLE block (listing text NOT NULL, comments bigint NOT NULL, created_ms bigint NOT NULL, id text NOT NULL);
    CREATE INDEX block_newest ON block (listing, created_ms DESC, id DESC, comments)";

pub(super) const INSERT_BLOCK: &str = "INSERT INTO block VALUES ($1, $2, $3, $4)";

/// Finds the block of a page. The parameters are the listing and the number of comments before the
/// page. The columns are its newest comment's time and id, and the number of newer comments.
pub(super) const FIND_BLOCK: &str = "
    SELECT created_ms, id, newer FROM (
        SELECT created_ms, id, comments, CAST(sum(comments) OVER (
            ORDER BY created_ms DESC, id DESC ROWS UNBOUNDED PRECEDING) AS bigint) - comments AS newer
        FROM block WHERE listing = $1) AS running
    WHERE newer + comments > $2 ORDER BY created_ms DESC, id DESC LIMIT 1";

/// Comments of a block. The running sum reads a row for each block: 1,000 in a product of a million
/// comments. A page then skips half a block on average.
pub(super) const BLOCK: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, VariantArray)]
pub(super) enum Paging {
    #[strum(to_string = "OFFSET")]
    Offset,
    #[strum(to_string = "counted blocks")]
    Blocks,
}

impl Paging {
    /// The parameters are the product; then the time and id of a block's first comment; then the
    /// number of rows to skip.
    pub(super) fn statement(self, filter: &Filter) -> String {
        const COLUMNS: &str =
            "id, product, language, rating, created_ms, revision, title, body, author";
        const NEWEST_FIRST: &str = "ORDER BY created_ms DESC, id DESC";
        let ratings = match filter.ratings() {
            Some(ratings) => {
                let ratings: Vec<&str> = ratings.iter().map(Rating::as_str).collect();
                format!(" AND rating IN ({})", ratings.join(", "))
            }
            None => String::new(),
        };
        let (from, offset) = match self {
            Self::Offset => ("", "$2"),
            Self::Blocks => (" AND (created_ms, id) <= ($2, $3)", "$4"),
        };
        let of = format!("FROM comment WHERE product = $1{ratings}{from}");
        format!("SELECT {COLUMNS} {of} {NEWEST_FIRST} LIMIT {PAGE_SIZE} OFFSET {offset}")
    }
}

pub(super) fn skip(page: u64) -> anyhow::Result<i64> {
    Ok(i64::try_from((page - 1) * PAGE_SIZE as u64)?)
}

pub(super) fn drawn_in_time(comments: u32) -> anyhow::Result<Vec<Comment>> {
    let mut drawn = drawn(comments)?.collect::<anyhow::Result<Vec<_>>>()?;
    drawn.sort_by_key(Comment::cd);
    Ok(drawn)
}

/// Full blocks, from the oldest comment; the newest block has the rest. Each is its number of
/// comments and its newest one.
pub(super) fn blocks(listing: &ExpectedListing) -> anyhow::Result<Vec<(i64, &Cd)>> {
    let (_, comments) = listing.around(1);
    let mut blocks = Vec::new();
    for block in comments.rchunks(BLOCK) {
        let (newest, _) = block.first().context("a comment")?;
        blocks.push((i64::try_from(block.len())?, newest));
    }
    Ok(blocks)
}

pub(super) struct SqlComment<'row> {
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

impl SqlComment<'_> {
    /// Converts the row with the rules for reading an item of the table: every field is checked.
    pub(super) fn into_comment(self) -> anyhow::Result<Comment> {
        Ok(Comment {
            id: CommentId::parse(self.id)?,
            product: ProductId::parse(self.product)?,
            language: Language::parse(self.language)?,
            rating: Rating::new(u64::try_from(self.rating)?)?,
            created_at: Timestamp::from_epoch_ms(self.created_ms)?,
            status: Status::Published,
            revision: Revision::parse(self.revision)?,
            text: CommentText {
                title: self.title.map(str::to_owned),
                body: Some(self.body.to_owned()),
                author: self.author.map(str::to_owned),
            },
            site: SiteData::default(),
        })
    }
}
