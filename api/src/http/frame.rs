//! The frame of a page: what depends on the site and not on the page, so that no template needs to know it.
//!
//! - The [base path](super::base_path) in front of every address.
//! - The site's [look](crate::look): the style sheet, and the header and footer of the site's folder. They are taken as
//!   they are: an address in them begins at the root of the host.
//!
//! Templates mark the places. A page whose marks have been replaced is complete, and stays as it is. Fragments have no
//! marks.
//!
//! **Invariant:** no text of a person is taken for a mark: templates escape `<`.

use actix_web::{
    Error,
    body::{BoxBody, MessageBody},
    dev::{ResponseHead, ServiceRequest, ServiceResponse},
    error::InternalError,
    http::header::{self, HeaderMap},
    middleware::Next,
    web::Data,
};

use super::{
    base_path::{in_page, lead, remove},
    caching,
};
use crate::{look::Look, site::Site};

/// The mark for the link to the style sheet.
const STYLE: &str = "<!--style-->";

/// The mark at the top of the body.
const HEADER: &str = "<!--header-->";

/// The mark at the end of the body.
const FOOTER: &str = "<!--footer-->";

/// Serves requests with the base path, or without it. The other layers see them without it. Completes the answers of layers,
/// such as that to a request that took too long.
pub(crate) async fn serve(mut request: ServiceRequest, next: Next<BoxBody>) -> Result<ServiceResponse, Error> {
    let Some(site) = request.app_data::<Data<Site>>().cloned() else { return next.call(request).await };
    remove(&mut request, site.public_url.base_path());
    let complete = |head: &mut ResponseHead, body| completed(&site, head, body);
    match next.call(request).await {
        Ok(answer) => Ok(answer.map_body(complete)),
        // The layers inside answer so when a request takes too long, or panics.
        Err(error) => {
            let answer = error.error_response().map_body(complete);
            Err(InternalError::from_response(error, answer).into())
        }
    }
}

/// Completes the pages of a resource before they get their entity tag and are compressed.
pub(crate) async fn complete(request: ServiceRequest, next: Next<BoxBody>) -> Result<ServiceResponse, Error> {
    let site = request.app_data::<Data<Site>>().cloned();
    let answer = next.call(request).await?;
    Ok(match site {
        Some(site) => answer.map_body(|head, body| completed(&site, head, body)),
        None => answer,
    })
}

fn completed(site: &Site, head: &mut ResponseHead, body: BoxBody) -> BoxBody {
    let base = site.public_url.base_path();
    lead(&mut head.headers, base);
    let is_page = head.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    if !is_page || head.headers.contains_key(header::CONTENT_ENCODING) {
        return body;
    }
    match body.try_into_bytes() {
        Ok(bytes) => {
            let look = site.look();
            match std::str::from_utf8(&bytes).ok().and_then(|page| completed_page(&look, page, base)) {
                Some(page) => {
                    cover(&mut head.headers, &look);
                    BoxBody::new(page)
                }
                None => BoxBody::new(bytes),
            }
        }
        // A page in parts, which `complete` has seen whole.
        Err(body) => body,
    }
}

/// Makes the entity tag that a handler has set cover the look that its page got. A page never has the tag of another look,
/// not even while the look is replaced.
fn cover(headers: &mut HeaderMap, look: &Look) {
    let tag = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()?.strip_suffix('"'));
    if let Some(covering) = tag.map(|tag| format!("{tag}.{}\"", look.version)) {
        headers.insert(header::ETAG, caching::value(&covering));
    }
}

/// The complete page of a template's text; `None` if that is none, or is complete.
fn completed_page(look: &Look, page: &str, base: &str) -> Option<String> {
    let (head, rest) = page.split_once(STYLE)?;
    let (rest_of_head, body) = rest.split_once(HEADER)?;
    let (body, end) = body.rsplit_once(FOOTER)?;
    let style = format!("<link rel=\"stylesheet\" href=\"{}\">", look.style_sheet.url());
    let [head, style, rest_of_head, body] = [head, &style, rest_of_head, body].map(|part| in_page(part, base));
    Some([&*head, &style, &rest_of_head, &look.header, &body, &look.footer, end].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_a_page_covers_its_look() {
        let tag = |look: &Look| {
            let mut headers = HeaderMap::new();
            cover(&mut headers, look);
            assert!(headers.is_empty(), "no tag is made here");
            headers.insert(header::ETAG, caching::value("W/\"abc\""));
            cover(&mut headers, look);
            headers.get(header::ETAG).unwrap().to_str().unwrap().to_owned()
        };
        let other = Look { version: "1f".into(), ..Look::default() };
        assert_eq!(tag(&other), "W/\"abc.1f\"");
        assert_ne!(tag(&other), tag(&Look::default()));
    }

    #[test]
    fn a_page_is_completed_once_and_the_sites_own_addresses_stay() {
        let look = Look { header: "<a href=\"/cart\">".into(), footer: FOOTER.into(), ..Look::default() };
        let page = format!("<head>{STYLE}</head><body>{HEADER}<a href=\"/\">\n{FOOTER}</body>");
        let style = look.style_sheet.url();
        let complete = format!(
            "<head><link rel=\"stylesheet\" href=\"/r{style}\"></head>\
             <body><a href=\"/cart\"><a href=\"/r/\">\n{FOOTER}</body>"
        );
        assert_eq!(completed_page(&look, &page, "/r").as_deref(), Some(complete.as_str()));
        for other in [complete.as_str(), "<article></article>"] {
            assert_eq!(completed_page(&look, other, "/r"), None);
        }
    }
}
