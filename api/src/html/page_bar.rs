//! The pages at the foot of a page: first, neighbours, last, and gaps between them.

use super::words::grouped;

/// How many pages are shown on each side of the current one.
const NEIGHBOURS: u64 = 2;

/// A page, or, without a URL, a gap.
pub(super) struct BarItem {
    pub(super) label: String,
    /// Whether the label is the page's number.
    pub(super) is_number: bool,
    pub(super) href: Option<String>,
    pub(super) current: bool,
}

impl BarItem {
    /// A page with this number.
    pub(super) fn numbered(number: u64, href: Option<String>) -> Self {
        Self { label: grouped(number), is_number: true, href, current: false }
    }

    /// A page with this name.
    pub(super) fn named(name: &str, href: String) -> Self {
        Self { label: name.to_owned(), is_number: false, href: Some(href), current: false }
    }
}

/// The items of the pages, which have the places 1 to `pages`, and gaps, in order. A listing of one page has none.
pub(super) fn page_bar(current: u64, pages: u64, item: impl Fn(u64) -> BarItem) -> Vec<BarItem> {
    let items = places(current, pages).into_iter().map(|place| match place {
        Some(place) => BarItem { current: place == current, ..item(place) },
        None => BarItem { label: "…".to_owned(), is_number: false, href: None, current: false },
    });
    items.collect()
}

/// The places to show; `None` stands for a gap of two or more.
fn places(current: u64, pages: u64) -> Vec<Option<u64>> {
    if pages < 2 {
        return Vec::new();
    }
    // A gap of one page would take no less room than its number.
    let from = match current.saturating_sub(NEIGHBOURS) {
        0..=3 => 1,
        from => from,
    };
    let to = match current.saturating_add(NEIGHBOURS) {
        to if pages.saturating_sub(to) <= 2 => pages,
        to => to,
    };
    let mut places = Vec::new();
    if from > 1 {
        places.extend([Some(1), None]);
    }
    places.extend((from..=to).map(Some));
    if to < pages {
        places.extend([None, Some(pages)]);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_stands_for_two_or_more_pages() {
        for (current, pages, expected) in [
            (1, 1, ""),
            (1, 4, "1 2 3 4"),
            (1, 5, "1 2 3 4 5"),
            (1, 6, "1 2 3 … 6"),
            (5, 9, "1 2 3 4 5 6 7 8 9"),
            (6, 11, "1 … 4 5 6 7 8 … 11"),
            (392_716, 392_716, "1 … 392714 392715 392716"),
        ] {
            let text = |place: Option<u64>| place.map_or("…".to_owned(), |place| place.to_string());
            let shown: Vec<String> = places(current, pages).into_iter().map(text).collect();
            assert_eq!(shown.join(" "), expected);
        }
    }
}
