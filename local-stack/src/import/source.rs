//! The rows to import, from a file of any format, and the reasons why they may end early. No more than one is in memory.

use std::{
    fs::File,
    io::{self, BufRead, Cursor, Read},
    path::Path,
    pin::Pin,
};

use clap::ValueEnum;
use indicatif::ProgressBar;
use serde::de::IgnoredAny;
use serde_json::Value;
use table::NewComment;
use thiserror::Error;

use super::{
    comment::{CommentRow, NOT_LINES, printable, read_row},
    mapping::{Mapping, ReadingArgs},
    separated,
};
use crate::compression::Compression;

/// The longest line, and the longest row of a table. A comment at every limit takes some 62,000 bytes of escaped JSON.
pub(super) const LINE_MAX_BYTES: usize = 1 << 20;

/// The byte order mark with which some programs begin a UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The number of a line, from 1, and its bytes, or why it cannot be read.
pub(super) type NumberedLine = (u64, Result<Vec<u8>, String>);

/// A file of comments or records.
pub struct LineReader {
    bytes: Box<dyn BufRead + Send>,
    compression: Compression,
    number: u64,
    /// How many of the file's bytes have been read. It is not shown.
    pub progress: ProgressBar,
}

impl LineReader {
    /// Opens a file; `-` is the standard input. Its first bytes say whether it is compressed.
    ///
    /// # Errors
    /// The file system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(if path == Path::new("-") { Path::new("/dev/stdin") } else { path })?;
        let progress = ProgressBar::hidden();
        progress.set_length(file.metadata()?.len());
        let mut magic = Vec::new();
        file.by_ref().take(4).read_to_end(&mut magic)?;
        let compression = Compression::of_start(&magic);
        let file = progress.wrap_read(Cursor::new(magic).chain(file));
        Ok(Self { bytes: compression.reader(file)?, compression, number: 0, progress })
    }

    /// The next line that is not blank, without the spaces around it; `None` at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read any further, for example because its compressed data is broken.
    pub fn next_line(&mut self) -> Result<Option<NumberedLine>, SourceError> {
        while let Some((number, line)) = self.next_raw()? {
            let line = line.map(|line| line.trim_ascii().to_vec());
            let is_blank = line.as_ref().is_ok_and(Vec::is_empty);
            if !is_blank {
                return Ok(Some((number, line)));
            }
        }
        Ok(None)
    }

    pub(super) fn next_raw(&mut self) -> Result<Option<NumberedLine>, SourceError> {
        self.read_raw().map_err(|source| self.ended(source))
    }

    fn read_raw(&mut self) -> io::Result<Option<NumberedLine>> {
        let mut line = Vec::new();
        let limit = LINE_MAX_BYTES as u64;
        if self.bytes.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
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
            return Ok(Some((self.number, Err(if line.starts_with(b"[") { NOT_LINES.to_owned() } else { too_long }))));
        }
        Ok(Some((self.number, Ok(line))))
    }

    fn ended(&self, source: io::Error) -> SourceError {
        use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
        // The kinds by which the decoders report broken data.
        let is_broken = matches!(source.kind(), InvalidInput | InvalidData | UnexpectedEof | Other);
        if self.compression != Compression::None && is_broken {
            SourceError::Broken { compression: self.compression.name(), line: self.number, source }
        } else {
            SourceError::File(self.number, source)
        }
    }
}

/// One comment or record to import, or what stands in its place.
#[derive(Debug)]
pub(super) struct Row<T> {
    /// The number of its first line, from 1.
    pub(super) number: u64,
    /// What the row says, or the reason why it says nothing.
    pub(super) content: Result<T, String>,
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
    pub fn of_comments(comments: impl IntoIterator<Item = NewComment, IntoIter: Send> + 'static) -> Self {
        let row = |(number, comment)| Ok(Row { number, content: Ok(CommentRow::from(comment)), text: String::new() });
        Self::of_rows((1..).zip(comments).map(row))
    }
}

/// Reads a file of comments as an export writes it.
pub fn read_lines(reader: LineReader) -> Source {
    json_rows(reader, read_row)
}

/// Reads a file of JSON Lines, each by `parse`. A file that is one array over several lines is an error.
pub fn json_rows<T: 'static>(
    mut reader: LineReader,
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
            Some(Ok(Row { number, content: parse(&line), text: String::from_utf8_lossy(&line).into_owned() }))
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
}

impl Reading {
    pub fn new(args: ReadingArgs) -> Self {
        Self { format: args.format, is_foreign: args != ReadingArgs::default(), mapping: Mapping::new(args) }
    }

    pub fn source(&self, path: &Path, reader: LineReader) -> Source {
        let mapping = self.mapping.clone();
        let delimiter = match self.format.unwrap_or_else(|| Format::of_name(path)) {
            // A misspelt field is not lost: lines of an export have no other fields.
            Format::JsonLines if !self.is_foreign => return json_rows(reader, read_row),
            Format::JsonLines => return json_rows(reader, move |line| foreign_line(line, &mapping)),
            Format::Csv => b',',
            Format::Semicolons => b';',
            Format::Tsv => b'\t',
        };
        Source::of_rows(separated::rows(reader, delimiter, mapping))
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
pub(crate) mod tests {
    use std::io::Write;

    use super::*;

    pub(crate) fn reader_of(content: &[u8]) -> LineReader {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        LineReader::open(file.path()).unwrap()
    }

    fn lines_of(content: &[u8]) -> Vec<NumberedLine> {
        let mut reader = reader_of(content);
        std::iter::from_fn(|| reader.next_line().unwrap()).collect()
    }

    #[test]
    fn lines_keep_their_numbers_without_blank_lines_and_a_byte_order_mark() {
        for (content, expected) in [
            ("a\r\n\n  \nb", &[(1, "a"), (4, "b")][..]),
            ("\u{feff}a\nb", &[(1, "a"), (2, "b")]),
            ("\u{feff}\nb", &[(2, "b")]),
            ("a\n\u{feff}b", &[(1, "a"), (2, "\u{feff}b")]),
        ] {
            let expected: Vec<NumberedLine> =
                expected.iter().map(|(number, text)| (*number, Ok(text.as_bytes().to_vec()))).collect();
            assert_eq!(lines_of(content.as_bytes()), expected);
        }
    }

    #[test]
    fn a_line_without_end_is_refused_and_the_next_is_read() {
        let mut content = vec![b'x'; 3 << 20];
        content.extend(b"\nb\n");
        let lines = lines_of(&content);
        assert!(lines[0].1.is_err());
        assert_eq!(lines[1], (2, Ok(b"b".to_vec())));
    }

    #[test]
    fn an_array_in_one_long_line_is_named() {
        let lines = lines_of(format!("[{}]", "1,".repeat(1 << 20)).as_bytes());
        assert_eq!(lines, [(1, Err(NOT_LINES.to_owned()))]);
    }

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
        for (line, expected) in [("[]", "JSON Lines"), ("1", "not a JSON object"), ("{", "not JSON"), ("{}", "id: ")] {
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
