//! The base path: the path of the public URL, such as `/reviews` where a proxy serves the site
//! under `https://shop.example.com/reviews/`.
//!
//! Routes know only paths from the root of the site. [`serve`] removes the base path from requests
//! and puts it in front of the addresses that redirects lead to. Templates put it in front of the
//! addresses of a page, and the JSON API in front of its links.
//!
//! A proxy may remove the base path, or leave it: a request without it is answered too. It may also
//! decode the path, so [`serve`] encodes the slashes of ids again.

use std::sync::Arc;

use actix_web::{
    Error,
    body::BoxBody,
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Uri,
        header::{self, HeaderMap, HeaderValue},
    },
    middleware::Next,
};

use super::path_and_query::with_whole_id;

/// Serves requests with the base path, or without it. The layers and handlers inside see them
/// without it.
pub(crate) async fn serve(
    base: Arc<str>,
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    remove(&mut request, &base);
    if let Some(path) = with_whole_id(request.path()) {
        replace(&mut request, &path);
    }
    let mut answer = next.call(request).await?;
    lead(answer.headers_mut(), &base);
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
    match uri.query() {
        Some(query) => format!("{path}?{query}").parse().ok(),
        None => path.parse().ok(),
    }
}

/// Puts `base` in front of the address on the site that a redirect leads to.
pub(crate) fn lead(headers: &mut HeaderMap, base: &str) {
    let location = headers
        .get(header::LOCATION)
        .and_then(|location| location.to_str().ok());
    let Some(path) = location.filter(|location| location.starts_with('/')) else {
        return;
    };
    if let Ok(location) = HeaderValue::from_str(&[base, path].concat()) {
        headers.insert(header::LOCATION, location);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address without the base path `/reviews`; `None` if it does not begin with that.
    fn without_reviews(uri: &str) -> Option<String> {
        let uri: Uri = uri.parse().unwrap();
        let path = without(uri.path(), "/reviews")?;
        Some(with_path(&uri, path)?.to_string())
    }

    #[test]
    fn the_base_path_is_removed_only_as_whole_parts() {
        for (uri, rest) in [
            ("/reviews", "/"),
            ("/reviews?x=1", "/?x=1"),
            (
                "/reviews/product/a%2Fb/comments?page=2",
                "/product/a%2Fb/comments?page=2",
            ),
            ("/reviews/reviews/x", "/reviews/x"),
        ] {
            assert_eq!(without_reviews(uri).as_deref(), Some(rest), "{uri}");
        }
        for uri in ["/", "/product/p/comments", "/reviewsx/", "/x/reviews/"] {
            assert_eq!(without_reviews(uri), None, "{uri}");
        }
    }

    #[test]
    fn a_redirect_leads_below_the_base_path() {
        for (location, expected) in [
            ("/x?y", "/r/x?y"),
            ("/rx", "/r/rx"),
            ("https://a/x", "https://a/x"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::LOCATION, HeaderValue::from_static(location));
            lead(&mut headers, "/r");
            assert_eq!(headers.get(header::LOCATION).unwrap(), expected);
        }
    }
}
