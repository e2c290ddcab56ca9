//! `/product/{product}/comments/{language or ~}/{ratings or ~}?page=N`

use actix_web::{HttpRequest, HttpResponse, web};
use model::{ANY, Filter, Language, Order, PageNumber, PageSize, RatingSet};

use super::{render, view::CommentsPage};
use crate::{
    error::{ApiError, PageError},
    listing::{self, ListingQuery},
    request,
    state::State,
};

/// Answers a page of comments.
pub(super) async fn page(request: HttpRequest, state: web::Data<State>) -> Result<HttpResponse, PageError> {
    let (query, number) = read(&request)?;
    // The counts of the filters come from the page index too; without it the page does without them.
    let stats = state.stats(&query.product, query.filter.language());
    let (listing, stats) = tokio::join!(listing::read_page(&state, &query, number, None), stats);
    let listing = listing?;
    let stats = stats.filter(|_| listing.total.is_some());
    render(&CommentsPage::new(&query, number, &listing, stats.as_ref()))
}

fn read(request: &HttpRequest) -> Result<(ListingQuery, PageNumber), ApiError> {
    let product = request::product(request, 2)?;
    let language = match request::path_part(request, 4, "language")?.as_str() {
        "" | ANY => None,
        tag => Some(Language::parse(tag)?),
    };
    let ratings = match request::path_part(request, 5, "rating")?.as_str() {
        "" | ANY => None,
        set => Some(RatingSet::parse(set)?),
    };
    let number = match request::page_parameter(request)? {
        Some(text) => PageNumber::parse(&text)?,
        None => PageNumber::FIRST,
    };
    let filter = Filter::new(language, ratings);
    Ok((ListingQuery { product, filter, order: Order::Newest, page_size: PageSize::default() }, number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    fn filter(path: &str) -> Result<String, ApiError> {
        let request = TestRequest::with_uri(&format!("/product/p/{path}")).to_http_request();
        read(&request).map(|(query, number)| format!("{} {number}", query.filter))
    }

    #[test]
    fn every_spelling_of_a_filter_is_understood() {
        for (path, read) in [
            ("comments", "~/~ 1"),
            ("comments/~", "~/~ 1"),
            ("comments/~/~?page=3", "~/~ 3"),
            ("comments/en", "en/~ 1"),
            ("comments/EN/~", "en/~ 1"),
            ("comments/%7E/1.5?utm_source=x&page=2", "~/1.5 2"),
            ("comments/en/1.2.3.4.5", "en/~ 1"),
        ] {
            assert_eq!(filter(path).unwrap(), read, "{path}");
        }
    }

    #[test]
    fn other_spellings_name_what_is_wrong() {
        for (path, named) in [
            ("comments/e", "language"),
            ("comments/en_US", "language"),
            ("comments/%FF", "language"),
            ("comments/en/5.1", "rating"),
            ("comments/en/6", "rating"),
            ("comments/en/%F", "rating"),
            ("comments?page=0", "page"),
            ("comments?page=two", "page"),
            ("comments?page=", "page"),
        ] {
            let refused = filter(path).unwrap_err();
            assert!(matches!(refused, ApiError::Invalid { ref field, .. } if field == named), "{path}: {refused}");
        }
    }
}
