//! `GET /api/v1/products`

use actix_web::{HttpResponse, http::header, web};
use model::{PageNumber, PageSize};
use serde::Serialize;
use utoipa::ToSchema;

use super::{list::Links, parameters::Parsed, stats::TotalsBody};
use crate::{error::ApiError, links, read::products::Products, site::Site};

/// One page of the list of products.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ProductPage, example = json!({
    "page": 2, "page_size": 1, "total": 3, "total_pages": 3,
    "products": [{
        "product": "espresso-machine", "total": 45,
        "by_rating": [
            {"rating": 1, "total": 2}, {"rating": 2, "total": 1}, {"rating": 3, "total": 4}, {"rating": 4, "total": 12},
            {"rating": 5, "total": 26}
        ],
        "average": 4.31, "last_commented_at": "2024-11-14T09:21:05.600Z",
        "comments": "/api/v1/products/espresso-machine/comments"
    }],
    "links": {
        "self": "/api/v1/products?page=2&page_size=1",
        "first": "/api/v1/products?page=1&page_size=1",
        "prev": "/api/v1/products?page=1&page_size=1",
        "next": "/api/v1/products?page=3&page_size=1",
        "last": "/api/v1/products?page=3&page_size=1"
    }
}))]
pub(crate) struct ProductListBody<'page> {
    #[schema(value_type = u64, minimum = 1)]
    page: PageNumber,
    #[schema(value_type = u8, minimum = 1, maximum = 100)]
    page_size: PageSize,
    /// How many products have comments.
    total: u64,
    total_pages: u64,
    /// The most commented first. Equal products follow by their ids.
    products: Vec<ListedProduct<'page>>,
    links: Links,
}

/// A product with comments.
#[derive(Debug, Serialize, ToSchema)]
struct ListedProduct<'page> {
    product: &'page str,
    #[serde(flatten)]
    totals: TotalsBody,
    /// The URL of its comments.
    comments: String,
}

/// One page of the products that have comments.
///
/// The list is made of the totals in the page index. It may be ten minutes old, or two hundred
/// times as long as it takes to read these totals. While a part of the page index is away and no
/// list is left, the answer is 503.
#[utoipa::path(
    get,
    path = "/api/v1/products",
    tag = "products",
    params(Parsed<(PageNumber, PageSize)>),
    responses(
        (
            status = 200,
            description = "The page; an empty page 1 means that no product has comments",
            body = ProductListBody<'static>,
            headers(
                ("ETag" = String, description = "Weak"),
                ("Link" = String, description = "`first`, `prev`, `next` and `last`, as in `links` (RFC 8288)"),
            ),
        ),
    ),
)]
pub(crate) async fn list_products(
    Parsed((number, page_size)): Parsed<(PageNumber, PageSize)>,
    products: web::Data<Products>,
    site: web::Data<Site>,
) -> Result<HttpResponse, ApiError> {
    let base_path = &site.public_url.base_path;
    let walk = products.into_inner().walk_with(number, page_size).await?;
    let mut listed = Vec::new();
    for product in walk.page(number, page_size) {
        listed.push(ListedProduct {
            product: product.id.as_str(),
            totals: TotalsBody::new(product.by_rating, Some(product.last_commented_at)),
            comments: format!("{base_path}{}", links::api_comments(&product.id)),
        });
    }
    let total = walk.total();
    let total_pages = page_size.total_pages(total);
    let links = Links::of_pages(number.get(), total_pages, |page| {
        links::api_products(base_path, page, page_size)
    });
    let mut answer = HttpResponse::Ok();
    answer.insert_header((header::LINK, links.header()));
    Ok(answer.json(ProductListBody {
        page: number,
        page_size,
        total,
        total_pages,
        products: listed,
        links,
    }))
}
