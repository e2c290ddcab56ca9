//! The values of a row: where they are, and their texts.

use model::InvalidInput;
use serde_json::{Map, Value};

/// How databases write no value into a cell. As the id of an author it would be one for all.
pub(super) const NULLS: [&str; 2] = ["\\N", "NULL"];

/// The value at a name, or at a path of names with dots between them.
pub(super) fn look_up<'row>(row: &'row Map<String, Value>, column: &str) -> Option<&'row Value> {
    row.get(column).or_else(|| {
        let (first, rest) = column.split_once('.')?;
        look_up(row.get(first)?.as_object()?, rest)
    })
}

/// The text of a field's value; null is empty.
pub(super) fn text(field: &'static str, value: &Value) -> Result<String, InvalidInput> {
    match value {
        Value::Null => Ok(String::new()),
        // These keep the spaces that people put there.
        Value::String(text) if matches!(field, "title" | "body" | "author") => Ok(text.clone()),
        Value::String(text) => Ok(text.trim().to_owned()),
        // A number with a fraction or too many digits has lost some of them, so it names nothing.
        Value::Number(number)
            if number.is_f64() && matches!(field, "id" | "product" | "author_id") =>
        {
            Err(InvalidInput::new(
                field,
                format!("{number} is not a whole number that JSON keeps"),
            ))
        }
        Value::Object(_) if field == "attributes" => Ok(value.to_string()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Array(_) | Value::Object(_) => {
            Err(InvalidInput::new(field, "holds several values, not a text"))
        }
    }
}
