//! The names of promises are the same in the code, in its checks and on the page of guarantees.

use std::{fs, path::Path};

use model::Invariant;
use strum::IntoEnumIterator;

use crate::fixture::{
    documents::{PROJECT, files_below},
    project_file,
};

const _: crate::Engines = crate::Engines::Embedded("about the source code");

/// The page's words for who checks promises, and the folders with their code.
const CHECKS: [(&str, &[&str]); 4] = [
    ("simulator", &["tests/simulator"]),
    ("soak", &["tests/soak"]),
    ("fixtures", &["tests/fixture"]),
    (
        "product",
        &[
            "api",
            "libs",
            "local-stack",
            "page-indexer",
            "repair-job",
            "stream-writer",
        ],
    ),
];

/// The code below some folders.
fn code(folders: &[&str]) -> String {
    let mut code = String::new();
    for folder in folders {
        for file in files_below(&Path::new(PROJECT).join(folder)) {
            code += &fs::read_to_string(file).unwrap();
        }
    }
    code
}

/// Whether some code names a promise. The name of another may only begin like it.
fn names(code: &str, invariant: Invariant) -> bool {
    let name = format!("Invariant::{invariant:?}");
    let mut uses = code.match_indices(&name);
    uses.any(|(at, _)| {
        let rest = &code[at + name.len()..];
        !rest.starts_with(char::is_alphanumeric)
    })
}

#[test]
fn the_page_of_guarantees_says_which_checks_report_each_promise() {
    let page = project_file("docs/guarantees.md");
    let (_, table) = page.split_once("## Names").unwrap();
    let mut said: Vec<[String; 2]> = Vec::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, name, _, checked_by, _] = cells.as_slice() else {
            panic!("{row} has no three cells")
        };
        said.push([name, checked_by].map(|cell| cell.replace('`', "")));
    }
    let checks = CHECKS.map(|(name, folders)| (name, code(folders)));
    let mut expected: Vec<[String; 2]> = Vec::new();
    for invariant in Invariant::iter() {
        let mut checked_by = Vec::new();
        for (name, code) in &checks {
            if names(code, invariant) {
                checked_by.push(*name);
            }
        }
        assert!(!checked_by.is_empty(), "nothing checks {invariant}");
        expected.push([invariant.to_string(), checked_by.join(", ")]);
    }
    expected.sort();
    assert_eq!(said, expected);
}
