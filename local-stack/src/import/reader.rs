//! Reads lines from a file, compressed or not, without holding more than one in memory.

use std::{
    io::{self, BufRead, Read},
    path::Path,
};

use super::{
    input_file::InputFile,
    line::{NOT_LINES, begins_an_array, parse_line},
    source::{Numbered, Source, SourceError},
};

/// The longest line; a comment at every limit takes some 62,000 bytes of escaped JSON.
const LINE_MAX_BYTES: u64 = 1 << 20;

/// The byte order mark with which some programs begin a UTF-8 text.
pub(super) const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The lines of a file.
pub struct LineReader {
    file: InputFile,
    number: u64,
}

/// One line: its number from 1, and its bytes, or why it cannot be read.
pub(super) type NumberedLine = (u64, Result<Vec<u8>, String>);

impl LineReader {
    /// Opens a file.
    ///
    /// # Errors
    /// The file system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        InputFile::open(path).map(Self::new)
    }

    /// The lines of an open file.
    pub fn new(file: InputFile) -> Self {
        Self { file, number: 0 }
    }

    /// The next line that is not blank, without its end; `None` at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read any further, for example because its compressed data is broken.
    pub fn next_line(&mut self) -> Result<Option<NumberedLine>, SourceError> {
        self.read_line().map_err(|source| self.file.ended(self.number, source))
    }

    fn read_line(&mut self) -> io::Result<Option<NumberedLine>> {
        loop {
            let mut line = Vec::new();
            let count = self.file.bytes.by_ref().take(LINE_MAX_BYTES).read_until(b'\n', &mut line)?;
            if count == 0 {
                return Ok(None);
            }
            self.number += 1;
            let marked = if self.number == 1 { line.strip_prefix(BYTE_ORDER_MARK) } else { None };
            let text = marked.unwrap_or(&line).trim_ascii();
            if line.last() != Some(&b'\n') && u64::try_from(count).unwrap_or(0) >= LINE_MAX_BYTES {
                let is_array = text.starts_with(b"[");
                self.file.bytes.skip_until(b'\n')?;
                let reason =
                    if is_array { NOT_LINES.to_owned() } else { format!("is longer than {LINE_MAX_BYTES} bytes") };
                return Ok(Some((self.number, Err(reason))));
            }
            if !text.is_empty() {
                return Ok(Some((self.number, Ok(text.to_vec()))));
            }
        }
    }
}

/// Reads a file of comments as an export writes it.
pub fn read_lines(reader: LineReader) -> Source {
    read_lines_with(reader, false, parse_line)
}

/// Reads a file of JSON Lines, each by `parse`. A file that is one array over several lines is an error. With `keeps_text`,
/// rejected lines can be written with their text.
pub fn read_lines_with<T: Send + 'static>(
    mut reader: LineReader,
    keeps_text: bool,
    parse: impl Fn(&[u8]) -> Result<T, String> + Send + 'static,
) -> Source<T> {
    let mut is_first = true;
    Source::of_lines(std::iter::from_fn(move || {
        let line = reader.next_line().transpose()?;
        Some(line.and_then(|(number, bytes)| {
            let goes_on = |bytes: &Vec<u8>| begins_an_array(bytes);
            if std::mem::take(&mut is_first) && bytes.as_ref().is_ok_and(goes_on) {
                return Err(SourceError::Array(number));
            }
            Ok(Numbered::parsed(number, bytes, keeps_text, &parse))
        }))
    }))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn lines_of(content: &[u8]) -> Vec<NumberedLine> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        let mut reader = LineReader::open(file.path()).unwrap();
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
}
