//! The writers: customers post, editors and moderators change and delete.

use std::time::Duration;

use hyper::Method;
use model::{CommentId, Invariant};
use process::now;
use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};

use super::{Soak, readers::is_given_up};
use crate::{
    fixture::{data, http::Answer},
    simulator::{
        model::Seen,
        world::{Judged, LANGUAGES, OTHER_PRODUCT, PRODUCT},
        writers::{DONE_WITHIN_MS, changed, comment_of},
    },
};

const PAUSE_MAX: Duration = Duration::from_millis(200);

const HALF_A_DAY_MS: i64 = 12 * 3_600_000;

/// How often a client repeats a post that was not answered, and its pause before.
const REPEATS: usize = 8;
const REPEAT_AFTER: Duration = Duration::from_millis(700);

/// With more comments, more are deleted than posted: judging all pages takes the longer the more
/// there are.
const COMMENTS_MAX: usize = 500;

pub(super) async fn write(soak: &Soak, mut random: StdRng) {
    while soak.is_stormy() {
        soak.pause(&mut random, PAUSE_MAX).await;
        let ids = soak.model().ids();
        let (posts, deletions) = if ids.len() < COMMENTS_MAX {
            (5, 1)
        } else {
            (3, 3)
        };
        let chance = random.random_range(0..10);
        if chance < posts {
            post(soak, &mut random).await;
            continue;
        }
        let Some(id) = ids.choose(&mut random) else {
            continue;
        };
        if chance < posts + deletions {
            delete(soak, id).await;
        } else {
            change(soak, &mut random, id).await;
        }
    }
}

/// Sends a write. `None` without an answer.
async fn send(
    soak: &Soak,
    method: Method,
    target: &str,
    headers: &[(&str, &str)],
    content: &Value,
) -> Option<Answer> {
    let http = soak.site.api()?;
    let body = if content.is_null() {
        String::new()
    } else {
        content.to_string()
    };
    let sent = http.try_write(method, target, headers, body.as_bytes());
    let answer = sent.await.ok().filter(|answer| !is_given_up(answer));
    match &answer {
        Some(answer) if answer.status == 503 => soak.tally.add("writes answered 503", 1),
        Some(_) => {}
        None => soak.tally.add("writes without an answer", 1),
    }
    answer
}

fn expect(soak: &Soak, answer: &Answer, statuses: &[u16]) {
    soak.check(
        Invariant::AbsenceIsCertain,
        statuses.contains(&answer.status) || answer.status == 503,
        || format!("a write is answered {answer:?}"),
    );
}

async fn post(soak: &Soak, random: &mut StdRng) {
    let body = soak.new_body();
    let content = json!({
        "language": LANGUAGES.choose(random).unwrap(),
        "rating": random.random_range(1..=5),
        "body": body,
    });
    let product = if random.random_ratio(1, 8) {
        OTHER_PRODUCT
    } else {
        PRODUCT
    };
    let target = format!("/api/v1/products/{product}/comments");
    let key = body.replace(' ', "-");
    let headers = [("Idempotency-Key", key.as_str())];
    soak.model().unanswered.insert(body.clone());
    for _ in 0..REPEATS {
        let answer = send(soak, Method::POST, &target, &headers, &content).await;
        let Some(answer) = answer.filter(|answer| answer.status != 503) else {
            tokio::time::sleep(REPEAT_AFTER).await;
            continue;
        };
        expect(soak, &answer, &[201]);
        if answer.status != 201 {
            return;
        }
        let comment = comment_of(&answer.json());
        {
            let mut model = soak.model();
            model.unanswered.remove(&body);
            model.begin(&comment.id, now());
            model.note_created(&comment.id);
            model.answered(&comment.id, Some(comment.clone()), now());
        }
        soak.tally.add("acknowledged: posts", 1);
        if comment.created_at < now().plus_ms(-HALF_A_DAY_MS) {
            soak.tally.add("posts whose clock was a day back", 1);
        }
        if random.random_ratio(1, 5) {
            // As if the answer had been lost.
            let again = send(soak, Method::POST, &target, &headers, &content).await;
            if let Some(again) = again.filter(|again| again.status == 201) {
                soak.tally.add("posts repeated after their answer", 1);
                soak.check(
                    Invariant::RepeatedPostsCreateNothing,
                    again.json()["id"] == comment.id.as_str(),
                    || format!("a repeated post of {} has created {again:?}", comment.id),
                );
            }
        }
        return;
    }
}

async fn delete(soak: &Soak, id: &CommentId) {
    soak.model().begin(id, now());
    let target = format!("/api/v1/comments/{id}");
    let answer = send(soak, Method::DELETE, &target, &[], &Value::Null).await;
    match answer {
        Some(answer) if [204, 404].contains(&answer.status) => {
            soak.model().answered(id, None, now());
            soak.tally.add("acknowledged: deletions", 1);
        }
        other => {
            let until = now().plus_ms(DONE_WITHIN_MS);
            soak.model().unanswered(id, vec![None], until);
            if let Some(answer) = other {
                expect(soak, &answer, &[]);
            }
        }
    }
}

async fn change(soak: &Soak, random: &mut StdRng, id: &CommentId) {
    let (kind, change) = match random.random_range(0..4) {
        0 => ("edits", json!({ "rating": random.random_range(1..=5) })),
        1 => (
            "edits",
            json!({ "language": LANGUAGES.choose(random).unwrap() }),
        ),
        2 => {
            let status = ["published", "hidden", "pending"].choose(random).unwrap();
            ("moderation", json!({ "status": status }))
        }
        _ => ("edits", json!({ "body": soak.new_body() })),
    };
    {
        let mut model = soak.model();
        model.note_edited(id);
        if let Some(body) = change["body"].as_str() {
            model.note_sent(id, body);
        }
        model.begin(id, now());
    }
    let target = format!("/api/v1/comments/{id}");
    let answer = send(soak, Method::PATCH, &target, &[], &change).await;
    let status = answer.as_ref().map(|answer| answer.status);
    match (status, &answer) {
        (Some(200), Some(answer)) => {
            let after = comment_of(&answer.json());
            let before = soak.model().alone(id);
            if let Some(before) = before {
                let expected = changed(before, &change);
                soak.check(
                    Invariant::WritesAreKept,
                    Seen::from(&expected) == Seen::from(&after),
                    || format!("{change} has made {after:?}"),
                );
            }
            soak.model().answered(id, Some(after), now());
            soak.tally.add(format!("acknowledged: {kind}"), 1);
        }
        (Some(404), Some(answer)) => {
            let before = soak.model().alone(id);
            soak.check(Invariant::WritesAreKept, before.is_none(), || {
                format!("{change} of {id} is answered {answer:?}, and {before:?} was acknowledged")
            });
            soak.model().answered(id, None, now());
        }
        _ => {
            let until = now().plus_ms(DONE_WITHIN_MS);
            let mut model = soak.model();
            let mut after = Vec::new();
            for before in model.possible(id) {
                after.push(before.map(|before| changed(before, &change)));
            }
            model.unanswered(id, after, until);
        }
    }
    if let Some(answer) = answer {
        expect(soak, &answer, &[200, 404]);
    }
}

/// The comment that an import creates at the end of a round.
pub(super) fn imported(soak: &Soak, number: u64) -> table::NewComment {
    let rating = 1 + number % 5;
    let id = format!("imported-{number}");
    let mut comment = data::new_comment(&id, &data::product(PRODUCT), LANGUAGES[0], rating);
    comment.created_at = now();
    comment.text = data::body(&soak.new_body());
    comment
}
