//! Binding, serving, stopping.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use actix_web::{
    App, HttpServer,
    dev::Server,
    middleware::{DefaultHeaders, from_fn},
    web,
};
use stores::{PageIndex, StoreError, Table, table::TableConfig};
use thiserror::Error;

use crate::{
    deadline, pages, routes,
    settings::{ApiSettings, CursorKey, Settings},
    state::State,
    table_id::TableId,
};

/// How long requests under way may take to finish after a stop, in seconds.
const STOP_GRACE_SECONDS: u64 = 10;

/// How long an idle connection is kept. A stop waits for idle connections too, so it is short.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Why the service does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Somebody else listens there.
    #[error("{listen} is in use by another program; choose another address with --listen or PAGEMARK_LISTEN")]
    AddressInUse {
        /// Where it should have listened.
        listen: SocketAddr,
    },
    /// The address cannot be listened at for another reason.
    #[error("cannot listen at {listen}: {source}")]
    Listen {
        /// Where it should have listened.
        listen: SocketAddr,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A store's settings are wrong.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The service: bound to its address, not yet serving.
pub struct Application {
    address: SocketAddr,
    server: Server,
    table_id: Arc<TableId>,
}

impl std::fmt::Debug for Application {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Application").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Application {
    /// Binds, and makes the clients of the stores. No store is asked anything yet: the service starts while they are
    /// down.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn build(settings: Settings) -> Result<Self, StartError> {
        let listener = bind(settings.listen)?;
        let index = PageIndex::connect(&settings.page_index.config())?;
        let comment_blob = settings.comment_blob.comment_blob;
        let table = Table::connect(&TableConfig { comment_blob, ..settings.table.config() }).await;
        let cursor_key = settings.cursor_key.unwrap_or_else(|| {
            tracing::warn!("PAGEMARK_CURSOR_KEY is not set: cursors are good until this process ends, and only here");
            CursorKey::random()
        });
        let api = ApiSettings { write_tokens: settings.write_tokens, ..ApiSettings::new(cursor_key) };
        Self::on(listener, settings.listen, table, index, api)
    }

    /// Binds, with clients of the stores that somebody else made. They should be the service's own: connections that
    /// they open live on the service's threads, and end with them.
    ///
    /// # Errors
    /// The address is in use, or cannot be listened at.
    pub fn with_stores(
        listen: SocketAddr,
        table: Table,
        index: PageIndex,
        settings: ApiSettings,
    ) -> Result<Self, StartError> {
        Self::on(bind(listen)?, listen, table, index, settings)
    }

    fn on(
        listener: TcpListener,
        listen: SocketAddr,
        table: Table,
        index: PageIndex,
        settings: ApiSettings,
    ) -> Result<Self, StartError> {
        let cannot_listen = |source| StartError::Listen { listen, source };
        let address = listener.local_addr().map_err(cannot_listen)?;
        let workers = settings.workers.max(1);
        let state = web::Data::new(State::new(table, index, settings));
        let table_id = Arc::clone(&state.table_id);
        let server = HttpServer::new(move || {
            App::new()
                .app_data(state.clone())
                .wrap(from_fn(deadline::bound))
                .wrap(DefaultHeaders::new().add(("X-Content-Type-Options", "nosniff")))
                .configure(routes::configure)
                .configure(pages::configure)
                .default_service(web::to(routes::no_route))
        })
        .workers(workers)
        .keep_alive(KEEP_ALIVE)
        .shutdown_timeout(STOP_GRACE_SECONDS)
        .disable_signals()
        .listen(listener)
        .map_err(cannot_listen)?
        .run();
        Ok(Self { address, table_id, server })
    }

    /// The address that it listens at, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is done, then takes no more requests and finishes those under way. Signals are the
    /// caller's: the service listens for none.
    ///
    /// # Errors
    /// The server's.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        // Asked for ahead of the first request: an engine on one machine may take seconds to describe a large table,
        // and until then the page index cannot be believed.
        tokio::spawn(async move { self.table_id.get().await });
        let handle = self.server.handle();
        let mut server = pin!(self.server);
        tokio::select! {
            ended = &mut server => return ended,
            () = shutdown => {}
        }
        // The server itself carries out the stop, so it must run on meanwhile.
        let (ended, ()) = tokio::join!(server, handle.stop(true));
        ended
    }
}

fn bind(listen: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(listen).map_err(|source| {
        if source.kind() == io::ErrorKind::AddrInUse {
            StartError::AddressInUse { listen }
        } else {
            StartError::Listen { listen, source }
        }
    })
}
