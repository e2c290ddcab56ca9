//! Tables whose cells are separated by commas (RFC 4180), semicolons or tabs. The first row names the columns.

use std::io::{self, Read};

use csv::{ByteRecord, ErrorKind, ReaderBuilder};
use serde_json::Value;

use super::{
    input_file::InputFile,
    line::printable,
    mapping::{Mapping, Row},
    reader::BYTE_ORDER_MARK,
    source::{Numbered, SourceError},
};

/// The most bytes that are read for one row. A comment at every limit takes some 20,000 of them.
const ROW_MAX_BYTES: usize = 1 << 20;

/// Bytes, of which only so many may be read until more are allowed. So a quote that is never closed does not read the
/// rest of the file into memory.
struct Limited<R> {
    bytes: R,
    left: usize,
    quotes: Quotes,
    is_at_end: bool,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let length = buffer.len().min(self.left);
        let buffer = buffer.get_mut(..length).unwrap_or_default();
        let read = self.bytes.read(buffer)?;
        self.left -= read;
        self.is_at_end = read == 0 && length > 0;
        buffer.iter().take(read).for_each(|byte| self.quotes.see(*byte));
        Ok(read)
    }
}

impl<R> Limited<R> {
    /// The line of the quote that is open at the end of the file. The reader takes such a cell for a whole one.
    fn left_open(&self) -> Option<u64> {
        Some(self.quotes.opened_in).filter(|_| self.is_at_end && self.quotes.place == Place::Quoted)
    }
}

/// Where a byte stands in a row, by the rules of the crate `csv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    CellStart,
    /// In a cell, outside of quotes. A quote here is text.
    Cell,
    Quoted,
    /// Behind a quote inside quotes: it closes them, or is the first of two that stand for one.
    QuoteInQuotes,
}

/// Follows the quotes of a file.
#[derive(Debug)]
struct Quotes {
    /// What is left of the mark that may begin the file. The reader skips it, so a quote may follow it.
    mark: &'static [u8],
    delimiter: u8,
    place: Place,
    line: u64,
    opened_in: u64,
}

impl Quotes {
    fn new(delimiter: u8) -> Self {
        Self { mark: BYTE_ORDER_MARK, delimiter, place: Place::CellStart, line: 1, opened_in: 1 }
    }

    fn see(&mut self, byte: u8) {
        if let Some(rest) = self.mark.strip_prefix(&[byte]) {
            self.mark = rest;
            return;
        }
        self.mark = &[];
        self.line += u64::from(byte == b'\n');
        let is_end = byte == self.delimiter || matches!(byte, b'\n' | b'\r');
        self.place = match (self.place, byte) {
            (Place::Quoted, b'"') => Place::QuoteInQuotes,
            (Place::Quoted, _) | (Place::QuoteInQuotes, b'"') => Place::Quoted,
            (Place::CellStart, b'"') => {
                self.opened_in = self.line;
                Place::Quoted
            }
            (Place::CellStart | Place::Cell | Place::QuoteInQuotes, _) if is_end => Place::CellStart,
            (Place::CellStart | Place::Cell | Place::QuoteInQuotes, _) => Place::Cell,
        };
    }
}

/// The rows of a file, as comments, up to the first error.
pub(super) fn rows(
    file: InputFile,
    delimiter: u8,
    mapping: Mapping,
    keeps_text: bool,
) -> impl Iterator<Item = Result<Numbered, SourceError>> + Send + 'static {
    let (bytes, ended) = file.into_parts();
    let limited = Limited { bytes, left: ROW_MAX_BYTES, quotes: Quotes::new(delimiter), is_at_end: false };
    let mut reader = ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(limited);
    let failed = move |line: u64, error: csv::Error| {
        let problem = error.to_string();
        let ErrorKind::Io(error) = error.into_kind() else {
            return SourceError::Columns(printable(&format!("a row cannot be read: {problem}")));
        };
        if error.kind() == io::ErrorKind::FileTooLarge { SourceError::EndlessRow(line) } else { ended(line, error) }
    };
    let mut header: Option<Vec<String>> = None;
    // The reader counts line feeds only. So rows that end with other characters would have one number.
    let mut last = 1;
    std::iter::from_fn(move || {
        if header.is_none() {
            let named = reader.byte_headers().map_err(|error| failed(1, error));
            let named = named.and_then(|names| columns(names, &mapping));
            if let Some(line) = reader.get_ref().left_open() {
                return Some(Err(SourceError::OpenQuote(line)));
            }
            match named {
                Ok(names) => header = Some(names),
                Err(error) => return Some(Err(error)),
            }
        }
        reader.get_mut().left = ROW_MAX_BYTES;
        let line = reader.position().line().max(last + 1);
        let mut record = ByteRecord::new();
        match reader.read_byte_record(&mut record) {
            Ok(false) => None,
            Ok(true) if reader.get_ref().left_open().is_some() => {
                reader.get_ref().left_open().map(|line| Err(SourceError::OpenQuote(line)))
            }
            Ok(true) => {
                last = record.position().map_or(line, csv::Position::line).max(last + 1);
                let columns = header.as_deref().unwrap_or_default();
                Some(Ok(numbered(last, &record, columns, &mapping, keeps_text)))
            }
            Err(error) => Some(Err(failed(line, error))),
        }
    })
}

/// The names of the columns. Every required field must have one.
fn columns(names: &ByteRecord, mapping: &Mapping) -> Result<Vec<String>, SourceError> {
    let refused = |problem: String| SourceError::Columns(printable(&problem));
    let mut columns: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let name = std::str::from_utf8(name).map_err(|_| refused("its first row is not UTF-8".to_owned()))?.trim();
        if columns.iter().any(|column| column == name) {
            return Err(refused(format!("it has two columns {name:?}")));
        }
        columns.push(name.to_owned());
    }
    let missing = mapping.missing(columns.iter().map(String::as_str));
    let Some(field) = missing.first() else { return Ok(columns) };
    let fields: Vec<String> = missing.iter().map(ToString::to_string).collect();
    Err(refused(format!(
        "no column is named {}; --map {field}=COLUMN names another, --set {field}=TEXT gives one value to all; \
         its columns: {}",
        fields.join(", "),
        columns.join(", ")
    )))
}

fn numbered(number: u64, record: &ByteRecord, columns: &[String], mapping: &Mapping, keeps_text: bool) -> Numbered {
    let cells = record.iter().map(|cell| Value::from(String::from_utf8_lossy(cell)));
    let is_text = record.iter().all(|cell| std::str::from_utf8(cell).is_ok());
    let (row, content) = if record.len() == columns.len() {
        let row: Row = columns.iter().cloned().zip(cells).collect();
        let content = if is_text { mapping.comment(&row) } else { Err("is not UTF-8".to_owned()) };
        (Value::Object(row), content)
    } else {
        let reason = format!("has {} cells, but the first row names {} columns", record.len(), columns.len());
        (cells.collect(), Err(reason))
    };
    Numbered { number, content, text: if keeps_text { row.to_string() } else { String::new() } }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::import::MappingArgs;

    const HEADER: &str = "id,product,language,rating,created_at,body\n";

    fn read(content: &[u8]) -> Vec<Result<Numbered, SourceError>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        let mut rows = rows(InputFile::open(file.path()).unwrap(), b',', Mapping::new(MappingArgs::default()), true);
        let mut read = Vec::new();
        // An error is the end.
        while read.last().is_none_or(Result::is_ok) {
            match rows.next() {
                Some(row) => read.push(row),
                None => break,
            }
        }
        read
    }

    fn row(id: &str, body: &str) -> String {
        format!("{id},p,en,4,2024-02-29T12:00:00Z,{body}\n")
    }

    #[test]
    fn a_cell_may_hold_line_ends_and_quotes() {
        let content = format!("\u{feff}{HEADER}{}{}", row("1", "\"Fine,\r\nand \"\"cheap\"\".\""), row("2", "Bad."));
        let rows = read(content.as_bytes());
        let rows: Vec<_> = rows.into_iter().map(Result::unwrap).map(|row| (row.number, row.content.unwrap())).collect();
        let texts: Vec<_> =
            rows.iter().map(|(number, row)| (*number, row.id.as_str(), row.text.body.as_str())).collect();
        assert_eq!(texts, [(2, "1", "Fine,\r\nand \"cheap\"."), (4, "2", "Bad.")]);
    }

    #[test]
    fn a_bad_row_is_named_and_the_next_is_read() {
        let content = [HEADER.as_bytes(), b"1,p\n", row("2", "a").replace('a', "\u{1}").as_bytes()].concat();
        let content = [&content, row("3", "x").as_bytes(), b"4,p,en,4,2024-02-29T12:00:00Z,\xff\n"].concat();
        let rows: Vec<_> = read(&content).into_iter().map(Result::unwrap).collect();
        let reason = |at: usize| rows[at].content.as_ref().unwrap_err().as_str();
        assert_eq!(reason(0), "has 2 cells, but the first row names 6 columns");
        assert!(reason(1).contains("body"), "{}", reason(1));
        assert!(rows[2].content.is_ok());
        assert_eq!(reason(3), "is not UTF-8");
        assert_eq!(rows.iter().map(|row| row.number).collect::<Vec<_>>(), [2, 3, 4, 5]);
        assert_eq!(serde_json::from_str::<Value>(&rows[1].text).unwrap()["id"], "2");
    }

    #[test]
    fn a_quote_that_is_not_closed_ends_the_file_and_not_the_memory() {
        let endless = format!("{HEADER}{}2,\"{}", row("1", "a"), "x\n".repeat(ROW_MAX_BYTES));
        let rows = read(endless.as_bytes());
        assert!(rows[0].as_ref().is_ok_and(|row| row.content.is_ok()));
        assert!(matches!(rows[1], Err(SourceError::EndlessRow(3))), "{:?}", rows[1]);
    }

    #[test]
    fn a_quote_that_is_open_at_the_end_of_the_file_is_named_by_its_line() {
        let good = row("1", "\"5\"\" disk\"") + &row("2", "5\" disk");
        for (rows, expected) in [
            (good.clone(), None),
            (good.trim_end().to_owned() + "\r", None),
            (good.clone() + &row("3", "\"Fine.\nAnd"), Some(4)),
            (good.clone() + "3,p,en,4,2024-02-29T12:00:00Z,\"", Some(4)),
            (good.clone() + &row("3", "\"Fine.\n\"\"").replace("\"\"\n", "\"\""), Some(4)),
            (good + &row("\"3\n", "Fine."), Some(4)),
        ] {
            let read = read(format!("\u{feff}{HEADER}{rows}").as_bytes());
            let ended = read.iter().find_map(|row| row.as_ref().err());
            let line = ended.map(|error| match error {
                SourceError::OpenQuote(line) => *line,
                other => panic!("{other}"),
            });
            assert_eq!(line, expected, "{rows:?}");
            assert_eq!(read.iter().filter(|row| row.is_ok()).count(), 2, "{rows:?}");
        }
        let refused = read("\u{feff}\"id,product".as_bytes()).remove(0).unwrap_err();
        assert!(matches!(refused, SourceError::OpenQuote(1)), "{refused}");
    }

    #[test]
    fn a_first_row_without_the_required_columns_is_refused_with_advice() {
        for (content, expected) in [
            ("id,stars\n1,4\n", "no column is named product, language, rating, created_at, body; --map product=COLUMN"),
            ("id,id\n", "two columns \"id\""),
            ("", "no column is named id"),
        ] {
            let refused = read(content.as_bytes()).remove(0).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
