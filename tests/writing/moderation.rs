//! A comment that is not published has no duplicates and no ranks. Readers never see it, moderators
//! do. What derives from it follows every change of its status.

use api::{ApiSettings, WritingSettings};
use hyper::Method;
use model::Status;
use serde_json::json;

use crate::fixture::{
    api::{Served, named_token},
    data::PRODUCT,
    http::{good_comment, ids, listing, page_path, product_path},
    stores::Stores,
};

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

fn of(id: &str) -> String {
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
    for target in [
        of(id),
        format!("{}/position", of(id)),
        format!("/comments/{id}"),
    ] {
        assert_eq!(http.get(&target).await.status, 404, "{target}");
        assert_eq!(
            http.with_token(WRITER).get_with_token(&of(id)).await.status,
            404
        );
    }
    let seen = moderator.get_with_token(&of(id)).await;
    assert_eq!(seen.header("cache-control"), Some("no-store"));
    assert_eq!(seen.expect(200)["status"], "hidden");
    // A page that a cache holds is no longer the same.
    let after = http
        .send(Method::GET, &listing(""), &[("if-none-match", &tag)], b"")
        .await;
    let after = after.expect(200);
    assert_eq!(
        (ids(&after).contains(&id.to_owned()), &after["total"]),
        (false, &json!(2)),
        "{after}"
    );
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
        "its creation time gives it its old place"
    );
    api.finish_with(stores).await;
}

#[tokio::test]
async fn new_comments_wait_in_the_list_of_moderators_until_they_are_published() {
    let stores = Stores::start_ready().await;
    let api = Served::with(&stores, settings(Status::Pending));
    let http = &api.http;
    let (writer, moderator) = (http.with_token(WRITER), http.with_token(MODERATOR));
    let target = format!("{}/comments", product_path(PRODUCT));
    let mut posted = Vec::new();
    for number in 0..5 {
        let (key, body) = (
            format!("key-{number}"),
            good_comment("en", 5, &format!("Body {number}")).to_string(),
        );
        let post = async || {
            writer
                .write(
                    Method::POST,
                    &target,
                    &[("idempotency-key", &key)],
                    body.as_bytes(),
                )
                .await
        };
        let [first, again] = [post().await.expect(201), post().await.expect(201)];
        assert_eq!((&first["status"], &first), (&json!("pending"), &again));
        posted.push(first["id"].as_str().unwrap().to_owned());
    }
    // Those of one millisecond are in the order of their ids.
    posted.sort();
    stores.deliver_all().await;
    assert_eq!(http.get(&listing("")).await.expect(200)["total"], 0);

    let list = "/api/v1/moderation?status=pending&page_size=2";
    assert_eq!(
        [
            http.get(list).await.status,
            writer.get_with_token(list).await.status
        ],
        [401, 403]
    );
    let (mut found, mut cursor) = (Vec::new(), None);
    for expected in [2, 2, 1] {
        let target = cursor.map_or(list.to_owned(), |cursor: String| {
            format!("{list}&cursor={cursor}")
        });
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
    assert_eq!(
        (found, cursor),
        (posted.clone(), None),
        "each once, oldest first"
    );
    let left = moderator
        .get_with_token("/api/v1/moderation")
        .await
        .expect(200);
    assert_eq!(ids(&left), [posted[0].clone(), posted[2].clone()]);
    let wrong = moderator
        .get_with_token("/api/v1/moderation?status=published")
        .await;
    assert_eq!(wrong.problem()["field"], "status");
    stores.deliver_all().await;
    assert_eq!(http.get(&listing("")).await.expect(200)["total"], 3);
    api.finish_with(stores).await;
}
