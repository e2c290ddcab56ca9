//! The four-index design walks from page to page by its cursors, because it has no other access.
//!
//! Its table holds only the newest comments, as many as a walk reaches in its time. A walk never sees the others, and
//! finding an index entry takes the same time among fewer. Cursors are passed on in memory: the time excludes writing
//! them as text and parsing them.

use std::time::Duration;

use anyhow::Context;
use four_index::{PageQuery, comment_item};
use itertools::Itertools;
use model::{Cd, PageSize};

use super::race::{Walk, walk};
use crate::{
    dataset::drawn,
    filled_stores::{FOUR_INDEX, Import, TableOnEngine, four_index_table},
    listing::{Listing, PAGE_SIZE},
};

/// The design's table, in a separate engine.
pub(super) struct FourIndex {
    store: TableOnEngine,
    pub(super) comments: usize,
    oldest: Cd,
}

impl FourIndex {
    /// Starts an engine and loads a table with the newest of the product's comments, at most `pages_max` pages of them.
    pub(super) async fn fill(comments: u32, pages_max: u64) -> anyhow::Result<Self> {
        let store = TableOnEngine::start(FOUR_INDEX).await?;
        four_index_table(&store.table, FOUR_INDEX).create().await?;
        let oldest = oldest_of_newest(comments, usize::try_from(pages_max)? * PAGE_SIZE)?;
        let mut import = Import::into(store).await?;
        for comment in drawn(comments)?.filter_ok(|comment| comment.cd() >= oldest) {
            import.push(FOUR_INDEX, &comment_item(&comment?))?;
        }
        let (store, comments) = import.finish().await?;
        Ok(Self { store, comments, oldest })
    }

    /// Number of pages of a listing that are identical to those in a table of all comments.
    fn pages(&self, listing: &Listing) -> u64 {
        let is_whole = |page: &u64| listing.page(*page).last().is_some_and(|last| *last >= self.oldest);
        (1..=listing.pages()).take_while(is_whole).last().unwrap_or(0)
    }

    pub(super) async fn walk(&self, listing: &Listing, time: Duration) -> anyhow::Result<Walk> {
        let query = PageQuery {
            product: listing.key.product.clone(),
            filter: listing.key.filter.clone(),
            page_size: PageSize::new(PAGE_SIZE as u64)?,
            // No partition is empty.
            skip_empty: false,
        };
        let table = four_index_table(&self.store.table, FOUR_INDEX).without_costs();
        // The very first request is not timed, like for the other contestants.
        table.page(&query, None).await?;
        let mut cursor = None;
        walk("four indexes, walk by cursor", listing, self.pages(listing), time, async || {
            let page = table.page(&query, cursor.as_ref()).await?;
            cursor = page.next;
            Ok(page.comments)
        })
        .await
    }

    pub(super) async fn close(self) {
        self.store.engine.stop().await;
    }
}

/// The oldest of the newest `count` comments, or of all.
fn oldest_of_newest(comments: u32, count: usize) -> anyhow::Result<Cd> {
    let mut cds = drawn(comments)?.map(|comment| Ok(comment?.cd())).collect::<anyhow::Result<Vec<Cd>>>()?;
    let last = count.min(cds.len()).checked_sub(1).context("there are comments")?;
    let (_, oldest, _) = cds.select_nth_unstable_by(last, |a, b| b.cmp(a));
    Ok(oldest.clone())
}
