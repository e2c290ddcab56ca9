//! A row of a foreign file as a comment, by the options that say which columns are its fields, and how
//! their values are written.
//!
//! A row is an object. Either a line of JSON, or a table's row, whose cells have the names of its
//! columns. What no field takes is left out.

use model::{AuthorId, CommentAttributes, CommentId, InvalidInput, ProductId, Rating, Status};
use serde_json::{Map, Value, json};

use super::{
    comment::{CommentLine, CommentRow, imported_language, printable},
    fields::{OPTIONAL, REQUIRED, attribute, may_be_empty, remedy},
    html,
    id_from::id_from,
    options::ReadingArgs,
    row::RowError,
    spreadsheet::check_undamaged,
    status_words,
    value::{NULLS, look_up, text},
};

/// Why a column is refused of which `what` is like a status.
fn undecided(name: &str, what: &str) -> String {
    format!(
        "{what} looks like a status, and no field takes it; --map status={name} does, with --value status:0=hidden for \
         each of its values, and --drop {name} leaves it out"
    )
}

impl ReadingArgs {
    /// The fields for which a table with these columns has none: required ones, and those whose
    /// columns the options name. A preset's columns may be missing, except that of the status.
    pub(super) fn missing(&self, columns: &[String]) -> Vec<&'static str> {
        let mut missing = Vec::new();
        for field in REQUIRED {
            let may_lack = field == "body" && self.columns_of(field).is_empty();
            if !may_lack && !self.has_value(field, columns) {
                missing.push(field);
            }
        }
        for field in OPTIONAL {
            let is_needed = self.is_named(field) || field == "status";
            if is_needed && self.names_column(field) && !self.has_value(field, columns) {
                missing.push(field);
            }
        }
        missing
    }

    /// Whether a field has a value in a table with these columns: its column, or what is set.
    fn has_value(&self, field: &str, columns: &[String]) -> bool {
        if field == "id" && !self.columns_of_id().is_empty() {
            return true;
        }
        let has_column = self
            .columns_of(field)
            .into_iter()
            .any(|column| columns.iter().any(|name| name == column));
        has_column || self.set_value(field).is_some()
    }

    /// Whether a field has this column, or what is within it.
    pub(super) fn takes(&self, name: &str) -> bool {
        self.columns()
            .into_iter()
            .any(|column| column == name || column.split('.').next() == Some(name))
    }

    /// Whether a field takes the column, or the options leave it out by its name.
    fn is_decided(&self, name: &str) -> bool {
        self.takes(name) || self.is_dropped(name) || (name == "status" && self.is_named(name))
    }

    /// Refuses columns that nobody has decided about and whose name is that of a status. Left out,
    /// they would publish what the site hides.
    ///
    /// # Errors
    /// Names the column, and what decides about it.
    pub(super) fn check_status_names(&self, names: &[String]) -> Result<(), String> {
        for name in names {
            if status_words::in_name(name) && !self.is_decided(name) {
                return Err(undecided(name, &format!("{name:?}")));
            }
        }
        Ok(())
    }

    /// Like [`Self::check_status_names`], for a row: also by its values.
    fn check_status(&self, row: &Map<String, Value>) -> Result<(), String> {
        for (name, value) in row {
            if let Some(value) = value.as_str().filter(|text| status_words::is_value(text))
                && !self.is_decided(name)
            {
                return Err(undecided(name, &format!("{value:?} of {name:?}")));
            }
            if status_words::in_name(name) && !self.is_decided(name) {
                return Err(undecided(name, &format!("{name:?}")));
            }
        }
        Ok(())
    }

    /// The column that a table's header means: one of a field, whatever the case of its letters,
    /// unless another header names it exactly.
    pub(super) fn column_of_header<'a>(&'a self, header: &'a str, headers: &[&str]) -> &'a str {
        for column in self.columns() {
            if column.to_lowercase() == header.to_lowercase() && !headers.contains(&column) {
                return column;
            }
        }
        header
    }

    /// Makes a comment of a row. The error says in one line why it is none.
    pub(super) fn comment(&self, row: &Map<String, Value>) -> Result<CommentRow, RowError> {
        self.check_status(row)
            .map_err(|why| RowError::Undecided(printable(&why)))?;
        self.line(row)
            .and_then(CommentRow::try_from)
            .map_err(|error| RowError::Bad(printable(&error.to_string())))
    }

    fn line(&self, row: &Map<String, Value>) -> Result<CommentLine, InvalidInput> {
        let columns_of_id = self.columns_of_id();
        Ok(CommentLine {
            id: if columns_of_id.is_empty() {
                self.required(row, "id", CommentId::parse)?
            } else {
                id_from(columns_of_id, row)?
            },
            product: self.required(row, "product", ProductId::parse)?,
            language: self.required(row, "language", imported_language)?,
            rating: self.required(row, "rating", rating)?,
            created_at: self.required(row, "created_at", |text| self.date(text))?,
            title: self.optional(row, "title", plain)?,
            body: self.body(row)?,
            author: self.optional(row, "author", plain)?,
            status: self.status(row)?,
            attributes: self.attributes(row)?,
            author_id: self.optional(row, "author_id", AuthorId::parse)?,
        })
    }

    /// The status. Without one, a comment is published. So where the options name its column, a row
    /// without a value is bad.
    fn status(&self, row: &Map<String, Value>) -> Result<Option<Status>, InvalidInput> {
        let found = self.optional(row, "status", status)?.flatten();
        if found.is_some() || !self.names_column("status") {
            return Ok(found);
        }
        // The row may lack the column.
        if let Some(meaning) = self.meaning("status", "") {
            return status(meaning).map(Some);
        }
        let columns = self.columns_of("status").join(", ");
        Err(InvalidInput::new(
            "status",
            format!(
                "{columns:?} is missing or empty; --value status:=pending says what that means, --set status=pending gives \
                 one value to all such rows"
            ),
        ))
    }

    /// The text, which may be empty. But a row without it, where it has a column, may have it under
    /// another name.
    fn body(&self, row: &Map<String, Value>) -> Result<Option<Option<String>>, InvalidInput> {
        let body = self.optional(row, "body", plain)?;
        if body.is_none() && !self.columns_of("body").is_empty() {
            return Err(self.missing_value("body"));
        }
        Ok(body)
    }

    fn required<T>(
        &self,
        row: &Map<String, Value>,
        field: &'static str,
        parse: impl FnOnce(&str) -> Result<T, InvalidInput>,
    ) -> Result<T, InvalidInput> {
        self.optional(row, field, parse)?
            .flatten()
            .ok_or_else(|| self.missing_value(field))
    }

    fn missing_value(&self, field: &'static str) -> InvalidInput {
        let columns = self.columns_of(field).join(", ");
        let remedy = remedy(field);
        InvalidInput::new(field, format!("{columns:?} is missing or empty; {remedy}"))
    }

    /// The value of a field. `None` if the row does not name it, and `Some(None)` if it is empty
    /// there.
    fn optional<T>(
        &self,
        row: &Map<String, Value>,
        field: &'static str,
        parse: impl FnOnce(&str) -> Result<T, InvalidInput>,
    ) -> Result<Option<Option<T>>, InvalidInput> {
        match self.text(row, field, field)? {
            Some(text) if !text.is_empty() => Ok(Some(Some(parse(&text)?))),
            named => Ok(named.map(|_| None)),
        }
    }

    /// The text of a field, as the options turn it; empty if the row names it as empty. Errors name
    /// it `name`.
    fn text(
        &self,
        row: &Map<String, Value>,
        field: &str,
        name: &'static str,
    ) -> Result<Option<String>, InvalidInput> {
        let mut named = None;
        if let Some(value) = self.value(row, field) {
            let mut text = if self.counts(field, row) {
                text(name, value)?
            } else {
                String::new()
            };
            if may_be_empty(field) && NULLS.contains(&text.as_str()) {
                text.clear();
            }
            if let Some(meaning) = self.meaning(field, text.trim()) {
                text = meaning.to_owned();
            }
            check_undamaged(name, &text)?;
            if self.turns_html_to_text() {
                text = without_html(field, text);
            }
            named = Some(text);
        }
        // Where the file has none, the value that is set counts.
        if named.as_ref().is_none_or(String::is_empty)
            && let Some(set) = self.set_value(field)
        {
            named = Some(set.to_owned());
        }
        Ok(named)
    }

    /// The value of the first column of the field that the row has.
    fn value<'row>(&self, row: &'row Map<String, Value>, field: &str) -> Option<&'row Value> {
        let columns = self.columns_of(field);
        columns.into_iter().find_map(|column| look_up(row, column))
    }

    /// The attributes: those of their own column, and the keys that have columns.
    fn attributes(
        &self,
        row: &Map<String, Value>,
    ) -> Result<Option<Option<CommentAttributes>>, InvalidInput> {
        let whole = self.optional(row, CommentAttributes::FIELD, CommentAttributes::parse)?;
        let fields = self.attribute_fields();
        if fields.is_empty() {
            return Ok(whole);
        }
        let mut is_named = whole.is_some();
        let mut attributes = match whole.flatten() {
            Some(whole) => serde_json::from_str(whole.as_json()).unwrap_or_default(),
            None => Map::new(),
        };
        for field in fields {
            let Some(key) = attribute(field) else {
                continue;
            };
            let value = match self.json_value(row, field, key) {
                Some(value) => value,
                None => match self.text(row, field, CommentAttributes::FIELD)? {
                    Some(text) if !text.is_empty() => attribute_value(key, &text, self)?,
                    Some(_) => Value::Null,
                    None => continue,
                },
            };
            is_named = true;
            if !value.is_null() {
                insert(&mut attributes, key, value)?;
            }
        }
        if attributes.is_empty() {
            return Ok(is_named.then_some(None));
        }
        let attributes = CommentAttributes::parse(&Value::from(attributes).to_string())?;
        Ok(Some(Some(attributes)))
    }

    /// The value of a key of the attributes, if it is not read as a text: an array, an object, or a
    /// number that no option replaces.
    fn json_value(&self, row: &Map<String, Value>, field: &str, key: &str) -> Option<Value> {
        if !self.counts(field, row) || matches!(key, "verified" | "reply.at") {
            return None;
        }
        let value = self.value(row, field)?;
        match value {
            Value::Array(values) if key == "photos" => Some(photos_of(values)),
            Value::Array(_) | Value::Object(_) => Some(value.clone()),
            Value::Number(number) if self.meaning(field, &number.to_string()).is_none() => {
                Some(value.clone())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }
}

/// A text as the value of a key of the attributes. Those that pages show have a type.
fn attribute_value(key: &str, text: &str, reading: &ReadingArgs) -> Result<Value, InvalidInput> {
    match key {
        "verified" => match text.to_lowercase().as_str() {
            "true" => Ok(true.into()),
            "false" => Ok(false.into()),
            _ => Err(InvalidInput::new(
                CommentAttributes::FIELD,
                format!(
                    "verified: {text:?} is neither true nor false; --value attributes.verified:{text}=true says what it means"
                ),
            )),
        },
        "reply.at" => Ok(reading.date(text)?.to_string().into()),
        "photos" => Ok(photos_of(&[text.into()])),
        _ => Ok(text.into()),
    }
}

/// Photos as pages show them. A text among them is their addresses.
fn photos_of(values: &[Value]) -> Value {
    let mut photos = Vec::new();
    for value in values {
        match value.as_str() {
            Some(text) => photos.extend(urls(text).into_iter().map(|url| json!({"url": url}))),
            None => photos.push(value.clone()),
        }
    }
    if photos.is_empty() {
        Value::Null
    } else {
        photos.into()
    }
}

/// What may stand between the addresses of pictures, besides white space.
const BETWEEN_URLS: [char; 6] = [',', ';', '|', '"', '[', ']'];

fn is_between_urls(character: char) -> bool {
    character.is_whitespace() || BETWEEN_URLS.contains(&character)
}

/// The addresses of pictures. One begins at the start of the text, or behind what stands between
/// them: `http` also occurs within an address.
fn urls(text: &str) -> Vec<&str> {
    let mut starts = Vec::new();
    for (at, _) in text.match_indices("http") {
        let (before, url) = text.split_at(at);
        let is_url = url.starts_with("http://") || url.starts_with("https://");
        if is_url && before.chars().next_back().is_none_or(is_between_urls) {
            starts.push(at);
        }
    }
    let mut urls = Vec::new();
    for (number, start) in starts.iter().enumerate() {
        let end = starts.get(number + 1).copied().unwrap_or(text.len());
        let url = text.get(*start..end).unwrap_or_default();
        urls.push(url.trim_end_matches(is_between_urls));
    }
    urls
}

/// Puts a value at a path of keys with dots between them.
fn insert(
    attributes: &mut Map<String, Value>,
    path: &str,
    value: Value,
) -> Result<(), InvalidInput> {
    let Some((key, rest)) = path.split_once('.') else {
        attributes.insert(path.to_owned(), value);
        return Ok(());
    };
    let within = attributes
        .entry(key)
        .or_insert_with(|| Map::new().into())
        .as_object_mut()
        .ok_or_else(|| {
            let problem = format!("{key} is no object, so it has no {rest}");
            InvalidInput::new(CommentAttributes::FIELD, problem)
        })?;
    insert(within, rest, value)
}

/// The text of HTML, in the fields that people write.
fn without_html(field: &str, text: String) -> String {
    match field {
        "body" | "attributes.reply.text" => html::to_text(&text),
        // They are one line.
        "title" | "author" => html::to_text(&text).replace('\n', " "),
        _ => text,
    }
}

fn status(text: &str) -> Result<Status, InvalidInput> {
    Status::parse(&text.to_lowercase()).map_err(|mut error| {
        let says = format!("; --value status:{text}=hidden says what it means");
        error.problem.push_str(&says);
        error
    })
}

fn rating(text: &str) -> Result<Rating, InvalidInput> {
    let number = text
        .parse()
        .map_err(|_| InvalidInput::new("rating", format!("{text:?} is not a number")))?;
    Rating::of_number(number)
}

fn plain(text: &str) -> Result<String, InvalidInput> {
    Ok(text.to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;
    use serde_json::json;
    use table::{CommentPatch, NewComment};

    use super::*;

    #[derive(Parser)]
    struct ReadingLine {
        #[command(flatten)]
        args: ReadingArgs,
    }

    pub(in crate::import) fn reading(options: &[&str]) -> ReadingArgs {
        let args = std::iter::once("import").chain(options.iter().copied());
        ReadingLine::try_parse_from(args)
            .unwrap_or_else(|error| panic!("{error}"))
            .args
    }

    /// A row with every field under its own name, and these values beside or instead of them.
    fn row(values: &Value) -> Map<String, Value> {
        let mut row = json!({
            "id": "1", "product": "p", "language": "en", "rating": "4", "created_at": "2024-02-29T12:00:00Z",
            "body": "Fine."
        });
        row.as_object_mut()
            .unwrap()
            .extend(values.as_object().unwrap().clone());
        row.as_object().unwrap().clone()
    }

    fn made(options: &[&str], values: &Value) -> Result<NewComment, String> {
        match reading(options).comment(&row(values)) {
            Ok(row) => Ok(row.comment),
            Err(RowError::Bad(why) | RowError::Undecided(why)) => Err(why),
        }
    }

    fn made_well(options: &[&str], values: &Value) -> NewComment {
        made(options, values).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn fields_are_found_under_the_names_of_their_columns() {
        let options = ["--map", "rating=stars,body=text.full,author=user.name"];
        let values = json!({"stars": 2, "text": {"full": "Bad."}, "user": {"name": "A", "mail": "x"}, "title": null});
        let comment = made_well(&options, &values);
        assert_eq!(
            (
                comment.id.as_str(),
                comment.rating.get(),
                comment.text.body.as_deref()
            ),
            ("1", 2, Some("Bad."))
        );
        assert_eq!(
            (comment.text.author.as_deref(), comment.text.title),
            (Some("A"), None)
        );
        let names = ["stars", "text", "user", "title", "body", "mail"];
        assert_eq!(
            names.map(|name| reading(&options).takes(name)),
            [true, true, true, true, false, false]
        );
    }

    #[test]
    fn a_value_is_set_only_where_the_file_has_none() {
        let options = ["--set", "language=fr", "--set", "author=a, b"];
        let comment = made_well(&options, &json!({"language": "", "author": "C"}));
        assert_eq!(
            (comment.language.as_str(), comment.text.author.as_deref()),
            ("fr", Some("C"))
        );
        assert_eq!(
            made_well(&options, &json!({})).text.author.as_deref(),
            Some("a, b")
        );
    }

    fn patch_of(options: &[&str], values: &Value) -> CommentPatch {
        reading(options).comment(&row(values)).unwrap().patch()
    }

    #[test]
    fn a_rating_may_have_no_text_where_the_row_says_so() {
        for empty in ["", " ", "NULL"] {
            let comment = made_well(&[], &json!({"body": empty}));
            assert_eq!(comment.text.body, None, "{empty:?}");
        }
        // The text may stand under another name.
        let mut without = row(&json!({"text": "Fine."}));
        without.remove("body");
        let RowError::Bad(error) = reading(&[]).comment(&without).unwrap_err() else {
            panic!("the row is wrong");
        };
        assert!(error.contains("--map body="), "{error}");
        let made = reading(&["--map", "body="]).comment(&without).unwrap();
        assert_eq!(made.comment.text.body, None);
        assert_eq!(made.patch().body, None);
        let columns = ["id", "product", "language", "rating", "created_at"].map(str::to_owned);
        assert_eq!(reading(&[]).missing(&columns), ["body"]);
        assert!(reading(&["--map", "body="]).missing(&columns).is_empty());
    }

    /// The attributes of a row with these values.
    fn attributes_of(options: &[&str], values: &Value) -> Option<String> {
        let attributes = made_well(options, values).site.attributes;
        attributes.map(|attributes| attributes.as_json().to_owned())
    }

    #[test]
    fn columns_fill_keys_of_the_attributes() {
        let options = [
            "--map=attributes.verified=bought,attributes.reply.text=answer,attributes.photos=pictures,attributes.size=fit",
            "--value",
            "attributes.verified:Yes=true",
        ];
        let values = json!({
            "bought": "yes", "answer": "Thanks!", "fit": "M", "attributes": {"votes": 3},
            "pictures": "https://a/1,b.jpg, http://a/2.jpg;https://a/3.jpg",
        });
        assert_eq!(
            attributes_of(&options, &values).unwrap(),
            r#"{"photos":[{"url":"https://a/1,b.jpg"},{"url":"http://a/2.jpg"},{"url":"https://a/3.jpg"}],"reply":{"text":"Thanks!"},"size":"M","verified":true,"votes":3}"#
        );
        let empty = json!({"bought": "", "answer": null, "fit": "NULL", "pictures": "none"});
        assert_eq!(attributes_of(&options, &empty), None);
        assert_eq!(patch_of(&options, &empty).attributes, Some(None));
        assert_eq!(patch_of(&options, &json!({})).attributes, None);
        let json = json!({"bought": true, "fit": [1, {"a": 2}]});
        assert_eq!(
            attributes_of(&options, &json).unwrap(),
            r#"{"size":[1,{"a":2}],"verified":true}"#
        );
        let error = made(&options, &json!({"bought": "maybe"})).unwrap_err();
        assert!(
            error.contains("--value attributes.verified:maybe=true"),
            "{error}"
        );
    }

    #[test]
    fn the_address_of_a_picture_may_hold_another_one() {
        for (text, expected) in [
            (
                "https://cdn/x?u=https%3A%2F%2Fo/y.jpg,https://cdn/http-cache/1.jpg",
                &[
                    "https://cdn/x?u=https%3A%2F%2Fo/y.jpg",
                    "https://cdn/http-cache/1.jpg",
                ][..],
            ),
            (
                "[\"https://cdn/http://o/1.jpg\", \"https://a/2.jpg\"]",
                &["https://cdn/http://o/1.jpg", "https://a/2.jpg"],
            ),
            ("http://a/1\thttp://a/2\n", &["http://a/1", "http://a/2"]),
            ("none of http", &[]),
        ] {
            assert_eq!(urls(text), expected, "{text}");
        }
    }

    #[test]
    fn arrays_objects_and_numbers_follow_the_rules_of_texts() {
        let mut rules = tempfile::NamedTempFile::new().unwrap();
        let only_if = b"[only-if.\"attributes.photos\"]\nis_public = [\"true\"]\n";
        std::io::Write::write_all(&mut rules, only_if).unwrap();
        let options = [
            "--preset",
            rules.path().to_str().unwrap(),
            "--map=attributes.photos=images,attributes.verified=bought,attributes.reply.at=answered,attributes.fit=fit",
            "--date-format=unix",
            "--value=attributes.verified:1=true",
            "--value=attributes.fit:3=loose",
        ];
        let mut values = json!({
            "created_at": "1709208000", "images": ["https://a/1.jpg", {"url": "https://a/2.jpg"}], "is_public": false,
            "bought": 1, "answered": 1_709_208_000, "fit": 3,
        });
        assert_eq!(
            attributes_of(&options, &values).unwrap(),
            r#"{"fit":"loose","reply":{"at":"2024-02-29T12:00:00.000Z"},"verified":true}"#
        );
        values["is_public"] = true.into();
        values["fit"] = 4.into();
        assert_eq!(
            attributes_of(&options, &values).unwrap(),
            r#"{"fit":4,"photos":[{"url":"https://a/1.jpg"},{"url":"https://a/2.jpg"}],"reply":{"at":"2024-02-29T12:00:00.000Z"},"verified":true}"#
        );
        for (wrong, expected) in [
            (
                json!({"created_at": "1", "bought": 2}),
                "neither true nor false",
            ),
            (
                json!({"created_at": "1", "bought": [1]}),
                "holds several values",
            ),
        ] {
            let error = made(&options, &wrong).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn html_becomes_text_where_people_write() {
        let values = json!({
            "body": "<p>Fine &amp; cheap.</p><p>Bye</p>", "title": "Top<br>notch", "author": "O&#39;Neill", "id": "1"
        });
        let text = made_well(&["--html-to-text"], &values).text;
        assert_eq!(text.body.as_deref(), Some("Fine & cheap.\n\nBye"));
        assert_eq!(text.title.as_deref(), Some("Top notch"));
        assert_eq!(text.author.as_deref(), Some("O'Neill"));
        let kept = made_well(&[], &values).text;
        assert_eq!(kept.author.as_deref(), Some("O&#39;Neill"));
    }

    #[test]
    fn a_tag_with_underscores_is_a_language() {
        let comment = made_well(&[], &json!({"language": "pt_BR"}));
        assert_eq!(comment.language.as_str(), "pt-BR");
    }

    fn status_of(options: &[&str], values: &Value) -> Option<Status> {
        made_well(options, values).status
    }

    #[test]
    fn an_empty_value_of_a_named_column_is_null_and_a_missing_column_says_nothing() {
        let empty = json!({"title": "", "author": null, "attributes": " ", "author_id": null});
        let emptied = patch_of(&[], &empty);
        assert_eq!((emptied.title, emptied.author), (Some(None), Some(None)));
        assert_eq!(
            (emptied.attributes, emptied.author_id),
            (Some(None), Some(None))
        );
        let partial = patch_of(&["--map", "author="], &json!({"title": "", "author": "A"}));
        assert_eq!((partial.title, partial.author), (Some(None), None));
        assert_eq!((partial.attributes, partial.author_id), (None, None));
        assert_eq!(
            patch_of(&["--set", "author=B"], &empty).author,
            Some(Some("B".to_owned()))
        );
    }

    #[test]
    fn a_left_out_column_that_looks_like_a_status_is_refused_until_it_is_settled() {
        for name in [
            "comment_approved",
            "curated",
            "Rejected",
            "reviewStatus",
            "is-spam",
            "ispublished",
            "isApproved",
            "reviewstatus",
            "validate",
            "active",
            "archived",
        ] {
            let values = json!({name: "spam"});
            let error = made(&[], &values).unwrap_err();
            assert!(error.contains(&format!("--drop {name}")), "{error}");
            assert_eq!(status_of(&["--drop", name], &values), None);
            let map = format!("status={name}");
            let options = ["--map", &map, "--value", "status:spam=hidden"];
            assert_eq!(status_of(&options, &values), Some(Status::Hidden));
        }
        // A column is also known by its values.
        for value in ["spam", "Approved", " unpublished ", "on hold", "private"] {
            let values = json!({"kind": value});
            let error = made(&[], &values).unwrap_err();
            assert!(error.contains("--drop kind"), "{error}");
            made_well(&["--drop", "kind"], &values);
        }
        // No words of a status.
        made_well(
            &[],
            &json!({"estate": "large", "title": "Spam", "helpful": 3, "approver": "A", "actively": 1}),
        );
    }

    #[test]
    fn a_null_of_a_database_is_no_value() {
        for text in ["\\N", "NULL"] {
            let values =
                json!({"title": text, "author": text, "author_id": text, "attributes": text});
            let comment = made_well(&[], &values);
            assert_eq!(comment.text.title, None);
            assert_eq!(comment.text.author, None);
            assert_eq!(comment.site, model::SiteData::default());
        }
        let named = made_well(&[], &json!({"author": "Null"}));
        assert_eq!(named.text.author.as_deref(), Some("Null"));
    }

    #[test]
    fn a_status_is_read_under_any_name_and_only_where_the_file_has_one() {
        assert_eq!(status_of(&[], &json!({})), None);
        assert_eq!(
            status_of(&[], &json!({"status": "hidden"})),
            Some(Status::Hidden)
        );
        let options = ["--map", "status=state"];
        assert_eq!(
            status_of(&options, &json!({"state": " Pending ", "status": "sent"})),
            Some(Status::Pending)
        );
        assert_eq!(
            status_of(&["--set", "status=pending"], &json!({"status": null})),
            Some(Status::Pending)
        );
        let error = made(&[], &json!({"status": "sent"})).unwrap_err();
        assert_eq!(
            error,
            "status: \"sent\" is not published, pending or hidden; --value status:sent=hidden says what it means"
        );
        // A column that means something else is left out.
        assert_eq!(
            status_of(
                &["--map", "status=", "--drop", ""],
                &json!({"status": "sent", "": "hidden"})
            ),
            None
        );
        let reading = reading(&["--map", "status=,title="]);
        assert_eq!(
            reading.missing(&REQUIRED.map(str::to_owned)),
            Vec::<&str>::new()
        );
        assert!(!reading.takes("status") && reading.takes("author"));
    }

    #[test]
    fn a_row_without_a_value_in_the_named_column_of_the_status_is_bad() {
        let options = ["--map", "status=state"];
        for values in [
            json!({"state": ""}),
            json!({"state": null}),
            json!({"state": "NULL"}),
            json!({"status": "hidden"}),
        ] {
            let error = made(&options, &values).unwrap_err();
            assert!(error.contains("--value status:=pending"), "{error}");
            // What the message says works.
            for says in [["--value", "status:=pending"], ["--set", "status=pending"]] {
                let options = [&options[..], &says].concat();
                assert_eq!(status_of(&options, &values), Some(Status::Pending));
            }
        }
        assert_eq!(status_of(&[], &json!({"status": ""})), None);
        let columns = [
            "product_id",
            "date",
            "review_score",
            "review_content",
            "published",
        ];
        let columns = columns.map(str::to_owned);
        let preset = reading(&["--preset", "yotpo"]);
        assert!(preset.missing(&columns).is_empty());
        assert_eq!(preset.missing(&columns[..4]), ["status"]);
        let without = reading(&["--preset", "yotpo", "--map", "status="]);
        assert!(without.missing(&columns[..4]).is_empty());
    }

    #[test]
    fn ratings_and_dates_are_converted() {
        let options = [
            "--date-format",
            "%d.%m.%Y %H:%M",
            "--time-zone",
            "Asia/Tokyo",
        ];
        let comment = made_well(
            &options,
            &json!({"rating": " 4.0", "created_at": "1.1.1970 9:00"}),
        );
        assert_eq!(
            (comment.rating.get(), comment.created_at.epoch_ms()),
            (4, 0)
        );
        assert!(
            ReadingLine::try_parse_from(["import", "--time-zone", "Asia/Tokyo"]).is_err(),
            "of which dates?"
        );
    }

    #[test]
    fn a_bad_row_names_the_field_and_the_reason() {
        for (values, expected) in [
            (
                json!({"rating": "good"}),
                "rating: \"good\" is not a number",
            ),
            (json!({"rating": "4.5"}), "4.5 is not a rating"),
            (json!({"rating": "inf"}), "rating: inf is not a rating"),
            (json!({"id": null}), "id: \"id\" is missing or empty"),
            (json!({"product": ["a"]}), "product: holds several values"),
            (json!({"language": "\u{1b}[31m"}), "language"),
            (
                json!({"created_at": "29.2.2024"}),
                "`pagemark import --date-format` reads other forms",
            ),
            (
                json!({"language": "german"}),
                "\"german\" is not a language tag",
            ),
        ] {
            let error = made(&[], &values).unwrap_err();
            assert!(
                error.contains(expected) && !error.contains(char::is_control),
                "{error}"
            );
        }
    }

    #[test]
    fn a_table_without_a_column_for_a_required_field_is_noticed() {
        let columns = ["stars", "body", "product"].map(str::to_owned);
        assert_eq!(
            reading(&["--map", "rating=stars"]).missing(&columns),
            ["id", "language", "created_at"]
        );
        let options = [
            "--map",
            "rating=stars",
            "--id-from",
            "product,body",
            "--set",
            "language=en",
            "--set",
            "created_at=2024-01-01",
        ];
        assert!(reading(&options).missing(&columns).is_empty());
    }
}
