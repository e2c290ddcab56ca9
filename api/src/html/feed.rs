//! `/product/{product}/feed/{language or ~}/{ratings or ~}`: the newest comments of a listing as an
//! Atom feed (RFC 4287).
//!
//! An entry's `updated` is the time of the comment's last change, so readers of feeds see edits. A
//! deleted comment only disappears.

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use askama::Template;
use model::{Comment, Filter, ListingOrder, PageNumber, Timestamp};

use super::address::{self, PageAddress};
use crate::{
    error::ApiError,
    http::{answer_memory::AnswerMemory, caching, error_page::PageError},
    links,
    read::{
        ListingQuery,
        cursor::CursorSealer,
        page::{self, Asked, NotShown, Shown, ShownPage, WantedBesides},
    },
    site::{PastTheEnd, Site},
    store::StoreClients,
    texts::Interface,
};

pub(super) const ATOM: &str = "application/atom+xml";

#[derive(Template)]
#[template(path = "feed.xml")]
struct Feed<'feed> {
    site: &'feed Site,
    t: &'feed Interface,
    address: &'feed PageAddress,
    title: String,
    updated: Timestamp,
    comments: &'feed [Comment],
}

pub(super) async fn feed(
    request: HttpRequest,
    stores: web::Data<StoreClients>,
    memory: web::Data<AnswerMemory>,
    site: web::Data<Site>,
    cursors: web::Data<CursorSealer>,
) -> Result<HttpResponse, PageError> {
    let (address, spelling) = address::read(&request)?;
    if !address::is_same_path(request.uri().path(), &address.feed()) {
        return Ok(spelling.moved(address.feed()));
    }
    let query = ListingQuery {
        order: ListingOrder::Newest,
        ..address.query.clone()
    };
    let asked = Asked {
        query: &query,
        is_stable: false,
        number: Some(PageNumber::FIRST),
        as_of: None,
        cursor: None,
        date: None,
        past_the_end: PastTheEnd::NotFound,
        besides: WantedBesides {
            record: true,
            ..WantedBesides::PAGE_ALONE
        },
    };
    let answered = match page::show(&asked, &request, &stores, &memory, &cursors).await {
        Ok(Shown::Page(page)) => answer(&address, *page, &stores, &site).await,
        // A page by number is where its number is.
        Ok(Shown::Elsewhere { .. }) => Err(ApiError::NoRoute.into()),
        Err(NotShown { error, .. }) => Err(error.into()),
    };
    answered.map_err(|error| error.of_filter(&query.filter))
}

async fn answer(
    address: &PageAddress,
    page: ShownPage,
    stores: &StoreClients,
    site: &Site,
) -> Result<HttpResponse, PageError> {
    let query = &address.query;
    // A feed needs the time of a change, which only a comment has.
    let Some(updated) = page
        .listing
        .comments
        .iter()
        .map(|comment| comment.revision.instant())
        .max()
    else {
        let exists = query.exists_without_comments(stores).await;
        return Err(exists.err().unwrap_or(ApiError::NoRoute).into());
    };
    let name = match page.record.record() {
        Some(record) => &record.details.name,
        None => query.product.as_str(),
    };
    let t = site.interface_of(&query.filter);
    let title = title(t, name, &query.filter);
    let feed = Feed {
        site,
        t,
        address,
        title,
        updated,
        comments: &page.listing.comments,
    };
    let body = feed.render().map_err(ApiError::internal)?;
    let mut answer = HttpResponse::Ok();
    answer.insert_header((header::CONTENT_TYPE, format!("{ATOM}; charset=utf-8")));
    // A search result should lead to a page.
    answer.insert_header(("X-Robots-Tag", "noindex"));
    Ok(caching::kept_if(page.may_be_kept(), answer.body(body)))
}

/// "Comments on espresso-machine, in English".
fn title(t: &Interface, name: &str, filter: &Filter) -> String {
    t.joined([
        Some(t.with("title-comments", [("name", name.into())])),
        t.filter(filter),
    ])
}

/// A text without the characters that XML does not have, which escaping cannot express: U+FFFE and
/// U+FFFF. Stored texts have no control characters but line breaks and tabs.
fn xml_text(text: &str) -> String {
    text.chars()
        .filter(|c| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_xml_lacks_are_left_out() {
        assert_eq!(
            xml_text("a\u{0}\u{7}\u{1b}b\u{fffe}\u{ffff}c\n\t☕😀"),
            "abc\n\t☕😀"
        );
    }
}
