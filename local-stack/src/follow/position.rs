//! How far a stream was followed, kept in a file.
//!
//! **Invariant:** the file passes a record only when what it says is in the table, or was refused.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use model::Timestamp;
use serde::{Deserialize, Serialize};

/// What is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The table that follows, the stream, and the options that decide about what is written.
    of: String,
    /// Every change before this instant is in the table.
    pub(super) complete_until: Timestamp,
    pub(super) shards: BTreeMap<String, Shard>,
}

/// How far a shard was followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Shard {
    /// Up to this record.
    After(String),
    /// To its end.
    Ended,
}

impl Kept {
    /// A stream of which nothing was followed yet. The changes before `since` are in the table by an import.
    pub(super) fn begin(of: String, since: Timestamp) -> Self {
        Self { of, complete_until: since, shards: BTreeMap::new() }
    }

    /// Forgets ended shards that the stream no longer has. Returns a shard whose records are lost: it is gone, and was not
    /// followed to its end.
    pub(super) fn prune(&mut self, described: &BTreeSet<String>) -> Option<String> {
        self.shards.retain(|id, shard| *shard != Shard::Ended || described.contains(id));
        self.shards.keys().find(|id| !described.contains(*id)).cloned()
    }
}

/// The file.
#[derive(Debug)]
pub(super) struct Position {
    path: PathBuf,
    pub(super) kept: Kept,
}

impl Position {
    /// Opens the file of a stream and a table. Without a file, it begins with the changes since an instant.
    ///
    /// # Errors
    /// The file cannot be read or written, is of another stream, or is missing without an instant.
    pub(super) fn open(path: &Path, of: String, since: Option<Timestamp>) -> io::Result<Self> {
        let refused = |problem: String| io::Error::new(io::ErrorKind::InvalidInput, problem);
        let kept = match (fs::read(path), since) {
            (Ok(content), _) => serde_json::from_slice::<Kept>(&content).map_err(|error| {
                refused(format!("it is not the checkpoint of a stream ({error}); name another file"))
            })?,
            (Err(error), Some(since)) if error.kind() == io::ErrorKind::NotFound => Kept::begin(of.clone(), since),
            (Err(error), None) if error.kind() == io::ErrorKind::NotFound => {
                return Err(refused(
                    "it is missing: --since says when the import began that this is to go on from".to_owned(),
                ));
            }
            (Err(error), _) => return Err(error),
        };
        if kept.of != of {
            return Err(refused(
                "it belongs to another stream, another table, or other options; name another file".to_owned(),
            ));
        }
        let position = Self { path: path.to_owned(), kept };
        // A folder that cannot be written is noticed at once.
        position.save()?;
        Ok(position)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn save(&self) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(&mut file, &self.kept)?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_that_is_gone_before_its_end_is_lost_and_an_ended_one_is_forgotten() {
        let mut kept = Kept::begin("of".to_owned(), Timestamp::MIN);
        let shards = [("a", Shard::Ended), ("b", Shard::After("1".to_owned())), ("c", Shard::After("2".to_owned()))];
        kept.shards = shards.map(|(id, shard)| (id.to_owned(), shard)).into();
        let described = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(kept.prune(&described(&["b", "c", "d"])), None);
        assert_eq!(kept.shards.keys().collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(kept.prune(&described(&["c"])), Some("b".to_owned()));
    }

    #[test]
    fn a_position_belongs_to_its_stream_and_its_first_use_says_since_when() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("position");
        let open = |of: &str, since| Position::open(&path, of.to_owned(), since).map_err(|error| error.to_string());
        assert!(open("a", None).unwrap_err().contains("--since"));
        let mut position = open("a", Some(Timestamp::MIN)).unwrap();
        position.kept.shards.insert("shard".to_owned(), Shard::After("7".to_owned()));
        position.save().unwrap();
        assert_eq!(open("a", Some(Timestamp::MAX)).unwrap().kept, position.kept);
        assert!(open("b", None).unwrap_err().contains("another stream"));
        fs::write(&path, "{}").unwrap();
        assert!(open("a", None).unwrap_err().contains("not the checkpoint"));
    }
}
