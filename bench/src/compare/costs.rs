//! The cost of reading a page: units, requests, items and bytes read and discarded, and the position text in its
//! address.

use anyhow::{Context, ensure};
use model::{Comment, size::item_bytes};

use super::{
    contestants::{Ask, Contestants},
    reads::Depth,
};
use crate::{
    report::{Cell, Table},
    statistics::as_f64,
};

/// The cost of one page in one design.
#[derive(Debug, Clone, Default)]
pub(super) struct Cost {
    pub(super) read_units: f64,
    /// Calls to DynamoDB and to Redis.
    pub(super) requests: u64,
    pub(super) redis_requests: u64,
    pub(super) items_read: u64,
    pub(super) items_thrown_away: u64,
    pub(super) bytes_read: u64,
    pub(super) bytes_thrown_away: u64,
    /// Bytes in the page's address that give its start: `page=N`, or the cursor.
    pub(super) address_bytes: u64,
}

/// The cost of a page in each design.
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
    let reader = contestants.reader(None, true).await?;
    let shown = reader.pagemark(&ask).await?;
    let answer = reader.pagemark_query(&ask).await?;
    let consumed = answer.consumed_capacity().and_then(|consumed| consumed.capacity_units()).context("units")?;
    let sizes: Vec<u64> = answer.items.into_iter().flatten().map(|item| item_bytes(&item.into()) as u64).collect();
    let pagemark = Cost {
        read_units: consumed,
        requests: 1,
        redis_requests: 1,
        items_read: sizes.len() as u64,
        items_thrown_away: 0,
        bytes_read: sizes.iter().sum(),
        bytes_thrown_away: 0,
        address_bytes: if ask.number > 1 { format!("page={}", ask.number).len() as u64 } else { 0 },
    };
    let expected = ask.listing.page(ask.number);
    let ids = |comments: &[Comment]| comments.iter().map(|comment| comment.id.to_string()).collect::<Vec<_>>();
    ensure!(ids(&shown) == expected, "{} page {}: Pagemark shows {:?}", ask.listing.name(), ask.number, ids(&shown));
    let mut of_four = Vec::new();
    for skip_empty in [false, true] {
        let page = reader.four_index(&ask, skip_empty).await?;
        ensure!(
            ids(&page.comments) == expected,
            "{} page {}: the other design shows {:?}",
            ask.listing.name(),
            ask.number,
            ids(&page.comments)
        );
        of_four.push(Cost {
            read_units: page.cost.read_units,
            requests: page.cost.requests.into(),
            redis_requests: 0,
            items_read: page.cost.items_read.into(),
            items_thrown_away: page.cost.items_discarded.into(),
            bytes_read: page.cost.bytes_read,
            bytes_thrown_away: page.cost.bytes_discarded,
            address_bytes: ask.cursor.as_ref().map_or(0, |cursor| format!("cursor={}", cursor.encode()).len() as u64),
        });
    }
    let four_with_counters = of_four.pop().unwrap_or_default();
    let four = of_four.pop().unwrap_or_default();
    Ok(Costs { ask, depth, pagemark, four, four_with_counters })
}

/// The table: one row per filter and page, for three designs.
pub(super) fn table(costs: &[Costs]) -> Table {
    let columns = [
        "filter",
        "ratings",
        "page",
        "design",
        "read units",
        "DynamoDB calls",
        "Redis calls",
        "items read",
        "thrown away",
        "bytes read",
        "bytes thrown away",
        "bytes in the address",
    ];
    let rows = costs.iter().flat_map(|costs| {
        let designs = [
            ("Pagemark", &costs.pagemark),
            ("four-index", &costs.four),
            ("four-index, counters", &costs.four_with_counters),
        ];
        designs.map(|(design, cost)| -> Vec<Cell> {
            vec![
                costs.ask.listing.name().into(),
                as_f64(costs.ask.listing.ratings as u64).into(),
                costs.depth.name().into(),
                design.into(),
                cost.read_units.into(),
                as_f64(cost.requests).into(),
                as_f64(cost.redis_requests).into(),
                as_f64(cost.items_read).into(),
                as_f64(cost.items_thrown_away).into(),
                as_f64(cost.bytes_read).into(),
                as_f64(cost.bytes_thrown_away).into(),
                as_f64(cost.address_bytes).into(),
            ]
        })
    });
    Table {
        name: "compare: what a page consumes".to_owned(),
        about:
            "One page of 20, read once in each design after both were found to show the same comments; units as the \
                engine counts them."
                .to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}
