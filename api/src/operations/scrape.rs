//! `/metrics`: the OpenMetrics text format, which Prometheus reads.

use actix_web::{HttpResponse, http::header, web};

use crate::{
    error::ApiError,
    http::{answer_memory::AnswerMemory, load::Load},
    store::StoreClients,
    telemetry::metrics::ApiMetrics,
};

/// Everything that is counted, for Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operations",
    responses((
        status = 200,
        description = "The metrics, in the OpenMetrics text format",
        body = String,
        content_type = "application/openmetrics-text",
    )),
)]
pub(crate) async fn metrics(
    metrics: web::Data<ApiMetrics>,
    load: web::Data<Load>,
    memory: web::Data<AnswerMemory>,
    stores: web::Data<StoreClients>,
) -> Result<HttpResponse, ApiError> {
    let text = metrics
        .text(
            load.under_way(),
            memory.held(),
            &stores.index_watch.answers(),
        )
        .map_err(ApiError::internal)?;
    Ok(HttpResponse::Ok()
        .insert_header((
            header::CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ))
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .body(text))
}
