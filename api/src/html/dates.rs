//! `/product/{product}/dates/{language or ~}/{ratings or ~}?year=N`: the years and months of a listing, with counts. Each
//! month leads to the page that holds its newest comment.

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};
use askama::Template;
use model::Period;

use super::{
    address::{self, Address},
    error_page::PageError,
    head::Head,
    render,
};
use crate::{
    http::caching,
    links,
    read::dates::{self, Calendar},
    site::Site,
    store::StoreClients,
    texts::Interface,
};

/// Redirects to the page that holds the newest comment of a period, and to that comment.
pub(super) async fn lead(address: &Address, period: Period, stores: &StoreClients) -> Result<HttpResponse, PageError> {
    let place = dates::place(stores, &address.query, period).await?;
    let fragment = place.id.as_ref().map_or_else(|| links::TO_COMMENTS.to_owned(), links::fragment);
    Ok(caching::lead_to(&(address.page(address.number_of_rank(place.total, place.rank)) + &fragment)))
}

#[derive(Template)]
#[template(path = "dates.html")]
struct DatesPage<'page> {
    head: Head,
    t: &'page Interface,
    address: &'page Address,
    /// "The newest comments".
    end: String,
    /// What people call the product.
    name: &'page str,
    /// The filter in words; empty without one.
    which: String,
    year: u16,
    months: Vec<Entry>,
    years: Vec<Entry>,
    /// Whether older comments are counted in the oldest year.
    is_cut: bool,
}

/// A month or a year with comments.
struct Entry {
    name: String,
    href: String,
    count: String,
    is_current: bool,
}

impl Entry {
    fn new(t: &Interface, name: String, href: String, count: u64, is_current: bool) -> Option<Self> {
        (count > 0).then(|| Self { name, href, count: t.comments(count), is_current })
    }
}

/// Answers the calendar of a listing.
pub(super) async fn page(
    request: HttpRequest,
    stores: web::Data<StoreClients>,
    site: web::Data<Site>,
) -> Result<HttpResponse, PageError> {
    let (address, _) = address::read(&request, site.settings.page_numbers)?;
    let answered = answer(request.query_string(), &address, &stores, &site).await;
    answered.map_err(|error| error.of_filter(&address.query.filter))
}

async fn answer(query: &str, address: &Address, stores: &StoreClients, site: &Site) -> Result<HttpResponse, PageError> {
    let wanted = address::read_year(query)?;
    let Some(calendar) = dates::calendar(stores, &address.query, wanted).await? else {
        return Err(address.query.missing(stores).await.into());
    };
    let record = stores.known_record(&address.query.product).await;
    let name = record.record().map_or(address.query.product.as_str(), |record| &record.details.name);
    let (t, order) = (site.interface_of(&address.query.filter), address.query.order);
    let Calendar { years, year, months, is_cut } = calendar;
    let months =
        months.into_iter().filter_map(|(of, count)| Entry::new(t, t.month(of), address.dated(of), count, false));
    let years = years.into_iter().filter_map(|(of, count)| {
        let href = address.dates(Some(of));
        Entry::new(t, of.to_string(), href, count, of == year)
    });
    let which = t.filter(&address.query.filter);
    let subject = t.with("title-dates", [("name", name.into())]);
    let title = t.joined([Some(subject), which.clone(), Some(year.to_string())]);
    let page = DatesPage {
        head: Head::of_page(site, &address.dates(Some(year)), title, false),
        t,
        end: t.end_of(order),
        name,
        which: which.unwrap_or_default(),
        year,
        months: months.collect(),
        years: years.collect(),
        is_cut,
        address,
    };
    render(site, StatusCode::OK, &page.head, &page, "'none'")
}
