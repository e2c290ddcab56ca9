//! The markers of partitions: advances watermarks, and leaves confirmations.
//! `repair-job/src/state/confirm.rs` decides about confirmations.
//!
//! **Invariant:** a token replaces only the token that was read, so two runs never overwrite each
//! other.

use async_trait::async_trait;
use futures_util::future::try_join_all;
use model::Timestamp;
use page_index::{Advance, ConfirmationTime, IndexPartition, Marker, Markers, ServerIdentity};
use process::{Store, StoreError};

use crate::{RedisIndex, connection::Routed};

/// The oldest server version that knows `#!lua`. Valkey also reports a Redis version, at least 7.2.
const REDIS_VERSION_MIN: u32 = 7;

/// A marker's fields `table`, `watermark` and `vouched`, as scripts return them.
pub(crate) type MarkerFields = (Option<String>, Option<i64>, Option<i64>);

/// Reads a marker's fields, without the token. An invalid instant counts as missing. So does a
/// `vouched` of 0, which means that the confirmation was taken away.
pub(crate) fn marker_of_fields((owner, watermark, confirmed): MarkerFields) -> Marker {
    let instant = |ms| Timestamp::from_epoch_ms(ms).ok();
    let confirmed = confirmed.filter(|ms| *ms > 0).and_then(instant);
    Marker {
        owner,
        watermark: watermark.and_then(instant),
        confirmed,
        token: None,
    }
}

#[async_trait]
impl Markers for RedisIndex {
    async fn markers(&self, partitions: &[IndexPartition]) -> Result<Vec<Marker>, StoreError> {
        let fields = ["table", "watermark", "vouched", "token"];
        let commands = partitions
            .iter()
            .map(|partition| Routed::new("HMGET", &self.keys.marker(*partition)).arg(&fields));
        type Answer = (Option<String>, Option<i64>, Option<i64>, Option<String>);
        let answers: Vec<Answer> = self.ask_all(commands).await?;
        let markers = answers
            .into_iter()
            .map(|(owner, watermark, confirmed, token)| Marker {
                token,
                ..marker_of_fields((owner, watermark, confirmed))
            });
        Ok(markers.collect())
    }

    async fn server_identity(&self) -> Result<ServerIdentity, StoreError> {
        // Managed services forbid CONFIG. INFO has the same settings.
        let info = redis::cmd("INFO");
        let asked = async {
            let layout = self.connection.layout().await?;
            try_join_all(layout.masters.iter().map(|master| master.query(&info))).await
        };
        let infos: Vec<String> = self.bounded(asked).await?;
        let mut runs = infos
            .iter()
            .map(|info| identify(info))
            .collect::<Result<Vec<_>, _>>()?;
        runs.sort_unstable();
        Ok(ServerIdentity(runs.join(" ")))
    }

    async fn advance_step(
        &self,
        advance: &Advance,
        to: Option<Timestamp>,
    ) -> Result<Vec<bool>, StoreError> {
        let to = to.map(|to| to.epoch_ms().to_string()).unwrap_or_default();
        let calls = advance.from.iter().map(|(partition, watermark)| {
            let keys = [
                self.keys.marker(*partition),
                self.keys.rebuild_token(*partition),
            ];
            let call = Routed::call(&self.scripts.advance, &keys);
            call.arg(&advance.owner)
                .arg(watermark.epoch_ms())
                .arg(&advance.nonce)
                .arg(&to)
        });
        self.ask_all(calls).await
    }

    async fn leave_token(
        &self,
        owner: &str,
        read: &[(IndexPartition, String)],
        token: &str,
        time: ConfirmationTime,
    ) -> Result<Vec<bool>, StoreError> {
        let time = match time {
            ConfirmationTime::Unchanged => String::new(),
            ConfirmationTime::TakenAway => "0".to_owned(),
            ConfirmationTime::At(at) => at.epoch_ms().to_string(),
        };
        let calls = read.iter().map(|(partition, read)| {
            let keys = [
                self.keys.marker(*partition),
                self.keys.rebuild_token(*partition),
            ];
            Routed::call(&self.scripts.confirm, &keys)
                .arg(owner)
                .arg(read)
                .arg(token)
                .arg(&time)
        });
        self.ask_all(calls).await
    }
}

/// Identifies a server. Refuses one that cannot keep the index. A server that may evict keys makes
/// the index wrong without notice. A server before Redis 7 does not know the first line of the
/// scripts. Replicas are not checked, although one may become a master: the operator keeps their
/// settings equal to their master's.
fn identify(info: &str) -> Result<String, StoreError> {
    let field = |name: &str| info.lines().find_map(|line| line.trim().strip_prefix(name));
    let whose = match field("tcp_port:") {
        Some(port) => format!(" (of the server at port {port})"),
        None => String::new(),
    };
    let refuse = |problem: String| StoreError::refused(Store::PageIndex, problem + &whose);
    let version = field("redis_version:").unwrap_or("unknown");
    let major = version
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < REDIS_VERSION_MIN) {
        let problem = format!(
            "its version is {version}, it must be {REDIS_VERSION_MIN} or newer (or Valkey)"
        );
        return Err(refuse(problem));
    }
    let policy = field("maxmemory_policy:").unwrap_or("unknown");
    // The index's keys have no expiry, so a `volatile` policy spares them.
    if policy != "noeviction" && !policy.starts_with("volatile-") {
        return Err(refuse(format!(
            "maxmemory-policy is {policy}, it must be noeviction or volatile-…"
        )));
    }
    let run = field("run_id:").ok_or_else(|| refuse("INFO tells no run_id".to_owned()))?;
    // A process that becomes a replica and then a master again keeps its run_id, but its history
    // gets a new name.
    Ok(format!(
        "{run}/{}",
        field("master_replid:").unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confirmation_of_zero_and_an_invalid_instant_count_as_missing() {
        let at = Timestamp::from_epoch_ms(6_000).unwrap();
        let times = |watermark, confirmed| {
            let marker = marker_of_fields((None, watermark, confirmed));
            (marker.watermark, marker.confirmed)
        };
        assert_eq!(times(Some(6_000), Some(6_000)), (Some(at), Some(at)));
        assert_eq!(times(Some(6_000), Some(0)), (Some(at), None));
        assert_eq!(times(Some(i64::MAX), Some(i64::MAX)), (None, None));
    }
}
