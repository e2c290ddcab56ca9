//! Builds every URL that the service gives out. All begin at the root of the site. Templates put
//! the path of the public URL in front of those in pages, `http::base_path` of those in redirects,
//! and `ListingUrls` does so itself. Where a URL must be absolute, `site::PublicUrl` is put in
//! front.
//!
//! **Invariant:** a product id in a path has everything percent-encoded but unreserved characters
//! (RFC 3986 section 2.3), so that no client, proxy or crawler reads a separator into it.

use model::{
    ANY, AuthorId, CommentId, Filter, ListingOrder, PageNumber, PageSize, ProductId, Timestamp,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

use crate::listing::ListingQuery;

pub(crate) const STABLE: &str = "stable";

/// Everything but unreserved characters.
const RESERVED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

pub(crate) fn encoded(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, &RESERVED)
}

pub(crate) fn api_comments(product: &ProductId) -> String {
    format!("/api/v1/products/{}/comments", encoded(product.as_str()))
}

pub(crate) fn api_comment(id: &CommentId) -> String {
    format!("/api/v1/comments/{}", encoded(id.as_str()))
}

pub(crate) fn api_author(author: &AuthorId) -> String {
    format!("/api/v1/authors/{}/comments", encoded(author.as_str()))
}

/// The common part of the URLs of one listing's pages in the JSON API. Defaults are left out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListingUrls<'listing> {
    pub(crate) listing: &'listing ListingQuery,
    pub(crate) as_of: Option<Timestamp>,
    pub(crate) is_stable: bool,
    /// The path of the site's root, empty or such as `/reviews`. Nothing later adds it to a JSON
    /// text.
    pub(crate) base_path: &'listing str,
}

impl ListingUrls<'_> {
    /// The page of this number; `None` for the front page of stable numbering.
    pub(crate) fn page(&self, number: Option<u64>) -> String {
        let as_of = self.as_of.map(|as_of| ("as_of", as_of.to_string()));
        let last = if self.is_stable {
            Some(("numbering", STABLE.to_owned()))
        } else {
            as_of
        };
        self.with(number, last)
    }

    pub(crate) fn cursor(&self, cursor: &str) -> String {
        self.with(None, Some(("cursor", cursor.to_owned())))
    }

    fn with(&self, number: Option<u64>, last: Option<(&'static str, String)>) -> String {
        let ListingQuery {
            product,
            filter,
            order,
            page_size,
        } = self.listing;
        let mut parameters = Vec::new();
        if let Some(language) = filter.language() {
            parameters.push(("language", language.to_string()));
        }
        if let Some(ratings) = filter.ratings() {
            parameters.extend(ratings.iter().map(|rating| ("rating", rating.to_string())));
        }
        if let Some(number) = number {
            parameters.push(("page", number.to_string()));
        }
        if *page_size != PageSize::default() {
            parameters.push(("page_size", page_size.to_string()));
        }
        if *order != ListingOrder::default() {
            parameters.push(("order", order.to_string()));
        }
        parameters.extend(last);
        with_query(
            [self.base_path, &api_comments(product)].concat(),
            parameters,
        )
    }
}

/// A page of the list of products in the JSON API, below the path of the site's root. The default
/// page size is left out.
pub(crate) fn api_products(base_path: &str, number: u64, page_size: PageSize) -> String {
    let mut parameters = vec![("page", number.to_string())];
    if page_size != PageSize::default() {
        parameters.push(("page_size", page_size.to_string()));
    }
    with_query(format!("{base_path}/api/v1/products"), parameters)
}

/// A page of the list of products, for people. The first page has no number.
pub(crate) fn product_list(number: Option<PageNumber>) -> String {
    with_query(
        PRODUCTS.to_owned(),
        number.map(|number| ("page", number.to_string())),
    )
}

fn with_query(
    mut url: String,
    parameters: impl IntoIterator<Item = (&'static str, String)>,
) -> String {
    let mut separator = '?';
    for (name, value) in parameters {
        url.push_str(&format!("{separator}{name}={}", encoded(&value)));
        separator = '&';
    }
    url
}

/// The first page of all comments of a product, for people.
pub fn product_page(product: &ProductId) -> String {
    page(product, &Filter::ANY, None)
}

/// A page of comments for people, newest first. The page with the newest comments has no number.
pub fn page(product: &ProductId, filter: &Filter, number: Option<PageNumber>) -> String {
    ordered_page(product, filter, ListingOrder::Newest, number)
}

/// A page of comments for people; newest first, and a trailing `~` are left out. The first page has
/// no number.
pub(crate) fn ordered_page(
    product: &ProductId,
    filter: &Filter,
    order: ListingOrder,
    number: Option<PageNumber>,
) -> String {
    of_listing(
        "comments",
        product,
        filter,
        order,
        number.map(|number| ("page", number.to_string())),
    )
}

pub(crate) fn page_at_cursor(listing: &ListingQuery, cursor: &str) -> String {
    let ListingQuery {
        product,
        filter,
        order,
        ..
    } = listing;
    of_listing(
        "comments",
        product,
        filter,
        *order,
        Some(("cursor", cursor.to_owned())),
    )
}

pub(crate) fn feed(product: &ProductId, filter: &Filter) -> String {
    of_listing("feed", product, filter, ListingOrder::default(), None)
}

fn of_listing(
    kind: &str,
    product: &ProductId,
    filter: &Filter,
    order: ListingOrder,
    parameter: Option<(&'static str, String)>,
) -> String {
    let mut url = format!("/product/{}/{kind}", encoded(product.as_str()));
    match (filter.language(), filter.ratings()) {
        (None, None) => {}
        (Some(language), None) => url.push_str(&format!("/{language}")),
        (None, Some(ratings)) => url.push_str(&format!("/{ANY}/{ratings}")),
        (Some(language), Some(ratings)) => url.push_str(&format!("/{language}/{ratings}")),
    }
    let mut parameters = Vec::new();
    if order != ListingOrder::default() {
        parameters.push(("order", order.to_string()));
    }
    parameters.extend(parameter);
    with_query(url, parameters)
}

/// The products that have comments, the most commented first, for people.
pub(crate) const PRODUCTS: &str = "/products";

/// The part of the sitemap with the start page and the list of products.
pub(crate) const SITEMAP_OF_LISTS: &str = "/sitemap/lists.xml";

pub(crate) const SITEMAP: &str = "/sitemap.xml";

/// A part of the sitemap of an index partition, counted from 1.
pub(crate) fn sitemap_part(partition: u16, part: usize) -> String {
    format!("/sitemap/{partition}-{part}.xml")
}

/// The partition and the part in the last part of such a path; only the canonical spelling is
/// accepted.
pub(crate) fn parse_sitemap_part(file: &str) -> Option<(u16, usize)> {
    let (partition, part) = file.strip_suffix(".xml")?.split_once('-')?;
    let partition = partition.parse().ok()?;
    let part = part.parse().ok()?;
    if sitemap_part(partition, part).ends_with(&format!("/{file}")) {
        Some((partition, part))
    } else {
        None
    }
}

/// The value of a header `Link` (RFC 8288). In the targets, every character that could end one is
/// percent-encoded.
pub(crate) fn link_header(links: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let links = links
        .into_iter()
        .map(|(rel, target)| format!("<{target}>; rel=\"{rel}\""));
    links.collect::<Vec<_>>().join(", ")
}

/// The fragment of a comment in a page for people, to be put behind the page's URL.
pub(crate) fn fragment(id: &CommentId) -> String {
    format!("#{}", element_id(id))
}

/// The fragment of a comment, or of the list where none is known.
pub(crate) fn to_comment(id: Option<&CommentId>) -> String {
    match id {
        Some(id) => fragment(id),
        None => "#comments".to_owned(),
    }
}

pub(crate) fn element_id(id: &CommentId) -> String {
    format!("comment-{id}")
}

/// The permanent link to a comment, which works on any page that the comment moves to.
pub fn permalink(id: &CommentId) -> String {
    format!("/comments/{}", encoded(id.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Language, RatingSet};

    fn product(text: &str) -> ProductId {
        ProductId::parse(text).unwrap()
    }

    fn filter(language: Option<&str>, ratings: Option<&str>) -> Filter {
        Filter::new(
            language.map(|tag| Language::parse(tag).unwrap()),
            ratings.map(|set| RatingSet::parse(set).unwrap()),
        )
    }

    #[test]
    fn products_are_encoded_but_for_unreserved_characters() {
        for (text, segment) in [
            (
                "assurance/direct-assurance/auto",
                "assurance%2Fdirect-assurance%2Fauto",
            ),
            ("a~b_c.d-e", "a~b_c.d-e"),
            ("#?&=+ %{}\"'<>", "%23%3F%26%3D%2B%20%25%7B%7D%22%27%3C%3E"),
            ("☕", "%E2%98%95"),
        ] {
            assert_eq!(
                api_comments(&product(text)),
                format!("/api/v1/products/{segment}/comments")
            );
            assert_eq!(
                product_page(&product(text)),
                format!("/product/{segment}/comments")
            );
        }
    }

    #[test]
    fn pages_of_a_listing_keep_what_was_asked_for() {
        let filter = filter(Some("en"), Some("1.5"));
        let as_of = Some(Timestamp::parse("2024-02-29T12:00:00Z").unwrap());
        let listing = ListingQuery {
            product: product("p"),
            filter,
            order: ListingOrder::Newest,
            page_size: PageSize::default(),
        };
        let plain = ListingUrls {
            listing: &listing,
            as_of: None,
            is_stable: false,
            base_path: "",
        };
        let path = "/api/v1/products/p/comments";
        assert_eq!(
            plain.page(Some(3)),
            format!("{path}?language=en&rating=1&rating=5&page=3")
        );
        assert_eq!(
            plain.cursor("AbC-_"),
            format!("{path}?language=en&rating=1&rating=5&cursor=AbC-_")
        );
        let numbered = ListingUrls {
            is_stable: true,
            ..plain
        };
        let stable = "?language=en&rating=1&rating=5&page=3&numbering=stable";
        assert_eq!(numbered.page(Some(3)), format!("{path}{stable}"));
        assert_eq!(
            numbered.page(None),
            format!("{path}{}", stable.replace("&page=3", ""))
        );
        let listing = ListingQuery {
            order: ListingOrder::Oldest,
            page_size: PageSize::new(50).unwrap(),
            ..listing.clone()
        };
        let special = ListingUrls {
            listing: &listing,
            as_of,
            is_stable: false,
            base_path: "/r",
        };
        assert_eq!(
            special.page(Some(1)),
            format!(
                "/r{path}?language=en&rating=1&rating=5&page=1&page_size=50&order=oldest&as_of=2024-02-29T12%3A00%3A00.000Z"
            )
        );
    }

    /// The page of this number, newest first; number 0 stands for none.
    fn newest(language: Option<&str>, ratings: Option<&str>, number: u64) -> String {
        let filter = filter(language, ratings);
        page(&product("p"), &filter, PageNumber::new(number).ok())
    }

    /// The page of this number of the English comments, oldest first; number 0 stands for none.
    fn oldest(number: u64) -> String {
        let filter = filter(Some("en"), None);
        let number = PageNumber::new(number).ok();
        ordered_page(&product("p"), &filter, ListingOrder::Oldest, number)
    }

    #[test]
    fn pages_for_people_have_one_url_each() {
        assert_eq!(newest(None, None, 0), "/product/p/comments");
        assert_eq!(newest(None, None, 1), "/product/p/comments?page=1");
        assert_eq!(newest(None, None, 2), "/product/p/comments?page=2");
        assert_eq!(newest(Some("en"), None, 0), "/product/p/comments/en");
        assert_eq!(
            newest(None, Some("1.5"), 7),
            "/product/p/comments/~/1.5?page=7"
        );
        assert_eq!(
            newest(Some("pt-BR"), Some("4"), 0),
            "/product/p/comments/pt-BR/4"
        );
        assert_eq!(
            newest(Some("en"), Some("1.2.3.4.5"), 0),
            "/product/p/comments/en"
        );
        assert_eq!(oldest(0), "/product/p/comments/en?order=oldest");
        assert_eq!(oldest(7), "/product/p/comments/en?order=oldest&page=7");
    }
}
