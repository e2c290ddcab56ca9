//! The place of a page in its listing: how it is found and written, and the page bar.

use model::Order;

use super::{
    address::Address,
    page_bar::{BarItem, page_bar},
};
use crate::{
    read::{page::ListingPage, place::Place},
    texts::Interface,
};

impl Place {
    /// A full page links to the next one if the table has more comments. The total may not reach that page yet, because its
    /// comments still wait for their ranks.
    pub(super) fn of(address: &Address, listing: &ListingPage) -> Self {
        if address.cursor.is_some() {
            return Self::Unknown;
        }
        let size = address.query.page_size;
        let leads_on = listing.comments.len() >= usize::from(size.get()) && listing.next.is_some();
        let mut place = Self::numbered(address.number, address.is_stable(), size, listing);
        if let Self::Counted { number, total_pages: Some(total_pages) } = &mut place
            && leads_on
        {
            *total_pages = (*total_pages).max(*number + 1);
        }
        place
    }

    /// The page bar, in the order in which a reader turns the pages.
    pub(super) fn bar(self, t: &Interface, address: &Address) -> Vec<BarItem> {
        let (archived, current) = match self {
            Self::Counted { number, total_pages } => {
                let numbered = |number| BarItem::numbered(t, number, address.numbered(number));
                return total_pages.map(|pages| page_bar(number, pages, numbered)).unwrap_or_default();
            }
            Self::Front { archived } => (archived.unwrap_or(0), 1),
            Self::Archive { number, archived } => (archived, (archived + 2).saturating_sub(number)),
            Self::Unknown => {
                let end = match address.query.order {
                    Order::Newest => "newest",
                    Order::Oldest => "oldest",
                };
                return vec![BarItem::named(t.text(end).into_owned(), address.page(None))];
            }
        };
        page_bar(current, archived + 1, |place| match place {
            1 => BarItem::named(t.text("newest").into_owned(), address.page(None)),
            place => BarItem::numbered(t, archived + 2 - place, address.numbered(archived + 2 - place)),
        })
    }

    /// The greatest number that leads to a page; `None` when the listing has one page, or nobody knows how many.
    pub(super) fn last_number(self) -> Option<u64> {
        let pages = match self {
            Self::Unknown => return None,
            Self::Counted { total_pages, .. } => total_pages?,
            // The number after the last archive page leads to the front page.
            Self::Front { archived } => archived? + 1,
            Self::Archive { archived, .. } => archived + 1,
        };
        (pages > 1).then_some(pages)
    }

    /// "page 7", if the page is not the first; "continued" if its number is unknown.
    pub(super) fn number(self, t: &Interface) -> Option<String> {
        let number = match self {
            Self::Unknown => return Some(t.text("continued").into_owned()),
            Self::Counted { number, .. } => Some(number).filter(|number| *number > 1),
            Self::Front { .. } => None,
            Self::Archive { number, .. } => Some(number),
        };
        number.map(|number| t.page("page-number", number))
    }

    /// "page 7 of 614", if there are several pages and this one has a number.
    pub(super) fn of_all(self, t: &Interface) -> Option<String> {
        let (number, pages) = match self {
            Self::Counted { number, total_pages } => (number, total_pages?),
            Self::Front { .. } | Self::Unknown => return None,
            Self::Archive { number, archived } => (number, archived + 1),
        };
        (pages > 1).then(|| t.with("page-of-pages", [("page", number.into()), ("pages", pages.into())]))
    }

    /// How many comments are on the pages that are counted before this one, if that is known.
    pub(super) fn before(self, address: &Address) -> Option<u64> {
        let size = u64::from(address.query.page_size.get());
        match self {
            Self::Counted { number, .. } | Self::Archive { number, .. } => Some((number - 1) * size),
            Self::Front { .. } => Some(0),
            Self::Unknown => None,
        }
    }
}
