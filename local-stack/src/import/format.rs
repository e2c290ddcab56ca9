//! The formats of files of comments.

use std::path::Path;

use clap::ValueEnum;
use serde_dynamo::AttributeValue;
use serde_json::{Map, Value};
use table::NewComment;

use super::{
    input_file::InputFile,
    line::{NOT_LINES, parse_line, printable},
    mapping::{Mapping, MappingArgs},
    reader::{LineReader, read_lines_with},
    separated,
    source::Source,
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
}

impl Reading {
    /// How files of this format are read, or files of the format that their names ask for. With `keeps_text`, rejected lines
    /// can be written with their text.
    pub fn new(format: Option<Format>, args: MappingArgs, keeps_text: bool) -> Self {
        let is_foreign = format.is_some() || args != MappingArgs::default();
        Self { format, mapping: Mapping::new(args), is_foreign, keeps_text }
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
            Format::DynamodbJson => {
                let parse = move |line: &[u8]| item(line, &mapping);
                read_lines_with(LineReader::new(file), keeps_text, parse)
            }
            Format::Csv => Source::of_lines(separated::rows(file, b',', mapping, keeps_text)),
            Format::Semicolons => Source::of_lines(separated::rows(file, b';', mapping, keeps_text)),
            Format::Tsv => Source::of_lines(separated::rows(file, b'\t', mapping, keeps_text)),
        }
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
fn item(line: &[u8], mapping: &Mapping) -> Result<NewComment, String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Exported {
        item: Map<String, Value>,
    }
    let exported: Exported = serde_json::from_slice(line).map_err(|error| {
        printable(&format!("is not an item of an export to S3, such as {{\"Item\": {{…}}}}: {error}"))
    })?;
    let mut row = Map::new();
    for (name, attribute) in exported.item {
        let attribute = serde_json::from_value::<AttributeValue>(attribute);
        let attribute = attribute.map_err(|error| printable(&format!("attribute {name:?}: {error}")))?;
        row.insert(name, plain(attribute));
    }
    mapping.comment(&row)
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
    match attribute {
        AttributeValue::N(number) => match serde_json::from_str::<Value>(&number) {
            Ok(value) if value.to_string() == number => value,
            _ => number.into(),
        },
        other => plain(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping() -> Mapping {
        Mapping::new(MappingArgs { map: vec!["author=user.name".parse().unwrap()], ..MappingArgs::default() })
    }

    const ITEM: &str = r#"{"Item":{"id":{"S":"1"},"product":{"S":"p"},"language":{"S":"en"},"rating":{"N":"4"},
        "created_at":{"S":"2024-02-29T12:00:00Z"},"body":{"S":"Fine."},"title":{"NULL":true},
        "user":{"M":{"name":{"S":"A"}}},"photo":{"B":"AAEC"},"tags":{"SS":["a","b"]},"likes":{"L":[{"N":"1"}]}}}"#;

    #[test]
    fn an_item_of_an_export_to_s3_is_a_comment() {
        let comment = item(ITEM.as_bytes(), &mapping()).unwrap();
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
            let site = item(ITEM.replace(r#""photo":"#, &own).as_bytes(), &mapping()).unwrap().site;
            assert_eq!(site.attributes.unwrap().as_json(), kept);
            assert_eq!(site.author_id.unwrap().as_str(), "7");
        }
        for (old, new, expected) in [
            (r#"{"N":"4"}"#, r#"{"Z":"4"}"#, "attribute \"rating\""),
            (r#"{"N":"4"}"#, r#"{"N":"four"}"#, "rating"),
            ("Item", "Keys", "is not an item of an export"),
        ] {
            let error = item(ITEM.replace(old, new).as_bytes(), &mapping()).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_foreign_line_is_a_json_object() {
        for (line, expected) in [("[]", "JSON Lines"), ("1", "not a JSON object"), ("{", "not JSON"), ("{}", "product")]
        {
            let error = foreign_line(line.as_bytes(), &mapping()).unwrap_err();
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
