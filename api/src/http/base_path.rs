//! The base path: the path of the public URL, such as `/reviews` where a proxy serves the site under
//! `https://shop.example.com/reviews/`.
//!
//! Everything inside knows only paths from the root of the site: routes, links and templates. The layers of `frame` remove
//! the base path from requests, and put it in front of the addresses in answers. Absolute URLs have it from the
//! public URL, and the links of the JSON API from their own module.
//!
//! A proxy may remove the base path, or leave it: a request without it is answered too.
//!
//! **Invariant:** an address of the site is never taken for a text of a person. In a page, only a template writes a
//! quotation mark behind an attribute's name; in texts they are escaped (`a_text_that_looks_like_an_attribute_stays`).

use std::borrow::Cow;

use actix_web::{
    dev::ServiceRequest,
    http::{
        Uri,
        header::{self, HeaderMap, HeaderValue},
        uri::PathAndQuery,
    },
};

/// The attributes of pages that hold addresses.
const ATTRIBUTES: [&str; 3] = [" href", " src", " action"];

/// Removes `base` from the front of a request's path, if it is there.
pub(crate) fn remove(request: &mut ServiceRequest, base: &str) {
    let Some(uri) = without(request.uri(), base) else { return };
    request.match_info_mut().get_mut().update(&uri);
    request.head_mut().uri = uri;
}

fn without(uri: &Uri, base: &str) -> Option<Uri> {
    let rest = uri.path().strip_prefix(base).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
    let path = if rest.is_empty() { "/" } else { rest };
    let target = uri.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target.parse::<PathAndQuery>().ok()?);
    Uri::from_parts(parts).ok()
}

/// Adds `base` to the place that an answer leads to, if that is a path without it.
pub(crate) fn lead(headers: &mut HeaderMap, base: &str) {
    let Some(path) = headers.get(header::LOCATION).and_then(|place| place.to_str().ok()) else { return };
    if is_path_without(path, base)
        && let Ok(place) = HeaderValue::from_str(&[base, path].concat())
    {
        headers.insert(header::LOCATION, place);
    }
}

/// Puts `base` in front of the addresses in a page that begin at the root of the site.
pub(crate) fn in_page<'page>(page: &'page str, base: &str) -> Cow<'page, str> {
    const VALUE: &str = "=\"";
    if base.is_empty() {
        return Cow::Borrowed(page);
    }
    let mut with_base = String::with_capacity(page.len() + page.len() / 8);
    let mut rest = page;
    while let Some((before, from)) = rest.split_once(VALUE) {
        with_base.push_str(before);
        with_base.push_str(VALUE);
        if ATTRIBUTES.iter().any(|name| before.ends_with(name)) && is_path_without(from, base) {
            with_base.push_str(base);
        }
        rest = from;
    }
    with_base.push_str(rest);
    Cow::Owned(with_base)
}

/// Whether a text begins with a path to which `base` was not added yet. No path of the service begins with the base path.
fn is_path_without(text: &str, base: &str) -> bool {
    text.starts_with('/') && !text.strip_prefix(base).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_path_is_removed_only_as_whole_parts() {
        let without = |uri: &str| without(&uri.parse().unwrap(), "/reviews").map(|uri| uri.to_string());
        for (uri, rest) in [
            ("/reviews", "/"),
            ("/reviews?x=1", "/?x=1"),
            ("/reviews/product/a%2Fb/comments?page=2", "/product/a%2Fb/comments?page=2"),
            ("/reviews/reviews/x", "/reviews/x"),
        ] {
            assert_eq!(without(uri).as_deref(), Some(rest), "{uri}");
        }
        for uri in ["/", "/product/p/comments", "/reviewsx/", "/x/reviews/"] {
            assert_eq!(without(uri), None, "{uri}");
        }
    }

    #[test]
    fn each_address_of_a_page_gets_the_base_path_once() {
        let page =
            r##"<a href="/x?a=1&amp;b=2">a</a><a href="#main"><img src="/i.svg"><form action="/f"><a href="/">"##;
        let based = r##"<a href="/r/x?a=1&amp;b=2">a</a><a href="#main"><img src="/r/i.svg"><form action="/r/f"><a href="/r/">"##;
        assert_eq!(in_page(page, "/r"), based);
        assert_eq!(in_page(based, "/r"), based);
        let absolute = based.replace("=\"/r/", "=\"https://example.com/r/");
        assert_eq!(in_page(page, "https://example.com/r"), absolute);
        assert_eq!(in_page(page, ""), page);
    }

    #[test]
    fn a_text_that_looks_like_an_attribute_stays() {
        for text in
            ["<p> href=&#34;/x&#34;</p>", r#"{"reviewBody":" href=\"/x\""}"#, r#"<input value="/x">"#, "href='/x'"]
        {
            assert_eq!(in_page(text, "/r"), text);
        }
    }

    #[test]
    fn a_redirect_leads_below_the_base_path() {
        for (place, expected) in
            [("/x?y", "/r/x?y"), ("/r/x", "/r/x"), ("/rx", "/r/rx"), ("https://a/x", "https://a/x")]
        {
            let mut headers = HeaderMap::new();
            headers.insert(header::LOCATION, HeaderValue::from_static(place));
            lead(&mut headers, "/r");
            assert_eq!(headers.get(header::LOCATION).unwrap(), expected);
        }
    }
}
