//! actix's server with what `HttpServer` lacks: deadlines on the socket, connections that end after their last answer,
//! and bodies that are requested when they are read.

use std::{io, net::TcpListener, num::NonZeroUsize, thread};

use actix_http::{HttpService, Protocol, Response};
use actix_service::{IntoServiceFactory, ServiceFactoryExt, apply_fn_factory, map_config};
use actix_web::{
    App, Error,
    body::BoxBody,
    dev::{AppConfig, Server, Service, ServiceFactory, ServiceRequest, ServiceResponse},
    rt::net::TcpStream,
};

use super::{
    connection::{Deadlines, LINGER, Places, TimedStream},
    expectation::{Answering, begin, resume},
};

#[derive(Debug, Clone)]
pub(crate) struct ServerBounds {
    pub(crate) deadlines: Deadlines,
    /// Connections of all threads; further ones wait until others end.
    pub(crate) places: Places,
    /// How long requests under way may take to finish after a stop, in seconds.
    pub(crate) stop_grace_seconds: u64,
}

/// Serves what `app` makes on each of `threads` threads.
///
/// # Errors
/// The listener cannot be used.
pub(crate) fn serve<S>(
    listener: TcpListener,
    threads: usize,
    bounds: ServerBounds,
    app: impl Fn() -> App<S> + Clone + Send + 'static,
) -> io::Result<Server>
where
    S: ServiceFactory<ServiceRequest, Config = (), Response = ServiceResponse, Error = Error, InitError = ()> + 'static,
{
    let builder = Server::build()
        .workers(threads)
        .max_concurrent_connections(bounds.places.max().div_ceil(threads))
        .shutdown_timeout(bounds.stop_grace_seconds)
        .disable_signals();
    let stopping = builder.graceful_shutdown_signal();
    let factory = move || {
        let ServerBounds { deadlines, places, .. } = bounds.clone();
        let stopping = stopping.clone();
        let app = || map_config(app().into_factory().map_err(Response::from), |()| AppConfig::default());
        let http = HttpService::build()
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            })
            .keep_alive(deadlines.keep_alive)
            .client_request_timeout(deadlines.head)
            .client_disconnect_timeout(LINGER)
            .on_connect_ext(|stream: &TimedStream, data| {
                data.insert(stream.progress());
            })
            .expect(apply_fn_factory(app(), |request, app| begin(request, |request| answer(app.call(request)))))
            .finish(apply_fn_factory(app(), |request, app| {
                let answering = resume(request, |request| answer(app.call(request)));
                async move { Ok::<_, Response<BoxBody>>(answering.await) }
            }));
        apply_fn_factory(http, move |io: TcpStream, http| {
            let peer = io.peer_addr().ok();
            http.call((TimedStream::new(io, deadlines, &places), Protocol::Http1, peer))
        })
    };
    Ok(builder.listen("api", listener, factory)?.run())
}

/// The answer of the app, also when that is an error.
fn answer(answering: impl Future<Output = Result<ServiceResponse, Response<BoxBody>>> + 'static) -> Answering {
    Box::pin(async move { answering.await.map_or_else(|error| error, Response::from) })
}

/// As many threads as the machine, or the container, has processors.
pub(crate) fn threads() -> usize {
    thread::available_parallelism().map_or(2, NonZeroUsize::get)
}
