//! Ids that are made of a row's columns, for files that name none. The same values give the same
//! id, so a repeated import changes nothing.

use model::{CommentId, InvalidInput};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::value::{NULLS, look_up};

/// Half a SHA-256. Among 10^9 ids, two are equal with a probability of 10^-21.
const ID_BYTES: usize = 16;

/// The id that these columns of a row make.
///
/// # Errors
/// None of them has a value: every such row would have the same id.
pub(super) fn id_from(
    columns: &[String],
    row: &Map<String, Value>,
) -> Result<CommentId, InvalidInput> {
    let mut values = Vec::new();
    for column in columns {
        let value = match look_up(row, column) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) if NULLS.contains(&text.as_str()) => String::new(),
            Some(Value::String(text)) => text.trim().replace("\r\n", "\n"),
            Some(other) => other.to_string(),
        };
        values.push(value);
    }
    if values.iter().all(String::is_empty) {
        let problem = format!("{} of --id-from have no value", columns.join(", "));
        return Err(InvalidInput::new("id", problem));
    }
    // JSON keeps the values apart.
    let hash = Sha256::digest(Value::from(values).to_string());
    let hash: Vec<u8> = hash.iter().copied().take(ID_BYTES).collect();
    CommentId::parse(&hex::encode(hash))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made(row: &Value) -> Result<CommentId, InvalidInput> {
        let columns = ["mail", "posted"].map(str::to_owned);
        id_from(&columns, row.as_object().unwrap())
    }

    #[test]
    fn the_same_values_make_the_same_id_and_others_another() {
        let id = made(&json!({"mail": "a@b", "posted": 17, "body": "x"})).unwrap();
        assert_eq!(id.as_str().len(), 32);
        let again = json!({"posted": "17", "mail": " a@b ", "body": "y"});
        assert_eq!(made(&again).unwrap(), id);
        for other in [
            json!({"mail": "a@b", "posted": 18}),
            json!({"mail": "a@b1", "posted": 7}),
            json!({"mail": "a@b"}),
        ] {
            assert_ne!(made(&other).unwrap(), id, "{other}");
        }
        for none in [json!({}), json!({"mail": "NULL", "posted": " "})] {
            assert!(made(&none).is_err(), "{none}");
        }
    }
}
