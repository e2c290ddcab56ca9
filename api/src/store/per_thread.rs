//! A store client for each serving thread.
//!
//! The thread that opened a connection also drives it. If all threads shared the same connections,
//! a call would often wake another thread and be woken by it (docs/benchmarks-notes.md gives the
//! cost).

use std::ops::Deref;

use thread_local::ThreadLocal;

/// A value for each thread, created when the thread first uses it.
pub(crate) struct PerThread<T: Send> {
    of_threads: ThreadLocal<T>,
    template: T,
    another: fn(&T) -> T,
}

impl<T: Send> PerThread<T> {
    pub(crate) fn new(template: T, another: fn(&T) -> T) -> Self {
        Self {
            of_threads: ThreadLocal::new(),
            template,
            another,
        }
    }
}

impl<T: Send> Deref for PerThread<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.of_threads.get_or(|| (self.another)(&self.template))
    }
}
