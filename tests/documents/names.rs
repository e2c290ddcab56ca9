//! The names of promises are the same in the code, in its checks and on the page of guarantees.

use std::{fs, path::Path};

use strum::IntoEnumIterator;

use crate::fixture::{documents::PROJECT, invariant::Invariant, project_file};

const _: crate::Engines = crate::Engines::Embedded("about the source code");

/// Whether a file of this folder of the tests names the promise.
fn is_checked_by(folder: &str, invariant: Invariant) -> bool {
    let named = format!("Invariant::{invariant:?}");
    let files = fs::read_dir(Path::new(PROJECT).join("tests").join(folder)).unwrap();
    files
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .any(|code| code.contains(&named))
}

#[test]
fn the_page_of_guarantees_says_which_checks_report_each_promise() {
    let page = project_file("docs/guarantees.md");
    let (_, names) = page.split_once("## Names").unwrap();
    let mut said: Vec<[String; 2]> = Vec::new();
    for row in names.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, name, _, checked_by, _] = cells.as_slice() else {
            panic!("{row} has no three cells")
        };
        said.push([name, checked_by].map(|cell| cell.replace('`', "")));
    }
    let mut expected: Vec<[String; 2]> = Vec::new();
    for invariant in Invariant::iter() {
        let mut checked_by = Vec::new();
        for (folder, name) in [
            ("simulator", "simulator"),
            ("fixture", "fixtures"),
            ("soak", "soak"),
        ] {
            if is_checked_by(folder, invariant) {
                checked_by.push(name);
            }
        }
        assert!(!checked_by.is_empty(), "nothing checks {invariant}");
        expected.push([invariant.to_string(), checked_by.join(", ")]);
    }
    expected.sort();
    assert_eq!(said, expected);
}
