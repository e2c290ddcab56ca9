//! The key of cursors that a data folder keeps, so that cursors stay valid when the stack starts
//! again.

use std::{
    fs,
    io::{self, ErrorKind, Write},
    path::Path,
};

use anyhow::Context;
use api::CursorKey;
use tempfile::NamedTempFile;

/// The name of the key in the data folder. Only its owner may read it.
pub(crate) const CURSOR_KEY: &str = "cursor.key";

/// The key of a data folder. The first start draws it. The caller holds the folder's lock.
pub(crate) fn cursor_key(folder: &Path) -> anyhow::Result<CursorKey> {
    let path = folder.join(CURSOR_KEY);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => draw(folder, &path),
        text => text,
    };
    let text =
        text.with_context(|| format!("the key of cursors {} cannot be used", path.display()))?;
    let parsed = text.trim().parse().map_err(anyhow::Error::msg);
    parsed.with_context(|| {
        format!(
            "{} holds no key; remove the file, and the next start draws one",
            path.display()
        )
    })
}

/// Draws a key and stores it, in one step: a key that is half there would be refused at the next
/// start.
fn draw(folder: &Path, path: &Path) -> io::Result<String> {
    let bytes: [u8; 32] = rand::random();
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // Temporary files are private.
    let mut file = NamedTempFile::new_in(folder)?;
    writeln!(file, "{text}")?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_keeps_its_key_for_its_owner_alone() {
        let [folder, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let key = cursor_key(folder.path()).unwrap();
        assert_eq!(cursor_key(folder.path()).unwrap(), key);
        assert_ne!(cursor_key(other.path()).unwrap(), key);
        let path = folder.path().join(CURSOR_KEY);
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        fs::write(&path, "text").unwrap();
        let error = cursor_key(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("remove the file") && !error.contains('\n'),
            "{error}"
        );
    }
}
