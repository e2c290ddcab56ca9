//! What happened, by simulated time. Two runs of one schedule have the same trace, byte for byte.

use std::sync::{Arc, Mutex};

use process::now;

/// More lines than any schedule has that ends.
const LINES_MAX: usize = 300_000;

#[derive(Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        let line = format!("{} {}", &now().to_string()[11..23], line());
        let mut lines = self.0.lock().unwrap();
        lines.push(line);
        assert!(
            lines.len() < LINES_MAX,
            "it does not end: {:?}",
            &lines[LINES_MAX - 30..]
        );
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}
