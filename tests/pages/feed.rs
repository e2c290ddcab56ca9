//! The Atom feed of a listing, as an independent reader of feeds (feedparser) understands it.

use hyper::Method;
use serde_json::{Value, json};

use super::{SITE, comment, html::Page, site_settings, start, structured_data::HOSTILE, three_pages, with_text};
use crate::fixture::{program::run_tool, python};

/// Prints what feedparser reads on standard input. A feed that is not well-formed is an error.
const READ: &str = "
import json, sys, feedparser
read = feedparser.parse(sys.stdin.buffer.read(), response_headers={'content-type': 'application/atom+xml; charset=utf-8'}, sanitize_html=False)
assert not read.bozo, read.bozo_exception
assert read.version == 'atom10', read.version
links = lambda of: {link.rel: link.href for link in of.links}
print(json.dumps({'title': read.feed.title, 'id': read.feed.id, 'updated': read.feed.updated, 'links': links(read.feed),
    'entries': [{'title': entry.title, 'id': entry.id, 'link': entry.link, 'published': entry.published,
                 'updated': entry.updated, 'author': entry.author, 'text': entry.content[0].value,
                 'type': entry.content[0].type, 'language': entry.content[0].language,
                 'rating': entry.tags[0].term} for entry in read.entries]}))
";

async fn read(feed: &str) -> Value {
    let mut command = python::command("python");
    command.args(["-c", READ]);
    serde_json::from_str(&run_tool(command, feed).await).unwrap()
}

#[tokio::test]
async fn a_feed_has_the_newest_comments_of_its_filter_and_their_changes() {
    let comments = three_pages("a/b");
    let mut running = start(site_settings(), &comments).await;
    let http = running.http.clone();
    let page = Page::get(&http, "/product/a%2Fb/comments/en/4.5", 200).await;
    let path = page.attribute("head link[type='application/atom+xml']", "href").unwrap();
    assert_eq!(path, "/product/a%2Fb/feed/en/4.5");
    let answer = http.get(&path).await;
    assert_eq!(answer.header("content-type"), Some("application/atom+xml; charset=utf-8"));
    assert_eq!(answer.header("x-robots-tag"), Some("noindex"));
    let feed = read(&answer.body).await;
    let matching =
        || comments.iter().rev().filter(|comment| comment.language.as_str() == "en" && comment.rating.get() >= 4);
    let url = |id: &str| format!("{SITE}/comments/{id}");
    let entries = feed["entries"].as_array().unwrap();
    assert_eq!(entries.len(), matching().count().min(20));
    for (entry, comment) in entries.iter().zip(matching()) {
        let title = comment.text.title.clone().unwrap_or_else(|| format!("{} out of 5", comment.rating));
        let author = comment.text.author.clone().unwrap_or_else(|| "Anonymous".to_owned());
        let expected = json!({
            "title": title, "id": url(comment.id.as_str()), "link": url(comment.id.as_str()), "author": author,
            "published": comment.created_at, "updated": entry["updated"], "text": comment.text.body,
            "type": "text/plain", "language": "en", "rating": comment.rating.to_string(),
        });
        assert_eq!(entry, &expected);
    }
    assert_eq!(feed["title"], "Comments on a/b, in English, rated 4 or 5");
    let own = format!("{SITE}{path}");
    assert_eq!(feed["links"], json!({ "self": own, "alternate": format!("{SITE}/product/a%2Fb/comments/en/4.5") }));
    assert_eq!(feed["id"], json!(own));

    // An edit changes the tag and the time of its entry; nothing else does.
    let tag = answer.header("etag").unwrap().to_owned();
    let again = http.send(Method::GET, &path, &[("if-none-match", &tag)], b"").await;
    assert_eq!(again.status, 304);
    let edited = matching().nth(2).unwrap().id.clone();
    http.patch(edited.as_str(), &json!({ "body": "Edited" })).await.expect(200);
    running.settle().await;
    let again = http.send(Method::GET, &path, &[("if-none-match", &tag)], b"").await;
    assert_eq!(again.status, 200);
    let changed = read(&again.body).await;
    assert_eq!(changed["entries"][2]["text"], "Edited");
    assert_eq!(changed["updated"], changed["entries"][2]["updated"]);
    assert!(changed["updated"].as_str() > feed["updated"].as_str());
    // Without comments there is no feed.
    assert_eq!(http.get("/product/nobody/feed").await.status, 404);
    running.finish().await;
}

#[tokio::test]
async fn any_text_is_well_formed_in_a_feed() {
    let texts: Vec<String> =
        HOSTILE.iter().map(|text| (*text).to_owned()).chain(["\u{fffe}x\u{ffff}y]]>".to_owned()]).collect();
    let comments: Vec<_> =
        (0..).zip(&texts).map(|(number, text)| with_text(comment("p", "he", 3, number), text, text, text)).collect();
    let running = start(site_settings(), &comments).await;
    let feed = read(&running.http.get("/product/p/feed").await.body).await;
    for (entry, text) in feed["entries"].as_array().unwrap().iter().rev().zip(&texts) {
        // XML has no such characters.
        let text = text.replace(['\u{fffe}', '\u{ffff}'], "");
        for part in ["title", "author", "text"] {
            assert_eq!(entry[part].as_str().map(str::trim), Some(text.trim()), "{part}");
        }
    }
    running.finish().await;
}
