//! The API of a stack: it starts last, and stops first.

use std::{net::SocketAddr, path::Path, time::Duration};

use api::{Application, NamedToken};
use futures_util::FutureExt;
use page_index::PageIndex;
use table::Table;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{cursor_key::cursor_key, parts::Parts, settings::StackSettings};

/// Grace period for requests under way at a stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct ServedApi {
    pub(crate) address: SocketAddr,
    /// The address of health and metrics, if they have a separate one.
    pub(crate) operations: Option<SocketAddr>,
    task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl ServedApi {
    /// Starts the API, if the settings ask for it. The caller holds the lock of the data folder.
    pub(crate) async fn start(
        settings: &StackSettings,
        folder: &Path,
        table: Table,
        index: PageIndex,
        parts: &Parts,
    ) -> anyhow::Result<Option<Self>> {
        if !settings.serves_api {
            return Ok(None);
        }
        let mut api = settings.api.clone();
        if api.cursor_keys.is_empty() {
            api.cursor_keys.push(cursor_key(folder)?);
        }
        api.writing.tokens.extend(
            settings
                .write_token
                .as_ref()
                .map(|token| NamedToken::local(token.hash())),
        );
        let application = Application::with_stores(table, index, api)?;
        let address = application.address();
        let operations = application.operations_address();
        let (stop, stopped) = oneshot::channel::<()>();
        // A dropped sender stops the API as well.
        let served = async move {
            match application.run_until(stopped.map(drop)).await {
                Ok(()) => "it ended".to_owned(),
                Err(error) => error.to_string(),
            }
        };
        let task = tokio::spawn(parts.watched("the API", served));
        Ok(Some(Self {
            address,
            operations,
            task,
            stop,
        }))
    }

    /// Accepts no more requests, and finishes those under way.
    pub(crate) async fn stop(self) {
        let Self { mut task, stop, .. } = self;
        drop(stop);
        if tokio::time::timeout(STOP_TIMEOUT, &mut task).await.is_err() {
            task.abort();
        }
    }
}
