//! The structure of the code. No file is longer than 500 lines. The files of a crate import each other in no circle.
//! Only a module and the modules inside it may use each other.
//!
//! [`Crate::read`] follows `mod` from a crate's root. It notes the paths that each file names outside of its unit tests.
//! A path counts for the file that defines the name, not for one that only re-exports it.
//!
//! A circle through a module that contains the circle's other files is allowed. [`Crate::circles`] takes that module
//! out and searches the rest again.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use itertools::Itertools;
use regex_lite::Regex;

/// A module or an item by the names that lead to it from the crate's root.
type Names = Vec<String>;

/// What a file says about other files.
#[derive(Default)]
struct File {
    path: PathBuf,
    /// The names that `use` brings in, and the path of each.
    imports: BTreeMap<String, Names>,
    /// The paths that the code names. They begin with `crate`, or with a name that is known in the file.
    used: Vec<Names>,
}

/// The modules that each module uses, and the names that it uses of each.
type Uses<'a> = BTreeMap<&'a Names, BTreeMap<Names, BTreeSet<&'a str>>>;

/// The files of a crate, each by its module.
struct Crate(BTreeMap<Names, File>);

impl Crate {
    /// Reads a crate from its root, such as `src/lib.rs`.
    fn read(root: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut unread = vec![(Names::new(), root.to_owned())];
        while let Some((module, path)) = unread.pop() {
            let code = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let (file, own) = (File { path, ..File::default() }, module.clone());
            let mut reader = Reader { tokens: tokens(&code), at: 0, module: own, file, inner: Vec::new() };
            reader.read(&module);
            let path = &reader.file.path;
            let is_folder = module.is_empty() || path.ends_with("mod.rs");
            let folder = if is_folder { path.parent().unwrap().to_owned() } else { path.with_extension("") };
            for name in reader.inner {
                let file = folder.join(&name).with_extension("rs");
                let file = if file.exists() { file } else { folder.join(&name).join("mod.rs") };
                unread.push((below(&module, &name), file));
            }
            files.insert(module, reader.file);
        }
        Self(files)
    }

    /// The module that defines what `module` names by `path`; `None` if that is outside of this crate.
    fn definition(&self, module: &Names, path: &Names) -> Option<Names> {
        let (mut module, mut path, mut is_known) = (module.clone(), path.clone(), false);
        // Each turn follows one name or one import.
        for _ in 0..100 {
            if path.first().is_some_and(|name| name == "crate") {
                (module, path, is_known) = (Names::new(), path.split_off(1), true);
            }
            let Some(name) = path.first() else { return Some(module) };
            let inner = below(&module, name);
            if self.0.contains_key(&inner) {
                (module, path, is_known) = (inner, path.split_off(1), true);
                continue;
            }
            match self.0[&module].imports.get(name) {
                Some(import) if import[0] == "crate" || self.0.contains_key(&below(&module, &import[0])) => {
                    path = [import.as_slice(), &path[1..]].concat();
                }
                Some(_outside) => return None,
                None => return is_known.then_some(module),
            }
        }
        panic!("{path:?} is imported in a circle");
    }

    fn uses(&self) -> Uses<'_> {
        let uses = self.0.iter().map(|(module, file)| {
            let mut uses = BTreeMap::<Names, BTreeSet<&str>>::new();
            for path in &file.used {
                if let Some(used) = self.definition(module, path).filter(|used| used != module) {
                    uses.entry(used).or_default().extend(path.last().map(String::as_str));
                }
            }
            (module, uses)
        });
        uses.collect()
    }

    /// A text for each circle: its files, and what each uses of the others.
    fn circles(&self) -> Vec<String> {
        let uses = self.uses();
        let mut circles = Vec::new();
        let mut unsearched = vec![self.0.keys().cloned().collect::<BTreeSet<Names>>()];
        while let Some(modules) = unsearched.pop() {
            let reached = |from: &Names| {
                let (mut reached, mut unvisited) = (BTreeSet::new(), vec![from]);
                while let Some(module) = unvisited.pop() {
                    let used = uses[module].keys().filter(|used| modules.contains(*used));
                    unvisited.extend(used.filter(|used| reached.insert((*used).clone())));
                }
                reached
            };
            let reached: BTreeMap<&Names, BTreeSet<Names>> = modules.iter().map(|from| (from, reached(from))).collect();
            let back =
                |module: &Names| reached[module].iter().filter(|to| reached[to].contains(module)).cloned().collect();
            let found: BTreeSet<BTreeSet<Names>> = modules.iter().map(back).collect();
            for mut circle in found {
                // A module sorts before the modules inside it.
                let Some(outer) = circle.pop_first() else { continue };
                if circle.iter().all(|inner| inner.starts_with(&outer)) {
                    unsearched.push(circle);
                } else {
                    circle.insert(outer);
                    circles.push(self.described(&circle, &uses));
                }
            }
        }
        circles
    }

    fn described(&self, circle: &BTreeSet<Names>, uses: &Uses<'_>) -> String {
        let mut text = format!("{} files import each other:\n", circle.len());
        for (from, to) in circle.iter().cartesian_product(circle) {
            if let Some(names) = uses[from].get(to) {
                let [from, to] = [from, to].map(|module| self.0[module].path.display());
                text += &format!("    {from} uses {to}: {}\n", names.iter().join(", "));
            }
        }
        text
    }
}

fn below(module: &Names, name: &str) -> Names {
    [module.as_slice(), &[name.to_owned()]].concat()
}

/// Reads one file.
struct Reader {
    tokens: Vec<String>,
    at: usize,
    module: Names,
    file: File,
    /// The modules that have files of their own.
    inner: Vec<String>,
}

impl Reader {
    fn text(&self, offset: usize) -> &str {
        self.tokens.get(self.at + offset).map_or("", String::as_str)
    }

    fn starts_with(&self, tokens: &[&str]) -> bool {
        tokens.iter().enumerate().all(|(offset, token)| self.text(offset) == *token)
    }

    /// Reads code in `module` up to the brace that closes it. `module` is the file's own module, or one that the file
    /// spells out in braces.
    fn read(&mut self, module: &Names) {
        while self.at < self.tokens.len() && self.text(0) != "}" {
            if self.starts_with(&["#", "[", "cfg", "(", "test", ")", "]"]) {
                // The item after the attribute ends with a semicolon or a block.
                while !["", ";", "{"].contains(&self.text(0)) {
                    self.at += 1;
                }
                self.skip_block();
            } else if self.text(0) == "mod" && self.text(2) == ";" {
                self.inner.push(self.text(1).to_owned());
                self.at += 2;
            } else if self.text(0) == "mod" && self.text(2) == "{" {
                let inner = below(module, self.text(1));
                self.at += 3;
                self.read(&inner);
            } else if self.text(0) == "use" {
                let is_public = self.at > 0 && ["pub", ")"].contains(&self.tokens[self.at - 1].as_str());
                self.at += 1;
                self.import(module, &Names::new(), is_public);
            } else if self.text(0) == "{" {
                self.at += 1;
                self.read(module);
            } else if is_name(self.text(0)) && self.text(1) == "::" {
                let mut path = vec![self.text(0).to_owned()];
                while self.text(1) == "::" && is_name(self.text(2)) {
                    self.at += 2;
                    path.push(self.text(0).to_owned());
                }
                self.file.used.push(from_root(&path, module));
            }
            self.at += 1;
        }
    }

    /// Skips the block that begins here, if one does.
    fn skip_block(&mut self) {
        let mut depth = 0;
        while let Some(token) = self.tokens.get(self.at) {
            depth += i32::from(token == "{") - i32::from(token == "}");
            if depth == 0 {
                return;
            }
            self.at += 1;
        }
    }

    /// Reads an import that continues the path `outer`, up to the token that ends it.
    fn import(&mut self, module: &Names, outer: &Names, is_public: bool) {
        let (mut path, mut alias, mut is_item) = (outer.clone(), None, false);
        while !["", ";", ",", "}"].contains(&self.text(0)) {
            let token = self.text(0).to_owned();
            if token == "{" {
                while !["", "}"].contains(&self.text(0)) {
                    self.at += 1;
                    self.import(module, &path, is_public);
                }
                is_item = false;
            } else if token == "as" {
                self.at += 1;
                alias = Some(self.text(0).to_owned());
            } else if is_name(&token) {
                is_item = true;
                if token != "self" || path.is_empty() {
                    path.push(token);
                }
            }
            self.at += 1;
        }
        let Some(name) = path.last().filter(|_| is_item).cloned() else { return };
        let name = alias.unwrap_or(name);
        let path = from_root(&path, module);
        let own = from_root(&vec!["self".to_owned()], &self.module);
        // A module that re-exports what is inside it does not use it.
        if !is_public || (path[0] == "crate" && !path.starts_with(&own)) {
            self.file.used.push(path.clone());
        }
        self.file.imports.insert(name, path);
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// In this order: a comment, a raw string, a string, a character, a name, a sign. A lifetime has no second quote, so it
/// is a sign and a name.
const TOKEN: &str = r#"(?sx)
    //[^\n]*
    | b?r\x23".*?"\x23 | b?r"[^"]*"
    | b?"(\\.|[^\\"])*"
    | b?'(\\.[^']*|[^\\'])'
    | [A-Za-z_][A-Za-z_0-9]* | :: | \S"#;

/// The names and signs of Rust code, without comments and literals.
fn tokens(code: &str) -> Vec<String> {
    let tokens = Regex::new(TOKEN).unwrap();
    let tokens = tokens.find_iter(code).map(|token| token.as_str());
    tokens.filter(|token| !token.starts_with("//") && !token.contains(['"', '\''])).map(str::to_owned).collect()
}

/// A path of `module` with `crate` instead of `self` or `super`.
fn from_root(path: &Names, module: &Names) -> Names {
    let supers = path.iter().take_while(|name| *name == "super").count();
    if supers == 0 && path[0] != "self" {
        return path.clone();
    }
    [&["crate".to_owned()], &module[..module.len() - supers], &path[supers.max(1)..]].concat()
}

/// The folders of the workspace's crates.
fn crate_folders() -> Vec<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let manifest = std::fs::read_to_string(workspace.join("Cargo.toml")).unwrap();
    let members = manifest.lines().skip_while(|line| !line.starts_with("members")).skip(1);
    let members = members.map_while(|line| line.trim().strip_prefix('"')?.strip_suffix("\","));
    members.map(|member| workspace.join(member)).collect()
}

#[test]
fn no_files_of_a_crate_import_each_other_in_a_circle() {
    let (mut circles, mut roots) = (String::new(), 0);
    for folder in crate_folders() {
        for root in ["src/lib.rs", "src/main.rs", "main.rs"].map(|root| folder.join(root)) {
            if root.exists() {
                roots += 1;
                circles.extend(Crate::read(&root).circles());
            }
        }
    }
    assert!(roots > 5, "the workspace's Cargo.toml lists {roots} crates");
    assert!(circles.is_empty(), "{circles}");
}

/// The Rust files in a folder and below it.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let below = folders.iter().filter(|folder| !folder.ends_with("target")).flat_map(|folder| rust_files(folder));
    files.into_iter().filter(|path| path.extension().is_some_and(|name| name == "rs")).chain(below).collect()
}

#[test]
fn no_file_has_more_than_500_lines() {
    let files: BTreeSet<PathBuf> = crate_folders().iter().flat_map(|folder| rust_files(folder)).collect();
    assert!(files.len() > 100, "{files:?}");
    let lines = |file: &PathBuf| std::fs::read_to_string(file).unwrap().lines().count();
    let long: Vec<&PathBuf> = files.iter().filter(|file| lines(file) > 500).collect();
    assert!(long.is_empty(), "{long:?}");
}

#[test]
fn a_circle_is_found_and_a_module_may_use_what_is_inside_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("lib.rs");
    let write = |name: &str, code: &str| std::fs::write(folder.path().join(name), code).unwrap();
    std::fs::create_dir(folder.path().join("outer")).unwrap();
    write("lib.rs", "mod a; mod b; mod outer; pub use a::A; fn f() { outer::o() }");
    write("a.rs", "use crate::outer; pub struct A; fn f() { outer::inner::I }");
    write("b.rs", "pub fn b() -> super::outer::Same {}");
    write("outer/mod.rs", "mod inner; mod other; pub use inner::I as Same; pub fn o() { inner::i() }");
    write("outer/inner.rs", "use super::o; pub struct I; pub fn i() { crate::f() }");
    write("outer/other.rs", "#[cfg(test)] mod tests { use crate::{b::b, A}; }");
    assert_eq!(Crate::read(&root).circles(), Vec::<String>::new());
    write("outer/inner.rs", "pub struct I; mod code { fn f(a: crate::A) {} }");
    let circles = Crate::read(&root).circles();
    assert_eq!(circles.len(), 1, "{circles:?}");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let edge = format!("{} uses {}: A\n", path("outer/inner.rs"), path("a.rs"));
    assert!(circles[0].contains(&edge) && !circles[0].contains("b.rs"), "{circles:?}");
}
