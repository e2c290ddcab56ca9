//! `/products?page=N`: the products that have comments, the most commented first. And `/`, which
//! shows the beginning.

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};
use askama::Template;
use futures_util::future::join_all;
use model::{Filter, PageNumber, PageSize, WebUrl};

use super::{
    address::{Parameters, Spelling, parse_number, single},
    head::Head,
    page_bar::{BarItem, page_bar},
    render,
    words::Average,
};
use crate::{
    error::ApiError,
    http::{
        caching,
        error_page::{Help, PageError},
    },
    links,
    read::{
        page_position::PagePosition,
        products::{Products, Walk, parts::CommentedProduct},
    },
    site::{PastTheEnd, Site},
    store::{KnownRecord, StoreClients},
    texts::Interface,
};

const ON_START_PAGE: usize = 10;

struct Entry<'walk> {
    product: &'walk CommentedProduct,
    known: KnownRecord,
}

impl<'walk> Entry<'walk> {
    async fn read(stores: &StoreClients, product: &'walk CommentedProduct) -> Self {
        Self {
            product,
            known: stores.known_record(&product.id).await,
        }
    }

    /// What people call the product: the name in its record, or its id.
    fn name(&self) -> &str {
        match self.known.record() {
            Some(record) => &record.details.name,
            None => self.product.id.as_str(),
        }
    }

    /// The picture in its record, if it is on the host of the site: the page loads no others.
    fn picture(&self, site: &Site) -> Option<&WebUrl> {
        let picture = self.known.record()?.details.image.as_ref();
        picture.filter(|picture| picture.origin() == site.public_url.origin)
    }
}

/// The entries of some products, whose records are read together; and whether all could be read.
async fn entries<'walk>(
    stores: &StoreClients,
    products: impl Iterator<Item = &'walk CommentedProduct>,
) -> (Vec<Entry<'walk>>, bool) {
    let reads = products.map(|product| Entry::read(stores, product));
    let entries = join_all(reads).await;
    let are_whole = entries
        .iter()
        .all(|entry| entry.known != KnownRecord::Unreadable);
    (entries, are_whole)
}

/// The page number in the address of a request, and how the address is spelled. The parameter `sort` of earlier versions leads to the list that stayed. All others,
/// such as campaign tags, change nothing.
///
/// # Errors
/// Names the parameter that is repeated, not percent-encoded UTF-8, or belongs to no page.
fn read_address(request: &HttpRequest) -> Result<(PageNumber, Spelling), ApiError> {
    let Parameters {
        values: [numbers, _sort],
        ours,
        foreign,
    } = Parameters::read(request.query_string(), ["page", "sort"])?;
    let number = single("page", numbers)?
        .map(|number| parse_number(&number))
        .transpose()?
        .unwrap_or(PageNumber::FIRST);
    let canonical = path(number);
    let (_, canonical_query) = canonical.split_once('?').unwrap_or((&canonical, ""));
    let is_canonical = ours.join("&") == canonical_query;
    Ok((number, Spelling::new(is_canonical, &foreign)))
}

fn path(number: PageNumber) -> String {
    links::product_list(Some(number).filter(|number| *number != PageNumber::FIRST))
}

fn numbered(number: u64) -> Option<String> {
    Some(path(PageNumber::new(number).ok()?))
}

fn failed(t: &Interface, number: PageNumber, error: ApiError) -> PageError {
    let link = if let ApiError::PastTheEnd { total_pages, .. } = error {
        numbered(total_pages).map(|last| (t.page("last-page", total_pages), last))
    } else {
        Some((t.text("try-again").into_owned(), path(number)))
    };
    PageError {
        error,
        help: Help {
            meanwhile: None,
            links: link.into_iter().collect(),
        },
        language: None,
    }
}

#[derive(Template)]
#[template(path = "products.html")]
struct ProductsPage<'page> {
    head: Head<'page>,
    t: &'page Interface,
    /// "Products 21 to 40 of 12,275".
    range: String,
    entries: Vec<Entry<'page>>,
    page_bar: Vec<BarItem>,
}

impl<'page> ProductsPage<'page> {
    fn new(site: &'page Site, number: PageNumber, walk: &Walk, entries: Vec<Entry<'page>>) -> Self {
        let total_pages = PageSize::default().total_pages(walk.total());
        let may_index = !entries.is_empty() && site.settings.indexable.admits(&Filter::ANY);
        let t = site.interface();
        let of_page = if number == PageNumber::FIRST {
            None
        } else {
            Some(t.page("page-number", number.get()))
        };
        let title = t.joined([
            Some(t.text("title-most-commented").into_owned()),
            of_page.clone(),
        ]);
        let mut head = Head::of_page(site, &path(number), title, may_index);
        let list = t.joined([Some(t.text("words-most-commented").into_owned()), of_page]);
        head.description = Some(t.with("description-products", [("list", list.into())]));
        let position = PagePosition::Counted {
            number: number.get(),
            total_pages: Some(total_pages),
        };
        head.neighbours = position.neighbours().and_then(|number| numbered(number?));
        let before = number.skip(PageSize::default());
        let to = before.saturating_add(u64::try_from(entries.len()).unwrap_or(u64::MAX));
        let range = [
            ("from", (before + 1).into()),
            ("to", to.into()),
            ("total", walk.total().into()),
        ];
        let page_bar = page_bar(number.get(), total_pages, |number| {
            Some((Some(number), numbered(number)?))
        });
        Self {
            head,
            t,
            range: t.with("products-of", range),
            entries,
            page_bar,
        }
    }
}

/// Answers a page of the list, or redirects to its canonical address.
pub(super) async fn list(
    request: HttpRequest,
    products: web::Data<Products>,
    stores: web::Data<StoreClients>,
    site: web::Data<Site>,
) -> Result<HttpResponse, PageError> {
    let (number, spelling) = read_address(&request)?;
    if !spelling.is_canonical {
        return Ok(spelling.moved(path(number)));
    }
    let walk = match products
        .into_inner()
        .walk_with(number, PageSize::default())
        .await
    {
        Ok(walk) => walk,
        Err(ApiError::PastTheEnd { total_pages, .. })
            if site.settings.past_the_end == PastTheEnd::Redirect =>
        {
            let last = numbered(total_pages).unwrap_or_else(|| links::product_list(None));
            return Ok(caching::lead_to(&spelling.led(last)));
        }
        Err(error) => return Err(failed(site.interface(), number, error)),
    };
    let (entries, is_whole) = entries(&stores, walk.page(number, PageSize::default())).await;
    let page = ProductsPage::new(&site, number, &walk, entries);
    let answer = render(StatusCode::OK, &page.head, &page, "'none'")?;
    Ok(caching::kept_if(is_whole, answer))
}

#[derive(Template)]
#[template(path = "start.html")]
struct StartPage<'page> {
    head: Head<'page>,
    t: &'page Interface,
    /// The most commented products, and how many there are; `None` while the page index is away.
    products: Option<(Vec<Entry<'page>>, u64)>,
}

/// What to try in the demo of `pagemark up`: a message, and the address that it leads to.
const DEMO: [(&str, &str); 6] = [
    ("try-newest", "/product/espresso-machine/comments"),
    ("try-page", "/product/espresso-machine/comments?page=7"),
    ("try-filter", "/product/espresso-machine/comments/en/4.5"),
    ("try-right-to-left", "/product/espresso-machine/comments/he"),
    ("try-slash", "/product/books%2Fslow-coffee/comments"),
    (
        "try-json",
        "/api/v1/products/espresso-machine/comments?rating=1&rating=2&explain=true",
    ),
];

/// Answers the start page. While the page index is away, it shows no products and is not cached.
pub(super) async fn start(
    products: web::Data<Products>,
    stores: web::Data<StoreClients>,
    site: web::Data<Site>,
) -> Result<HttpResponse, PageError> {
    let walk = match products.into_inner().walk().await {
        Ok(walk) => Some(walk),
        Err(ApiError::IndexUnavailable) => None,
        Err(error) => return Err(error.into()),
    };
    // A page that is indexed stays so while the page index is away.
    let has_products = walk.as_ref().is_none_or(|walk| walk.total() > 0);
    let may_index = has_products && site.settings.indexable.admits(&Filter::ANY);
    let t = site.interface();
    // In the demo the page also describes Pagemark.
    let title = if site.shows_demo() {
        "title-start"
    } else {
        "all-products"
    };
    let mut head = Head::of_page(&site, "/", t.text(title).into_owned(), may_index);
    head.description = Some(t.text("about").into_owned());
    let (products, is_whole) = match &walk {
        Some(walk) => {
            let first = walk
                .page(PageNumber::FIRST, PageSize::default())
                .take(ON_START_PAGE);
            let (entries, is_whole) = entries(&stores, first).await;
            (Some((entries, walk.total())), is_whole)
        }
        None => (None, false),
    };
    let page = StartPage { head, t, products };
    let answer = render(StatusCode::OK, &page.head, &page, "'none'")?;
    Ok(caching::kept_if(is_whole, answer))
}

/// The addresses of the list's pages, at most `max`; `None` without products.
pub(super) fn addresses(walk: &Walk, max: u64) -> Option<impl Iterator<Item = String> + use<>> {
    if walk.total() == 0 {
        return None;
    }
    let total_pages = PageSize::default().total_pages(walk.total());
    Some((1..=total_pages.min(max)).filter_map(numbered))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;
    use crate::error::tests::refused_field;

    fn read(query: &str) -> Result<(PageNumber, bool), ApiError> {
        let uri = format!("/products{query}");
        let (number, spelling) = read_address(&TestRequest::with_uri(&uri).to_http_request())?;
        Ok((number, spelling.is_canonical))
    }

    #[test]
    fn every_spelling_of_a_page_of_the_list_leads_to_the_canonical_one() {
        for (asked, canonical) in [
            ("?page=1", ""),
            ("?sort=most_commented", ""),
            ("?page=%32", "?page=2"),
            ("?page=03&sort=top_rated&utm_source=x", "?page=3"),
        ] {
            let (number, is_canonical) = read(asked).unwrap();
            assert_eq!(
                (path(number), is_canonical),
                (format!("/products{canonical}"), false),
                "{asked}"
            );
            assert_eq!(read(canonical).unwrap(), (number, true), "{canonical}");
        }
        assert!(read("?utm_source=x").unwrap().1);
        for (wrong, field) in [
            ("?page=0", "page"),
            ("?page=2&page=2", "page"),
            ("?page=%FF", "page"),
        ] {
            assert_eq!(refused_field(read(wrong)), field, "{wrong}");
        }
    }
}
