//! The numbering of the pages of a data folder, which is chosen once in a site's life.

use std::{fs, io::ErrorKind};

use anyhow::{Context, bail};
use api::PageNumbers;
use clap::ValueEnum;

use crate::data_dir::DataDir;

const FILE: &str = "page-numbers";

/// Records the numbering of a folder's pages at the first start with it. A temporary folder needs no record.
pub(crate) fn keep(data_dir: &DataDir, numbering: PageNumbers) -> anyhow::Result<()> {
    if data_dir.is_temporary() {
        return Ok(());
    }
    let (path, chosen) = (data_dir.path.join(FILE), name(numbering));
    let failed = || format!("{} cannot be used", path.display());
    let known = match fs::read_to_string(&path) {
        Ok(text) => text.trim().to_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(failed),
    };
    if known == chosen {
        return Ok(());
    }
    if !known.is_empty() {
        bail!(
            "the pages of {} are numbered {known}; with {chosen}, every known address would show other comments. Start with \
             --page-numbers {known}, or remove {} to number them anew all the same",
            data_dir.path.display(),
            path.display()
        );
    }
    if data_dir.data_file().exists() {
        eprintln!(
            "pagemark: the pages of {} are numbered {chosen} from now on. Earlier versions numbered them newest-first: a site \
             that they served keeps its addresses with --page-numbers newest-first, after {} is removed",
            data_dir.path.display(),
            path.display()
        );
    }
    fs::write(&path, format!("{chosen}\n")).with_context(failed)
}

fn name(numbering: PageNumbers) -> String {
    numbering.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn start(folder: &Path, numbering: PageNumbers) -> Result<(), String> {
        let data_dir = DataDir::open(Some(folder)).unwrap();
        keep(&data_dir, numbering).map_err(|error| error.to_string())
    }

    #[test]
    fn a_folder_keeps_its_numbering_until_a_person_removes_the_record() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join(FILE);
        assert_eq!(start(folder.path(), PageNumbers::Stable), Ok(()));
        assert_eq!(fs::read_to_string(&record).unwrap(), "stable\n");
        assert_eq!(start(folder.path(), PageNumbers::Stable), Ok(()));
        let refused = start(folder.path(), PageNumbers::NewestFirst).unwrap_err();
        let folder_named = folder.path().to_str().unwrap();
        assert!(refused.contains(&format!("the pages of {folder_named} are numbered stable")), "{refused}");
        assert!(refused.contains("--page-numbers stable") && refused.lines().count() == 1, "{refused}");
        fs::remove_file(&record).unwrap();
        assert_eq!(start(folder.path(), PageNumbers::NewestFirst), Ok(()));
        assert!(start(folder.path(), PageNumbers::Stable).is_err());
        // A record that was cut off says nothing.
        fs::write(&record, "").unwrap();
        assert_eq!(start(folder.path(), PageNumbers::Stable), Ok(()));
    }
}
