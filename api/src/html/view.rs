//! The texts that the template of a page of comments shows.

use std::sync::LazyLock;

use askama::Template;
use model::{
    Comment, Documented, Filter, Language, ListingOrder, Photo, ProductDetails, ProductRecord,
    Reply, WebUrl,
};
use sha2::{Digest, Sha256};

use super::{
    address::PageAddress,
    context::{Context, FilterLink},
    contrast,
    description::{self, describe, is_archive},
    feed,
    filters::{Filters, chips},
    fold::{self, Folded},
    fragment::Fragment,
    head::Head,
    language_name::{self, direction},
    script_json::ScriptJson,
    structured_data,
    words::{self, displayed},
};
use crate::{
    entity_tag::WeakTagWriter,
    links,
    read::{
        ListingQuery,
        contrast::{Contrast, Side},
        page::ListingPage,
        page_position::{Neighbours, PagePosition},
    },
    site::Indexing,
    telemetry::cost,
    texts::Interface,
};

/// Stands for what shapes a page, besides its content, its texts and the settings: the version of the
/// service, and the page's templates.
static SHAPE: LazyLock<[u8; 32]> = LazyLock::new(|| Sha256::digest(TEMPLATES).into());

const TEMPLATES: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    include_str!("../../templates/base.html"),
    include_str!("../../templates/chips.html"),
    include_str!("../../templates/comments.html"),
    include_str!("../../templates/language.html"),
    include_str!("../../templates/pages.html"),
    include_str!("../../templates/photos.html"),
    include_str!("../../templates/reply.html"),
    include_str!("../../templates/reply_author.html"),
    include_str!("../../templates/text.html"),
);

/// Before what the entity tag of a page leaves out, while the page is written. No text of a page has
/// this mark, because their `<` is escaped.
pub(super) const VARYING: &str = "<!varying>";
/// After what the entity tag of a page leaves out.
pub(super) const LASTING: &str = "<!lasting>";

#[derive(Template)]
#[template(path = "comments.html", blocks = ["list"])]
pub(super) struct CommentsPage<'page> {
    pub(super) head: Head<'page>,
    context: Context<'page>,
    t: &'page Interface,
    address: &'page PageAddress,
    position: PagePosition,
    listing: &'page ListingPage,
    /// The name of the product; its id where no name is known.
    name: &'page str,
    language_of_name: Option<&'page Language>,
    shop: Option<&'page WebUrl>,
    /// The filter and the page number in words, such as "in English, rated 5, page 3"; empty for
    /// the first page of everything.
    which: String,
    chips: Vec<(String, Option<FilterLink>)>,
    /// The first pages of the same comments in other orders, where that makes a difference.
    other_orders: Vec<(&'static str, FilterLink)>,
    comments: Vec<CommentView<'page>>,
    /// Whether the product has comments, as far as is known.
    has_comments: bool,
    /// The most recent positive and critical comments; on the front page of all comments only.
    contrast: Option<[(Side, &'static str, &'static str); 2]>,
    /// What is shown inside a page of another site; `None` for the page itself.
    fragment: Option<Fragment>,
    is_fragment: bool,
    /// Whether the fragment shows the first comments of the page only.
    is_excerpt: bool,
    /// Where customers write, if the site says so.
    write: Option<String>,
    /// The marks around what changes with comments on other pages, in an archive page; empty in other
    /// pages, whose tags cover all of it.
    marks: [&'static str; 2],
    /// A line for engineers, in the demo: what the page has cost.
    cost: Option<String>,
}

/// The average and the number of comments, as a link to the page.
#[derive(Template)]
#[template(path = "summary.html")]
pub(super) struct Summary<'page> {
    context: Context<'page>,
    base: &'page str,
}

/// A comment as it is shown.
struct CommentView<'page> {
    comment: &'page Comment,
    language_name: String,
    direction: &'static str,
    out_of_5: String,
    body: Option<Folded>,
    time: String,
    is_verified: bool,
    /// The shop's reply, which is taken to be in the comment's language.
    reply: Option<(Folded, Reply)>,
    photos: Vec<Photo>,
}

impl<'page> CommentsPage<'page> {
    /// A page of a product with this record. Without the page index it has neither totals nor
    /// stats. `by_cursor` are its neighbours where no number leads to them. As a fragment, only its
    /// list or a summary will be shown.
    pub(super) fn new(
        context: Context<'page>,
        record: Option<&'page ProductRecord>,
        listing: &'page ListingPage,
        by_cursor: Option<Neighbours>,
        contrast: Option<Contrast>,
        fragment: Option<Fragment>,
    ) -> Self {
        let is_fragment = fragment.is_some();
        let is_excerpt = fragment.is_some_and(|fragment| fragment.comments_max.is_some());
        let Context {
            site, t, address, ..
        } = context;
        let query = &address.query;
        let details = record.map(|record| &record.details);
        let position = PagePosition::of(address, listing);
        let is_empty = listing.comments.is_empty();
        let mut head = head(context, details, position, listing);
        if let Some(Neighbours { prev, next, .. }) = by_cursor {
            head.neighbours = Neighbours {
                prev,
                next,
                ..head.neighbours
            };
        }
        if is_fragment {
            head.base = site.public_url.to_string();
        }
        let has_other_orders = !is_empty && listing.total.is_none_or(|total| total > 1);
        let other_orders = if has_other_orders {
            other_orders(context)
        } else {
            Vec::new()
        };
        let contrast = match contrast {
            Some(contrast) if listing.comments.len() >= contrast::COMMENTS_MIN => {
                Some(contrast::sides(contrast))
            }
            _ => None,
        };
        let cost = if site.shows_demo() {
            Some(cost::so_far().line())
        } else {
            None
        };
        Self {
            head,
            context,
            t,
            address,
            position,
            listing,
            name: name_of(query, details),
            language_of_name: details.and_then(|details| details.language.as_ref()),
            shop: details.and_then(|details| details.url.as_ref()),
            which: t.joined([t.filter(&query.filter), position.number(t)]),
            chips: chips(context),
            other_orders,
            comments: listing
                .comments
                .iter()
                .map(|comment| CommentView::new(context, comment))
                .collect(),
            has_comments: !is_empty || context.count(&Filter::ANY) != Some(0),
            contrast,
            fragment,
            is_fragment,
            is_excerpt,
            write: site
                .settings
                .write_url
                .as_ref()
                .map(|url| url.of(&query.product)),
            marks: if is_archive(position) {
                [VARYING, LASTING]
            } else {
                ["", ""]
            },
            cost,
        }
    }

    /// The text of the page, or of its list in a fragment. With it the entity tag of an archive page,
    /// and in the demo of any page; `None` for any other page.
    ///
    /// The tag leaves out what stands between [`VARYING`] and [`LASTING`]: the cost, and on an archive
    /// page what changes with comments on other pages. It covers all the rest. It also covers what shapes
    /// the parts that it leaves out: the version of the service, the templates, the texts and the settings.
    ///
    /// # Errors
    /// The template's.
    pub(super) fn written(&self) -> Result<(String, Option<String>), askama::Error> {
        let marked = if self.is_fragment {
            self.as_list().render()?
        } else {
            self.render()?
        };
        if !is_archive(self.position) && self.cost.is_none() {
            return Ok((marked, None));
        }
        let mut tag = WeakTagWriter::default();
        for shape in [
            SHAPE.as_slice(),
            self.head.site.settings_of_pages().as_bytes(),
            &self.t.version,
        ] {
            tag.0.update(shape);
        }
        let mut text = String::with_capacity(marked.len());
        for (lasting, varying) in parts(&marked) {
            tag.0.update(lasting);
            text.push_str(lasting);
            text.push_str(varying);
        }
        Ok((text, Some(tag.finish())))
    }

    pub(super) fn summary(&self) -> Summary<'_> {
        Summary {
            context: self.context,
            base: &self.head.base,
        }
    }

    /// The level of a heading that has this one on the page; `None` if it is the same.
    fn level(&self, on_page: u8) -> Option<u8> {
        self.fragment?.level(on_page)
    }

    fn has_neighbours(&self) -> bool {
        let leads_on = self.head.neighbours.prev.is_some() || self.head.neighbours.next.is_some();
        leads_on && !self.is_excerpt
    }
}

/// The parts of a marked text: each time what the tag covers, and then what it leaves out.
fn parts(marked: &str) -> impl Iterator<Item = (&str, &str)> {
    marked
        .split(LASTING)
        .map(|part| part.split_once(VARYING).unwrap_or((part, "")))
}

/// The name of a product; its id where no name is known.
fn name_of<'page>(
    query: &'page ListingQuery,
    details: Option<&'page ProductDetails>,
) -> &'page str {
    match details {
        Some(details) => &details.name,
        None => query.product.as_str(),
    }
}

/// The texts and targets of the links to other orders.
fn other_orders(context: Context<'_>) -> Vec<(&'static str, FilterLink)> {
    let query = &context.address.query;
    let has_one_rating = query
        .filter
        .ratings()
        .is_some_and(|ratings| ratings.iter().count() == 1);
    let mut links = Vec::new();
    for (order, text) in [
        (ListingOrder::Newest, "show-newest-first"),
        (ListingOrder::Oldest, "show-oldest-first"),
        (ListingOrder::Highest, "show-highest-first"),
        (ListingOrder::Lowest, "show-lowest-first"),
    ] {
        if order == query.order || (order.is_by_rating() && has_one_rating) {
            continue;
        }
        let link = FilterLink {
            href: context.address.in_order(order),
            nofollow: context.indexing(&query.filter, order) != Indexing::Own,
        };
        links.push((text, link));
    }
    links
}

fn head<'page>(
    context: Context<'page>,
    details: Option<&ProductDetails>,
    position: PagePosition,
    listing: &ListingPage,
) -> Head<'page> {
    let Context {
        site, t, address, ..
    } = context;
    let query = &address.query;
    let name = name_of(query, details);
    let is_empty = listing.comments.is_empty();
    let comments_on = if is_empty {
        "title-no-comments"
    } else {
        "title-comments"
    };
    let subject = t.joined([
        Some(t.with(comments_on, [("name", name.into())])),
        t.filter(&query.filter),
    ]);
    let other_order = if query.order == ListingOrder::default() {
        None
    } else {
        Some(t.order(query.order))
    };
    // Without the number of pages, which would change the titles of all pages at once.
    let title = t.joined([Some(subject.clone()), position.number(t), other_order]);
    if is_empty {
        // Any address at all is a page of some product without comments.
        return Head::new(site, title);
    }
    let is_numbered = position != PagePosition::Unknown;
    let indexing = if is_numbered {
        context.indexing(&query.filter, query.order)
    } else {
        Indexing::No
    };
    // A copy says nothing against indexing: search engines would apply that to the original too.
    let path = if indexing == Indexing::Copy {
        address.original()
    } else {
        address.canonical()
    };
    let mut head = Head::of_page(site, &path, title, indexing != Indexing::No);
    // Search engines keep the description of an archive page as it is, so it repeats nothing that
    // changes with later comments.
    let average = context.average();
    let lasting_average = if is_archive(position) {
        None
    } else {
        average.as_ref()
    };
    head.feed = Some((subject.clone(), address.feed()));
    head.description = Some(describe(
        t,
        address,
        position,
        listing,
        lasting_average,
        subject,
    ));
    head.neighbours = position
        .neighbours()
        .and_then(|page| address.leading_to(page));
    head.picture = details.and_then(|details| details.image.clone());
    head.structured_data = structured_data::of_page(
        site,
        &query.product,
        details,
        average.as_ref(),
        &listing.comments,
    );
    if let (Some(average), Some(ScriptJson(json)), None) =
        (&average, &mut head.structured_data, lasting_average)
    {
        // The page's average is the first one in it.
        let ScriptJson(average) = ScriptJson::new(&structured_data::average_of(average));
        *json = json.replacen(&average, &[VARYING, &average, LASTING].concat(), 1);
    }
    head
}

impl<'page> CommentView<'page> {
    fn new(context: Context<'page>, comment: &'page Comment) -> Self {
        let Context { site, t, .. } = context;
        let direction = direction(&comment.language);
        let documented = comment
            .site
            .attributes
            .as_ref()
            .map(Documented::of)
            .unwrap_or_default();
        Self {
            comment,
            language_name: t.language_name(&comment.language),
            direction,
            out_of_5: t.out_of_5(comment.rating),
            body: comment
                .text
                .body
                .as_deref()
                .map(|body| Folded::new(direction, displayed(body))),
            time: t.day(comment.created_at),
            is_verified: documented.is_verified,
            photos: site.shown(documented.photos),
            reply: documented.reply.map(|reply| {
                let text = Folded::new(direction, displayed(&reply.text));
                (text, reply)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use model::{ProductId, Revision, Timestamp};

    use super::*;
    use crate::{
        html::address,
        site::{Indexable, Site, SiteSettings},
        texts::InterfaceLanguage,
    };

    /// A page as it is rendered.
    struct Rendered {
        whole: String,
        /// The text without what changes with comments on other pages.
        stable: String,
        tag: Option<String>,
    }

    /// The page at an address of a site with this setting, of a listing with this many comments.
    fn rendered(path: &str, indexable: Indexable, total: u64) -> Rendered {
        let settings = SiteSettings {
            indexable,
            ..process::defaults(&[])
        };
        rendered_as(settings, None, path, total)
    }

    fn rendered_as(
        settings: SiteSettings,
        record: Option<&ProductRecord>,
        path: &str,
        total: u64,
    ) -> Rendered {
        let site = Site::new(settings, ([127, 0, 0, 1], 80).into()).unwrap();
        let request = TestRequest::with_uri(path).to_http_request();
        let (address, _) = address::read(&request).unwrap();
        let listing = ListingPage {
            total: Some(total),
            settled: Some(total),
            ..ListingPage::default()
        };
        let context = Context::new(&site, &address);
        let page = CommentsPage::new(context, record, &listing, None, None, None);
        let (whole, tag) = page.written().unwrap();
        assert!(!whole.contains(VARYING) && !whole.contains(LASTING));
        let marked = page.render().unwrap();
        let stable = parts(&marked).map(|(lasting, _)| lasting).collect();
        Rendered { whole, stable, tag }
    }

    #[test]
    fn an_archive_page_with_other_settings_has_another_tag() {
        let path = "/product/p/comments/en?page=1";
        let single = rendered(path, Indexable::Single, 60);
        let all = rendered(path, Indexable::All, 60);
        assert_ne!(single.whole, all.whole, "the links to ratings differ");
        assert_eq!(single.stable, all.stable, "nothing else differs");
        assert!(single.tag.is_some() && all.tag.is_some());
        assert_ne!(single.tag, all.tag);
        assert_eq!(single.tag, rendered(path, Indexable::Single, 60).tag);
    }

    /// The entity tag of an archive page in an interface of this language.
    fn tag_in(interface_language: InterfaceLanguage, interface_by_filter: bool) -> String {
        let settings = SiteSettings {
            interface_language,
            interface_by_filter,
            ..process::defaults(&[])
        };
        let page = rendered_as(settings, None, "/product/p/comments/de?page=1", 60);
        page.tag.unwrap()
    }

    #[test]
    fn an_archive_page_in_another_language_has_another_tag() {
        let english = tag_in(InterfaceLanguage::En, false);
        assert_eq!(english, tag_in(InterfaceLanguage::En, false));
        assert_ne!(english, tag_in(InterfaceLanguage::De, false));
        assert_eq!(
            tag_in(InterfaceLanguage::En, true),
            tag_in(InterfaceLanguage::De, false)
        );
    }

    fn details(name: &str, url: &str) -> ProductDetails {
        ProductDetails {
            name: name.to_owned(),
            url: Some(WebUrl::parse("url", url).unwrap()),
            image: None,
            brand: None,
            gtin: None,
            sku: None,
            language: None,
        }
    }

    /// The entity tag of an archive page of a product whose record says this.
    fn tag_with(details: Option<ProductDetails>) -> String {
        let record = details.map(|details| ProductRecord {
            product: ProductId::parse("p").unwrap(),
            revision: Revision::after(None, Timestamp::MIN, 7),
            details,
        });
        let path = "/product/p/comments?page=1";
        let page = rendered_as(process::defaults(&[]), record.as_ref(), path, 60);
        page.tag.unwrap()
    }

    #[test]
    fn an_archive_page_has_another_tag_with_another_name_or_link_of_its_product() {
        let french = ProductDetails {
            language: Language::parse("fr").ok(),
            ..details("A", "https://a")
        };
        let all = [
            None,
            Some(details("A", "https://a")),
            Some(details("B", "https://a")),
            Some(details("A", "https://b")),
            Some(french),
        ];
        let tags = all.map(|details| {
            assert_eq!(tag_with(details.clone()), tag_with(details.clone()));
            tag_with(details)
        });
        assert_eq!(std::collections::BTreeSet::from(tags).len(), 5);
    }

    #[test]
    fn only_an_archive_page_keeps_its_tag_when_the_total_grows() {
        let path = "/product/p/comments?page=1";
        let before = rendered(path, Indexable::Single, 60);
        let after = rendered(path, Indexable::Single, 61);
        assert_ne!(before.whole, after.whole);
        assert!(before.tag.is_some());
        assert_eq!(before.tag, after.tag);
        for other in [
            "/product/p/comments",
            "/product/p/comments?order=oldest&page=2",
        ] {
            assert_eq!(
                rendered(other, Indexable::Single, 60).tag,
                None,
                "its tag covers the whole answer"
            );
        }
    }
}
