//! `/product/{product}/comments/{language or ~}/{ratings or ~}?page=N` or `?date=YYYY-MM`;
//! `?cursor=…` leads where no number does.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web,
};
use model::Filter;
use page_index::StatsWanted;

use super::{
    address::{self, PageAddress},
    context::Context,
    contrast,
    fragment::Fragment,
    render, rendered,
    view::CommentsPage,
};
use crate::{
    error::ApiError,
    http::{
        answer_memory::AnswerMemory,
        caching,
        error_page::{Help, PageError},
    },
    read::{
        cursor::{Cursor, CursorSealer},
        page::{self, Asked, ListingPage, NotShown, Shown, ShownPage, WantedBesides},
        page_position::Neighbours,
    },
    site::Site,
    store::StoreClients,
};

pub(super) async fn page(
    request: HttpRequest,
    stores: web::Data<StoreClients>,
    memory: web::Data<AnswerMemory>,
    site: web::Data<Site>,
    cursors: web::Data<CursorSealer>,
) -> Result<HttpResponse, PageError> {
    let (address, spelling) = address::read(&request)?;
    if address.date.is_none() && !spelling.is_canonical {
        return Ok(spelling.moved(address.canonical()));
    }
    let fragment = Fragment::of(&request)?;
    let context = Context::new(&site, &address);
    let asked = asked(context, fragment);
    match page::show(&asked, &request, &stores, &memory, &cursors).await {
        // The comments there have been deleted. Whether the listing has others is seen on its first
        // page.
        Ok(Shown::Page(page)) if address.cursor.is_some() && page.listing.comments.is_empty() => {
            Ok(caching::lead_to(&spelling.led(address.page(None))))
        }
        Ok(Shown::Page(page)) => answer(context, *page, &stores, &cursors, fragment).await,
        Ok(Shown::Elsewhere { number, fragment }) => {
            let page = spelling.led(address.page(number));
            Ok(caching::lead_to(&(page + &fragment)))
        }
        Err(NotShown { error, stats }) => Err(failed(context.counted(stats.as_ref()), error)),
    }
}

fn asked(context: Context<'_>, fragment: Option<Fragment>) -> Asked<'_> {
    let Context { site, address, .. } = context;
    // A part of a page does not show the two comments.
    let is_part = fragment.is_some_and(|fragment| fragment.is_part());
    Asked {
        query: &address.query,
        is_stable: address.is_stable(),
        number: address.number,
        as_of: None,
        cursor: address.cursor.as_deref(),
        date: address.date,
        past_the_end: site.settings.past_the_end,
        // The counts of the filters come with the page.
        besides: WantedBesides {
            stats: StatsWanted::WithLanguages,
            contrast: contrast::belongs_to(address) && !is_part,
            record: true,
        },
    }
}

async fn answer(
    context: Context<'_>,
    mut page: ShownPage,
    stores: &StoreClients,
    cursors: &CursorSealer,
    fragment: Option<Fragment>,
) -> Result<HttpResponse, PageError> {
    let address = context.address;
    let context = context.counted(page.stats.as_ref());
    let exists = !page.listing.comments.is_empty()
        || address
            .query
            .exists_without_comments(stores)
            .await
            .map_err(|error| failed(context, error))?;
    let status = if exists {
        StatusCode::OK
    } else {
        StatusCode::NOT_FOUND
    };
    let may_be_kept = page.may_be_kept() && exists;
    let by_cursor = page
        .listing
        .continues_by_cursor
        .then(|| by_cursor(address, &page.listing, cursors));
    let comments_max = fragment.and_then(|fragment| fragment.comments_max);
    if let Some(max) = comments_max {
        page.listing.comments.truncate(usize::from(max.get()));
    }
    let page = CommentsPage::new(
        context,
        page.record.record(),
        &page.listing,
        by_cursor,
        page.contrast,
        fragment,
    );
    if fragment.is_some_and(|fragment| fragment.is_summary) {
        // It changes with every comment.
        let answer = render(status, &page.head, &page.summary(), "'none'")?;
        return Ok(caching::kept_if(may_be_kept, answer));
    }
    let (text, tag) = page.written().map_err(ApiError::internal)?;
    // The field for a page number is a form.
    let forms = if fragment.is_some() {
        "'none'"
    } else {
        "'self'"
    };
    let mut answer = rendered(status, &page.head, text, forms);
    if let Some(tag) = tag {
        answer
            .headers_mut()
            .insert(header::ETAG, caching::value(&tag));
    }
    Ok(caching::kept_if(may_be_kept, answer))
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
    } else if address.date.is_some() {
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
    let error = PageError {
        error,
        help: Help { meanwhile, links },
        language: None,
    };
    error.of_filter(&address.query.filter)
}
