//! `/product/{product}/comments/{language or ~}/{ratings or ~}?page=N`

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use model::{Filter, PageNumber};

use super::{
    address::{self, Address},
    error_page::{Help, PageError},
    fragment, render,
    view::CommentsPage,
};
use crate::{
    error::ApiError,
    http::{answer_memory::AnswerMemory, caching},
    read::page::{ListingPage, NumberedPage, stable::StablyNumberedPage},
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
    let (address, is_canonical) = address::read(&request, site.page_numbers)?;
    if !is_canonical {
        // The canonical address depends only on the address, so caches may keep the redirect.
        return Ok(HttpResponse::MovedPermanently().insert_header((header::LOCATION, address.canonical())).finish());
    }
    let Address { query, number, .. } = &address;
    let stable = address.is_stable().then_some(StablyNumberedPage { query, number: *number });
    let comments_max = stable.map_or(u16::from(query.page_size.get()), |page| page.comments_max());
    // Before all reads, so that a refused request costs no store a call.
    memory.make_room(&request, comments_max).await?;
    // The counts of the filters also come from the page index; without it, the page omits them.
    let stats = stores.stats(&query.product, &query.filter);
    let (listing, stats) = tokio::join!(read(stable, &address, &stores), stats);
    let listing = match listing {
        Ok(Some(listing)) => listing,
        Ok(None) => return Ok(caching::lead_to(&address.page(None))),
        Err(ApiError::PastTheEnd { total_pages, .. }) if site.past_the_end == PastTheEnd::Redirect => {
            let last = address.numbered(total_pages);
            return Ok(caching::lead_to(&last.unwrap_or_else(|| address.page(None))));
        }
        Err(ApiError::PastTheArchive { .. }) if site.past_the_end == PastTheEnd::Redirect => {
            return Ok(caching::lead_to(&address.page(None)));
        }
        Err(error) => return Err(PageError { help: help(&address, &error), error }),
    };
    let stats = stats.filter(|_| listing.total.is_some());
    let page = CommentsPage::new(&site, &address, &listing, stats.as_ref());
    let (page, mut answer) = if fragment::is_asked(&request) {
        let page = page.into_fragment();
        let list = page.list().map_err(ApiError::internal)?;
        let answer = fragment::answer(&site, &list, page.head.link_header(&site));
        (page, answer)
    } else {
        let answer = render(&site, &page.head, &page)?;
        (page, answer)
    };
    if let Some(validator) = page.validator(&site).map_err(ApiError::internal)? {
        answer.headers_mut().insert(header::ETAG, caching::value(&validator));
    }
    if stats.is_none() {
        // Not cached, because a cache would keep it longer than the page index is unavailable.
        let (name, value) = caching::NO_STORE;
        answer.headers_mut().insert(name, header::HeaderValue::from_static(value));
    }
    Ok(answer)
}

/// Reads the page at an address, which is `stable` in stable numbering. `None` when its number leads to the front page.
async fn read(
    stable: Option<StablyNumberedPage<'_>>,
    address: &Address,
    stores: &StoreClients,
) -> Result<Option<ListingPage>, ApiError> {
    if let Some(page) = stable {
        return page.read(stores).await;
    }
    let number = address.number.unwrap_or(PageNumber::FIRST);
    NumberedPage { query: &address.query, number, as_of: None }.read(stores).await.map(Some)
}

/// The links that lead on from a page of comments that cannot be shown.
fn help(address: &Address, error: &ApiError) -> Help {
    let mut help = Help::default();
    let mut lead = |label: &str, href: String| help.links.push((label.to_owned(), href));
    let (first, newest) = (address.page(None), "The newest comments");
    let is_later_page = address.number.is_some();
    if let ApiError::PastTheEnd { total_pages, .. } = error {
        if let Some(last) = address.numbered(*total_pages).filter(|_| *total_pages > 1) {
            lead(&format!("The last page, page {total_pages}"), last);
        }
        lead("Page 1", first);
    } else if let ApiError::PastTheArchive { .. } = error {
        lead(newest, first);
    } else {
        lead("Try again", address.canonical());
        if is_later_page && address.is_stable() {
            lead(newest, first);
        } else if is_later_page && matches!(error, ApiError::NotYetListed) {
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
            "Only the numbering of pages is missing at the moment. The first page of the list can be read meanwhile."
        } else {
            "No comments were found here, but there may be some: this cannot be checked at the moment. \
             Pages with comments can be read meanwhile."
        });
    }
    help
}
