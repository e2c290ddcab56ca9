//! The Lua scripts. They are called by digest, and loaded when a server does not have them.
//!
//! The first line is for Redis 7 and Valkey. In a cluster it makes the server refuse keys of other
//! slots, but not keys that a call does not declare. It also lets scripts that only read, remove or
//! confirm run when the server's memory is full.

use redis::Script;

/// How large the parts of a product become. Tests use small ones.
pub(super) struct Sizes {
    /// Maximum number of members of a block: every server's default settings store as many
    /// compactly.
    pub(super) block_max: u16,
    /// Number of members that leave the open block together.
    pub(super) closed: u16,
    /// Maximum number of blocks of a group. Even, and at least 4: half of a group must hold a comment,
    /// although its first block may be empty.
    pub(super) group_max: u16,
    /// Maximum number of languages of a product that have counts of their own. A product never has
    /// as many that people speak, but the number of well-formed tags is unlimited.
    pub(super) languages_max: u16,
}

impl Sizes {
    pub(super) const STORED: Self = Self {
        block_max: 128,
        closed: 112,
        group_max: 128,
        languages_max: 200,
    };

    /// As the scripts name them.
    fn lua(&self) -> String {
        let Self {
            block_max,
            closed,
            group_max,
            languages_max,
        } = self;
        format!(
            "local BLOCK_MAX, CLOSED_SIZE = {block_max}, {closed}\n\
             local GROUP_MAX, LANGUAGES_MAX = {group_max}, {languages_max}\n"
        )
    }
}

#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) ranked: Script,
    pub(super) position: Script,
    pub(super) entries: Script,
    pub(super) products: Script,
    pub(super) edit: Script,
    /// The same for edits that only remove comments.
    pub(super) remove: Script,
    /// Compares counts, and changes nothing.
    pub(super) compare: Script,
    pub(super) recount: Script,
    pub(super) empty: Script,
    pub(super) finish_rebuild: Script,
    pub(super) advance: Script,
    pub(super) confirm: Script,
    /// Does nothing. Shows that a server runs scripts like these.
    pub(super) probe: Script,
}

impl Scripts {
    pub(super) fn new(sizes: &Sizes) -> Self {
        let blocks = [&sizes.lua(), include_str!("scripts/blocks.lua")].concat();
        let blocks = blocks.as_str();
        let filter = include_str!("scripts/filter.lua");
        let closed = module("closed", include_str!("scripts/closed.lua"));
        let change = [&closed, include_str!("scripts/change.lua")].concat();
        let change = change.as_str();
        Self {
            ranked: reading(&[blocks, filter, include_str!("scripts/ranked.lua")]),
            position: reading(&[blocks, filter, include_str!("scripts/position.lua")]),
            entries: reading(&[blocks, include_str!("scripts/entries.lua")]),
            products: reading(&[include_str!("scripts/products.lua")]),
            edit: writing(&[blocks, change, include_str!("scripts/edit.lua")]),
            remove: even_if_full(&[blocks, change, include_str!("scripts/edit.lua")]),
            compare: reading(&[blocks, &closed, include_str!("scripts/check.lua")]),
            recount: writing(&[blocks, &closed, include_str!("scripts/check.lua")]),
            empty: even_if_full(&[include_str!("scripts/empty.lua")]),
            finish_rebuild: writing(&[include_str!("scripts/finish_rebuild.lua")]),
            // Their few bytes for each partition let a full index be believed while it is right.
            advance: even_if_full(&[include_str!("scripts/advance.lua")]),
            confirm: even_if_full(&[include_str!("scripts/confirm.lua")]),
            probe: reading(&["return 1"]),
        }
    }
}

/// A module whose functions a script calls as `name.function()`. They are made at the first of these
/// calls. The server keeps a script compiled, but makes all its functions anew at every call, and
/// making one takes as long as a small step.
fn module(name: &str, text: &str) -> String {
    format!(
        "local {name} = setmetatable({{}}, {{ __index = function(module, name)\n\
         local function load()\n{text}end\n\
         for key, value in pairs(load()) do module[key] = value end\n\
         return rawget(module, name)\n\
         end }})\n"
    )
}

fn reading(parts: &[&str]) -> Script {
    Script::new(&["#!lua flags=no-writes\n", &parts.concat()].concat())
}

/// A script that may run when the server's memory is full.
fn even_if_full(parts: &[&str]) -> Script {
    Script::new(&["#!lua flags=allow-oom\n", &parts.concat()].concat())
}

fn writing(parts: &[&str]) -> Script {
    Script::new(&["#!lua\n", &parts.concat()].concat())
}
