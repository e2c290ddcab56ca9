//! Which servers have the page index, and whether they may have evicted keys of it.
//!
//! The keys of the index have no expiry. So a server takes them only under a policy that evicts any
//! key (ADR 89).

use serde::{Deserialize, Serialize};

/// The policies under which a server evicts only keys with an expiry.
const SPARING: &str = "volatile-";
/// The policy under which a server evicts nothing.
const NO_EVICTION: &str = "noeviction";

/// Identifies the servers that answer. It changes when a server restarts, and when another takes
/// over. It also changes when a server has followed another one meanwhile, and so has the data of
/// that one. A master that gets its first replica, or lost its last one an hour ago, also changes
/// it: the master begins a history with a new name. So does a server that evicts keys of the index,
/// or gets another policy.
///
/// An index inside the process is its own server. Its identity changes whenever it is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ServerIdentity(pub String);

/// A server as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Names the process.
    pub run: String,
    /// Names the history of its data. A process that becomes a replica and then a master again keeps
    /// its run, but gets a new history.
    pub history: String,
    /// Its `maxmemory-policy`.
    pub policy: String,
    /// Number of keys that it has evicted since it started.
    pub evicted: u64,
}

impl Server {
    pub fn may_evict_index(&self) -> bool {
        may_evict_index(&self.policy)
    }
}

/// What an identity says about one server.
struct Known<'text> {
    run: &'text str,
    policy: &'text str,
    /// `None` under a policy that spares the index: other programs' keys do not count.
    evicted: Option<u64>,
}

fn may_evict_index(policy: &str) -> bool {
    policy != NO_EVICTION && !spares_index(policy)
}

fn spares_index(policy: &str) -> bool {
    policy.starts_with(SPARING)
}

impl ServerIdentity {
    pub fn of(servers: &[Server]) -> Self {
        let mut texts: Vec<String> = Vec::with_capacity(servers.len());
        for server in servers {
            let Server {
                run,
                history,
                policy,
                evicted,
            } = server;
            let mut text = format!("{run}/{history}/{policy}");
            if !spares_index(policy) {
                text += &format!("/{evicted}");
            }
            texts.push(text);
        }
        texts.sort_unstable();
        Self(texts.join(" "))
    }

    /// A policy under which one of the servers may evict keys of the index.
    pub fn evicting_policy(&self) -> Option<&str> {
        let mut policies = self.servers().map(|server| server.policy);
        policies.find(|policy| may_evict_index(policy))
    }

    /// Whether a server may have evicted keys of the index since it had the identity `before`. A
    /// server that was not there before counts from its start.
    pub fn may_have_evicted_since(&self, before: &Self) -> bool {
        for server in self.servers() {
            let earlier = before.servers().find(|earlier| earlier.run == server.run);
            let mut counted_from = 0;
            if let Some(earlier) = earlier {
                // Other programs' keys, unless the server evicts any key now.
                if spares_index(earlier.policy) && !may_evict_index(server.policy) {
                    continue;
                }
                counted_from = earlier.evicted.unwrap_or(0);
            }
            if server.evicted.is_some_and(|evicted| evicted > counted_from) {
                return true;
            }
        }
        false
    }

    /// What the identity says about each server. Those of an index inside the process, and of
    /// earlier versions, have no policy.
    fn servers(&self) -> impl Iterator<Item = Known<'_>> {
        self.0.split(' ').filter_map(|text| {
            let mut parts = text.split('/');
            let run = parts.next()?;
            let policy = parts.nth(1)?;
            let evicted = parts.next().and_then(|count| count.parse().ok());
            Some(Known {
                run,
                policy,
                evicted,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(policy: &str, evicted: u64) -> ServerIdentity {
        let server = Server {
            run: "r1".to_owned(),
            history: "h".to_owned(),
            policy: policy.to_owned(),
            evicted,
        };
        let other = Server {
            run: "r0".to_owned(),
            evicted: 0,
            policy: NO_EVICTION.to_owned(),
            ..server.clone()
        };
        ServerIdentity::of(&[server, other])
    }

    #[test]
    fn only_growth_under_a_policy_that_may_evict_the_index_counts() {
        for (before, present, expected) in [
            (("noeviction", 3), ("noeviction", 3), false),
            (("noeviction", 3), ("allkeys-lru", 3), false),
            (("noeviction", 3), ("allkeys-lru", 4), true),
            // Between both looks, the policy was another one.
            (("noeviction", 3), ("noeviction", 4), true),
            (("allkeys-lru", 3), ("noeviction", 4), true),
            // Other programs' keys.
            (("volatile-lru", 3), ("volatile-ttl", 4), false),
            (("volatile-lru", 3), ("noeviction", 4), false),
            (("volatile-lru", 3), ("allkeys-lru", 4), true),
        ] {
            let before_identity = identity(before.0, before.1);
            let found = identity(present.0, present.1).may_have_evicted_since(&before_identity);
            assert_eq!(found, expected, "{before:?} {present:?}");
        }
        let restarted = ServerIdentity("r2/h/noeviction/1".to_owned());
        assert!(restarted.may_have_evicted_since(&identity(NO_EVICTION, 3)));
        // Of an earlier version, and of an index inside the process.
        let without_policy = ServerIdentity("r1/h".to_owned());
        assert!(!without_policy.may_have_evicted_since(&identity(NO_EVICTION, 3)));
        assert!(!identity(NO_EVICTION, 0).may_have_evicted_since(&without_policy));
    }

    #[test]
    fn an_identity_names_a_policy_that_may_evict_the_index() {
        assert_eq!(identity(NO_EVICTION, 1).evicting_policy(), None);
        assert_eq!(identity("volatile-lru", 1).evicting_policy(), None);
        let evicting = identity("allkeys-random", 1);
        assert_eq!(evicting.evicting_policy(), Some("allkeys-random"));
        assert_eq!(ServerIdentity("01JULID".to_owned()).evicting_policy(), None);
    }
}
