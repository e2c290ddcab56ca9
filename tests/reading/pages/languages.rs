//! Pages in other languages than English.

use api::InterfaceLanguage;

use super::{html::Page, site_settings, start, three_pages};
use crate::fixture::http::Http;

const ISOLATES: [char; 2] = ['\u{2068}', '\u{2069}'];

/// Errors are in the language of the filter or of the site, also those that no handler answers.
async fn assert_errors_have_languages(http: &Http) {
    let german = Page::get(http, "/product/p/comments/de?page=99", 404).await;
    assert_eq!(german.text("h1"), "Diese Seite gibt es nicht");
    let hebrew = Page::get(http, "/nothing", 404).await;
    assert_eq!(hebrew.text("h1"), "אין עמוד כזה");
    let refused = Page::get(http, "/product/p/comments/~/9", 400).await;
    assert!(refused.text("main [lang=en]").starts_with("rating: "));
    let notice = http.get("/fragment/product/p/comments/de?page=99").await;
    let notice = notice.body;
    assert!(notice.contains("<a href="), "{notice}");
    assert!(notice.contains("Die neuesten Kommentare"), "{notice}");
    assert!(!notice.contains("<html"), "{notice}");
}

#[tokio::test]
async fn a_site_has_its_own_language_and_a_language_of_comments_may_have_its_own() {
    let mut settings = site_settings();
    settings.api.site.interface_language = InterfaceLanguage::He;
    settings.api.site.interface_by_filter = true;
    let running = start(settings, &three_pages("p")).await;
    let http = &running.http;

    let german = Page::get(http, "/product/p/comments/de", 200).await;
    assert_eq!(german.attribute("html", "lang"), Some("de".into()));
    assert_eq!(german.attribute("html", "dir"), Some("ltr".into()));
    assert_eq!(german.text("title"), "Kommentare zu p, auf Deutsch");
    assert_eq!(
        german.text("main h2"),
        "15 Kommentare auf Deutsch: 14. Nov. 2023 bis 16. Nov. 2023"
    );
    let comment = german.all("article")[0];
    assert_eq!(comment.attr("lang"), Some("de"));
    assert_eq!(comment.attr("dir"), Some("ltr"));

    let hebrew = Page::get(http, "/product/p/comments?page=1", 200).await;
    assert_eq!(hebrew.attribute("html", "lang"), Some("he".into()));
    assert_eq!(hebrew.attribute("html", "dir"), Some("rtl".into()));
    assert_eq!(
        hebrew.text("title").replace(ISOLATES, ""),
        "תגובות על p, עמוד 1"
    );
    let comment = hebrew.all("article")[0];
    assert_eq!(
        comment.attr("lang"),
        Some("en"),
        "comments keep their language"
    );
    assert_eq!(
        comment.attr("dir"),
        Some("ltr"),
        "comments keep their language"
    );
    assert_eq!(hebrew.all("article .byline")[0].attr("dir"), Some("rtl"));
    // A page of English comments is English on a site in any language.
    let english = Page::get(http, "/product/p/comments/en", 200).await;
    assert_eq!(english.text("title"), "Comments on p, in English");
    // The interface does not speak Italian.
    let italian = Page::get(http, "/product/p/comments/it", 404).await;
    assert_eq!(italian.attribute("html", "lang"), Some("he".into()));

    assert_errors_have_languages(http).await;

    let feed = http.get("/product/p/feed/de").await.body;
    assert!(feed.contains("xml:lang=\"de\""), "{feed}");
    assert!(feed.contains("Kommentare zu p, auf Deutsch"), "{feed}");
    running.finish().await;
}
