//! The markers of partitions: advances watermarks, and leaves confirmations.
//! `repair-job/src/state/confirm.rs` decides about confirmations.
//!
//! **Invariant:** a token replaces only the token that was read, so two runs never overwrite each
//! other.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use model::Timestamp;
use page_index::{
    Advance, ConfirmationTime, IndexPartition, Marker, Markers, Server, ServerIdentity,
};
use process::{Store, StoreError};
use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::{
    RedisIndex,
    connection::{Node, Routed},
    error::store_error_at,
};

/// The oldest server version that knows `#!lua`. Valkey also reports a Redis version, at least 7.2.
const REDIS_VERSION_MIN: u32 = 7;

/// What an operator can use instead of a server that does not suit.
const WORKS: &str = "Redis 7 and newer work, and Valkey 8 and newer";

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
        let servers = self.servers().await?;
        let servers: Vec<Server> = servers.into_iter().map(|(_, server)| server).collect();
        Ok(ServerIdentity::of(&servers))
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

    async fn remove_markers(&self, partitions: &[IndexPartition]) -> Result<(), StoreError> {
        let markers = partitions
            .iter()
            .map(|partition| self.keys.marker(*partition));
        self.ask_all::<()>(markers.map(|key| Routed::new("UNLINK", &key)))
            .await?;
        Ok(())
    }
}

impl RedisIndex {
    /// Identifies the servers for a rebuild. Replicas are not asked, although one may become a
    /// master: the operator keeps their settings equal to their master's.
    ///
    /// # Errors
    /// [`StoreError::refused`] when a server may evict keys of the index, or lacks something that
    /// the index needs.
    pub(crate) async fn servers_that_keep_the_index(&self) -> Result<ServerIdentity, StoreError> {
        let mut servers = Vec::new();
        for (node, server) in self.servers().await? {
            self.check_scripts(&node).await?;
            if server.may_evict_index() {
                let detail = format!(
                    "maxmemory-policy is {} at the server {}, it must be noeviction or volatile-…",
                    server.policy,
                    node.name()
                );
                return Err(StoreError::refused(Store::PageIndex, detail));
            }
            servers.push(server);
        }
        Ok(ServerIdentity::of(&servers))
    }

    async fn servers(&self) -> Result<Vec<(Arc<Node>, Server)>, StoreError> {
        let masters = self.bounded(self.connection.masters()).await?;
        try_join_all(masters.into_iter().map(|node| self.describe(node))).await
    }

    async fn describe(&self, node: Arc<Node>) -> Result<(Arc<Node>, Server), StoreError> {
        // Managed services forbid CONFIG. INFO has the same settings.
        let info = redis::cmd("INFO");
        let answer = self.bounded(async { Ok(node.query(&info).await) }).await?;
        let info: String = answer.map_err(|error| lacking(&node, "INFO", error))?;
        // A master that was replaced keeps its identity until it has the data of the new one.
        if field(&info, "role:").is_ok_and(|role| role != "master") {
            let detail = format!("the server at {} is a replica", node.name());
            return Err(StoreError::unavailable(Store::PageIndex, detail));
        }
        let server = parse_info(&info).map_err(|problem| refuse(&node, &problem))?;
        Ok((node, server))
    }

    async fn check_scripts(&self, node: &Node) -> Result<(), StoreError> {
        let probe = &self.scripts.probe;
        let mut call = redis::cmd("EVALSHA");
        call.arg(probe.get_hash()).arg(0);
        let run = async {
            let loaded = node.load(probe).await;
            Ok(match loaded {
                Ok(()) => node.query::<()>(&call).await,
                Err(error) => Err(error),
            })
        };
        let ran = self.bounded(run).await?;
        ran.map_err(|error| {
            lacking(
                node,
                "SCRIPT LOAD and EVALSHA of a script that begins with #!lua",
                error,
            )
        })
    }
}

/// What an error of a command says about its server: it does not know the command, or something
/// that other calls may meet, too.
fn lacking(node: &Node, what: &str, error: RedisError) -> StoreError {
    if error.kind() == ErrorKind::Server(ServerErrorKind::ResponseError) {
        refuse(node, &format!("it has no {what}: {error}"))
    } else {
        store_error_at(&format_args!("Redis at {}", node.name()), error)
    }
}

/// Refuses a server that lacks something, or is too old.
fn refuse(node: &Node, problem: &str) -> StoreError {
    let name = node.name();
    let detail = format!("the server at {name} does not suit: {problem} ({WORKS})");
    StoreError::refused(Store::PageIndex, detail)
}

/// Reads an answer to INFO.
///
/// # Errors
/// What is missing or too old. A server before Redis 7 does not know the first line of the scripts.
fn parse_info(info: &str) -> Result<Server, String> {
    let version = field(info, "redis_version:")?;
    let major = version
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < REDIS_VERSION_MIN) {
        return Err(format!("its redis_version is {version}"));
    }
    let evicted = field(info, "evicted_keys:")?;
    Ok(Server {
        run: field(info, "run_id:")?.to_owned(),
        history: field(info, "master_replid:").unwrap_or_default().to_owned(),
        policy: field(info, "maxmemory_policy:")?.to_owned(),
        evicted: evicted
            .parse()
            .map_err(|_| format!("its INFO has evicted_keys:{evicted}"))?,
    })
}

/// The value of a field of an answer to INFO.
fn field<'info>(info: &'info str, name: &str) -> Result<&'info str, String> {
    info.lines()
        .find_map(|line| line.trim().strip_prefix(name))
        .ok_or_else(|| format!("its INFO has no {name}"))
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

    #[test]
    fn what_info_lacks_is_named() {
        let whole =
            "redis_version:7.2.4\r\nrun_id:r\r\nmaxmemory_policy:noeviction\r\nevicted_keys:3\r\n";
        assert_eq!(parse_info(whole).unwrap().evicted, 3);
        for (from, to, says) in [
            ("redis_version:7.2.4", "", "redis_version"),
            ("7.2.4", "6.2.14", "6.2.14"),
            ("7.2.4", "latest", "latest"),
            ("run_id:r", "", "run_id"),
            ("maxmemory_policy:noeviction", "", "maxmemory_policy"),
            ("evicted_keys:3", "", "evicted_keys"),
        ] {
            let problem = parse_info(&whole.replace(from, to)).unwrap_err();
            assert!(problem.contains(says), "{problem}");
        }
    }
}
