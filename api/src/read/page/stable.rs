//! Pages in stable numbering (`model::StablePages`), newest first.
//!
//! **An archive page** has the comments with its ranks in the oldest-first listing, turned around. Only settled comments
//! count: those older than `PAGEMARK_ARCHIVE_AFTER`. So a comment that gets its rank late does not change the page.
//!
//! **The front page** shows what the archive pages leave, also comments without a rank. It never shows more than
//! [`front_max`]. If more belong to it, it leads on by cursor.

use model::{Order, PageNumber, PageSize, StablePages};
use page_index::Ranked;

use super::{
    ListingPage, Plan,
    join::{Joined, Ranks},
};
use crate::{
    error::ApiError,
    read::{
        ListingQuery,
        cursor::{Cursor, Direction},
    },
    store::StoreClients,
};

pub(super) fn front_max(size: PageSize) -> u16 {
    2 * u16::from(size.get()) - 1
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ArchivePage<'query> {
    pub(super) query: &'query ListingQuery,
    pub(super) number: PageNumber,
}

impl ArchivePage<'_> {
    pub(super) async fn read(&self, stores: &StoreClients, ranked: &Ranked) -> Result<Option<ListingPage>, ApiError> {
        match self.plan(ranked) {
            Ok(Some(plan)) => Ok(Some(self.cut(ranked, plan.read(stores, self.query).await?))),
            Ok(None) => Ok(None),
            Err(error) => Err(self.query.past_the_end(stores, None, ranked.all, error).await),
        }
    }

    /// `None` when the number leads to the front page.
    ///
    /// # Errors
    /// [`ApiError::PastTheArchive`].
    fn plan<'page>(&self, ranked: &'page Ranked) -> Result<Option<Plan<'page>>, ApiError> {
        let pages = |total| StablePages::new(total, self.query.page_size);
        let (page, archived) = (self.number.get(), pages(ranked.settled).archived());
        if page > archived {
            let is_ahead = pages(ranked.all).numbered(self.number).is_some();
            return if is_ahead { Ok(None) } else { Err(ApiError::PastTheArchive { page, archived }) };
        }
        let comments = &ranked.comments;
        let ranks = Ranks {
            order: Order::Oldest,
            comments,
            end: comments.last(),
            as_of: None,
            max: self.query.page_size.get().into(),
            shows_unranked: false,
        };
        Ok(Some(Plan { ranks, start: comments.first().and_then(|first| first.just_before()) }))
    }

    fn cut(&self, ranked: &Ranked, mut joined: Joined) -> ListingPage {
        joined.comments.reverse();
        let older = joined.first.filter(|_| self.number != PageNumber::FIRST);
        ListingPage {
            total: Some(ranked.settled),
            settled: Some(ranked.settled),
            next: older.map(|at| Cursor { direction: Direction::Forward, at }),
            prev: joined.last.map(|at| Cursor { direction: Direction::Backward, at }),
            has_empty_places: joined.has_empty_places,
            ..ListingPage::of(joined.comments)
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct FrontPage<'query> {
    pub(super) query: &'query ListingQuery,
}

impl FrontPage<'_> {
    pub(super) async fn read(&self, stores: &StoreClients, ranked: &Ranked) -> Result<ListingPage, ApiError> {
        Ok(self.cut(ranked, self.plan(ranked).read(stores, self.query).await?))
    }

    fn archived(&self, ranked: &Ranked) -> u64 {
        let size = self.query.page_size;
        StablePages::new(ranked.settled, size).archived() * u64::from(size.get())
    }

    /// Whether more comments with ranks belong to the page than it may show.
    fn is_too_long(&self, ranked: &Ranked) -> bool {
        ranked.all.saturating_sub(self.archived(ranked)) > front_max(self.query.page_size).into()
    }

    fn plan<'page>(&self, ranked: &'page Ranked) -> Plan<'page> {
        let max = usize::from(front_max(self.query.page_size));
        let on_front = ranked.all.saturating_sub(self.archived(ranked));
        let shown = usize::try_from(on_front).unwrap_or(max).min(max).min(ranked.comments.len());
        let (comments, archived) = ranked.comments.split_at(shown);
        let end = if self.is_too_long(ranked) { comments.last() } else { archived.first() };
        let ranks = Ranks { order: Order::Newest, comments, end, as_of: None, max, shows_unranked: true };
        Plan { ranks, start: None }
    }

    fn cut(&self, ranked: &Ranked, joined: Joined) -> ListingPage {
        let archived = self.archived(ranked);
        let continues_by_cursor = joined.is_cut || self.is_too_long(ranked);
        let leads_on = continues_by_cursor || archived > 0;
        ListingPage {
            // The page index may be a moment behind, but the shown comments exist.
            total: Some(ranked.all.max(archived + joined.comments.len() as u64)),
            settled: Some(ranked.settled),
            next: joined.last.filter(|_| leads_on).map(|at| Cursor { direction: Direction::Forward, at }),
            continues_by_cursor,
            has_empty_places: joined.has_empty_places,
            ..ListingPage::of(joined.comments)
        }
    }
}
