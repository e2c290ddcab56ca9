//! The cost of reading a page: units, requests, items and bytes read and discarded, and the position text in its
//! address.

use anyhow::{Context, ensure};
use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
use model::{Comment, size::item_bytes};

use super::{
    contestants::{self, Ask, Contestants},
    reads::Depth,
};
use crate::{
    filled_stores::bare_query,
    report::{Table, row},
};

#[derive(Debug, Clone, Default)]
pub(super) struct Cost {
    pub(super) read_units: f64,
    /// Calls to DynamoDB and to Redis.
    pub(super) requests: u64,
    pub(super) redis_requests: u64,
    pub(super) items_read: u64,
    pub(super) items_discarded: u64,
    pub(super) bytes_read: u64,
    pub(super) bytes_discarded: u64,
    /// Bytes in the page's address that give its start: `page=N`, or the cursor.
    pub(super) address_bytes: u64,
}

pub(super) struct Costs {
    pub(super) ask: Ask,
    pub(super) depth: Depth,
    pub(super) pagemark: Cost,
    pub(super) four: Cost,
    /// The variant that reads the counters to skip ratings without comments.
    pub(super) four_with_counters: Cost,
}

/// Reads a page once in each design. Refuses pages that differ in their comments or in the order.
pub(super) async fn read(contestants: &Contestants, ask: Ask, depth: Depth) -> anyhow::Result<Costs> {
    let reader = contestants.reader(true);
    let expected = ask.listing.ids(ask.number);
    let compare = |design: &str, comments: &[Comment]| {
        let ids: Vec<&str> = comments.iter().map(|comment| comment.id.as_str()).collect();
        ensure!(ids == expected, "{} page {}: {design} shows {ids:?}", ask.listing.key, ask.number);
        anyhow::Ok(())
    };
    compare("Pagemark", &reader.pagemark(&ask).await?)?;
    let start = reader.pages.start(&ask.listing, ask.number).await?;
    let query = bare_query(&reader.pages.table, &ask.listing.key, start.as_ref())?;
    let answer = query.return_consumed_capacity(ReturnConsumedCapacity::Total).send().await?;
    let consumed = answer.consumed_capacity().and_then(|consumed| consumed.capacity_units()).context("units")?;
    let sizes: Vec<u64> = answer.items.into_iter().flatten().map(|item| item_bytes(&item.into()) as u64).collect();
    let pagemark = Cost {
        read_units: consumed,
        requests: 1,
        redis_requests: 1,
        items_read: sizes.len() as u64,
        bytes_read: sizes.iter().sum(),
        address_bytes: if ask.number > 1 { format!("page={}", ask.number).len() as u64 } else { 0 },
        ..Cost::default()
    };
    let four = async |skip_empty| {
        let page = reader.four_index(&ask, skip_empty).await?;
        compare("the other design", &page.comments)?;
        anyhow::Ok(Cost {
            read_units: page.cost.read_units,
            requests: page.cost.requests.into(),
            redis_requests: 0,
            items_read: page.cost.items_read.into(),
            items_discarded: page.cost.items_discarded.into(),
            bytes_read: page.cost.bytes_read,
            bytes_discarded: page.cost.bytes_discarded,
            address_bytes: ask.cursor.as_ref().map_or(0, |cursor| format!("cursor={}", cursor.encode()).len() as u64),
        })
    };
    let (four, four_with_counters) = (four(false).await?, four(true).await?);
    Ok(Costs { depth, pagemark, four, four_with_counters, ask: ask.clone() })
}

/// The table: one row per filter and page, for three designs.
pub(super) fn table(costs: &[Costs]) -> Table {
    let rows = costs.iter().flat_map(|Costs { ask, depth, pagemark, four, four_with_counters }| {
        let designs = [("Pagemark", pagemark), ("four-index", four), ("four-index, counters", four_with_counters)];
        designs.map(|(design, cost)| {
            row![
                ("filter", contestants::name(&ask.listing)),
                ("ratings", ask.listing.ratings()),
                ("page", depth.to_string()),
                ("design", design),
                ("read units", cost.read_units),
                ("DynamoDB calls", cost.requests),
                ("Redis calls", cost.redis_requests),
                ("items read", cost.items_read),
                ("items discarded", cost.items_discarded),
                ("bytes read", cost.bytes_read),
                ("bytes discarded", cost.bytes_discarded),
                ("bytes in the address", cost.address_bytes),
            ]
        })
    });
    let about = "One page of 20, read once in each design after both were found to show the same comments; units as the engine \
                 counts them.";
    Table::new("compare: what a page consumes", about, rows)
}
