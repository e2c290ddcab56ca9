//! How a file of comments is compressed.

use std::{
    ffi::OsStr,
    io::{self, BufRead, BufReader, Read, Write},
    path::Path,
};

use flate2::{bufread::GzDecoder, write::GzEncoder};

/// The level of zstd: its own default.
const ZSTD_LEVEL: i32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    /// gzip (RFC 1952).
    Gzip,
    /// zstd (RFC 8878).
    Zstd,
}

impl Compression {
    /// The compression that a file's name asks for: `.gz`, `.zst`, or none.
    pub(crate) fn of_name(path: &Path) -> Self {
        match path.extension().and_then(OsStr::to_str) {
            Some("gz") => Self::Gzip,
            Some("zst") => Self::Zstd,
            _ => Self::None,
        }
    }

    pub(crate) fn of_start(bytes: &[u8]) -> Self {
        match bytes {
            // RFC 1952, section 2.3.1; RFC 8878, section 3.1.1.
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::None,
        }
    }

    /// Its name, which is also that of the program that checks a file by `-t`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    pub(crate) fn reader(self, file: impl BufRead + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
        Ok(match self {
            Self::None => Box::new(file),
            Self::Gzip => Box::new(BufReader::new(Members(Some(GzDecoder::new(file))))),
            Self::Zstd => Box::new(BufReader::new(zstd::Decoder::with_buffer(file)?)),
        })
    }

    pub(crate) fn write<W: Write, T>(
        self,
        file: W,
        write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
    ) -> io::Result<(W, T)> {
        match self {
            Self::None => {
                let mut file = file;
                let written = write(&mut file)?;
                Ok((file, written))
            }
            Self::Gzip => {
                let mut encoder = GzEncoder::new(file, flate2::Compression::default());
                let written = write(&mut encoder)?;
                Ok((encoder.finish()?, written))
            }
            Self::Zstd => {
                let mut encoder = zstd::Encoder::new(file, ZSTD_LEVEL)?;
                let written = write(&mut encoder)?;
                Ok((encoder.finish()?, written))
            }
        }
    }
}

/// The members of a gzip file, one after another. Zero bytes behind a member are padding, as of a tape, and no error.
struct Members<R>(Option<GzDecoder<R>>);

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let count = member.read(to)?;
            if count > 0 || to.is_empty() {
                return Ok(count);
            }
            self.0 = self.0.take().map(GzDecoder::into_inner).map(next_member).transpose()?.flatten();
        }
        Ok(0)
    }
}

fn next_member<R: BufRead>(mut file: R) -> io::Result<Option<GzDecoder<R>>> {
    loop {
        let ahead = file.fill_buf()?;
        let (zeros, length) = (ahead.iter().take_while(|byte| **byte == 0).count(), ahead.len());
        file.consume(zeros);
        if zeros < length {
            return Ok(Some(GzDecoder::new(file)));
        }
        if length == 0 {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_bytes_behind_a_gzip_stream_are_no_error_and_other_bytes_are() {
        let member = |text: &str| {
            let packed = Compression::Gzip.write(Vec::new(), |to| to.write_all(text.as_bytes()));
            packed.unwrap().0
        };
        let (a, b, zeros) = (member("a\n"), member("b\n"), vec![0; 20_000]);
        for (file, expected) in [
            ([a.clone(), b.clone()].concat(), Some("a\nb\n")),
            ([a.clone(), zeros.clone()].concat(), Some("a\n")),
            ([a.clone(), zeros.clone(), b.clone(), zeros.clone()].concat(), Some("a\nb\n")),
            ([a.clone(), zeros, b"x".to_vec()].concat(), None),
            ([a, b[..b.len() - 1].to_vec()].concat(), None),
        ] {
            let mut text = String::new();
            let read = Compression::Gzip.reader(io::Cursor::new(file)).unwrap().read_to_string(&mut text);
            assert_eq!(read.ok().map(|_| text.as_str()), expected);
        }
    }
}
