//! The base path: the path of the public URL, such as `/reviews` where a proxy serves the site
//! under `https://shop.example.com/reviews/`.
//!
//! Routes know only paths from the root of the site. [`serve`] removes the base path from requests
//! and puts it in front of the places that redirects lead to. Templates put it in front of the
//! addresses of a page, and the JSON API in front of its links.
//!
//! A proxy may remove the base path, or leave it: a request without it is answered too. It may also
//! decode the path, so [`serve`] encodes the slashes of ids again.

use actix_web::{
    Error,
    body::BoxBody,
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Uri,
        header::{self, HeaderMap, HeaderValue},
    },
    middleware::Next,
    web::Data,
};

use crate::{http::path_and_query::with_whole_id, site::Site};

/// Serves requests with the base path, or without it. The layers and handlers inside see them
/// without it.
pub(crate) async fn serve(
    site: Data<Site>,
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let base = &site.public_url.base_path;
    remove(&mut request, base);
    if let Some(path) = with_whole_id(request.path()) {
        replace(&mut request, &path);
    }
    let mut answer = next.call(request).await?;
    lead(answer.headers_mut(), base);
    Ok(answer)
}

/// Removes `base` from the front of a request's path, if it is there.
pub(crate) fn remove(request: &mut ServiceRequest, base: &str) {
    if let Some(path) = without(request.uri().path(), base).map(str::to_owned) {
        replace(request, &path);
    }
}

fn without<'path>(path: &'path str, base: &str) -> Option<&'path str> {
    let rest = path
        .strip_prefix(base)
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
    Some(if rest.is_empty() { "/" } else { rest })
}

fn replace(request: &mut ServiceRequest, path: &str) {
    let Some(uri) = with_path(request.uri(), path) else {
        return;
    };
    request.match_info_mut().get_mut().update(&uri);
    request.head_mut().uri = uri;
}

fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let target = uri
        .query()
        .map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    target.parse().ok()
}

pub(crate) fn lead(headers: &mut HeaderMap, base: &str) {
    let place = headers
        .get(header::LOCATION)
        .and_then(|place| place.to_str().ok());
    let Some(path) = place.filter(|place| place.starts_with('/')) else {
        return;
    };
    if let Ok(place) = HeaderValue::from_str(&[base, path].concat()) {
        headers.insert(header::LOCATION, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_path_is_removed_only_as_whole_parts() {
        let without = |uri: &str| {
            let uri: Uri = uri.parse().unwrap();
            with_path(&uri, without(uri.path(), "/reviews")?).map(|uri| uri.to_string())
        };
        for (uri, rest) in [
            ("/reviews", "/"),
            ("/reviews?x=1", "/?x=1"),
            (
                "/reviews/product/a%2Fb/comments?page=2",
                "/product/a%2Fb/comments?page=2",
            ),
            ("/reviews/reviews/x", "/reviews/x"),
        ] {
            assert_eq!(without(uri).as_deref(), Some(rest), "{uri}");
        }
        for uri in ["/", "/product/p/comments", "/reviewsx/", "/x/reviews/"] {
            assert_eq!(without(uri), None, "{uri}");
        }
    }

    #[test]
    fn a_redirect_leads_below_the_base_path() {
        for (place, expected) in [
            ("/x?y", "/r/x?y"),
            ("/rx", "/r/rx"),
            ("https://a/x", "https://a/x"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::LOCATION, HeaderValue::from_static(place));
            lead(&mut headers, "/r");
            assert_eq!(headers.get(header::LOCATION).unwrap(), expected);
        }
    }
}
