//! The Lua scripts. They are called by digest, and loaded when a server does not have them.
//!
//! The first line is for Redis 7 and Valkey. It makes the server refuse keys that were not
//! declared. It also lets read-only scripts run when the server's memory is full.

use redis::Script;

#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) ranked: Script,
    pub(super) position: Script,
    pub(super) products: Script,
    pub(super) edit: Script,
    pub(super) empty: Script,
    pub(super) finish_rebuild: Script,
    pub(super) advance: Script,
    pub(super) confirm: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            ranked: Script::new(concat!(
                "#!lua flags=no-writes\n",
                include_str!("scripts/order.lua"),
                include_str!("scripts/select.lua"),
                include_str!("scripts/ranked.lua")
            )),
            position: Script::new(concat!(
                "#!lua flags=no-writes\n",
                include_str!("scripts/order.lua"),
                include_str!("scripts/position.lua")
            )),
            products: Script::new(concat!(
                "#!lua flags=no-writes\n",
                include_str!("scripts/products.lua")
            )),
            edit: Script::new(concat!("#!lua\n", include_str!("scripts/edit.lua"))),
            empty: Script::new(concat!("#!lua\n", include_str!("scripts/empty.lua"))),
            finish_rebuild: Script::new(concat!(
                "#!lua\n",
                include_str!("scripts/finish_rebuild.lua")
            )),
            advance: Script::new(concat!("#!lua\n", include_str!("scripts/advance.lua"))),
            confirm: Script::new(concat!("#!lua\n", include_str!("scripts/confirm.lua"))),
        }
    }
}
