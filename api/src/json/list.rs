//! `GET /api/v1/products/{product}/comments`

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use model::{Language, ListingOrder, PageNumber, PageSize, Period, Rating, StablePages, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    comment_body::{self, CommentBody},
    explanation::Explanation,
    parameters::{
        AS_OF, CURSOR, DATE, EXPLAIN, FromParameters, Given, NUMBERING, ORDER, PAGE, Parsed,
    },
};
use crate::{
    error::ApiError,
    http::{answer_memory::AnswerMemory, caching},
    links::{self, ListingUrls},
    read::{
        ListingQuery,
        cursor::{Cursor, CursorSealer},
        page::{self, Asked, ListingPage, Shown, WantedBesides, check_known},
        page_position::{Neighbours, PagePosition},
    },
    site::{PastTheEnd, Site},
    store::StoreClients,
    telemetry::cost,
};

pub(crate) struct ListRequest {
    query: ListingQuery,
    /// `None` for a cursor, and for the front page of stable numbering.
    number: Option<PageNumber>,
    as_of: Option<Timestamp>,
    cursor: Option<String>,
    /// Leads to the page that holds the newest comment of this period.
    period: Option<Period>,
    is_stable: bool,
    explains: bool,
}

impl FromParameters for ListRequest {
    fn read(given: &Given<'_>) -> Result<Self, ApiError> {
        let ((product, filter), page_size) = FromParameters::read(given)?;
        let number = given.get(&PAGE)?;
        let order = given.get(&ORDER)?.unwrap_or_default();
        let stable = given.get(&NUMBERING)?;
        let period = given.get(&DATE)?;
        let as_of = given.get(&AS_OF)?;
        let cursor = given.get(&CURSOR)?;
        let explains = given.get(&EXPLAIN)?.unwrap_or_default();
        if stable.is_some() {
            given.check_absent([ORDER.name, AS_OF.name, CURSOR.name], NUMBERING.name)?;
        }
        if period.is_some() {
            given.check_absent([PAGE.name, AS_OF.name, CURSOR.name], DATE.name)?;
            if order.is_by_rating() {
                let problem = "cannot be combined with an order by rating";
                return Err(ApiError::invalid(DATE.name, problem));
            }
        }
        if cursor.is_some() {
            given.check_absent([PAGE.name, AS_OF.name], CURSOR.name)?;
        }
        let query = ListingQuery {
            product,
            filter,
            order,
            page_size,
        };
        let is_counted = stable.is_none() && cursor.is_none();
        let number = number.or(is_counted.then_some(PageNumber::FIRST));
        Ok(Self {
            query,
            number,
            as_of,
            cursor,
            period,
            is_stable: stable.is_some(),
            explains,
        })
    }
}

impl ListRequest {
    fn asked(&self) -> Asked<'_> {
        Asked {
            query: &self.query,
            is_stable: self.is_stable,
            number: self.number,
            as_of: self.as_of,
            cursor: self.cursor.as_deref(),
            date: self.period,
            past_the_end: PastTheEnd::NotFound,
            besides: WantedBesides::PAGE_ALONE,
        }
    }

    fn urls<'asked>(&'asked self, base_path: &'asked str) -> ListingUrls<'asked> {
        ListingUrls {
            listing: &self.query,
            as_of: self.as_of,
            is_stable: self.is_stable,
            base_path,
        }
    }
}

/// One page of comments.
///
/// By number, with totals; or by cursor, for walking from page to page. While the page index is
/// away (`index` is `unavailable`), page 1 and cursors are answered without totals, and other pages
/// with 503.
///
/// The page index trails the comments, usually by a moment. Totals and page numbers are what it
/// has; cursors do not need it. A page beyond its numbers is 503 (`not-yet-listed`) while there are
/// comments newer, or older, than all that it has. It is 503 (`index-unavailable`) while its servers
/// may have lost some, and 404 otherwise.
///
/// The answer shows what its page numbers count, also while copies of comments are late. A place
/// whose comment cannot be shown is left out, and then no cache may keep the answer; if all would
/// be, it is 503 (`not-yet-listed`).
///
/// With `date`, the answer leads to a page (302). With `numbering=stable`, comments of the last
/// minute, and those of the next page to become full, are still on the front page, so its number
/// leads there (302).
#[utoipa::path(
    get,
    path = "/api/v1/products/{product}/comments",
    tag = "comments",
    params(Parsed<ListRequest>),
    responses(
        (
            status = 200,
            description = "The page; an empty page 1 means that there are no such comments",
            body = Body<'static>,
            headers(
                ("ETag" = String, description = "Weak"),
                ("Link" = String, description = "`first`, `prev`, `next` and `last`, as in `links` (RFC 8288)"),
            ),
        ),
        (
            status = 302,
            description = "With `date`; with `numbering=stable`, when the comments of this page are still on the front page",
            headers(
                ("Location" = String, description = "The page for the date, or the front page"),
            ),
        ),
    ),
)]
pub(crate) async fn list_comments(
    Parsed(asked): Parsed<ListRequest>,
    request: HttpRequest,
    stores: web::Data<StoreClients>,
    cursors: web::Data<CursorSealer>,
    memory: web::Data<AnswerMemory>,
    site: web::Data<Site>,
) -> Result<HttpResponse, ApiError> {
    let shown = page::show(&asked.asked(), &request, &stores, &memory, &cursors).await;
    let page = match shown? {
        Shown::Page(page) => page,
        Shown::Elsewhere { number, .. } => {
            return Ok(caching::lead_to(
                &asked.urls("").page(number.map(PageNumber::get)),
            ));
        }
    };
    if page.listing.comments.is_empty() {
        check_known(&stores, &site, &asked.query.product).await?;
    }
    let mut body = Body::new(&cursors, &asked, &page.listing, &site.public_url.base_path);
    body.explain = asked.explains.then(|| cost::so_far().into());
    let mut answer = HttpResponse::Ok();
    answer.insert_header((header::LINK, body.links.header()));
    // An explanation is of one answer.
    let may_be_kept = page.may_be_kept() && !asked.explains;
    Ok(caching::kept_if(may_be_kept, answer.json(body)))
}

/// One page of comments.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Page, example = json!({
    "product": "espresso-machine", "filter": {"language": "en", "ratings": [4, 5]}, "order": "newest", "page": 3,
    "page_size": 1, "total": 41, "total_pages": 41, "as_of": "2024-11-14T09:30:00.000Z", "index": "ready",
    "comments": [comment_body::example()],
    "links": {
        "self": "/api/v1/products/espresso-machine/comments?language=en&rating=4&rating=5&page=3&page_size=1",
        "first": "/api/v1/products/espresso-machine/comments?language=en&rating=4&rating=5&page=1&page_size=1",
        "prev": "/api/v1/products/espresso-machine/comments?language=en&rating=4&rating=5&page=2&page_size=1",
        "next": "/api/v1/products/espresso-machine/comments?language=en&rating=4&rating=5&page=4&page_size=1",
        "last": "/api/v1/products/espresso-machine/comments?language=en&rating=4&rating=5&page=41&page_size=1"
    },
    "cursor": {
        "next": "LWH1nTgQm0q2b5yXoS3cVQe7dJk9uPzR4tA6wGhYB8sC", "prev": "Zk3vN8hTq1Yw5cXb7rJ0mLd2sFgP9uE4oAiKtVxR6nBM"
    }
}))]
pub(crate) struct Body<'listing> {
    product: &'listing str,
    filter: FilterBody<'listing>,
    #[schema(value_type = String, pattern = "^(newest|oldest|highest|lowest)$")]
    order: ListingOrder,
    /// The page's number; null for a cursor, and for the front page of stable numbering.
    #[schema(value_type = Option<u64>, minimum = 1, required)]
    page: Option<PageNumber>,
    #[schema(value_type = u8, minimum = 1, maximum = 100)]
    page_size: PageSize,
    /// How many comments the filter matches, as far as the page index has them; null while it is
    /// away. On an archive page of stable numbering, how many of them are old enough for archive
    /// pages.
    #[schema(required)]
    total: Option<u64>,
    /// How many pages have a number: those of `total`; in stable numbering, the full pages of
    /// comments that are old enough, and the front page. Null while the page index is away.
    #[schema(required)]
    total_pages: Option<u64>,
    /// The instant that page numbers refer to: comments dated later are not counted. Sent back, it
    /// keeps comments posted later from shifting pages. A request may name it. Otherwise it is the
    /// creation time of the newest comment that the page numbers count, or, when they count none,
    /// how far the page index has come. Null for a cursor and in stable numbering, and while the
    /// page index is away unless the request has an instant.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    as_of: Option<Timestamp>,
    index: IndexAvailability,
    comments: Vec<CommentBody<'listing>>,
    links: Links,
    cursor: Cursors,
    /// Only with `explain=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<Explanation>,
}

/// Whether totals and page numbers are available.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum IndexAvailability {
    Ready,
    Unavailable,
}

/// Which comments.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Filter)]
struct FilterBody<'listing> {
    /// Null: any.
    #[schema(required)]
    language: Option<&'listing str>,
    /// Null: any.
    #[schema(value_type = Option<Vec<u8>>, required)]
    ratings: Option<Vec<Rating>>,
}

/// URLs of pages. They are of cursors while page numbers are unavailable; so is `next` on the last
/// page that has a number, when more comments follow.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Links {
    #[serde(rename = "self")]
    this: String,
    first: String,
    #[schema(required)]
    prev: Option<String>,
    #[schema(required)]
    next: Option<String>,
    #[schema(required)]
    last: Option<String>,
}

impl Links {
    /// The links of the page of this number, where all pages have numbers.
    pub(super) fn of_pages(number: u64, total_pages: u64, url: impl Fn(u64) -> String) -> Self {
        let place = PagePosition::Counted {
            number,
            total_pages: Some(total_pages),
        };
        let Neighbours {
            prev, next, last, ..
        } = place.neighbours().and_then(|number| number.map(&url));
        Self {
            this: url(number),
            first: url(1),
            prev,
            next,
            last,
        }
    }

    /// The header `Link`: these links without the page itself.
    pub(super) fn header(&self) -> String {
        let Self {
            this: _,
            first,
            prev,
            next,
            last,
        } = self;
        let others = [
            ("first", Some(first)),
            ("prev", prev.as_ref()),
            ("next", next.as_ref()),
            ("last", last.as_ref()),
        ];
        links::link_header(
            others
                .into_iter()
                .filter_map(|(rel, target)| Some((rel, target?.clone()))),
        )
    }
}

/// Where the neighbouring pages start; they need no page numbers, and new comments do not shift
/// them.
#[derive(Debug, Serialize, ToSchema)]
struct Cursors {
    #[schema(required)]
    next: Option<String>,
    #[schema(required)]
    prev: Option<String>,
}

impl<'listing> Body<'listing> {
    fn new(
        sealer: &CursorSealer,
        asked: &'listing ListRequest,
        listing: &'listing ListingPage,
        base_path: &str,
    ) -> Self {
        let (number, is_stable, parts) = (asked.number, asked.is_stable, asked.query.parts());
        let seal = |cursor: &Cursor| sealer.seal(&parts, cursor);
        let cursor = Cursors {
            next: listing.next.as_ref().map(seal),
            prev: listing.prev.as_ref().map(seal),
        };
        let ListingQuery {
            product,
            filter,
            order,
            page_size,
        } = &asked.query;
        let total_pages = match is_stable {
            true => listing
                .settled
                .map(|settled| StablePages::new(settled, *page_size).count()),
            false => listing.total.map(|total| page_size.total_pages(total)),
        };
        let place = match asked.cursor {
            Some(_) => PagePosition::Unknown,
            None => PagePosition::numbered(number, is_stable, *page_size, listing),
        };
        let urls = asked.urls(base_path);
        let Neighbours {
            prev, next, last, ..
        } = place
            .neighbours()
            .and_then(|number| Some(urls.page(number)));
        let by_cursor =
            |cursor: &Option<String>| cursor.as_deref().map(|cursor| urls.cursor(cursor));
        let links = Links {
            this: by_cursor(&asked.cursor)
                .unwrap_or_else(|| urls.page(number.map(PageNumber::get))),
            first: urls.page(if is_stable { None } else { Some(1) }),
            prev: prev.or_else(|| by_cursor(&cursor.prev)),
            next: next
                .filter(|_| !listing.continues_by_cursor)
                .or_else(|| by_cursor(&cursor.next)),
            last: last.or_else(|| total_pages.map(|last| urls.page(Some(last)))),
        };
        Self {
            product: product.as_str(),
            filter: FilterBody {
                language: filter.language().map(Language::as_str),
                ratings: filter.ratings().map(|ratings| ratings.iter().collect()),
            },
            order: *order,
            page: number,
            page_size: *page_size,
            total: listing.total,
            total_pages,
            as_of: listing.as_of,
            index: if listing.total.is_some() {
                IndexAvailability::Ready
            } else {
                IndexAvailability::Unavailable
            },
            comments: listing.comments.iter().map(CommentBody::from).collect(),
            links,
            cursor,
            explain: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{error::tests::refused_field, json::parameters::tests::read_at};

    #[test]
    fn a_cursor_and_stable_numbering_are_not_combined_with_what_they_exclude() {
        for (query, field) in [
            ("cursor=AAAA&page=1", "page"),
            ("cursor=AAAA&as_of=2024-01-01T00:00:00Z", "as_of"),
            ("numbering=stable&order=newest", "order"),
            ("numbering=stable&order=oldest&page=2", "order"),
            ("numbering=stable&as_of=2024-01-01T00:00:00Z", "as_of"),
            ("numbering=stable&cursor=AAAA", "cursor"),
            ("numbering=newest-first", "numbering"),
            ("numbering=stable&order=highest", "order"),
            ("date=2024-05&order=lowest", "date"),
            ("order=best", "order"),
            ("date=2024-05&page=1", "page"),
            ("date=2024-13", "date"),
            ("explain=yes", "explain"),
        ] {
            let read = read_at::<ListRequest>(&format!("/api/v1/products/p/comments?{query}"));
            assert_eq!(refused_field(read), field);
        }
    }
}
