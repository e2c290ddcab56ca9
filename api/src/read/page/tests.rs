//! Pages made of ranks and of the table's answers, over comments made at the milliseconds 1 to
//! `last`.

use super::{
    join::{Join, Ranks},
    *,
};
use crate::read::cursor::Direction;
use model::{
    CommentText, Filter, Language, ListingOrder, Malformed, PageSize, ProductId, Rating, Revision,
    SiteData, StablePages, Status,
};
use table::{MalformedItem, Page};

fn whole(comments: Vec<Comment>) -> Page {
    Page {
        comments,
        ..Page::default()
    }
}

pub(super) fn query(order: ListingOrder, size: u64) -> ListingQuery {
    let product = ProductId::parse("p").unwrap();
    ListingQuery {
        product,
        filter: Filter::ANY,
        order,
        page_size: PageSize::new(size).unwrap(),
    }
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
    all.into_iter()
        .filter(|comment| follows(&comment.cd()))
        .take(usize::from(plan.limit))
        .collect()
}

/// The answer of a page index that has the comments up to `ranked`, of which those up to `settled`
/// are settled.
fn ranked(request: &PageRequest<'_>, ranked: i64, settled: i64) -> Ranked {
    let asked = request.ranked_query(at(settled));
    let up_to = |ms: Option<Timestamp>| match ms {
        Some(ms) => ms.epoch_ms().min(ranked),
        None => ranked,
    };
    let count = |last: i64| u64::try_from(last).unwrap();
    let mut all: Vec<Cd> = (1..=up_to(asked.as_of))
        .map(|ms| comment(ms).cd())
        .collect();
    if asked.order == Order::Newest {
        all.reverse();
    }
    let skip = usize::try_from(asked.skip).unwrap_or(usize::MAX);
    Ranked {
        comments: all
            .into_iter()
            .skip(skip)
            .take(asked.count.into())
            .collect(),
        total: count(up_to(asked.as_of)),
        settled: count(up_to(asked.settled_at)),
        all: count(ranked),
        reached: at(0),
        stats: None,
    }
}

/// The table's answer to a query for the rows of ranks.
fn rows_of(ranks: &Ranks<'_>, plan: &PageQuery, last: i64) -> Page {
    let rows = answer(plan, last);
    let has_more = rows.len() == usize::from(plan.limit);
    let (comments, others): (Vec<Comment>, Vec<Comment>) = rows
        .into_iter()
        .partition(|comment| ranks.comments.contains(&comment.cd()));
    Page {
        others: others.iter().map(Comment::cd).collect(),
        has_more,
        ..whole(comments)
    }
}

/// A page where the page index has the comments up to `index`, and the table those up to `last`.
fn read(
    request: &PageRequest<'_>,
    index: i64,
    settled: i64,
    last: i64,
) -> Result<Option<ListingPage>, ApiError> {
    let ranked = ranked(request, index, settled);
    let Some(ranks) = request.plan(&ranked)? else {
        return Ok(None);
    };
    let mut rows = rows_of(&ranks, &ranks.first_query(request.query), last);
    if rows.has_more && ranks.has_unranked(&rows) {
        rows = rows_of(&ranks, &ranks.page_query(request.query), last);
    }
    let mut join = Join::new(ranks, rows);
    let missing = join.missing();
    join.fill(
        request.query,
        (1..=last)
            .map(comment)
            .filter(|comment| missing.contains(&comment.id)),
    );
    let joined = join.finish();
    if joined.shows_none {
        return Err(ApiError::NotYetListed);
    }
    Ok(Some(request.cut(&ranked, joined)))
}

/// A page of a number. Without the page index, `index` is `None`.
fn page(
    query: &ListingQuery,
    number: u64,
    as_of: Option<i64>,
    index: Option<i64>,
    last: i64,
) -> Result<ListingPage, ApiError> {
    let page = PageRequest {
        query,
        at: PageAt::Number(PageNumber::new(number).unwrap(), as_of.map(at)),
    };
    match index {
        Some(index) => Ok(read(&page, index, 0, last)?.unwrap()),
        None => unranked(&page, last),
    }
}

/// The first page, where the table has the comments up to `last`, and the page index is away.
fn unranked(request: &PageRequest<'_>, last: i64) -> Result<ListingPage, ApiError> {
    let beginning = request.beginning();
    let stretch = request.first_stretch(beginning.as_ref());
    let rows = whole(answer(&stretch.table_query(), last));
    cut_rows(request, rows)
}

/// The first page or that of a cursor, from the table's answer alone.
fn cut_rows(request: &PageRequest<'_>, rows: Page) -> Result<ListingPage, ApiError> {
    if let PageAt::Cursor(cursor) = &request.at {
        let joined = request.stretch_from(cursor).of_rows(rows)?;
        let order = request.query.order.within_a_rating();
        return Ok(Walked::of_stretch(cursor.direction, joined).into_page(order, cursor));
    }
    let joined = request.first_stretch(None).of_rows(rows)?;
    let walked = Walked::of_stretch(Direction::Forward, joined);
    let next = walked.onwards.filter(|_| walked.leads_on);
    request.cut_first(walked.comments, next)
}

fn front(query: &ListingQuery, index: i64, settled: i64, last: i64) -> ListingPage {
    read(
        &PageRequest {
            query,
            at: PageAt::Front,
        },
        index,
        settled,
        last,
    )
    .unwrap()
    .unwrap()
}

fn archive(
    query: &ListingQuery,
    number: u64,
    index: i64,
    settled: i64,
) -> Result<Option<ListingPage>, ApiError> {
    let at = PageAt::Archive(PageNumber::new(number).unwrap());
    read(&PageRequest { query, at }, index, settled, index)
}

fn times(listing: &ListingPage) -> Vec<i64> {
    listing
        .comments
        .iter()
        .map(|comment| comment.created_at.epoch_ms())
        .collect()
}

fn after(query: &ListingQuery, ms: i64) -> PageRequest<'_> {
    let cursor = Cursor::new(Direction::Forward, comment(ms).cd());
    PageRequest {
        query,
        at: PageAt::Cursor(cursor),
    }
}

fn malformed(place: usize, ms: Option<i64>) -> MalformedItem {
    let cd = ms.map(|ms| comment(ms).cd());
    MalformedItem {
        index: place,
        cd,
        problem: Malformed::new("item", "broken"),
    }
}

#[test]
fn only_a_ready_index_gives_an_empty_page() {
    let query = query(ListingOrder::Newest, 20);
    assert!(matches!(
        page(&query, 1, None, None, 0),
        Err(ApiError::IndexUnavailable)
    ));
    let empty = page(&query, 1, None, Some(0), 0).unwrap();
    assert_eq!((empty.total, empty.next, empty.prev), (Some(0), None, None));
    assert!(matches!(
        page(&query, 4, None, Some(50), 50),
        Err(ApiError::PastTheEnd {
            page: 4,
            total_pages: 3
        })
    ));
    assert!(matches!(
        page(&query, 2, None, Some(0), 0),
        Err(ApiError::PastTheEnd { .. })
    ));
    // The ranks promise a page that the table does not have.
    for number in [1, 2] {
        assert!(matches!(
            page(&query, number, None, Some(25), 0),
            Err(ApiError::NotYetListed)
        ));
    }
}

#[test]
fn comments_dated_after_as_of_do_not_shift_pages() {
    let (newest, oldest) = (
        query(ListingOrder::Newest, 2),
        query(ListingOrder::Oldest, 2),
    );
    for index in [Some(9), None] {
        let first = page(&newest, 1, Some(3), index, 9).unwrap();
        assert_eq!((times(&first), first.next.is_some()), (vec![3, 2], true));
        assert_eq!(page(&oldest, 1, Some(2), index, 9).unwrap().next, None);
    }
    assert_eq!(times(&page(&newest, 2, Some(3), Some(9), 9).unwrap()), [1]);
    let last = page(&oldest, 2, Some(3), Some(9), 9).unwrap();
    assert_eq!((times(&last), last.next), (vec![3], None));
    assert_eq!(
        times(&page(&newest, 1, Some(Timestamp::MAX.epoch_ms()), None, 2).unwrap()),
        [2, 1]
    );
}

#[test]
fn shown_comments_count_and_cursors_lead_on_although_the_index_is_behind() {
    let query = query(ListingOrder::Oldest, 4);
    let first = page(&query, 1, None, Some(2), 9).unwrap();
    assert_eq!(
        (first.total, first.as_of, times(&first)),
        (Some(4), Some(at(4)), vec![1, 2, 3, 4])
    );
    assert!(first.next.is_some() && page(&query, 2, None, Some(8), 13).unwrap().next.is_some());
    assert_eq!(
        page(&query, 2, None, Some(8), 8).unwrap().next,
        None,
        "the table ends there too"
    );
    let gaps = page(&query, 2, None, Some(8), 7).unwrap();
    assert_eq!(
        (gaps.total, gaps.has_empty_places, times(&gaps)),
        (Some(8), true, vec![5, 6, 7])
    );
}

#[test]
fn a_malformed_item_keeps_its_place_and_hides_nothing() {
    let query = query(ListingOrder::Newest, 3);
    let cut = |comments: &[i64], malformed: Vec<MalformedItem>| {
        let rows = Page {
            malformed,
            ..whole(comments.iter().copied().map(comment).collect())
        };
        let listing = cut_rows(&after(&query, 9), rows).unwrap();
        (times(&listing), listing.next.unwrap().at)
    };
    // The query returns comments 8 to 5; comment 5 only says that more follow.
    assert_eq!(
        cut(&[8, 6, 5], vec![malformed(1, Some(7))]),
        (vec![8, 6], comment(6).cd())
    );
    assert_eq!(
        cut(&[8, 7, 6], vec![malformed(3, None)]),
        (vec![8, 7, 6], comment(6).cd())
    );
    // Only malformed items: the page is empty, and leads on.
    let all = vec![
        malformed(0, Some(8)),
        malformed(1, Some(7)),
        malformed(2, Some(6)),
        malformed(3, Some(5)),
    ];
    assert_eq!(cut(&[], all), (vec![], comment(6).cd()));
}

#[test]
fn a_page_cut_short_by_the_tables_answer_limit_still_leads_on() {
    let query = query(ListingOrder::Newest, 5);
    let rows = || Page {
        cut_short: true,
        ..whole(vec![comment(9), comment(8)])
    };
    for page in [
        after(&query, 10),
        PageRequest {
            query: &query,
            at: PageAt::Front,
        },
    ] {
        assert!(cut_rows(&page, rows()).unwrap().next.is_some());
    }
    // Nothing that could be read has a place to lead on from.
    let unplaced = Page {
        cut_short: true,
        malformed: vec![malformed(0, None)],
        ..Page::default()
    };
    let refused = cut_rows(&after(&query, 10), unplaced);
    assert!(
        matches!(refused, Err(ApiError::NotYetListed)),
        "{refused:?}"
    );
}

#[test]
fn archive_pages_are_made_of_settled_comments_and_the_front_page_of_the_others() {
    let query = query(ListingOrder::Newest, 4);
    for (settled, all) in
        (0..=23_u64).flat_map(|settled| (settled..=35).map(move |all| (settled, all)))
    {
        let [settled_ms, all_ms] = [settled, all].map(|count| i64::try_from(count).unwrap());
        let newest = front(&query, all_ms, settled_ms, all_ms);
        let archived = StablePages::new(settled, query.page_size).archived();
        assert_eq!(
            (newest.total, newest.continues_by_cursor),
            (Some(all), all - 4 * archived > 7)
        );
        let mut shown = times(&newest);
        for number in (1..=archived).rev().filter(|_| !newest.continues_by_cursor) {
            shown.extend(times(
                &archive(&query, number, all_ms, settled_ms)
                    .unwrap()
                    .unwrap(),
            ));
        }
        let last = if newest.continues_by_cursor {
            all_ms - 6
        } else {
            1
        };
        assert_eq!(
            shown,
            (last..=all_ms).rev().collect::<Vec<_>>(),
            "{settled} of {all}"
        );
    }
}

#[test]
fn a_number_that_is_ahead_leads_to_the_front_page_and_others_past_the_end() {
    let query = query(ListingOrder::Newest, 4);
    assert_eq!(archive(&query, 3, 12, 12).unwrap(), None);
    // Page 3 would be full, but is not settled.
    assert_eq!(archive(&query, 3, 40, 15).unwrap(), None);
    let text = |index, settled| archive(&query, 9, index, settled).unwrap_err().to_string();
    let newest = text(20, 12);
    assert!(
        newest.contains("the newest numbered page is 2; newer comments are on the page without"),
        "{newest}"
    );
    assert!(
        text(20, 3).contains("no page has a number"),
        "{}",
        text(20, 3)
    );
}

#[test]
fn the_front_page_reads_what_it_shows_and_one_more() {
    let query = query(ListingOrder::Newest, 4);
    let request = PageRequest {
        query: &query,
        at: PageAt::Front,
    };
    for (all, settled, limit) in [(0, 0, 1), (3, 0, 4), (10, 8, 7), (11, 8, 8), (30, 0, 8)] {
        let ranked = ranked(&request, all, settled);
        let ranks = request.plan(&ranked).unwrap().unwrap();
        let first = ranks.first_query(&query);
        assert_eq!(first.limit, limit, "{settled} of {all}");
        assert!(!ranks.has_unranked(&rows_of(&ranks, &first, all)));
        // A comment without a rank is seen, and then as many rows are read as the page can show.
        assert!(ranks.has_unranked(&rows_of(&ranks, &first, all + 1)));
        assert_eq!(ranks.page_query(&query).limit, 8);
    }
}
