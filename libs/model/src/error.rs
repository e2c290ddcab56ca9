//! The two ways in which a value can be wrong, split by what the caller does about it.

use std::fmt;

use thiserror::Error;

/// Input of a person or a client that breaks a rule: report it, and change nothing.
///
/// The message says what was wrong and what is allowed; it never repeats more than 80 characters of
/// the input.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {problem}")]
pub struct InvalidInput {
    pub field: &'static str,
    pub problem: String,
}

impl InvalidInput {
    pub fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self {
            field,
            problem: problem.into(),
        }
    }
}

/// An item or a stream record that does not have the shape described in [`crate::item`], and never
/// will. Trying again does not help, so a stream handler puts it into quarantine.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("malformed {what}: {problem}")]
pub struct Malformed {
    pub what: &'static str,
    pub problem: String,
}

impl Malformed {
    pub fn new(what: &'static str, problem: impl Into<String>) -> Self {
        Self {
            what,
            problem: problem.into(),
        }
    }

    /// An error about an attribute of a stored item, which it names by the item's key. The problem
    /// never repeats a comment's text.
    pub fn of_item(pk: &str, sk: &str, attribute: &str, problem: impl fmt::Display) -> Self {
        Self::new(
            "item",
            format!("pk {pk:?}, sk {sk:?}, attribute {attribute}: {problem}"),
        )
    }
}

/// The input in a form that a message may repeat: quoted, escaped, at most 80 characters.
pub(crate) fn quoted(input: &str) -> String {
    let shown: String = input.chars().take(80).collect();
    let dots = if shown.len() < input.len() { "…" } else { "" };
    format!("{shown:?}{dots}")
}
