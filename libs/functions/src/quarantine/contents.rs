//! Reads the comments that a batch in quarantine names.

use std::collections::BTreeMap;

use model::{
    Cd, CommentId, FilterKey, Language, Malformed,
    item::{attribute, comment_id_of_pk},
    plan::reconcile::Places,
};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantinedBatch {
    pub comments: BTreeMap<CommentId, Places>,
    pub unreadable: Vec<String>,
}

impl QuarantinedBatch {
    /// Reads a document of the format that the service and the functions write: the invocation
    /// event is the text `payload` (AWS Lambda, "Retain discarded records for a DynamoDB event
    /// source"). It reads only keys, languages and times, so that a record with broken images still names
    /// its comment.
    pub fn read(document: &[u8]) -> Self {
        let mut batch = Self {
            comments: BTreeMap::new(),
            unreadable: Vec::new(),
        };
        let event = event_of(document).unwrap_or_default();
        let Some(Value::Array(records)) = event.get("Records") else {
            batch
                .unreadable
                .push("the document holds no records".to_owned());
            return batch;
        };
        for (index, record) in records.iter().enumerate() {
            match read_record(record) {
                Ok((id, places)) => batch.comments.entry(id).or_default().join(&places),
                Err(problem) => batch.unreadable.push(format!("record {index}: {problem}")),
            }
        }
        batch
    }
}

/// The invocation event in a document: a text, or an object as it is.
fn event_of(document: &[u8]) -> Option<Value> {
    let document: Value = serde_json::from_slice(document).ok()?;
    let payload = document.get("payload")?;
    if let Some(text) = payload.as_str() {
        return serde_json::from_str(text).ok();
    }
    payload.is_object().then(|| payload.clone())
}

fn read_record(record: &Value) -> Result<(CommentId, Places), String> {
    let (Some(pk), Some(sk)) = (
        text_at(record, "/dynamodb/Keys/pk/S"),
        text_at(record, "/dynamodb/Keys/sk/S"),
    ) else {
        return Err("it has no keys".to_owned());
    };
    let Some(id) = comment_id_of_pk(pk) else {
        let malformed = Malformed::of_item(pk, sk, attribute::PK, "is not a comment's");
        return Err(malformed.to_string());
    };
    let Ok(key) = FilterKey::parse(sk) else {
        let malformed = Malformed::of_item(pk, sk, attribute::SK, "is no filter key");
        return Err(malformed.to_string());
    };
    let mut places = Places::default();
    places.add(&key.product, key.filter.language());
    let mut has_times = false;
    for image in ["OldImage", "NewImage"] {
        let language = text_at(record, &format!("/dynamodb/{image}/language/S"));
        if let Some(Ok(language)) = language.map(Language::parse_stored) {
            places.add(&key.product, Some(&language));
        }
        if let Some(Ok(cd)) = text_at(record, &format!("/dynamodb/{image}/cd/S")).map(Cd::parse) {
            places.add_time(cd.created_at);
            has_times = true;
        }
    }
    if !has_times {
        places = places.at_any_time();
    }
    Ok((id, places))
}

fn text_at<'record>(record: &'record Value, pointer: &str) -> Option<&'record str> {
    record.pointer(pointer).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn keys(pk: &str, sk: &str) -> Value {
        json!({ "pk": { "S": pk }, "sk": { "S": sk } })
    }

    #[test]
    fn a_batch_names_its_comments_by_keys_whatever_else_is_broken() {
        let records = json!({ "Records": [
            { "dynamodb": { "Keys": keys("COMMENT#c1", "PRODUCT#a%2Fb/~/~"), "OldImage": { "language": { "S": "en" } } } },
            { "dynamodb": { "Keys": keys("COMMENT#c1", "PRODUCT#a%2Fb/~/~"), "NewImage": { "language": { "S": "KO" } } } },
            { "dynamodb": { "Keys": keys("CHANGE#1", "PRODUCT#a/~/~") } },
            { "dynamodb": { "Keys": keys("COMMENT#c2", "anything") } },
            {},
        ] });
        let batch = QuarantinedBatch::read(
            json!({ "payload": records.to_string() })
                .to_string()
                .as_bytes(),
        );
        let found: Vec<String> = batch
            .comments
            .iter()
            .map(|(id, places)| {
                let (product, languages) = places.iter().next().unwrap();
                format!(
                    "{id} {product} {:?}",
                    languages.iter().map(Language::as_str).collect::<Vec<_>>()
                )
            })
            .collect();
        assert_eq!(found, [r#"c1 a/b ["en", "ko"]"#]);
        assert_eq!(batch.unreadable.len(), 3, "{:?}", batch.unreadable);
    }

    #[test]
    fn a_document_without_records_is_unreadable() {
        for document in [
            "",
            "{}",
            r#"{"payload":"{}"}"#,
            r#"{"payload":"no JSON"}"#,
            "[]",
        ] {
            assert_eq!(
                QuarantinedBatch::read(document.as_bytes()).unreadable.len(),
                1,
                "{document}"
            );
        }
    }
}
