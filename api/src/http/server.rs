//! actix's accepting of connections and its threads, with our own connections.

use std::{io, net::TcpListener, rc::Rc, sync::Arc, thread};

use actix_service::IntoServiceFactory;
use actix_web::{
    App, Error,
    dev::{
        AppConfig, Server, ServiceFactory, ServiceRequest, ServiceResponse, fn_factory, fn_service,
    },
};

use super::connection::{self, Bounds};

/// Serves what `app` makes on each of `threads` threads. After a stop, requests under way may take
/// `stop_grace_seconds` to finish.
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
    S: ServiceFactory<
            ServiceRequest,
            Config = (),
            Response = ServiceResponse,
            Error = Error,
            InitError = (),
        > + 'static,
{
    let builder = Server::build()
        .workers(threads)
        .max_concurrent_connections(bounds.connections_max.div_ceil(threads))
        .shutdown_timeout(stop_grace_seconds)
        .disable_signals();
    let stopping = builder.graceful_shutdown_signal();
    let bounds = Arc::new(bounds);
    let builder = builder.listen("api", listener, move || {
        let app = app.clone();
        let bounds = Arc::clone(&bounds);
        let stopping = stopping.clone();
        fn_factory(move || {
            let bounds = Arc::clone(&bounds);
            let stopping = stopping.clone();
            let app = app().into_factory().new_service(AppConfig::default());
            async move {
                let app = Rc::new(app.await?);
                Ok::<_, ()>(fn_service(move |io| {
                    let bounds = Arc::clone(&bounds);
                    let app = Rc::clone(&app);
                    let stopping = stopping.clone();
                    async move {
                        connection::serve(io, bounds, app, stopping.notified()).await;
                        Ok::<_, ()>(())
                    }
                }))
            }
        })
    })?;
    Ok(builder.run())
}

/// As many threads as the machine, or the container, has processors.
pub(crate) fn threads() -> usize {
    match thread::available_parallelism() {
        Ok(processors) => processors.get(),
        Err(_) => 2,
    }
}
