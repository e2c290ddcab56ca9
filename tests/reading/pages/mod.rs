//! The pages that people and crawlers get: each has one address and is correct.

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

use local_stack::settings::StackSettings;
use model::CommentText;
use table::NewComment;

use crate::fixture::{
    data,
    redis_server::OwnRedis,
    stack::{Running, settings},
};

const _: crate::Engines =
    crate::Engines::Embedded("about pages; other modules prove what they read");

/// The public address of the tests' sites. No server is there.
const SITE: &str = "https://comments.example.com";

fn site_settings() -> StackSettings {
    let mut settings = settings();
    settings.api.site.public_url = Some(SITE.parse().unwrap());
    settings
}

/// A comment. Different numbers give different creation times.
fn comment(product: &str, language: &str, rating: u64, number: i64) -> NewComment {
    // Some have no author, and some no title.
    let author = (number % 3 != 0).then(|| format!("Author {number}"));
    let title = (number % 2 == 0).then(|| format!("Title {number}"));
    let id = format!("{}-{language}-{rating}-{number}", product.len());
    NewComment {
        created_at: data::at_ms(data::CREATED_MS + number * 3_600_000),
        text: CommentText::new(title, format!("Body {number} of {product}"), author).unwrap(),
        ..data::new_comment(&id, &data::product(product), language, rating)
    }
}

/// Comments on `product` that take these languages in turn, and these ratings.
fn in_turn(product: &str, languages: &[&str], ratings: &[u64], count: usize) -> Vec<NewComment> {
    let mut comments = Vec::new();
    for number in 0..count {
        let language = languages[number % languages.len()];
        let rating = ratings[number % ratings.len()];
        let number = i64::try_from(number).unwrap();
        comments.push(comment(product, language, rating, number));
    }
    comments
}

fn with_text(mut comment: NewComment, title: &str, body: &str, author: &str) -> NewComment {
    comment.text = CommentText::new(
        Some(title.to_owned()),
        body.to_owned(),
        Some(author.to_owned()),
    )
    .unwrap();
    comment
}

/// 45 comments on `product`: three pages; 30 in English, 15 in German; ratings 1 to 5, nine each.
fn three_pages(product: &str) -> Vec<NewComment> {
    in_turn(product, &["de", "en", "en"], &[1, 2, 3, 4, 5], 45)
}

/// A site whose page index has its own Redis server.
async fn start_on_redis(comments: &[NewComment]) -> (OwnRedis, Running) {
    let redis = OwnRedis::start().await;
    let settings = StackSettings {
        redis_url: Some(redis.server.url()),
        ..site_settings()
    };
    let running = start(settings, comments).await;
    (redis, running)
}

async fn start(settings: StackSettings, comments: &[NewComment]) -> Running {
    let mut running = Running::start_with(settings).await;
    running.import(comments).await;
    running
}
