//! The rows to import, from a file of any format, and the reasons why they may end early. No more
//! than one is in memory.

use std::{io, path::Path};

use repair_job::Progress;
use serde_json::{Map, Value};
use table::NewComment;

use super::{
    ImportError,
    comment::{NOT_LINES, described, read_row},
    format::Format,
    kind::{self, TableRemedy},
    lines::{LineReader, NumberedLine},
    options::ReadingArgs,
    product::read_product,
    row::{ImportRow, ImportRows, RowContent, RowError},
    separated::{self, Escapes},
};

/// Comments, or records of products, to import. An error ends the import.
pub struct ImportSource {
    /// What messages call it: a file's path.
    pub(crate) name: String,
    pub(super) rows: ImportRows,
    pub(crate) progress: Progress,
}

impl ImportSource {
    pub fn open(path: &Path, reading: &ReadingArgs) -> io::Result<Self> {
        let reading = reading.clone();
        Self::of_file(path, |lines| {
            match reading.format.unwrap_or_else(|| Format::of_name(path)) {
                // A misspelt field is not lost: lines of an export have no other fields.
                Format::JsonLines if reading == ReadingArgs::default() => {
                    json_rows(lines, reading, TableRemedy::Format, |line, _| {
                        Ok(RowContent::Comment(read_row(line)?))
                    })
                }
                Format::JsonLines => {
                    json_rows(lines, reading, TableRemedy::Format, |line, reading| {
                        let row: Map<String, Value> =
                            serde_json::from_slice(line).map_err(|error| described(&error))?;
                        reading.comment(&row).map(RowContent::Comment)
                    })
                }
                Format::Csv => separated::rows(lines, b',', Escapes::AreText, reading),
                Format::Semicolons => separated::rows(lines, b';', Escapes::AreText, reading),
                Format::Tsv => separated::rows(lines, b'\t', Escapes::NotSeen, reading),
                Format::Database => separated::rows(lines, b'\t', Escapes::Count, reading),
            }
        })
    }

    /// A file of products' records, as an export writes it.
    pub fn of_products(path: &Path) -> io::Result<Self> {
        Self::of_file(path, |lines| {
            let reading = ReadingArgs::default();
            json_rows(lines, reading, TableRemedy::Convert, |line, _| {
                Ok(RowContent::Product(read_product(line)?))
            })
        })
    }

    fn of_file(path: &Path, rows: impl FnOnce(LineReader) -> ImportRows) -> io::Result<Self> {
        let lines = LineReader::open(path)?;
        let progress = lines.progress.clone();
        Ok(Self {
            name: path.display().to_string(),
            rows: rows(lines),
            progress,
        })
    }

    pub fn of_comments(
        comments: impl IntoIterator<Item = NewComment, IntoIter: Send> + 'static,
    ) -> Self {
        let comments = comments.into_iter();
        let progress = Progress::default();
        progress.expect(comments.size_hint().1.unwrap_or_default() as u64);
        let shown = progress.clone();
        let rows = (1..).zip(comments).map(move |(number, comment)| {
            shown.advance(1);
            Ok(ImportRow::new(
                number,
                Ok(RowContent::Comment(comment.into())),
                String::new(),
            ))
        });
        Self {
            name: "demo".to_owned(),
            rows: Box::new(rows),
            progress,
        }
    }
}

/// The rows of JSON Lines, each by `parse`.
fn json_rows(
    lines: LineReader,
    reading: ReadingArgs,
    table: TableRemedy,
    parse: impl Fn(&[u8], &ReadingArgs) -> Result<RowContent, RowError> + Send + 'static,
) -> ImportRows {
    Box::new(JsonRows {
        lines,
        reading,
        table,
        parse,
        has_begun: false,
    })
}

/// The rows of JSON Lines without blank ones. A file that is one array is an error.
struct JsonRows<Parse> {
    lines: LineReader,
    reading: ReadingArgs,
    /// What helps where the file is a table.
    table: TableRemedy,
    parse: Parse,
    /// Whether there was a line that is not blank.
    has_begun: bool,
}

impl<Parse: Fn(&[u8], &ReadingArgs) -> Result<RowContent, RowError>> JsonRows<Parse> {
    /// The row of a line; `None` for a blank one.
    fn row(&mut self, (number, line): NumberedLine) -> Result<Option<ImportRow>, ImportError> {
        let line = match line {
            Ok(line) => line,
            Err(reason) => return Ok(Some(ImportRow::new(number, Err(reason), String::new()))),
        };
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        let is_first = !self.has_begun;
        self.has_begun = true;
        let is_array = line.starts_with(b"[");
        if is_first && is_array {
            return Err(ImportError::Array(number));
        }
        let content = if is_array {
            Err(NOT_LINES.to_owned().into())
        } else {
            (self.parse)(line, &self.reading)
        };
        if is_first
            && content.is_err()
            && let Some(problem) = kind::of_json_line(line, &self.reading, self.table)
        {
            return Err(ImportError::WrongKind(problem));
        }
        let text = String::from_utf8_lossy(line).into_owned();
        ImportRow::read(number, content, text).map(Some)
    }
}

impl<Parse: Fn(&[u8], &ReadingArgs) -> Result<RowContent, RowError>> Iterator for JsonRows<Parse> {
    type Item = Result<ImportRow, ImportError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let row = match self.lines.next()? {
                Ok(line) => self.row(line).transpose(),
                Err(ended) => Some(Err(ended)),
            };
            if row.is_some() {
                return row;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{lines::tests::reader_of, reading::tests::reading};

    #[test]
    fn rows_have_the_numbers_of_their_lines_without_blank_ones_and_a_byte_order_mark() {
        for (content, expected) in [
            ("a\r\n\n  \nb", &[(1, "a"), (4, "b")][..]),
            ("\u{feff}a\nb", &[(1, "a"), (2, "b")]),
            ("\u{feff}\nb", &[(2, "b")]),
            ("a\n\u{feff}b", &[(1, "a"), (2, "\u{feff}b")]),
        ] {
            let lines = reader_of(content.as_bytes());
            let refuse = |_: &[u8], _: &ReadingArgs| Err(String::new().into());
            let rows = json_rows(lines, ReadingArgs::default(), TableRemedy::Format, refuse);
            let rows = rows.map(Result::unwrap);
            let rows: Vec<(u64, String)> = rows.map(|row| (row.number, row.text)).collect();
            assert_eq!(
                rows,
                expected
                    .iter()
                    .map(|(number, text)| (*number, (*text).to_owned()))
                    .collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn a_value_that_shows_an_undecided_status_ends_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let table = "id,product,language,rating,created_at,body,flag\n\
                     1,p,en,4,2024-02-29T12:00:00Z,Fine.,new\n\
                     2,p,en,4,2024-02-29T12:00:00Z,Bad.,on hold\n";
        let line = r#"{"id":1,"product":"p","language":"en","rating":4,"created_at":"2024-02-29T12:00:00Z","body":"","flag":"new"}"#;
        let lines = format!("{line}\n{}\n", line.replace("new", "on hold"));
        for (name, content, number) in [("a.csv", table, 3), ("a.jsonl", &lines, 2)] {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            let options = ["--set", "author=A"];
            let rows = ImportSource::open(&path, &reading(&options)).unwrap().rows;
            let rows: Vec<_> = rows.take(2).collect();
            assert!(rows[0].as_ref().unwrap().content.is_ok(), "{rows:?}");
            let error = rows[1].as_ref().unwrap_err();
            assert!(
                matches!(error, ImportError::Undecided(line, _) if *line == number),
                "{error}"
            );
            let error = error.to_string();
            assert!(error.contains("--drop flag"), "{error}");
        }
    }

    #[test]
    fn a_line_that_is_an_array_is_a_bad_row_and_as_the_first_one_ends_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("comments.jsonl");
        let foreign = reading(&["--format", "json-lines"]);
        for (reading, content, expected) in [
            (
                ReadingArgs::default(),
                "{}\n[]",
                [Some("missing field"), Some("JSON Lines")],
            ),
            (
                foreign.clone(),
                "{}\n[]",
                [Some("id: "), Some("JSON Lines")],
            ),
            (
                foreign.clone(),
                "1\n{",
                [Some("expected a map"), Some("a whole JSON object")],
            ),
            (
                ReadingArgs::default(),
                "{\"id\": \"a\nb\"}",
                [
                    Some("a line feed within a text is written \\n"),
                    Some("expected value"),
                ],
            ),
            (foreign, "[{\n}", [None; 2]),
            (ReadingArgs::default(), "[]", [None; 2]),
        ] {
            std::fs::write(&path, content).unwrap();
            let mut rows = ImportSource::open(&path, &reading).unwrap().rows;
            for expected in expected {
                match (rows.next().unwrap(), expected) {
                    (Ok(row), Some(expected)) => {
                        let reason = row.content.unwrap_err();
                        assert!(reason.contains(expected), "{content:?}: {reason}");
                    }
                    (Err(ImportError::Array(1)), None) => break,
                    (other, _) => panic!("{content:?}: {other:?}"),
                }
            }
        }
    }
}
