//! The page numbers at the foot of a page: first, neighbours, last, and gaps between them.

use model::PageNumber;

use super::{address::Address, words::grouped};

/// How many pages are shown on each side of the current one.
const NEIGHBOURS: u64 = 2;

/// A number, or, without a URL, a gap.
pub(super) struct BarItem {
    pub(super) label: String,
    pub(super) href: Option<String>,
    pub(super) current: bool,
}

/// The numbers and gaps, in order. A listing of one page has none.
pub(super) fn page_bar(address: &Address, total_pages: u64) -> Vec<BarItem> {
    let current = address.number.get();
    let href = |number: u64| PageNumber::new(number).ok().map(|number| address.page(number));
    let items = numbers(current, total_pages).into_iter().map(|number| match number {
        Some(number) => BarItem { label: grouped(number), href: href(number), current: number == current },
        None => BarItem { label: "…".to_owned(), href: None, current: false },
    });
    items.collect()
}

/// The numbers to show; `None` stands for a gap of two or more.
fn numbers(current: u64, total_pages: u64) -> Vec<Option<u64>> {
    if total_pages < 2 {
        return Vec::new();
    }
    // A gap of one page would take no less room than its number.
    let from = match current.saturating_sub(NEIGHBOURS) {
        0..=3 => 1,
        from => from,
    };
    let to = match current.saturating_add(NEIGHBOURS) {
        to if total_pages.saturating_sub(to) <= 2 => total_pages,
        to => to,
    };
    let mut numbers = Vec::new();
    if from > 1 {
        numbers.extend([Some(1), None]);
    }
    numbers.extend((from..=to).map(Some));
    if to < total_pages {
        numbers.extend([None, Some(total_pages)]);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_stands_for_two_or_more_pages() {
        for (current, total_pages, expected) in [
            (1, 1, ""),
            (1, 4, "1 2 3 4"),
            (1, 5, "1 2 3 4 5"),
            (1, 6, "1 2 3 … 6"),
            (5, 9, "1 2 3 4 5 6 7 8 9"),
            (6, 11, "1 … 4 5 6 7 8 … 11"),
            (392_716, 392_716, "1 … 392714 392715 392716"),
        ] {
            let text = |number: Option<u64>| number.map_or("…".to_owned(), |number| number.to_string());
            let shown: Vec<String> = numbers(current, total_pages).into_iter().map(text).collect();
            assert_eq!(shown.join(" "), expected);
        }
    }
}
