//! What the handlers share, and the layers that every request passes.

use std::{net::SocketAddr, sync::Arc};

use actix_web::{
    App, Error,
    dev::{ServiceFactory, ServiceRequest, ServiceResponse},
    middleware::{DefaultHeaders, from_fn},
    web::{self, Data},
};
use page_index::PageIndex;
use table::Table;

use crate::{
    html::{self, explanation},
    http::{
        answer_memory::{self, AnswerMemory},
        base_path,
        body::BodyTimeout,
        cross_origin,
        load::{self, Load},
        routing,
    },
    json,
    look::LookError,
    operations::{self, access},
    read::{cursor::CursorSealer, products::Products},
    settings::ApiSettings,
    site::Site,
    store::StoreClients,
    telemetry::{cost, is_operational, metrics::ApiMetrics, series::Snapshot},
};

/// Maximum number of concurrent health checks and scrapes: several checkers, and some that have
/// given up.
const OPERATIONS_IN_FLIGHT_MAX: usize = 32;

const BYTES_A_MIB: usize = 1024 * 1024;

#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) stores: Data<StoreClients>,
    pub(crate) load: Data<Load>,
    operations_load: Data<Load>,
    pub(crate) metrics: Data<ApiMetrics>,
    memory: Data<AnswerMemory>,
    cursors: Data<CursorSealer>,
    site: Data<Site>,
    products: Data<Products>,
    pub(crate) settings: Data<ApiSettings>,
}

impl Service {
    /// `address` is where the service listens.
    pub(crate) fn new(
        table: Table,
        index: PageIndex,
        settings: ApiSettings,
        address: SocketAddr,
    ) -> Result<Self, LookError> {
        let metrics = Arc::new(ApiMetrics::new());
        let settings = Data::new(settings);
        let stores = Data::new(StoreClients::new(
            table,
            index,
            Arc::clone(&metrics),
            settings.clone(),
        ));
        let site = Data::new(Site::new(settings.site.clone(), address)?);
        let memory_bytes = usize::from(settings.answer_memory_mib) * BYTES_A_MIB;
        Ok(Self {
            load: Data::new(Load::new(settings.in_flight_max, metrics.shed.clone())),
            operations_load: Data::new(Load::new(OPERATIONS_IN_FLIGHT_MAX, metrics.shed.clone())),
            memory: Data::new(AnswerMemory::new(memory_bytes, metrics.shed.clone())),
            metrics: Data::from(metrics),
            cursors: Data::new(CursorSealer::new(&settings.cursor_keys)),
            products: Data::new(Products::new(stores.clone(), site.clone())),
            site,
            stores,
            settings,
        })
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.metrics.snapshot(
            self.load.under_way(),
            self.memory.held(),
            &self.stores.index_watch.answers(),
        )
    }

    pub(crate) fn configure(&self, config: &mut web::ServiceConfig) {
        json::configure(config, self.settings.cache_max_age_seconds);
        html::configure(config, self.settings.cache_max_age_seconds);
    }

    pub(crate) fn configure_all(&self, config: &mut web::ServiceConfig) {
        self.configure(config);
        operations::configure(config);
    }

    /// The layers around the routes that `configure` registers. A request passes them from the last
    /// to the first, its answer from the first to the last.
    pub(crate) fn app(
        &self,
        configure: fn(&Self, &mut web::ServiceConfig),
    ) -> App<
        impl ServiceFactory<
            ServiceRequest,
            Config = (),
            Response = ServiceResponse,
            Error = Error,
            InitError = (),
        > + use<>,
    > {
        let request_timeout = self.settings.request_timeout;
        let proxies = self.settings.proxies;
        let memory = AnswerMemory::clone(&self.memory);
        let readers_load = self.load.clone();
        let operations_load = self.operations_load.clone();
        let metrics = self.metrics.clone();
        let root: Arc<str> = self.site.public_url.base_path.as_str().into();
        App::new()
            .app_data(self.stores.clone())
            .app_data(self.metrics.clone())
            .app_data(self.load.clone())
            .app_data(self.memory.clone())
            .app_data(self.cursors.clone())
            .app_data(self.site.clone())
            .app_data(self.products.clone())
            .app_data(self.settings.clone())
            .app_data(BodyTimeout(self.settings.body_timeout))
            // 8. What it asks of the stores is kept, and its answer says how long they took.
            .wrap(from_fn(cost::follow))
            // 7. The memory of readers' answers is bounded.
            .wrap(from_fn(move |request: ServiceRequest, next| {
                let memory = if is_operational(request.path()) {
                    None
                } else {
                    Some(memory.clone())
                };
                answer_memory::hold(memory, request, next)
            }))
            // 6. The number of requests under way is bounded, and so is the time of each. A panic
            //    is a 500.
            .wrap(from_fn(move |request: ServiceRequest, next| {
                let load = if is_operational(request.path()) {
                    &operations_load
                } else {
                    &readers_load
                };
                load::bound(load.clone(), request_timeout, request, next)
            }))
            // 5. Errors for people are written in the language of the site.
            .wrap(from_fn(explanation::write))
            // 4. Browsers take every answer for what its media type says.
            .wrap(DefaultHeaders::new().add(("X-Content-Type-Options", "nosniff")))
            // 3. Scripts of other sites may read the JSON API and fragments.
            .wrap(from_fn(cross_origin::admit))
            // 2. The request gets an id, is counted and logged.
            .wrap(from_fn(move |request, next| {
                access::observe(metrics.clone(), proxies, request, next)
            }))
            // 1. Paths begin at the root of the site.
            .wrap(from_fn(move |request, next| {
                base_path::serve(Arc::clone(&root), request, next)
            }))
            .configure(|config| configure(self, config))
            .default_service(web::to(routing::no_route))
    }
}
