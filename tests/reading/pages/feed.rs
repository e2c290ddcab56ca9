//! The Atom feed of a listing, as an independent reader of feeds (feedparser) understands it.

use hyper::Method;
use serde_json::{Value, json};
use table::NewComment;

use super::{
    SITE, comment, html::Page, site_settings, start, structured_data::HOSTILE, three_pages,
    with_text,
};
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

/// A text as XML has it: without the characters that it lacks.
fn in_xml(text: &str) -> String {
    text.replace(['\u{fffe}', '\u{ffff}'], "").trim().to_owned()
}

/// What feedparser reads of a comment's entry, except for the time of its last change.
fn expected_entry(comment: &NewComment) -> Value {
    let url = format!("{SITE}/comments/{}", comment.id);
    let title = match &comment.text.title {
        Some(title) => title.clone(),
        None => format!("{} out of 5", comment.rating),
    };
    let author = comment.text.author.as_deref().unwrap_or("Anonymous");
    json!({
        "title": in_xml(&title),
        "id": url,
        "link": url,
        "author": in_xml(author),
        "published": comment.created_at,
        "text": comment.text.body.as_deref().map(in_xml),
        "type": "text/plain",
        "language": "en",
        "rating": comment.rating.to_string(),
    })
}

#[tokio::test]
#[ignore = "needs Python packages"]
async fn a_feed_has_the_newest_comments_and_their_changes_whatever_their_texts_are() {
    let mut comments = three_pages("a/b");
    let texts = HOSTILE.into_iter().chain(["\u{fffe}x\u{ffff}y]]>"]);
    for (number, text) in (50..).zip(texts) {
        comments.push(with_text(comment("a/b", "en", 5, number), text, text, text));
    }
    let mut running = start(site_settings(), &comments).await;
    let http = running.http.clone();
    let page = Page::get(&http, "/product/a%2Fb/comments/en/4.5", 200).await;
    let path = page
        .attribute("head link[type='application/atom+xml']", "href")
        .unwrap();
    assert_eq!(path, "/product/a%2Fb/feed/en/4.5");
    let answer = http.get(&path).await;
    assert_eq!(
        answer.header("content-type"),
        Some("application/atom+xml; charset=utf-8")
    );
    assert_eq!(answer.header("x-robots-tag"), Some("noindex"));
    let feed = read(&answer.body).await;
    let mut matching: Vec<&NewComment> = comments
        .iter()
        .filter(|comment| comment.language.as_str() == "en" && comment.rating.get() >= 4)
        .collect();
    matching.reverse();
    let entries = feed["entries"].as_array().unwrap();
    assert_eq!(entries.len(), matching.len().min(20));
    for (entry, comment) in entries.iter().zip(&matching) {
        let mut entry = entry.clone();
        for part in ["title", "author", "text"] {
            entry[part] = in_xml(entry[part].as_str().unwrap()).into();
        }
        let updated = entry.as_object_mut().unwrap().remove("updated");
        assert!(updated.is_some(), "{entry}");
        assert_eq!(entry, expected_entry(comment));
    }
    assert_eq!(feed["title"], "Comments on a/b, in English, rated 4 or 5");
    let own = format!("{SITE}{path}");
    assert_eq!(
        feed["links"],
        json!({ "self": own, "alternate": format!("{SITE}/product/a%2Fb/comments/en/4.5") })
    );
    assert_eq!(feed["id"], json!(own));

    // An edit changes the tag and the time of its entry; nothing else does.
    let tag = answer.header("etag").unwrap().to_owned();
    let again = http
        .send(Method::GET, &path, &[("if-none-match", &tag)], b"")
        .await;
    assert_eq!(again.status, 304);
    http.patch(matching[2].id.as_str(), &json!({ "body": "Edited" }))
        .await
        .expect(200);
    running.settle().await;
    let again = http
        .send(Method::GET, &path, &[("if-none-match", &tag)], b"")
        .await;
    assert_eq!(again.status, 200);
    let changed = read(&again.body).await;
    assert_eq!(changed["entries"][2]["text"], "Edited");
    assert_eq!(changed["updated"], changed["entries"][2]["updated"]);
    assert!(changed["updated"].as_str() > feed["updated"].as_str());
    // Without comments, a feed is 404.
    assert_eq!(http.get("/product/nobody/feed").await.status, 404);
    running.finish().await;
}
