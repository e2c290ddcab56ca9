//! Reads the lines of a file, compressed or not, and holds no more than one in memory.

use std::{
    fs::File,
    io::{self, BufRead, Cursor, Read},
    path::Path,
};

use indicatif::ProgressBar;

use super::{comment::NOT_LINES, source::SourceError};
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

    /// The next line with its end.
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
}
