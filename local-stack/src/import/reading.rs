//! How a foreign file is read: which columns are the fields of a comment, and how their values are
//! written.
//!
//! A row is an object. Either a line of JSON, or a table's row, whose cells have the names of its
//! columns. What no field takes is left out.

use std::path::Path;

use clap::ValueEnum;
use jiff::tz::TimeZone;
use model::{
    AuthorId, CommentAttributes, CommentId, InvalidInput, Language, ProductId, Rating, Status,
    Timestamp,
};
use serde_json::{Map, Value};

use super::{
    comment::{CommentLine, CommentRow, printable},
    date::{date_format, read_date, rfc_3339, time_zone},
    id_from::id_from,
    spreadsheet::check_undamaged,
    status_words,
    value::{NULLS, look_up, text},
};

/// The fields that a comment needs. The column of a field has its name, unless another is named.
const REQUIRED: [&str; 6] = ["id", "product", "language", "rating", "created_at", "body"];
/// The fields that a comment may lack. Attributes are a JSON object, or its text.
const OPTIONAL: [&str; 5] = ["title", "author", "attributes", "author_id", "status"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One JSON object a line, as an export writes them
    JsonLines,
    /// Cells separated by commas, with a first row that names the columns (RFC 4180)
    Csv,
    /// Cells separated by semicolons, as spreadsheets in much of Europe write them
    Semicolons,
    /// Cells separated by tabs; a file with a cell `\N` is read as `database`
    Tsv,
    /// Cells separated by tabs, with `\N`, `\n` and `\t`, as PostgreSQL and MySQL write them
    Database,
}

impl Format {
    /// The format that a file's name asks for: `.csv` or `.tsv`, whether or not `.gz` or `.zst`
    /// follows, or JSON Lines.
    pub(crate) fn of_name(path: &Path) -> Self {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        let plain = [".gz", ".zst"]
            .into_iter()
            .find_map(|ending| name.strip_suffix(ending))
            .unwrap_or(&name);
        match plain.rsplit_once('.') {
            Some((_, "csv")) => Self::Csv,
            Some((_, "tsv" | "tab")) => Self::Tsv,
            _ => Self::JsonLines,
        }
    }
}

/// How a foreign file is read: the options of the command line.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Files of other programs")]
pub struct ReadingArgs {
    /// The format of the files [default: csv or tsv for names that say so, otherwise json-lines]
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: Option<Format>,
    /// The column of a field, where it has another name, such as `rating=stars,body=text`; `a.b` is
    /// b within a, and `status=` takes no column.
    #[arg(long, value_name = "FIELD=COLUMN", value_delimiter = ',', value_parser = assignment)]
    map: Vec<(String, String)>,
    /// The columns that make an id together, where the file has none; the same values make the same
    /// id.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    id_from: Vec<String>,
    /// The value of a field where the file has none, such as `language=en`; repeatable.
    #[arg(long, value_name = "FIELD=TEXT", value_parser = set_value)]
    set: Vec<(String, String)>,
    /// What a value of a field means here, such as `status:spam=hidden`; repeatable.
    #[arg(long, value_name = "FIELD:FROM=TO", value_parser = replacement)]
    value: Vec<Replacement>,
    /// Columns that are left out although they look like a status.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    drop: Vec<String>,
    /// How dates are written: `unix`, `unix-ms`, or as in strptime, `%d.%m.%Y %H:%M` [default: RFC
    /// 3339]
    #[arg(long, value_name = "FORMAT", value_parser = date_format)]
    date_format: Option<String>,
    /// The time zone of dates whose format has none, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", value_parser = time_zone, requires = "date_format")]
    time_zone: Option<TimeZone>,
}

/// A value of the file, and what is read instead.
#[derive(Debug, Clone, PartialEq)]
struct Replacement {
    field: String,
    from: String,
    to: String,
}

fn replacement(text: &str) -> Result<Replacement, String> {
    let Some((field, rest)) = text.split_once(':') else {
        return Err("is not FIELD:FROM=TO".to_owned());
    };
    let (field, rest) = assignment(&format!("{field}={rest}"))?;
    let (from, to) = rest.split_once('=').ok_or("is not FIELD:FROM=TO")?;
    Ok(Replacement {
        field,
        from: from.to_owned(),
        to: to.to_owned(),
    })
}

/// One value for all rows, which an id cannot be.
fn set_value(text: &str) -> Result<(String, String), String> {
    let assigned = assignment(text)?;
    if assigned.0 == "id" {
        return Err(format!("would be the id of every row; {MAKES_IDS}"));
    }
    Ok(assigned)
}

/// What gives a row a value of a field that its file lacks.
pub(super) fn remedy(field: &str) -> String {
    if field == "id" {
        MAKES_IDS.to_owned()
    } else {
        format!("--set {field}=TEXT gives one value to all")
    }
}

const MAKES_IDS: &str = "--id-from COLUMN,COLUMN makes an id of columns that tell reviews apart, such as author, date and text";

fn assignment(text: &str) -> Result<(String, String), String> {
    let (field, text) = text.split_once('=').ok_or("is not FIELD=TEXT")?;
    let fields = [&REQUIRED[..], &OPTIONAL].concat();
    if fields.contains(&field) {
        Ok((field.to_owned(), text.to_owned()))
    } else {
        Err(format!("{field:?} is not a field: {}", fields.join(", ")))
    }
}

/// Why a column is refused of which `what` is like a status.
fn undecided(name: &str, what: &str) -> String {
    format!(
        "{what} looks like a status, and no field takes it; --map status={name} does, with --value status:0=hidden for \
         each of its values, and --drop {name} leaves it out"
    )
}

/// What is assigned to a field; the last one counts.
fn assigned<'a>(assignments: &'a [(String, String)], field: &str) -> Option<&'a str> {
    assignments
        .iter()
        .rfind(|(of, _)| of == field)
        .map(|(_, text)| text.as_str())
}

impl ReadingArgs {
    /// The name of a field's column; empty for a field that takes none.
    fn column<'a>(&'a self, field: &'a str) -> &'a str {
        assigned(&self.map, field).unwrap_or(field)
    }

    /// The fields for which a table with these columns has none: required ones, and those whose
    /// columns were named.
    pub(super) fn missing(&self, columns: &[String]) -> Vec<&'static str> {
        let mut missing = Vec::new();
        for field in REQUIRED {
            if !self.has_value(field, columns) {
                missing.push(field);
            }
        }
        for field in OPTIONAL {
            let is_named = assigned(&self.map, field).is_some_and(|column| !column.is_empty());
            if is_named && !self.has_value(field, columns) {
                missing.push(field);
            }
        }
        missing
    }

    /// Whether a field has a value in a table with these columns: its column, or what is set.
    fn has_value(&self, field: &str, columns: &[String]) -> bool {
        if field == "id" && !self.id_from.is_empty() {
            return true;
        }
        let column = self.column(field);
        columns.iter().any(|name| name == column) || assigned(&self.set, field).is_some()
    }

    fn columns(&self) -> impl Iterator<Item = &str> {
        REQUIRED
            .iter()
            .chain(&OPTIONAL)
            .map(|field| self.column(field))
            .chain(self.id_from.iter().map(String::as_str))
    }

    /// The columns of `--id-from` that a table does not have.
    pub(super) fn missing_for_id(&self, columns: &[String]) -> Vec<&str> {
        let mut missing = Vec::new();
        for column in &self.id_from {
            if !columns.contains(column) {
                missing.push(column.as_str());
            }
        }
        missing
    }

    /// Whether a field has this column, or what is within it.
    pub(super) fn takes(&self, name: &str) -> bool {
        self.columns()
            .any(|column| column == name || column.split('.').next() == Some(name))
    }

    /// Whether a field takes the column, or the options leave it out by its name.
    fn is_decided(&self, name: &str) -> bool {
        self.takes(name)
            || self.drop.iter().any(|dropped| dropped == name)
            || (name == "status" && assigned(&self.map, name).is_some())
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
    pub(super) fn comment(&self, row: &Map<String, Value>) -> Result<CommentRow, String> {
        self.check_status(row).map_err(|why| printable(&why))?;
        self.line(row)
            .and_then(CommentRow::try_from)
            .map_err(|error| printable(&error.to_string()))
    }

    fn line(&self, row: &Map<String, Value>) -> Result<CommentLine, InvalidInput> {
        Ok(CommentLine {
            id: if self.id_from.is_empty() {
                self.required(row, "id", CommentId::parse)?
            } else {
                id_from(&self.id_from, row)?
            },
            product: self.required(row, "product", ProductId::parse)?,
            language: self.required(row, "language", Language::parse)?,
            rating: self.required(row, "rating", rating)?,
            created_at: self.required(row, "created_at", |text| self.date(text))?,
            title: self.optional(row, "title", plain)?,
            body: self.required(row, "body", plain)?,
            author: self.optional(row, "author", plain)?,
            status: self
                .optional(row, "status", |text| Status::parse(&text.to_lowercase()))?
                .flatten(),
            attributes: self.optional(row, "attributes", CommentAttributes::parse)?,
            author_id: self.optional(row, "author_id", AuthorId::parse)?,
        })
    }

    fn date(&self, text: &str) -> Result<Timestamp, InvalidInput> {
        match &self.date_format {
            Some(format) => {
                let utc = TimeZone::UTC;
                read_date(format, text, self.time_zone.as_ref().unwrap_or(&utc))
            }
            None => rfc_3339(text),
        }
    }

    fn required<T>(
        &self,
        row: &Map<String, Value>,
        field: &'static str,
        parse: impl FnOnce(&str) -> Result<T, InvalidInput>,
    ) -> Result<T, InvalidInput> {
        self.optional(row, field, parse)?.flatten().ok_or_else(|| {
            let column = self.column(field);
            InvalidInput::new(
                field,
                format!("{column:?} is missing or empty; {}", remedy(field)),
            )
        })
    }

    /// The value of a field. `None` if the row does not name it, and `Some(None)` if it is empty
    /// there.
    fn optional<T>(
        &self,
        row: &Map<String, Value>,
        field: &'static str,
        parse: impl FnOnce(&str) -> Result<T, InvalidInput>,
    ) -> Result<Option<Option<T>>, InvalidInput> {
        let column = self.column(field);
        let mut named = None;
        if !column.is_empty()
            && let Some(value) = look_up(row, column)
        {
            let mut text = text(field, value)?;
            if OPTIONAL.contains(&field) && NULLS.contains(&text.as_str()) {
                text.clear();
            }
            let trimmed = text.trim();
            for Replacement {
                field: of,
                from,
                to,
            } in &self.value
            {
                if of == field && from == trimmed {
                    text = to.clone();
                    break;
                }
            }
            check_undamaged(field, &text)?;
            named = Some(text);
        }
        let value = match &named {
            Some(text) if !text.is_empty() => Some(text.as_str()),
            // Where the file has none, the value that is set counts.
            _ => assigned(&self.set, field),
        };
        match value {
            Some(text) => Ok(Some(Some(parse(text)?))),
            None => Ok(named.map(|_| None)),
        }
    }
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
        reading(options)
            .comment(&row(values))
            .map(|row| row.comment)
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
                comment.text.body.as_str()
            ),
            ("1", 2, "Bad.")
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
        for value in ["spam", "Approved", " unpublished "] {
            let values = json!({"kind": value});
            let error = made(&[], &values).unwrap_err();
            assert!(error.contains("--drop kind"), "{error}");
            made_well(&["--drop", "kind"], &values);
        }
        // No words of a status.
        made_well(
            &[],
            &json!({"estate": "large", "title": "Spam", "helpful": 3, "approver": "A"}),
        );
        for wrong in ["status", "status:spam", "state:spam=hidden"] {
            assert!(replacement(wrong).is_err(), "{wrong}");
        }
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
            "status: \"sent\" is not published, pending or hidden"
        );
        // A column that means something else is left out.
        assert_eq!(
            status_of(
                &["--map", "status="],
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
            (json!({"body": ""}), "body: \"body\" is missing or empty"),
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

    #[test]
    fn a_files_name_says_its_format() {
        for (name, format) in [
            ("a.csv", Format::Csv),
            ("A.CSV.GZ", Format::Csv),
            ("a.tsv.zst", Format::Tsv),
            ("a.jsonl", Format::JsonLines),
            ("csv", Format::JsonLines),
        ] {
            assert_eq!(Format::of_name(Path::new(name)), format, "{name}");
        }
    }

    #[test]
    fn an_assignment_names_a_field() {
        assert!(
            assignment("stars=rating")
                .unwrap_err()
                .contains("is not a field: id, product")
        );
        assert!(assignment("rating").is_err());
        let refused = set_value("id=1").unwrap_err();
        assert!(refused.contains("--id-from"), "{refused}");
    }
}
