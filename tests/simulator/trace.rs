//! What happened, by simulated time. Two runs of one schedule have the same trace, byte for byte.

use std::sync::{Arc, Mutex};

use process::now;

#[derive(Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        let line = format!("{} {}", &now().to_string()[11..23], line());
        self.0.lock().unwrap().push(line);
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}
