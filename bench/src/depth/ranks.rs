//! Ranks in a relational table, beside the comments in DynamoDB: an index on filter key and position finds where a page
//! starts, and the page is the same Query as Pagemark's. The statements serve MariaDB and SQLite.
//!
//! The table has a row for each item of the other table: 32 for a comment. A new comment inserts 32 rows by one
//! statement, and a deletion removes them, wherever the comment is in its listings. Nothing else has to be kept up to
//! date, because ranks are counted when they are asked for. So finding a page, and counting, read every row before it.

use crate::listing::PAGE_SIZE;

/// The key is the covering index: in MariaDB it holds the rows themselves.
pub(super) const CREATE_TABLE: &str =
    "CREATE TABLE comment_rank (listing varchar(255) NOT NULL, cd varchar(255) NOT NULL, PRIMARY KEY (listing, cd))";

/// The comment before a page. The parameters are the listing and [`skip`].
pub(super) const BEFORE: &str = "SELECT cd FROM comment_rank WHERE listing = ? ORDER BY cd DESC LIMIT ?, 1";

/// The number of comments of a listing.
pub(super) const COUNT: &str = "SELECT COUNT(*) FROM comment_rank WHERE listing = ?";

/// Number of rows before the comment that precedes a page, counted from 1; `None` for page 1, which no comment precedes.
pub(super) fn skip(page: u64) -> Option<u64> {
    ((page - 1) * PAGE_SIZE as u64).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_comment_before_a_page_is_the_last_of_the_previous_page() {
        assert_eq!([1, 2, 3].map(skip), [None, Some(19), Some(39)]);
    }
}
