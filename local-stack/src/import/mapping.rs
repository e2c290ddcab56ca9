//! Which columns of a foreign file are the fields of a comment, and how their values are read.
//!
//! A row is an object. It is a line of JSON, or a table's row, whose cells have the names of its columns. What no field
//! takes is left out; [`Mapping::left_out`] names it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use jiff::tz::TimeZone;
use model::Status;
use serde_json::{Map, Number, Value};
use strum::{Display, EnumIter, EnumString, IntoEnumIterator, IntoStaticStr};

use super::{
    comment::{CommentRow, printable, row_of},
    date::{DateFormat, time_zone},
    source::Format,
};

/// A row of a file: its values by the names of their columns.
pub(super) type Row = Map<String, Value>;

/// How many columns that no field takes are named.
const LEFT_OUT_MAX: usize = 30;

/// A field of a comment. Its column has its name, unless another is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Display, EnumIter, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(super) enum Field {
    Id,
    Product,
    Language,
    Rating,
    CreatedAt,
    Title,
    Body,
    Author,
    /// A JSON object, or its text.
    Attributes,
    AuthorId,
    Status,
}

impl Field {
    fn name(self) -> &'static str {
        self.into()
    }

    fn is_optional(self) -> bool {
        matches!(self, Self::Title | Self::Author | Self::Attributes | Self::AuthorId | Self::Status)
    }
}

fn assignment(text: &str) -> Result<(Field, String), String> {
    let (name, text) = text.split_once('=').ok_or("is not FIELD=TEXT")?;
    let field = name.parse().map_err(|_| {
        let names: Vec<&str> = Field::iter().map(Field::name).collect();
        format!("{name:?} is not a field: {}", names.join(", "))
    })?;
    Ok((field, text.to_owned()))
}

/// How a foreign file is read: the options of the command line.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Files of other programs")]
pub struct ReadingArgs {
    /// The format of the files [default: csv or tsv for names that say so, otherwise json-lines]
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: Option<Format>,
    /// The column of a field, where it has another name, such as `rating=stars,body=text`; `a.b` is b within a, and
    /// `status=` takes no column.
    #[arg(long, value_name = "FIELD=COLUMN", value_delimiter = ',', value_parser = assignment)]
    map: Vec<(Field, String)>,
    /// The value of a field where the file has none, such as `language=en`; repeatable.
    #[arg(long, value_name = "FIELD=TEXT", value_parser = assignment)]
    set: Vec<(Field, String)>,
    /// How dates are written: `unix`, `unix-ms`, or as in strptime, `%d.%m.%Y %H:%M` [default: RFC 3339]
    #[arg(long, value_name = "FORMAT")]
    date_format: Option<DateFormat>,
    /// The time zone of dates whose format has none, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", value_parser = time_zone, requires = "date_format")]
    time_zone: Option<TimeZone>,
}

/// Makes comments of the rows of a foreign file.
#[derive(Debug, Clone)]
pub(super) struct Mapping {
    columns: BTreeMap<Field, String>,
    set: BTreeMap<Field, String>,
    date_format: Option<DateFormat>,
    time_zone: TimeZone,
    left_out: Arc<Mutex<BTreeSet<String>>>,
}

impl Mapping {
    pub(super) fn new(args: ReadingArgs) -> Self {
        let ReadingArgs { format: _, map, set, date_format, time_zone } = args;
        let (columns, set) = (map.into_iter().collect(), set.into_iter().collect());
        Self { columns, set, date_format, time_zone: time_zone.unwrap_or(TimeZone::UTC), left_out: Arc::default() }
    }

    /// The first columns that no field took, so far. Clones share them.
    pub(super) fn left_out(&self) -> Vec<String> {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The fields for which a table with these columns has none: required ones, and those whose columns were named.
    pub(super) fn missing<'name>(&self, columns: impl Iterator<Item = &'name str>) -> Vec<Field> {
        let columns: BTreeSet<&str> = columns.collect();
        let is_missing = |field: &Field| {
            let is_named = self.columns.get(field).is_some_and(|column| !column.is_empty());
            let is_needed = is_named || !field.is_optional();
            is_needed && !columns.contains(self.column(*field)) && !self.set.contains_key(field)
        };
        Field::iter().filter(is_missing).collect()
    }

    /// The name of a field's column; empty for a field that takes none.
    fn column(&self, field: Field) -> &str {
        self.columns.get(&field).map_or(field.name(), String::as_str)
    }

    /// Makes a comment of a row. The error says in one line why it is none.
    pub(super) fn comment(&self, row: &Row) -> Result<CommentRow, String> {
        self.note_left_out(row);
        let mut fields = Row::new();
        for field in Field::iter() {
            let value = match self.text(field, row)? {
                Some(Some(text)) => self.value(field, text)?,
                Some(None) if field.is_optional() => Value::Null,
                None if field.is_optional() => continue,
                None | Some(None) => {
                    let problem = format!("{field}: {:?} is missing or empty", self.column(field));
                    return Err(printable(&format!("{problem}; --set {field}=TEXT gives a value")));
                }
            };
            fields.insert(field.name().to_owned(), value);
        }
        row_of(fields)
    }

    /// The text of a field in a row, or the text that is set for it. `None` if the row does not name it, and `Some(None)` if
    /// it is empty there.
    fn text(&self, field: Field, row: &Row) -> Result<Option<Option<String>>, String> {
        let column = self.column(field);
        let found = if column.is_empty() { None } else { look_up(row, column) };
        let text = match found {
            None => None,
            Some(Value::Null) => Some(String::new()),
            Some(Value::String(text)) => Some(text.clone()),
            // A number with a fraction or too many digits has lost some of them, so it names nothing.
            Some(Value::Number(number))
                if number.is_f64() && matches!(field, Field::Id | Field::Product | Field::AuthorId) =>
            {
                return Err(format!("{field}: {number} is not a whole number that JSON keeps"));
            }
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(Value::Bool(flag)) => Some(flag.to_string()),
            Some(object @ Value::Object(_)) if field == Field::Attributes => Some(object.to_string()),
            Some(Value::Array(_) | Value::Object(_)) => {
                return Err(printable(&format!("{field}: {column:?} holds several values, not a text")));
            }
        };
        // A body and a title keep the spaces that people put there.
        let is_name = !matches!(field, Field::Title | Field::Body | Field::Author);
        let text = text.map(|text| if is_name { text.trim().to_owned() } else { text });
        let text = text.map(|text| Some(text).filter(|text| !text.is_empty()));
        Ok(if matches!(text, Some(Some(_))) { text } else { self.set.get(&field).cloned().map(Some).or(text) })
    }

    fn value(&self, field: Field, text: String) -> Result<Value, String> {
        let value = if field == Field::Rating {
            let number = text.parse().ok().and_then(Number::from_f64).map(Value::Number);
            number.ok_or_else(|| format!("{text:?} is not a number"))
        } else if field == Field::Status {
            Status::parse(&text.to_lowercase()).map(|status| status.as_str().into()).map_err(|error| error.problem)
        } else if field == Field::CreatedAt
            && let Some(format) = &self.date_format
        {
            format.read(&text, &self.time_zone).map(|instant| instant.to_string().into())
        } else {
            Ok(text.into())
        };
        value.map_err(|problem| printable(&format!("{field}: {problem}")))
    }

    fn note_left_out(&self, row: &Row) {
        let is_taken = |name: &String| {
            Field::iter().any(|field| {
                let column = self.column(field);
                column == name || column.split('.').next() == Some(name)
            })
        };
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        for name in row.keys().filter(|name| !is_taken(name)) {
            if left_out.len() < LEFT_OUT_MAX && !left_out.contains(name) {
                left_out.insert(name.clone());
            }
        }
    }
}

/// The value at a name, or at a path of names with dots between them.
fn look_up<'row>(row: &'row Row, column: &str) -> Option<&'row Value> {
    row.get(column).or_else(|| {
        let (first, rest) = column.split_once('.')?;
        look_up(row.get(first)?.as_object()?, rest)
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;
    use table::NewComment;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: ReadingArgs,
    }

    fn mapping(options: &[&str]) -> Mapping {
        let args = std::iter::once("import").chain(options.iter().copied());
        Mapping::new(Command::try_parse_from(args).unwrap_or_else(|error| panic!("{error}")).args)
    }

    /// A row with every field under its own name, and these values beside or instead of them.
    fn row(values: &Value) -> Row {
        let mut row = json!({
            "id": "1", "product": "p", "language": "en", "rating": "4", "created_at": "2024-02-29T12:00:00Z",
            "body": "Fine."
        });
        row.as_object_mut().unwrap().extend(values.as_object().unwrap().clone());
        row.as_object().unwrap().clone()
    }

    fn made(options: &[&str], values: &Value) -> Result<NewComment, String> {
        mapping(options).comment(&row(values)).map(|row| row.comment)
    }

    fn made_well(options: &[&str], values: &Value) -> NewComment {
        made(options, values).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn fields_are_found_under_the_names_of_their_columns() {
        let options = ["--map", "rating=stars,body=text.full,author=user.name"];
        let values = json!({"stars": 2, "text": {"full": "Bad."}, "user": {"name": "A", "mail": "x"}, "title": null});
        let mapping = mapping(&options);
        let comment = mapping.comment(&row(&values)).unwrap().comment;
        assert_eq!((comment.id.as_str(), comment.rating.get(), comment.text.body.as_str()), ("1", 2, "Bad."));
        assert_eq!((comment.text.author.as_deref(), comment.text.title), (Some("A"), None));
        assert_eq!(mapping.left_out(), ["body", "rating"]);
    }

    #[test]
    fn a_value_is_set_only_where_the_file_has_none() {
        let options = ["--set", "language=fr", "--set", "author=a, b"];
        let comment = made_well(&options, &json!({"language": "", "author": "C"}));
        assert_eq!((comment.language.as_str(), comment.text.author.as_deref()), ("fr", Some("C")));
        assert_eq!(made_well(&options, &json!({})).text.author.as_deref(), Some("a, b"));
    }

    #[test]
    fn an_empty_value_of_a_named_column_is_null_and_a_missing_column_says_nothing() {
        let patch = |options: &[&str], values: Value| mapping(options).comment(&row(&values)).unwrap().patch;
        let empty = json!({"title": "", "author": null, "attributes": " ", "author_id": null});
        let emptied = patch(&[], empty.clone());
        assert_eq!((emptied.title, emptied.author), (Some(None), Some(None)));
        assert_eq!((emptied.attributes, emptied.author_id), (Some(None), Some(None)));
        let left = patch(&["--map", "author="], json!({"title": "", "author": "A"}));
        assert_eq!((left.title, left.author), (Some(None), None));
        assert_eq!((left.attributes, left.author_id), (None, None));
        assert_eq!(patch(&["--set", "author=B"], empty).author, Some(Some("B".to_owned())));
    }

    #[test]
    fn a_status_is_read_under_any_name_and_only_where_the_file_has_one() {
        let status = |options: &[&str], values: Value| made_well(options, &values).status;
        assert_eq!(status(&[], json!({})), None);
        assert_eq!(status(&[], json!({"status": "hidden"})), Some(Status::Hidden));
        let options = ["--map", "status=state"];
        assert_eq!(status(&options, json!({"state": " Pending ", "status": "sent"})), Some(Status::Pending));
        assert_eq!(status(&["--set", "status=pending"], json!({"status": null})), Some(Status::Pending));
        let error = made(&[], &json!({"status": "sent"})).unwrap_err();
        assert_eq!(error, "status: \"sent\" is not published, pending or hidden");
        // A column that means something else is left out.
        assert_eq!(status(&["--map", "status="], json!({"status": "sent", "": "hidden"})), None);
        let mapping = mapping(&["--map", "status=,title="]);
        assert_eq!(mapping.missing(Field::iter().map(Field::name)), []);
        mapping.comment(&row(&json!({"status": "sent"}))).unwrap();
        assert_eq!(mapping.left_out(), ["status"]);
    }

    #[test]
    fn ratings_and_dates_are_converted() {
        let options = ["--date-format", "%d.%m.%Y %H:%M", "--time-zone", "Asia/Tokyo"];
        let comment = made_well(&options, &json!({"rating": " 4.0", "created_at": "1.1.1970 9:00"}));
        assert_eq!((comment.rating.get(), comment.created_at.epoch_ms()), (4, 0));
        assert!(Command::try_parse_from(["import", "--time-zone", "Asia/Tokyo"]).is_err(), "of which dates?");
    }

    #[test]
    fn a_bad_row_names_the_field_and_the_reason() {
        for (values, expected) in [
            (json!({"rating": "good"}), "rating: \"good\" is not a number"),
            (json!({"rating": "4.5"}), "4.5 is not a rating"),
            (json!({"rating": "inf"}), "rating: \"inf\" is not a number"),
            (json!({"body": ""}), "body: \"body\" is missing or empty"),
            (json!({"id": null}), "id: \"id\" is missing or empty"),
            (json!({"product": ["a"]}), "product: \"product\" holds several values"),
            (json!({"language": "\u{1b}[31m"}), "language"),
            (json!({"created_at": "29.2.2024"}), "created_at"),
        ] {
            let error = made(&[], &values).unwrap_err();
            assert!(error.contains(expected) && !error.contains(char::is_control), "{error}");
        }
    }

    #[test]
    fn a_table_without_a_column_for_a_required_field_is_noticed() {
        let missing = |options: &[&str]| -> Vec<&str> {
            mapping(options).missing(["stars", "body", "product"].into_iter()).into_iter().map(Field::name).collect()
        };
        assert_eq!(missing(&["--map", "rating=stars"]), ["id", "language", "created_at"]);
        let options =
            ["--map", "rating=stars", "--set", "id=1", "--set", "language=en", "--set", "created_at=2024-01-01"];
        assert!(missing(&options).is_empty());
    }

    #[test]
    fn an_assignment_names_a_field() {
        assert!(assignment("stars=rating").unwrap_err().contains("is not a field: id, product"));
        assert!(assignment("rating").is_err());
    }
}
