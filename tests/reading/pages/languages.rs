//! Pages in other languages than English.

use api::InterfaceLanguage;

use super::{html::Page, site_settings, start, three_pages};

const ISOLATES: [char; 2] = ['\u{2068}', '\u{2069}'];

#[tokio::test]
async fn a_site_has_its_own_language_and_a_language_of_comments_may_have_its_own() {
    let mut settings = site_settings();
    settings.api.site.interface_language = InterfaceLanguage::He;
    settings.api.site.interface_by_filter = true;
    let running = start(settings, &three_pages("p")).await;
    let get = async |path: &str, status| Page::get(&running.http, path, status).await;

    let german = get("/product/p/comments/de", 200).await;
    assert_eq!(
        (
            german.attribute("html", "lang"),
            german.attribute("html", "dir")
        ),
        (Some("de".into()), Some("ltr".into()))
    );
    assert_eq!(german.text("title"), "Kommentare zu p, auf Deutsch");
    assert_eq!(
        german.text("main h2"),
        "15 Kommentare auf Deutsch: 14. Nov. 2023 bis 16. Nov. 2023"
    );
    let comment = german.all("article")[0];
    assert_eq!(
        (comment.attr("lang"), comment.attr("dir")),
        (Some("de"), Some("ltr"))
    );

    let hebrew = get("/product/p/comments?page=1", 200).await;
    assert_eq!(
        (
            hebrew.attribute("html", "lang"),
            hebrew.attribute("html", "dir")
        ),
        (Some("he".into()), Some("rtl".into()))
    );
    assert_eq!(
        hebrew.text("title").replace(ISOLATES, ""),
        "תגובות על p, עמוד 1"
    );
    let comment = hebrew.all("article")[0];
    assert_eq!(
        (comment.attr("lang"), comment.attr("dir")),
        (Some("en"), Some("ltr")),
        "comments keep their language"
    );
    assert_eq!(hebrew.all("article .byline")[0].attr("dir"), Some("rtl"));
    // A page of English comments is English, whatever the site's language.
    assert_eq!(
        get("/product/p/comments/en", 200).await.text("title"),
        "Comments on p, in English"
    );
    // Italian is no language of the interface.
    assert_eq!(
        get("/product/p/comments/it", 404)
            .await
            .attribute("html", "lang")
            .as_deref(),
        Some("he")
    );

    // Errors, also those that no handler answers.
    assert_eq!(
        get("/product/p/comments/de?page=99", 404).await.text("h1"),
        "Diese Seite gibt es nicht"
    );
    assert_eq!(get("/nothing", 404).await.text("h1"), "אין עמוד כזה");
    assert!(
        get("/product/p/comments/~/9", 400)
            .await
            .text("main [lang=en]")
            .starts_with("rating: ")
    );
    let notice = running
        .http
        .get("/fragment/product/p/comments/de?page=99")
        .await;
    assert!(
        notice.body.contains("<a href=") && notice.body.contains("Die neuesten Kommentare"),
        "{}",
        notice.body
    );
    assert!(!notice.body.contains("<html"), "{}", notice.body);

    let feed = running.http.get("/product/p/feed/de").await;
    assert!(
        feed.body.contains("xml:lang=\"de\"") && feed.body.contains("Kommentare zu p, auf Deutsch"),
        "{}",
        feed.body
    );
    running.finish().await;
}
