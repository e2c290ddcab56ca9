//! Pages in stable numbering (`model::StablePages`), newest first.
//!
//! **An archive page** has the comments of the page with its number in the oldest-first listing. So it is read like that
//! one, with the same rules for its end and for differences between ranks and table, and then turned around.
//!
//! **The front page** shows what the archive pages leave: as many of the newest comments as the ranks say. Comments newer
//! than all ranked ones are shown too. While there is no archive page, every comment of the table belongs to the front
//! page. It never shows more than [`front_max`]. If more belong to it, the oldest of them are on no page until the newest
//! have their ranks. Cursors skip none.

use model::{Comment, Order, PageNumber, PageSize, StablePage, StablePages, Timestamp};
use page_index::PageStart;

use super::{Found, ListingPage, NumberedPage, drift_sign, last, listing_page};
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
    /// `None` for the front page.
    pub(crate) number: Option<PageNumber>,
}

impl StablyNumberedPage<'_> {
    /// The most comments that the page shows.
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
                return Err(page.unless_behind(stores, start.total, past_the_end).await);
            }
        }
        let listing = page.read_at(stores, Some(&start)).await?;
        // The ranks may have promised comments that do not exist.
        let is_archived = |total| matches!(pages(total).numbered(number), Some(StablePage::Archive(_)));
        Ok(listing.total.is_some_and(is_archived).then(|| turned(listing)))
    }

    async fn read_front(&self, stores: &StoreClients) -> Result<ListingPage, ApiError> {
        let Self { query, .. } = self;
        let newest = NumberedPage { query, number: PageNumber::FIRST, as_of: None };
        let start = stores.page_start(&newest.page_start()).await;
        let page = stores.page(&query.page_query(Order::Newest, front_max(query.page_size) + 1, None)).await?;
        let shown = shown_on_front(start.as_ref(), query.page_size, &page.comments, process::now());
        let found = Found::new(page, shown, None);
        let mut pages = start.map(|start| (start.total, StablePages::new(start.total, query.page_size)));
        if let Some((total, of_ranks)) = pages {
            let promised = of_ranks.on_front();
            if found.is_cut && found.len() < promised {
                return Err(ApiError::NotYetListed);
            }
            if let Some(sign) = drift_sign(promised, &found) {
                stores.count_drift_sign(sign);
                if sign == DriftSign::EmptyPage {
                    let total = newest.existing_total(stores, total).await?;
                    pages = Some((total, StablePages::new(total, query.page_size)));
                }
            }
        }
        cut_front(pages, query.page_size, found)
    }
}

/// The most comments that a front page shows.
fn front_max(size: PageSize) -> u16 {
    2 * u16::from(size.get()) - 1
}

/// How many of the newest comments the front page shows.
fn shown_on_front(start: Option<&PageStart>, size: PageSize, newest: &[Comment], now: Timestamp) -> usize {
    let most = usize::from(front_max(size));
    // Without the index, the number of comments is unknown. Every front page shows as many as an archive page, or all.
    let Some(start) = start else { return size.get().into() };
    let pages = StablePages::new(start.total, size);
    if pages.archived() == 0 {
        return most;
    }
    let is_unranked = |comment: &&Comment| start.reached < comment.created_at && comment.created_at <= now;
    let unranked = newest.iter().filter(is_unranked).count();
    usize::try_from(pages.on_front()).unwrap_or(most).saturating_add(unranked).min(most)
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
    Ok(listing_page(rows, total, next, None))
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
        super::tests::{at, comment, follow, page, query, start, times},
        *,
    };

    fn size(size: u64) -> PageSize {
        PageSize::new(size).unwrap()
    }

    /// How many of the comments made at the milliseconds 1 to `last` the front page shows, of which `total` are ranked.
    fn shown(total: u64, reached: i64, last: i64) -> usize {
        let newest: Vec<Comment> = (1..=last).rev().take(8).map(comment).collect();
        let start = PageStart { reached: at(reached), ..start(total, None).unwrap() };
        shown_on_front(Some(&start), size(4), &newest, at(1_000))
    }

    #[test]
    fn the_front_page_shows_comments_that_have_no_rank_yet() {
        assert_eq!(
            [(8, 8, 8), (9, 9, 9), (11, 11, 11)].map(|(total, reached, last)| shown(total, reached, last)),
            [4, 5, 7]
        );
        assert_eq!(shown(9, 9, 10), 6, "one is unranked");
        assert_eq!(shown(11, 11, 12), 7, "as many as there may be");
        assert_eq!(shown(9, 2_000, 9), 5, "ranked comments dated later than the present do not count twice");
        assert_eq!([shown(3, 3, 3), shown(0, 0, 9)], [7, 7], "without archive pages, whatever the table has");
        assert_eq!(shown_on_front(None, size(4), &[], at(0)), 4);
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
