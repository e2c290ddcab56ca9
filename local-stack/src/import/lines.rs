//! The lines of a file, compressed or not. No more than one is in memory.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Cursor, Read},
    path::Path,
};

use repair_job::Progress;

use super::{ImportError, comment::NOT_LINES, kind};
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
    pub(super) progress: Progress,
}

/// A file whose bytes are steps of the progress, as soon as they are used. Bytes that only wait in
/// a buffer do not count.
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
        if self.number == 0
            // What cannot be read is an error of the first line.
            && let Ok(start) = self.bytes.fill_buf()
            && let Some(problem) = kind::of_start(start)
        {
            self.number = 1;
            return Some(Err(ImportError::WrongKind(problem.to_owned())));
        }
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

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use super::*;

    pub(in crate::import) fn reader_of(content: &[u8]) -> LineReader {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        LineReader::open(file.path()).unwrap()
    }

    fn lines_of(content: &[u8]) -> Vec<NumberedLine> {
        reader_of(content).map(Result::unwrap).collect()
    }

    #[test]
    fn the_progress_is_the_share_of_the_bytes_whose_rows_were_read() {
        let mut lines = reader_of("0123456\n".repeat(10).as_bytes());
        let progress = lines.progress.clone();
        for share in [0.1, 0.2] {
            assert!(lines.next().is_some());
            assert_eq!(progress.share(), share);
        }
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
}
