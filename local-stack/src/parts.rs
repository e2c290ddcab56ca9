//! The parts of a stack that run as long as it does. A part that ends earlier ends the process,
//! because a supervisor such as systemd restarts a process and cannot see a part.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::{sync::watch, task::JoinSet};

#[derive(Debug, Default)]
pub(crate) struct Parts {
    tasks: JoinSet<()>,
    ended: watch::Sender<Option<String>>,
}

impl Parts {
    pub(crate) fn spawn(
        &mut self,
        part: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let watched = self.watched(part, work.map(|()| "it ended".to_owned()));
        self.tasks.spawn(watched);
    }

    /// Work that is reported when it ends or panics, but not when it is dropped. Its result says
    /// why it ended.
    pub(crate) fn watched<W>(
        &self,
        part: &'static str,
        work: W,
    ) -> impl Future<Output = ()> + use<W>
    where
        W: Future<Output = String>,
    {
        let ended = self.ended.clone();
        async move {
            let reason = AssertUnwindSafe(work).catch_unwind().await;
            let reason = reason.unwrap_or_else(|_| "it panicked, as said above".to_owned());
            ended.send_if_modified(|first| {
                let is_first = first.is_none();
                first.get_or_insert_with(|| format!("{part} no longer runs: {reason}"));
                is_first
            });
        }
    }

    /// Waits for the first part that ends unasked, and says which and why.
    pub(crate) fn ended(&self) -> impl Future<Output = String> + use<> {
        let mut ended = self.ended.subscribe();
        async move {
            match ended.wait_for(Option::is_some).await.as_deref() {
                Ok(Some(reason)) => reason.clone(),
                // The stack was stopped.
                Ok(None) | Err(_) => std::future::pending().await,
            }
        }
    }

    pub(crate) async fn shutdown(&mut self) {
        self.tasks.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_part_that_ends_or_panics_is_named_and_one_that_is_stopped_is_not() {
        let mut parts = Parts::default();
        parts.spawn("the keeper", std::future::pending());
        let mut ended = Box::pin(parts.ended());
        assert_eq!((&mut ended).now_or_never(), None);
        parts.spawn("the mapping", async { panic!("planted") });
        assert_eq!(
            ended.await,
            "the mapping no longer runs: it panicked, as said above"
        );
        parts
            .watched("the API", async { "port closed".to_owned() })
            .await;
        assert_eq!(
            parts.ended().await,
            "the mapping no longer runs: it panicked, as said above"
        );
        let mut stopped = Parts::default();
        stopped.spawn("the keeper", std::future::pending());
        let ended = stopped.ended();
        stopped.shutdown().await;
        assert_eq!(ended.now_or_never(), None);
    }
}
