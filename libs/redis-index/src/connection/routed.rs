//! A command with the slot that says which server receives it.

use redis::{Cmd, Script, ToRedisArgs};

use super::topology::slot_of;

/// A command, or several that run as one. All their keys are in one index partition.
pub(crate) struct Routed<'scripts> {
    /// One command, or `MULTI`, some commands and `EXEC`.
    pub(super) commands: Vec<Cmd>,
    pub(super) slot: u16,
    pub(super) script: Option<&'scripts Script>,
}

impl<'scripts> Routed<'scripts> {
    pub(crate) fn new(name: &str, key: &str) -> Self {
        let mut command = redis::cmd(name);
        command.arg(key);
        Self {
            commands: vec![command],
            slot: slot_of(key),
            script: None,
        }
    }

    /// Commands for the slot of `key` that run all or not at all. While that slot moves, the
    /// transaction fails with an error for which [`is_moving`] holds: its keys are in two places,
    /// and a transaction cannot be redirected key by key.
    pub(crate) fn transaction(key: &str, commands: impl IntoIterator<Item = Cmd>) -> Self {
        let commands = [redis::cmd("MULTI")]
            .into_iter()
            .chain(commands)
            .chain([redis::cmd("EXEC")])
            .collect();
        Self {
            commands,
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
            commands: vec![command],
            slot,
            script: Some(script),
        }
    }

    pub(crate) fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        if let [command] = self.commands.as_mut_slice() {
            command.arg(argument);
        }
        self
    }

    pub(super) fn is_transaction(&self) -> bool {
        self.commands.len() > 1
    }
}
