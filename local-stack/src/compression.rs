//! How a file of comments is compressed.

use std::{
    ffi::OsStr,
    io::{self, BufRead, BufReader, Write},
    path::Path,
};

use flate2::{bufread::MultiGzDecoder, write::GzEncoder};

/// The level of zstd: its own default.
const ZSTD_LEVEL: i32 = 3;

/// The largest window that zstd writes (`--long=31`): 2 GiB, of which only what a file uses is
/// touched.
const ZSTD_WINDOW_LOG_MAX: u32 = 31;

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
            // RFC 1952, section 2.3.1; RFC 8878, sections 3.1.1 and 3.1.2: parallel and seekable
            // compressors also write skippable frames.
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
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
            Self::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(file)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Box::new(BufReader::new(decoder))
            }
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

    /// A zstd frame (RFC 8878, section 3.1.1) that holds a text as it is, with a window of 2 GiB.
    fn frame_with_a_large_window(text: &str) -> Vec<u8> {
        let size = u8::try_from(text.len()).unwrap();
        let descriptor = 0;
        let window = (31 - 10) << 3;
        let last_raw_block = [size << 3 | 1, 0, 0];
        let header = [0x28, 0xb5, 0x2f, 0xfd, descriptor, window];
        [&header[..], &last_raw_block, text.as_bytes()].concat()
    }

    #[test]
    fn a_zstd_file_may_have_several_frames_skippable_ones_and_a_large_window() {
        let skippable = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"any"].concat();
        let packed = Compression::Zstd.write(Vec::new(), |to| to.write_all(b"a\n"));
        let plain = packed.unwrap().0;
        let large = frame_with_a_large_window("b\n");
        let file = [&skippable[..], &plain, &skippable, &large, &skippable].concat();
        let compression = Compression::of_start(&file);
        assert_eq!(compression, Compression::Zstd);
        let mut text = String::new();
        let mut reader = compression.reader(io::Cursor::new(file)).unwrap();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "a\nb\n");
    }
}
