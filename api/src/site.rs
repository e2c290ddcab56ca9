//! The site as seen from outside: its public address, and which pages search engines may index.

use std::{
    net::{Ipv6Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use actix_web::http::Uri;
use clap::{ArgAction, ValueEnum};
use derive_more::Display;
use model::{Filter, InvalidInput, ListingOrder, Photo, ProductId, WebUrl};

use crate::{
    links,
    look::{Look, LookError},
    texts::{Interface, InterfaceLanguage, InterfaceTexts},
};

/// The first parts of the paths of this service. A base path that began with one could be mistaken
/// for a path of the service.
const ROOTS: [&str; 14] = [
    "api",
    "comments",
    "fragment",
    "livez",
    "local",
    "metrics",
    "openapi.json",
    "product",
    "products",
    "readyz",
    "robots.txt",
    "sitemap",
    "sitemap.xml",
    "static",
];

/// The address that readers and crawlers know the site by: scheme, host and port, and a path if the
/// site is not at the root of the host. `https://shop.example.com/reviews` has one.
#[derive(Debug, Clone, PartialEq, Eq, Display)]
#[display("{origin}{base_path}")]
pub struct PublicUrl {
    pub(crate) origin: String,
    /// The path of the site's root. Empty at the root of the host; else it begins with a slash and
    /// does not end with one.
    pub(crate) base_path: String,
}

impl PublicUrl {
    /// The absolute URL of a path on the site, which begins with a slash.
    pub(crate) fn join(&self, path: &str) -> String {
        [&self.origin, &self.base_path, path].concat()
    }
}

impl FromStr for PublicUrl {
    type Err = &'static str;

    /// Case and default ports are normalised, because search engines compare URLs as texts.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const PROBLEM: &str = "the public URL must be http:// or https://, a host, perhaps a port, and perhaps a path, such as https://comments.example.com or https://shop.example.com/reviews";
        // Parsing drops fragments silently.
        if text.contains(['#', '?']) {
            return Err(PROBLEM);
        }
        let uri: Uri = text.parse().map_err(|_| PROBLEM)?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) =
            (uri.scheme_str(), uri.authority())
        else {
            return Err(PROBLEM);
        };
        let host = authority.host().to_ascii_lowercase();
        let port = authority.port();
        let mut len = host.len();
        if let Some(port) = &port {
            len += ":".len() + port.as_str().len();
        }
        let port = port.map(|port| port.as_u16());
        // Other lengths are due to a user, or to a port that is not a number.
        if !is_host(&host) || authority.as_str().len() != len || port == Some(0) {
            return Err(PROBLEM);
        }
        let base_path = base_path(uri.path())?;
        let origin = match (scheme, port) {
            (_, None) | ("http", Some(80)) | ("https", Some(443)) => format!("{scheme}://{host}"),
            (_, Some(port)) => format!("{scheme}://{host}:{port}"),
        };
        Ok(Self { origin, base_path })
    }
}

/// Whether a text is an IPv6 address in brackets, or has the characters of a name or an IPv4
/// address.
fn is_host(host: &str) -> bool {
    let inside_brackets = host
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'));
    if let Some(address) = inside_brackets {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let has_characters_of_names = host
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    !host.is_empty() && has_characters_of_names
}

/// Fewer comments than this make a page that search engines judge as thin.
const INDEXABLE_COMMENTS_MIN: u64 = 5;

/// More of a product's comments than this make the pages of a filter almost those without it, and
/// the sitemap twice as long.
const INDEXABLE_PERCENT_MAX: u64 = 80;

fn base_path(path: &str) -> Result<String, &'static str> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let Some(inner) = path.strip_prefix('/') else {
        return Ok(String::new());
    };
    if !inner.split('/').all(is_plain_part) {
        return Err(
            "the path of the public URL must be letters, digits, - . _ ~ and slashes, such as /reviews",
        );
    }
    if inner
        .split('/')
        .next()
        .is_some_and(|first| ROOTS.contains(&first))
    {
        return Err(
            "the path of the public URL must not begin like a path of the service: product, comments, api, static and others",
        );
    }
    Ok(path.to_owned())
}

/// Whether a part of a path needs no percent-encoding, and leads nowhere else.
fn is_plain_part(part: &str) -> bool {
    let is_unreserved = part
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
    is_unreserved && !matches!(part, "" | "." | "..")
}

/// Where customers write: a URL with `{product}` in place of the product's id.
#[derive(Debug, Clone, PartialEq, Eq, Display)]
pub struct WriteUrl(String);

impl WriteUrl {
    /// What stands for the id of the product, percent-encoded.
    const PRODUCT: &str = "{product}";

    pub(crate) fn of(&self, product: &ProductId) -> String {
        self.0
            .replace(Self::PRODUCT, &links::encoded(product.as_str()).to_string())
    }
}

impl FromStr for WriteUrl {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        WebUrl::parse("the URL", &text.replace(Self::PRODUCT, ""))?;
        Ok(Self(text.to_owned()))
    }
}

/// A host that serves customers' photos by HTTPS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhotoHost(String);

impl PhotoHost {
    pub(crate) fn origin(&self) -> String {
        format!("https://{}", self.0)
    }
}

impl FromStr for PhotoHost {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let host = text.trim().to_ascii_lowercase();
        if is_host(&host) {
            Ok(Self(host))
        } else {
            Err(
                "a host of photos is a name without https://, a port or a path, such as photos.example.com",
            )
        }
    }
}

/// Which pages search engines may put into their indexes. The others say `noindex`; links on them
/// are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Indexable {
    /// None at all; there is no sitemap either.
    None,
    /// Those without a filter.
    Unfiltered,
    /// Also those of one language.
    Languages,
    /// Also those of one rating.
    Single,
    /// Also those of a language and ratings, or of several ratings.
    All,
}

impl Indexable {
    pub(crate) fn admits(self, filter: &Filter) -> bool {
        let ratings = match filter.ratings() {
            Some(ratings) => ratings.iter().count(),
            None => 0,
        };
        let needed = match (filter.language().is_some(), ratings) {
            (false, 0) => Self::Unfiltered,
            (true, 0) => Self::Languages,
            (false, 1) => Self::Single,
            _ => Self::All,
        };
        self >= needed
    }
}

/// What search engines may do with the pages of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Indexing {
    Own,
    /// Index the unfiltered pages instead: these are copies.
    Copy,
    No,
}

/// The numbers of comments that decide whether the pages of a filter may be indexed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FilterTotals {
    pub(crate) filter: u64,
    pub(crate) product: u64,
}

/// What a page for people is that lies past the end of its listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PastTheEnd {
    /// A 404 that leads to pages that exist.
    NotFound,
    /// A redirect (302): newest first to the page with the newest comments, oldest first to the
    /// last page.
    Redirect,
}

/// The answer for a product that nobody knows. Such a product has neither a comment nor a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UnknownProducts {
    /// A product without comments: any text may be the id of a product.
    Serve,
    /// A 404.
    #[value(name = "404")]
    NotFound,
}

/// The settings of the pages.
#[derive(Debug, Clone, clap::Args)]
pub struct SiteSettings {
    /// The address that readers and crawlers know, such as `https://shop.example.com/reviews`.
    /// Links and sitemaps begin with it. The default of `pagemark up` is where it listens.
    // `None` is for where the service listens, which is right on one machine only.
    #[arg(long, env = "PAGEMARK_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<PublicUrl>,
    /// Which pages search engines may index.
    #[arg(
        long,
        env = "PAGEMARK_INDEXABLE",
        value_name = "WHICH",
        default_value = "languages"
    )]
    pub indexable: Indexable,
    /// Minimum number of comments of a filter whose pages search engines may index.
    #[arg(long, env = "PAGEMARK_INDEXABLE_COMMENTS_MIN", value_name = "COMMENTS", default_value_t = INDEXABLE_COMMENTS_MIN)]
    pub indexable_comments_min: u64,
    /// What a page past the end of its listing is.
    #[arg(
        long,
        env = "PAGEMARK_PAST_THE_END",
        value_name = "WHAT",
        default_value = "not-found"
    )]
    pub past_the_end: PastTheEnd,
    /// What the JSON API answers for a product with neither a comment nor a record: an empty list
    /// (`serve`), or 404.
    #[arg(
        long,
        env = "PAGEMARK_UNKNOWN_PRODUCTS",
        value_name = "WHAT",
        default_value = "serve"
    )]
    pub unknown_products: UnknownProducts,
    /// The language of the interface: of everything on pages but people's texts.
    #[arg(
        long,
        env = "PAGEMARK_INTERFACE_LANGUAGE",
        value_name = "TAG",
        default_value = "en"
    )]
    pub interface_language: InterfaceLanguage,
    /// Whether the pages of one language's comments have an interface in that language, if there is
    /// one.
    #[arg(
        long,
        env = "PAGEMARK_INTERFACE_BY_FILTER",
        value_name = "BOOL",
        default_value_t = false
    )]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub interface_by_filter: bool,
    /// A folder with the site's own look: theme.css, header.html, footer.html,
    /// messages/LANGUAGE.ftl.
    #[arg(long, env = "PAGEMARK_SITE_DIR", value_name = "FOLDER")]
    pub site_dir: Option<PathBuf>,
    /// Where customers write, such as `https://shop.example.com/write?product={product}`. Pages and
    /// fragments link there.
    #[arg(long, env = "PAGEMARK_WRITE_URL", value_name = "URL")]
    pub write_url: Option<WriteUrl>,
    /// The hosts of customers' photos, with commas between them, such as `photos.example.com`. Pages
    /// show no others.
    #[arg(
        long,
        env = "PAGEMARK_PHOTO_HOSTS",
        value_name = "HOSTS",
        value_delimiter = ','
    )]
    pub photo_hosts: Vec<PhotoHost>,
    /// Pictures of products that the site serves itself: their paths, and their content as SVG.
    #[arg(skip)]
    pub pictures: &'static [(&'static str, &'static str)],
    /// Whether the site shows the demo. A stack that generates comments says so when it has seen
    /// that it has none.
    #[arg(skip)]
    pub demo: Arc<AtomicBool>,
}

#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// The address that the site is known by. The settings may leave it open.
    pub(crate) public_url: PublicUrl,
    pub(crate) settings: SiteSettings,
    pub(crate) look: Arc<Look>,
    texts: Arc<InterfaceTexts>,
}

impl Site {
    /// `address` is where the service listens, without TLS.
    pub(crate) fn new(settings: SiteSettings, address: SocketAddr) -> Result<Self, LookError> {
        let public_url = match &settings.public_url {
            Some(public_url) => public_url.clone(),
            None => PublicUrl {
                origin: format!("http://{address}"),
                base_path: String::new(),
            },
        };
        let (look, messages) = Look::read(settings.site_dir.as_deref())?;
        let texts = if messages.is_empty() {
            InterfaceTexts::built_in()
        } else {
            Arc::new(InterfaceTexts::with(&messages))
        };
        Ok(Self {
            public_url,
            settings,
            look: Arc::new(look),
            texts,
        })
    }

    pub(crate) fn shows_demo(&self) -> bool {
        self.settings.demo.load(Ordering::Relaxed)
    }

    pub(crate) fn interface(&self) -> &Interface {
        self.texts.in_language(self.settings.interface_language)
    }

    pub(crate) fn interface_of(&self, filter: &Filter) -> &Interface {
        self.interface_in(filter.language().and_then(InterfaceLanguage::of))
    }

    /// The texts of the pages of comments in this language, or in any other.
    pub(crate) fn interface_in(&self, language: Option<InterfaceLanguage>) -> &Interface {
        let of_interface = match language {
            Some(language) if self.settings.interface_by_filter => language,
            _ => self.settings.interface_language,
        };
        self.texts.in_language(of_interface)
    }

    /// What search engines may do with the pages of a listing. `totals` are unknown without the
    /// page index: then only the setting decides, so that nothing is withdrawn while the index is
    /// down.
    ///
    /// Oldest first, pages show the same comments as newest first, so they may never be indexed.
    pub(crate) fn indexing(
        &self,
        filter: &Filter,
        order: ListingOrder,
        totals: Option<FilterTotals>,
    ) -> Indexing {
        if self.settings.indexable == Indexable::None || order != ListingOrder::Newest {
            return Indexing::No;
        }
        if *filter == Filter::ANY {
            return Indexing::Own;
        }
        if totals.is_some_and(|totals| totals.filter >= totals.product) {
            return Indexing::Copy;
        }
        if totals.is_some_and(|totals| totals.filter * 100 > totals.product * INDEXABLE_PERCENT_MAX)
        {
            return Indexing::No;
        }
        let has_enough =
            totals.is_none_or(|totals| totals.filter >= self.settings.indexable_comments_min);
        if self.settings.indexable.admits(filter) && has_enough {
            Indexing::Own
        } else {
            Indexing::No
        }
    }

    /// The photos of a comment on hosts that the site names.
    pub(crate) fn shown(&self, mut photos: Vec<Photo>) -> Vec<Photo> {
        let hosts = &self.settings.photo_hosts;
        photos.retain(|photo| {
            let origin = photo.url.origin();
            hosts
                .iter()
                .any(|host| host.origin().eq_ignore_ascii_case(origin))
        });
        photos
    }

    /// The settings that pages of comments depend on. None of them is secret.
    pub(crate) fn settings_of_pages(&self) -> String {
        // A new field must be named here, so that no release forgets to decide about it.
        let SiteSettings {
            public_url: _,
            indexable,
            indexable_comments_min,
            past_the_end: _,
            unknown_products: _,
            // The texts of a page have a version.
            interface_language: _,
            interface_by_filter: _,
            // A page has its look in it.
            site_dir: _,
            write_url,
            // An archive page has its photos in it.
            photo_hosts: _,
            pictures: _,
            // An entity tag leaves out what the demo adds.
            demo: _,
        } = &self.settings;
        let indexable = indexable.to_possible_value();
        let indexable = match &indexable {
            Some(value) => value.get_name(),
            None => "",
        };
        format!(
            "{} {indexable} {indexable_comments_min} {write_url:?}",
            self.public_url
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Language, RatingSet};

    #[test]
    fn a_public_url_is_a_scheme_a_host_and_perhaps_a_port_and_a_path() {
        for (given, normal) in [
            (
                "https://comments.example.com",
                "https://comments.example.com",
            ),
            (
                "HTTPS://Comments.Example.COM:443/",
                "https://comments.example.com",
            ),
            ("http://localhost:8080", "http://localhost:8080"),
            ("http://127.0.0.1:80", "http://127.0.0.1"),
            ("https://[2001:DB8::1]:8443", "https://[2001:db8::1]:8443"),
            (
                "https://Shop.example.com/Reviews/",
                "https://shop.example.com/Reviews",
            ),
            (
                "https://shop.example.com:8443/a/b~1",
                "https://shop.example.com:8443/a/b~1",
            ),
        ] {
            assert_eq!(
                given
                    .parse::<PublicUrl>()
                    .map(|url| url.to_string())
                    .as_deref(),
                Ok(normal),
                "{given}"
            );
        }
        for wrong in [
            "",
            "example.com",
            "//example.com",
            "ftp://example.com",
            "https://",
            "https://example.com/comments",
            "https://example.com/product/reviews",
            "https://example.com//reviews",
            "https://example.com/reviews//",
            "https://example.com/a/../b",
            "https://example.com/a%2Fb",
            "https://example.com/a b",
            "https://example.com?x",
            "https://example.com#x",
            "https://user@example.com",
            "https://example.com:",
            "https://example.com:0",
            "https://example.com:65536",
            "https://exam ple.com",
            "https://exam'ple.com",
            "https://[::1",
            "https://[example]",
            "https://例え.jp",
        ] {
            assert!(wrong.parse::<PublicUrl>().is_err(), "{wrong}");
        }
    }

    fn filter(language: &str, ratings: &str) -> Filter {
        Filter::new(
            Language::parse(language).ok(),
            RatingSet::parse(ratings).ok(),
        )
    }

    fn site(indexable: Indexable) -> Site {
        let settings = SiteSettings {
            indexable,
            ..process::defaults(&[])
        };
        Site::new(settings, ([127, 0, 0, 1], 80).into()).unwrap()
    }

    /// Which policies admit a filter.
    fn admitted(language: &str, ratings: &str) -> Vec<bool> {
        let filter = filter(language, ratings);
        Indexable::value_variants()
            .iter()
            .map(|policy| policy.admits(&filter))
            .collect()
    }

    #[test]
    fn each_policy_admits_more_than_the_one_before() {
        assert_eq!(admitted("~", "~"), [false, true, true, true, true]);
        assert_eq!(admitted("~", "1.2.3.4.5"), [false, true, true, true, true]);
        assert_eq!(admitted("en", "~"), [false, false, true, true, true]);
        assert_eq!(admitted("~", "5"), [false, false, false, true, true]);
        assert_eq!(admitted("en", "5"), [false, false, false, false, true]);
        assert_eq!(admitted("~", "1.5"), [false, false, false, false, true]);
    }

    /// How the newest-first pages of a filter are indexed that matches so many of a product's
    /// comments.
    fn indexing(indexable: Indexable, filter: &Filter, matching: u64, product: u64) -> Indexing {
        let totals = FilterTotals {
            filter: matching,
            product,
        };
        site(indexable).indexing(filter, ListingOrder::Newest, Some(totals))
    }

    #[test]
    fn copies_and_thin_filters_are_not_indexed_under_their_own_address() {
        let english = filter("en", "~");
        let rated = filter("~", "5");
        for (matching, product, expected) in [
            (8, 10, Indexing::Own),
            (9, 10, Indexing::No),
            (4, 6, Indexing::No),
            (6, 6, Indexing::Copy),
            (1, 1, Indexing::Copy),
        ] {
            assert_eq!(
                indexing(Indexable::Languages, &english, matching, product),
                expected,
                "{matching} of {product}"
            );
        }
        assert_eq!(indexing(Indexable::Languages, &rated, 5, 7), Indexing::No);
        assert_eq!(indexing(Indexable::Single, &rated, 5, 7), Indexing::Own);
        assert_eq!(
            indexing(Indexable::Unfiltered, &english, 6, 6),
            Indexing::Copy
        );
        assert_eq!(indexing(Indexable::None, &english, 6, 6), Indexing::No);
        assert_eq!(
            indexing(Indexable::Languages, &Filter::ANY, 1, 1),
            Indexing::Own
        );
        let languages = site(Indexable::Languages);
        assert_eq!(
            languages.indexing(&english, ListingOrder::Newest, None),
            Indexing::Own,
            "the index is down"
        );
        assert_eq!(
            site(Indexable::All).indexing(&Filter::ANY, ListingOrder::Oldest, None),
            Indexing::No
        );
    }
}
