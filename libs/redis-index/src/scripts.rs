//! The Lua scripts. They are called by digest, and loaded when a server does not have them.
//!
//! The first line is for Redis 7 and Valkey. It makes the server refuse keys that were not declared. It also lets
//! read-only scripts run when the server's memory is full.

use redis::Script;

#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) page_start: Script,
    pub(super) position: Script,
    pub(super) stats: Script,
    pub(super) products: Script,
    pub(super) totals: Script,
    pub(super) languages: Script,
    pub(super) sizes: Script,
    pub(super) creation_times: Script,
    pub(super) edit: Script,
    pub(super) empty: Script,
    pub(super) finish_rebuild: Script,
    pub(super) advance: Script,
    pub(super) confirm: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            page_start: Script::new(concat!(
                "#!lua flags=no-writes\n",
                include_str!("scripts/order.lua"),
                include_str!("scripts/select.lua"),
                include_str!("scripts/page_start.lua")
            )),
            position: Script::new(concat!(
                "#!lua flags=no-writes\n",
                include_str!("scripts/order.lua"),
                include_str!("scripts/position.lua")
            )),
            stats: Script::new(concat!("#!lua flags=no-writes\n", include_str!("scripts/stats.lua"))),
            products: Script::new(concat!("#!lua flags=no-writes\n", include_str!("scripts/products.lua"))),
            totals: Script::new(concat!("#!lua flags=no-writes\n", include_str!("scripts/totals.lua"))),
            languages: Script::new(concat!("#!lua flags=no-writes\n", include_str!("scripts/languages.lua"))),
            sizes: Script::new(concat!("#!lua flags=no-writes\n", include_str!("scripts/sizes.lua"))),
            creation_times: Script::new(concat!(
                "#!lua flags=no-writes\n",
                include_str!("scripts/order.lua"),
                include_str!("scripts/select.lua"),
                include_str!("scripts/creation_times.lua")
            )),
            edit: Script::new(concat!("#!lua\n", include_str!("scripts/edit.lua"))),
            empty: Script::new(concat!("#!lua\n", include_str!("scripts/empty.lua"))),
            finish_rebuild: Script::new(concat!("#!lua\n", include_str!("scripts/finish_rebuild.lua"))),
            advance: Script::new(concat!("#!lua\n", include_str!("scripts/advance.lua"))),
            confirm: Script::new(concat!("#!lua\n", include_str!("scripts/confirm.lua"))),
        }
    }
}
