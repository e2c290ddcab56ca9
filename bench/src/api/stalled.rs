//! Measures the duration of requests while a store accepts requests but answers nothing.
//!
//! The API reaches its stores through proxies that stop forwarding. All callers send one request at the same moment,
//! because later requests may find the circuit breaker of the store open. The API must answer as it does while a store
//! is down. Without the page index, it answers page 1 but not page 2. Without the table, it answers no page.

use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::ensure;
use futures_util::future::try_join_all;
use hyper::StatusCode;

use super::{CALLERS, process::ApiProcess};
use crate::{
    dataset::Dataset,
    delayed_proxy::DelayedProxy,
    http::{self, address_in},
};

/// Requests pages while each store in turn is stalled. Returns the durations of the longest requests.
pub(super) async fn measure(binary: &Path, dataset: &Dataset) -> anyhow::Result<[(&'static str, Duration); 3]> {
    let engine = DelayedProxy::to(address_in(&dataset.stores.engine.endpoint_url())?, Duration::ZERO)?;
    let redis = DelayedProxy::to(address_in(&dataset.stores.redis.url())?, Duration::ZERO)?;
    let (engine_url, redis_url) = (format!("http://{}", engine.address()), format!("redis://{}", redis.address()));
    let api = ApiProcess::start(binary, dataset, &engine_url, &redis_url).await?;
    let longest = async |page, expected| longest(api.address(), &dataset.all.json_path(page), expected).await;
    redis.stall(true);
    let page_1 = longest(1, StatusCode::OK).await?;
    let page_2 = longest(2, StatusCode::SERVICE_UNAVAILABLE).await?;
    redis.stall(false);
    engine.stall(true);
    let without_table = longest(1, StatusCode::SERVICE_UNAVAILABLE).await?;
    engine.stall(false);
    Ok([
        ("page index stalled, page 1, longest", page_1),
        ("page index stalled, page 2, longest", page_2),
        ("table stalled, longest", without_table),
    ])
}

async fn longest(api: SocketAddr, path: &str, expected: StatusCode) -> anyhow::Result<Duration> {
    let caller = async || {
        let began = Instant::now();
        let (status, _) = http::get(api, path).await?;
        ensure!(status == expected, "{path} was answered {status} instead of {expected}");
        anyhow::Ok(began.elapsed())
    };
    let all = try_join_all((0..CALLERS).map(|_| caller())).await?;
    Ok(all.into_iter().max().unwrap_or_default())
}
