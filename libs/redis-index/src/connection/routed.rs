//! A command with the slot that says which server receives it.

use redis::{Cmd, Script, ToRedisArgs};

use super::topology::slot_of;

/// A command. All its keys are in one index partition.
pub(crate) struct Routed<'scripts> {
    pub(super) command: Cmd,
    pub(super) slot: u16,
    pub(super) script: Option<&'scripts Script>,
}

impl<'scripts> Routed<'scripts> {
    pub(crate) fn new(name: &str, key: &str) -> Self {
        let mut command = redis::cmd(name);
        command.arg(key);
        Self {
            command,
            slot: slot_of(key),
            script: None,
        }
    }

    /// A call of a script by its digest. It needs at least one key.
    pub(crate) fn call(script: &'scripts Script, keys: &[impl AsRef<str>]) -> Self {
        let mut command = redis::cmd("EVALSHA");
        command.arg(script.get_hash()).arg(keys.len());
        for key in keys {
            command.arg(key.as_ref());
        }
        let slot = match keys.first() {
            Some(key) => slot_of(key.as_ref()),
            None => 0,
        };
        Self {
            command,
            slot,
            script: Some(script),
        }
    }

    pub(crate) fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        self.command.arg(argument);
        self
    }
}
