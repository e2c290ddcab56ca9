//! Keeps the index over a restart of the program, in one file.
//!
//! The file begins with a line of JSON, its [`Header`]. Then follows a frame for each partition:
//! the length of its content and the content's CRC-32, both as 4 bytes with the least significant
//! first, and the content in [postcard's format](https://postcard.jamesmunns.com/wire-format). A
//! comment takes 18 bytes if its id is a ULID that holds its creation time, otherwise some 10 bytes
//! more than its id has.
//!
//! **Invariant:** an index from a snapshot is not ready. Edits after the snapshot may be lost, so
//! its partitions have no confirmation. They keep their watermarks, so a caller knows from where to
//! reconcile the journal.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use model::{Cd, CommentId, Language, ProductId, Timestamp};
use page_index::{Backend, IndexPartition, Marker, owner};
use serde::{Deserialize, Serialize};

use crate::{
    EmbeddedIndex,
    codes::Languages,
    counted_tree::{Code, cd_of_ulid, ulid_with_time},
    partition::Partition,
    product::ProductComments,
};

/// The version of the format. A snapshot with a different version is not read.
const FORMAT: u32 = 1;

/// The largest content of a frame that is read. A damaged length must not take all memory.
const CONTENT_BYTES_MAX: u32 = 1 << 30;

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("there is no snapshot {}", .0.display())]
    Absent(PathBuf),
    #[error("the snapshot {} cannot be used: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the snapshot {} is damaged: {problem}", path.display())]
    Damaged { path: PathBuf, problem: String },
    /// The snapshot has another format, or belongs to another table or number of partitions.
    #[error("the snapshot {} is foreign: it is of {found}, not of {expected}", path.display())]
    Foreign {
        path: PathBuf,
        found: String,
        expected: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, derive_more::Display)]
#[display("{owner} in format {format}")]
struct Header {
    format: u32,
    /// The table and the number of partitions, as markers name them.
    owner: String,
}

impl Header {
    fn of(owner: &str) -> Self {
        Self {
            format: FORMAT,
            owner: owner.to_owned(),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct PartitionContent {
    marker: Marker,
    languages: Vec<Language>,
    /// The comments of each: the key, and the code of language and rating.
    products: Vec<(ProductId, Vec<(Key, u32)>)>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Key {
    Ulid([u8; 16]),
    /// The creation time in milliseconds since 1970, and the id.
    Other(i64, CommentId),
}

impl Key {
    fn of(cd: Cd) -> Self {
        match ulid_with_time(&cd) {
            Some(ulid) => Self::Ulid(ulid),
            None => Self::Other(cd.created_at.epoch_ms(), cd.id),
        }
    }

    fn cd(self) -> Option<Cd> {
        match self {
            Self::Ulid(bytes) => cd_of_ulid(bytes),
            Self::Other(ms, id) => Some(Cd {
                created_at: Timestamp::from_epoch_ms(ms).ok()?,
                id,
            }),
        }
    }
}

impl PartitionContent {
    fn of(partition: &Partition) -> Self {
        let mut products = Vec::new();
        for (id, product) in &partition.products {
            let comments = product.comments_from(None);
            let entries = comments.map(|(cd, Code(code))| (Key::of(cd), code));
            products.push((id.clone(), entries.collect()));
        }
        Self {
            marker: partition.state.marker.clone(),
            languages: partition.languages.0.iter().cloned().collect(),
            products,
        }
    }

    fn restore(self) -> Result<Partition, String> {
        let mut partition = Partition::default();
        partition.state.marker = self.marker;
        partition.languages = Languages(self.languages.into_iter().collect());
        for (id, entries) in self.products {
            let mut product = ProductComments::default();
            for (key, code) in entries {
                let cd = key.cd().ok_or_else(|| {
                    format!("a creation time of {id} is outside the years 1 to 9999")
                })?;
                let code = Code(code);
                partition
                    .languages
                    .meaning(code)
                    .ok_or_else(|| format!("{cd} of {id} has no language or rating"))?;
                product.insert(&cd, code);
            }
            partition.products.insert(id, product);
        }
        Ok(partition)
    }
}

impl EmbeddedIndex {
    /// Writes everything to a file, for the table with this id, and brings it to the disk. Comments
    /// may change meanwhile. Returns the file's size in bytes.
    ///
    /// # Errors
    /// [`SnapshotError::Io`]; the file is then not whole.
    pub fn save(&self, path: &Path, table_id: &str) -> Result<u64, SnapshotError> {
        self.write_file(path, table_id)
            .map_err(|error| io_error(path, error))
    }

    fn write_file(&self, path: &Path, table_id: &str) -> io::Result<u64> {
        let mut file = BufWriter::new(File::create(path)?);
        serde_json::to_writer(
            &mut file,
            &Header::of(&owner(table_id, self.partition_count())),
        )?;
        file.write_all(b"\n")?;
        for number in self.all() {
            let content = PartitionContent::of(&*self.read(number).map_err(io::Error::other)?);
            let bytes = postcard::to_stdvec(&content).map_err(io::Error::other)?;
            let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
            file.write_all(&length.to_le_bytes())?;
            file.write_all(&crc32fast::hash(&bytes).to_le_bytes())?;
            file.write_all(&bytes)?;
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(file.metadata()?.len())
    }

    /// The index that a snapshot holds, if it is of the table with this id. No partition of it is
    /// ready.
    pub fn open(path: &Path, table_id: &str, partitions: u16) -> Result<Self, SnapshotError> {
        let mut file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(SnapshotError::Absent(path.to_owned()));
            }
            file => BufReader::new(file.map_err(|error| io_error(path, error))?),
        };
        let mut line = Vec::new();
        file.by_ref()
            .take(u64::from(u16::MAX))
            .read_until(b'\n', &mut line)
            .map_err(|error| io_error(path, error))?;
        let header: Header = serde_json::from_slice(&line)
            .map_err(|error| damaged(path, format!("its first line is no header ({error})")))?;
        let expected = Header::of(&owner(table_id, partitions));
        if header != expected {
            return Err(SnapshotError::Foreign {
                path: path.to_owned(),
                found: header.to_string(),
                expected: expected.to_string(),
            });
        }
        let mut restored = Vec::new();
        for partition in IndexPartition::all(partitions) {
            let number = partition.number();
            let frame = read_frame(&mut file)
                .map_err(|error| damaged(path, format!("partition {number}: {error}")))?;
            let content = frame
                .restore()
                .map_err(|problem| damaged(path, format!("partition {number}: {problem}")))?;
            restored.push(content);
        }
        if file.read(&mut [0]).map_err(|error| io_error(path, error))? > 0 {
            let problem = "it goes on behind the last partition";
            return Err(damaged(path, problem.to_owned()));
        }
        Ok(Self::of(restored))
    }
}

fn io_error(path: &Path, source: io::Error) -> SnapshotError {
    SnapshotError::Io {
        path: path.to_owned(),
        source,
    }
}

fn damaged(path: &Path, problem: String) -> SnapshotError {
    SnapshotError::Damaged {
        path: path.to_owned(),
        problem,
    }
}

fn read_number(file: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    file.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

fn read_frame(file: &mut impl Read) -> io::Result<PartitionContent> {
    let length = read_number(file)?;
    let checksum = read_number(file)?;
    if length > CONTENT_BYTES_MAX {
        return Err(io::Error::other(format!("its length is {length} bytes")));
    }
    let mut bytes = Vec::new();
    file.take(u64::from(length)).read_to_end(&mut bytes)?;
    if bytes.len() != usize::try_from(length).unwrap_or(usize::MAX) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if crc32fast::hash(&bytes) != checksum {
        return Err(io::Error::other("its checksum is wrong"));
    }
    postcard::from_bytes(&bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use model::{Placement, RankEntry, Rating, plan::index_edits};
    use page_index::{Contents, Edits, Mark, Markers, PageIndex, Rebuilds};
    use ulid::Ulid;

    use super::*;

    const TABLE: &str = "table-1";
    const PARTITIONS: u16 = 4;
    const MAX_AGE: Duration = Duration::from_secs(3_600);

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_epoch_ms(ms).unwrap()
    }

    async fn filled(watermark: Timestamp) -> EmbeddedIndex {
        let index = EmbeddedIndex::new(PARTITIONS);
        let rebuild = index.begin_rebuild_of(index.all().collect()).await.unwrap();
        for number in 0..1_000_u64 {
            // Only the first of these holds its creation time.
            let id = match number % 7 {
                0..4 => Ulid::from_parts(number, 7).to_string(),
                4 => format!("imported-{number}"),
                5 => Ulid::from_parts(number + 1, 7).to_string(),
                _ => Ulid::from_parts(number, 7).to_string().to_lowercase(),
            };
            let placement = Placement {
                product: ProductId::parse(
                    ["p", "a/b", "c:d"][usize::try_from(number % 3).unwrap()],
                )
                .unwrap(),
                language: Language::parse(["en", "de"][usize::from(number % 5 == 0)]).unwrap(),
                rating: Rating::new(1 + number % 5).unwrap(),
            };
            let created_at = at(i64::try_from(number).unwrap());
            let entry = RankEntry {
                placement,
                created_at,
            };
            let edits = index_edits(&CommentId::parse(&id).unwrap(), Some(&entry), &[]);
            index.apply(&edits).await.unwrap();
        }
        index
            .finish_rebuild(&rebuild, TABLE, watermark)
            .await
            .unwrap();
        index
    }

    /// The languages, ratings and markers of every partition, without the confirmation.
    fn partitions(index: &EmbeddedIndex) -> Vec<Vec<u8>> {
        index
            .all()
            .map(|number| {
                postcard::to_stdvec(&PartitionContent::of(&index.read(number).unwrap())).unwrap()
            })
            .collect()
    }

    async fn contents(index: &EmbeddedIndex) -> Vec<String> {
        let mut position = index.begin_index_scan().await.unwrap();
        let mut parts = Vec::new();
        while let Some(part) = index.next_index_part(&mut position).await.unwrap() {
            parts.push(format!("{part:?}"));
        }
        parts
    }

    async fn marks(index: &EmbeddedIndex) -> Vec<(IndexPartition, Mark)> {
        let index = PageIndex::new(index.clone(), MAX_AGE);
        index.marks(TABLE).await.unwrap()
    }

    fn open(path: &Path) -> Result<EmbeddedIndex, SnapshotError> {
        EmbeddedIndex::open(path, TABLE, PARTITIONS)
    }

    #[tokio::test]
    async fn an_opened_snapshot_has_every_comment_and_watermark_but_is_not_ready() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        let index = filled(at(5_000)).await;
        for _ in 0..2 {
            assert_eq!(
                index.save(&path, TABLE).unwrap(),
                fs::metadata(&path).unwrap().len()
            );
        }
        let opened = open(&path).unwrap();
        assert_eq!(contents(&opened).await, contents(&index).await);
        assert_eq!(partitions(&opened), partitions(&index));
        let saved = marks(&index).await;
        let read = marks(&opened).await;
        assert_eq!(read.len(), usize::from(PARTITIONS));
        for ((_, saved), (_, read)) in saved.iter().zip(&read) {
            assert_eq!(
                (read.watermark, &read.token, read.confirmed),
                (saved.watermark, &saved.token, None)
            );
        }
        assert_ne!(
            opened.server_identity().await.unwrap(),
            index.server_identity().await.unwrap()
        );
        assert_eq!(opened.partition_count(), PARTITIONS);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "only the snapshot remains"
        );
    }

    #[tokio::test]
    async fn a_damaged_or_foreign_snapshot_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        assert!(matches!(open(&path), Err(SnapshotError::Absent(_))));
        filled(at(5_000)).await.save(&path, TABLE).unwrap();
        let whole = fs::read(&path).unwrap();
        for (table, partitions) in [("table-2", PARTITIONS), (TABLE, PARTITIONS + 1)] {
            let opened = EmbeddedIndex::open(&path, table, partitions);
            assert!(
                matches!(opened, Err(SnapshotError::Foreign { .. })),
                "{table} {partitions}: {opened:?}"
            );
        }
        // One byte changed, or everything from there on cut.
        for at in (0..whole.len()).step_by(61) {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            for bytes in [&changed, &whole[..at].to_vec()] {
                fs::write(&path, bytes).unwrap();
                assert!(open(&path).is_err(), "at {at} of {}", whole.len());
            }
        }
        fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
        assert!(matches!(open(&path), Err(SnapshotError::Damaged { .. })));
    }
}
