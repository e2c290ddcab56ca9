//! The position of a page among the pages of its listing, and the pages that it leads to.

use model::{PageNumber, PageSize, StablePages};

use super::page::ListingPage;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PagePosition {
    /// Pages are counted in the order of the listing.
    Counted {
        number: u64,
        /// `None` without the page index.
        total_pages: Option<u64>,
    },
    /// In stable numbering, the page without a number.
    Front {
        archived: Option<u64>,
    },
    Archive {
        number: u64,
        archived: u64,
    },
    /// A page that a cursor leads to. Its position is unknown.
    Unknown,
}

/// Other pages of the same listing. The first and last page are known when the total is known.
#[derive(Debug, Default)]
pub(crate) struct Neighbours<Page = String> {
    pub(crate) first: Option<Page>,
    pub(crate) prev: Option<Page>,
    pub(crate) next: Option<Page>,
    pub(crate) last: Option<Page>,
}

impl<Page> Neighbours<Page> {
    pub(crate) fn and_then<Other>(self, to: impl Fn(Page) -> Option<Other>) -> Neighbours<Other> {
        let Self {
            first,
            prev,
            next,
            last,
        } = self;
        let [first, prev, next, last] = [first, prev, next, last].map(|page| page.and_then(&to));
        Neighbours {
            first,
            prev,
            next,
            last,
        }
    }
}

impl PagePosition {
    /// The position of the page with this number. Without one it is the front page in stable
    /// numbering, and else page 1.
    pub(crate) fn numbered(
        number: Option<PageNumber>,
        is_stable: bool,
        size: PageSize,
        listing: &ListingPage,
    ) -> Self {
        let number = number.map(PageNumber::get);
        if !is_stable {
            let total_pages = listing.total.map(|total| size.total_pages(total));
            return Self::Counted {
                number: number.unwrap_or(1),
                total_pages,
            };
        }
        let archived = listing
            .settled
            .map(|settled| StablePages::new(settled, size).archived());
        match number {
            Some(number) => Self::Archive {
                number,
                archived: archived.unwrap_or(number),
            },
            None => Self::Front { archived },
        }
    }

    /// The neighbours of the page, by their numbers. The front page has none, so it is
    /// `Some(None)`.
    ///
    /// The neighbours of an archive page never change. Its newer neighbour has a number, even while
    /// that number still leads to the front page.
    pub(crate) fn neighbours(self) -> Neighbours<Option<u64>> {
        match self {
            Self::Counted {
                number,
                total_pages: Some(total_pages),
            } => Neighbours {
                first: numbered(1),
                prev: numbered(number.saturating_sub(1)),
                next: if number < total_pages {
                    numbered(number + 1)
                } else {
                    None
                },
                last: numbered(total_pages),
            },
            Self::Front {
                archived: Some(archived),
            } => Neighbours {
                first: Some(None),
                prev: None,
                next: numbered(archived),
                last: numbered(archived.min(1)).or(Some(None)),
            },
            Self::Archive { number, .. } => Neighbours {
                first: Some(None),
                prev: numbered(number + 1),
                next: numbered(number - 1),
                last: numbered(1),
            },
            Self::Counted {
                total_pages: None, ..
            }
            | Self::Front { archived: None }
            | Self::Unknown => Neighbours::default(),
        }
    }
}

/// The neighbour with this number; there is none with the number 0.
fn numbered(number: u64) -> Option<Option<u64>> {
    if number > 0 { Some(Some(number)) } else { None }
}
