//! `GET /api/v1/products`

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use model::{PageNumber, PageSize, ProductSort, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    parameters::{PAGE_OF_LIST, PAGE_SIZE, Parameter, Parsed, Query, Request, SORT},
    stats::{RatingTotal, average_hundredths},
};
use crate::{
    error::{ApiError, PROBLEM_JSON, Problem},
    links::{self, ProductListUrls},
    read::products::ListedProducts,
    site::Site,
};

/// A request for a page of a list of products.
pub(crate) struct ProductsRequest {
    sort: ProductSort,
    number: PageNumber,
    page_size: PageSize,
}

impl Request for ProductsRequest {
    const PARAMETERS: &'static [&'static Parameter] = &[&SORT, &PAGE_OF_LIST, &PAGE_SIZE];

    fn read(request: &HttpRequest) -> Result<Self, ApiError> {
        let query = Query::read(request, Self::PARAMETERS)?;
        let sort = query.parse(&SORT, ProductSort::parse)?.unwrap_or_default();
        let number = query.parse(&PAGE_OF_LIST, PageNumber::parse)?.unwrap_or(PageNumber::FIRST);
        Ok(Self { sort, number, page_size: query.page_size()? })
    }
}

/// One page of a list of products.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ProductPage, example = json!({
    "sort": "top_rated", "page": 2, "page_size": 1, "total": 3, "total_pages": 3,
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
        "self": "/api/v1/products?sort=top_rated&page=2&page_size=1",
        "first": "/api/v1/products?sort=top_rated&page=1&page_size=1",
        "prev": "/api/v1/products?sort=top_rated&page=1&page_size=1",
        "next": "/api/v1/products?sort=top_rated&page=3&page_size=1",
        "last": "/api/v1/products?sort=top_rated&page=3&page_size=1"
    }
}))]
pub(crate) struct Body<'page> {
    #[schema(value_type = String, pattern = "^(most_commented|recently_commented|top_rated)$")]
    sort: ProductSort,
    #[schema(value_type = u64, minimum = 1)]
    page: PageNumber,
    #[schema(value_type = u8, minimum = 1, maximum = 100)]
    page_size: PageSize,
    /// How many products have comments.
    total: u64,
    total_pages: u64,
    products: Vec<ListedProduct<'page>>,
    links: PageLinks,
}

/// A product with comments.
#[derive(Debug, Serialize, ToSchema)]
struct ListedProduct<'page> {
    product: &'page str,
    /// How many comments it has.
    #[schema(minimum = 1)]
    total: u64,
    /// How many there are of each rating, all five.
    by_rating: Vec<RatingTotal>,
    /// The average rating, to two decimals.
    #[schema(minimum = 1, maximum = 5, required)]
    average: Option<f64>,
    /// When the newest was made.
    #[schema(value_type = String, format = DateTime)]
    last_commented_at: Timestamp,
    /// The URL of its comments.
    comments: String,
}

/// URLs of pages of the list.
#[derive(Debug, Serialize, ToSchema)]
struct PageLinks {
    #[serde(rename = "self")]
    this: String,
    first: String,
    #[schema(required)]
    prev: Option<String>,
    #[schema(required)]
    next: Option<String>,
    last: String,
}

impl PageLinks {
    fn new(urls: ProductListUrls, page: u64, total_pages: u64) -> Self {
        Self {
            this: urls.page(page),
            first: urls.page(1),
            prev: (page > 1).then(|| urls.page(page - 1)),
            next: (page < total_pages).then(|| urls.page(page + 1)),
            last: urls.page(total_pages),
        }
    }

    /// The header `Link`: these links without the page itself.
    fn header(&self) -> String {
        let Self { this: _, first, prev, next, last } = self;
        let others = [("first", Some(first)), ("prev", prev.as_ref()), ("next", next.as_ref()), ("last", Some(last))];
        links::link_header(others.into_iter().filter_map(|(rel, target)| Some((rel, target?.clone()))))
    }
}

/// One page of the products that have comments.
///
/// The lists are made of the totals in the page index. They trail it by at most ten seconds, or forty times as long as it
/// takes to read these totals. While a part of the page index is away, the answer is 503.
#[utoipa::path(
    get,
    path = "/api/v1/products",
    tag = "products",
    params(Parsed<ProductsRequest>),
    responses(
        (
            status = 200,
            description = "The page; an empty page 1 means that no product has comments",
            body = Body<'static>,
            headers(
                ("ETag" = String, description = "Weak"),
                ("Link" = String, description = "`first`, `prev`, `next` and `last`, as in `links` (RFC 8288)"),
            ),
        ),
        (status = 404, description = "The page lies past the end", body = Problem<'static>, content_type = PROBLEM_JSON),
    ),
)]
pub(crate) async fn list_products(
    Parsed(ProductsRequest { sort, number, page_size }): Parsed<ProductsRequest>,
    listed: web::Data<ListedProducts>,
    site: web::Data<Site>,
) -> Result<HttpResponse, ApiError> {
    let base_path = site.public_url.base_path();
    let page = listed.into_inner().page(sort, number, page_size).await?;
    let products = page.products().map(|totals| {
        let by_rating: Vec<_> = totals.ratings().collect();
        ListedProduct {
            product: totals.product.as_str(),
            total: totals.comments(),
            average: average_hundredths(&by_rating).map(|hundredths| f64::from(hundredths) / 100.0),
            by_rating: by_rating.into_iter().map(|(rating, total)| RatingTotal { rating, total }).collect(),
            last_commented_at: totals.last_commented_at,
            comments: format!("{base_path}{}", links::api_comments(&totals.product)),
        }
    });
    let links = PageLinks::new(ProductListUrls { sort, page_size, base_path }, number.get(), page.total_pages);
    let mut answer = HttpResponse::Ok();
    answer.insert_header((header::LINK, links.header()));
    let (total, total_pages) = (page.total, page.total_pages);
    Ok(answer.json(Body { sort, page: number, page_size, total, total_pages, products: products.collect(), links }))
}
