//! A comment that is not published has no duplicates and no ranks. Readers never see it, moderators
//! do. What derives from it follows every change of its status.

use api::{ApiSettings, WritingSettings};
use hyper::Method;
use model::{CommentId, Status};
use repair_job::{Job, JobSettings, Report, Stop};
use serde_json::json;

use crate::fixture::{
    api::{Served, named_token},
    data::PRODUCT,
    http::{Http, good_comment, ids, listing, page_path, product_path},
    stores::Stores,
};

const _: crate::Engines = crate::Engines::Both;

const MODERATOR: &str = "the-moderators-token";
const WRITER: &str = "the-writers-token";

fn settings(new_comments: Status) -> ApiSettings {
    let writer = named_token("writer", "comments:write", WRITER);
    let moderator = named_token("moderator", "comments:moderate", MODERATOR);
    let writing = WritingSettings {
        tokens: vec![writer, moderator],
        new_comments,
    };
    ApiSettings {
        writing,
        ..ApiSettings::default()
    }
}

fn address_of(id: &str) -> String {
    format!("/api/v1/comments/{id}")
}

#[tokio::test]
async fn readers_get_404_for_a_hidden_comment_and_moderators_get_it() {
    let stores = Stores::start_ready().await;
    let comments = stores.fill(3).await;
    let api = Served::with(&stores, settings(Status::Published));
    let http = &api.http;
    let moderator = http.with_token(MODERATOR);
    let id = comments[1].id.as_str();
    let before = http.get(&listing("")).await;
    let tag = before.header("etag").unwrap().to_owned();

    for (token, change, status) in [
        (WRITER, json!({"status": "hidden"}), 403),
        (MODERATOR, json!({"rating": 1}), 403),
        (MODERATOR, json!({"rating": 1, "status": "hidden"}), 403),
        ("nobody", json!({"status": "hidden"}), 401),
        (MODERATOR, json!({"status": "shown"}), 400),
        (MODERATOR, json!({"status": "hidden"}), 200),
    ] {
        let answer = http.with_token(token).patch(id, &change).await;
        assert_eq!(answer.status, status, "{token} {change}: {answer:?}");
    }
    stores.deliver_all().await;
    let address = address_of(id);
    for target in [
        address.clone(),
        format!("{address}/position"),
        format!("/comments/{id}"),
    ] {
        assert_eq!(http.get(&target).await.status, 404, "{target}");
    }
    let writer = http.with_token(WRITER);
    assert_eq!(writer.get_with_token(&address).await.status, 404);
    let seen = moderator.get_with_token(&address).await;
    assert_eq!(seen.header("cache-control"), Some("no-store"));
    assert_eq!(seen.expect(200)["status"], "hidden");
    // A page that a cache holds has changed.
    let after = http
        .send(Method::GET, &listing(""), &[("if-none-match", &tag)], b"")
        .await;
    let after = after.expect(200);
    assert!(!ids(&after).contains(&id.to_owned()), "{after}");
    assert_eq!(after["total"], 2, "{after}");
    assert!(!http.get(&page_path(PRODUCT)).await.body.contains(id));

    let shown = moderator
        .patch(id, &json!({"status": "published"}))
        .await
        .expect(200);
    assert!(
        shown.get("status").is_none(),
        "published comments do not say so: {shown}"
    );
    stores.deliver_all().await;
    let again = http.get(&listing("")).await.expect(200);
    assert_eq!(
        ids(&again),
        ids(&before.json()),
        "its creation time gives it its old rank"
    );
    api.finish_with(stores).await;
}

/// Posts a comment twice under the same key. The comment is created once, and waits for a
/// moderator. Returns its id.
async fn post_twice(writer: &Http, number: u32) -> String {
    let target = format!("{}/comments", product_path(PRODUCT));
    let key = format!("key-{number}");
    let headers = [("idempotency-key", key.as_str())];
    let body = good_comment("en", 5, &format!("Body {number}")).to_string();
    let first = writer
        .write(Method::POST, &target, &headers, body.as_bytes())
        .await
        .expect(201);
    let again = writer
        .write(Method::POST, &target, &headers, body.as_bytes())
        .await
        .expect(201);
    assert_eq!(first["status"], "pending");
    assert_eq!(first, again);
    first["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn new_comments_wait_in_the_list_of_moderators_until_they_are_published() {
    let stores = Stores::start_ready().await;
    let api = Served::with(&stores, settings(Status::Pending));
    let http = &api.http;
    let writer = http.with_token(WRITER);
    let moderator = http.with_token(MODERATOR);
    let mut posted = Vec::new();
    for number in 0..5 {
        posted.push(post_twice(&writer, number).await);
    }
    // Comments of one millisecond are in the order of their ids.
    posted.sort();
    stores.deliver_all().await;
    assert_eq!(http.get(&listing("")).await.expect(200)["total"], 0);

    let list = "/api/v1/moderation?status=pending&page_size=2";
    assert_eq!(http.get(list).await.status, 401);
    assert_eq!(writer.get_with_token(list).await.status, 403);
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    for expected in [2, 2, 1] {
        let mut target = list.to_owned();
        if let Some(cursor) = cursor {
            target.push_str(&format!("&cursor={cursor}"));
        }
        let page = moderator.get_with_token(&target).await.expect(200);
        assert_eq!(ids(&page).len(), expected, "{page}");
        found.extend(ids(&page));
        cursor = page["cursor"]["next"].as_str().map(str::to_owned);
        // A decision about a comment of this page moves no other page.
        moderator
            .patch(found.last().unwrap(), &json!({"status": "published"}))
            .await
            .expect(200);
    }
    assert_eq!(found, posted, "each once, oldest first");
    assert_eq!(cursor, None, "each once, oldest first");
    let undecided = moderator
        .get_with_token("/api/v1/moderation")
        .await
        .expect(200);
    assert_eq!(ids(&undecided), [posted[0].clone(), posted[2].clone()]);
    let wrong = moderator
        .get_with_token("/api/v1/moderation?status=published")
        .await;
    assert_eq!(wrong.problem()["field"], "status");
    stores.deliver_all().await;
    assert_eq!(http.get(&listing("")).await.expect(200)["total"], 3);
    api.finish_with(stores).await;
}

#[tokio::test]
async fn a_check_names_the_token_of_each_change_also_of_a_deleted_comment() {
    let stores = Stores::start_ready().await;
    let api = Served::with(&stores, settings(Status::Published));
    let writer = api.http.with_token(WRITER);
    let moderator = api.http.with_token(MODERATOR);
    let mut comment = good_comment("en", 4, "Fine.");
    comment["author_id"] = json!("ann");
    let id = writer.posted(PRODUCT, &comment).await;
    moderator
        .patch(&id, &json!({"status": "hidden"}))
        .await
        .expect(200);
    let listed = moderator
        .get_with_token("/api/v1/authors/ann/comments")
        .await
        .expect(200);
    assert_eq!(listed["comments"][0]["status"], "hidden", "{listed}");
    let id = CommentId::parse(&id).unwrap();
    let job = Job::new(
        stores.table.clone(),
        stores.index.clone(),
        JobSettings::default(),
        Stop::default(),
    );
    let mut expected = vec![("created", "writer"), ("changed", "moderator")];
    assert_eq!(changes(&job.check(&id, None).await), expected);
    writer.delete(id.as_str()).await.expect(204);
    expected.push(("deleted", "writer"));
    stores.deliver_all().await;
    let report = job.check(&id, None).await;
    assert_eq!(changes(&report), expected);
    let text = report.to_string();
    assert!(text.contains("no comment has the id"), "{text}");
    assert!(text.contains("deleted  writer"), "{text}");
    api.finish_with(stores).await;
}

/// What was changed, and by whom.
fn changes(report: &Report) -> Vec<(&str, &str)> {
    let comment = report.comment.as_ref().unwrap();
    let changes = comment.changes.iter();
    changes
        .map(|change| (change.what, change.by.as_deref().unwrap()))
        .collect()
}
