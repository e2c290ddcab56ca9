//! The texts that the template of a page of comments shows.

use std::borrow::Cow;

use askama::Template;
use model::{Comment, Documented, Filter, Language, Order, ProductRecord, WebUrl};
use page_index::Stats;

use super::{
    address::Address,
    contrast::{self, ContrastView},
    counts::Counts,
    description::{describe, heading, is_archive},
    feed,
    filters::{Chips, FilterLink, Filters},
    fold::Folded,
    head::Head,
    language_name::{self, direction, text_direction},
    page_bar::BarItem,
    reply::ReplyView,
    structured_data,
    words::{Average, displayed, stars},
};
use crate::{
    http::entity_tag::WeakTagWriter,
    links,
    ops::cost,
    read::{
        contrast::Contrast,
        page::ListingPage,
        place::{Neighbours, Place},
    },
    site::{Indexing, Site},
    texts::Interface,
};

/// What shapes a page, besides its content, its texts and the settings: the version of the service, and the page's templates.
const SHAPE: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    include_str!("../../templates/base.html"),
    include_str!("../../templates/chips.html"),
    include_str!("../../templates/comments.html"),
    include_str!("../../templates/language.html"),
    include_str!("../../templates/pages.html"),
    include_str!("../../templates/reply.html"),
    include_str!("../../templates/reply_author.html"),
);

#[derive(Template)]
#[template(path = "comments.html", blocks = ["list"])]
pub(super) struct CommentsPage<'page> {
    pub(super) head: Head,
    t: &'page Interface,
    address: &'page Address,
    /// The name of the product; its id where no name is known.
    name: &'page str,
    language_of_name: Option<&'page Language>,
    shop: Option<&'page WebUrl>,
    /// The filter and the page number in words, such as "in English, rated 5, page 3"; empty for the first page of
    /// everything.
    which: String,
    chips: Chips,
    /// The page of the same comments in the other order; `None` where that makes no difference.
    reversed: Option<FilterLink>,
    comments: Vec<CommentView<'page>>,
    is_degraded: bool,
    leads_by_cursor: bool,
    is_filtered: bool,
    /// Whether the product has comments, as far as is known.
    has_comments: bool,
    /// The most recent positive and critical comments; on the front page of all comments only.
    contrast: Option<ContrastView>,
    /// Whether only the list is shown, inside a page of another site.
    is_fragment: bool,
    /// What changes with comments on other pages. It is taken away only for [`CommentsPage::validator`].
    volatile: Option<Volatile>,
    /// A line for engineers, in the demo: what the page has cost.
    cost: Option<String>,
}

/// What a page shows of the whole product and of the whole listing.
struct Volatile {
    average: Option<AverageView>,
    average_of_language: Option<AverageView>,
    filters: Filters,
    /// "12,275 comments in English, page 3 of 614: 1 May 2024 to 3 May 2024".
    heading: String,
    page_bar: Vec<BarItem>,
    /// The greatest number that leads to a page; `None` when there is one page.
    last_number: Option<u64>,
}

/// An average between the texts before and behind it.
struct AverageView {
    before: String,
    average: String,
    behind: String,
}

struct CommentView<'page> {
    comment: &'page Comment,
    language_name: String,
    direction: &'static str,
    stars: String,
    out_of_5: String,
    body_direction: &'static str,
    body: Folded,
    time: String,
    is_verified: bool,
    reply: Option<ReplyView>,
}

impl<'page> CommentsPage<'page> {
    /// The page at an address, of a product with this record. Without the page index it has neither totals nor stats.
    /// `by_cursor` are its neighbours where no number leads to them.
    pub(super) fn new(
        site: &'page Site,
        address: &'page Address,
        record: Option<&'page ProductRecord>,
        listing: &'page ListingPage,
        stats: Option<&Stats>,
        by_cursor: Option<Neighbours>,
    ) -> Self {
        let query = &address.query;
        let t = site.interface_of(&query.filter);
        let details = record.map(|record| &record.details);
        let name = details.map_or(query.product.as_str(), |details| &details.name);
        let counts = Counts::new(address, stats);
        let place = Place::of(address, listing);
        let average = stats.and_then(|stats| Average::of(stats.by_rating_in_any_language));
        let is_empty = listing.comments.is_empty();
        let leads_by_cursor = by_cursor.is_some();
        let mut head = head(site, counts, record, place, listing, average.as_ref());
        if let Some(Neighbours { prev, next, .. }) = by_cursor {
            head.neighbours = Neighbours { prev, next, ..head.neighbours };
        }
        let reversed = || FilterLink {
            href: address.reversed(),
            nofollow: counts.indexing(site, &query.filter, query.order.reversed()) != Indexing::Own,
        };
        Self {
            head,
            t,
            address,
            name,
            language_of_name: details.and_then(|details| details.language.as_ref()),
            shop: details.and_then(|details| details.url.as_ref()),
            which: t.joined([t.filter(&query.filter), place.number(t)]),
            chips: Chips::new(site, t, counts),
            reversed: (!is_empty && listing.total.is_none_or(|total| total > 1)).then(reversed),
            comments: listing.comments.iter().map(|comment| CommentView::new(t, comment)).collect(),
            is_degraded: listing.total.is_none(),
            leads_by_cursor,
            is_filtered: query.filter != Filter::ANY,
            has_comments: !is_empty || counts.of_product() != Some(0),
            contrast: None,
            is_fragment: false,
            volatile: Some(Volatile::new(site, t, counts, place, listing, average)),
            cost: site.shows_demo().then(|| cost::so_far().line()),
        }
    }

    /// The page with two comments that differ, unless it shows hardly more than those.
    pub(super) fn with_contrast(mut self, site: &Site, stats: Option<&Stats>, contrast: Option<Contrast>) -> Self {
        let contrast = contrast.filter(|_| self.comments.len() >= contrast::COMMENTS_MIN);
        let counts = Counts::new(self.address, stats);
        self.contrast = contrast.map(|contrast| ContrastView::new(site, self.t, counts, contrast));
        self
    }

    /// The page as a fragment: only its list will be shown.
    pub(super) fn into_fragment(mut self, site: &Site) -> Self {
        self.head.base = site.public_url.to_string();
        Self { is_fragment: true, ..self }
    }

    /// The entity tag of an archive page, and in the demo of any page; `None` for any other page.
    ///
    /// It leaves out the cost, and on an archive page what changes with comments on other pages. It covers what shapes
    /// these parts: the version of the service, the templates, the texts and the settings.
    ///
    /// The page is rendered into the tag, so its text is not in memory a second time.
    ///
    /// # Errors
    /// The template's.
    pub(super) fn validator(mut self, site: &Site) -> Result<Option<String>, askama::Error> {
        let is_archive = self.address.is_stable() && self.address.number.is_some();
        if !is_archive && self.cost.is_none() {
            return Ok(None);
        }
        self.volatile = self.volatile.filter(|_| !is_archive);
        self.cost = None;
        let mut tag = WeakTagWriter::new();
        for shape in [SHAPE.as_bytes(), site.settings_of_pages().as_bytes(), self.t.version()] {
            tag.add(shape);
        }
        self.render_into(&mut tag)?;
        Ok(Some(tag.finish()))
    }

    fn has_neighbours(&self) -> bool {
        self.head.neighbours.prev.is_some() || self.head.neighbours.next.is_some()
    }

    /// The words for the pages before and after this one in the order of the listing.
    fn steps(&self) -> (Cow<'_, str>, Cow<'_, str>) {
        let (before, behind) = if self.address.is_stable() { ("newer", "older") } else { ("previous", "next") };
        (self.t.text(before), self.t.text(behind))
    }
}

impl Volatile {
    fn new(
        site: &Site,
        t: &Interface,
        counts: Counts<'_>,
        place: Place,
        listing: &ListingPage,
        average: Option<Average>,
    ) -> Self {
        let Counts { address, stats } = counts;
        let language = address.query.filter.language();
        let average_of_language =
            language.and_then(|language| Some((t.language_name(language), Average::of(stats?.by_rating)?)));
        Self {
            average: average.map(|average| AverageView {
                before: String::new(),
                average: t.average(&average),
                behind: t.counted("average-out-of-5", average.total),
            }),
            average_of_language: average_of_language.map(|(language, average)| AverageView {
                before: t.with("average-in-language", [("language", language.into())]),
                average: t.average(&average),
                behind: t.counted("average-from", average.total),
            }),
            filters: Filters::new(site, t, counts),
            heading: heading(t, address, place, listing),
            page_bar: place.bar(t, address),
            last_number: place.last_number(),
        }
    }
}

fn head(
    site: &Site,
    counts: Counts<'_>,
    record: Option<&ProductRecord>,
    place: Place,
    listing: &ListingPage,
    average: Option<&Average>,
) -> Head {
    let address = counts.address;
    let query = &address.query;
    let name = record.map_or(query.product.as_str(), |record| &record.details.name);
    let is_empty = listing.comments.is_empty();
    let t = site.interface_of(&query.filter);
    let comments_on = if is_empty { "title-no-comments" } else { "title-comments" };
    let subject = t.joined([Some(t.with(comments_on, [("name", name.into())])), t.filter(&query.filter)]);
    let other_order = (query.order != Order::default()).then(|| t.order(query.order));
    // Without the number of pages, which would change the titles of all pages at once.
    let title = t.joined([Some(subject.clone()), place.number(t), other_order]);
    if is_empty {
        // Any address at all is a page of some product without comments.
        return Head::new(site, title);
    }
    let has_place = place != Place::Unknown;
    let indexing = if has_place { counts.indexing(site, &query.filter, query.order) } else { Indexing::No };
    // A copy says nothing against indexing: search engines would apply that to the original too.
    let path = if indexing == Indexing::Copy { address.original() } else { address.canonical() };
    let mut head = Head::of_page(site, &path, title, indexing != Indexing::No);
    // Search engines keep an archive page as it is, so it repeats nothing that changes with later comments.
    let average = average.filter(|_| !is_archive(place));
    head.description = Some(describe(t, address, place, listing, average, subject));
    head.neighbours = place.neighbours().and_then(|page| address.leading_to(page));
    head.picture = record.and_then(|record| record.details.image.clone());
    head.feed = Some((feed::title(t, name, &query.filter), address.feed()));
    head.structured_data = structured_data::of_page(site, &query.product, record, average, &listing.comments);
    head
}

impl<'page> CommentView<'page> {
    fn new(t: &Interface, comment: &'page Comment) -> Self {
        let direction = direction(&comment.language);
        let body = displayed(&comment.text.body);
        let documented = comment.site.attributes.as_ref().map(Documented::of).unwrap_or_default();
        Self {
            comment,
            language_name: t.language_name(&comment.language),
            direction,
            stars: stars(comment.rating),
            out_of_5: t.out_of_5(comment.rating),
            body_direction: text_direction(direction, body),
            body: Folded::new(body),
            time: t.day(comment.created_at),
            is_verified: documented.is_verified,
            reply: documented.reply.map(|reply| ReplyView::new(t, reply, direction)),
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use model::{ProductDetails, ProductId, Revision, Timestamp};

    use super::*;
    use crate::{
        html::address,
        site::{Indexable, SiteSettings},
        texts::InterfaceLanguage,
    };

    /// The page at an address of a site with this setting, of a listing with this many comments. Gives its whole text,
    /// its text without the volatile part, and its entity tag.
    fn rendered(path: &str, indexable: Indexable, total: u64) -> (String, String, Option<String>) {
        rendered_as(SiteSettings { indexable, ..SiteSettings::default() }, None, path, total)
    }

    fn rendered_as(
        settings: SiteSettings,
        record: Option<&ProductRecord>,
        path: &str,
        total: u64,
    ) -> (String, String, Option<String>) {
        let site = Site::new(settings, ([127, 0, 0, 1], 80).into()).unwrap();
        let request = TestRequest::with_uri(path).to_http_request();
        let (address, _) = address::read(&request).unwrap();
        let listing = ListingPage { total: Some(total), settled: Some(total), ..ListingPage::default() };
        let page = || CommentsPage::new(&site, &address, record, &listing, None, None);
        let stable = CommentsPage { volatile: None, ..page() };
        (page().render().unwrap(), stable.render().unwrap(), page().validator(&site).unwrap())
    }

    #[test]
    fn an_archive_page_with_other_settings_has_another_tag() {
        let of = |indexable| rendered("/product/p/comments/en?page=1", indexable, 60);
        let (single, all) = (of(Indexable::Single), of(Indexable::All));
        assert_ne!(single.0, all.0, "the links to ratings differ");
        assert_eq!(single.1, all.1, "nothing else differs");
        assert!(single.2.is_some() && all.2.is_some());
        assert_ne!(single.2, all.2);
        assert_eq!(single.2, of(Indexable::Single).2);
    }

    #[test]
    fn an_archive_page_in_another_language_has_another_tag() {
        let tag = |interface_language, interface_by_filter| {
            let settings = SiteSettings { interface_language, interface_by_filter, ..SiteSettings::default() };
            rendered_as(settings, None, "/product/p/comments/de?page=1", 60).2.unwrap()
        };
        let english = tag(InterfaceLanguage::En, false);
        assert_eq!(english, tag(InterfaceLanguage::En, false));
        assert_ne!(english, tag(InterfaceLanguage::De, false));
        assert_eq!(tag(InterfaceLanguage::En, true), tag(InterfaceLanguage::De, false));
    }

    #[test]
    fn an_archive_page_has_another_tag_with_another_name_or_link_of_its_product() {
        let details = |name: &str, url: &str| ProductDetails {
            name: name.to_owned(),
            url: Some(WebUrl::parse("url", url).unwrap()),
            image: None,
            brand: None,
            gtin: None,
            sku: None,
            language: None,
        };
        let tag = |details: Option<ProductDetails>| {
            let (product, revision) = (ProductId::parse("p").unwrap(), Revision::after(None, Timestamp::MIN, 7));
            let record = details.map(|details| ProductRecord { product, revision, details });
            rendered_as(SiteSettings::default(), record.as_ref(), "/product/p/comments?page=1", 60).2.unwrap()
        };
        let french = ProductDetails { language: Language::parse("fr").ok(), ..details("A", "https://a") };
        let all = [
            None,
            Some(details("A", "https://a")),
            Some(details("B", "https://a")),
            Some(details("A", "https://b")),
            Some(french),
        ];
        let tags = all.map(|details| {
            assert_eq!(tag(details.clone()), tag(details.clone()));
            tag(details)
        });
        assert_eq!(std::collections::BTreeSet::from(tags).len(), 5);
    }

    #[test]
    fn only_an_archive_page_keeps_its_tag_when_the_total_grows() {
        let of = |total| rendered("/product/p/comments?page=1", Indexable::Single, total);
        let (before, after) = (of(60), of(61));
        assert_ne!(before.0, after.0);
        assert!(before.2.is_some());
        assert_eq!(before.2, after.2);
        for other in ["/product/p/comments", "/product/p/comments?order=oldest&page=2"] {
            assert_eq!(rendered(other, Indexable::Single, 60).2, None, "its tag covers the whole answer");
        }
    }
}
