//! The pages that people and crawlers get: each has one address and is correct.
//!
//! - `html`: parses pages like a browser.
//! - `addresses`: where each address leads.
//! - `stable`: pages with numbers: where they lead, and that they stay.
//! - `by_cursor`: pages that no number leads to.
//! - `dates`: the way to a month or a day.
//! - `head`: how pages describe themselves.
//! - `names`: what the record of a product says.
//! - `structured_data`: their description in the terms of schema.org.
//! - `languages`: pages in other languages than English.
//! - `texts`: people's texts on a page.
//! - `products`: the list of products.
//! - `sitemap`: the list of all pages.
//! - `feed`: the feed of a listing.
//! - `crawl`: what a crawler finds.
//! - `look`: what a site adds to every page.
//! - `demo`: what the demo adds.
//! - `browser`: all of it in a real browser.

mod addresses;
mod browser;
mod by_cursor;
mod crawl;
mod dates;
mod demo;
mod feed;
mod head;
mod html;
mod languages;
mod look;
mod names;
mod products;
mod site_data;
mod sitemap;
mod stable;
mod structured_data;
mod texts;

use local_stack::stack::StackSettings;
use model::CommentText;
use table::NewComment;

use crate::fixture::{
    data,
    stack::{Running, settings},
};

/// The public address of the tests' sites. No server is there.
const SITE: &str = "https://comments.example.com";

fn site_settings() -> StackSettings {
    let mut settings = settings();
    settings.site.public_url = Some(SITE.parse().unwrap());
    settings
}

/// A comment. Different numbers give different creation times.
fn comment(product: &str, language: &str, rating: u64, number: i64) -> NewComment {
    let author = (number % 3 != 0).then(|| format!("Author {number}"));
    let title = (number % 2 == 0).then(|| format!("Title {number}"));
    let id = format!("{}-{language}-{rating}-{number}", product.len());
    NewComment {
        created_at: data::at_ms(data::CREATED_MS + number * 3_600_000),
        text: CommentText::new(title, format!("Body {number} of {product}"), author).unwrap(),
        ..data::new_comment(&id, &data::product(product), language, rating)
    }
}

fn in_turn(languages: &[&str], ratings: &[u64], count: usize) -> Vec<NewComment> {
    let of =
        |(number, at): (i64, usize)| comment("p", languages[at % languages.len()], ratings[at % ratings.len()], number);
    (0..).zip(0..count).map(of).collect()
}

fn with_text(mut comment: NewComment, title: &str, body: &str, author: &str) -> NewComment {
    comment.text = CommentText::new(Some(title.to_owned()), body.to_owned(), Some(author.to_owned())).unwrap();
    comment
}

/// 45 comments on `product`: three pages; 30 in English, 15 in German; ratings 1 to 5, nine each.
fn three_pages(product: &str) -> Vec<NewComment> {
    let of = |number: i64| {
        let language = if number % 3 == 0 { "de" } else { "en" };
        comment(product, language, u64::try_from(number % 5).unwrap() + 1, number)
    };
    (0..45).map(of).collect()
}

async fn start(settings: StackSettings, comments: &[NewComment]) -> Running {
    let mut running = Running::start_with(settings).await;
    running.import(comments).await;
    running
}
