//! The rows to import, from a file of any format, and the reasons why they may end early. No more
//! than one is in memory.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Cursor, Read},
    path::Path,
};

use repair_job::Progress;
use serde_json::{Map, Value};
use table::{NewComment, Table, WriteError};

use super::{
    ImportError, ImportOptions, Outcome,
    comment::{CommentRow, NOT_LINES, described, read_row},
    product::{ProductRow, read_product},
    reading::{Format, ReadingArgs},
    separated,
};
use crate::compression::Compression;

/// The longest line, and the longest row of a table. A comment at every limit takes some 62,000
/// bytes of escaped JSON.
pub(super) const LINE_MAX_BYTES: usize = 1 << 20;

/// The byte order mark with which some programs begin a UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The number of a line, from 1, and its bytes, or why it cannot be read.
pub(super) type NumberedLine = (u64, Result<Vec<u8>, String>);

pub struct LineReader {
    bytes: Box<dyn BufRead + Send>,
    compression: Compression,
    number: u64,
    /// Its steps are the bytes of the file.
    progress: Progress,
}

/// A file whose bytes are steps of the progress, as soon as they are used. Those that only wait in
/// a buffer are none.
struct Counted<F>(F, Progress);

impl<F: BufRead> Read for Counted<F> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(to)?;
        self.1.advance(count as u64);
        Ok(count)
    }
}

impl<F: BufRead> BufRead for Counted<F> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.1.advance(count as u64);
        self.0.consume(count);
    }
}

impl LineReader {
    /// Opens a file; `-` is the standard input. Its first bytes say whether it is compressed.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(if path == Path::new("-") {
            Path::new("/dev/stdin")
        } else {
            path
        })?;
        let progress = Progress::default();
        progress.expect(file.metadata()?.len());
        let mut magic = Vec::new();
        file.by_ref().take(4).read_to_end(&mut magic)?;
        let compression = Compression::of_start(&magic);
        let file = Counted(
            BufReader::new(Cursor::new(magic).chain(file)),
            progress.clone(),
        );
        Ok(Self {
            bytes: compression.reader(file)?,
            compression,
            number: 0,
            progress,
        })
    }

    fn read(&mut self) -> io::Result<Option<NumberedLine>> {
        let mut line = Vec::new();
        let limit = LINE_MAX_BYTES as u64;
        if self
            .bytes
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut line)?
            == 0
        {
            return Ok(None);
        }
        self.number += 1;
        let is_cut = line.len() == LINE_MAX_BYTES && !line.ends_with(b"\n");
        if self.number == 1 && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        if is_cut {
            self.bytes.skip_until(b'\n')?;
            let too_long = format!("is longer than {LINE_MAX_BYTES} bytes");
            return Ok(Some((
                self.number,
                Err(if line.starts_with(b"[") {
                    NOT_LINES.to_owned()
                } else {
                    too_long
                }),
            )));
        }
        Ok(Some((self.number, Ok(line))))
    }
}

impl Iterator for LineReader {
    type Item = Result<NumberedLine, ImportError>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read().map_err(|source| match self.compression {
            Compression::None => ImportError::File(self.number, source),
            packed @ (Compression::Gzip | Compression::Zstd) => ImportError::Broken {
                compression: packed.name(),
                line: self.number,
                source,
            },
        });
        read.transpose()
    }
}

#[derive(Debug)]
pub(super) enum Content {
    Comment(CommentRow),
    Product(ProductRow),
}

impl Content {
    /// What it is stored under. Rows with one key are imported in order.
    pub(super) fn key(&self) -> &str {
        match self {
            Self::Comment(row) => row.comment.id.as_str(),
            Self::Product(row) => row.product.as_str(),
        }
    }

    /// Writes it unless it is there, or as the options say.
    pub(super) async fn import(
        &self,
        table: &Table,
        options: &ImportOptions,
    ) -> Result<Outcome, WriteError> {
        match self {
            Self::Comment(row) => row.import(table, options).await,
            Self::Product(row) => row.import(table, options).await,
        }
    }
}

#[derive(Debug)]
pub(super) struct Row {
    /// The number of its first line, from 1.
    pub(super) number: u64,
    /// What the row says, or the reason why it says nothing.
    pub(super) content: Result<Content, String>,
    pub(super) text: String,
    /// What may be wrong with the row although it can be imported.
    pub(super) doubt: Option<&'static str>,
}

impl Row {
    pub(super) fn new(number: u64, content: Result<Content, String>, text: String) -> Self {
        Self {
            number,
            content,
            text,
            doubt: None,
        }
    }
}

pub(super) type Rows = Box<dyn Iterator<Item = Result<Row, ImportError>> + Send>;

/// Comments, or records of products, to import. An error ends the import.
pub struct Source {
    /// What messages call it: a file's path.
    pub(crate) name: String,
    pub(super) rows: Rows,
    pub(crate) progress: Progress,
}

impl Source {
    pub fn open(path: &Path, reading: &ReadingArgs) -> io::Result<Self> {
        let reading = reading.clone();
        Self::of_file(path, |lines| {
            match reading.format.unwrap_or_else(|| Format::of_name(path)) {
                // A misspelt field is not lost: lines of an export have no other fields.
                Format::JsonLines if reading == ReadingArgs::default() => {
                    json_rows(lines, |line| read_row(line).map(Content::Comment))
                }
                Format::JsonLines => json_rows(lines, move |line| {
                    let row: Map<String, Value> =
                        serde_json::from_slice(line).map_err(|error| described(&error))?;
                    reading.comment(&row).map(Content::Comment)
                }),
                Format::Csv => separated::rows(lines, b',', reading),
                Format::Semicolons => separated::rows(lines, b';', reading),
                Format::Tsv => separated::rows(lines, b'\t', reading),
            }
        })
    }

    /// A file of products' records, as an export writes it.
    pub fn of_products(path: &Path) -> io::Result<Self> {
        Self::of_file(path, |lines| {
            json_rows(lines, |line| read_product(line).map(Content::Product))
        })
    }

    fn of_file(path: &Path, rows: impl FnOnce(LineReader) -> Rows) -> io::Result<Self> {
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
        let (comments, progress) = (comments.into_iter(), Progress::default());
        progress.expect(comments.size_hint().1.unwrap_or_default() as u64);
        let shown = progress.clone();
        let rows = (1..).zip(comments).map(move |(number, comment)| {
            shown.advance(1);
            Ok(Row::new(
                number,
                Ok(Content::Comment(comment.into())),
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

/// The rows of JSON Lines without blank ones, each by `parse`. A file that is one array is an
/// error.
fn json_rows(
    lines: LineReader,
    parse: impl Fn(&[u8]) -> Result<Content, String> + Send + 'static,
) -> Rows {
    let mut is_first = true;
    let mut row = move |(number, line): NumberedLine| {
        let line = match line {
            Ok(line) => line,
            Err(reason) => return Ok(Some(Row::new(number, Err(reason), String::new()))),
        };
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        let (is_first, is_array) = (std::mem::take(&mut is_first), line.starts_with(b"["));
        if is_first && is_array {
            return Err(ImportError::Array(number));
        }
        let content = if is_array {
            Err(NOT_LINES.to_owned())
        } else {
            parse(line)
        };
        Ok(Some(Row::new(
            number,
            content,
            String::from_utf8_lossy(line).into_owned(),
        )))
    };
    Box::new(lines.filter_map(move |line| line.and_then(&mut row).transpose()))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        reading: ReadingArgs,
    }

    pub(crate) fn reader_of(content: &[u8]) -> LineReader {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        LineReader::open(file.path()).unwrap()
    }

    fn lines_of(content: &[u8]) -> Vec<NumberedLine> {
        reader_of(content).map(Result::unwrap).collect()
    }

    #[test]
    fn rows_have_the_numbers_of_their_lines_without_blank_ones_and_a_byte_order_mark() {
        for (content, expected) in [
            ("a\r\n\n  \nb", &[(1, "a"), (4, "b")][..]),
            ("\u{feff}a\nb", &[(1, "a"), (2, "b")]),
            ("\u{feff}\nb", &[(2, "b")]),
            ("a\n\u{feff}b", &[(1, "a"), (2, "\u{feff}b")]),
        ] {
            let rows = json_rows(reader_of(content.as_bytes()), |_| Err(String::new()))
                .map(Result::unwrap);
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
    fn the_progress_is_the_share_of_the_bytes_whose_rows_were_read() {
        let mut lines = reader_of("0123456\n".repeat(10).as_bytes());
        let progress = lines.progress.clone();
        let mut share_of_next = || lines.next().map(|_| progress.share());
        assert_eq!([share_of_next(), share_of_next()], [Some(0.1), Some(0.2)]);
    }

    #[test]
    fn a_line_without_end_is_refused_and_the_next_is_read() {
        let mut content = vec![b'x'; 3 << 20];
        content.extend(b"\nb\n");
        let lines = lines_of(&content);
        assert!(lines[0].1.is_err());
        assert_eq!(lines[1], (2, Ok(b"b\n".to_vec())));
    }

    #[test]
    fn an_array_in_one_long_line_is_named() {
        let lines = lines_of(format!("[{}]", "1,".repeat(1 << 20)).as_bytes());
        assert_eq!(lines, [(1, Err(NOT_LINES.to_owned()))]);
    }

    #[test]
    fn a_line_that_is_an_array_is_a_bad_row_and_as_the_first_one_ends_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("comments.jsonl");
        let foreign = Command::parse_from(["import", "--format", "json-lines"]).reading;
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
            (foreign, "[{\n}", [None; 2]),
            (ReadingArgs::default(), "[]", [None; 2]),
        ] {
            std::fs::write(&path, content).unwrap();
            let mut rows = Source::open(&path, &reading).unwrap().rows;
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
