//! How a file of comments is compressed.

use std::{
    ffi::OsStr,
    io::{self, BufRead, BufReader, Write},
    path::Path,
};

use flate2::{bufread::MultiGzDecoder, write::GzEncoder};

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

    pub(crate) fn reader(
        self,
        file: impl BufRead + Send + 'static,
    ) -> io::Result<Box<dyn BufRead + Send>> {
        Ok(match self {
            Self::None => Box::new(file),
            Self::Gzip => Box::new(BufReader::new(MultiGzDecoder::new(file))),
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

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn gzip_member(text: &str) -> Vec<u8> {
        let packed = Compression::Gzip.write(Vec::new(), |to| to.write_all(text.as_bytes()));
        packed.unwrap().0
    }

    #[test]
    fn a_gzip_file_may_have_several_members_and_nothing_else() {
        let a = gzip_member("a\n");
        let b = gzip_member("b\n");
        for (file, expected) in [
            ([a.clone(), b.clone()].concat(), Some("a\nb\n")),
            ([a.clone(), b"x".to_vec()].concat(), None),
            ([a, b[..b.len() - 1].to_vec()].concat(), None),
        ] {
            let mut text = String::new();
            let read = Compression::Gzip
                .reader(io::Cursor::new(file))
                .unwrap()
                .read_to_string(&mut text);
            assert_eq!(read.ok().map(|_| text.as_str()), expected);
        }
    }
}
