//! The position of a page in its listing: how it is found and written, and the page bar.

use super::{
    address::PageAddress,
    page_bar::{BarItem, page_bar},
};
use crate::{
    read::{page::ListingPage, page_position::PagePosition},
    texts::Interface,
};

impl PagePosition {
    /// A full page links to the next one if the table has more comments. The total may not reach
    /// that page yet, because its comments still wait for their ranks.
    pub(super) fn of(address: &PageAddress, listing: &ListingPage) -> Self {
        if address.cursor.is_some() {
            return Self::Unknown;
        }
        let size = address.query.page_size;
        let leads_on = listing.comments.len() >= usize::from(size.get()) && listing.next.is_some();
        let mut position = Self::numbered(address.number, address.is_stable(), size, listing);
        if let Self::Counted {
            number,
            total_pages: Some(total_pages),
        } = &mut position
            && leads_on
        {
            *total_pages = (*total_pages).max(*number + 1);
        }
        position
    }

    /// The number of the page, and that of the pages. The number after the last archive page leads
    /// to the front page.
    fn numbers(self) -> (Option<u64>, Option<u64>) {
        match self {
            Self::Counted {
                number,
                total_pages,
            } => (Some(number), total_pages),
            Self::Front { archived } => (None, archived.map(|archived| archived + 1)),
            Self::Archive { number, archived } => (Some(number), Some(archived + 1)),
            Self::Unknown => (None, None),
        }
    }

    /// The page bar, in the order in which a reader turns the pages.
    pub(super) fn bar(self, address: &PageAddress) -> Vec<BarItem> {
        if self == Self::Unknown {
            let href = address.page(None);
            return vec![BarItem {
                number: None,
                href,
                current: false,
                after_gap: false,
                is_far: false,
            }];
        }
        let (number, pages) = self.numbers();
        let pages = pages.unwrap_or(0);
        let current = match number {
            Some(number) if address.is_stable() => (pages + 1).saturating_sub(number),
            number => number.unwrap_or(1),
        };
        page_bar(current, pages, |position| {
            let number = if !address.is_stable() {
                Some(position)
            } else if position == 1 {
                // The front page.
                None
            } else {
                Some(pages + 1 - position)
            };
            Some((number, address.leading_to(number)?))
        })
    }

    /// The greatest number of a page; `None` when the listing has one page, or nobody knows how many.
    /// The front page has no number.
    pub(super) fn last_number(self) -> Option<u64> {
        match self {
            Self::Counted { total_pages, .. } => total_pages.filter(|pages| *pages > 1),
            Self::Front { archived } => archived.filter(|archived| *archived > 0),
            Self::Archive { archived, .. } => Some(archived),
            Self::Unknown => None,
        }
    }

    /// "page 7", unless it is the page that the listing begins with; "continued" if its number is
    /// unknown.
    pub(super) fn number(self, t: &Interface) -> Option<String> {
        if self == Self::Unknown {
            return Some(t.text("continued").into_owned());
        }
        let (number, _) = self.numbers();
        let number = number.filter(|number| *number > 1 || matches!(self, Self::Archive { .. }));
        Some(t.page("page-number", number?))
    }

    /// "page 7 of 614", if there are several pages and this one has a number. "From the oldest" in
    /// stable numbering, where the newest comments are on the page without a number.
    pub(super) fn of_all(self, t: &Interface) -> Option<String> {
        let (number, _) = self.numbers();
        let pages = self.last_number()?;
        let id = if matches!(self, Self::Archive { .. }) {
            "page-of-archive"
        } else {
            "page-of-pages"
        };
        Some(t.with(id, [("page", number?.into()), ("pages", pages.into())]))
    }

    /// How many comments are on the pages that are counted before this one, if that is known.
    pub(super) fn before(self, address: &PageAddress) -> Option<u64> {
        if self == Self::Unknown {
            return None;
        }
        let (number, _) = self.numbers();
        Some(u64::from(address.query.page_size.get()) * (number.unwrap_or(1) - 1))
    }
}
