//! Starts of pages that a database stores in a second table, for each listing. Both ways find a comment at or shortly
//! before the page, and skip few rows from there.
//!
//! - **Anchors**: the key of every 200th comment, with its position. Positions count from the oldest comment, so a new
//!   comment at the front moves no anchor. A page's distance from the front needs the listing's total, which is stored
//!   too.
//! - **Counted blocks**: every comment belongs to a block of up to about 1,000 consecutive ones. A block stores its
//!   newest key and its number of comments. A running sum from the newest block finds the block of a page.
//!
//! What keeps them up to date, in the transaction of the write. A comment is in 32 listings here, and each statement
//! below can serve all of them at once (`WHERE listing IN (…)`):
//!
//! | write | anchors | blocks |
//! | --- | --- | --- |
//! | newest comment | the row, the totals, seldom a new anchor: 2 or 3 statements | the row, the counts of the newest blocks: 2 statements |
//! | comment with an earlier time, or a deletion | the row, the totals, and every newer anchor: its position, or the key at that position. Up to 5,000 rows per listing of a million | the row, the count of its block: 2 statements |
//! | block of twice the size | | read its middle key, insert a block, halve the count: 3 statements |
//!
//! All writes of a listing change one total, or the newest block's count. So they wait for each other's commit.
//! Updates are not timed here.

use model::Cd;

use crate::listing::Listing;

/// Comments from one anchor to the next. Ten pages: a page skips 100 rows on average.
const ANCHOR_EVERY: usize = 200;
/// Comments of a block. The running sum reads a row for each block: 1,000 in a product of a million comments. A page then
/// skips half a block on average.
const BLOCK: usize = 1_000;

/// The index of blocks also has their counts, so that the running sum reads it alone.
pub(super) const CREATE: &str = "
    CREATE TABLE listing_total (listing text PRIMARY KEY, comments bigint NOT NULL);
    CREATE TABLE page_anchor (
        listing text NOT NULL, position bigint NOT NULL, created_ms bigint NOT NULL, id text NOT NULL,
        PRIMARY KEY (listing, position));
    CREATE TABLE block (listing text NOT NULL, comments bigint NOT NULL, created_ms bigint NOT NULL, id text NOT NULL);
    CREATE INDEX block_newest ON block (listing, created_ms DESC, id DESC, comments)";

/// The parameters are the listing and its number of comments.
pub(super) const INSERT_TOTAL: &str = "INSERT INTO listing_total VALUES ($1, $2)";

/// Finds the anchor of a page. The parameters are the listing and the number of comments before the page. The columns
/// are those of [`Start`]. No row: the page begins among the newest comments, which have no anchor yet.
pub(super) const BY_ANCHOR: &str = "
    SELECT created_ms, id, (SELECT comments FROM listing_total WHERE listing = $1) - 1 - position FROM page_anchor
    WHERE listing = $1 AND position >= (SELECT comments FROM listing_total WHERE listing = $1) - 1 - $2
    ORDER BY position LIMIT 1";

/// Finds the block of a page: parameters and columns as for [`BY_ANCHOR`].
pub(super) const BY_BLOCK: &str = "
    SELECT created_ms, id, newer FROM (
        SELECT created_ms, id, comments, CAST(sum(comments) OVER (
            ORDER BY created_ms DESC, id DESC ROWS UNBOUNDED PRECEDING) AS bigint) - comments AS newer
        FROM block WHERE listing = $1) AS running
    WHERE newer + comments > $2 ORDER BY created_ms DESC, id DESC LIMIT 1";

/// A stored comment at or before the first one of a page.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) created_ms: i64,
    pub(super) id: String,
    /// Number of comments before it in the listing.
    pub(super) newer: i64,
}

impl Start {
    /// A position that is newer than any comment.
    pub(super) const FRONT: Self = Self { created_ms: i64::MAX, id: String::new(), newer: 0 };
}

/// A row to store: the position of an anchor, or the number of comments of a block; and the comment's key.
pub(super) type Row<'listing> = (i64, &'listing Cd);

/// The rows of both tables, each with the statement that inserts them. Its parameters are the listing, the number, the
/// comment's time and its id.
pub(super) fn rows(listing: &Listing) -> anyhow::Result<[(&'static str, Vec<Row<'_>>); 2]> {
    let newest_first: Vec<&Cd> = listing.around(1).1.iter().map(|(cd, _)| cd).collect();
    Ok([
        ("INSERT INTO page_anchor VALUES ($1, $2, $3, $4)", anchors(&newest_first)?),
        ("INSERT INTO block VALUES ($1, $2, $3, $4)", blocks(&newest_first)?),
    ])
}

fn anchors<'listing>(newest_first: &[&'listing Cd]) -> anyhow::Result<Vec<Row<'listing>>> {
    let oldest_first = newest_first.iter().rev().enumerate();
    oldest_first.step_by(ANCHOR_EVERY).map(|(position, cd)| Ok((i64::try_from(position)?, *cd))).collect()
}

/// Full blocks, from the oldest comment; the newest block has the rest.
fn blocks<'listing>(newest_first: &[&'listing Cd]) -> anyhow::Result<Vec<Row<'listing>>> {
    let newest = newest_first.rchunks(BLOCK).filter_map(|block| Some((block.len(), *block.first()?)));
    newest.map(|(comments, cd)| Ok((i64::try_from(comments)?, cd))).collect()
}

#[cfg(test)]
mod tests {
    use model::{CommentId, Timestamp};

    use super::*;

    /// Keys whose time is their position from the oldest comment, newest first.
    fn newest_first(comments: i64) -> Vec<Cd> {
        let cd = |position| Cd {
            created_at: Timestamp::from_epoch_ms(position).unwrap(),
            id: CommentId::parse("01J00000000000000000000000").unwrap(),
        };
        (0..comments).rev().map(cd).collect()
    }

    fn numbers(rows: &[Row<'_>]) -> Vec<(i64, i64)> {
        rows.iter().map(|(number, cd)| (*number, cd.created_at.epoch_ms())).collect()
    }

    #[test]
    fn anchors_count_from_the_oldest_comment_so_a_newer_one_moves_none() {
        for comments in [401, 402, 600] {
            let cds = newest_first(comments);
            let anchors = anchors(&cds.iter().collect::<Vec<_>>()).unwrap();
            assert_eq!(numbers(&anchors), [(0, 0), (200, 200), (400, 400)], "{comments}");
        }
    }

    #[test]
    fn blocks_divide_all_comments_and_only_the_newest_is_not_full() {
        let cds = newest_first(2_300);
        let blocks = blocks(&cds.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(numbers(&blocks), [(1_000, 999), (1_000, 1_999), (300, 2_299)]);
    }
}
