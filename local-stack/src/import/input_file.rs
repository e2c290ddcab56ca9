//! An open file of comments or records: its bytes, compressed or not, and how far it has been read.

use std::{
    fs::{File, Metadata},
    io::{self, BufRead, Read, Seek},
    path::Path,
};

use indicatif::ProgressBar;

use super::source::SourceError;
use crate::compression::Compression;

/// A file to import.
pub struct InputFile {
    pub(super) bytes: Box<dyn BufRead + Send>,
    compression: Compression,
    /// What the file system said when it was opened.
    pub(super) metadata: Metadata,
    /// The bytes of the file, and how many of them have been read. It is not shown.
    pub progress: ProgressBar,
}

impl InputFile {
    /// Opens a file. Its first bytes say whether it is compressed.
    ///
    /// # Errors
    /// The file system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        let mut magic = Vec::new();
        file.by_ref().take(4).read_to_end(&mut magic)?;
        file.rewind()?;
        let progress = ProgressBar::hidden();
        progress.set_length(metadata.len());
        let compression = Compression::of_start(&magic);
        Ok(Self { bytes: compression.reader(progress.wrap_read(file))?, compression, metadata, progress })
    }

    /// The error of a file that cannot be read beyond a line.
    pub(super) fn ended(&self, line: u64, source: io::Error) -> SourceError {
        ended(self.compression, line, source)
    }

    /// The bytes, and what makes errors of theirs, for a reader that takes the bytes.
    pub(super) fn into_parts(self) -> (Box<dyn BufRead + Send>, impl Fn(u64, io::Error) -> SourceError + Send) {
        (self.bytes, move |line, source| ended(self.compression, line, source))
    }
}

fn ended(compression: Compression, line: u64, source: io::Error) -> SourceError {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    // The kinds by which the decoders report broken data.
    let is_broken = matches!(source.kind(), InvalidInput | InvalidData | UnexpectedEof | Other);
    if compression != Compression::None && is_broken {
        SourceError::Broken { compression: compression.name(), line, source }
    } else {
        SourceError::File(line, source)
    }
}
