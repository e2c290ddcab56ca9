//! Pagemark: the two calls of a numbered page, identical to those of the API, without the API.

use anyhow::{Context, bail};
use futures_util::future::LocalBoxFuture;
use model::{Comment, Order};
use page_index::{PageIndex, PageStartQuery};
use table::{Page, PageQuery, Table};

use super::race::Contestant;
use crate::shop::{Listing, PAGE_SIZE, Shop};

/// A reader of pages.
pub(super) struct Pagemark<'shop> {
    index: PageIndex,
    table: Table,
    table_id: String,
    listing: &'shop Listing,
}

impl<'shop> Pagemark<'shop> {
    pub(super) async fn new(shop: &Shop, listing: &'shop Listing) -> anyhow::Result<Self> {
        let table_id = shop.table.describe().await?.id;
        Ok(Self { index: shop.page_index().with_own_connections(), table: shop.table.clone(), table_id, listing })
    }

    async fn read(&self, page: u64) -> anyhow::Result<Vec<Comment>> {
        let Listing { key, filter, .. } = self.listing;
        let query = PageStartQuery {
            product: &key.product,
            filter,
            skip: (page - 1) * PAGE_SIZE as u64,
            order: Order::Newest,
            as_of: None,
        };
        let start = match self.index.page_start(&query, &self.table_id, process::now()).await? {
            Ok(start) => start,
            Err(not_ready) => bail!("the page index is not ready: {not_ready}"),
        };
        let start = match page {
            1 => None,
            _ => Some(start.before.with_context(|| format!("page {page} has no start"))?),
        };
        let limit = u16::try_from(PAGE_SIZE)?;
        let query = PageQuery { key: key.clone(), order: Order::Newest, limit, start };
        let Page { comments, .. } = self.table.page(&query).await?;
        Ok(comments)
    }
}

impl Contestant for Pagemark<'_> {
    fn name(&self) -> &'static str {
        "Pagemark"
    }

    fn page(&mut self, page: u64) -> LocalBoxFuture<'_, anyhow::Result<Vec<Comment>>> {
        Box::pin(self.read(page))
    }
}
