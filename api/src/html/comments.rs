//! `/product/{product}/comments/{language or ~}/{ratings or ~}?page=N`

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use model::PageNumber;

use super::{
    address::{self, Address},
    help::Help,
    render,
    view::CommentsPage,
};
use crate::{
    error::{ApiError, PageError},
    http::{answers, caching},
    read::page,
    site::PastTheEnd,
    store::State,
};

/// Answers a page of comments, or redirects to its canonical address.
pub(super) async fn page(request: HttpRequest, state: web::Data<State>) -> Result<HttpResponse, PageError> {
    let (address, is_canonical) = address::read(&request)?;
    if !is_canonical {
        // The canonical address depends only on the address, so caches may keep the redirect.
        return Ok(HttpResponse::MovedPermanently().insert_header((header::LOCATION, address.canonical())).finish());
    }
    let Address { query, number } = &address;
    answers::make_room(&request, &state, query.page_size).await?;
    // The counts of the filters also come from the page index; without it, the page omits them.
    let stats = state.stats(&query.product, &query.filter);
    let (listing, stats) = tokio::join!(page::read_page(&state, query, *number, None), stats);
    let listing = match listing {
        Ok(listing) => listing,
        Err(ApiError::PastTheEnd { total_pages, .. }) if state.site.past_the_end == PastTheEnd::Redirect => {
            return Ok(lead_to(&address.page(PageNumber::new(total_pages)?)));
        }
        Err(error) => return Err(PageError { help: Help::for_page(&address, &error), error }),
    };
    let stats = stats.filter(|_| listing.total.is_some());
    let page = CommentsPage::new(&state.site, &address, &listing, stats.as_ref())?;
    let mut answer = render(&state, &page.head, &page)?;
    if stats.is_none() {
        // Not cached, because a cache would keep it longer than the page index is unavailable.
        let (name, value) = caching::NO_STORE;
        answer.headers_mut().insert(name, header::HeaderValue::from_static(value));
    }
    Ok(answer)
}

/// A redirect to the current place of something. The place will change, so caches must not keep the redirect.
pub(super) fn lead_to(location: &str) -> HttpResponse {
    HttpResponse::Found()
        .insert_header((header::LOCATION, location))
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .finish()
}
