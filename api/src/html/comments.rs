//! `/product/{product}/comments/{language or ~}/{ratings or ~}?page=N`

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use model::{Filter, PageNumber};

use super::{
    address::{self, Address},
    error_page::{Help, PageError},
    render,
    view::CommentsPage,
};
use crate::{
    error::ApiError,
    http::{answer_memory::AnswerMemory, caching},
    read::page::NumberedPage,
    site::{PastTheEnd, Site},
    store::StoreClients,
};

/// Answers a page of comments, or redirects to its canonical address.
pub(super) async fn page(
    request: HttpRequest,
    stores: web::Data<StoreClients>,
    memory: web::Data<AnswerMemory>,
    site: web::Data<Site>,
) -> Result<HttpResponse, PageError> {
    let (address, is_canonical) = address::read(&request)?;
    if !is_canonical {
        // The canonical address depends only on the address, so caches may keep the redirect.
        return Ok(HttpResponse::MovedPermanently().insert_header((header::LOCATION, address.canonical())).finish());
    }
    let Address { query, number } = &address;
    memory.make_room(&request, query.page_size).await?;
    // The counts of the filters also come from the page index; without it, the page omits them.
    let stats = stores.stats(&query.product, &query.filter);
    let page = NumberedPage { query, number: *number, as_of: None };
    let (listing, stats) = tokio::join!(page.read(&stores), stats);
    let listing = match listing {
        Ok(listing) => listing,
        Err(ApiError::PastTheEnd { total_pages, .. }) if site.past_the_end == PastTheEnd::Redirect => {
            return Ok(lead_to(&address.page(PageNumber::new(total_pages)?)));
        }
        Err(error) => return Err(PageError { help: help(&address, &error), error }),
    };
    let stats = stats.filter(|_| listing.total.is_some());
    let page = CommentsPage::new(&site, &address, &listing, stats.as_ref());
    let mut answer = render(&site, &page.head, &page)?;
    if stats.is_none() {
        // Not cached, because a cache would keep it longer than the page index is unavailable.
        let (name, value) = caching::NO_STORE;
        answer.headers_mut().insert(name, header::HeaderValue::from_static(value));
    }
    Ok(answer)
}

/// The links that lead on from a page of comments that cannot be shown.
fn help(address: &Address, error: &ApiError) -> Help {
    let mut help = Help::default();
    let mut lead = |label: &str, href: String| help.links.push((label.to_owned(), href));
    let first = address.page(PageNumber::FIRST);
    let is_later_page = address.number > PageNumber::FIRST;
    if let ApiError::PastTheEnd { total_pages, .. } = error {
        if let Ok(last) = PageNumber::new(*total_pages)
            && last > PageNumber::FIRST
        {
            lead(&format!("The last page, page {last}"), address.page(last));
        }
        lead("Page 1", first);
    } else {
        lead("Try again", address.canonical());
        if is_later_page && matches!(error, ApiError::NotYetListed) {
            lead("Page 1", first);
        } else if is_later_page && matches!(error, ApiError::IndexUnavailable) {
            lead(&format!("Page 1, with the {} comments", address.query.order), first);
        }
    }
    if address.query.filter != Filter::ANY {
        lead("All comments on this product", address.all_comments());
    }
    if let ApiError::IndexUnavailable = error {
        help.meanwhile = Some(if is_later_page {
            "Only the numbering of pages is missing at the moment. Page 1 can be read meanwhile."
        } else {
            "No comments were found here, but there may be some: this cannot be checked at the moment. \
             Pages with comments can be read meanwhile."
        });
    }
    help
}

/// A redirect to the current place of something. The place will change, so caches must not keep the redirect.
pub(super) fn lead_to(location: &str) -> HttpResponse {
    HttpResponse::Found().insert_header((header::LOCATION, location)).insert_header(caching::NO_STORE).finish()
}
