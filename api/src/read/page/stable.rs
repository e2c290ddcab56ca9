//! Pages in stable numbering (`model::StablePages`), newest first.
//!
//! **An archive page** has the comments of the page with its number in the oldest-first listing. So it is read like that
//! one, with the same rules for its end and for differences between ranks and table, and then turned around.
//!
//! **The front page** shows what the archive pages leave: the table's comments that are newer than the newest archived
//! one. The ranks say only which comment that is. So a comment without a rank shifts nothing, and neither does a rank
//! whose comment is missing. While there is no archive page, every comment of the table belongs to the front page. It
//! never shows more than [`front_max`]. If more belong to it, the oldest of them are on no numbered page until the
//! newest have their ranks. Then the front page leads on by cursor, which skips none.
//!
//! **Invariant:** the front page is empty only when the table has no comment. Where it has only archived ones, it shows
//! the newest of those.

use model::{Cd, Order, PageNumber, PageSize, StablePage, StablePages};
use table::Page;

use super::{Found, ListingPage, NumberedPage, Row, drift_sign, last, listing_page};
use crate::{
    error::ApiError,
    ops::metrics::DriftSign,
    read::{ListingQuery, cursor::Cursor},
    store::StoreClients,
};

/// A page of a listing in stable numbering. The query's order is newest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StablyNumberedPage<'query> {
    pub(crate) query: &'query ListingQuery,
    pub(crate) number: Option<PageNumber>,
}

impl StablyNumberedPage<'_> {
    pub(crate) fn comments_max(&self) -> u16 {
        let size = self.query.page_size;
        if self.number.is_some() { size.get().into() } else { front_max(size) }
    }

    /// Reads the page. `None` when its number leads to the front page, because too few comments are newer.
    ///
    /// # Errors
    /// Past the end; the page index is needed and unavailable, or behind; the table's.
    pub(crate) async fn read(&self, stores: &StoreClients) -> Result<Option<ListingPage>, ApiError> {
        match self.number {
            Some(number) => self.read_archive(number, stores).await,
            None => self.read_front(stores).await.map(Some),
        }
    }

    async fn read_archive(&self, number: PageNumber, stores: &StoreClients) -> Result<Option<ListingPage>, ApiError> {
        let oldest_first = ListingQuery { order: Order::Oldest, ..self.query.clone() };
        let page = NumberedPage { query: &oldest_first, number, as_of: None };
        let start = stores.page_start(&page.page_start()).await.ok_or(ApiError::IndexUnavailable)?;
        let pages = |total| StablePages::new(total, self.query.page_size);
        match pages(start.total).numbered(number) {
            Some(StablePage::Front) => return Ok(None),
            Some(StablePage::Archive(_)) => {}
            None => {
                let total_pages = pages(start.total).count();
                let past_the_end = ApiError::PastTheEnd { page: number.get(), total_pages };
                return Err(in_stable_numbering(page.unless_behind(stores, start.total, past_the_end).await));
            }
        }
        let listing = page.read_at(stores, Some(&start)).await.map_err(in_stable_numbering)?;
        // The ranks may have promised comments that do not exist.
        let is_archived = |total| matches!(pages(total).numbered(number), Some(StablePage::Archive(_)));
        Ok(listing.total.is_some_and(is_archived).then(|| turned(listing)))
    }

    async fn read_front(&self, stores: &StoreClients) -> Result<ListingPage, ApiError> {
        let Self { query, .. } = self;
        let size = query.page_size;
        let ranks = self.front_ranks(stores).await?;
        let page = stores.page(&query.page_query(Order::Newest, front_max(size) + 1, None)).await?;
        let found = shown_on_front(page, size, ranks.as_ref());
        let mut pages = ranks.map(|ranks| (ranks.total, StablePages::new(ranks.total, size)));
        if let Some((total, of_ranks)) = pages {
            let promised = of_ranks.on_front();
            let shown = found.comments().count() as u64;
            if found.is_cut && shown < promised {
                return Err(ApiError::NotYetListed);
            }
            if let Some(sign) = drift_sign(promised, &found) {
                stores.count_drift_sign(sign);
                if sign == DriftSign::EmptyPage {
                    let newest = NumberedPage { query, number: PageNumber::FIRST, as_of: None };
                    let total = newest.existing_total(stores, total).await?;
                    pages = Some((total, StablePages::new(total, size)));
                }
            }
        }
        cut_front(pages, size, found)
    }

    /// What the ranks say about the front page; `None` when the page index is unavailable.
    async fn front_ranks(&self, stores: &StoreClients) -> Result<Option<FrontRanks>, ApiError> {
        let Self { query, .. } = self;
        let Some(start) = stores.page_start(&query.page_start(0, None)).await else { return Ok(None) };
        let total = start.total;
        let archived = StablePages::new(total, query.page_size).archived() * u64::from(query.page_size.get());
        if archived == 0 {
            return Ok(Some(FrontRanks { total, newest_archived: None }));
        }
        let oldest_first = ListingQuery { order: Order::Oldest, ..self.query.clone() };
        let Some(front) = stores.page_start(&oldest_first.page_start(archived, None)).await else { return Ok(None) };
        // Without it, a page of ranks has disappeared since the first call.
        let newest_archived = front.before.ok_or(ApiError::NotYetListed)?;
        Ok(Some(FrontRanks { total, newest_archived: Some(newest_archived) }))
    }
}

#[derive(Debug)]
struct FrontRanks {
    /// Number of ranked comments, on all pages.
    total: u64,
    /// The newest comment of the archive pages; `None` when there is no such page.
    newest_archived: Option<Cd>,
}

fn in_stable_numbering(error: ApiError) -> ApiError {
    if let ApiError::PastTheEnd { page, total_pages } = error {
        ApiError::PastTheArchive { page, archived: total_pages.saturating_sub(1) }
    } else {
        error
    }
}

fn front_max(size: PageSize) -> u16 {
    2 * u16::from(size.get()) - 1
}

fn shown_on_front(page: Page, size: PageSize, ranks: Option<&FrontRanks>) -> Found {
    // Without the index, the end of the archive is unknown. Every front page shows as many as an archive page, or all.
    let Some(ranks) = ranks else { return Found::new(page, size.get().into(), None) };
    let max = usize::from(front_max(size));
    // The row after the last one may be the first archived one, which ends the page.
    let mut found = Found::new(page, max + 1, None);
    let is_archived =
        |row: &Row| row.cd().zip(ranks.newest_archived.as_ref()).is_some_and(|(cd, newest)| cd <= *newest);
    let end = match found.rows.iter().position(is_archived) {
        None => {
            let more = found.more || found.rows.len() > max;
            found.rows.truncate(max);
            return Found { more, ..found };
        }
        // The table has only archived comments.
        Some(0) => usize::from(size.get()),
        Some(end) => end,
    };
    found.rows.truncate(end);
    Found { more: false, is_cut: false, ..found }
}

/// Makes the front page from the table's answer. `pages` are the number of ranked comments and their pages, if known.
fn cut_front(pages: Option<(u64, StablePages)>, size: PageSize, found: Found) -> Result<ListingPage, ApiError> {
    let shown = found.len();
    let Found { rows, more, .. } = found;
    if pages.is_none() && rows.is_empty() {
        return Err(ApiError::IndexUnavailable);
    }
    let archived = pages.map_or(0, |(_, pages)| pages.archived());
    // The page index may be a moment behind, but the shown comments exist. They are too few for another archive page.
    let total = pages.map(|(total, _)| total.max(archived * u64::from(size.get()) + shown));
    let next = if more || archived > 0 { last(&rows) } else { None };
    let listing = listing_page(rows, total, next, None);
    // The archive begins further on, so its pages would skip some.
    Ok(ListingPage { continues_by_cursor: listing.continues_by_cursor || more, ..listing })
}

/// The same page from its other end. Page numbers of stable numbering refer to no instant.
fn turned(mut listing: ListingPage) -> ListingPage {
    listing.comments.reverse();
    let turned = |cursor: Cursor| Cursor { direction: cursor.direction.reversed(), ..cursor };
    ListingPage { next: listing.prev.map(turned), prev: listing.next.map(turned), as_of: None, ..listing }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{comment, follow, page, query, start, times},
        *,
    };

    fn size(size: u64) -> PageSize {
        PageSize::new(size).unwrap()
    }

    /// The table's answer to the query for a front page, where it has the comments made at these milliseconds.
    fn newest_of(times: impl DoubleEndedIterator<Item = i64>) -> Page {
        Page { comments: times.rev().take(8).map(comment).collect(), ..Page::default() }
    }

    /// The milliseconds of the comments on a front page of size 4. `archived` is that of the newest archived one.
    fn shown(archived: Option<i64>, page: Page) -> Vec<i64> {
        let ranks = FrontRanks { total: 0, newest_archived: archived.map(|ms| comment(ms).cd()) };
        let found = shown_on_front(page, size(4), Some(&ranks));
        found.comments().map(|comment| comment.created_at.epoch_ms()).collect()
    }

    #[test]
    fn the_front_page_begins_where_the_archive_pages_end() {
        assert_eq!(shown(Some(4), newest_of(1..=8)), [8, 7, 6, 5]);
        assert_eq!(shown(Some(4), newest_of(1..=11)), [11, 10, 9, 8, 7, 6, 5]);
        // Where ranks and table disagree, the boundary stays.
        assert_eq!(shown(Some(4), newest_of((1..=10).filter(|ms| *ms != 9))), [10, 8, 7, 6, 5], "9 is not written yet");
        assert_eq!(shown(Some(4), newest_of((1..=8).chain([1_000]))), [1_000, 8, 7, 6, 5], "one in the future");
        assert_eq!(shown(Some(4), newest_of(1..=5)), [5]);
        assert_eq!(shown(Some(4), newest_of(2..=3)), [3, 2], "all newer ones are missing");
        assert_eq!(shown(Some(9), newest_of(1..=9)), [9, 8, 7, 6], "as many as on an archive page");
        assert_eq!(shown(Some(4), newest_of(1..=12)).len(), 7, "as many as there may be");
        assert_eq!(shown(None, newest_of(1..=9)).len(), 7, "without archive pages, whatever the table has");
        let without_index = shown_on_front(newest_of(1..=9), size(4), None);
        assert_eq!((without_index.len(), without_index.more), (4, true));
    }

    #[test]
    fn a_front_page_that_is_cut_off_continues_by_cursor() {
        let front = |archived: Option<i64>, comments: i64, ranked: u64| {
            let ranks = FrontRanks { total: ranked, newest_archived: archived.map(|ms| comment(ms).cd()) };
            let found = shown_on_front(newest_of(1..=comments), size(4), Some(&ranks));
            cut_front(Some((ranked, StablePages::new(ranked, size(4)))), size(4), found).unwrap()
        };
        assert!(!front(Some(4), 11, 11).continues_by_cursor);
        let cut = front(Some(4), 12, 11);
        assert_eq!((cut.continues_by_cursor, times(&cut)), (true, (6..=12).rev().collect()));
        assert_eq!(times(&follow(&query(Order::Newest, 4), cut.next.as_ref().unwrap(), 12)), [5, 4, 3, 2]);
        assert!(front(None, 9, 3).continues_by_cursor && !front(None, 7, 3).continues_by_cursor);
    }

    #[test]
    fn a_front_page_that_misses_promised_comments_is_a_sign_of_drift() {
        let ranks = FrontRanks { total: 9, newest_archived: Some(comment(4).cd()) };
        let sign = |page| drift_sign(5, &shown_on_front(page, size(4), Some(&ranks)));
        assert_eq!(sign(newest_of(1..=9)), None);
        assert_eq!(sign(newest_of(1..=8)), Some(DriftSign::ShortPage));
        assert_eq!(sign(newest_of(1..=10)), Some(DriftSign::Unranked));
        // The answer reached the archive, so its limit cut off nothing of the front page.
        let cut_short = Page { cut_short: true, ..newest_of(3..=6) };
        assert!(!shown_on_front(cut_short, size(4), Some(&ranks)).is_cut);
    }

    #[test]
    fn past_the_end_the_answer_says_which_pages_have_numbers() {
        let text = |total_pages| in_stable_numbering(ApiError::PastTheEnd { page: 9, total_pages }).to_string();
        assert!(
            text(2).contains("the newest numbered page is 1; newer comments are on the page without"),
            "{}",
            text(2)
        );
        assert!(text(1).contains("no page has a number"), "{}", text(1));
    }

    #[test]
    fn cursors_lead_from_an_archive_page_in_both_directions() {
        let (oldest, newest) = (query(Order::Oldest, 4), query(Order::Newest, 4));
        let archive = turned(page(&oldest, 2, None, start(13, Some(4)), 13).unwrap());
        assert_eq!(times(&archive), [8, 7, 6, 5]);
        assert_eq!(times(&follow(&newest, archive.next.as_ref().unwrap(), 13)), [4, 3, 2, 1]);
        assert_eq!(times(&follow(&newest, archive.prev.as_ref().unwrap(), 13)), [12, 11, 10, 9]);
        assert_eq!(turned(page(&oldest, 1, None, start(13, None), 13).unwrap()).next, None);
    }
}
