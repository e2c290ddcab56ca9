//! The rows to import, from a file of any format, and the reasons why they may end early.

use std::{io, path::Path, pin::Pin};

use clap::ValueEnum;
use serde::de::IgnoredAny;
use serde_json::Value;
use table::NewComment;
use thiserror::Error;

use super::{
    comment::{CommentRow, NOT_LINES, printable, read_row},
    lines::LineReader,
    mapping::{Mapping, ReadingArgs},
    separated,
};

/// One comment or record to import, or what stands in its place.
#[derive(Debug)]
pub(super) struct Row<T> {
    /// The number of its first line, from 1.
    pub(super) number: u64,
    /// What the row says, or the reason why it says nothing.
    pub(super) content: Result<T, String>,
    /// The row as it was read, for a file of rejected rows. Empty when there is no such file.
    pub(super) text: String,
}

/// The reason why the rows of a source were not read to their end, with advice for the user. What was imported stays, and
/// a further import leaves it as it is.
#[derive(Debug, Error)]
pub enum SourceError {
    #[error(
        "its {compression} data is broken or cut off after line {line} ({source}); `{compression} -t` checks a file; \
         import a whole copy of it, which leaves what was imported as it is"
    )]
    Broken { compression: &'static str, line: u64, source: io::Error },
    /// The file system's error, after this line.
    #[error("it cannot be read beyond line {0}: {1}; import it again when that is solved")]
    File(u64, #[source] io::Error),
    /// The file begins, in this line, with a JSON array that continues behind the line.
    #[error("line {0} {NOT_LINES}; nothing of it was imported")]
    Array(u64),
    /// A required field has no column.
    #[error("{0}; nothing of it was imported")]
    Columns(String),
    #[error("the row that begins in line {0} has a quote that is not closed; correct it and import the file again")]
    OpenQuote(u64),
    #[error("it was interrupted; import it again for the rest, which leaves what was imported as it is")]
    Interrupted,
}

type RowOrEnd<T> = Result<Row<T>, SourceError>;

/// Comments, or records of products, to import. An error ends the import.
pub struct Source<T = CommentRow> {
    rows: Box<dyn Iterator<Item = RowOrEnd<T>> + Send>,
    interrupted: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<T> Source<T> {
    pub(super) fn of_rows(rows: impl Iterator<Item = RowOrEnd<T>> + Send + 'static) -> Self {
        Self { rows: Box::new(rows), interrupted: Box::pin(std::future::pending()) }
    }

    /// Like the source itself, but it ends when `interrupted` completes.
    #[must_use]
    pub fn until(self, interrupted: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { interrupted: Box::pin(interrupted), ..self }
    }

    /// The next row; `None` when all have been read. Other tasks run before it is read, which blocks.
    pub(super) async fn next(&mut self) -> Option<RowOrEnd<T>> {
        tokio::select! {
            biased;
            () = &mut self.interrupted => Some(Err(SourceError::Interrupted)),
            () = tokio::task::yield_now() => self.rows.next(),
        }
    }
}

impl Source {
    /// Comments that are known to be valid.
    pub fn of_comments(comments: impl IntoIterator<Item = NewComment, IntoIter: Send> + 'static) -> Self {
        let row = |(number, comment)| Ok(Row { number, content: Ok(CommentRow::from(comment)), text: String::new() });
        Self::of_rows((1..).zip(comments).map(row))
    }
}

/// Reads a file of comments as an export writes it.
pub fn read_lines(reader: LineReader) -> Source {
    json_rows(reader, false, read_row)
}

/// Reads a file of JSON Lines, each by `parse`. A file that is one array over several lines is an error. With
/// `keeps_text`, rejected rows can be written with their text.
pub fn json_rows<T: 'static>(
    mut reader: LineReader,
    keeps_text: bool,
    parse: impl Fn(&[u8]) -> Result<T, String> + Send + 'static,
) -> Source<T> {
    let mut is_first = true;
    Source::of_rows(std::iter::from_fn(move || match reader.next_line().transpose()? {
        Err(error) => Some(Err(error)),
        Ok((number, Err(reason))) => Some(Ok(Row { number, content: Err(reason), text: String::new() })),
        Ok((number, Ok(line))) => {
            if std::mem::take(&mut is_first) && begins_an_array(&line) {
                return Some(Err(SourceError::Array(number)));
            }
            let text = if keeps_text { String::from_utf8_lossy(&line).into_owned() } else { String::new() };
            Some(Ok(Row { number, content: parse(&line), text }))
        }
    }))
}

/// Whether a line begins an array that it does not end.
fn begins_an_array(line: &[u8]) -> bool {
    line.starts_with(b"[") && serde_json::from_slice::<IgnoredAny>(line).is_err_and(|error| error.is_eof())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// One JSON object a line, as an export writes them
    JsonLines,
    /// Cells separated by commas, with a first row that names the columns (RFC 4180)
    Csv,
    /// Cells separated by semicolons, as spreadsheets in much of Europe write them
    Semicolons,
    /// Cells separated by tabs
    Tsv,
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

/// How files of comments are read.
#[derive(Debug, Clone)]
pub struct Reading {
    format: Option<Format>,
    /// Whether lines may differ from those of an export: a format or a mapping was named.
    is_foreign: bool,
    mapping: Mapping,
    keeps_text: bool,
}

impl Reading {
    /// With `keeps_text`, rejected rows can be written with their text.
    pub fn new(args: ReadingArgs, keeps_text: bool) -> Self {
        let (format, is_foreign) = (args.format, args != ReadingArgs::default());
        Self { format, is_foreign, mapping: Mapping::new(args), keeps_text }
    }

    pub fn source(&self, path: &Path, reader: LineReader) -> Source {
        let (mapping, keeps_text) = (self.mapping.clone(), self.keeps_text);
        let delimiter = match self.format.unwrap_or_else(|| Format::of_name(path)) {
            // A misspelt field is not lost: lines of an export have no other fields.
            Format::JsonLines if !self.is_foreign => return json_rows(reader, keeps_text, read_row),
            Format::JsonLines => return json_rows(reader, keeps_text, move |line| foreign_line(line, &mapping)),
            Format::Csv => b',',
            Format::Semicolons => b';',
            Format::Tsv => b'\t',
        };
        Source::of_rows(separated::rows(reader, delimiter, mapping, keeps_text))
    }

    /// The first columns of the files that no field took.
    pub fn left_out(&self) -> Vec<String> {
        self.mapping.left_out()
    }
}

fn foreign_line(line: &[u8], mapping: &Mapping) -> Result<CommentRow, String> {
    match serde_json::from_slice(line) {
        Ok(Value::Object(row)) => mapping.comment(&row),
        Ok(Value::Array(_)) => Err(NOT_LINES.to_owned()),
        Ok(_) => Err("is not a JSON object".to_owned()),
        Err(error) => Err(printable(&format!("is not JSON: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_array_over_several_lines_begins_one() {
        for line in ["[", "[{", "[{\"id\":\"c-1\"},"] {
            assert!(begins_an_array(line.as_bytes()), "{line}");
        }
        for line in ["[]", "[{}]", "[x", "{", "{\"a\":["] {
            assert!(!begins_an_array(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn a_foreign_line_is_a_json_object() {
        for (line, expected) in [("[]", "JSON Lines"), ("1", "not a JSON object"), ("{", "not JSON"), ("{}", "product")]
        {
            let error = foreign_line(line.as_bytes(), &Mapping::new(ReadingArgs::default())).unwrap_err();
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
