//! How far imports have come, kept in a file. A later import skips those lines, instead of looking each comment up. How
//! far it has come in another table says `scan_position`.
//!
//! **Invariant:** the file counts a line only when it is in the table, and all lines before it are. Refused lines do not
//! stop the count: they are listed, and the next import tries them again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use serde_dynamo::Item;

use super::{
    InputFile,
    scan_position::{KeptScan, ScanUnderWay, Segment},
};

/// How long the file may be behind.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// How many refused lines are listed. The first that is not listed is not counted, and so are all after it.
const REFUSED_MAX: usize = 10_000;

/// Why a checkpoint cannot be used.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The file system's error.
    #[error("{0}")]
    File(#[from] io::Error),
    /// It is no checkpoint.
    #[error("it is not a checkpoint ({0}); remove it to begin anew")]
    Broken(#[from] serde_json::Error),
    /// It belongs to another table.
    #[error("it belongs to an import into another table; name another file, or remove it to begin anew")]
    OtherTable,
}

/// What the file holds.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    table_id: String,
    files: BTreeMap<String, KeptFile>,
    /// Other tables that are imported, by name and endpoint.
    #[serde(default)]
    scans: BTreeMap<String, KeptScan>,
}

/// A file as it was, how it was read, and how many of its lines are done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct KeptFile {
    bytes: u64,
    modified_ms: u128,
    /// The options of the import. With others, the file begins anew.
    options: String,
    lines: u64,
    /// Lines that were not imported, of those and of later ones.
    refused: BTreeSet<u64>,
}

/// The progress of imports into one table.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    kept: Kept,
    /// The file that is being imported.
    current: String,
    /// The numbers of the lines that workers have.
    under_way: BTreeSet<u64>,
    /// The last line that was given to a worker, or refused.
    last: u64,
    saved: Instant,
    /// The table that is being imported, by name and endpoint, and the scan of it.
    scan: Option<(String, ScanUnderWay)>,
}

impl State {
    /// The file that is being imported.
    fn file(&mut self) -> Option<&mut KeptFile> {
        self.kept.files.get_mut(&self.current)
    }
}

impl Checkpoint {
    /// Opens the file, which may be missing, for imports into the table of this id.
    ///
    /// # Errors
    /// The file system's; the file is none, or belongs to another table.
    pub fn open(path: &Path, table_id: &str) -> Result<Self, CheckpointError> {
        let kept = match fs::read(path) {
            Ok(content) => serde_json::from_slice(&content)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Kept { table_id: table_id.to_owned(), ..Kept::default() }
            }
            Err(error) => return Err(error.into()),
        };
        if kept.table_id != table_id {
            return Err(CheckpointError::OtherTable);
        }
        let (current, under_way, saved) = (String::new(), BTreeSet::new(), Instant::now());
        let state = State { kept, current, under_way, last: 0, saved, scan: None };
        let checkpoint = Self { path: path.to_owned(), state: Mutex::new(state) };
        // A folder that cannot be written is noticed before the import.
        checkpoint.save()?;
        Ok(checkpoint)
    }

    /// Begins, or goes on with, the import of an open file with some options. A file that has changed begins anew, and so
    /// does one with other options.
    ///
    /// # Errors
    /// The file system's.
    pub fn begin_file(&self, file: &Path, opened: &InputFile, options: &str) -> io::Result<()> {
        let metadata = &opened.metadata;
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = fs::canonicalize(file)?.to_string_lossy().into_owned();
        let mut state = self.lock();
        state.scan = None;
        let as_it_is = KeptFile {
            bytes: metadata.len(),
            modified_ms: modified.as_millis(),
            options: options.to_owned(),
            ..KeptFile::default()
        };
        let known = state.kept.files.entry(name.clone()).or_insert_with(|| as_it_is.clone());
        let (lines, refused) = (known.lines, known.refused.clone());
        if *known != (KeptFile { lines, refused, ..as_it_is.clone() }) {
            *known = as_it_is;
        }
        (state.last, state.current) = (known.lines, name);
        state.under_way.clear();
        Ok(())
    }

    /// Begins or resumes the scan of the table `name`. A scan in other segments or with other options begins anew.
    /// Returns what an earlier import has done.
    pub(super) fn begin_scan(&self, name: String, scan: KeptScan) -> KeptScan {
        let mut state = self.lock();
        let kept = state.kept.scans.get(&name).filter(|kept| kept.is_of(&scan)).cloned().unwrap_or(scan);
        state.scan = Some((name, ScanUnderWay::of(kept.clone())));
        (state.last, state.current) = (0, String::new());
        state.under_way.clear();
        kept
    }

    /// An item of the scan was read. `key` is its key as JSON.
    pub(super) fn begin_item(&self, number: u64, key: String) {
        if let Some((_, scan)) = &mut self.lock().scan {
            scan.begin_item(number, key);
        }
    }

    /// An answer of the scan was read, up to the item of the number `last`; `next` is where the next one begins.
    pub(super) fn end_answer(&self, last: u64, segment: usize, next: Option<Item>) {
        if let Some((_, scan)) = &mut self.lock().scan {
            scan.end_answer(last, segment, next.map_or(Segment::Done, Segment::After));
        }
    }

    /// Whether a line is done; otherwise it is under way from now on.
    pub(super) fn begin_line(&self, number: u64) -> bool {
        let mut state = self.lock();
        if number <= state.last {
            return !state.file().is_some_and(|file| file.refused.contains(&number));
        }
        state.last = number;
        state.under_way.insert(number);
        false
    }

    /// What a line says is in the table.
    ///
    /// # Errors
    /// The file system's, when the file is written.
    pub(super) fn end_line(&self, number: u64) -> io::Result<()> {
        let mut state = self.lock();
        state.under_way.remove(&number);
        if let Some(file) = state.file() {
            file.refused.remove(&number);
        }
        if let Some((_, scan)) = &mut state.scan {
            scan.end_item(number);
        }
        if state.saved.elapsed() < SAVE_EVERY {
            return Ok(());
        }
        state.saved = Instant::now();
        self.write(&mut state)
    }

    /// A line is refused. The next import tries it again.
    pub(super) fn refuse_line(&self, number: u64) {
        let mut state = self.lock();
        if let Some((_, scan)) = &mut state.scan {
            scan.refuse_item(number);
        }
        let is_listed = state.file().is_some_and(|file| {
            let has_room = file.refused.len() < REFUSED_MAX;
            file.refused.contains(&number) || (has_room && file.refused.insert(number))
        });
        if is_listed {
            state.under_way.remove(&number);
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn save(&self) -> io::Result<()> {
        self.write(&mut self.lock())
    }

    fn write(&self, state: &mut State) -> io::Result<()> {
        let lines = state.under_way.first().map_or(state.last, |first| first - 1);
        if let Some(file) = state.file() {
            file.lines = lines;
        }
        if let Some((name, scan)) = &mut state.scan {
            scan.advance();
            state.kept.scans.insert(name.clone(), scan.kept.clone());
        }
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(&mut file, &state.kept)?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn folder() -> (TempDir, PathBuf, PathBuf) {
        let folder = TempDir::new().unwrap();
        let (checkpoint, file) = (folder.path().join("checkpoint"), folder.path().join("comments"));
        fs::write(&file, "some lines").unwrap();
        (folder, checkpoint, file)
    }

    fn begin(checkpoint: &Checkpoint, file: &Path) {
        checkpoint.begin_file(file, &InputFile::open(file).unwrap(), "options").unwrap();
    }

    /// The first lines that are done, of ten, in a new import.
    fn done(checkpoint: &Path, file: &Path) -> Vec<u64> {
        let checkpoint = Checkpoint::open(checkpoint, "table").unwrap();
        begin(&checkpoint, file);
        (1..=10).filter(|line| checkpoint.begin_line(*line)).collect()
    }

    #[test]
    fn a_line_counts_only_when_all_before_it_are_done() {
        let (_folder, path, file) = folder();
        let checkpoint = Checkpoint::open(&path, "table").unwrap();
        begin(&checkpoint, &file);
        assert!((1..=4).all(|line| !checkpoint.begin_line(line)));
        for (line, expected) in [(1, &[1][..]), (3, &[1]), (2, &[1, 2, 3]), (4, &[1, 2, 3, 4])] {
            checkpoint.end_line(line).unwrap();
            checkpoint.save().unwrap();
            assert_eq!(done(&path, &file), expected);
        }
    }

    #[test]
    fn a_refused_line_is_passed_and_tried_again_until_it_is_imported() {
        let (_folder, path, file) = folder();
        let checkpoint = Checkpoint::open(&path, "table").unwrap();
        begin(&checkpoint, &file);
        assert!((1..=4).all(|line| !checkpoint.begin_line(line)));
        checkpoint.refuse_line(2);
        for line in [1, 3] {
            checkpoint.end_line(line).unwrap();
        }
        checkpoint.save().unwrap();
        assert_eq!(done(&path, &file), [1, 3]);
        let again = Checkpoint::open(&path, "table").unwrap();
        begin(&again, &file);
        assert!(!again.begin_line(2));
        again.end_line(2).unwrap();
        again.save().unwrap();
        assert_eq!(done(&path, &file), [1, 2, 3]);
    }

    #[test]
    fn a_file_that_has_changed_and_one_with_other_options_begin_anew() {
        let (_folder, path, file) = folder();
        let checkpoint = Checkpoint::open(&path, "table").unwrap();
        begin(&checkpoint, &file);
        checkpoint.begin_line(1);
        checkpoint.end_line(1).unwrap();
        checkpoint.save().unwrap();
        assert_eq!(done(&path, &file), [1]);
        let other = Checkpoint::open(&path, "table").unwrap();
        other.begin_file(&file, &InputFile::open(&file).unwrap(), "other options").unwrap();
        assert!(!other.begin_line(1));
        fs::write(&file, "other lines").unwrap();
        assert!(done(&path, &file).is_empty());
    }

    #[test]
    fn a_checkpoint_of_another_table_or_none_is_refused() {
        let (_folder, path, file) = folder();
        drop(Checkpoint::open(&path, "table").unwrap());
        assert!(matches!(Checkpoint::open(&path, "other"), Err(CheckpointError::OtherTable)));
        assert!(matches!(Checkpoint::open(&file, "table"), Err(CheckpointError::Broken(_))));
    }
}
