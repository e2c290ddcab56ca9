//! The formats of files of comments.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use clap::ValueEnum;
use serde_dynamo::{AttributeValue, Item};
use serde_json::{Value, json};
use table::NewComment;

use super::{
    article,
    input_file::InputFile,
    line::{NOT_LINES, parse_line, printable},
    mapping::{Mapping, MappingArgs, Row},
    reader::{LineReader, read_lines_with},
    separated,
    source::{Numbered, Source},
};

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object a line, as an export writes them
    JsonLines,
    /// Cells separated by commas, with a first row that names the columns (RFC 4180)
    Csv,
    /// Cells separated by semicolons, as spreadsheets in much of Europe write them
    Semicolons,
    /// Cells separated by tabs
    Tsv,
    /// An export of a DynamoDB table to S3: one item a line
    DynamodbJson,
    /// The same, of items like Pagemark's with a `cd` such as `2020-11-09 12:00:00.123`; duplicates are left out
    Article,
}

impl Format {
    /// The format that a file's name asks for: `.csv` or `.tsv`, whether or not `.gz` or `.zst` follows, or JSON Lines.
    fn of_name(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let plain = [".gz", ".zst"].into_iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
        match plain.rsplit_once('.') {
            Some((_, "csv")) => Self::Csv,
            Some((_, "tsv" | "tab")) => Self::Tsv,
            _ => Self::JsonLines,
        }
    }
}

/// How files are read.
#[derive(Debug, Clone)]
pub struct Reading {
    format: Option<Format>,
    mapping: Mapping,
    /// Whether lines may differ from those of an export: a format or a mapping was named.
    is_foreign: bool,
    /// Whether each line keeps its text, for a file of rejected lines.
    keeps_text: bool,
    /// Items that are no comments, such as duplicates. Clones share the count.
    others: Arc<AtomicU64>,
}

impl Reading {
    /// How files of this format are read, or files of the format that their names ask for. With `keeps_text`, rejected lines
    /// can be written with their text.
    pub fn new(format: Option<Format>, args: MappingArgs, keeps_text: bool) -> Self {
        let is_foreign = format.is_some() || args != MappingArgs::default();
        Self { format, mapping: Mapping::new(args), is_foreign, keeps_text, others: Arc::default() }
    }

    /// Reads the comments of a file.
    pub fn source(&self, path: &Path, file: InputFile) -> Source {
        let (mapping, keeps_text) = (self.mapping.clone(), self.keeps_text);
        match self.format.unwrap_or_else(|| Format::of_name(path)) {
            // A misspelt field is not lost: lines of an export have no other fields.
            Format::JsonLines if !self.is_foreign => read_lines_with(LineReader::new(file), keeps_text, parse_line),
            Format::JsonLines => {
                let parse = move |line: &[u8]| foreign_line(line, &mapping);
                read_lines_with(LineReader::new(file), keeps_text, parse)
            }
            Format::DynamodbJson | Format::Article => {
                let (mut reader, reading) = (LineReader::new(file), self.clone());
                let lines = std::iter::from_fn(move || reader.next_line().transpose());
                Source::of_lines(lines.filter_map(move |line| match line {
                    Err(error) => Some(Err(error)),
                    Ok((number, Err(reason))) => {
                        Some(Ok(Numbered { number, content: Err(reason), text: String::new() }))
                    }
                    Ok((number, Ok(line))) => {
                        let content = exported(&line).and_then(|item| reading.comment(item)).transpose()?;
                        let text = if keeps_text { String::from_utf8_lossy(&line).into_owned() } else { String::new() };
                        Some(Ok(Numbered { number, content, text }))
                    }
                }))
            }
            Format::Csv => Source::of_lines(separated::rows(file, b',', mapping, keeps_text)),
            Format::Semicolons => Source::of_lines(separated::rows(file, b';', mapping, keeps_text)),
            Format::Tsv => Source::of_lines(separated::rows(file, b'\t', mapping, keeps_text)),
        }
    }

    /// Reads an item of another table; `None` if it is no comment, which is counted.
    ///
    /// # Errors
    /// The reason why it cannot be read, in one line.
    pub(crate) fn comment(&self, item: HashMap<String, AttributeValue>) -> Result<Option<NewComment>, String> {
        let row: Row = item.into_iter().map(|(name, value)| (name, plain(value))).collect();
        let row = if self.format == Some(Format::Article) { article::columns(row)? } else { Some(row) };
        if row.is_none() {
            self.others.fetch_add(1, Ordering::Relaxed);
        }
        row.map(|row| self.mapping.comment(&row)).transpose()
    }

    /// The item as a line of an export, for a file of rejected lines; empty without such a file.
    pub(crate) fn line_of(&self, item: &Item) -> String {
        if self.keeps_text { json!({"Item": item}).to_string() } else { String::new() }
    }

    /// How many items were no comments.
    pub fn others(&self) -> u64 {
        self.others.load(Ordering::Relaxed)
    }

    /// The first columns of the files that no field took.
    pub fn left_out(&self) -> Vec<String> {
        self.mapping.left_out()
    }
}

fn foreign_line(line: &[u8], mapping: &Mapping) -> Result<NewComment, String> {
    match serde_json::from_slice(line) {
        Ok(Value::Object(row)) => mapping.comment(&row),
        Ok(Value::Array(_)) => Err(NOT_LINES.to_owned()),
        Ok(_) => Err("is not a JSON object".to_owned()),
        Err(error) => Err(printable(&format!("is not JSON: {error}"))),
    }
}

/// A line of an export to S3: `{"Item": {"body": {"S": "Fine."}, …}}`.
///
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/S3DataExport.Output.html>
fn exported(line: &[u8]) -> Result<HashMap<String, AttributeValue>, String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Exported {
        item: Row,
    }
    let exported: Exported = serde_json::from_slice(line).map_err(|error| {
        printable(&format!("is not an item of an export to S3, such as {{\"Item\": {{…}}}}: {error}"))
    })?;
    let read = |(name, value): (String, Value)| match serde_json::from_value(value) {
        Ok(value) => Ok((name, value)),
        Err(error) => Err(printable(&format!("attribute {name:?}: {error}"))),
    };
    exported.item.into_iter().map(read).collect()
}

/// The value of an attribute as JSON has it. No field is binary, so binary values become null.
fn plain(attribute: AttributeValue) -> Value {
    match attribute {
        // A number of DynamoDB has up to 38 digits, more than one of JSON keeps.
        AttributeValue::S(text) | AttributeValue::N(text) => text.into(),
        AttributeValue::Bool(flag) => flag.into(),
        AttributeValue::M(map) => map.into_iter().map(|(name, value)| (name, nested(value))).collect(),
        AttributeValue::L(list) => list.into_iter().map(nested).collect(),
        AttributeValue::Ss(texts) | AttributeValue::Ns(texts) => texts.into(),
        AttributeValue::Null(_) | AttributeValue::B(_) | AttributeValue::Bs(_) => Value::Null,
    }
}

/// The value within another one, which may be an object of attributes: a number that JSON keeps stays a number.
fn nested(attribute: AttributeValue) -> Value {
    if let AttributeValue::N(number) = &attribute
        && let Ok(value) = serde_json::from_str::<Value>(number)
    {
        let written = value.to_string();
        if written == *number {
            return value;
        }
    }
    plain(attribute)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping() -> MappingArgs {
        MappingArgs { map: vec!["author=user.name".parse().unwrap()], ..MappingArgs::default() }
    }

    fn item(line: &str, format: Format) -> Result<Option<NewComment>, String> {
        exported(line.as_bytes()).and_then(|item| Reading::new(Some(format), mapping(), false).comment(item))
    }

    const ITEM: &str = r#"{"Item":{"id":{"S":"1"},"product":{"S":"p"},"language":{"S":"en"},"rating":{"N":"4"},
        "created_at":{"S":"2024-02-29T12:00:00Z"},"body":{"S":"Fine."},"title":{"NULL":true},
        "user":{"M":{"name":{"S":"A"}}},"photo":{"B":"AAEC"},"tags":{"SS":["a","b"]},"likes":{"L":[{"N":"1"}]}}}"#;

    #[test]
    fn an_item_of_an_export_to_s3_is_a_comment() {
        let comment = item(ITEM, Format::DynamodbJson).unwrap().unwrap();
        assert_eq!((comment.rating.get(), comment.text.author.as_deref()), (4, Some("A")));
        assert_eq!((comment.text.body.as_str(), comment.text.title), ("Fine.", None));
        for (attributes, kept) in [
            (r#"{"S":"{\"z\":1.0, \"a\":2}"}"#, r#"{"z":1.0,"a":2}"#),
            (
                r#"{"M":{"n":{"N":"1.5"},"m":{"N":"12345678901234567890123"},"l":{"L":[{"BOOL":true}]}}}"#,
                r#"{"l":[true],"m":"12345678901234567890123","n":1.5}"#,
            ),
        ] {
            let own = format!(r#""attributes":{attributes},"author_id":{{"N":"7"}},"photo":"#);
            let site = item(&ITEM.replace(r#""photo":"#, &own), Format::DynamodbJson).unwrap().unwrap().site;
            assert_eq!(site.attributes.unwrap().as_json(), kept);
            assert_eq!(site.author_id.unwrap().as_str(), "7");
        }
        for (old, new, expected) in [
            (r#"{"N":"4"}"#, r#"{"Z":"4"}"#, "attribute \"rating\""),
            (r#"{"N":"4"}"#, r#"{"N":"four"}"#, "rating"),
            ("Item", "Keys", "is not an item of an export"),
        ] {
            let error = item(&ITEM.replace(old, new), Format::DynamodbJson).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_duplicate_of_the_articles_design_is_counted_and_no_comment() {
        let reading = Reading::new(Some(Format::Article), MappingArgs::default(), false);
        let line = r#"{"Item":{"pk":{"S":"COMMENT#1"},"sk":{"S":"PRODUCT#42/~/~"},"cd":{"S":"2020-11-09 12:00:00.123"},
            "language":{"S":"en"},"rating":{"N":"5"},"comment_blob":{"M":{"body":{"S":"Fine."}}}}}"#;
        let comment = reading.comment(exported(line.as_bytes()).unwrap()).unwrap().unwrap();
        assert_eq!((comment.id.as_str(), comment.created_at.to_string().as_str()), ("1", "2020-11-09T12:00:00.123Z"));
        let duplicate =
            line.replace("42/~/~", "42/en/~").replace(r#""language""#, r#""auto":{"BOOL":true},"language""#);
        assert_eq!(reading.comment(exported(duplicate.as_bytes()).unwrap()), Ok(None));
        assert_eq!(reading.others(), 1);
    }

    #[test]
    fn a_foreign_line_is_a_json_object() {
        for (line, expected) in [("[]", "JSON Lines"), ("1", "not a JSON object"), ("{", "not JSON"), ("{}", "product")]
        {
            let error = foreign_line(line.as_bytes(), &Mapping::new(mapping())).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
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
}
