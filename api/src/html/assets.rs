//! The files that pages load, besides the style sheet, which belongs to the site's look.

use std::sync::LazyLock;

use actix_web::{HttpRequest, HttpResponse, http::header, web};

use crate::{error::ApiError, http::asset::Asset, site::Site};

pub(super) static ICON: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "image/svg+xml",
        "/static/icon.svg",
        include_str!("../../static/icon.svg"),
    )
});

/// The web component that shows a fragment. Pages of other sites name it, so its address has no
/// version.
pub(super) static COMPONENT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "text/javascript; charset=utf-8",
        "/static/pagemark-comments.js",
        COMPONENT_SCRIPT,
    )
});

const COMPONENT_SCRIPT: &str = include_str!("../../static/pagemark-comments.js");

/// Answers a picture of a product that the site serves itself.
pub(super) async fn picture(
    request: HttpRequest,
    site: web::Data<Site>,
) -> Result<HttpResponse, ApiError> {
    let mut pictures = site.settings.pictures.iter();
    let (_, svg) = pictures
        .find(|(path, _)| *path == request.uri().path())
        .ok_or(ApiError::NoRoute)?;
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "image/svg+xml"))
        .body(*svg))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::compression;

    #[test]
    fn the_web_component_has_at_most_3_kilobytes_as_it_is_sent() {
        let len = compression::gzip(COMPONENT_SCRIPT.as_bytes())
            .unwrap()
            .len();
        assert!(len <= 3_000, "{len}");
    }
}
