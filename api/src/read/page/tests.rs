//! Pages cut from the table's answers, over comments made at the milliseconds 1 to `last`.

use super::*;
use model::{CommentText, Filter, Language, Malformed, PageSize, ProductId, Rating, Revision, SiteData, Status};
use table::MalformedItem;

fn whole(comments: Vec<Comment>) -> Page {
    Page { comments, ..Page::default() }
}

pub(super) fn query(order: Order, size: u64) -> ListingQuery {
    let product = ProductId::parse("p").unwrap();
    ListingQuery { product, filter: Filter::ANY, order, page_size: PageSize::new(size).unwrap() }
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_epoch_ms(ms).unwrap()
}

pub(super) fn comment(ms: i64) -> Comment {
    Comment {
        id: CommentId::parse(&format!("c{ms}")).unwrap(),
        product: ProductId::parse("p").unwrap(),
        language: Language::parse("en").unwrap(),
        rating: Rating::new(5).unwrap(),
        created_at: at(ms),
        revision: Revision::after(None, at(0), 0),
        status: Status::Published,
        text: CommentText::new(None, "b".to_owned(), None).unwrap(),
        site: SiteData::default(),
    }
}

/// The table's answer to a query over comments made at the milliseconds 1 to `last`.
fn answer(plan: &PageQuery, last: i64) -> Vec<Comment> {
    let mut all: Vec<Comment> = (1..=last).map(comment).collect();
    if plan.order == Order::Newest {
        all.reverse();
    }
    let follows = |cd: &Cd| match (&plan.start, plan.order) {
        (None, _) => true,
        (Some(start), Order::Newest) => cd < start,
        (Some(start), Order::Oldest) => cd > start,
    };
    all.into_iter().filter(|comment| follows(&comment.cd())).take(usize::from(plan.limit)).collect()
}

fn found(query: &ListingQuery, page: Page) -> Found {
    Found::new(page, query.rows(), None)
}

pub(super) fn times(listing: &ListingPage) -> Vec<i64> {
    listing.comments.iter().map(|comment| comment.created_at.epoch_ms()).collect()
}

fn numbered(query: &ListingQuery, number: u64, as_of: Option<i64>) -> NumberedPage<'_> {
    NumberedPage { query, number: PageNumber::new(number).unwrap(), as_of: as_of.map(at) }
}

pub(super) fn page(
    query: &ListingQuery,
    number: u64,
    as_of: Option<i64>,
    start: Option<PageStart>,
    last: i64,
) -> Result<ListingPage, ApiError> {
    let page = numbered(query, number, as_of);
    let plan = page.plan(start.as_ref())?;
    page.cut(start.map(|start| start.total), Found::new(whole(answer(&plan, last)), query.rows(), page.as_of))
}

pub(super) fn follow(query: &ListingQuery, cursor: &Cursor, last: i64) -> ListingPage {
    let page = CursorPage { query, cursor: cursor.clone() };
    page.cut(None, found(query, whole(answer(&page.plan(), last)))).unwrap()
}

/// The page that follows the comment made at this millisecond.
fn after(query: &ListingQuery, ms: i64) -> CursorPage<'_> {
    CursorPage { query, cursor: Cursor { direction: Direction::Forward, at: comment(ms).cd() } }
}

fn malformed(place: usize, ms: Option<i64>) -> MalformedItem {
    let cd = ms.map(|ms| comment(ms).cd());
    MalformedItem { place, pk: String::new(), cd, problem: Malformed::new("item", "broken") }
}

pub(super) fn start(total: u64, before: Option<i64>) -> Option<PageStart> {
    Some(PageStart { total, before: before.map(|ms| comment(ms).cd()), reached: at(0) })
}

#[test]
fn walking_cursors_shows_every_comment_once_and_back_again() {
    for order in [Order::Newest, Order::Oldest] {
        for last in 1..=13 {
            for size in [1, 3, 4, 13] {
                let query = query(order, size);
                let mut listing = page(&query, 1, None, None, last).unwrap();
                assert_eq!(listing.prev, None);
                let mut pages = vec![times(&listing)];
                while let Some(next) = &listing.next {
                    listing = follow(&query, next, last);
                    assert!(!listing.comments.is_empty());
                    pages.push(times(&listing));
                }
                let mut expected: Vec<i64> = (1..=last).collect();
                if order == Order::Newest {
                    expected.reverse();
                }
                assert_eq!(pages.concat(), expected);
                let mut back = vec![times(&listing)];
                while let Some(prev) = &listing.prev {
                    listing = follow(&query, prev, last);
                    back.push(times(&listing));
                }
                back.reverse();
                assert_eq!(back, pages);
            }
        }
    }
}

#[test]
fn only_a_ready_index_gives_an_empty_page() {
    let query = query(Order::Newest, 20);
    assert!(matches!(page(&query, 1, None, None, 0), Err(ApiError::IndexUnavailable)));
    let empty = page(&query, 1, None, start(0, None), 0).unwrap();
    assert_eq!((empty.total, empty.next, empty.prev), (Some(0), None, None));
    assert!(matches!(page(&query, 2, None, None, 50), Err(ApiError::IndexUnavailable)));
    assert!(matches!(
        page(&query, 4, None, start(50, None), 50),
        Err(ApiError::PastTheEnd { page: 4, total_pages: 3 })
    ));
    assert!(matches!(page(&query, 2, None, start(0, None), 0), Err(ApiError::PastTheEnd { .. })));
    // The ranks promised a page that the table does not have.
    let nothing = found(&query, whole(Vec::new()));
    let refused = numbered(&query, 2, None).cut(Some(20), nothing);
    assert!(matches!(refused, Err(ApiError::PastTheEnd { page: 2, total_pages: 1 })), "{refused:?}");
}

#[test]
fn a_numbered_page_leads_to_its_neighbours() {
    let query = query(Order::Newest, 20);
    let second = page(&query, 2, None, start(50, Some(31)), 50).unwrap();
    assert_eq!(times(&second), (11..=30).rev().collect::<Vec<_>>());
    assert_eq!(times(&follow(&query, second.next.as_ref().unwrap(), 50)), (1..=10).rev().collect::<Vec<_>>());
    assert_eq!(times(&follow(&query, second.prev.as_ref().unwrap(), 50)), (31..=50).rev().collect::<Vec<_>>());
    let last = page(&query, 3, None, start(50, Some(11)), 50).unwrap();
    assert_eq!((times(&last).len(), last.next), (10, None));
}

#[test]
fn comments_dated_after_as_of_do_not_shift_pages() {
    let newest = query(Order::Newest, 2);
    for index in [start(3, Some(4)), None] {
        let first = page(&newest, 1, Some(3), index, 9).unwrap();
        assert_eq!(times(&first), [3, 2]);
        assert!(first.next.is_some());
    }
    assert_eq!(times(&page(&newest, 2, Some(3), start(3, Some(2)), 9).unwrap()), [1]);
    let oldest = query(Order::Oldest, 2);
    let last = page(&oldest, 2, Some(3), start(3, Some(2)), 9).unwrap();
    assert_eq!((times(&last), last.next), (vec![3], None));
    assert_eq!(page(&oldest, 1, Some(2), None, 9).unwrap().next, None);
    assert_eq!(times(&page(&newest, 1, Some(Timestamp::MAX.epoch_ms()), None, 2).unwrap()), [2, 1]);
}

#[test]
fn shown_comments_count_although_the_index_is_behind() {
    let query = query(Order::Newest, 20);
    assert_eq!(page(&query, 1, None, start(4, None), 5).unwrap().total, Some(5));
    assert_eq!(page(&query, 1, None, start(6, None), 5).unwrap().total, Some(6));
}

#[test]
fn a_page_that_differs_from_the_ranks_is_a_sign_of_drift() {
    let query = query(Order::Newest, 3);
    for (number, total, answered, sign) in [
        (1, 3, 3, None),
        (1, 9, 3, None),
        (2, 5, 2, None),
        (1, 0, 0, None),
        (2, 5, 1, Some(DriftSign::ShortPage)),
        (1, 2, 3, Some(DriftSign::Unranked)),
        (2, 5, 0, Some(DriftSign::EmptyPage)),
        // The comment that is asked for beyond the page is not shown.
        (1, 3, 4, None),
        (1, 9, 4, None),
    ] {
        let answer = whole((1..=answered).map(comment).collect());
        let found = found(&query, answer);
        assert_eq!(numbered(&query, number, None).drift_sign(total, &found), sign, "{answered} of {total}");
    }
    let cut_short = Page { cut_short: true, ..whole(vec![comment(1)]) };
    assert_eq!(numbered(&query, 1, None).drift_sign(3, &found(&query, cut_short)), None);
}

#[test]
fn an_empty_page_leads_back_to_the_comment_that_led_to_it() {
    for order in [Order::Newest, Order::Oldest] {
        let query = query(order, 3);
        for direction in [Direction::Forward, Direction::Backward] {
            // Of five comments, none is left in the direction in which the cursor leads.
            let at = |own| CursorPage { query: &query, cursor: Cursor { direction, at: comment(own).cd() } };
            let (own, mut nearest) = match at(1).order() {
                Order::Newest => (1, [1, 2, 3]),
                Order::Oldest => (5, [3, 4, 5]),
            };
            let empty = at(own).cut(None, found(&query, whole(Vec::new()))).unwrap();
            let back = match direction {
                Direction::Forward => empty.prev.as_ref().filter(|_| empty.next.is_none()),
                Direction::Backward => empty.next.as_ref().filter(|_| empty.prev.is_none()),
            };
            let back = back.unwrap_or_else(|| panic!("{order} {direction:?}: {empty:?}"));
            if order == Order::Newest {
                nearest.reverse();
            }
            assert_eq!(times(&follow(&query, back, 5)), nearest, "{order} {direction:?}");
        }
    }
}

#[test]
fn a_malformed_item_keeps_its_place_and_hides_nothing() {
    let query = query(Order::Newest, 3);
    let (first, after_9) = (numbered(&query, 1, None), after(&query, 9));
    let page = |comments: &[i64], malformed: Vec<MalformedItem>| {
        found(&query, Page { malformed, ..whole(comments.iter().copied().map(comment).collect()) })
    };
    // The query returns comments 8 to 5; comment 5 only says that more follow.
    let listing = after_9.cut(None, page(&[8, 6, 5], vec![malformed(1, Some(7))])).unwrap();
    assert_eq!((times(&listing), listing.next.unwrap().at), (vec![8, 6], comment(6).cd()));
    let listing = after_9.cut(None, page(&[8, 7, 6], vec![malformed(3, None)])).unwrap();
    assert_eq!((times(&listing), listing.next.unwrap().at), (vec![8, 7, 6], comment(6).cd()));
    // Only malformed items: the page is empty, and leads on.
    let all = vec![malformed(0, Some(8)), malformed(1, Some(7)), malformed(2, Some(6)), malformed(3, Some(5))];
    let listing = after_9.cut(None, page(&[], all.clone())).unwrap();
    assert_eq!((times(&listing), listing.next.unwrap().at), (vec![], comment(6).cd()));
    assert_eq!(first.cut(Some(4), page(&[], all)).unwrap().total, Some(4));
    assert_eq!(first.drift_sign(3, &page(&[8, 6], vec![malformed(1, Some(7))])), None);
}

#[test]
fn a_page_cut_short_by_the_tables_answer_limit_still_leads_on() {
    let query = query(Order::Newest, 5);
    let page = || found(&query, Page { cut_short: true, ..whole(vec![comment(9), comment(8)]) });
    assert!(after(&query, 10).cut(None, page()).unwrap().next.is_some());
    for total in [None, Some(2)] {
        assert!(numbered(&query, 1, None).cut(total, page()).unwrap().next.is_some());
    }
    // Nothing that could be read has a place to lead on from.
    let unplaced = Page { cut_short: true, malformed: vec![malformed(0, None)], ..Page::default() };
    let refused = after(&query, 10).cut(None, found(&query, unplaced));
    assert!(matches!(refused, Err(ApiError::NotYetListed)), "{refused:?}");
}

#[test]
fn cursors_lead_on_where_the_ranks_end_and_the_table_does_not() {
    let query = query(Order::Newest, 4);
    assert!(page(&query, 2, None, start(8, Some(10)), 13).unwrap().next.is_some());
    assert_eq!(page(&query, 2, None, start(8, Some(5)), 13).unwrap().next, None, "the table ends there too");
}

#[test]
fn queries_beyond_the_ranks_find_newer_and_older_comments() {
    let query = query(Order::Newest, 4);
    let ranked = |newest, oldest| Some(Ends { newest: comment(newest).cd(), oldest: comment(oldest).cd() });
    let beyond = |ends, as_of: Option<i64>, last| -> Vec<i64> {
        let plans = numbered(&query, 2, as_of).plan_beyond(ends);
        assert!(plans.len() <= 2 && plans.iter().all(|plan| plan.limit == 1));
        plans.iter().flat_map(|plan| answer(plan, last)).map(|comment| comment.created_at.epoch_ms()).collect()
    };
    assert_eq!(beyond(ranked(9, 1), None, 9), Vec::<i64>::new());
    assert_eq!(beyond(ranked(7, 1), None, 9), [8], "the next newer one, which `as_of` may leave out");
    assert_eq!(beyond(ranked(9, 3), None, 9), [2]);
    assert_eq!(beyond(ranked(5, 5), None, 9), [6, 4]);
    assert_eq!(beyond(None, None, 9), [9]);
    assert_eq!(beyond(None, Some(4), 9), [4]);
    assert_eq!(beyond(None, None, 0), Vec::<i64>::new());
}
