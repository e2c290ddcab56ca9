//! The items of the articles on filters with DynamoDB, whose design Pagemark follows.
//!
//! | pk | sk | cd | language | rating | auto | comment_blob |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | `COMMENT#100001` | `PRODUCT#42/~/~` | `2020-11-09 12:00:00.123` | en | 5 | | { … } |
//! | `COMMENT#100001` | `PRODUCT#42/en/~` | `2020-11-09 12:00:00.123` | en | 5 | true | { … } |
//!
//! The first row is a comment. The second is one of its duplicates: the stream function makes others in the new table.
//! `comment_blob` is a map, or text that holds a JSON object; its keys are columns beside those of the item. Products are
//! as printed in the key, without escapes. `cd` has no offset, so it is in UTC.

use serde_json::Value;

use super::mapping::Row;

/// The attributes that are read here, and are no columns.
const READ_HERE: [&str; 5] = ["pk", "sk", "cd", "auto", "comment_blob"];

/// The columns of a comment's item; `None` for a duplicate, and for an item of anything else.
///
/// # Errors
/// The reason why a comment's item cannot be read, in one line.
pub(super) fn columns(item: Row) -> Result<Option<Row>, String> {
    let text = |name: &str| item.get(name).and_then(Value::as_str);
    let id = text("pk").and_then(|pk| pk.strip_prefix("COMMENT#"));
    let product = text("sk").and_then(|sk| sk.strip_prefix("PRODUCT#")?.strip_suffix("/~/~"));
    let is_duplicate = matches!(item.get("auto"), Some(auto) if !matches!(auto, Value::Null | Value::Bool(false)));
    let (Some(id), Some(product), false) = (id, product, is_duplicate) else { return Ok(None) };
    let created_at = text("cd").ok_or("attribute cd: is missing or no text")?;
    let own = [("id", id.to_owned()), ("product", product.to_owned()), ("created_at", rfc3339(created_at))];
    let mut row = text_of(item.get("comment_blob")).map_err(|problem| format!("attribute comment_blob: {problem}"))?;
    row.extend(own.map(|(name, value)| (name.to_owned(), value.into())));
    let others = item.into_iter().filter(|(name, _)| !READ_HERE.contains(&name.as_str()));
    // The text cannot change where the comment belongs.
    row.extend(others.filter(|(name, _)| !["id", "product", "created_at"].contains(&name.as_str())));
    Ok(Some(row))
}

/// `2020-11-09 12:00:00.123` in the form of RFC 3339. Any other text stays, for `--date-format`.
fn rfc3339(cd: &str) -> String {
    let instant = cd.split('#').next().unwrap_or_default();
    match instant.split_once(' ') {
        Some((date, time)) if date.len() == 10 && !time.contains(['Z', '+', '-']) => format!("{date}T{time}Z"),
        _ => instant.to_owned(),
    }
}

/// The keys inside of `comment_blob`. A text that is no JSON object is the body.
fn text_of(blob: Option<&Value>) -> Result<Row, String> {
    match blob {
        Some(Value::Object(keys)) => Ok(keys.clone()),
        Some(Value::String(text)) => Ok(match serde_json::from_str(text) {
            Ok(Value::Object(keys)) => keys,
            Ok(_) | Err(_) => Row::from_iter([("body".to_owned(), text.clone().into())]),
        }),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | None => {
            Err("is missing, or neither a map nor a text".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn item(changes: Value) -> Row {
        let mut item = json!({
            "pk": "COMMENT#100001", "sk": "PRODUCT#42/~/~", "cd": "2020-11-09 12:00:00.123", "language": "en",
            "rating": "5", "comment_blob": {"title": "Good", "body": "Fine."}
        });
        item.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        item.as_object().unwrap().clone()
    }

    fn comment() -> Value {
        json!({
            "id": "100001", "product": "42", "created_at": "2020-11-09T12:00:00.123Z", "language": "en", "rating": "5",
            "title": "Good", "body": "Fine."
        })
    }

    #[test]
    fn a_primary_item_as_printed_is_a_comment() {
        for changes in [
            json!({}),
            json!({"auto": false}),
            json!({"comment_blob": "{\"title\":\"Good\",\"body\":\"Fine.\",\"id\":\"2\"}"}),
            json!({"cd": "2020-11-09 12:00:00.123#100001"}),
        ] {
            assert_eq!(columns(item(changes)).unwrap().map(Value::Object), Some(comment()));
        }
        let row = columns(item(json!({"comment_blob": "Fine.", "sk": "PRODUCT#a/b%/~/~"}))).unwrap().unwrap();
        assert_eq!((&row["body"], &row["product"]), (&json!("Fine."), &json!("a/b%")));
    }

    #[test]
    fn duplicates_and_items_of_other_kinds_are_no_comments() {
        for changes in [
            json!({"auto": true}),
            json!({"auto": "true"}),
            json!({"sk": "PRODUCT#42/en/1.5", "auto": true}),
            json!({"sk": "PRODUCT#42/en/~"}),
            json!({"sk": "STATISTICS"}),
            json!({"pk": "PRODUCT#42"}),
        ] {
            assert_eq!(columns(item(changes)), Ok(None));
        }
    }

    #[test]
    fn a_primary_item_that_cannot_be_read_is_named_by_its_attribute() {
        for (changes, expected) in [(json!({"cd": null}), "cd"), (json!({"comment_blob": null}), "comment_blob")] {
            let error = columns(item(changes)).unwrap_err();
            assert!(error.starts_with(&format!("attribute {expected}: ")), "{error}");
        }
    }
}
