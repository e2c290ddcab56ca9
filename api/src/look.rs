//! A site's own look, from the folder that `PAGEMARK_SITE_DIR` names (docs/pages.md). The service
//! reads it once, at its start.
//!
//! The files are the site's own, so they are trusted. What the content security policy of pages
//! (`http::error_page`) forbids, browsers leave out.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use strum::VariantArray;
use thiserror::Error;

use crate::{
    http::asset::Asset,
    texts::{InterfaceLanguage, first_mistake},
};

const OWN_STYLE: &str = include_str!("../static/style.css");

/// How a site looks. Header and footer are HTML for the top and the bottom of every page.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) style_sheet: Asset,
    /// These rules, for a fragment.
    pub(crate) fragment_style_sheet: Asset,
    pub(crate) header: String,
    pub(crate) footer: String,
}

/// The messages that a site gives itself, in the Fluent syntax.
pub(crate) type OwnMessages = Vec<(InterfaceLanguage, String)>;

#[derive(Debug, Error)]
#[error("the site folder's {} cannot be used: {problem}; check PAGEMARK_SITE_DIR and the file", path.display())]
pub struct LookError {
    path: PathBuf,
    problem: String,
}

impl Look {
    /// The site's rules follow ours, so they win.
    fn new(theme: &str, header: String, footer: String) -> Self {
        let style = if theme.is_empty() {
            OWN_STYLE.to_owned()
        } else {
            [OWN_STYLE, "\n", theme].concat()
        };
        Self {
            fragment_style_sheet: style_sheet("/fragment.css", of_fragment(theme)),
            style_sheet: style_sheet("/static/style.css", style),
            header,
            footer,
        }
    }

    /// Reads a site's folder. Without one, the site has our look and our messages.
    ///
    /// # Errors
    /// The folder or a file cannot be read, or a file of messages is no Fluent syntax, or uses what pages do not have.
    pub(crate) fn read(folder: Option<&Path>) -> Result<(Self, OwnMessages), LookError> {
        let Some(folder) = folder else {
            return Ok((Self::new("", String::new(), String::new()), Vec::new()));
        };
        // Every file is optional, so only this shows a misspelt folder.
        fs::read_dir(folder).map_err(|error| LookError {
            path: folder.to_owned(),
            problem: error.to_string(),
        })?;
        let look = Self::new(
            &read_text(&folder.join("theme.css"))?,
            read_text(&folder.join("header.html"))?,
            read_text(&folder.join("footer.html"))?,
        );
        let path = folder.join("messages/preset");
        let says_reviews = match read_text(&path)?.trim() {
            "" => false,
            "reviews" => true,
            _ => {
                return Err(LookError {
                    path,
                    problem: "the only preset is reviews".to_owned(),
                });
            }
        };
        let mut messages = Vec::new();
        for language in InterfaceLanguage::VARIANTS {
            let path = folder.join("messages").join(format!("{language}.ftl"));
            let source = read_text(&path)?;
            if let Some(problem) = first_mistake(*language, &source) {
                return Err(LookError { path, problem });
            }
            let [_, _, reviews] = language.sources();
            if says_reviews {
                messages.push((*language, reviews.to_owned()));
            }
            messages.push((*language, source));
        }
        Ok((look, messages))
    }
}

fn style_sheet(path: &'static str, style: String) -> Asset {
    Asset::new("text/css; charset=utf-8", path, style)
}

/// What pages choose themselves, and a fragment takes from the page around it: light or dark, the
/// ground, and the room around the text.
const OWN_SCHEME: &str = "color-scheme: light dark;";
const OWN_GROUND: &str = "--back: light-dark(#f5f6f8, #14161a);";
const OWN_PADDING: &str = "padding: 1rem;";

/// The rules of pages, for a fragment. They hold below its element alone. They go by that element's
/// width and font; those of pages go by the window and the root. The web component's element may
/// choose light, dark, or what the reader's system prefers, with our ground.
fn of_fragment(theme: &str) -> String {
    let rules = [&in_em(OWN_STYLE), "\n", theme].concat();
    let rules = rules.replacen(OWN_SCHEME, "", 1);
    let rules = rules.replacen(OWN_GROUND, "--back: transparent;", 1);
    // Room for outlines alone: the text stands in line with that of the page.
    let rules = rules.replacen(&in_em(OWN_PADDING), "padding: 0 .25em;", 1);
    let rules = rules.replace(":root", "&").replace(":host", "&");
    let rules = rules.replace("@media (min-width", "@container (min-width");
    let rules = rules.replace("@media (max-width", "@container (max-width");
    [
        ":host, .pagemark { container-type: inline-size; }\n",
        ":host([theme]) { ",
        OWN_SCHEME,
        " ",
        OWN_GROUND,
        " ",
        &in_em(OWN_PADDING),
        " }\n:host([theme=light]) { color-scheme: light; }\n:host([theme=dark]) { color-scheme: dark; }\n",
        ":host, .pagemark {\n",
        &rules,
        "}\n",
    ]
    .concat()
}

fn in_em(rules: &str) -> String {
    rules.replace("rem", "em")
}

fn read_text(path: &Path) -> Result<String, LookError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text
            .strip_prefix('\u{feff}')
            .map(str::to_owned)
            .unwrap_or(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(LookError {
            path: path.to_owned(),
            problem: error.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &[u8])]) -> Result<(Look, OwnMessages), String> {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("messages")).unwrap();
        for (name, content) in files {
            fs::write(folder.path().join(name), content).unwrap();
        }
        Look::read(Some(folder.path())).map_err(|error| {
            let site_folder = folder.path().to_str().unwrap();
            error.to_string().replace(site_folder, "SITE")
        })
    }

    /// The sources of German messages.
    fn german(messages: &OwnMessages) -> Vec<&str> {
        let mut sources = Vec::new();
        for (language, source) in messages {
            if *language == InterfaceLanguage::De {
                sources.push(source.as_str());
            }
        }
        sources
    }

    /// The error of a site's folder with this file alone.
    fn error(name: &str, content: &[u8]) -> String {
        read(&[(name, content)]).err().unwrap()
    }

    fn error_text(name: &str, problem: &str) -> String {
        format!(
            "the site folder's SITE/{name} cannot be used: {problem}; check PAGEMARK_SITE_DIR and the file"
        )
    }

    /// A browser shows what comes of it: `component.mjs`.
    #[test]
    fn a_fragment_takes_light_or_dark_and_the_ground_from_the_page_around_it() {
        for own in [OWN_SCHEME, OWN_GROUND, OWN_PADDING] {
            assert!(OWN_STYLE.contains(own), "{own}");
        }
        let style = of_fragment("");
        let (_, of_all) = style.split_once(":host, .pagemark {\n").unwrap();
        assert!(!of_all.contains(OWN_SCHEME) && of_all.contains("--back: transparent;"));
    }

    #[test]
    fn a_folder_may_have_any_of_the_known_files() {
        let (own, _) = Look::read(None).unwrap();
        let (plain, messages) = read(&[(".gitignore", b"x")]).unwrap();
        assert_eq!(
            (plain.style_sheet.url(), plain.header.as_str()),
            (own.style_sheet.url(), "")
        );
        assert!(messages.iter().all(|(_, source)| source.is_empty()));
        let files: [(&str, &[u8]); 3] = [
            ("theme.css", b"\xef\xbb\xbf:root { --link: #070; }"),
            ("footer.html", b"<p>Shop</p>"),
            ("messages/de.ftl", b"anonymous = Gast\n"),
        ];
        let (_, preset) = read(&[("messages/preset", b"reviews\n"), files[2]]).unwrap();
        assert_eq!(
            german(&preset),
            [InterfaceLanguage::De.sources()[2], "anonymous = Gast\n"]
        );
        let (look, messages) = read(&files).unwrap();
        assert_eq!(
            (look.header.as_str(), look.footer.as_str()),
            ("", "<p>Shop</p>")
        );
        assert_ne!(look.style_sheet.url(), plain.style_sheet.url());
        assert!(messages.contains(&(InterfaceLanguage::De, "anonymous = Gast\n".to_owned())));
        assert_eq!(
            read(&[("theme.css", b":root { --link: #070; }")])
                .unwrap()
                .0
                .style_sheet
                .url(),
            look.style_sheet.url()
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_in_one_line() {
        assert_eq!(
            error("footer.html", b"<p>\n\xff</p>"),
            error_text("footer.html", "stream did not contain valid UTF-8")
        );
        let mistake = error("messages/de.ftl", b"newest = Neueste\noldest =\n");
        assert!(
            mistake.starts_with("the site folder's SITE/messages/de.ftl cannot be used: line 2: "),
            "{mistake}"
        );
        assert_eq!(
            error("messages/preset", b"ratings"),
            error_text("messages/preset", "the only preset is reviews")
        );
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("header.html")).unwrap();
        for unreadable in [folder.path(), &folder.path().join("none")] {
            let error = Look::read(Some(unreadable)).err().unwrap().to_string();
            assert!(
                error.contains("cannot be used") && error.lines().count() == 1,
                "{error}"
            );
        }
    }
}
