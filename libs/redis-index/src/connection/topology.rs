//! Which master of a cluster serves which slot.

use std::sync::Arc;

use derive_more::Display;
use redis::{RedisResult, Value, from_redis_value};

use super::node::{Address, Node};

/// Number of slots of a cluster (Redis Cluster specification, "Key distribution model").
const SLOTS: u16 = 16_384;

/// The slot of a key. If the text between the key's first `{` and the next `}` is not empty, only
/// that text counts. Otherwise the whole key counts (Redis Cluster specification, "Hash tags").
pub(crate) fn slot_of(key: &str) -> u16 {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key).as_bytes()) % SLOTS
}

/// CRC-16/XMODEM, which the specification prescribes (its appendix A).
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    })
}

#[derive(Display)]
#[display("{first}-{last} {master}")]
pub(super) struct SlotRange {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) master: Address,
    pub(super) replicas: Vec<Address>,
}

/// Parses the answer to `CLUSTER SLOTS` from the server at `asked`.
pub(super) fn parse_slots(answer: Value, asked: &Address) -> RedisResult<Vec<SlotRange>> {
    let entries: Vec<Vec<Value>> = from_redis_value(answer)?;
    let mut ranges: Vec<SlotRange> = Vec::with_capacity(entries.len());
    for entry in entries {
        let mut entry = entry.into_iter();
        let (Some(first), Some(last), Some(master)) = (entry.next(), entry.next(), entry.next())
        else {
            continue;
        };
        let replicas = entry
            .map(|node| parse_address(node, asked))
            .collect::<RedisResult<Vec<_>>>()?;
        ranges.push(SlotRange {
            first: from_redis_value(first)?,
            last: from_redis_value(last)?,
            master: parse_address(master, asked)?,
            replicas,
        });
    }
    ranges.sort_by_key(|range| range.first);
    Ok(ranges)
}

fn parse_address(node: Value, asked: &Address) -> RedisResult<Address> {
    let mut fields = from_redis_value::<Vec<Value>>(node)?.into_iter();
    let host: Option<String> = from_redis_value(fields.next().unwrap_or(Value::Nil))?;
    let port = from_redis_value(fields.next().unwrap_or(Value::Nil))?;
    Ok(Address {
        host: known_host(host.as_deref().unwrap_or_default(), asked),
        port,
    })
}

/// The host of a server. A server that does not know its own name sends none, or a question mark.
/// Its host is then the one that was asked.
fn known_host(host: &str, asked: &Address) -> String {
    if matches!(host, "" | "?") {
        asked.host.clone()
    } else {
        host.to_owned()
    }
}

/// The address in a redirection, which may omit the host.
pub(super) fn parse_redirect(address: &str, asked: &Address) -> Option<Address> {
    let (host, port) = address.rsplit_once(':')?;
    Some(Address {
        host: known_host(host, asked),
        port: port.parse().ok()?,
    })
}

/// The slots of a cluster and their masters, as one of its nodes reports them.
pub(super) struct Topology(pub(super) Vec<(SlotRange, Arc<Node>)>);

impl Topology {
    /// The master of a slot, `None` when no master serves it.
    pub(super) fn master_of(&self, slot: u16) -> Option<&Arc<Node>> {
        let at = self.0.partition_point(|(range, _)| range.last < slot);
        self.0
            .get(at)
            .filter(|(range, _)| range.first <= slot)
            .map(|(_, master)| master)
    }

    pub(super) fn masters(&self) -> Vec<Arc<Node>> {
        let mut masters: Vec<Arc<Node>> = Vec::new();
        for (_, master) in &self.0 {
            if !masters.iter().any(|present| Arc::ptr_eq(present, master)) {
                masters.push(Arc::clone(master));
            }
        }
        masters
    }
}

/// Which servers hold the index.
#[derive(Default)]
pub(crate) struct Layout {
    pub(crate) masters: Vec<Arc<Node>>,
    /// Which master serves which slots. Empty without a cluster.
    pub(crate) serving: String,
    /// Whether slots are being moved.
    pub(crate) is_moving: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        // The check value from its appendix A, and answers of Redis 7.0 to `CLUSTER KEYSLOT`.
        assert_eq!(crc16(b"123456789"), 0x31C3);
        for (key, slot) in [
            ("foo", 12_182),
            ("pagemark:{7}:marker", 1_716),
            ("{}foo", 9_500),
            ("a{b{c}d}", 15_725),
        ] {
            assert_eq!(slot_of(key), slot, "{key}");
        }
    }

    #[test]
    fn a_server_that_does_not_know_its_name_is_where_it_was_asked() {
        let asked = Address {
            host: "redis.example".to_owned(),
            port: 7000,
        };
        let at = |host: &str, port| {
            Some(Address {
                host: host.to_owned(),
                port,
            })
        };
        assert_eq!(
            parse_redirect("10.0.0.1:7001", &asked),
            at("10.0.0.1", 7001)
        );
        assert_eq!(parse_redirect(":7001", &asked), at("redis.example", 7001));
        assert_eq!(parse_redirect("::1:7001", &asked), at("::1", 7001));
        assert_eq!(parse_redirect("nowhere", &asked), None);
    }
}
