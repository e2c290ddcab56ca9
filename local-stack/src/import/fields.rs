//! The fields of a comment, by the names that options and presets give them.

/// The fields that a file needs a column for. That of the text may be empty.
pub(super) const REQUIRED: [&str; 6] =
    ["id", "product", "language", "rating", "created_at", "body"];
/// The fields that a file may lack. Attributes are a JSON object, or its text.
pub(super) const OPTIONAL: [&str; 5] = ["title", "author", "attributes", "author_id", "status"];

/// Before the name of a key of the attributes, such as `attributes.verified`.
const OF_ATTRIBUTES: &str = "attributes.";

/// Whether a comment may lack the field.
pub(super) fn may_be_empty(field: &str) -> bool {
    field == "body" || OPTIONAL.contains(&field) || attribute(field).is_some()
}

/// The key of the attributes that a field is; `reply.text` is `text` within `reply`.
pub(super) fn attribute(field: &str) -> Option<&str> {
    field
        .strip_prefix(OF_ATTRIBUTES)
        .filter(|key| !key.is_empty())
}

/// Refuses a name that is not a field's.
pub(super) fn check_field(field: &str) -> Result<(), String> {
    if REQUIRED.contains(&field) || may_be_empty(field) {
        return Ok(());
    }
    let fields = [&REQUIRED[..], &OPTIONAL].concat().join(", ");
    Err(format!(
        "{field:?} is not a field: {fields}, or attributes.NAME"
    ))
}

pub(super) const MAKES_IDS: &str = "--id-from COLUMN,COLUMN makes an id of columns that tell reviews apart, such as author, date and text";

/// What gives a row a value of a field that its file lacks.
pub(super) fn remedy(field: &str) -> String {
    match field {
        "id" => MAKES_IDS.to_owned(),
        "body" => "--map body= says that the reviews have no text".to_owned(),
        _ => format!("--set {field}=TEXT gives one value to all"),
    }
}
