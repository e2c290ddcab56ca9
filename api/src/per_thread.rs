//! A client of a store for each thread that serves.
//!
//! A connection is driven by the thread that opened it. If all threads asked through the same connections, a call would
//! often wake another thread and be woken by it in turn (docs/benchmarks-notes.md says what that costs).

use std::ops::Deref;

use thread_local::ThreadLocal;

/// What every thread has one of, made when the thread first uses it.
pub(crate) struct PerThread<T: Send> {
    of_threads: ThreadLocal<T>,
    template: T,
    another: fn(&T) -> T,
}

impl<T: Send> PerThread<T> {
    /// Every thread's own is made by `another` from the template.
    pub(crate) fn new(template: T, another: fn(&T) -> T) -> Self {
        Self { of_threads: ThreadLocal::new(), template, another }
    }
}

impl<T: Send> Deref for PerThread<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.of_threads.get_or(|| (self.another)(&self.template))
    }
}
