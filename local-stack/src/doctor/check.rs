//! What a check found.

use std::fmt;

use model::Timestamp;
use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// As it should be.
    Ok,
    /// Worth knowing; the stack copes with it.
    Warning,
    /// A person has to do something.
    Problem,
}

/// What a check found: one line for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// The subject, such as `database`.
    pub(crate) check: &'static str,
    /// How bad it is.
    pub(crate) state: State,
    /// What was found.
    pub(crate) found: String,
    /// What to do.
    pub(crate) advice: Option<String>,
}

impl Check {
    /// All is well.
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, state: State::Ok, found: found.into(), advice: None }
    }

    /// The stack copes with it.
    pub(super) fn warning(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, state: State::Warning, found: found.into(), advice: Some(advice.into()) }
    }

    /// A person has to do something.
    pub(super) fn problem(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, state: State::Problem, found: found.into(), advice: Some(advice.into()) }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Problem => "problem",
        };
        // Reasons of the system or of SQLite may have several lines.
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        write!(f, "{state:<8} {:<12} {}", self.check, one_line(&self.found))?;
        match &self.advice {
            Some(advice) => write!(f, ". {advice}"),
            None => Ok(()),
        }
    }
}

/// An instant with its age, such as `2026-01-31T06:00:00.000Z (3 min ago)`.
pub(super) fn with_age(at: Timestamp, present: Timestamp) -> String {
    let seconds = present.epoch_seconds() - at.epoch_seconds();
    let age = match seconds {
        ..0 => return format!("{at} (in the future)"),
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} hours", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    };
    format!("{at} ({age} ago)")
}
