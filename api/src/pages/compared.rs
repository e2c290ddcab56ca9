//! Renders a page of comments that another design has read.

use actix_web::{HttpRequest, HttpResponse, web};
use model::{Filter, Order, PageSize, ProductId};

use super::{
    address::{self, Address},
    render,
    view::CommentsPage,
};
use crate::{
    comparison::ComparedPage,
    error::{ApiError, PageError},
    listing::{Listing, ListingQuery},
    state::State,
};

pub(crate) fn read_address(request: &HttpRequest) -> Result<(ProductId, Filter), ApiError> {
    let (Address { query, .. }, _) = address::read(request)?;
    Ok((query.product, query.filter))
}

pub(crate) fn answer(request: &HttpRequest, page: ComparedPage) -> Result<HttpResponse, PageError> {
    let state = request.app_data::<web::Data<State>>();
    let state = state.ok_or_else(|| ApiError::internal("a page outside of the service's layers"))?;
    let ComparedPage { product, filter, number, comments, total, stats, next } = page;
    let query = ListingQuery { product, filter, order: Order::Newest, page_size: PageSize::default() };
    let listing = Listing { comments, total: Some(total), next: None, prev: None, as_of: None };
    let page = CommentsPage::new(&state.site, &Address { query, number }, &listing, Some(&stats))?;
    let page = page.led_on_by(number, next);
    render(state, &page.head, &page)
}
