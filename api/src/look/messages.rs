//! The messages that a site gives itself, such as those in `messages/de.ftl`. They are read once, at the start.

use std::{fs, io, path::Path, sync::Arc};

use clap::ValueEnum;

use super::{LookError, read_text};
use crate::texts::{InterfaceLanguage, Texts};

/// The folder of the messages, within the folder of a site.
pub(super) const FOLDER: &str = "messages";

/// Maximum size of the messages in one language: several times all of ours.
const BYTES_MAX: usize = 128 * 1024;

/// The texts of pages, with the messages in the folder of a site in place of ours.
pub(crate) fn read(site: &Path) -> Result<Arc<Texts>, LookError> {
    let folder = site.join(FOLDER);
    let unreadable = |source| LookError::Unreadable { path: folder.clone(), source };
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Texts::built_in()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut messages = Vec::new();
    for entry in entries {
        let name = entry.map_err(unreadable)?.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = folder.join(&name);
        let tag = name.to_str().and_then(|name| name.strip_suffix(".ftl")).unwrap_or_default();
        let Ok(language) = InterfaceLanguage::from_str(tag, false) else {
            return Err(LookError::NotALanguage { path });
        };
        messages.extend(read_text(&path, BYTES_MAX)?.map(|text| (language, text)));
    }
    Texts::load(&messages).map(Arc::new).map_err(|source| LookError::Messages { path: folder, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The word for a comment without an author, in German, with these files.
    fn anonymous(files: &[(&str, &str)]) -> Result<String, String> {
        let site = tempfile::tempdir().unwrap();
        fs::create_dir(site.path().join(FOLDER)).unwrap();
        for (name, content) in files {
            fs::write(site.path().join(FOLDER).join(name), content).unwrap();
        }
        let shown = |error: LookError| error.to_string().replace(site.path().to_str().unwrap(), "SITE");
        let texts = read(site.path()).map_err(shown)?;
        Ok(texts.in_language(InterfaceLanguage::De).text("anonymous").into_owned())
    }

    #[test]
    fn a_site_replaces_messages_of_a_language() {
        assert_eq!(anonymous(&[]).unwrap(), "Anonym");
        assert_eq!(anonymous(&[("de.ftl", "anonymous = Gast\n"), (".swp", "?")]).unwrap(), "Gast");
        assert_eq!(anonymous(&[("fr.ftl", "anonymous = Client\n")]).unwrap(), "Anonym");
        let without = tempfile::tempdir().unwrap();
        assert!(Arc::ptr_eq(&read(without.path()).unwrap(), &Texts::built_in()));
    }

    #[test]
    fn a_mistake_is_named_with_its_file() {
        for (name, content, expected) in [
            ("nl.ftl", "", "SITE/messages/nl.ftl is not named after a language of pages"),
            ("de.txt", "", "SITE/messages/de.txt is not named after a language of pages"),
            ("de.ftl", "no-such-message = Gast\n", "SITE/messages: the messages in de have no-such-message"),
            ("de.ftl", "anonymous\n", "SITE/messages: line 1 of the messages in de"),
        ] {
            let error = anonymous(&[(name, content)]).expect_err(&format!("{name}: {content}"));
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
