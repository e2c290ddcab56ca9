//! `/products?sort=…&page=N`: the lists of products. And `/`, which shows the beginning of one.
//!
//! Only the most commented products are for search engines: the other lists hold the same products in another order.

use std::sync::Arc;

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web,
};
use askama::Template;
use futures_util::future::join_all;
use model::{Filter, PageNumber, PageSize, ProductSort, ProductTotals};

use super::{
    address::parse_number,
    error_page::{Help, PageError},
    head::{Head, Neighbours},
    page_bar::{BarItem, page_bar},
    render,
    words::Average,
};
use crate::{
    error::ApiError,
    http::{
        caching,
        path_and_query::{not_encoded, pairs, repeated},
    },
    links,
    read::products::{ListedProducts, ProductPage},
    site::{PageNumbers, PastTheEnd, Site},
    store::{KnownRecord, StoreClients},
    texts::Interface,
};

/// How many products the start page shows.
const ON_START_PAGE: u64 = 10;

/// A product in a list.
struct Entry {
    /// What people call the product: the name in its record, or its id.
    name: String,
    href: String,
    average: Option<String>,
    comments: String,
    /// The day of the newest comment, for people and for programs.
    last_day: String,
    last_commented_at: String,
    /// Whether the record was read, if there is one.
    is_whole: bool,
}

impl Entry {
    fn new(t: &Interface, totals: &ProductTotals, known: &KnownRecord) -> Self {
        let record = known.record();
        Self {
            is_whole: *known != KnownRecord::Unreadable,
            name: record.map_or_else(|| totals.product.to_string(), |record| record.details.name.clone()),
            href: links::product_page(&totals.product),
            average: Average::of(&totals.ratings().collect::<Vec<_>>()).map(|average| t.average(&average)),
            comments: t.comments(totals.comments()),
            last_day: t.day(totals.last_commented_at),
            last_commented_at: totals.last_commented_at.to_string(),
        }
    }
}

/// The products of a list. Their records are read together.
async fn entries<'totals>(
    t: &Interface,
    stores: &StoreClients,
    products: impl Iterator<Item = &'totals ProductTotals>,
) -> Vec<Entry> {
    let entry = async |totals: &ProductTotals| Entry::new(t, totals, &stores.known_record(&totals.product).await);
    join_all(products.map(entry)).await
}

/// A page of a list of products, by its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Address {
    sort: ProductSort,
    number: PageNumber,
}

impl Address {
    /// Reads the query string of a request, and whether it is in its canonical spelling. Other parameters, such as
    /// campaign tags, change nothing.
    ///
    /// # Errors
    /// Names the parameter that is repeated, not percent-encoded UTF-8, or belongs to no page.
    fn read(request: &HttpRequest) -> Result<(Self, bool), ApiError> {
        let (mut sort, mut number, mut spellings) = (None, None, Vec::new());
        for pair in pairs(request.query_string()) {
            let (name, value) = match pair.name.as_deref() {
                Some("sort") => ("sort", &mut sort),
                Some("page") => ("page", &mut number),
                Some(_) | None => continue,
            };
            if value.replace(pair.value.ok_or_else(|| not_encoded(name))?).is_some() {
                return Err(repeated(name));
            }
            spellings.push(pair.spelling);
        }
        let sort = sort.map(|sort| ProductSort::parse(&sort)).transpose()?.unwrap_or_default();
        let number = number.map(|number| parse_number(&number)).transpose()?.unwrap_or(PageNumber::FIRST);
        let address = Self { sort, number };
        let spelling = address.path();
        let is_canonical = spelling.split_once('?').map_or("", |(_, query)| query) == spellings.join("&");
        Ok((address, is_canonical))
    }

    /// The path and query of the page, in their canonical spelling.
    fn path(self) -> String {
        links::product_list(self.sort, Some(self.number).filter(|number| *number != PageNumber::FIRST))
    }

    /// The path and query of the page of this list with another number.
    fn numbered(self, number: u64) -> Option<String> {
        Some(Self { number: PageNumber::new(number).ok()?, ..self }.path())
    }

    fn neighbours(self, total_pages: u64) -> Neighbours {
        let number = self.number.get();
        Neighbours {
            first: self.numbered(1),
            prev: number.checked_sub(1).and_then(|prev| self.numbered(prev)),
            next: (number < total_pages).then(|| number + 1).and_then(|next| self.numbered(next)),
            last: self.numbered(total_pages),
        }
    }

    /// The links that lead on from a page of a list that cannot be shown.
    fn help(self, t: &Interface, error: &ApiError) -> Help {
        let mut links = Vec::new();
        if let ApiError::PastTheEnd { total_pages, .. } = error {
            links.extend(self.numbered(*total_pages).map(|last| (t.page("last-page", *total_pages), last)));
        } else {
            links.push((t.text("try-again").into_owned(), self.path()));
        }
        Help { meanwhile: None, links }
    }
}

/// The names of a list: on a button, as a title, and in a sentence.
fn names(t: &Interface, sort: ProductSort) -> [String; 3] {
    let names = match sort {
        ProductSort::MostCommented => ["most-commented", "title-most-commented", "words-most-commented"],
        ProductSort::RecentlyCommented => {
            ["recently-commented", "title-recently-commented", "words-recently-commented"]
        }
        ProductSort::TopRated => ["top-rated", "title-top-rated", "words-top-rated"],
    };
    names.map(|id| t.text(id).into_owned())
}

#[derive(Template)]
#[template(path = "products.html")]
struct ProductsPage<'site> {
    head: Head,
    t: &'site Interface,
    /// Which list it is, in words.
    which: String,
    /// Each list with its name and address, and whether it is this one.
    sorts: Vec<(String, String, bool)>,
    /// "Products 21 to 40 of 12,275".
    place: String,
    entries: Vec<Entry>,
    page_bar: Vec<BarItem>,
}

impl<'site> ProductsPage<'site> {
    fn new(site: &'site Site, address: Address, page: &ProductPage, entries: Vec<Entry>) -> Self {
        let (sort, number) = (address.sort, address.number);
        let may_index =
            sort == ProductSort::default() && !entries.is_empty() && site.settings.indexable.admits(&Filter::ANY);
        let t = site.interface();
        let [_, title, which] = names(t, sort);
        let of_page = || (number != PageNumber::FIRST).then(|| t.page("page-number", number.get()));
        let title = t.joined([Some(title), of_page()]);
        let mut head = Head::of_page(site, &address.path(), title, may_index);
        let list = t.joined([Some(which.clone()), of_page()]);
        head.description = Some(t.with("description-products", [("list", list.into())]));
        head.neighbours = address.neighbours(page.total_pages);
        let before = number.skip(PageSize::default());
        let shown = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let name = |sort| {
            let [name, ..] = names(t, sort);
            name
        };
        let of_sort = |other: ProductSort| (name(other), links::product_list(other, None), other == sort);
        Self {
            head,
            t,
            which,
            sorts: ProductSort::ALL.into_iter().map(of_sort).collect(),
            place: t.with(
                "products-of",
                [
                    ("from", (before + 1).into()),
                    ("to", before.saturating_add(shown).into()),
                    ("total", page.total.into()),
                ],
            ),
            entries,
            page_bar: page_bar(number.get(), page.total_pages, |number| {
                BarItem::numbered(t, number, address.numbered(number))
            }),
        }
    }
}

/// Answers a page of a list, or redirects to its canonical address.
pub(super) async fn list(
    request: HttpRequest,
    listed: web::Data<ListedProducts>,
    stores: web::Data<StoreClients>,
    site: web::Data<Site>,
) -> Result<HttpResponse, PageError> {
    let (address, is_canonical) = Address::read(&request)?;
    if !is_canonical {
        // The canonical address depends only on the address, so caches may keep the redirect.
        return Ok(HttpResponse::MovedPermanently().insert_header((header::LOCATION, address.path())).finish());
    }
    let page = match listed.into_inner().page(address.sort, address.number, PageSize::default()).await {
        Ok(page) => page,
        Err(ApiError::PastTheEnd { total_pages, .. }) if site.settings.past_the_end == PastTheEnd::Redirect => {
            let last = address.numbered(total_pages);
            return Ok(caching::lead_to(&last.unwrap_or_else(|| links::product_list(address.sort, None))));
        }
        Err(error) => return Err(PageError::with_help(error, |error| address.help(site.interface(), error))),
    };
    let entries = entries(site.interface(), &stores, page.products()).await;
    let is_whole = are_whole(&entries);
    let page = ProductsPage::new(&site, address, &page, entries);
    let answer = render(&site, StatusCode::OK, &page.head, &page, "'none'")?;
    Ok(if is_whole { answer } else { uncached(answer) })
}

/// Whether each product has its name.
fn are_whole(entries: &[Entry]) -> bool {
    entries.iter().all(|entry| entry.is_whole)
}

/// The answer, which no cache may keep: a cache would keep it longer than a store is unavailable.
fn uncached(mut answer: HttpResponse) -> HttpResponse {
    let (name, value) = caching::NO_STORE;
    answer.headers_mut().insert(name, header::HeaderValue::from_static(value));
    answer
}

#[derive(Template)]
#[template(path = "start.html")]
struct StartPage<'site> {
    head: Head,
    t: &'site Interface,
    /// Whether pages have stable numbers.
    is_stable: bool,
    /// The most commented products; `None` while the page index is away.
    entries: Option<Vec<Entry>>,
    /// The address of all products, and their number.
    all: (&'static str, String),
    /// What stands in front of each path, if anything does.
    base_path: Option<String>,
}

/// Answers the start page. While the page index is away, it shows no products and is not cached.
pub(super) async fn start(
    listed: web::Data<ListedProducts>,
    stores: web::Data<StoreClients>,
    site: web::Data<Site>,
) -> Result<HttpResponse, PageError> {
    let first = listed.into_inner().page(ProductSort::default(), PageNumber::FIRST, PageSize::default()).await;
    let first = match first {
        Ok(page) => Some(page),
        Err(ApiError::IndexUnavailable) => None,
        Err(error) => return Err(error.into()),
    };
    let total = first.as_ref().map_or(0, |page| page.total);
    // A page that is indexed stays so while the page index is away.
    let may_index = (first.is_none() || total > 0) && site.settings.indexable.admits(&Filter::ANY);
    let t = site.interface();
    let mut head = Head::of_page(&site, "/", t.text("title-start").into_owned(), may_index);
    head.description = Some(t.text("about").into_owned());
    let shown = usize::try_from(ON_START_PAGE).unwrap_or(usize::MAX);
    let entries = match &first {
        Some(first) => Some(entries(t, &stores, first.products().take(shown)).await),
        None => None,
    };
    let is_whole = entries.as_deref().is_some_and(are_whole);
    let page = StartPage {
        head,
        is_stable: site.settings.page_numbers == PageNumbers::Stable,
        entries,
        t,
        all: (links::PRODUCTS, t.number(total)),
        base_path: Some(site.public_url.base_path())
            .filter(|path| !path.is_empty())
            .map(|path| t.with("base-path", [("path", path.into())])),
    };
    let answer = render(&site, StatusCode::OK, &page.head, &page, "'none'")?;
    Ok(if is_whole { answer } else { uncached(answer) })
}

/// The addresses of the most commented products' pages, at most `max`; `None` without products.
pub(super) async fn listed_addresses(
    listed: Arc<ListedProducts>,
    max: u64,
) -> Result<Option<impl Iterator<Item = String>>, ApiError> {
    let first = listed.page(ProductSort::default(), PageNumber::FIRST, PageSize::default()).await?;
    let address = Address { sort: ProductSort::default(), number: PageNumber::FIRST };
    let pages = (1..=first.total_pages.min(max)).filter_map(move |number| address.numbered(number));
    Ok((first.total > 0).then_some(pages))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;
    use crate::error::tests::refused_field;

    fn read(query: &str) -> Result<(Address, bool), ApiError> {
        Address::read(&TestRequest::with_uri(&format!("/products{query}")).to_http_request())
    }

    #[test]
    fn every_spelling_of_a_list_leads_to_the_canonical_one() {
        for (asked, canonical) in [
            ("?page=1", ""),
            ("?sort=most_commented", ""),
            ("?page=%32", "?page=2"),
            ("?page=03&sort=top_rated&utm_source=x", "?sort=top_rated&page=3"),
            ("?sort=recently_commented&page=1", "?sort=recently_commented"),
        ] {
            let (address, is_canonical) = read(asked).unwrap();
            assert_eq!((address.path(), is_canonical), (format!("/products{canonical}"), false), "{asked}");
            assert_eq!(read(canonical).unwrap(), (address, true), "{canonical}");
        }
        assert!(read("?utm_source=x").unwrap().1);
        for (wrong, field) in
            [("?sort=best", "sort"), ("?page=0", "page"), ("?page=2&page=2", "page"), ("?sort=%FF", "sort")]
        {
            assert_eq!(refused_field(read(wrong)), field, "{wrong}");
        }
    }
}
