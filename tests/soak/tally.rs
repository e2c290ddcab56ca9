//! What a soak has done, as a table.

use std::{collections::BTreeMap, fmt, sync::Mutex};

#[derive(Default)]
pub(super) struct Tally(Mutex<BTreeMap<String, u64>>);

impl Tally {
    pub(super) fn add(&self, what: impl Into<String>, count: u64) {
        *self.0.lock().unwrap().entry(what.into()).or_default() += count;
    }

    /// The most important counts.
    pub(super) fn line(&self) -> String {
        let counts = self.0.lock().unwrap();
        let sum = |of: &str| -> u64 {
            let found = counts.iter().filter(|(what, _)| what.starts_with(of));
            found.map(|(_, count)| count).sum()
        };
        format!(
            "{} writes acknowledged, {} pages read, {} faults, {} damages",
            sum("acknowledged: "),
            sum("read: "),
            sum("fault: "),
            sum("damage: ")
        )
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | number |\n| --- | --- |")?;
        for (what, count) in &*self.0.lock().unwrap() {
            writeln!(f, "| {what} | {count} |")?;
        }
        Ok(())
    }
}
