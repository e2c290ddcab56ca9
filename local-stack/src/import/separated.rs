//! Tables whose cells are separated by commas, semicolons or tabs. The first row names the columns.
//!
//! The crate `csv` splits a row into cells. Before, each row is checked for quotes, so that none
//! swallows other rows:
//!
//! - A quote inside a cell that does not begin with one is text.
//! - With commas, a cell that begins with a quote ends with one, and may hold line ends (RFC 4180).
//!   Text behind its closing quote makes its first line a bad row, and the next line begins a new
//!   one. A quote that is never closed ends the import.
//! - Spreadsheets write columns that once held something: without a name, and without a value in
//!   any row. Rows of empty cells alone are none, and cells beside the named columns may be missing
//!   where no field takes them.
//! - A carriage return ends a row only where it also ends the first one. Elsewhere it is text:
//!   `mariadb -B` escapes a line feed, but not a carriage return.
//! - Many programs write tables with tabs without any quoting. So quotes count only in a row where
//!   they are whole: each cell that begins with a quote ends with one, and no such cell holds both
//!   a tab and a line end. In every other row, quotes are text, and the row ends with its line.

use std::collections::VecDeque;

use csv::{ReaderBuilder, StringRecord, Terminator};
use serde_json::{Map, Value};

use super::{
    ImportError,
    comment::printable,
    database,
    fields::remedy,
    kind,
    lines::{LINE_MAX_BYTES, LineReader, NumberedLine},
    options::ReadingArgs,
    row::{ImportRow, ImportRows, RowContent},
};

const HAS_ESCAPES: &str =
    "holds \\n, \\t or \\\\ as text: if a database wrote the file, --format database reads them";
const LATE_NULL: &str = "has a cell \\N, by which databases write no value, but rows before it were read without escapes; import the file with --format database";
const NOT_UTF_8: &str =
    "is not UTF-8; `iconv -f WINDOWS-1252 -t UTF-8 FILE` converts a file of many older programs";
const SPANS_ROWS: &str = "a cell holds what looks like the end of one row and the beginning of another: is a quote missing?";

/// Where in a cell the next byte stands.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum CellPosition {
    #[default]
    Start,
    Plain,
    Quoted,
    /// Behind a quote that closes the cell, or is the first of two that stand for one.
    Closed,
}

/// How far the quotes of a row have been followed.
#[derive(Default)]
struct Quotes {
    position: CellPosition,
    /// Whether the quoted cell holds them.
    has_tab: bool,
    has_line_end: bool,
}

impl Quotes {
    /// Follows the quotes over further bytes of the row. `false` if text stands behind a closing
    /// quote, or if in a table with tabs a cell holds both a tab and a line end.
    fn follow(&mut self, bytes: &[u8], delimiter: u8, cr_ends_rows: bool) -> bool {
        for byte in bytes {
            let is_closed = self.position == CellPosition::Closed;
            let is_cr_end = *byte == b'\r' && (cr_ends_rows || is_closed);
            let ends_cell = *byte == delimiter || *byte == b'\n' || is_cr_end;
            self.position = match (self.position, byte) {
                (CellPosition::Start, b'"') => {
                    *self = Self::default();
                    CellPosition::Quoted
                }
                (CellPosition::Closed, b'"') => CellPosition::Quoted,
                (CellPosition::Quoted, b'"') => CellPosition::Closed,
                (CellPosition::Quoted, byte) => {
                    self.has_tab |= *byte == b'\t';
                    self.has_line_end |= *byte == b'\n';
                    CellPosition::Quoted
                }
                (CellPosition::Start | CellPosition::Plain | CellPosition::Closed, _)
                    if ends_cell =>
                {
                    CellPosition::Start
                }
                (CellPosition::Start | CellPosition::Plain, _) => CellPosition::Plain,
                (CellPosition::Closed, _) => return false,
            };
            if delimiter == b'\t' && self.has_tab && self.has_line_end {
                return false;
            }
        }
        true
    }
}

/// What a backslash means in a table with tabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escapes {
    /// No line so far has one. The first that has decides, with the lines of the next
    /// [`LINE_MAX_BYTES`]: a cell `\N` among them says that a database wrote the table.
    NotSeen,
    Count,
    AreText,
}

/// What the quotes of a row mean.
enum Quoting {
    /// They are text, and backslashes escape.
    Escaped,
    /// They enclose cells, which may hold delimiters and line ends.
    Counts,
    /// They are text, like every other character.
    IsText,
    /// The row cannot be read, for this reason.
    Wrong(String),
}

/// The rows of a file, as comments, up to the first error.
pub(super) fn rows(
    lines: LineReader,
    delimiter: u8,
    escapes: Escapes,
    reading: ReadingArgs,
) -> ImportRows {
    let mut table = SeparatedRows {
        lines,
        ahead: VecDeque::new(),
        broken: None,
        delimiter,
        escapes,
        columns: None,
        cr_ends_rows: false,
        reading,
    };
    // A line has several rows if a program ends them with carriage returns alone.
    Box::new(
        std::iter::from_fn(move || table.next().transpose()).flat_map(|rows| match rows {
            Ok(rows) => rows.into_iter().map(Ok).collect(),
            Err(ended) => vec![Err(ended)],
        }),
    )
}

struct SeparatedRows {
    lines: LineReader,
    /// Lines that were read, but belong to later rows.
    ahead: VecDeque<NumberedLine>,
    /// Why there are no lines behind those.
    broken: Option<ImportError>,
    delimiter: u8,
    escapes: Escapes,
    columns: Option<Vec<String>>,
    /// Whether the first row ends with a carriage return alone.
    cr_ends_rows: bool,
    reading: ReadingArgs,
}

impl SeparatedRows {
    /// The rows of the next line, and of the lines on which its last cell continues.
    fn next(&mut self) -> Result<Option<Vec<ImportRow>>, ImportError> {
        let Some((number, line)) = self.next_line()? else {
            // A file without a first row has no columns.
            if self.columns.is_none() {
                self.named(&StringRecord::new())?;
            }
            return Ok(None);
        };
        let mut bytes = Vec::new();
        let quoting = match line {
            Ok(line) => {
                if self.columns.is_none() {
                    if let Some(problem) = kind::of_table_line(line.trim_ascii_end()) {
                        return Err(ImportError::WrongKind(problem.to_owned()));
                    }
                    self.cr_ends_rows = without_line_end(&line).contains(&b'\r');
                }
                self.see_escapes(&line);
                bytes = line;
                self.complete_row(number, &mut bytes)?
            }
            Err(reason) => Quoting::Wrong(reason),
        };
        let records = match quoting {
            Quoting::Counts => self.records(&bytes, true),
            Quoting::IsText => self.records(&bytes, false),
            Quoting::Escaped => match std::str::from_utf8(&bytes) {
                Ok(row) => Ok(vec![database::cells(row).into()]),
                Err(_) => Err(NOT_UTF_8.to_owned()),
            },
            Quoting::Wrong(reason) => Err(reason),
        };
        let mut rows = Vec::new();
        match records {
            Ok(records) => {
                for record in records {
                    match &self.columns {
                        Some(_) if record.iter().all(|cell| cell.trim().is_empty()) => {}
                        Some(columns) => rows.push(self.row(number, &record, columns)?),
                        None => self.columns = Some(self.named(&record)?),
                    }
                }
            }
            Err(reason) if self.columns.is_none() => {
                return Err(ImportError::Columns(format!("its first row {reason}")));
            }
            Err(reason) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                rows.push(ImportRow::new(number, Err(reason), text));
            }
        }
        Ok(Some(rows))
    }

    fn next_line(&mut self) -> Result<Option<NumberedLine>, ImportError> {
        if let Some(line) = self.ahead.pop_front() {
            return Ok(Some(line));
        }
        if let Some(broken) = self.broken.take() {
            return Err(broken);
        }
        self.lines.next().transpose()
    }

    /// Decides what backslashes mean, if this line is the first that has one.
    fn see_escapes(&mut self, line: &[u8]) {
        if self.escapes != Escapes::NotSeen || !line.contains(&b'\\') {
            return;
        }
        let mut bytes = 0;
        let mut has_null = database::has_null(line);
        while !has_null && bytes < LINE_MAX_BYTES {
            match self.lines.next() {
                Some(Ok(line)) => {
                    bytes += line.1.as_ref().map(Vec::len).unwrap_or(LINE_MAX_BYTES);
                    self.ahead.push_back(line);
                }
                Some(Err(broken)) => {
                    self.broken = Some(broken);
                    break;
                }
                None => break,
            }
            has_null = self
                .ahead
                .back()
                .is_some_and(|(_, line)| line.as_ref().is_ok_and(|line| database::has_null(line)));
        }
        has_null |= self
            .ahead
            .iter()
            .any(|(_, line)| line.as_ref().is_ok_and(|line| database::has_null(line)));
        self.escapes = if has_null {
            Escapes::Count
        } else {
            Escapes::AreText
        };
    }

    /// Adds to the first line of a row with escapes those behind its escaped line ends.
    fn complete_escaped_row(&mut self, bytes: &mut Vec<u8>) -> Result<(), ImportError> {
        while database::continues(bytes) && bytes.len() <= LINE_MAX_BYTES {
            match self.next_line()? {
                Some((_, Ok(line))) => bytes.extend(line),
                Some(line) => {
                    self.ahead.push_front(line);
                    break;
                }
                None => break,
            }
        }
        Ok(())
    }

    /// Adds to the first line of a row those on which a quoted cell continues, and says what its
    /// quotes mean. Where they do not count, the row is its first line alone.
    fn complete_row(&mut self, number: u64, bytes: &mut Vec<u8>) -> Result<Quoting, ImportError> {
        if self.escapes == Escapes::Count {
            self.complete_escaped_row(bytes)?;
            return Ok(Quoting::Escaped);
        }
        if self.delimiter == b'\t' && database::has_null(bytes) {
            return Ok(Quoting::Wrong(LATE_NULL.to_owned()));
        }
        let first_line_bytes = bytes.len();
        let mut further_lines = Vec::new();
        let mut quotes = Quotes::default();
        let mut is_right = quotes.follow(bytes, self.delimiter, self.cr_ends_rows);
        while is_right && quotes.position == CellPosition::Quoted && bytes.len() <= LINE_MAX_BYTES {
            let Some(line) = self.next_line()? else { break };
            let Ok(text) = &line.1 else {
                self.ahead.push_front(line);
                break;
            };
            is_right = quotes.follow(text, self.delimiter, self.cr_ends_rows);
            bytes.extend(text);
            further_lines.push(line);
        }
        let has_tabs = self.delimiter == b'\t';
        if is_right && quotes.position != CellPosition::Quoted {
            return Ok(Quoting::Counts);
        }
        if is_right && !has_tabs {
            return Err(ImportError::OpenQuote(number));
        }
        bytes.truncate(first_line_bytes);
        for line in further_lines.into_iter().rev() {
            self.ahead.push_front(line);
        }
        if has_tabs {
            return Ok(Quoting::IsText);
        }
        let reason = "has text behind a closing quote; in quotes, two quotes stand for one";
        Ok(Quoting::Wrong(reason.to_owned()))
    }

    fn records(&self, bytes: &[u8], quoting: bool) -> Result<Vec<StringRecord>, String> {
        let mut reader = ReaderBuilder::new();
        let mut bytes = bytes;
        if !self.cr_ends_rows {
            bytes = without_line_end(bytes);
            reader.terminator(Terminator::Any(b'\n'));
        }
        let reader = reader
            .delimiter(self.delimiter)
            .quoting(quoting)
            .has_headers(false)
            .flexible(true);
        let records = reader
            .buffer_capacity(bytes.len())
            .from_reader(bytes)
            .into_records();
        // It refuses nothing else.
        records
            .collect::<Result<_, _>>()
            .map_err(|_| NOT_UTF_8.to_owned())
    }

    fn row(
        &self,
        number: u64,
        record: &StringRecord,
        columns: &[String],
    ) -> Result<ImportRow, ImportError> {
        let mut cells: Vec<&str> = record.iter().collect();
        while cells.len() > columns.len() && cells.last().is_some_and(|cell| cell.is_empty()) {
            cells.pop();
        }
        while let Some(column) = columns.get(cells.len())
            && !self.reading.takes(column)
        {
            cells.push("");
        }
        if cells.len() != columns.len() {
            let reason = format!(
                "has {} cells, but the first row names {} columns",
                cells.len(),
                columns.len()
            );
            let text = Value::from(cells).to_string();
            return Ok(ImportRow::new(number, Err(reason), text));
        }
        let row = named_cells(columns, &cells);
        let content = self.reading.comment(&row).map(RowContent::Comment);
        let doubt = if self.spans_rows(&cells, columns) {
            Some(SPANS_ROWS)
        } else if self.has_escapes(&cells) {
            Some(HAS_ESCAPES)
        } else {
            None
        };
        let text = Value::from(row).to_string();
        let row = ImportRow::read(number, content, text)?;
        Ok(ImportRow { doubt, ..row })
    }

    /// Whether a table with tabs may come from a database although no cell is `\N`.
    fn has_escapes(&self, cells: &[&str]) -> bool {
        let may_have = self.delimiter == b'\t' && self.escapes == Escapes::AreText;
        may_have
            && cells.iter().any(|cell| {
                ["\\n", "\\t", "\\\\"]
                    .iter()
                    .any(|escape| cell.contains(escape))
            })
    }

    /// Whether a quoted cell begins in one good row and ends in another one, if its quotes are
    /// taken for text.
    fn spans_rows(&self, cells: &[&str], columns: &[String]) -> bool {
        let delimiter = char::from(self.delimiter);
        for (at, cell) in cells.iter().enumerate() {
            let Some((first_line, rest)) = cell.split_once('\n') else {
                continue;
            };
            let last_line = rest.rsplit('\n').next().unwrap_or_default();
            let opened = format!("\"{}", first_line.trim_end());
            let closed = format!("{last_line}\"");
            let mut first_row: Vec<&str> = cells.iter().take(at).copied().collect();
            first_row.extend(opened.split(delimiter));
            let mut last_row: Vec<&str> = closed.split(delimiter).collect();
            last_row.extend(cells.iter().skip(at + 1));
            if self.is_good(&first_row, columns) && self.is_good(&last_row, columns) {
                return true;
            }
        }
        false
    }

    /// Whether these cells are a row that can be imported.
    fn is_good(&self, cells: &[&str], columns: &[String]) -> bool {
        cells.len() == columns.len() && self.reading.comment(&named_cells(columns, cells)).is_ok()
    }

    /// The names of the columns. Every required field must have one.
    fn named(&self, names: &StringRecord) -> Result<Vec<String>, ImportError> {
        let names: Vec<&str> = names.iter().map(str::trim).collect();
        let mut columns: Vec<String> = Vec::with_capacity(names.len());
        for name in &names {
            let name = self.reading.column_of_header(name, &names);
            let is_double = columns.iter().any(|column| column == name);
            if is_double && self.reading.takes(name) {
                return Err(refused(&format!("it has two columns {name:?}")));
            }
            columns.push(name.to_owned());
        }
        self.reading
            .check_status_names(&columns)
            .map_err(|why| refused(&why))?;
        let missing_for_id = self.reading.missing_for_id(&columns);
        if !missing_for_id.is_empty() {
            return Err(refused(&format!(
                "--id-from names {}, but its columns are: {}",
                missing_for_id.join(", "),
                columns.join(", ")
            )));
        }
        let missing = self.reading.missing(&columns);
        let Some(field) = missing.first() else {
            let omitted: Vec<&str> = columns
                .iter()
                .map(String::as_str)
                .filter(|name| !name.is_empty() && !self.reading.takes(name))
                .collect();
            if !omitted.is_empty() {
                eprintln!(
                    "pagemark: left out, because no field takes them: {}",
                    printable(&omitted.join(", "))
                );
            }
            return Ok(columns);
        };
        Err(refused(&format!(
            "no column is named {}; --map {field}=COLUMN names another, {}; its columns: {}",
            missing.join(", "),
            remedy(field),
            columns.join(", ")
        )))
    }
}

/// A row without a line feed at its end, and a carriage return before it.
fn without_line_end(row: &[u8]) -> &[u8] {
    let row = row.strip_suffix(b"\n").unwrap_or(row);
    row.strip_suffix(b"\r").unwrap_or(row)
}

/// The error of a first row whose columns cannot be used.
fn refused(problem: &str) -> ImportError {
    ImportError::Columns(printable(problem))
}

fn named_cells(columns: &[String], cells: &[&str]) -> Map<String, Value> {
    columns
        .iter()
        .cloned()
        .zip(cells.iter().copied().map(Value::from))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::lines::tests::reader_of;

    const HEADER: &str = "id,product,language,rating,created_at,body\n";

    fn read_with(delimiter: u8, content: &[u8]) -> Vec<Result<ImportRow, ImportError>> {
        let mut rows = rows(
            reader_of(content),
            delimiter,
            Escapes::NotSeen,
            ReadingArgs::default(),
        );
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

    fn read(content: &[u8]) -> Vec<Result<ImportRow, ImportError>> {
        read_with(b',', content)
    }

    fn row(id: &str, body: &str) -> String {
        format!("{id},p,en,4,2024-02-29T12:00:00Z,{body}\n")
    }

    /// The line and the body of each row, or the reason why it is bad.
    fn bodies(rows: Vec<Result<ImportRow, ImportError>>) -> Vec<(u64, Result<String, String>)> {
        rows.into_iter()
            .map(Result::unwrap)
            .map(|row| (row.number, row.content.map(body_of)))
            .collect()
    }

    fn body_of(content: RowContent) -> String {
        match content {
            RowContent::Comment(row) => row.comment.text.body.unwrap_or_default(),
            RowContent::Product(row) => panic!("{row:?} is no comment"),
        }
    }

    fn reason_of(row: &ImportRow) -> &str {
        row.content.as_ref().unwrap_err()
    }

    fn has_text_behind_a_quote(row: &(u64, Result<String, String>)) -> bool {
        let (_, body) = row;
        body.as_ref()
            .is_err_and(|reason| reason.contains("text behind a closing quote"))
    }

    /// A row whose second cell is the body.
    fn row_with_middle_body(id: &str, body: &str) -> String {
        format!("{id},{body},p,en,4,2024-02-29T12:00:00Z\n")
    }

    /// A table with tabs, whose rows have these bodies.
    fn table_with_tabs(bodies: &[&str]) -> Vec<u8> {
        let mut rows = HEADER.to_owned();
        for (id, body) in (1..).zip(bodies) {
            rows.push_str(&row(&format!("{id}"), body));
        }
        rows.replace(',', "\t").into_bytes()
    }

    #[test]
    fn a_cell_may_hold_line_ends_and_quotes() {
        let content = format!(
            "\u{feff}{HEADER}{}{}",
            row("1", "\"Fine,\r\n\nand \"\"cheap\"\".\""),
            row("2", "5\" disk.")
        );
        let expected = [(2, "Fine,\n\nand \"cheap\"."), (5, "5\" disk.")];
        assert_eq!(
            bodies(read(content.as_bytes())),
            expected.map(|(number, body)| (number, Ok(body.to_owned())))
        );
        // Some programs end rows with carriage returns alone.
        let content = format!("{HEADER}{}{}", row("1", "a"), row("2", "b")).replace('\n', "\r");
        assert_eq!(
            bodies(read(content.as_bytes())),
            ["a", "b"].map(|body| (1, Ok(body.to_owned())))
        );
    }

    #[test]
    fn a_carriage_return_within_a_row_is_text() {
        // `mariadb -B` escapes only line feeds.
        for (delimiter, end) in [(b'\t', "\n"), (b'\t', "\r\n"), (b',', "\r\n")] {
            let table = format!("{HEADER}{}{}", row("1", "one\rtwo"), row("2", "\"b\""));
            let table = table.replace(',', &char::from(delimiter).to_string());
            let content = table.replace('\n', end);
            let expected = [(2, Ok("one\ntwo".to_owned())), (3, Ok("b".to_owned()))];
            let found = bodies(read_with(delimiter, content.as_bytes()));
            assert_eq!(found, expected, "{content:?}");
        }
    }

    #[test]
    fn a_bad_row_is_named_and_the_next_is_read() {
        let content = [
            HEADER.as_bytes(),
            b"1,p\n",
            row("2", "a").replace('a', "\u{1}").as_bytes(),
        ]
        .concat();
        let content = [
            &content,
            row("3", "x").as_bytes(),
            b"4,p,en,4,2024-02-29T12:00:00Z,\xff\n",
        ]
        .concat();
        let rows: Vec<_> = read(&content).into_iter().map(Result::unwrap).collect();
        assert_eq!(
            reason_of(&rows[0]),
            "has 2 cells, but the first row names 6 columns"
        );
        let reason = reason_of(&rows[1]);
        assert!(reason.contains("body"), "{reason}");
        assert!(rows[2].content.is_ok());
        assert!(reason_of(&rows[3]).starts_with("is not UTF-8"));
        assert_eq!(
            rows.iter().map(|row| row.number).collect::<Vec<_>>(),
            [2, 3, 4, 5]
        );
        assert_eq!(
            serde_json::from_str::<Value>(&rows[1].text).unwrap()["id"],
            "2"
        );
    }

    #[test]
    fn text_behind_a_closing_quote_makes_a_bad_row_and_the_next_line_is_read() {
        let rows = [
            row("1", "\"Great machine"),
            row("2", "fine"),
            row("3", "\"done\" they said"),
            row("4", "last"),
        ];
        let read = bodies(read(format!("{HEADER}{}", rows.concat()).as_bytes()));
        assert!(
            has_text_behind_a_quote(&read[0]) && has_text_behind_a_quote(&read[2]),
            "{read:?}"
        );
        assert_eq!(
            read.iter().map(|(number, _)| *number).collect::<Vec<_>>(),
            [2, 3, 4, 5]
        );
        assert_eq!(
            (&read[1].1, &read[3].1),
            (&Ok("fine".to_owned()), &Ok("last".to_owned()))
        );
    }

    #[test]
    fn a_cell_that_looks_like_whole_rows_is_in_doubt() {
        let header = "id,body,product,language,rating,created_at\n";
        for (content, is_doubtful) in [
            (
                HEADER.to_owned() + &row("1", "\"Great") + &row("2", "fine\""),
                true,
            ),
            (
                HEADER.to_owned() + &row("1", "\"") + &row("2", "fine") + &row("3", "done\""),
                true,
            ),
            (
                header.to_owned()
                    + &row_with_middle_body("1", "\"Great")
                    + &row_with_middle_body("2", "done\""),
                true,
            ),
            (
                HEADER.to_owned() + &row("1", "\"One,\ntwo, three, four, five, six\""),
                false,
            ),
            (
                header.to_owned() + &row_with_middle_body("1", "\"Great, fine,\nand, well, done\""),
                false,
            ),
        ] {
            let rows: Vec<ImportRow> = read(content.as_bytes())
                .into_iter()
                .map(Result::unwrap)
                .collect();
            assert_eq!(
                (rows.len(), rows[0].content.is_ok()),
                (1, true),
                "{content}"
            );
            assert_eq!(rows[0].doubt.is_some(), is_doubtful, "{content}");
        }
    }

    #[test]
    fn headers_match_whatever_their_case_and_the_exact_one_is_taken() {
        let upper = HEADER.to_uppercase() + &row("1", "a");
        assert_eq!(bodies(read(upper.as_bytes())), [(2, Ok("a".to_owned()))]);
        let both = HEADER.replace("body", "Body,body") + &row("1", "a,b");
        assert_eq!(bodies(read(both.as_bytes())), [(2, Ok("b".to_owned()))]);
        let twice = HEADER.replace("body", "Body,BODY") + &row("1", "a,b");
        assert!(
            matches!(&read(twice.as_bytes())[0], Err(ImportError::Columns(why)) if why.contains("two columns \"body\""))
        );
    }

    #[test]
    fn columns_and_rows_without_content_are_passed_over() {
        let header = HEADER.trim_end();
        let good = row("1", "a");
        let row = good.trim_end();
        for content in [
            format!("{header},\n{row},\n"),
            format!("{header},,,\n{row},,,\n"),
            // Excel leaves out empty cells at the end of later rows.
            format!("{header},,\n{row}\n"),
            format!("{header},note,note\n{row},x,y\n"),
            format!("{header}\n{row}\n,,,,,\n, ,,,,\n"),
            format!("{header}\n{row},,\n"),
        ] {
            let found = bodies(read(content.as_bytes()));
            assert_eq!(found, [(2, Ok("a".to_owned()))], "{content}");
        }
        // Content beside the columns, or a missing cell of a field, is none of these.
        for content in [
            format!("{header}\n{row},x\n"),
            format!("{header},title\n{row}\n"),
        ] {
            let found = bodies(read(content.as_bytes()));
            let [(2, Err(reason))] = &found[..] else {
                panic!("{found:?}");
            };
            assert!(
                reason.contains("cells, but the first row names"),
                "{reason}"
            );
        }
    }

    #[test]
    fn quotes_in_a_table_with_tabs_count_only_where_they_are_whole() {
        for (texts, expected) in [
            // Whole: they may hold line ends, or tabs.
            (
                &["\"Fine.\"", "\"a \"\"b\"\"\"", "\"c\td\""][..],
                &[(2, "Fine."), (3, "a \"b\""), (4, "c\td")][..],
            ),
            (
                &["\"Fine.\n\nAnd \"\"cheap\"\".\"", "last"],
                &[(2, "Fine.\n\nAnd \"cheap\"."), (5, "last")],
            ),
            // Not whole: text.
            (
                &[
                    "\"Great machine",
                    "fine",
                    "well \"done\"",
                    "\"done\" they said",
                    "last",
                ],
                &[
                    (2, "\"Great machine"),
                    (3, "fine"),
                    (4, "well \"done\""),
                    (5, "\"done\" they said"),
                    (6, "last"),
                ],
            ),
            (
                &["\"Great", "fine", "5\""],
                &[(2, "\"Great"), (3, "fine"), (4, "5\"")],
            ),
            (&["fine", "\""], &[(2, "fine"), (3, "\"")]),
        ] {
            let expected: Vec<_> = expected
                .iter()
                .map(|(number, body)| (*number, Ok((*body).to_owned())))
                .collect();
            assert_eq!(bodies(read_with(b'\t', &table_with_tabs(texts))), expected);
        }
        let endless = [table_with_tabs(&["\"Great"]), b"x\n".repeat(LINE_MAX_BYTES)].concat();
        let read = rows(
            reader_of(&endless),
            b'\t',
            Escapes::NotSeen,
            ReadingArgs::default(),
        )
        .take(2)
        .collect();
        let read = bodies(read);
        assert_eq!((&read[0], read[1].0), (&(2, Ok("\"Great".to_owned())), 3));
    }

    #[test]
    fn a_table_of_a_database_is_recognised_by_a_cell_without_a_value() {
        let header = HEADER.replace(',', "\t").replace('\n', "\ttitle\n");
        let row = |id: &str, body: &str, title: &str| {
            row(id, body)
                .replace(',', "\t")
                .replace('\n', &format!("\t{title}\n"))
        };
        let escaped = row("1", "one\\ntwo", "t");
        let null = row("2", "C:\\\\temp", "\\N");
        for content in [
            format!("{header}{escaped}{null}"),
            format!("{header}{}{null}", escaped.replace("\\n", "\\\n")),
        ] {
            let found = bodies(read_with(b'\t', content.as_bytes()));
            let expected: Vec<_> = found
                .iter()
                .map(|(_, body)| body.clone().unwrap())
                .collect();
            assert_eq!(expected, ["one\ntwo", "C:\\temp"], "{content}");
        }
        // Without such a cell, a backslash is a reader's own, and in doubt.
        let plain = format!("{header}{}{escaped}", row("3", "a \\o/", "t"));
        let read: Vec<ImportRow> = read_with(b'\t', plain.as_bytes())
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert_eq!(read[0].doubt, None);
        assert_eq!(read[1].doubt, Some(HAS_ESCAPES));
        // Too late: earlier rows were read otherwise.
        let between = row("4", &"x".repeat(9_000), "t").repeat(LINE_MAX_BYTES / 9_000 + 1);
        let late = read_with(
            b'\t',
            format!("{header}{escaped}{between}{null}").as_bytes(),
        );
        let last = late.last().unwrap().as_ref().unwrap();
        assert_eq!(reason_of(last), LATE_NULL);
    }

    #[test]
    fn a_quote_that_is_not_closed_ends_the_file_and_not_the_memory() {
        let endless = format!(
            "{HEADER}{}2,\"{}",
            row("1", "a"),
            "x\n".repeat(LINE_MAX_BYTES)
        );
        let rows = read(endless.as_bytes());
        assert!(rows[0].as_ref().is_ok_and(|row| row.content.is_ok()));
        assert!(
            matches!(rows[1], Err(ImportError::OpenQuote(3))),
            "{:?}",
            rows[1]
        );
    }

    #[test]
    fn a_quote_that_is_open_at_the_end_of_the_file_is_named_by_its_line() {
        let good = row("1", "\"5\"\" disk\"") + &row("2", "5\" disk");
        for (rows, expected) in [
            (good.clone(), None),
            (good.trim_end().to_owned() + "\r", None),
            (good.clone() + &row("3", "\"Fine.\nAnd"), Some(4)),
            (good.clone() + "3,p,en,4,2024-02-29T12:00:00Z,\"", Some(4)),
            (
                good.clone() + &row("3", "\"Fine.\n\"\"").replace("\"\"\n", "\"\""),
                Some(4),
            ),
            (good + &row("\"3\n", "Fine."), Some(4)),
        ] {
            let read = read(format!("\u{feff}{HEADER}{rows}").as_bytes());
            let ended = read.iter().find_map(|row| row.as_ref().err());
            let line = ended.map(|error| {
                let ImportError::OpenQuote(line) = error else {
                    panic!("{error}")
                };
                *line
            });
            assert_eq!(line, expected, "{rows:?}");
            assert_eq!(read.iter().filter(|row| row.is_ok()).count(), 2, "{rows:?}");
        }
        let refused = read("\u{feff}\"id,product".as_bytes())
            .remove(0)
            .unwrap_err();
        assert!(matches!(refused, ImportError::OpenQuote(1)), "{refused}");
    }

    #[test]
    fn a_first_row_without_the_required_columns_is_refused_with_advice() {
        for (content, expected) in [
            (
                "id,stars\n1,4\n",
                "no column is named product, language, rating, created_at, body; --map product=COLUMN",
            ),
            ("id,id\n", "two columns \"id\""),
            ("", "no column is named id"),
        ] {
            let refused = read(content.as_bytes()).remove(0).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
