//! A site's own look, from the folder that `PAGEMARK_SITE_DIR` names (docs/pages.md).
//!
//! - `shared`: the look that all requests see, and how it is read again.
//! - `messages`: the messages of a site in place of ours.
//! - `markup`: checks the header and the footer. `theme`: checks the style sheet.
//! - `policy`: what the content security policy of pages lets a browser load.
//!
//! The files are the site's own, so they are trusted. The checks find what a browser would block, or what would break
//! every page.
//!
//! **Invariant:** pages show a whole folder: one whose files are all good, read at one time.

mod markup;
pub(crate) mod messages;
mod policy;
mod shared;
mod theme;

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use strum::VariantArray;
use thiserror::Error;

use crate::{
    http::asset::Asset,
    texts::{InterfaceLanguage, TextsError},
};
pub(crate) use shared::SiteLook;

/// The style sheet of every site.
const OWN_STYLE: &str = include_str!("../../static/style.css");

const THEME: &str = "theme.css";
const HEADER: &str = "header.html";
const FOOTER: &str = "footer.html";

/// The files that a site's folder may have.
const FILES: [&str; 3] = [THEME, HEADER, FOOTER];

/// Maximum size of the style sheet: five times ours.
const THEME_BYTES_MAX: usize = 64 * 1024;

/// Maximum size of the header and of the footer. An error page with both is still a small answer, which needs no room in
/// the memory for answers (32 KiB).
const FRAGMENT_BYTES_MAX: usize = 12 * 1024;

/// How a site looks.
#[derive(Debug)]
pub(crate) struct Look {
    /// Our style sheet, and the site's rules after it.
    pub(crate) style_sheet: Asset,
    /// HTML for the top of every page.
    pub(crate) header: String,
    /// HTML for the bottom of every page.
    pub(crate) footer: String,
    /// A text that changes with each of them, for entity tags: hexadecimal digits.
    pub(crate) version: String,
}

impl Default for Look {
    /// The look of a site without a folder.
    fn default() -> Self {
        Self::new("", String::new(), String::new())
    }
}

impl Look {
    fn new(theme: &str, header: String, footer: String) -> Self {
        let style = if theme.is_empty() { OWN_STYLE.to_owned() } else { [OWN_STYLE, "\n", theme].concat() };
        let style_sheet = Asset::new("text/css; charset=utf-8", "/static/style.css", style);
        let parts = [style_sheet.url(), header, footer];
        let hash = Sha256::digest(format!("{parts:?}"));
        let version = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let [_, header, footer] = parts;
        Self { style_sheet, header, footer, version }
    }

    /// Reads and checks a folder. `origin` is that of the site, such as `https://comments.example.com`.
    fn read(folder: &Path, origin: &str) -> Result<Self, LookError> {
        refuse_unknown_names(folder)?;
        let part = |name: &str, bytes_max, check: fn(&str, &str) -> Result<(), Problem>| {
            let path = folder.join(name);
            let text = read_text(&path, bytes_max)?.unwrap_or_default();
            match check(&text, origin) {
                Ok(()) => Ok(text),
                Err(problem) => Err(LookError::Invalid { path, problem }),
            }
        };
        let theme = part(THEME, THEME_BYTES_MAX, theme::check)?;
        let header = part(HEADER, FRAGMENT_BYTES_MAX, markup::check)?;
        let footer = part(FOOTER, FRAGMENT_BYTES_MAX, markup::check)?;
        Ok(Self::new(&theme, header, footer))
    }

    /// The names of the files in which another look differs.
    fn differences(&self, other: &Self) -> Vec<&'static str> {
        let differs = [
            self.style_sheet.url() != other.style_sheet.url(),
            self.header != other.header,
            self.footer != other.footer,
        ];
        FILES.into_iter().zip(differs).filter_map(|(name, differs)| differs.then_some(name)).collect()
    }
}

/// What is wrong with a file, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1.
    line: u64,
    text: String,
}

impl Problem {
    fn new(line: u64, text: impl Into<String>) -> Self {
        Self { line, text: text.into() }
    }
}

/// Why the folder of a site's look cannot be used.
#[derive(Debug, Error)]
pub enum LookError {
    /// The folder or a file cannot be read.
    #[error("the site folder's {} cannot be read: {source}; check PAGEMARK_SITE_DIR and the permissions", path.display())]
    Unreadable {
        /// The folder or the file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A file has a name that means nothing.
    #[error("{} has a name that means nothing in a site folder, which may have {} and the folder messages; rename or remove it", path.display(), FILES.join(", "))]
    UnknownName {
        /// The file.
        path: PathBuf,
    },
    /// A file of messages is not named after a language.
    #[error("{} is not named after a language of pages, such as de.ftl: they are {}; rename or remove it", path.display(), tags())]
    NotALanguage {
        /// The file.
        path: PathBuf,
    },
    /// The messages break a rule.
    #[error("{}: {source}", path.display())]
    Messages {
        /// Their folder.
        path: PathBuf,
        /// Which message, and why.
        #[source]
        source: TextsError,
    },
    /// A name of the folder is not that of a file.
    #[error("{} is not a file; replace it by one, or remove it", path.display())]
    NotAFile {
        /// What is there.
        path: PathBuf,
    },
    /// A file is too large.
    #[error("{} has more than {} KiB; make it smaller", path.display(), bytes_max / 1024)]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its largest size in bytes.
        bytes_max: usize,
    },
    /// A file breaks a rule.
    #[error("{}, line {}: {}", path.display(), problem.line, problem.text)]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Where, and what to do.
        problem: Problem,
    },
}

/// The languages of pages.
fn tags() -> String {
    InterfaceLanguage::VARIANTS.iter().map(|language| language.tag()).collect::<Vec<_>>().join(", ")
}

/// Names that begin with a dot are not the site's: editors, version control and mounted volumes make them.
fn refuse_unknown_names(folder: &Path) -> Result<(), LookError> {
    let unreadable = |source| LookError::Unreadable { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let is_known = name == messages::FOLDER || FILES.iter().any(|known| name == *known);
        if !is_known && !name.as_encoded_bytes().starts_with(b".") {
            return Err(LookError::UnknownName { path: folder.join(name) });
        }
    }
    Ok(())
}

/// The text of a file; `None` when there is none.
fn read_text(path: &Path, bytes_max: usize) -> Result<Option<String>, LookError> {
    let unreadable = |source| LookError::Unreadable { path: path.to_owned(), source };
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(LookError::NotAFile { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)).map_err(unreadable)?;
    if bytes.len() > bytes_max {
        return Err(LookError::TooLarge { path: path.to_owned(), bytes_max });
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = good.iter().fold(1, |line, byte| line + u64::from(*byte == b'\n'));
        let problem = Problem::new(line, "a byte here is not UTF-8; save the file with the encoding UTF-8");
        LookError::Invalid { path: path.to_owned(), problem }
    })?;
    Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: &str = "https://shop.example";

    /// The look of a folder with these files.
    fn read(files: &[(&str, &[u8])]) -> Result<Look, String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            fs::write(folder.path().join(name), content).unwrap();
        }
        let shown = |error: LookError| error.to_string().replace(folder.path().to_str().unwrap(), "SITE");
        Look::read(folder.path(), ORIGIN).map_err(shown)
    }

    #[test]
    fn a_folder_may_have_any_of_the_known_files() {
        let plain = read(&[(".gitignore", b"x"), ("..data", b"x")]).unwrap();
        assert_eq!(plain.version, Look::default().version);
        let look =
            read(&[("theme.css", b"\xef\xbb\xbf:root { --link: #070; }"), ("footer.html", b"<p>Shop</p>")]).unwrap();
        assert_eq!((look.header.as_str(), look.footer.as_str()), ("", "<p>Shop</p>"));
        assert_eq!(look.differences(&plain), ["theme.css", "footer.html"]);
        assert_ne!(look.version, plain.version);
        let other = read(&[("theme.css", b":root { --link: #070; }"), ("header.html", b"<p>Shop</p>")]).unwrap();
        assert_eq!(look.differences(&other), ["header.html", "footer.html"]);
        assert_ne!(look.version, other.version);
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_what_to_do() {
        let large = vec![b' '; FRAGMENT_BYTES_MAX + 1];
        for (name, content, expected) in [
            (
                "style.css",
                b"".as_slice(),
                "SITE/style.css has a name that means nothing in a site folder, which may have theme.css, header.html, footer.html and the folder messages; rename or remove it",
            ),
            ("header.html", &large, "SITE/header.html has more than 12 KiB; make it smaller"),
            (
                "footer.html",
                b"<p>\n\xff</p>",
                "SITE/footer.html, line 2: a byte here is not UTF-8; save the file with the encoding UTF-8",
            ),
            (
                "footer.html",
                b"<p>\n<b>\n</p>",
                "SITE/footer.html, line 3: </p> does not close <b> of line 2; close the elements in order",
            ),
            ("theme.css", b"a {\n", "SITE/theme.css, line 1: what begins here is not closed; add the missing } or */"),
        ] {
            assert_eq!(read(&[(name, content)]).err().as_deref(), Some(expected));
        }
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(HEADER)).unwrap();
        assert!(matches!(Look::read(folder.path(), ORIGIN), Err(LookError::NotAFile { .. })));
        assert!(matches!(Look::read(&folder.path().join("none"), ORIGIN), Err(LookError::Unreadable { .. })));
    }

    #[test]
    fn the_example_of_the_document_is_good() {
        let document = include_str!("../../../docs/pages.md");
        let blocks = document.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
        let blocks: Vec<(&str, &str)> = blocks.filter(|(kind, _)| ["css", "html"].contains(kind)).collect();
        assert_eq!(blocks.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), ["css", "html", "html"]);
        let files: Vec<(&str, &[u8])> = FILES.into_iter().zip(blocks.iter().map(|(_, text)| text.as_bytes())).collect();
        read(&files).unwrap();
        assert!(FILES.iter().all(|name| document.contains(&format!("`{name}`"))));
    }
}
