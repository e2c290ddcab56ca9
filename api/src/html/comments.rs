//! `/product/{product}/comments/{language or ~}/{ratings or ~}?page=N` or `?date=YYYY-MM`;
//! `?cursor=…` leads where no number does.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web,
};
use model::{Filter, PageNumber, Period};
use page_index::StatsWanted;

use super::{
    address::{self, PageAddress, Spelling},
    context::Context,
    contrast, fragment, render,
    view::CommentsPage,
};
use crate::{
    error::ApiError,
    http::{
        answer_memory::AnswerMemory,
        caching,
        error_page::{Help, PageError},
    },
    links,
    read::{
        contrast::Contrast,
        cursor::{Cursor, CursorSealer},
        dates,
        page::{ListingPage, PageAt, PageRead, PageRequest, WantedBesides},
        page_position::Neighbours,
    },
    site::{PastTheEnd, Site},
    store::{KnownRecord, StoreClients},
};

pub(super) async fn page(
    request: HttpRequest,
    stores: web::Data<StoreClients>,
    memory: web::Data<AnswerMemory>,
    site: web::Data<Site>,
    cursors: web::Data<CursorSealer>,
) -> Result<HttpResponse, PageError> {
    let (address, spelling) = address::read(&request)?;
    let in_language_of_page = |error: PageError| error.of_filter(&address.query.filter);
    if let Some(period) = address.date {
        return lead_to_date(&address, period, &stores)
            .await
            .map_err(in_language_of_page);
    }
    if let Spelling::Other { foreign } = spelling {
        return Ok(address::moved(&address.canonical(), &foreign));
    }
    answer(&request, &address, &stores, &memory, &site, &cursors)
        .await
        .map_err(in_language_of_page)
}

async fn lead_to_date(
    address: &PageAddress,
    period: Period,
    stores: &StoreClients,
) -> Result<HttpResponse, PageError> {
    let (position, id) = dates::newest_of_period(stores, &address.query, period).await?;
    let fragment = match &id {
        Some(id) => links::fragment(id),
        None => links::TO_COMMENTS.to_owned(),
    };
    Ok(caching::lead_to(
        &(address.page(address.number_of(position)) + &fragment),
    ))
}

async fn answer(
    request: &HttpRequest,
    address: &PageAddress,
    stores: &StoreClients,
    memory: &AnswerMemory,
    site: &Site,
    cursors: &CursorSealer,
) -> Result<HttpResponse, PageError> {
    let query = &address.query;
    let context = Context::new(site, address, None);
    let cursor = address
        .cursor
        .as_deref()
        .map(|text| cursors.open(&query.parts(), text))
        .transpose();
    let cursor = cursor.map_err(|error| failed(context, error))?;
    let at = page_at(address, cursor);
    let page = PageRequest { query, at };
    let has_contrast = contrast::belongs_to(address);
    let comments_max = page.comments_max() + if has_contrast { Contrast::COMMENTS } else { 0 };
    // Before all reads, so that a refused request costs no store a call.
    memory.make_room(request, comments_max).await?;
    // The counts of the filters come with the page; without the page index, it has none.
    let wanted = WantedBesides {
        stats: StatsWanted::WithLanguages,
        contrast: has_contrast,
    };
    let record = stores.known_record(&query.product);
    let (read, record) = tokio::join!(page.read(stores, wanted), record);
    let PageRead {
        listing,
        stats,
        contrast,
    } = read;
    let context = Context {
        stats: stats.as_ref(),
        ..context
    };
    let leads_on = site.settings.past_the_end == PastTheEnd::Redirect;
    let listing = match listing {
        // The comments there have been deleted. Whether the listing has others is seen on its first
        // page.
        Ok(Some(listing)) if address.cursor.is_some() && listing.comments.is_empty() => None,
        Ok(listing) => listing,
        Err(ApiError::PastTheEnd { total_pages, .. })
            if leads_on && let Some(last) = address.numbered(total_pages) =>
        {
            return Ok(caching::lead_to(&last));
        }
        Err(ApiError::PastTheEnd { .. } | ApiError::PastTheArchive { .. }) if leads_on => None,
        Err(error) => return Err(failed(context, error)),
    };
    let Some(listing) = listing else {
        return Ok(caching::lead_to(&address.page(None)));
    };
    let exists = !listing.comments.is_empty()
        || query
            .exists_without_comments(stores)
            .await
            .map_err(|error| failed(context, error))?;
    let status = if exists {
        StatusCode::OK
    } else {
        StatusCode::NOT_FOUND
    };
    let by_cursor = listing
        .continues_by_cursor
        .then(|| by_cursor(address, &listing, cursors));
    let is_fragment = fragment::is_asked(request);
    let page = CommentsPage::new(
        context,
        record.record(),
        &listing,
        by_cursor,
        contrast,
        is_fragment,
    );
    let mut answer = match is_fragment {
        true => render(status, &page.head, &page.as_list(), "'none'")?,
        // The field for a page number is a form.
        false => render(status, &page.head, &page, "'self'")?,
    };
    if let Some(validator) = page.validator().map_err(ApiError::internal)? {
        answer
            .headers_mut()
            .insert(header::ETAG, caching::value(&validator));
    }
    if stats.is_none() || listing.has_empty_places || !exists || record == KnownRecord::Unreadable {
        // Not cached, because a cache would keep it longer than a store is unavailable or behind,
        // or the listing empty.
        return Ok(caching::uncached(answer));
    }
    Ok(answer)
}

fn page_at(address: &PageAddress, cursor: Option<Cursor>) -> PageAt {
    match (cursor, address.number) {
        (Some(cursor), _) => PageAt::Cursor(cursor),
        (None, Some(number)) if address.is_stable() => PageAt::Archive(number),
        (None, None) if address.is_stable() => PageAt::Front,
        (None, number) => PageAt::Number(number.unwrap_or(PageNumber::FIRST), None),
    }
}

fn by_cursor(address: &PageAddress, listing: &ListingPage, cursors: &CursorSealer) -> Neighbours {
    let page = |cursor: &Cursor| address.at_cursor(&cursors.seal(&address.query.parts(), cursor));
    let [prev, next] = [&listing.prev, &listing.next].map(|cursor| cursor.as_ref().map(page));
    Neighbours {
        prev,
        next,
        ..Neighbours::default()
    }
}

/// The error of a page of comments that cannot be shown, with the links that lead on from it. None
/// leads to a listing that is known to have no comment.
fn failed(context: Context<'_>, error: ApiError) -> PageError {
    let Context { t, address, .. } = context;
    let mut links = Vec::new();
    let mut lead = |label: String, href: String| links.push((label, href));
    let text = |id| t.text(id).into_owned();
    let (first, newest) = (address.page(None), text("the-newest-comments"));
    let is_later_page = address.number.is_some();
    if matches!(
        error,
        ApiError::PastTheEnd { .. } | ApiError::PastTheArchive { .. }
    ) && context.count(&address.query.filter) == Some(0)
    {
        // Its first page is 404 too.
    } else if let ApiError::PastTheEnd { total_pages, .. } = error {
        if let Some(last) = address.numbered(total_pages).filter(|_| total_pages > 1) {
            lead(t.page("last-page", total_pages), last);
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
    if address.query.filter != Filter::ANY && context.count(&Filter::ANY) != Some(0) {
        lead(text("all-comments"), address.filtered(&Filter::ANY));
    }
    let is_away = matches!(error, ApiError::IndexUnavailable);
    let meanwhile = is_away.then_some(if is_later_page {
        "meanwhile-first-page"
    } else {
        "meanwhile-others"
    });
    PageError {
        error,
        help: Help { meanwhile, links },
        language: None,
    }
}
