//! The source of comments to import, and the reasons why it may end early.

use std::{any::Any, io, pin::Pin, thread};

use table::NewComment;
use thiserror::Error;
use tokio::sync::mpsc;

use super::line::NOT_LINES;

/// How many lines are read ahead.
const READ_AHEAD: usize = 512;

/// One comment or record to import, or what stands in its place.
#[derive(Debug)]
pub struct Numbered<T = NewComment> {
    /// The number of its line, from 1. Numbers ascend, and none comes twice.
    pub number: u64,
    /// What the line says, or the reason why it says nothing.
    pub content: Result<T, String>,
    /// The line as it was read, for a file of rejected lines. Empty when there is no such file.
    pub text: String,
}

impl<T> Numbered<T> {
    /// A line, or the reason why it cannot be read. `parse` reads what it says.
    pub(super) fn parsed(
        number: u64,
        line: Result<Vec<u8>, String>,
        keeps_text: bool,
        parse: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Self {
        match line {
            Ok(line) => {
                let text = if keeps_text { String::from_utf8_lossy(&line).into_owned() } else { String::new() };
                Self { number, content: parse(&line), text }
            }
            Err(reason) => Self { number, content: Err(reason), text: String::new() },
        }
    }
}

/// The reason why the lines of a source were not read to their end, with advice for the user.
#[derive(Debug, Error)]
pub enum SourceError {
    /// A broken or truncated compressed stream.
    #[error(
        "its {compression} data is broken or cut off after line {line} ({source}); `{compression} -t` checks a file; \
         import a whole copy of it, which leaves what was imported as it is"
    )]
    Broken {
        /// How it is compressed.
        compression: &'static str,
        /// The last line that was read.
        line: u64,
        /// The decoder's error.
        source: io::Error,
    },
    /// The file system's error, after this line.
    #[error(
        "it cannot be read beyond line {0}: {1}; import it again when that is solved, which leaves what was imported \
         as it is"
    )]
    File(u64, #[source] io::Error),
    /// The file begins, in this line, with a JSON array that continues behind the line.
    #[error("line {0} {NOT_LINES}; nothing of it was imported")]
    Array(u64),
    /// A required field has no column.
    #[error("{0}; nothing of it was imported")]
    Columns(String),
    /// A row of a table without an end.
    #[error(
        "the row that begins in line {0} is longer than any comment: a quote in it is not closed; correct it and \
         import the file again, which leaves what was imported as it is"
    )]
    EndlessRow(u64),
    /// The file ends within quotes.
    #[error(
        "the quote that opens in line {0} is not closed, so the file may be cut off; correct it and import the file \
         again, which leaves what was imported as it is"
    )]
    OpenQuote(u64),
    /// Another table's error.
    #[error(
        "the table cannot be read any further: {0}; import it again when that is solved, which leaves what was \
         imported as it is"
    )]
    Scan(String),
    /// The thread that reads panicked.
    #[error(
        "the thread that reads it ended by a mistake of this program: {0}; please report this; what was imported stays"
    )]
    Reader(String),
    /// No thread could be started to read.
    #[error(
        "no thread could be started to read it: {0}; import it again when that is solved, which leaves what was \
         imported as it is"
    )]
    Thread(#[source] io::Error),
    /// An interrupt ended the import.
    #[error("it was interrupted; import it again for the rest, which leaves what was imported as it is")]
    Interrupted,
}

type Line<T> = Result<Numbered<T>, SourceError>;

/// Comments, or records of products, to import. An error ends the import.
pub struct Source<T = NewComment> {
    lines: mpsc::Receiver<Line<T>>,
    reader: Option<io::Result<thread::JoinHandle<()>>>,
    interrupted: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<T: Send + 'static> Source<T> {
    /// Reads lines in a separate thread, because decompressing and parsing block. The process does not wait for that
    /// thread when it ends.
    pub fn of_lines(lines: impl Iterator<Item = Line<T>> + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel(READ_AHEAD);
        let read = move || {
            for line in lines {
                let is_last = line.is_err();
                // Fails when the import has failed and takes no more lines.
                if sender.blocking_send(line).is_err() || is_last {
                    return;
                }
            }
        };
        let reader = thread::Builder::new().name("reader".to_owned()).spawn(read);
        Self { lines: receiver, reader: Some(reader), interrupted: Box::pin(std::future::pending()) }
    }

    /// Like the source itself, but it ends when `interrupted` completes.
    #[must_use]
    pub fn until(self, interrupted: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { interrupted: Box::pin(interrupted), ..self }
    }

    /// The next line; `None` when all have been read.
    pub(super) async fn next(&mut self) -> Option<Line<T>> {
        let line = tokio::select! {
            biased;
            () = &mut self.interrupted => return Some(Err(SourceError::Interrupted)),
            line = self.lines.recv() => line,
        };
        // The channel closes both when the reader is done and when it panicked.
        line.or_else(|| match self.reader.take()? {
            Ok(reader) => reader.join().err().map(|panic| Err(SourceError::Reader(message(&*panic)))),
            Err(error) => Some(Err(SourceError::Thread(error))),
        })
    }
}

impl Source {
    /// Comments that are known to be valid.
    pub fn of_comments(comments: impl IntoIterator<Item = NewComment, IntoIter: Send> + 'static) -> Self {
        let numbered = (1..).zip(comments);
        Self::of_lines(
            numbered.map(|(number, comment)| Ok(Numbered { number, content: Ok(comment), text: String::new() })),
        )
    }
}

/// The message of a panic: `panic!` sends one of two types.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message").to_owned()
}
