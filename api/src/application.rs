//! Binds, serves and stops the service.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    pin::pin,
    time::Duration,
};

use actix_web::{
    App, Error,
    dev::{Server, ServiceFactory, ServiceRequest, ServiceResponse},
};
use page_index::PageIndex;
use process::StoreError;
use table::{Table, TableConfig};

use crate::{
    http::{connection::Bounds, server},
    look::LookError,
    operations,
    service::Service,
    settings::{ApiSettings, Settings},
    telemetry::series,
};

/// How long requests under way may take to finish after a stop, in seconds. A request may take as
/// long, and containers are killed after 30 s.
const STOP_GRACE_SECONDS: u64 = 26;

/// How long checks under way may take to finish after that: less than the rest of the 30 s.
const OPERATIONS_STOP_GRACE_SECONDS: u64 = 2;

const OPERATIONS_KEEP_ALIVE: Duration = Duration::from_secs(5);

const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of connections for health and metrics, which only a few checkers use.
const OPERATIONS_CONNECTIONS_MAX: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{listen} is in use by another program; choose another address")]
    AddressInUse { listen: SocketAddr },
    #[error("cannot listen at {listen}: {source}")]
    Listen {
        listen: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Look(#[from] LookError),
}

/// The service: bound to its address, not yet serving.
pub struct Application {
    address: SocketAddr,
    server: Server,
    /// The server for health and metrics, if they have a separate address.
    operations: Option<(SocketAddr, Server)>,
    service: Service,
}

impl Application {
    /// Creates the clients of the stores, and binds. It sends nothing to a store yet, so the
    /// service starts while they are down.
    pub async fn build(settings: Settings) -> Result<Self, StartError> {
        let Settings {
            table,
            comment_blob,
            page_index,
            api,
        } = settings;
        if api.cursor_keys.is_empty() {
            tracing::warn!(
                "PAGEMARK_CURSOR_KEYS is not set: cursors are good until this process ends, and only here"
            );
        }
        let index = deployed_index::connect(&page_index)?;
        let table = TableConfig {
            comment_blob: comment_blob.comment_blob,
            ..table.config()
        };
        Self::with_stores(Table::connect(&table).await, index, api)
    }

    /// Binds, with clients of the stores that the caller made. They should be for this service
    /// only: their connections live on the service's threads, and end with them.
    ///
    /// # Errors
    /// The address is in use, or cannot be listened at. Or the site's folder cannot be used.
    pub fn with_stores(
        table: Table,
        index: PageIndex,
        settings: ApiSettings,
    ) -> Result<Self, StartError> {
        let (listener, address) = bind(settings.listen)?;
        let service = Service::new(table, index, settings, address)?;
        let bounds = Bounds {
            head: HEAD_TIMEOUT,
            request: service.settings.request_timeout,
            unread: service.settings.unread_timeout,
            keep_alive: Duration::from_secs(service.settings.keep_alive_seconds),
            connections_max: service.settings.connections_max,
            malformed: service.metrics.malformed_requests.clone(),
        };
        let operations = match service.settings.operations_listen {
            Some(listen) => Some(operations_server(listen, service.clone(), &bounds)?),
            None => None,
        };
        let routes = if operations.is_some() {
            Service::configure
        } else {
            Service::configure_all
        };
        let of_threads = service.clone();
        let server = server::serve(
            listener,
            server::threads(),
            bounds,
            STOP_GRACE_SECONDS,
            move || of_threads.app(routes),
        )
        .map_err(cannot_listen(address))?;
        Ok(Self {
            address,
            server,
            operations,
            service,
        })
    }

    /// The address that it listens at, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn operations_address(&self) -> Option<SocketAddr> {
        self.operations.as_ref().map(|(address, _)| *address)
    }

    /// Serves until `shutdown` completes, then accepts no more requests and finishes those under
    /// way. The caller handles the signals that end the process.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let Self {
            server,
            operations,
            service,
            ..
        } = self;
        let stores = service.stores.clone();
        // Ahead of the first request.
        tokio::spawn(async move { stores.table_id().await });
        let operations = operations.map(|(_, server)| (server.handle(), tokio::spawn(server)));
        let serving = async {
            let handle = server.handle();
            let mut server = pin!(server);
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
        };
        match &service.settings.metrics_namespace {
            Some(namespace) => {
                series::print_during(serving, namespace, || service.snapshot()).await
            }
            None => serving.await,
        }
    }
}

/// The service without a server, for a caller in the same process that makes its requests itself.
pub fn in_process(
    table: Table,
    index: PageIndex,
    settings: ApiSettings,
) -> Result<
    App<
        impl ServiceFactory<
            ServiceRequest,
            Config = (),
            Response = ServiceResponse,
            Error = Error,
            InitError = (),
        >,
    >,
    LookError,
> {
    let address = settings.listen;
    Ok(Service::new(table, index, settings, address)?.app(Service::configure_all))
}

fn operations_server(
    listen: SocketAddr,
    service: Service,
    bounds: &Bounds,
) -> Result<(SocketAddr, Server), StartError> {
    let (listener, address) = bind(listen)?;
    let bounds = Bounds {
        keep_alive: OPERATIONS_KEEP_ALIVE,
        connections_max: OPERATIONS_CONNECTIONS_MAX,
        ..bounds.clone()
    };
    let server = server::serve(
        listener,
        1,
        bounds,
        OPERATIONS_STOP_GRACE_SECONDS,
        move || service.app(|_, config| operations::configure(config)),
    )
    .map_err(cannot_listen(address))?;
    Ok((address, server))
}

fn bind(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let listener = TcpListener::bind(listen).map_err(cannot_listen(listen))?;
    let address = listener.local_addr().map_err(cannot_listen(listen))?;
    Ok((listener, address))
}

fn cannot_listen(listen: SocketAddr) -> impl FnOnce(io::Error) -> StartError {
    move |source| {
        if source.kind() == io::ErrorKind::AddrInUse {
            StartError::AddressInUse { listen }
        } else {
            StartError::Listen { listen, source }
        }
    }
}
