//! The writers: customers post, editors change and delete, an importer creates again what it has
//! deleted. Each goes through the API of one of two processes, or through the table as an import
//! does.

use std::time::Duration;

use actix_web::http::Method;
use model::{AuthorId, Comment, CommentId, Invariant, ProductId, Status, Timestamp};
use process::now;
use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};
use table::{Created, NewComment, Table, WriteError};

use super::{
    model::Seen,
    plan::{Mode, Part},
    world::{Answer, Api, Judged, LANGUAGES, OTHER_PRODUCT, PRODUCT, World},
};
use crate::fixture::data;

/// A write without an answer may be done until so long after it.
pub(crate) const DONE_WITHIN_MS: i64 = 40_000;

/// How often a client repeats a request that was answered "later".
const REPEATS: usize = 3;

pub(crate) async fn customers(world: &World) {
    let mut random = world.plan.random("customers");
    let count = if world.plan.mode == Mode::Posts {
        3 * world.plan.changes
    } else {
        world.plan.changes
    };
    for number in 0..count {
        pause(world, &mut random).await;
        post(world, &mut random, number).await;
    }
}

async fn pause(world: &World, random: &mut StdRng) {
    let is_long = world.plan.has(Part::Hours) && random.random_ratio(1, 8);
    let longest_ms = if is_long {
        1_500_000
    } else {
        *[0, 100, 2_000, 30_000].choose(random).unwrap()
    };
    tokio::time::sleep(Duration::from_millis(random.random_range(0..=longest_ms))).await;
}

fn api<'world>(world: &'world World, random: &mut StdRng) -> &'world Api {
    world.apis.choose(random).unwrap()
}

async fn post(world: &World, random: &mut StdRng, number: usize) {
    let body = world.new_body();
    let language = *LANGUAGES.choose(random).unwrap();
    let rating = random.random_range(1..=5);
    let content = json!({ "language": language, "rating": rating, "body": body });
    let target = format!("/api/v1/products/{PRODUCT}/comments");
    let key = format!("post-{number}");
    let headers = [("Idempotency-Key", key.as_str())];
    world.model.borrow_mut().unanswered.insert(body.clone());
    // A client that lost the answer sends the post again.
    let mut loses_answer = random.random_bool(0.2);
    let mut created = None;
    for _ in 0..REPEATS {
        let api = api(world, random);
        let answer = world
            .request(api, Method::POST, &target, &headers, Some(&content))
            .await;
        if answer.status == 201 {
            let comment = comment_of(&answer.json());
            let first = created.get_or_insert_with(|| comment.id.clone()).clone();
            world.check(
                Invariant::RepeatedPostsCreateNothing,
                first == comment.id,
                || format!("a repeated post has created {} after {first}", comment.id),
            );
            if loses_answer {
                loses_answer = false;
                continue;
            }
            let mut model = world.model.borrow_mut();
            model.unanswered.remove(&body);
            model.begin(&comment.id, now());
            model.note_created(&comment.id);
            model.answered(&comment.id, Some(comment.clone()), now());
            return;
        }
        world.check(Invariant::AbsenceIsCertain, answer.status == 503, || {
            format!("a post is answered {answer:?}")
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The comment in an answer to a writer.
pub(crate) fn comment_of(json: &Value) -> Comment {
    let new = NewComment {
        created_at: Timestamp::parse(text_of(json, "created_at")).unwrap(),
        text: data::body(text_of(json, "body")),
        status: json["status"]
            .as_str()
            .map(|status| Status::parse(status).unwrap()),
        ..data::new_comment(
            text_of(json, "id"),
            &data::product(text_of(json, "product")),
            text_of(json, "language"),
            json["rating"].as_u64().unwrap(),
        )
    };
    data::stored(&new)
}

fn text_of<'json>(json: &'json Value, name: &str) -> &'json str {
    json[name].as_str().unwrap()
}

pub(crate) async fn editors(world: &World, name: &str) {
    let mut random = world.plan.random(name);
    for _ in 0..world.plan.changes {
        pause(world, &mut random).await;
        editor(world, &mut random, 2, Duration::from_secs(2)).await;
    }
}

/// Changes some comments, with pauses of at most `pause` in between.
pub(crate) async fn editor(world: &World, random: &mut StdRng, changes: usize, pause: Duration) {
    for _ in 0..changes {
        tokio::time::sleep(pause.mul_f64(random.random())).await;
        let ids = world.model.borrow().ids();
        let Some(id) = ids.choose(random) else {
            continue;
        };
        match random.random_range(0..5) {
            0 => delete(world, random, id).await,
            _ => change(world, random, id).await,
        }
    }
}

async fn delete(world: &World, random: &mut StdRng, id: &CommentId) {
    world.model.borrow_mut().begin(id, now());
    let target = format!("/api/v1/comments/{id}");
    let answer = world
        .request(api(world, random), Method::DELETE, &target, &[], None)
        .await;
    let mut model = world.model.borrow_mut();
    match answer.status {
        204 | 404 => model.answered(id, None, now()),
        _ => model.unanswered(id, vec![None], now().plus_ms(DONE_WITHIN_MS)),
    }
    world.check(
        Invariant::AbsenceIsCertain,
        [204, 404, 503].contains(&answer.status),
        || format!("a deletion is answered {answer:?}"),
    );
}

pub(crate) async fn change(world: &World, random: &mut StdRng, id: &CommentId) {
    let mut fields = serde_json::Map::new();
    match random.random_range(0..4) {
        0 => fields.insert("rating".to_owned(), json!(random.random_range(1..=5))),
        1 => fields.insert(
            "language".to_owned(),
            json!(LANGUAGES.choose(random).unwrap()),
        ),
        2 => fields.insert(
            "status".to_owned(),
            json!(["published", "hidden"].choose(random).unwrap()),
        ),
        _ => fields.insert("body".to_owned(), json!(world.new_body())),
    };
    let change = Value::Object(fields);
    world.model.borrow_mut().note_edited(id);
    if let Some(body) = change["body"].as_str() {
        world.model.borrow_mut().note_sent(id, body);
    }
    world.model.borrow_mut().begin(id, now());
    let api = api(world, random);
    let target = format!("/api/v1/comments/{id}");
    let answer = world
        .request(api, Method::PATCH, &target, &[], Some(&change))
        .await;
    note_answer_to_change(world, id, &change, &answer);
}

fn note_answer_to_change(world: &World, id: &CommentId, change: &Value, answer: &Answer) {
    world.edited.borrow_mut().push(id.clone());
    let mut model = world.model.borrow_mut();
    match answer.status {
        200 => {
            let after = comment_of(&answer.json());
            if let Some(before) = model.alone(id) {
                let expected = changed(before, change);
                world.check(
                    Invariant::WritesAreKept,
                    Seen::from(&expected) == Seen::from(&after),
                    || format!("{change} has made {after:?}"),
                );
            }
            model.answered(id, Some(after), now());
        }
        404 => {
            let before = model.alone(id);
            world.check(Invariant::WritesAreKept, before.is_none(), || {
                format!("{change} of {id} is answered {answer:?}, and {before:?} was acknowledged")
            });
            model.answered(id, None, now());
        }
        _ => {
            let until = now().plus_ms(DONE_WITHIN_MS);
            let mut after = Vec::new();
            for before in model.possible(id) {
                after.push(before.map(|before| changed(before, change)));
            }
            model.unanswered(id, after, until);
        }
    }
    drop(model);
    world.check(
        Invariant::AbsenceIsCertain,
        [200, 404, 503].contains(&answer.status),
        || format!("a change is answered {answer:?}"),
    );
}

/// The comment after a change.
pub(crate) fn changed(mut comment: Comment, change: &Value) -> Comment {
    if let Some(rating) = change["rating"].as_u64() {
        comment.rating = data::rating(rating);
    }
    if let Some(language) = change["language"].as_str() {
        comment.language = data::language(language);
    }
    if let Some(status) = change["status"].as_str() {
        comment.status = Status::parse(status).unwrap();
    }
    if let Some(body) = change["body"].as_str() {
        comment.text = data::body(body);
    }
    comment
}

pub(crate) fn imported_ids() -> [CommentId; 4] {
    ["i0", "i1", "i2", "i3"].map(data::comment_id)
}

/// The author of all imported comments.
pub(crate) fn imported_author() -> AuthorId {
    AuthorId::parse("an author").unwrap()
}

/// Creates and deletes comments under few ids and with few dates, so that many have equal times.
/// Some are hidden, and one belongs to a different product.
pub(crate) async fn importer(world: &World) {
    let mut random = world.plan.random("the importer");
    let table = world.table("import");
    for _ in 0..2 * world.plan.changes {
        pause(world, &mut random).await;
        let id = imported_ids().choose(&mut random).unwrap().clone();
        let product = data::product(if id.as_str() == "i0" {
            OTHER_PRODUCT
        } else {
            PRODUCT
        });
        world.model.borrow_mut().begin(&id, now());
        let done_until = now().plus_ms(DONE_WITHIN_MS);
        if random.random_bool(0.4) {
            delete_imported(world, &table, &id, done_until).await;
        } else {
            let comment = imported_comment(world, &mut random, &id, &product);
            create_imported(world, &table, comment, done_until).await;
        }
    }
}

async fn delete_imported(world: &World, table: &Table, id: &CommentId, done_until: Timestamp) {
    let deleted = table.delete_comment(id, |_| true).await;
    world
        .trace
        .note(|| format!("import: delete {id}: {deleted:?}"));
    let mut model = world.model.borrow_mut();
    match deleted {
        Ok(()) | Err(WriteError::NotFound) => model.answered(id, None, now()),
        Err(_) => model.unanswered(id, vec![None], done_until),
    }
}

fn imported_comment(
    world: &World,
    random: &mut StdRng,
    id: &CommentId,
    product: &ProductId,
) -> NewComment {
    let created_at = data::at_ms(data::CREATED_MS + random.random_range(0..2));
    let language = LANGUAGES.choose(random).unwrap();
    let rating = random.random_range(1..=5);
    let mut comment = data::new_comment(id.as_str(), product, language, rating);
    comment.created_at = created_at;
    comment.site.author_id = Some(imported_author());
    comment.text = data::body(&world.new_body());
    if random.random_bool(0.2) {
        comment.status = Some(Status::Hidden);
    }
    comment
}

async fn create_imported(world: &World, table: &Table, comment: NewComment, done_until: Timestamp) {
    let id = &comment.id;
    world.model.borrow_mut().note_created(id);
    world
        .model
        .borrow_mut()
        .note_sent(id, comment.text.body.as_deref().unwrap_or_default());
    let created = table.create_comment(comment.clone(), None).await;
    world
        .trace
        .note(|| format!("import: create {id}: {}", created.is_ok()));
    let mut model = world.model.borrow_mut();
    match created {
        Ok(Created::New(stored) | Created::Before(stored)) => {
            model.answered(id, Some(stored), now());
        }
        // Also a refused one: an attempt without an answer may still be on its way.
        Err(_) => model.unanswered(id, vec![Some(data::stored(&comment))], done_until),
    }
}
