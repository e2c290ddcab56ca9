//! `/product/{product}/comments/{language or ~}/{ratings or ~}?page=N` or `?date=YYYY-MM`; `?cursor=…` leads where no number does.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web,
};
use model::{Filter, PageNumber, Period};
use page_index::{Stats, StatsWanted};

use super::{
    address::{self, Address},
    contrast,
    counts::Counts,
    error_page::{Help, PageError},
    fragment, render,
    view::CommentsPage,
};
use crate::{
    error::ApiError,
    http::{answer_memory::AnswerMemory, caching},
    links,
    read::{
        contrast::Contrast,
        cursor::{Cursor, CursorSealer},
        dates,
        page::{ListingPage, PageAt, PageRequest},
        place::Neighbours,
    },
    site::{PastTheEnd, Site},
    store::{KnownRecord, StoreClients},
    texts::Interface,
};

pub(super) async fn page(
    request: HttpRequest,
    stores: web::Data<StoreClients>,
    memory: web::Data<AnswerMemory>,
    site: web::Data<Site>,
    cursors: web::Data<CursorSealer>,
) -> Result<HttpResponse, PageError> {
    let (address, is_canonical) = address::read(&request)?;
    let in_language_of_page = |error: PageError| error.of_filter(&address.query.filter);
    if let Some(period) = address.date {
        return lead_to_date(&address, period, &stores).await.map_err(in_language_of_page);
    }
    if !is_canonical {
        return Ok(address::moved(&address.canonical()));
    }
    answer(&request, &address, &stores, &memory, &site, &cursors).await.map_err(in_language_of_page)
}

async fn lead_to_date(address: &Address, period: Period, stores: &StoreClients) -> Result<HttpResponse, PageError> {
    let (position, id) = dates::place(stores, &address.query, period).await?;
    let fragment = id.as_ref().map_or_else(|| links::TO_COMMENTS.to_owned(), links::fragment);
    Ok(caching::lead_to(&(address.page(address.number_of(position)) + &fragment)))
}

async fn answer(
    request: &HttpRequest,
    address: &Address,
    stores: &StoreClients,
    memory: &AnswerMemory,
    site: &Site,
    cursors: &CursorSealer,
) -> Result<HttpResponse, PageError> {
    let Address { query, number, .. } = address;
    let t = site.interface_of(&query.filter);
    let cursor = address.cursor.as_deref().map(|text| cursors.open(&query.parts(), text)).transpose();
    let cursor = cursor.map_err(|error| PageError::with_help(error, |error| help(t, address, error, None)))?;
    let at = match cursor {
        Some(cursor) => PageAt::Cursor(cursor),
        None if address.is_stable() => number.map_or(PageAt::Front, PageAt::Archive),
        None => PageAt::Number(number.unwrap_or(PageNumber::FIRST), None),
    };
    let page = PageRequest { query, at };
    let has_contrast = contrast::belongs_to(address);
    let comments_max = page.comments_max() + if has_contrast { Contrast::COMMENTS } else { 0 };
    // Before all reads, so that a refused request costs no store a call.
    memory.make_room(request, comments_max).await?;
    // The counts of the filters come with the page; without the page index, it has none.
    let listing = page.read(stores, StatsWanted::WithLanguages);
    let record = stores.known_record(&query.product);
    let contrast = async { if has_contrast { Contrast::read(stores, &query.product).await } else { None } };
    let ((listing, stats), record, contrast) = tokio::join!(listing, record, contrast);
    let listing = match listing {
        // The comments there have been deleted. Whether the listing has others is seen on its first page.
        Ok(Some(listing)) if address.cursor.is_some() && listing.comments.is_empty() => {
            return Ok(caching::lead_to(&address.page(None)));
        }
        Ok(Some(listing)) => listing,
        Ok(None) => return Ok(caching::lead_to(&address.page(None))),
        Err(ApiError::PastTheEnd { total_pages, .. }) if site.settings.past_the_end == PastTheEnd::Redirect => {
            let last = address.numbered(total_pages);
            return Ok(caching::lead_to(&last.unwrap_or_else(|| address.page(None))));
        }
        Err(ApiError::PastTheArchive { .. }) if site.settings.past_the_end == PastTheEnd::Redirect => {
            return Ok(caching::lead_to(&address.page(None)));
        }
        Err(error) => return Err(PageError::with_help(error, |error| help(t, address, error, stats.as_ref()))),
    };
    let exists = !listing.comments.is_empty() || {
        let exists = query.exists_without_comments(stores).await;
        exists.map_err(|error| PageError::with_help(error, |error| help(t, address, error, stats.as_ref())))?
    };
    let status = if exists { StatusCode::OK } else { StatusCode::NOT_FOUND };
    let by_cursor = listing.continues_by_cursor.then(|| by_cursor(address, &listing, cursors));
    let page = CommentsPage::new(site, address, record.record(), &listing, stats.as_ref(), by_cursor);
    let mut page = page.with_contrast(site, stats.as_ref(), contrast);
    let mut answer = if fragment::is_asked(request) {
        page = page.into_fragment(site);
        render(site, status, &page.head, &page.as_list(), "'none'")?
    } else {
        // The field for a page number is a form.
        render(site, status, &page.head, &page, "'self'")?
    };
    if let Some(validator) = page.validator(site).map_err(ApiError::internal)? {
        answer.headers_mut().insert(header::ETAG, caching::value(&validator));
    }
    if stats.is_none() || listing.has_empty_places || !exists || record == KnownRecord::Unreadable {
        // Not cached, because a cache would keep it longer than a store is unavailable or behind, or the listing empty.
        return Ok(caching::uncached(answer));
    }
    Ok(answer)
}

fn by_cursor(address: &Address, listing: &ListingPage, cursors: &CursorSealer) -> Neighbours {
    let page = |cursor: &Cursor| address.at_cursor(&cursors.seal(&address.query.parts(), cursor));
    let [prev, next] = [&listing.prev, &listing.next].map(|cursor| cursor.as_ref().map(page));
    Neighbours { prev, next, ..Neighbours::default() }
}

/// The links that lead on from a page of comments that cannot be shown. None leads to a listing that is known to have no
/// comment.
fn help(t: &Interface, address: &Address, error: &ApiError, stats: Option<&Stats>) -> Help {
    let mut help = Help::default();
    let mut lead = |label: String, href: String| help.links.push((label, href));
    let text = |id| t.text(id).into_owned();
    let (first, newest) = (address.page(None), text("the-newest-comments"));
    let counts = Counts::new(address, stats);
    let is_later_page = address.number.is_some();
    if matches!(error, ApiError::PastTheEnd { .. } | ApiError::PastTheArchive { .. })
        && counts.of(&address.query.filter) == Some(0)
    {
        // Its first page is 404 too.
    } else if let ApiError::PastTheEnd { total_pages, .. } = error {
        if let Some(last) = address.numbered(*total_pages).filter(|_| *total_pages > 1) {
            lead(t.page("last-page", *total_pages), last);
        }
        lead(text("page-1"), first);
    } else if let ApiError::PastTheArchive { .. } = error {
        lead(newest, first);
    } else if let ApiError::Invalid { .. } = error {
        // The cursor is not of this listing, or its key is gone.
        lead(text("first-page"), first);
    } else {
        lead(text("try-again"), address.canonical());
        if is_later_page && address.is_stable() {
            lead(newest, first);
        } else if is_later_page && matches!(error, ApiError::NotYetListed) {
            lead(text("page-1"), first);
        } else if is_later_page && matches!(error, ApiError::IndexUnavailable) {
            lead(text("page-1-oldest"), first);
        }
    }
    if address.query.filter != Filter::ANY && counts.of_product() != Some(0) {
        lead(text("all-comments"), address.all_comments());
    }
    if let ApiError::IndexUnavailable = error {
        help.meanwhile = Some(if is_later_page { "meanwhile-first-page" } else { "meanwhile-others" });
    }
    help
}
