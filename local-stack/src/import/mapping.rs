//! Which columns of a foreign file are the fields of a comment, and how their values are read.
//!
//! A row is an object. It is a line of JSON, an item of another table, or a table's row, whose cells have the names of its
//! columns. What no field takes is left out; [`Mapping::left_out`] names it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
};

use model::Status;
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};
use table::NewComment;

use super::{
    date_format::DateFormat,
    line::{comment_of, printable},
    scale::Scale,
};

/// A row of a file: its values by the names of their columns.
pub(super) type Row = Map<String, Value>;

/// How many columns that no field takes are named.
const LEFT_OUT_MAX: usize = 30;

/// How many bytes of the hash of a row are its id: 16 are enough that no two rows share one.
const ID_BYTES: usize = 16;

/// A field of a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// Its id, text.
    Id,
    /// Its product's id, text.
    Product,
    /// A language tag.
    Language,
    /// A number.
    Rating,
    /// A date, or a date and a time.
    CreatedAt,
    /// A title, or none.
    Title,
    /// The text.
    Body,
    /// The author's name, or none.
    Author,
    /// A JSON object, or its text, or none.
    Attributes,
    /// The author's id at the site, text, or none.
    AuthorId,
    /// Whether readers see it: published, pending or hidden, or nothing.
    Status,
}

impl Field {
    const ALL: [Self; 11] = [
        Self::Id,
        Self::Product,
        Self::Language,
        Self::Rating,
        Self::CreatedAt,
        Self::Title,
        Self::Body,
        Self::Author,
        Self::Attributes,
        Self::AuthorId,
        Self::Status,
    ];

    /// Its name, and that of its column unless another is named.
    fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Product => "product",
            Self::Language => "language",
            Self::Rating => "rating",
            Self::CreatedAt => "created_at",
            Self::Title => "title",
            Self::Body => "body",
            Self::Author => "author",
            Self::Attributes => "attributes",
            Self::AuthorId => "author_id",
            Self::Status => "status",
        }
    }

    fn is_optional(self) -> bool {
        matches!(self, Self::Title | Self::Author | Self::Attributes | Self::AuthorId | Self::Status)
    }
}

/// A field and a text: the name of its column, or its value. Written `FIELD=TEXT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    field: Field,
    text: String,
}

impl FromStr for Assignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, text) = text.split_once('=').ok_or("is not FIELD=TEXT")?;
        let field = Field::ALL.into_iter().find(|field| field.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Field::ALL.into_iter().map(Field::name).collect();
            format!("{name:?} is not a field: {}", names.join(", "))
        })?;
        Ok(Self { field, text: text.to_owned() })
    }
}

/// How a foreign file is read: the options of the command line.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Files of other programs")]
pub struct MappingArgs {
    /// The column of a field, where it has another name, such as `rating=stars,body=text`; `a.b` is b within a, and
    /// `status=` takes no column.
    #[arg(long, value_name = "FIELD=COLUMN", value_delimiter = ',')]
    pub map: Vec<Assignment>,
    /// The value of a field where the file has none, such as `language=en`; repeatable.
    #[arg(long, value_name = "FIELD=TEXT")]
    pub set: Vec<Assignment>,
    /// The lowest and the highest rating of the file, such as 1-10; they become 1 and 5, the others the nearest between.
    #[arg(long, value_name = "MIN-MAX")]
    pub scale: Option<Scale>,
    /// How dates are written: `unix`, `unix-ms`, or as in strftime, `%d.%m.%Y %H:%M`; UTC unless with %z [default: RFC
    /// 3339]
    #[arg(long, value_name = "FORMAT")]
    pub date_format: Option<DateFormat>,
    /// Recognise the language of title and body where the file has none.
    #[arg(long)]
    pub language_detect: bool,
    /// Put before every id of the file.
    #[arg(long, value_name = "TEXT")]
    pub id_prefix: Option<String>,
    /// Make the ids from product, date, author, title and body: equal rows are one comment, also in a later import.
    #[arg(long, conflicts_with = "id_prefix")]
    pub make_ids: bool,
}

/// Makes comments of the rows of a foreign file.
#[derive(Debug, Clone)]
pub(super) struct Mapping {
    columns: BTreeMap<Field, String>,
    set: BTreeMap<Field, String>,
    args: MappingArgs,
    left_out: Arc<Mutex<BTreeSet<String>>>,
}

impl Mapping {
    /// A mapping as the command line says.
    pub(super) fn new(args: MappingArgs) -> Self {
        let of = |assignments: &[Assignment]| {
            assignments.iter().map(|assignment| (assignment.field, assignment.text.clone())).collect()
        };
        Self { columns: of(&args.map), set: of(&args.set), args, left_out: Arc::default() }
    }

    /// The first columns that no field took, so far. Clones share them.
    pub(super) fn left_out(&self) -> Vec<String> {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The fields for which a table with these columns has none: required ones, and those whose columns were named.
    pub(super) fn missing<'name>(&self, columns: impl Iterator<Item = &'name str>) -> Vec<Field> {
        let columns: BTreeSet<&str> = columns.collect();
        let is_missing = |field: &Field| {
            let is_made =
                (*field == Field::Id && self.args.make_ids) || (*field == Field::Language && self.args.language_detect);
            let is_named = self.columns.get(field).is_some_and(|column| !column.is_empty());
            let is_needed = is_named || !(is_made || field.is_optional());
            is_needed && !columns.contains(self.column(*field)) && !self.set.contains_key(field)
        };
        Field::ALL.into_iter().filter(is_missing).collect()
    }

    /// The name of a field's column; empty for a field that takes none.
    fn column(&self, field: Field) -> &str {
        self.columns.get(&field).map_or(field.name(), String::as_str)
    }

    /// The value in the column of a field.
    fn found<'row>(&self, field: Field, row: &'row Row) -> Option<&'row Value> {
        Some(self.column(field)).filter(|column| !column.is_empty()).and_then(|column| look_up(row, column))
    }

    /// Makes a comment of a row.
    ///
    /// # Errors
    /// The reason why it is none, in one line.
    pub(super) fn comment(&self, row: &Row) -> Result<NewComment, String> {
        self.note_left_out(row);
        let mut fields = Row::new();
        for field in Field::ALL.into_iter().filter(|field| !matches!(field, Field::Id | Field::Language)) {
            if let Some(text) = self.text(field, row)? {
                fields.insert(field.name().to_owned(), self.value(field, text)?);
            } else if !field.is_optional() {
                return Err(self.without(field));
            }
        }
        fields.insert("id".to_owned(), self.id(row, &fields)?.into());
        fields.insert("language".to_owned(), self.language(row, &fields)?.into());
        comment_of(fields)
    }

    /// The text of a field in a row, or the text that is set for it; `None` without either.
    fn text(&self, field: Field, row: &Row) -> Result<Option<String>, String> {
        let text = match self.found(field, row) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            // A number with a fraction or too many digits has lost some of them, so it names nothing.
            Some(Value::Number(number))
                if number.is_f64() && matches!(field, Field::Id | Field::Product | Field::AuthorId) =>
            {
                return Err(format!("{field}: {number} is not a whole number that JSON keeps"));
            }
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(Value::Bool(flag)) => Some(flag.to_string()),
            Some(Value::Object(object)) if field == Field::Attributes => {
                Some(serde_json::to_string(object).map_err(|error| error.to_string())?)
            }
            Some(Value::Array(_) | Value::Object(_)) => {
                let column = self.column(field);
                return Err(printable(&format!("{field}: {column:?} holds several values, not a text")));
            }
        };
        // A body and a title keep the spaces that people put there.
        let is_name = !matches!(field, Field::Title | Field::Body | Field::Author);
        let text = text.map(|text| if is_name { text.trim().to_owned() } else { text });
        Ok(text.filter(|text| !text.is_empty()).or_else(|| self.set.get(&field).cloned()))
    }

    fn without(&self, field: Field) -> String {
        printable(&format!("{}: {:?} is missing or empty", field.name(), self.column(field)))
    }

    /// The value of a field as a line of an import has it.
    fn value(&self, field: Field, text: String) -> Result<Value, String> {
        match field {
            Field::Rating => self.rating(&text).map(Value::Number),
            Field::CreatedAt => match &self.args.date_format {
                Some(format) => format.parse(&text).map(|instant| instant.to_string().into()),
                None => Ok(text.into()),
            },
            Field::Status => match Status::parse(&text.to_lowercase()) {
                Ok(status) => Ok(status.as_str().into()),
                Err(error) => Err(error.problem),
            },
            Field::Id
            | Field::Product
            | Field::Language
            | Field::Title
            | Field::Body
            | Field::Author
            | Field::Attributes
            | Field::AuthorId => Ok(text.into()),
        }
        .map_err(|problem| printable(&format!("{}: {problem}", field.name())))
    }

    fn rating(&self, text: &str) -> Result<Number, String> {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        let number = number.ok_or_else(|| format!("{text:?} is not a number"))?;
        let rating = match self.args.scale {
            Some(scale) => f64::from(scale.rating(number)?),
            None => number,
        };
        Number::from_f64(rating).ok_or_else(|| format!("{text:?} is not a number"))
    }

    fn id(&self, row: &Row, fields: &Row) -> Result<String, String> {
        if self.args.make_ids {
            return Ok(made_id(fields));
        }
        let id = self.text(Field::Id, row)?.ok_or_else(|| self.without(Field::Id))?;
        Ok(self.args.id_prefix.clone().unwrap_or_default() + &id)
    }

    fn language(&self, row: &Row, fields: &Row) -> Result<String, String> {
        let given = match self.found(Field::Language, row) {
            Some(Value::String(tag)) => Some(tag.trim().to_owned()).filter(|tag| !tag.is_empty()),
            _ => None,
        };
        let detected = || self.args.language_detect.then(|| detected(fields)).flatten();
        let language = given.or_else(detected).or_else(|| self.set.get(&Field::Language).cloned());
        language.ok_or_else(|| {
            let unknown = if self.args.language_detect { ", and its text does not show it" } else { "" };
            format!("{}{unknown}; --set language=TAG gives one", self.without(Field::Language))
        })
    }

    fn note_left_out(&self, row: &Row) {
        let is_taken = |name: &String| {
            Field::ALL.into_iter().any(|field| {
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

/// The id of a row without one: the beginning of the SHA-256 hash of what makes the comment its author's.
fn made_id(fields: &Row) -> String {
    let mut hash = Sha256::new();
    for name in ["product", "created_at", "author", "title", "body"] {
        let text = fields.get(name).and_then(Value::as_str).unwrap_or_default();
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    hash.finalize().iter().take(ID_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// The tag of the language in which title and body are written; `None` when that is uncertain.
fn detected(fields: &Row) -> Option<String> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let found = whatlang::detect(&format!("{}\n{}", text("title"), text("body")))?;
    // The detector names the largest of the Chinese languages (ISO 639-3), tags name the family.
    let code = if found.lang() == whatlang::Lang::Cmn { "zho" } else { found.lang().code() };
    let language = isolang::Language::from_639_3(code)?;
    found.is_reliable().then(|| language.to_639_1().unwrap_or(code).to_owned())
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: MappingArgs,
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
        mapping(options).comment(&row(values))
    }

    fn made_well(options: &[&str], values: &Value) -> NewComment {
        made(options, values).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn fields_are_found_under_the_names_of_their_columns() {
        let options = ["--map", "rating=stars,body=text.full,author=user.name", "--id-prefix", "old-"];
        let values = json!({"stars": 2, "text": {"full": "Bad."}, "user": {"name": "A", "mail": "x"}, "title": null});
        let mapping = mapping(&options);
        let comment = mapping.comment(&row(&values)).unwrap();
        assert_eq!((comment.id.as_str(), comment.rating.get(), comment.text.body.as_str()), ("old-1", 2, "Bad."));
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
        assert_eq!(mapping.missing(Field::ALL.into_iter().map(Field::name)), []);
        mapping.comment(&row(&json!({"status": "sent"}))).unwrap();
        assert_eq!(mapping.left_out(), ["status"]);
    }

    #[test]
    fn a_language_is_recognised_where_the_text_shows_it() {
        let options = ["--language-detect"];
        let german = json!({"language": null, "body": "Der Wasserkocher ist nach zwei Wochen schon wieder undicht."});
        assert_eq!(made_well(&options, &german).language.as_str(), "de");
        let chinese = json!({"language": "", "body": "这个热水壶非常好用，烧水很快，声音也不大，推荐购买。"});
        assert_eq!(made_well(&options, &chinese).language.as_str(), "zh");
        let none = json!({"language": "", "body": "ok"});
        assert!(made(&options, &none).unwrap_err().contains("its text does not show it"));
        assert_eq!(made_well(&["--language-detect", "--set", "language=und"], &none).language.as_str(), "und");
    }

    #[test]
    fn a_made_id_belongs_to_the_text_and_its_author() {
        let id = |values: Value| made_well(&["--make-ids"], &values).id;
        assert_eq!(id(json!({"id": null})), id(json!({"id": "7", "rating": "1"})));
        assert_ne!(id(json!({})), id(json!({"body": "Fine!"})));
        assert_ne!(id(json!({"title": "a", "author": "bc"})), id(json!({"title": "ab", "author": "c"})));
    }

    #[test]
    fn ratings_and_dates_are_converted() {
        let comment =
            made_well(&["--scale", "0-100", "--date-format", "unix"], &json!({"rating": 88, "created_at": 0}));
        assert_eq!((comment.rating.get(), comment.created_at.epoch_ms()), (5, 0));
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
        let options = ["--map", "rating=stars", "--make-ids", "--language-detect", "--set", "created_at=2024-01-01"];
        assert!(missing(&options).is_empty());
    }

    #[test]
    fn an_assignment_names_a_field() {
        assert!("stars=rating".parse::<Assignment>().unwrap_err().contains("is not a field: id, product"));
        assert!("rating".parse::<Assignment>().is_err());
    }
}
