//! Parses pages like a browser.

use itertools::Itertools;
use scraper::{ElementRef, Html, Selector};
use serde_json::Value;

use crate::fixture::http::{Answer, Http};

pub(super) struct Page {
    pub(super) answer: Answer,
    document: Html,
}

impl Page {
    pub(super) async fn get(http: &Http, target: &str, status: u16) -> Self {
        Self::of(http.get(target).await, status)
    }

    pub(super) fn of(answer: Answer, status: u16) -> Self {
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(
            answer.header("content-type"),
            Some("text/html; charset=utf-8"),
            "{answer:?}"
        );
        let document = Html::parse_document(&answer.body);
        assert!(
            document.errors.is_empty(),
            "{}: {:?}",
            answer.request,
            document.errors
        );
        Self { answer, document }
    }

    pub(super) fn all(&self, selector: &str) -> Vec<ElementRef<'_>> {
        let selector = Selector::parse(selector).unwrap();
        self.document.select(&selector).collect()
    }

    pub(super) fn links(&self, selector: &str) -> Vec<&str> {
        self.all(selector)
            .into_iter()
            .map(|link| link.attr("href").unwrap())
            .collect()
    }

    /// The only element that matches the selector.
    pub(super) fn one(&self, selector: &str) -> ElementRef<'_> {
        let found = self.all(selector);
        found
            .into_iter()
            .exactly_one()
            .unwrap_or_else(|error| panic!("{}: {selector}: {error}", self.answer.request))
    }

    /// The attribute of the only element that matches the selector, if there is one.
    pub(super) fn attribute(&self, selector: &str, name: &str) -> Option<String> {
        let found = self.all(selector);
        assert!(found.len() < 2, "{selector}: {}", self.answer.body);
        let element = found.first()?;
        let Some(value) = element.attr(name) else {
            panic!("{selector} has no {name}");
        };
        Some(value.to_owned())
    }

    /// The text of the selected element, with each run of white space as one space.
    pub(super) fn text(&self, selector: &str) -> String {
        text_of(self.one(selector))
    }

    pub(super) fn canonical(&self) -> Option<String> {
        self.attribute("link[rel=canonical]", "href")
    }

    pub(super) fn robots(&self) -> String {
        self.attribute("meta[name=robots]", "content").unwrap()
    }

    pub(super) fn structured_data(&self) -> Option<Value> {
        let scripts = self.all("script");
        assert!(scripts.len() < 2, "several scripts");
        let script = scripts.first()?;
        assert_eq!(script.attr("type"), Some("application/ld+json"));
        Some(serde_json::from_str(&whole_text(*script)).unwrap())
    }

    /// The relation and the target of each link in the header.
    pub(super) fn link_header(&self) -> Vec<(String, String)> {
        let mut links = Vec::new();
        if let Some(header) = self.answer.header("link") {
            for link in header.split(", ") {
                let (target, rel) = link.split_once(">; rel=\"").unwrap();
                let rel = rel.trim_end_matches('"').to_owned();
                let target = target.trim_start_matches('<').to_owned();
                links.push((rel, target));
            }
        }
        links
    }
}

/// The text of an element, with each run of white space as one space.
pub(super) fn text_of(element: ElementRef<'_>) -> String {
    whole_text(element).split_whitespace().join(" ")
}

/// The text of an element, with its white space.
pub(super) fn whole_text(element: ElementRef<'_>) -> String {
    element.text().collect()
}

pub(super) fn inside<'page>(element: ElementRef<'page>, selector: &str) -> Vec<ElementRef<'page>> {
    element
        .select(&Selector::parse(selector).unwrap())
        .collect()
}

/// Asserts where the bars at the top and the foot of a page lead: to the comments of the pages
/// before and after it.
pub(super) fn assert_turns(page: &Page, prev: Option<&str>, next: Option<&str>) {
    for bar in [".pages.head", "#pages"] {
        for (rel, path) in [("prev", prev), ("next", next)] {
            let link = format!("{bar} a[rel={rel}]");
            let expected = path.map(|path| format!("{path}#comments"));
            assert_eq!(page.attribute(&link, "href"), expected, "{bar}");
        }
    }
}
