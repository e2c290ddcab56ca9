//! The addresses of pages of comments: every spelling is accepted, and one of them is canonical.
//!
//! | asked for | leads to |
//! | --- | --- |
//! | `?page=03`, `?page=+3` | the number as it is written |
//! | `/~`, `/~/~`, `/en/~`, a slash at the end | without them |
//! | ratings unsorted, repeated, or all five (`5.1.1`, `1.2.3.4.5`) | sorted, each once; none |
//! | a tag in another case (`pt-br`), another tag of a language (`iw`, `zh-Hant-TW`) | `pt-BR`, `he`, `zh-TW` |
//! | `?order=newest` | without it: that is the order of pages that name none |
//! | `?language=en&rating=4&rating=5`, the API's spelling | `/en/4.5` |
//! | `?order=oldest&page=1` | `?order=oldest`: oldest first, the page without a number is page 1 |
//!
//! `?cursor=…` is a page that no number leads to. `?date=2024-05`, without a page number, leads to
//! the page that holds the newest comment of that month.
//!
//! Other parameters, such as campaign tags, change nothing: they neither redirect nor are refused,
//! and a redirect keeps them. Nor does the order of parameters redirect. The answer names the
//! canonical address, and real crawlers drop a redirect whose target they normalise back.
//!
//! Newest first, the page without a number is the front page, and page 1 has the oldest comments.
//! `comments` leads a number to the front page: that depends on how many comments there are.
//!
//! A path in another percent-encoding (`%7E`, `%2f`, `a:b`) is answered where it is. It names the
//! spelling of [`links`] as canonical. Behind a proxy that decodes paths, a redirect there would
//! lead to itself for ever.
//!
//! **Invariant:** a canonical address leads nowhere else (`a_canonical_address_does_not_redirect`).

use actix_web::{HttpRequest, HttpResponse, http::header};
use model::{
    ANY, Filter, InvalidInput, Language, ListingOrder, PageNumber, PageSize, Period, ProductId,
    Rating, RatingSet,
};
use percent_encoding::percent_decode_str;

use crate::{
    error::ApiError,
    http::path_and_query::{not_encoded, pairs, path_part, repeated},
    links,
    read::ListingQuery,
};

#[derive(Debug, Clone)]
pub(super) struct PageAddress {
    pub(super) query: ListingQuery,
    /// `None` for the first page of the listing.
    pub(super) number: Option<PageNumber>,
    /// The sealed cursor of a page that no number leads to.
    pub(super) cursor: Option<String>,
    /// A month or a day to lead to, instead of a page.
    pub(super) date: Option<Period>,
}

impl PageAddress {
    /// Whether the listing has archive pages and a front page. Oldest first, all pages are counted
    /// from the first one.
    pub(super) fn is_stable(&self) -> bool {
        self.query.order == ListingOrder::Newest
    }

    pub(super) fn canonical(&self) -> String {
        match &self.cursor {
            Some(cursor) => self.at_cursor(cursor),
            None => self.page(self.number),
        }
    }

    pub(super) fn at_cursor(&self, cursor: &str) -> String {
        links::page_at_cursor(&self.query, cursor)
    }

    /// The path and query of a page of the listing with this number; `None` for its first page.
    pub(super) fn page(&self, number: Option<PageNumber>) -> String {
        let ListingQuery {
            product,
            filter,
            order,
            ..
        } = &self.query;
        let number = number.and_then(|number| self.unless_first(number));
        links::ordered_page(product, filter, *order, number)
    }

    /// The path and query of the page of the listing with this number, if that is one.
    pub(super) fn numbered(&self, number: u64) -> Option<String> {
        Some(self.page(Some(PageNumber::new(number).ok()?)))
    }

    /// The path and query of the page with this number, if that is one; `None` for the front page.
    pub(super) fn leading_to(&self, page: Option<u64>) -> Option<String> {
        match page {
            Some(number) => self.numbered(number),
            None => Some(self.page(None)),
        }
    }

    /// The path and query of the page with the same number without a filter.
    pub(super) fn original(&self) -> String {
        links::ordered_page(
            &self.query.product,
            &Filter::ANY,
            self.query.order,
            self.number,
        )
    }

    /// The number of a page; `None` for the first page of the listing, whose address has none.
    /// Newest first, page 1 is not the first page but the oldest.
    fn unless_first(&self, number: PageNumber) -> Option<PageNumber> {
        if self.is_stable() || number != PageNumber::FIRST {
            Some(number)
        } else {
            None
        }
    }

    pub(super) fn feed(&self) -> String {
        links::feed(&self.query.product, &self.query.filter)
    }

    pub(super) fn newest(&self) -> String {
        links::page(&self.query.product, &self.query.filter, None)
    }

    /// The path and query of the first page with a different filter, in the order of this page.
    pub(super) fn filtered(&self, filter: &Filter) -> String {
        links::ordered_page(&self.query.product, filter, self.query.order, None)
    }

    /// The first page of the same filter in another order.
    pub(super) fn in_order(&self, order: ListingOrder) -> String {
        links::ordered_page(&self.query.product, &self.query.filter, order, None)
    }
}

/// How a request spells its address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spelling {
    /// Whether it is the canonical one, but for the percent-encoding of its path, the order of its
    /// parameters, and parameters that are not ours.
    pub(super) is_canonical: bool,
    /// The parameters that are not ours, as they are spelled.
    pub(super) foreign: String,
}

impl Spelling {
    pub(super) fn new(is_canonical: bool, foreign: &[&str]) -> Self {
        Self {
            is_canonical,
            foreign: foreign.join("&"),
        }
    }

    /// An address to lead to, with the parameters that are not ours. So a campaign is counted where the
    /// visitor arrives, and a fragment shows what was asked of it.
    pub(super) fn led(&self, mut address: String) -> String {
        if !self.foreign.is_empty() {
            address.push(if address.contains('?') { '&' } else { '?' });
            address.push_str(&self.foreign);
        }
        address
    }

    /// The redirect to a canonical address. It depends only on the address that was asked for, so
    /// caches may keep it.
    pub(super) fn moved(&self, canonical: String) -> HttpResponse {
        HttpResponse::MovedPermanently()
            .insert_header((header::LOCATION, self.led(canonical)))
            .finish()
    }
}

/// Reads the address of a request.
///
/// # Errors
/// Names the part of the address that belongs to no page.
pub(super) fn read(request: &HttpRequest) -> Result<(PageAddress, Spelling), ApiError> {
    let product = ProductId::parse_stored(&path_part(request, 2, "product")?)?;
    let path = request.uri().path();
    // Behind /product/{product}/comments there are two parts at most.
    let parts: Vec<&str> = path.trim_end_matches('/').split('/').skip(4).collect();
    if parts.len() > 2 || parts.contains(&"") {
        return Err(ApiError::NoRoute);
    }
    let mut language = match path_part(request, 4, "language")?.as_str() {
        "" | ANY => None,
        tag => Some(Language::parse(tag)?),
    };
    let mut ratings = match path_part(request, 5, "rating")?.as_str() {
        "" | ANY => None,
        set => parse_ratings(set)?,
    };
    let names = ["page", "order", "cursor", "date", "language", "rating"];
    let Parameters {
        values: [pages, orders, cursors, dates, languages, asked],
        ours,
        foreign,
    } = Parameters::read(request.query_string(), names)?;
    let page = single("page", pages)?;
    let order = single("order", orders)?;
    let cursor = single("cursor", cursors)?;
    let date = single("date", dates)?;
    let tag = single("language", languages)?.filter(|tag| !tag.is_empty());
    if let Some(tag) = tag {
        if language.is_some() {
            return Err(ApiError::invalid("language", "is in the path, too"));
        }
        language = Some(Language::parse(&tag)?);
    }
    if let Some(asked) = asked_ratings(&asked)? {
        if ratings.is_some() {
            return Err(ApiError::invalid("rating", "is in the path, too"));
        }
        ratings = RatingSet::of(asked.iter());
    }
    if page.is_some() && cursor.is_some() {
        return Err(ApiError::invalid("page", "cannot be combined with cursor"));
    }
    if date.is_some() && (page.is_some() || cursor.is_some()) {
        return Err(ApiError::invalid(
            "date",
            "cannot be combined with page or cursor",
        ));
    }
    let date = date
        .map(|date| Period::parse(date.trim_matches(' ')))
        .transpose()?;
    let number = page.map(|page| parse_number(&page)).transpose()?;
    let order = order
        .map(|order| ListingOrder::parse(&order))
        .transpose()?
        .unwrap_or_default();
    if date.is_some() && order.is_by_rating() {
        let problem = "cannot be combined with an order by rating";
        return Err(ApiError::invalid("date", problem));
    }
    let query = ListingQuery {
        product,
        filter: Filter::new(language, ratings),
        order,
        page_size: PageSize::default(),
    };
    let mut address = PageAddress {
        query,
        number: None,
        cursor,
        date,
    };
    address.number = number.and_then(|number| address.unless_first(number));
    let canonical = address.canonical();
    let spelling = spelling_of(path, &canonical, ours, &foreign);
    Ok((address, spelling))
}

/// How a path, with these parameters of ours and others, spells a canonical address.
fn spelling_of(path: &str, canonical: &str, mut ours: Vec<&str>, foreign: &[&str]) -> Spelling {
    let (canonical_path, canonical_query) = canonical.split_once('?').unwrap_or((canonical, ""));
    let mut wanted: Vec<&str> = canonical_query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .collect();
    wanted.sort_unstable();
    ours.sort_unstable();
    let is_canonical = is_same_path(path, canonical_path) && ours == wanted;
    Spelling::new(is_canonical, foreign)
}

pub(super) fn is_same_path(path: &str, other: &str) -> bool {
    percent_decode_str(path).eq(percent_decode_str(other))
}

/// The parameters of an address.
pub(super) struct Parameters<'query, const N: usize> {
    /// The values of those that were asked for, decoded.
    pub(super) values: [Vec<String>; N],
    /// These parameters as they are spelled.
    pub(super) ours: Vec<&'query str>,
    /// All others, such as campaign tags, as they are spelled.
    pub(super) foreign: Vec<&'query str>,
}

impl<'query, const N: usize> Parameters<'query, N> {
    /// # Errors
    /// A known parameter is not percent-encoded UTF-8.
    pub(super) fn read(query: &'query str, names: [&'static str; N]) -> Result<Self, ApiError> {
        let mut found = Self {
            values: [const { Vec::new() }; N],
            ours: Vec::new(),
            foreign: Vec::new(),
        };
        for pair in pairs(query) {
            let mut known = names.into_iter().zip(&mut found.values);
            let known = known.find(|(name, _)| pair.name.as_deref() == Some(name));
            if let Some((name, values)) = known {
                values.push(pair.value.ok_or_else(|| not_encoded(name))?);
                found.ours.push(pair.spelling);
            } else {
                found.foreign.push(pair.spelling);
            }
        }
        Ok(found)
    }
}

/// The value of a parameter, if it is given.
///
/// # Errors
/// It is repeated.
pub(super) fn single(
    name: &'static str,
    mut values: Vec<String>,
) -> Result<Option<String>, ApiError> {
    if values.len() > 1 {
        return Err(repeated(name));
    }
    Ok(values.pop())
}

/// The rating sets of `rating=4&rating=5`. An empty value, as a form sends for "any", is none.
fn asked_ratings(values: &[String]) -> Result<Option<RatingSet>, InvalidInput> {
    let mut ratings = Vec::new();
    for value in values {
        if !value.is_empty() {
            ratings.push(Rating::parse(value)?);
        }
    }
    Ok(RatingSet::of(ratings))
}

fn parse_ratings(text: &str) -> Result<Option<RatingSet>, InvalidInput> {
    let ratings: Vec<Rating> = text
        .split('.')
        .map(Rating::parse)
        .collect::<Result<_, _>>()?;
    Ok(RatingSet::of(ratings))
}

/// A page number, perhaps with a plus sign or zeros in front.
pub(super) fn parse_number(text: &str) -> Result<PageNumber, InvalidInput> {
    let text = text.trim_matches(' ');
    PageNumber::parse(text.strip_prefix('+').unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::tests::refused_field;
    use actix_web::test::TestRequest;

    /// The address, and whether it is spelled canonically.
    fn read_at(uri: &str) -> Result<(PageAddress, bool), ApiError> {
        let (address, spelling) = read(&TestRequest::with_uri(uri).to_http_request())?;
        Ok((address, spelling.is_canonical))
    }

    /// `every_spelling_of_an_address_redirects_to_the_canonical_one` sends the other spellings to a
    /// real service.
    #[test]
    fn every_spelling_leads_to_the_canonical_one() {
        for (asked, canonical) in [
            ("p/comments//", "p/comments"),
            ("p/comments/pt-br/%34", "p/comments/pt-BR/4"),
            ("p/comments/iw?page=2", "p/comments/he?page=2"),
            ("p/comments/eng/5", "p/comments/en/5"),
            (
                "p/comments/zh-Hant-TW/5?page=2",
                "p/comments/zh-TW/5?page=2",
            ),
            ("p/comments/zh-yue", "p/comments/yue"),
            ("a:b/comments/~", "a%3Ab/comments"),
            ("p/comments?page=0001", "p/comments?page=1"),
            ("p/comments?page=1&order=newest", "p/comments?page=1"),
            ("p/comments?order=oldest&page=1", "p/comments?order=oldest"),
            (
                "p/comments?cursor=%41&order=oldest",
                "p/comments?order=oldest&cursor=A",
            ),
            (
                "p/comments?language=EN&rating=2&rating=1",
                "p/comments/en/1.2",
            ),
            ("p/comments/en?rating=5&page=2", "p/comments/en/5?page=2"),
            ("p/comments?language=&rating=", "p/comments"),
            ("p/comments?rating=5&rating=5", "p/comments/~/5"),
            (
                "p/comments?page=03&utm_source=x&order=%6Fldest",
                "p/comments?order=oldest&page=3",
            ),
        ] {
            let (address, is_canonical) = read_at(&format!("/product/{asked}")).unwrap();
            assert_eq!(
                (address.canonical(), is_canonical),
                (format!("/product/{canonical}"), false),
                "{asked}"
            );
        }
    }

    #[test]
    fn a_canonical_address_does_not_redirect() {
        for product in ["p", "a%2Fb", "%E2%98%95%20mug", "a~b_c.d-e"] {
            for filter in ["", "/en", "/pt-BR", "/~/1.5", "/zh-Hant/4"] {
                let cursors = ["?cursor=AbC-_", "?order=oldest&cursor=AbC-_"];
                let pages = [
                    "",
                    "?page=1",
                    "?page=1000000000000",
                    "?order=oldest",
                    "?order=oldest&page=2",
                ];
                for page in pages.into_iter().chain(cursors) {
                    let uri = format!("/product/{product}/comments{filter}{page}");
                    let (address, is_canonical) = read_at(&uri).unwrap();
                    assert_eq!((address.canonical(), is_canonical), (uri, true));
                }
            }
        }
        // Neither ignored parameters nor the order of parameters make an address differ.
        for query in [
            "?",
            "?utm_source=x",
            "?x=%FF&page=2&y",
            "?order=oldest&x=1&page=2&orders=newest",
            "?page=2&order=oldest",
        ] {
            assert!(
                read_at(&format!("/product/p/comments{query}")).unwrap().1,
                "{query}"
            );
        }
    }

    #[test]
    fn a_redirect_keeps_the_parameters_of_campaigns() {
        for (query, kept) in [
            (
                "utm_source=mail&page=01&utm_campaign=may%2024",
                "?page=1&utm_source=mail&utm_campaign=may%2024",
            ),
            ("gclid=x&rating=", "?gclid=x"),
            ("page=02", "?page=2"),
        ] {
            let uri = format!("/product/p/comments?{query}");
            let (address, spelling) = read(&TestRequest::with_uri(&uri).to_http_request()).unwrap();
            assert!(!spelling.is_canonical, "{query}");
            let answer = spelling.moved(address.canonical());
            let location = answer.headers().get(header::LOCATION).unwrap();
            assert_eq!(location, &format!("/product/p/comments{kept}"), "{query}");
        }
    }

    #[test]
    fn a_path_is_answered_in_every_percent_encoding() {
        for (asked, canonical) in [
            ("a+b:c,'(d)/comments", "a%2Bb%3Ac%2C%27%28d%29/comments"),
            (
                "%e2%98%95%2f%61/comments/%7E/%31",
                "%E2%98%95%2Fa/comments/~/1",
            ),
        ] {
            let (address, is_canonical) = read_at(&format!("/product/{asked}")).unwrap();
            assert_eq!(
                (address.canonical(), is_canonical),
                (format!("/product/{canonical}"), true),
                "{asked}"
            );
        }
    }

    /// `other_parameters_are_ignored_and_invalid_ones_are_refused` sends other mistakes to a real
    /// service.
    #[test]
    fn a_wrong_part_of_an_address_is_named() {
        for (path, named) in [
            ("comments/en_US", "language"),
            ("comments/en/1,5", "rating"),
            ("comments/en/%F", "rating"),
            ("comments?page=-1", "page"),
            ("comments?page=%2B%2B3", "page"),
            ("comments?page=%FF", "page"),
            ("comments?page=1000000000001", "page"),
            ("comments?order=", "order"),
            ("comments?order=%FF", "order"),
            ("comments?order=oldest&page=2&order=oldest", "order"),
            ("comments?page=2&cursor=AbC-_", "page"),
            ("comments?date=2024", "date"),
            ("comments?rating=6", "rating"),
            ("comments/en/5?rating=4", "rating"),
            ("comments/en?language=de", "language"),
            ("comments?language=de&language=en", "language"),
            ("comments?date=2024-05&page=2", "date"),
            ("comments?date=2024-05&order=highest", "date"),
            ("comments?date=2024-05&date=2024-05", "date"),
        ] {
            assert_eq!(
                refused_field(read_at(&format!("/product/p/{path}"))),
                named,
                "{path}"
            );
        }
        assert!(read_at("/product/p/comments/en//").is_ok());
    }
}
