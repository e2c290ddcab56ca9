//! The four-index design walks from page to page by its cursors, because it has no other access.
//!
//! Its table holds only the newest comments, as many as a walk reaches in its time. A walk never sees the others, and
//! finding an index entry takes the same time among fewer. Cursors are passed on in memory: the time excludes writing
//! them as text and parsing them.

use anyhow::Context;
use four_index::{Cursor, FourIndexTable, PageQuery, comment_item};
use futures_util::future::LocalBoxFuture;
use itertools::Itertools;
use local_stack::engine::Engine;
use model::{Cd, Comment, PageSize};
use tempfile::TempDir;

use super::race::Walker;
use crate::{
    dataset::drawn,
    filled_stores::{FOUR_INDEX, Import, connect, four_index_table, start_engine},
    listing::{Listing, PAGE_SIZE},
    workload::folder,
};

/// Number of comments that are imported at once.
const CHUNK: usize = 10_000;

/// The design's table, in a separate engine.
pub(super) struct FourIndex {
    table: FourIndexTable,
    engine: Engine,
    /// Number of comments in the table.
    pub(super) comments: u64,
    oldest: Cd,
    _folder: TempDir,
}

impl FourIndex {
    /// Starts an engine and loads a table with the newest of the product's comments, at most `pages_max` pages of them.
    pub(super) async fn fill(comments: u32, pages_max: u64) -> anyhow::Result<Self> {
        let folder = folder()?;
        let file = folder.path().join("table");
        let engine = start_engine(&file).await?;
        open(&engine).await.create().await?;
        let oldest = oldest_of_newest(comments, usize::try_from(pages_max)? * PAGE_SIZE)?;
        let mut import = Import::into_file_of(engine, &file).await?;
        let mut newest = drawn(comments)?.filter_ok(|comment| comment.cd() >= oldest).peekable();
        while newest.peek().is_some() {
            for comment in newest.by_ref().take(CHUNK) {
                import.push(FOUR_INDEX, &comment_item(&comment?))?;
            }
            import.flush()?;
        }
        let (engine, comments) = import.start_engine(&file).await?;
        let table = open(&engine).await.without_costs();
        Ok(Self { table, engine, comments, oldest, _folder: folder })
    }

    /// Number of pages of a listing that are identical to those in a table of all comments.
    pub(super) fn pages(&self, listing: &Listing) -> u64 {
        let is_whole = |page: &u64| listing.page(*page).last().is_some_and(|last| *last >= self.oldest);
        (1..=listing.pages()).take_while(is_whole).last().unwrap_or(0)
    }

    /// A reader that walks from the first page.
    pub(super) async fn walker(&self, listing: &Listing) -> anyhow::Result<FourIndexWalker<'_>> {
        let query = PageQuery {
            product: listing.key.product.clone(),
            filter: listing.key.filter.clone(),
            page_size: PageSize::new(PAGE_SIZE as u64)?,
            // No partition is empty.
            skip_empty: false,
        };
        // The very first request is not timed, like for the other contestants.
        self.table.page(&query, None).await?;
        Ok(FourIndexWalker { table: &self.table, query, cursor: None })
    }

    pub(super) async fn close(self) {
        self.engine.stop().await;
    }
}

async fn open(engine: &Engine) -> FourIndexTable {
    four_index_table(&connect(FOUR_INDEX, &engine.endpoint_url()).await, FOUR_INDEX)
}

/// The oldest of the newest `count` comments, or of all.
fn oldest_of_newest(comments: u32, count: usize) -> anyhow::Result<Cd> {
    let mut cds = drawn(comments)?.map(|comment| Ok(comment?.cd())).collect::<anyhow::Result<Vec<Cd>>>()?;
    let last = count.min(cds.len()).checked_sub(1).context("there are comments")?;
    let (_, oldest, _) = cds.select_nth_unstable_by(last, |a, b| b.cmp(a));
    Ok(oldest.clone())
}

/// A reader that walks from page to page.
pub(super) struct FourIndexWalker<'store> {
    table: &'store FourIndexTable,
    query: PageQuery,
    cursor: Option<Cursor>,
}

impl Walker for FourIndexWalker<'_> {
    fn name(&self) -> &'static str {
        "four indexes, walk by cursor"
    }

    fn next(&mut self) -> LocalBoxFuture<'_, anyhow::Result<Vec<Comment>>> {
        Box::pin(async move {
            let page = self.table.page(&self.query, self.cursor.as_ref()).await?;
            self.cursor = page.next;
            Ok(page.comments)
        })
    }
}
