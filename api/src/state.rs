//! What every request shares.

use std::sync::{Arc, atomic::AtomicBool};

use model::ProductId;
use stores::{PageIndex, Table};

use crate::{auth::WriteTokens, cursor::CursorSealer, settings::ApiSettings, table_id::TableId};

/// The stores and the secrets.
pub(crate) struct State {
    pub(crate) table: Table,
    pub(crate) index: PageIndex,
    pub(crate) cursors: CursorSealer,
    pub(crate) write_tokens: WriteTokens,
    pub(crate) sample_products: Vec<ProductId>,
    /// Whether the page index had an answer when it was last asked.
    pub(crate) index_available: AtomicBool,
    pub(crate) table_id: Arc<TableId>,
}

impl State {
    pub(crate) fn new(table: Table, index: PageIndex, settings: ApiSettings) -> Self {
        Self {
            table_id: TableId::of(table.clone()),
            table,
            index,
            cursors: CursorSealer::new(settings.cursor_key),
            write_tokens: WriteTokens::new(&settings.write_tokens),
            sample_products: settings.sample_products,
            index_available: AtomicBool::new(true),
        }
    }
}
