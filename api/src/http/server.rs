//! actix's server with what `HttpServer` lacks: bounded connections.

use std::{io, net::TcpListener, num::NonZeroUsize, sync::Arc, thread};

use actix_http::{HttpService, Protocol, Response};
use actix_service::{IntoServiceFactory, ServiceFactoryExt, apply_fn_factory, map_config};
use actix_web::{
    App, Error,
    dev::{AppConfig, Server, Service, ServiceFactory, ServiceRequest, ServiceResponse},
    rt::net::TcpStream,
};
use tokio::sync::Semaphore;

use super::connection::{Bounds, LINGER, TimedStream};

/// Serves what `app` makes on each of `threads` threads. After a stop, requests under way may take `stop_grace_seconds` to
/// finish.
///
/// # Errors
/// The listener cannot be used.
pub(crate) fn serve<S>(
    listener: TcpListener,
    threads: usize,
    bounds: Bounds,
    stop_grace_seconds: u64,
    app: impl Fn() -> App<S> + Clone + Send + 'static,
) -> io::Result<Server>
where
    S: ServiceFactory<ServiceRequest, Config = (), Response = ServiceResponse, Error = Error, InitError = ()> + 'static,
{
    let builder = Server::build()
        .workers(threads)
        .max_concurrent_connections(bounds.connections_max.div_ceil(threads))
        .shutdown_timeout(stop_grace_seconds)
        .disable_signals();
    let stopping = builder.graceful_shutdown_signal();
    let places = Arc::new(Semaphore::new(bounds.connections_max.min(Semaphore::MAX_PERMITS)));
    let factory = move || {
        let (bounds, places, stopping) = (bounds.clone(), Arc::clone(&places), stopping.clone());
        let http = HttpService::build()
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            })
            .keep_alive(bounds.keep_alive)
            .client_request_timeout(bounds.head)
            .client_disconnect_timeout(LINGER)
            .on_connect_ext(|stream: &TimedStream, data| {
                data.insert(stream.progress());
            })
            .finish(map_config(app().into_factory().map_err(Response::from), |()| AppConfig::default()));
        apply_fn_factory(http, move |io: TcpStream, http| {
            let peer = io.peer_addr().ok();
            http.call((TimedStream::new(io, bounds.clone(), &places), Protocol::Http1, peer))
        })
    };
    Ok(builder.listen("api", listener, factory)?.run())
}

/// As many threads as the machine, or the container, has processors.
pub(crate) fn threads() -> usize {
    thread::available_parallelism().map_or(2, NonZeroUsize::get)
}
