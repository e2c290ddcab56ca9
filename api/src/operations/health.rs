//! `/livez` and `/readyz`, for operators and load balancers.

use std::{sync::atomic::Ordering, time::Duration};

use actix_web::{HttpResponse, http::StatusCode, web};
use model::CommentId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    error::ApiError,
    settings::ApiSettings,
    store::{PartitionsReady, StoreClients},
};

/// Maximum duration of a check. Checkers ask often and give up soon.
const CHECK_TIMEOUT: Duration = Duration::from_secs(4);

/// An id that no comment has. Looking it up costs half a read unit and shows that the table
/// answers.
const PROBE_ID: &str = "-";

/// The process lives.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"status": "alive"}))]
pub(crate) struct Liveness {
    /// Always `alive`.
    status: &'static str,
}

/// How the service and its stores are.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "status": "ready", "table": {"state": "ok"},
    "page_index": {"state": "ready", "partitions_ready": 256, "partitions": 256}
}))]
pub(crate) struct Readiness {
    status: ServiceState,
    table: TableReadiness,
    page_index: IndexReadiness,
}

/// How the service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ServiceState {
    /// All requests are answered.
    Ready,
    /// Page 1 and cursors work. Page numbers and totals are missing for all or some products, or
    /// soon will be, or nothing can be written.
    Degraded,
    /// No request is answered.
    Unavailable,
}

/// How the table is.
#[derive(Debug, Serialize, ToSchema)]
struct TableReadiness {
    state: TableState,
}

/// How the table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum TableState {
    /// It answers.
    Ok,
    /// It answers, and takes no writes: its disk is full.
    Full,
    /// It does not answer.
    Error,
}

/// How the page index is.
#[derive(Debug, Serialize, ToSchema)]
struct IndexReadiness {
    state: PageIndexState,
    /// How many of its partitions are ready.
    partitions_ready: Option<usize>,
    /// How many partitions it has.
    partitions: Option<usize>,
}

/// How the page index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = IndexState)]
#[serde(rename_all = "snake_case")]
enum PageIndexState {
    /// Every partition is ready.
    Ready,
    /// Every partition is ready, and some have not been confirmed for a third of the time for which
    /// a confirmation lasts. Numbered pages fail when that ends.
    Overdue,
    /// Some partitions are ready.
    PartiallyReady,
    /// No partition is ready.
    NotReady,
    /// Redis answers, but the table's id is unknown, so the index cannot be matched to it.
    Unknown,
    /// Redis does not answer.
    Unreachable,
}

/// The process lives.
#[utoipa::path(
    get,
    path = "/livez",
    tag = "operations",
    responses((status = 200, description = "The process lives", body = Liveness)),
)]
pub(crate) async fn livez() -> HttpResponse {
    HttpResponse::Ok().json(Liveness { status: "alive" })
}

/// The state of each store.
///
/// Without the page index the service still serves page 1 and cursors, so only a table out of
/// reach, or on a full disk, is 503.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operations",
    responses(
        (status = 200, description = "Pages are served", body = Readiness),
        (status = 503, description = "The table is out of reach, or its disk is full", body = Readiness),
    ),
)]
pub(crate) async fn readyz(
    stores: web::Data<StoreClients>,
    settings: web::Data<ApiSettings>,
) -> Result<HttpResponse, ApiError> {
    let disk_is_full = settings.disk_is_full.load(Ordering::Relaxed);
    let (table, page_index) =
        tokio::join!(check_table(&stores, disk_is_full), check_index(&stores));
    let (code, status) = match (table, page_index.state) {
        (TableState::Ok, PageIndexState::Ready) => (StatusCode::OK, ServiceState::Ready),
        (TableState::Ok, _) => (StatusCode::OK, ServiceState::Degraded),
        (TableState::Full, _) => (StatusCode::SERVICE_UNAVAILABLE, ServiceState::Degraded),
        (TableState::Error, _) => (StatusCode::SERVICE_UNAVAILABLE, ServiceState::Unavailable),
    };
    Ok(HttpResponse::build(code).json(Readiness {
        status,
        table: TableReadiness { state: table },
        page_index,
    }))
}

async fn check_table(stores: &StoreClients, disk_is_full: bool) -> TableState {
    let probe = async {
        let id = CommentId::parse(PROBE_ID)?;
        anyhow::Ok(stores.comment(&id).await?)
    };
    match answer("the table", probe).await {
        Some(_) if disk_is_full => TableState::Full,
        Some(_) => TableState::Ok,
        None => TableState::Error,
    }
}

impl IndexReadiness {
    /// The readiness of an index whose partitions could not be counted.
    fn without_count(state: PageIndexState) -> Self {
        Self {
            state,
            partitions_ready: None,
            partitions: None,
        }
    }
}

async fn check_index(stores: &StoreClients) -> IndexReadiness {
    match answer("the page index", stores.partitions_ready()).await {
        None => IndexReadiness::without_count(PageIndexState::Unreachable),
        Some(None) => IndexReadiness::without_count(PageIndexState::Unknown),
        Some(Some(partitions)) => IndexReadiness {
            state: state_of(partitions),
            partitions_ready: Some(partitions.ready),
            partitions: Some(partitions.all),
        },
    }
}

fn state_of(partitions: PartitionsReady) -> PageIndexState {
    let PartitionsReady {
        ready,
        overdue,
        all,
    } = partitions;
    if ready == 0 {
        PageIndexState::NotReady
    } else if ready < all {
        PageIndexState::PartiallyReady
    } else if overdue > 0 {
        PageIndexState::Overdue
    } else {
        PageIndexState::Ready
    }
}

/// What a store answers; `None` for an error, and when no answer comes in time.
async fn answer<T, E: Into<anyhow::Error>>(
    store: &str,
    check: impl Future<Output = Result<T, E>>,
) -> Option<T> {
    match tokio::time::timeout(CHECK_TIMEOUT, check).await {
        Ok(Ok(answered)) => Some(answered),
        Ok(Err(error)) => {
            // With all its causes.
            let error = format!("{:#}", error.into());
            tracing::warn!(error, "{store} does not answer the check");
            None
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_ready_when_all_partitions_are_and_none_is_overdue() {
        for (ready, overdue, state) in [
            (3, 0, PageIndexState::Ready),
            (3, 1, PageIndexState::Overdue),
            (2, 1, PageIndexState::PartiallyReady),
            (0, 0, PageIndexState::NotReady),
        ] {
            let found = state_of(PartitionsReady {
                ready,
                overdue,
                all: 3,
            });
            assert_eq!(found, state, "{ready} {overdue}");
        }
    }
}
