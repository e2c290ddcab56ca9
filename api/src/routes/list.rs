//! `GET /api/v1/products/{product}/comments`

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use model::{Instant, InvalidInput, Language, Order, PageNumber, PageSize, Rating};
use serde::Serialize;

use super::CommentBody;
use crate::{
    caching,
    cursor::{Cursor, CursorSealer},
    error::ApiError,
    links::ApiListing,
    listing::{self, Listing, ListingQuery},
    request::{self, Parameters},
    state::State,
};

/// Which page of the listing is asked for.
enum Place {
    Page { number: PageNumber, as_of: Option<Instant> },
    Cursor { cursor: Cursor, text: String },
}

/// Answers one page.
pub(crate) async fn comments(request: HttpRequest, state: web::Data<State>) -> Result<HttpResponse, ApiError> {
    let (query, place) = read(&request, &state.cursors)?;
    let now = stores::now();
    let listing = match &place {
        Place::Page { number, as_of } => listing::read_page(&state, &query, *number, *as_of).await?,
        Place::Cursor { cursor, .. } => listing::read_at_cursor(&state, &query, cursor.clone()).await?,
    };
    let body = Body::new(&state.cursors, &query, &place, &listing, now)?;
    let mut answer = HttpResponse::Ok();
    answer.insert_header((header::ETAG, body.entity_tag(&listing)));
    if listing.total.is_none() {
        // It would be kept longer than the page index is away.
        answer.insert_header(caching::NO_STORE);
    }
    Ok(answer.json(body))
}

fn read(request: &HttpRequest, cursors: &CursorSealer) -> Result<(ListingQuery, Place), ApiError> {
    let product = request::product(request, 4)?;
    let single = ["language", "page", "page_size", "order", "as_of", "cursor"];
    let parameters = Parameters::read(request, &single, &["rating"])?;
    let query = ListingQuery {
        product,
        filter: parameters.filter()?,
        order: parameters.order()?,
        page_size: parameters.page_size()?,
    };
    let as_of = parameters
        .parse("as_of", |text| Instant::parse(text).map_err(|error| InvalidInput::new("as_of", error.problem)))?;
    let number = parameters.parse("page", PageNumber::parse)?;
    let Some(text) = parameters.get("cursor") else {
        return Ok((query, Place::Page { number: number.unwrap_or(PageNumber::FIRST), as_of }));
    };
    if number.is_some() {
        return Err(ApiError::invalid("page", "cannot be combined with cursor"));
    }
    if as_of.is_some() {
        return Err(ApiError::invalid("as_of", "cannot be combined with cursor, which needs no such thing"));
    }
    let cursor = cursors.open(&query.scope(), text)?;
    Ok((query, Place::Cursor { cursor, text: text.to_owned() }))
}

#[derive(Debug, Serialize)]
struct Body<'listing> {
    product: &'listing str,
    filter: FilterBody<'listing>,
    order: Order,
    page: Option<PageNumber>,
    page_size: PageSize,
    total: Option<u64>,
    total_pages: Option<u64>,
    as_of: Option<Instant>,
    index: &'static str,
    comments: Vec<CommentBody<'listing>>,
    links: Links,
    cursor: Cursors,
}

#[derive(Debug, Serialize)]
struct FilterBody<'listing> {
    language: Option<&'listing str>,
    ratings: Option<Vec<Rating>>,
}

/// URLs of pages; where page numbers are unavailable, of cursors.
#[derive(Debug, Serialize)]
struct Links {
    #[serde(rename = "self")]
    this: String,
    first: String,
    prev: Option<String>,
    next: Option<String>,
    last: Option<String>,
}

#[derive(Debug, Serialize)]
struct Cursors {
    next: Option<String>,
    prev: Option<String>,
}

impl<'listing> Body<'listing> {
    fn new(
        sealer: &CursorSealer,
        query: &'listing ListingQuery,
        place: &Place,
        listing: &'listing Listing,
        now: Instant,
    ) -> Result<Self, ApiError> {
        let seal =
            |cursor: &Option<Cursor>| cursor.as_ref().map(|cursor| sealer.seal(&query.scope(), cursor)).transpose();
        let cursor = Cursors { next: seal(&listing.next)?, prev: seal(&listing.prev)? };
        let total_pages = listing.total.map(|total| query.page_size.total_pages(total));
        let (page, as_of) = match place {
            Place::Page { number, as_of } => (Some(*number), *as_of),
            Place::Cursor { .. } => (None, None),
        };
        Ok(Self {
            product: query.product.as_str(),
            filter: FilterBody {
                language: query.filter.language().map(Language::as_str),
                ratings: query.filter.ratings().map(|ratings| ratings.iter().collect()),
            },
            order: query.order,
            page,
            page_size: query.page_size,
            total: listing.total,
            total_pages,
            as_of: page.map(|_| as_of.unwrap_or(now)),
            index: if listing.total.is_some() { "ready" } else { "unavailable" },
            comments: listing.comments.iter().map(CommentBody::from).collect(),
            links: links(query, place, total_pages, &cursor),
            cursor,
        })
    }

    /// The tag of what the page says. `as_of` is not part of it: it is another in every answer, and with the same comments
    /// and the same total an earlier one numbers the pages just as well.
    fn entity_tag(&self, listing: &Listing) -> String {
        let revisions: String = listing.comments.iter().map(|comment| comment.revision.to_string()).collect();
        let Self { links, total, .. } = self;
        caching::weak_tag(format!("{links:?} {total:?} {revisions}").as_bytes())
    }
}

fn links(query: &ListingQuery, place: &Place, total_pages: Option<u64>, cursor: &Cursors) -> Links {
    let as_of = match place {
        Place::Page { as_of, .. } => *as_of,
        Place::Cursor { .. } => None,
    };
    let ListingQuery { product, filter, order, page_size } = query;
    let urls = ApiListing { product, filter, order: *order, page_size: *page_size, as_of };
    let by_cursor = |cursor: &Option<String>| cursor.as_deref().map(|cursor| urls.cursor(cursor));
    let (this, prev, next) = match (place, total_pages) {
        (Place::Page { number, .. }, Some(total_pages)) => {
            let number = number.get();
            let prev = (number > 1).then(|| urls.page(number - 1));
            let next = (number < total_pages).then(|| urls.page(number + 1));
            (urls.page(number), prev, next)
        }
        (Place::Page { number, .. }, None) => (urls.page(number.get()), None, by_cursor(&cursor.next)),
        (Place::Cursor { text, .. }, _) => (urls.cursor(text), by_cursor(&cursor.prev), by_cursor(&cursor.next)),
    };
    Links { this, first: urls.page(1), prev, next, last: total_pages.map(|last| urls.page(last)) }
}
