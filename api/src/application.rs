//! Binds, serves and stops the service.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    pin::pin,
    time::Duration,
};

use actix_web::{
    dev::Server,
    web::{Data, ServiceConfig},
};
use page_index::PageIndex;
use process::StoreError;
use table::{Table, TableConfig};
use thiserror::Error;

use crate::{
    http::{
        connection::{Deadlines, Places},
        server::{self, ServerBounds},
    },
    ops,
    secrets::CursorKey,
    service::Service,
    settings::{ApiSettings, Settings},
    site::SiteSettings,
    store::StoreClients,
};

/// How long requests under way may take to finish after a stop, in seconds. A request may take as long, and containers
/// are killed after 30 s.
const STOP_GRACE_SECONDS: u64 = 26;

/// How long checks under way may take to finish after that: less than the rest of the 30 s.
const OPERATIONS_STOP_GRACE_SECONDS: u64 = 2;

/// How long idle connections of checkers are kept.
const OPERATIONS_KEEP_ALIVE: Duration = Duration::from_secs(5);

const BYTES_A_MIB: usize = 1024 * 1024;

/// Maximum number of connections for health and metrics, which only a few checkers use.
const OPERATIONS_CONNECTIONS_MAX: usize = 64;

/// Why the service does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Another program listens there.
    #[error("{listen} is in use by another program; choose another address")]
    AddressInUse {
        /// The requested address.
        listen: SocketAddr,
    },
    /// The address cannot be listened at for another reason.
    #[error("cannot listen at {listen}: {source}")]
    Listen {
        /// The requested address.
        listen: SocketAddr,
        /// The error of the operating system.
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
    /// The server for health and metrics, if they have a separate address.
    operations: Option<(SocketAddr, Server)>,
    stores: Data<StoreClients>,
}

impl std::fmt::Debug for Application {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Application").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Application {
    /// Binds, and creates the clients of the stores. It sends nothing to a store yet, so the service starts while they
    /// are down.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn build(settings: Settings) -> Result<Self, StartError> {
        let listener = bind(settings.listen)?;
        let index = PageIndex::connect(&settings.page_index.config())?;
        let comment_blob = settings.comment_blob.comment_blob;
        let table = Table::connect(&TableConfig { comment_blob, ..settings.table.config() }).await;
        let mut cursor_keys = settings.cursor_keys.into_iter();
        let cursor_key = cursor_keys.next().unwrap_or_else(|| {
            tracing::warn!("PAGEMARK_CURSOR_KEYS is not set: cursors are good until this process ends, and only here");
            CursorKey::random()
        });
        let site = SiteSettings { public_url: Some(settings.public_url), choices: settings.site, comment_form: false };
        let api = ApiSettings {
            write_tokens: settings.write_tokens,
            other_cursor_keys: cursor_keys.collect(),
            operations_listen: settings.operations_listen,
            in_flight_max: settings.in_flight_max,
            connections_max: settings.connections_max,
            answer_memory_bytes: usize::from(settings.answer_memory_mib) * BYTES_A_MIB,
            cache_max_age_seconds: settings.cache_max_age_seconds,
            site,
            keep_alive: Duration::from_secs(settings.keep_alive_seconds),
            proxies: settings.proxies,
            ..ApiSettings::new(cursor_key)
        };
        Self::of_stores(listener, settings.listen, table, index, api)
    }

    /// Binds, with clients of the stores that the caller made. They should be for this service only: their connections
    /// live on the service's threads, and end with them.
    ///
    /// # Errors
    /// The address is in use, or cannot be listened at.
    pub fn with_stores(
        listen: SocketAddr,
        table: Table,
        index: PageIndex,
        settings: ApiSettings,
    ) -> Result<Self, StartError> {
        Self::of_stores(bind(listen)?, listen, table, index, settings)
    }

    fn of_stores(
        listener: TcpListener,
        listen: SocketAddr,
        table: Table,
        index: PageIndex,
        settings: ApiSettings,
    ) -> Result<Self, StartError> {
        let (address, operations_listen) = (local_address(&listener, listen)?, settings.operations_listen);
        let deadlines = Deadlines {
            head: settings.head_timeout,
            request: settings.request_timeout,
            unread: settings.unread_timeout,
            keep_alive: settings.keep_alive,
        };
        let places = Places::new(settings.connections_max);
        let bounds = ServerBounds { deadlines, places, stop_grace_seconds: STOP_GRACE_SECONDS };
        let service = Service::new(table, index, settings, address);
        let stores = service.stores.clone();
        let (routes, operations): (fn(&Service, &mut ServiceConfig), _) = match operations_listen {
            Some(listen) => (Service::configure, Some(operations_server(listen, service.clone(), deadlines)?)),
            None => (Service::configure_all, None),
        };
        let app = move || service.app(routes);
        let server = server::serve(listener, server::threads(), bounds, app)
            .map_err(|source| StartError::Listen { listen, source })?;
        Ok(Self { address, server, operations, stores })
    }

    /// The address that it listens at, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of health and metrics, if they have a separate one.
    pub fn operations_address(&self) -> Option<SocketAddr> {
        self.operations.as_ref().map(|(address, _)| *address)
    }

    /// Serves until `shutdown` completes, then accepts no more requests and finishes those under way. The caller
    /// handles signals; the service does not listen for them.
    ///
    /// # Errors
    /// The server's.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        tokio::spawn(async move { self.stores.learn_table_id().await });
        let operations = self.operations.map(|(_, server)| (server.handle(), tokio::spawn(server)));
        let handle = self.server.handle();
        let mut server = pin!(self.server);
        let ended = tokio::select! {
            ended = &mut server => ended,
            // The server itself carries out the stop, so it must run on meanwhile.
            () = shutdown => tokio::join!(server, handle.stop(true)).0,
        };
        // Last, so that a stopping service can still be watched.
        if let Some((handle, serving)) = operations {
            handle.stop(true).await;
            serving.await.map_err(io::Error::other)??;
        }
        ended
    }
}

/// The server for health and metrics at a separate address.
fn operations_server(
    listen: SocketAddr,
    service: Service,
    deadlines: Deadlines,
) -> Result<(SocketAddr, Server), StartError> {
    let listener = bind(listen)?;
    let address = local_address(&listener, listen)?;
    let bounds = ServerBounds {
        deadlines: Deadlines { keep_alive: OPERATIONS_KEEP_ALIVE, ..deadlines },
        places: Places::new(OPERATIONS_CONNECTIONS_MAX),
        stop_grace_seconds: OPERATIONS_STOP_GRACE_SECONDS,
    };
    let app = move || service.app(|_, config| ops::configure(config));
    let server = server::serve(listener, 1, bounds, app).map_err(|source| StartError::Listen { listen, source })?;
    Ok((address, server))
}

fn local_address(listener: &TcpListener, listen: SocketAddr) -> Result<SocketAddr, StartError> {
    listener.local_addr().map_err(|source| StartError::Listen { listen, source })
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
