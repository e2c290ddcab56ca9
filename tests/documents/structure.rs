//! The structure of the code, as its imports show it. No files import each other in a circle.
//! Crates and rooms import only what stands below them in ARCHITECTURE.md.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use syn::{Attribute, Item, UseTree, visit::Visit};

use crate::fixture::{documents::PROJECT, project_file};

const _: crate::Engines = crate::Engines::Embedded("about the source code");

/// How many `pub use` may stand between a name and the file that defines it.
const REEXPORTS_MAX: usize = 8;

/// The names of a path: modules, and then perhaps an item.
type Names = Vec<String>;

/// An import, or a path in the code.
struct Import {
    /// The name that the file gives to it. A path in the code gives none.
    name: Option<String>,
    path: Names,
}

impl Import {
    /// Whether the file gives this name to something inside a crate.
    fn renames(&self, name: &String) -> bool {
        self.name.as_ref() == Some(name) && self.path.len() > 1
    }
}

/// A file of a crate, without its tests.
struct File {
    /// Its path in the folder `src`.
    name: String,
    /// Its module's path in the crate.
    module: Names,
    imports: Vec<Import>,
}

/// A crate, with those files that its library or program consists of.
struct Crate {
    name: String,
    files: Vec<File>,
}

/// Which files each file imports, by their names.
type Arrows<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

#[derive(Default)]
struct Imports(Vec<Import>);

impl<'a> Visit<'a> for Imports {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_test(item) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.add(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let mut names = Names::new();
        for segment in &path.segments {
            names.push(segment.ident.to_string());
        }
        // A single name is a variable, or was imported.
        if names.len() > 1 {
            self.0.push(Import {
                name: None,
                path: names,
            });
        }
        syn::visit::visit_path(self, path);
    }
}

impl Imports {
    fn add(&mut self, tree: &UseTree, before: &[String]) {
        let mut path = before.to_vec();
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.add(&part.tree, &path);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add(tree, &path);
                }
            }
            UseTree::Name(item) => self.add_item(path, &item.ident, &item.ident),
            UseTree::Rename(item) => self.add_item(path, &item.ident, &item.rename),
            UseTree::Glob(_) => {
                let is_ours = ["crate", "self", "super"].contains(&path[0].as_str());
                assert!(!is_ours, "{path:?}::* hides which names it brings");
                self.0.push(Import { name: None, path });
            }
        }
    }

    fn add_item(&mut self, mut path: Names, item: &syn::Ident, name: &syn::Ident) {
        if item != "self" {
            path.push(item.to_string());
        }
        let name = Some(name.to_string());
        self.0.push(Import { name, path });
    }
}

fn is_test(item: &Item) -> bool {
    let attributes: &[Attribute] = if let Item::Mod(item) = item {
        &item.attrs
    } else if let Item::Fn(item) = item {
        &item.attrs
    } else if let Item::Impl(item) = item {
        &item.attrs
    } else if let Item::Use(item) = item {
        &item.attrs
    } else {
        &[]
    };
    attributes.iter().any(|attribute| {
        let condition = attribute.meta.require_list();
        condition.is_ok_and(|condition| condition.tokens.to_string() == "test")
    })
}

fn crates() -> Vec<Crate> {
    let mut crates = Vec::new();
    let workspace = project_file("Cargo.toml");
    let (_, members) = workspace.split_once("members = [").unwrap();
    let (members, _) = members.split_once(']').unwrap();
    for member in members.split('"').skip(1).step_by(2) {
        let source = Path::new(PROJECT).join(member).join("src");
        if source.is_dir() {
            let (_, name) = member.rsplit_once('/').unwrap_or(("", member));
            crates.push(Crate {
                name: name.to_owned(),
                files: files(&source),
            });
        }
    }
    crates
}

fn files(source: &Path) -> Vec<File> {
    let mut files = Vec::new();
    let mut folders = vec![source.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap();
            if path.is_dir() && stem != "tests" {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") && stem != "tests" {
                files.push(read(source, &path));
            }
        }
    }
    // The program beside a library only calls it.
    if files.iter().any(|file| file.name == "lib.rs") {
        files.retain(|file| file.name != "main.rs");
    }
    files
}

fn read(source: &Path, path: &Path) -> File {
    let name = path.strip_prefix(source).unwrap();
    let mut module = Vec::new();
    for part in &name.with_extension("") {
        module.push(part.to_string_lossy().into_owned());
    }
    if ["lib", "main", "mod"].contains(&module.last().unwrap().as_str()) {
        module.pop();
    }
    let mut imports = Imports::default();
    imports.visit_file(&syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap());
    File {
        name: name.to_string_lossy().into_owned(),
        module,
        imports: imports.0,
    }
}

/// The path from the root of the crate, of a path as a module writes it. `None` if it names
/// something else than an item of this crate.
fn from_root(files: &[File], module: &[String], path: &[String]) -> Option<Names> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([module, rest].concat()),
        "super" => {
            let (_, parent) = module.split_last()?;
            from_root(files, parent, rest).or_else(|| Some([parent, rest].concat()))
        }
        _ => {
            let child = [module, std::slice::from_ref(first)].concat();
            let is_child = files.iter().any(|file| file.module == child);
            is_child.then(|| [module, path].concat())
        }
    }
}

/// The file that defines what a path from the root of the crate names.
fn defining(files: &[File], mut path: Names) -> &File {
    for _ in 0..REEXPORTS_MAX {
        let file = (0..=path.len())
            .rev()
            .find_map(|length| files.iter().find(|file| file.module == path[..length]))
            .unwrap();
        let Some(item) = path.get(file.module.len()) else {
            return file;
        };
        let mut imports = file.imports.iter();
        let Some(import) = imports.find(|import| import.name.as_ref() == Some(item)) else {
            return file;
        };
        let Some(reexported) = from_root(files, &file.module, &import.path) else {
            return file;
        };
        path = reexported;
    }
    panic!("too many re-exports lead to {path:?}");
}

/// Leaves out the arrows of a file to the modules that it belongs to: what a `mod.rs` defines for
/// its own children makes no circle with them.
fn arrows(files: &[File]) -> Arrows<'_> {
    let mut arrows = Arrows::new();
    for file in files {
        for import in &file.imports {
            if let Some(path) = from_root(files, &file.module, &import.path) {
                let target = defining(files, path);
                if !file.module.starts_with(&target.module) {
                    arrows.entry(&file.name).or_default().insert(&target.name);
                }
            }
        }
    }
    arrows
}

/// Files of which each imports the next one, and the last the first; empty if there are none.
fn circle(mut arrows: Arrows<'_>) -> Vec<&str> {
    // A file that imports none of the others is in no circle.
    for _ in 0..arrows.len() {
        let names: BTreeSet<&str> = arrows.keys().copied().collect();
        arrows.retain(|_, targets| {
            targets.retain(|target| names.contains(target));
            !targets.is_empty()
        });
    }
    let mut walked: Vec<&str> = Vec::new();
    let mut next = arrows.keys().next();
    while let Some(file) = next {
        if let Some(start) = walked.iter().position(|earlier| earlier == file) {
            return walked.split_off(start);
        }
        walked.push(file);
        next = arrows[file].first();
    }
    Vec::new()
}

/// The names in backquotes of each row of the table in ARCHITECTURE.md that has this head.
fn architecture_table(head: &str) -> Vec<Names> {
    let document = project_file("ARCHITECTURE.md");
    let mut lines = document.lines().skip_while(|line| *line != head);
    assert!(lines.next().is_some(), "ARCHITECTURE.md has no {head}");
    let mut rows = Vec::new();
    for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
        let names = line.split('`').skip(1).step_by(2);
        rows.push(names.map(str::to_owned).collect());
    }
    rows
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    for Crate { name, files } in crates() {
        let circle = circle(arrows(&files));
        assert!(circle.is_empty(), "a circle in {name}: {circle:?}");
    }
}

#[test]
fn a_circle_is_found_through_a_reexport() {
    let folder = tempfile::tempdir().unwrap();
    let code = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::Answer; pub(crate) struct Asked;"),
        ("b/mod.rs", "mod answer; pub(crate) use answer::Answer;"),
        (
            "b/answer.rs",
            "use crate::a::Asked; pub(crate) struct Answer(Asked);",
        ),
    ];
    fs::create_dir(folder.path().join("b")).unwrap();
    for (name, text) in code {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let files = files(folder.path());
    assert_eq!(circle(arrows(&files)), ["a.rs", "b/answer.rs"]);
}

#[test]
fn crates_import_only_crates_of_lower_floors() {
    let floors = architecture_table("| floor | crates |");
    for Crate { name, files } in crates() {
        let floor = floor_of(&floors, &name.replace('-', "_"));
        let floor = floor.unwrap_or_else(|| panic!("ARCHITECTURE.md has no floor of {name}"));
        for file in &files {
            for import in &file.imports {
                let first = import.path.first().unwrap();
                let imported = floor_of(&floors, first);
                // Another name may hide that of a crate: a module's, or `std::process`.
                let is_hidden = from_root(&files, &file.module, &import.path).is_some()
                    || file.imports.iter().any(|other| other.renames(first));
                assert!(
                    is_hidden || imported.is_none_or(|imported| imported < floor),
                    "{name} imports {:?} in {}, which is not below it",
                    import.path,
                    file.name,
                );
            }
        }
    }
}

/// Which of the floors has the crate that code calls by this name.
fn floor_of(floors: &[Names], name: &str) -> Option<usize> {
    floors
        .iter()
        .position(|floor| floor.iter().any(|other| other.replace('-', "_") == name))
}

#[test]
fn rooms_import_only_rooms_named_before_them() {
    let crates = crates();
    for row in architecture_table("| crate | rooms, from the ground |") {
        let (name, rooms) = row.split_first().unwrap();
        let files = &crates
            .iter()
            .find(|other| other.name == *name)
            .unwrap()
            .files;
        for (file, targets) in arrows(files) {
            for target in targets {
                let from = room(file, rooms);
                let to = room(target, rooms);
                assert!(
                    from.is_none() || to.is_none() || to <= from,
                    "{name}: {file} imports {target}, which stands above it",
                );
            }
        }
    }
}

/// Which of the rooms a file is in.
fn room(file: &str, rooms: &[String]) -> Option<usize> {
    let first = PathBuf::from(file).with_extension("");
    let first = first.iter().next()?.to_str()?;
    rooms.iter().position(|room| room == first)
}
