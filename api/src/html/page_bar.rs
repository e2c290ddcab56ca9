//! The page numbers at the foot of a page: first, neighbours, last, and gaps between them.

use model::PageNumber;

use super::{address::Address, words::grouped};

/// How many pages are shown on each side of the current one.
const NEIGHBOURS: u64 = 2;

/// The page numbers of a listing.
pub(super) struct PageBar {
    /// The previous page.
    pub(super) prev: Option<String>,
    /// The next page.
    pub(super) next: Option<String>,
    /// Numbers and gaps, in order.
    pub(super) items: Vec<BarItem>,
}

/// A number, or, without a URL, a gap.
pub(super) struct BarItem {
    pub(super) label: String,
    pub(super) href: Option<String>,
    pub(super) current: bool,
}

impl PageBar {
    /// The bar at an address of a listing of `total_pages` pages; none when there is only one.
    pub(super) fn new(address: &Address, total_pages: u64) -> Option<Self> {
        if total_pages < 2 {
            return None;
        }
        let current = address.number.get();
        let href = |number: u64| PageNumber::new(number).ok().map(|number| address.page(number));
        let items = numbers(current, total_pages).into_iter().map(|number| match number {
            Some(number) => BarItem { label: grouped(number), href: href(number), current: number == current },
            None => BarItem { label: "…".to_owned(), href: None, current: false },
        });
        Some(Self {
            prev: current.checked_sub(1).filter(|prev| *prev > 0).and_then(href),
            next: Some(current + 1).filter(|next| *next <= total_pages).and_then(href),
            items: items.collect(),
        })
    }
}

/// The numbers to show; `None` stands for a gap of two or more.
fn numbers(current: u64, total_pages: u64) -> Vec<Option<u64>> {
    let from = current.saturating_sub(NEIGHBOURS).max(1);
    let to = current.saturating_add(NEIGHBOURS).min(total_pages);
    let mut numbers = Vec::new();
    match from {
        0 | 1 => {}
        2 => numbers.push(Some(1)),
        3 => numbers.extend([Some(1), Some(2)]),
        _ => numbers.extend([Some(1), None]),
    }
    numbers.extend((from..=to).map(Some));
    match total_pages.saturating_sub(to) {
        0 => {}
        1 => numbers.push(Some(total_pages)),
        2 => numbers.extend([Some(total_pages - 1), Some(total_pages)]),
        _ => numbers.extend([None, Some(total_pages)]),
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::page::ListingQuery;
    use model::{Filter, Order, PageSize, ProductId};

    fn shown(current: u64, total_pages: u64) -> String {
        let text = |number: Option<u64>| number.map_or("…".to_owned(), |number| number.to_string());
        numbers(current, total_pages).into_iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_gap_stands_for_two_or_more_pages() {
        assert_eq!(shown(1, 1), "1");
        assert_eq!(shown(1, 4), "1 2 3 4");
        assert_eq!(shown(1, 5), "1 2 3 4 5");
        assert_eq!(shown(1, 6), "1 2 3 … 6");
        assert_eq!(shown(5, 9), "1 2 3 4 5 6 7 8 9");
        assert_eq!(shown(6, 11), "1 … 4 5 6 7 8 … 11");
        assert_eq!(shown(392_716, 392_716), "1 … 392714 392715 392716");
    }

    #[test]
    fn the_first_page_has_no_number_in_its_url() {
        let at = |order, number| {
            let (product, page_size) = (ProductId::parse("p").unwrap(), PageSize::default());
            let query = ListingQuery { product, filter: Filter::ANY, order, page_size };
            Address { query, number: PageNumber::new(number).unwrap() }
        };
        let bar = PageBar::new(&at(Order::Newest, 2), 3).unwrap();
        assert_eq!(bar.prev.as_deref(), Some("/product/p/comments"));
        assert_eq!(bar.next.as_deref(), Some("/product/p/comments?page=3"));
        let bar = PageBar::new(&at(Order::Oldest, 2), 3).unwrap();
        assert_eq!(bar.prev.as_deref(), Some("/product/p/comments?order=oldest"));
        assert_eq!(bar.next.as_deref(), Some("/product/p/comments?order=oldest&page=3"));
        assert!(PageBar::new(&at(Order::Newest, 1), 1).is_none());
    }
}
