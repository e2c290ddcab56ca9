//! `/livez` and `/readyz`: for whoever runs the service.

use std::time::Duration;

use actix_web::{HttpResponse, http::StatusCode, web};
use model::CommentId;
use serde::Serialize;
use stores::StoreError;

use crate::{error::ApiError, state::State};

/// The longest that a check may take; checkers ask often and give up soon.
const CHECK_TIMEOUT: Duration = Duration::from_secs(4);

/// An id that no comment has: looking it up costs half a read unit and tells that the table answers.
const PROBE_ID: &str = "-";

/// Answers that the process lives.
pub(crate) async fn livez() -> HttpResponse {
    HttpResponse::Ok().json(serde_json::json!({ "status": "alive" }))
}

#[derive(Debug, Serialize)]
struct Body {
    status: &'static str,
    table: TableBody,
    page_index: IndexBody,
}

#[derive(Debug, Serialize)]
struct TableBody {
    state: &'static str,
}

#[derive(Debug, Serialize)]
struct IndexBody {
    state: &'static str,
    partitions_ready: Option<usize>,
    partitions: Option<usize>,
}

/// Answers the state of each store. Without the page index the service still serves page 1 and cursors, so only a
/// table out of reach is 503.
pub(crate) async fn readyz(state: web::Data<State>) -> Result<HttpResponse, ApiError> {
    let (table, page_index) = tokio::join!(check_table(&state), check_index(&state));
    let (status, word) = match (table, page_index.state) {
        ("ok", "ready") => (StatusCode::OK, "ready"),
        ("ok", _) => (StatusCode::OK, "degraded"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
    };
    Ok(HttpResponse::build(status).json(Body { status: word, table: TableBody { state: table }, page_index }))
}

async fn check_table(state: &State) -> &'static str {
    let probe = async {
        let id = CommentId::parse(PROBE_ID).map_err(ApiError::internal)?;
        state.table.comment(&id).await.map_err(ApiError::from)
    };
    match tokio::time::timeout(CHECK_TIMEOUT, probe).await {
        Ok(Ok(_)) => "ok",
        Ok(Err(error)) => {
            tracing::warn!(?error, "the table does not answer the check");
            "error"
        }
        Err(_) => "error",
    }
}

async fn check_index(state: &State) -> IndexBody {
    let unknown = |state| IndexBody { state, partitions_ready: None, partitions: None };
    let check = async {
        // Only the table's own id tells whether the index belongs to it.
        let Some(table_id) = state.table_id.get().await else {
            return Ok(unknown(if state.index.ping().await.is_ok() { "unknown" } else { "unreachable" }));
        };
        let partitions = state.index.readiness(&table_id, stores::now()).await?;
        let ready = partitions.iter().filter(|(_, answer)| answer.is_ok()).count();
        let word = match ready {
            0 => "not ready",
            all if all == partitions.len() => "ready",
            _ => "partially ready",
        };
        Ok::<_, StoreError>(IndexBody {
            state: word,
            partitions_ready: Some(ready),
            partitions: Some(partitions.len()),
        })
    };
    match tokio::time::timeout(CHECK_TIMEOUT, check).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => {
            tracing::warn!(%error, "the page index does not answer the check");
            unknown("unreachable")
        }
        Err(_) => unknown("unreachable"),
    }
}
