//! The pages in a real browser: phone and desktop, light and dark, without JavaScript, and with
//! only a keyboard.

use api::InterfaceLanguage;
use serde_json::{Value, json};
use table::NewComment;

use super::{comment, names, start, structured_data::HOSTILE, three_pages, with_text};
use crate::fixture::{
    browser,
    documents::block,
    http::page_path,
    redis_server::OwnRedis,
    stack::{settings, settings_at},
};

const RIGHT_TO_LEFT: [(&str, &str); 4] = [
    (
        "he",
        "iPhone 15 מצוין, קניתי אותו ב-Amazon!\nשורה שנייה (עם סוגריים).",
    ),
    ("ar", "منتج رائع، أنصح به. السعر 120$ فقط"),
    ("fa", "کیفیت خوب است؛ USB-C دارد"),
    ("yi", "אַ גוטער פּראָדוקט"),
];

fn comments() -> Vec<NewComment> {
    let mut comments = three_pages("a/b");
    // 600 comments in 12 languages: enough for a page bar with gaps, and for languages on demand.
    let languages = [
        "en", "de", "fr", "es", "pt-BR", "he", "ja", "ko", "ar", "hi", "zh-Hant", "it",
    ];
    for number in 0..600 {
        let index = usize::try_from(number).unwrap();
        let language = if index % 2 == 0 {
            languages[0]
        } else {
            languages[(index / 2) % languages.len()]
        };
        let rating = index as u64 % 5 + 1;
        comments.push(comment("espresso machine", language, rating, number));
    }
    // Enough products for a list of three pages.
    for number in 0..45 {
        let product = format!("product {number}");
        let rating = number as u64 % 5 + 1;
        comments.push(comment(&product, "en", rating, 1_000 + number));
    }
    for (number, (language, body)) in (0..).zip(RIGHT_TO_LEFT) {
        let title = body.lines().next().unwrap();
        let comment = comment("right to left", language, 4, number);
        comments.push(with_text(comment, title, body, "דנה (Dana)"));
    }
    let mut texts = HOSTILE.map(str::to_owned).to_vec();
    // Wide ones.
    texts.push("x".repeat(3_000));
    texts.push("long ".repeat(300));
    texts.push("https://example.com/".to_owned() + &"path/".repeat(100));
    // Tall ones.
    texts.push(format!("a{}b", "\n".repeat(9_997)));
    texts.push("a\n".repeat(5_000));
    texts.push("の".repeat(10_000));
    for (number, text) in (100..).zip(texts) {
        let one_line = text.chars().filter(|character| *character != '\n');
        let short: String = one_line.take(100).collect();
        let comment = comment(HOSTILE[0], "en", 1, number);
        comments.push(with_text(comment, &short, &text, &short));
    }
    comments
}

/// Comments on a product, 30 in each of three languages. The checker guesses a page's language by
/// its words.
fn in_their_languages() -> Vec<NewComment> {
    let texts = [
        (
            "he",
            "מכונה מצוינת",
            "המכונה מכינה קפה טעים מאוד בכל בוקר, והניקוי שלה פשוט ומהיר.",
        ),
        (
            "de",
            "Sehr zufrieden",
            "Diese Maschine macht jeden Morgen ausgezeichneten Kaffee und ist leicht zu reinigen.",
        ),
        (
            "ja",
            "とても満足です",
            "毎朝おいしいコーヒーが飲めます。掃除も簡単で、家族みんなで使っています。",
        ),
    ];
    let mut comments = Vec::new();
    for (number, (language, title, body)) in (0..90).zip(texts.into_iter().cycle()) {
        let rating = u64::try_from(number % 5).unwrap() + 1;
        let comment = comment("espresso machine", language, rating, number);
        comments.push(with_text(comment, title, body, "דנה (Dana)"));
    }
    comments
}

/// A page to check: its name, its address, its status, and whether its structured data describes a
/// product.
fn page(name: &str, path: String, status: u16, product: bool) -> Value {
    json!({
        "name": name,
        "path": path,
        "status": status,
        "product": product,
        "rtl": name == "right-to-left",
    })
}

async fn look(base: &str, pages: Vec<Value>) {
    browser::run("pages.mjs", json!({ "base": base, "pages": pages })).await;
}

#[tokio::test]
#[ignore = "needs Chromium"]
async fn every_kind_of_page_is_accessible_and_fits_its_screen() {
    let redis = OwnRedis::start().await;
    let running = start(settings_at(&redis), &comments()).await;
    let base = running.stack.api_url().unwrap();
    // Search engines require a name, which only a record says.
    for product in ["espresso machine", "right to left", HOSTILE[0]] {
        let record = json!({
            "name": product,
            "image": format!("{base}/static/icon.svg"),
            "url": "https://shop.example/",
        });
        names::put(&running, product, &record).await;
    }
    let many = page_path("espresso machine");
    let pages = vec![
        page("first", many.clone(), 200, true),
        page("middle", format!("{many}?page=15"), 200, true),
        page("filtered", format!("{many}/en/1.5?page=2"), 200, true),
        page(
            "oldest-first",
            format!("{many}/en?order=oldest&page=2"),
            200,
            true,
        ),
        page("rare-language", format!("{many}/hi"), 200, true),
        page("right-to-left", page_path("right to left"), 200, true),
        page("hostile", page_path(HOSTILE[0]), 200, true),
        page("empty", page_path("nobody"), 404, false),
        page(
            "no-match",
            format!("{}/he/5", page_path("right to left")),
            404,
            false,
        ),
        page("past-the-end", format!("{many}/en?page=999"), 404, false),
        page("bad-address", format!("{many}/e"), 400, false),
        page("start", "/".to_owned(), 200, false),
        page("products", "/products".to_owned(), 200, false),
        page("products-2", "/products?page=2".to_owned(), 200, false),
    ];
    look(&base, pages).await;
    redis.server.kill().await;
    let pages = vec![
        page("degraded", many.clone(), 200, true),
        page(
            "degraded-oldest-first",
            format!("{many}?order=oldest"),
            200,
            true,
        ),
        page("unavailable", format!("{many}/en?page=2"), 503, false),
    ];
    look(&base, pages).await;
    redis.server.restart().await;
    running
        .http
        .wait_for_200(&format!("{many}/en?page=2"))
        .await;
    running.finish().await;
}

#[tokio::test]
#[ignore = "needs Chromium"]
async fn pages_in_other_languages_are_accessible_and_fit_their_screens() {
    let mut settings = settings();
    settings.api.site.interface_language = InterfaceLanguage::He;
    settings.api.site.interface_by_filter = true;
    let running = start(settings, &in_their_languages()).await;
    let record = json!({ "name": "Espresso machine" });
    names::put(&running, "espresso machine", &record).await;
    let many = page_path("espresso machine");
    let pages = vec![
        page("hebrew", many.clone(), 200, true),
        page("hebrew-archive", format!("{many}/~/1.5?page=1"), 200, true),
        page("german", format!("{many}/de"), 200, true),
        page("japanese", format!("{many}/ja"), 200, true),
        page("hebrew-mistake", format!("{many}/e"), 400, false),
        page("hebrew-products", "/products".to_owned(), 200, false),
    ];
    look(&running.stack.api_url().unwrap(), pages).await;
    running.finish().await;
}

#[tokio::test]
#[ignore = "needs Chromium"]
async fn everything_can_be_done_with_a_keyboard_and_without_javascript() {
    let running = start(settings(), &comments()).await;
    let input = json!({
        "base": running.stack.api_url().unwrap(),
        "product": page_path("espresso machine"),
    });
    browser::run("keyboard.mjs", input).await;
    running.finish().await;
}

/// Measures are in CSS pixels of a window of 360 x 780.
#[tokio::test]
#[ignore = "needs Chromium"]
async fn the_histogram_and_comments_are_in_the_first_view_and_turning_leads_to_comments() {
    let running = start(settings(), &comments()).await;
    let many = page_path("espresso machine");
    let pages = ["", "?page=15", "/en/1.5?page=2", "?order=oldest&page=3"]
        .map(|rest| format!("{many}{rest}"));
    let input = json!({ "base": running.stack.api_url().unwrap(), "pages": pages });
    println!("{}", browser::run("phone.mjs", input).await);
    running.finish().await;
}

#[tokio::test]
#[ignore = "needs Chromium"]
async fn the_web_component_turns_pages_inside_a_page_of_another_site() {
    let running = start(settings(), &comments()).await;
    let input = json!({
        "base": running.stack.api_url().unwrap(),
        "product": page_path("espresso machine"),
        "style": block("docs/pages.md", "css", "pagemark-comments {"),
    });
    browser::run("component.mjs", input).await;
    running.finish().await;
}

#[tokio::test]
#[ignore = "needs Chromium"]
async fn the_web_component_shows_its_list_or_its_link_whatever_a_framework_does_to_it() {
    let running = start(settings(), &comments()).await;
    let input = json!({
        "base": running.stack.api_url().unwrap(),
        "products": [page_path("espresso machine"), page_path("a/b")],
    });
    browser::run("frameworks.mjs", input).await;
    running.finish().await;
}

#[tokio::test]
#[ignore = "needs Chromium"]
async fn lighthouse_finds_nothing_wrong_on_a_phone() {
    let running = start(settings(), &comments()).await;
    // No test asserts a time, so performance is missing here: `make lighthouse` measures it.
    let categories = ["seo", "accessibility", "best-practices"];
    let path = page_path("espresso machine");
    for dark in [false, true] {
        let input = json!({
            "base": running.stack.api_url().unwrap(),
            "pages": [path],
            "categories": categories,
            "dark": dark,
        });
        let printed = browser::run("lighthouse.mjs", input).await;
        let report: Value = serde_json::from_str(printed.trim())
            .unwrap_or_else(|error| panic!("{error}: {printed}"));
        for category in categories {
            assert_eq!(report["scores"][category], 100, "{report:#}");
        }
    }
    running.finish().await;
}

#[tokio::test]
#[ignore = "needs Chromium"]
async fn no_page_in_a_browser_can_use_the_local_engine() {
    let running = start(settings(), &[]).await;
    let port = running.stack.engine().unwrap().address().unwrap().port();
    browser::run("engine.mjs", json!({ "port": port })).await;
    running.finish().await;
}
