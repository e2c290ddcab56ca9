//! The bills of a month, as people read them.

use anyhow::Context;

use crate::{
    bill::{Billed, PARTS, RedisKind, cheaper},
    design::{Design, FOUR_INDEXES, FOUR_INDEXES_PAGE_INDEX, PAGEMARK},
    markdown::MarkdownTable,
    month::{LEFT_OUT, Month},
    number::{NOT_A_NUMBER, text},
    prices::{Need, Prices, Stack},
};

/// The number of ratings whose break-even is printed, beside that of the mix.
const SHOWN_RATINGS: usize = 3;
/// The sizes that documents name.
pub const SIZES: [&str; 4] = [
    "--comments 50e3 --writes 5e3 --views 500e3",
    "--comments 1e6 --writes 100e3 --views 10e6",
    "--comments 10e6 --writes 1e6 --views 100e6",
    "--comments 500e6 --writes 5e6 --views 100e6",
];

/// What `pagemark cost` prints.
pub fn statement(month: &Month) -> anyhow::Result<String> {
    month.check()?;
    let prices = Prices::published()?;
    Ok(format!(
        "{}. Prices: {}, looked up on {}.\n\n{}\n{}\n{LEFT_OUT}\n",
        month.text(),
        prices.region,
        prices.looked_up,
        bills(month, &prices)?.aligned().text(),
        paid_otherwise(month, &prices)?.aligned().text(),
    ))
}

/// Each design's bill by part, and from how many page views for each write on Pagemark is cheaper.
pub fn bills(month: &Month, prices: &Prices) -> anyhow::Result<MarkdownTable> {
    let designs = month.designs()?;
    let billed = billed(&designs, month, prices)?;
    let ours = billed.first().context("a design")?;
    let mut table = table_of("US dollars", &designs);
    for (part, name) in PARTS.into_iter().enumerate() {
        table.add(name, &billed, |billed| {
            dollars(billed.parts().get(part).copied().unwrap_or_default())
        });
    }
    table.add("together", &billed, |billed| dollars(billed.total()));
    table.add("beside the data", &billed, |billed| {
        dollars(billed.beside_usd())
    });
    table.add("the whole deployment", &billed, |billed| {
        dollars(billed.total() + billed.beside_usd())
    });
    table.add("class of the table", &billed, |billed| {
        billed.class.name.clone()
    });
    table.add("nodes of Redis, with replicas", &billed, |billed| {
        nodes(&billed.redis)
    });
    let cheaper_from = "by the data alone, Pagemark is cheaper: page views for each write";
    let of_three = "the same, if all have three ratings";
    for (label, mix) in [
        (cheaper_from, month.mix.clone()),
        (of_three, all_of(SHOWN_RATINGS)),
    ] {
        table.add(label, &billed, |theirs| {
            if theirs.design.name == ours.design.name {
                NOT_A_NUMBER.to_owned()
            } else {
                cheaper((ours, theirs), &mix)
            }
        });
    }
    Ok(table)
}

/// What the same data cost by commitments and services that the template does not make.
pub(crate) fn paid_otherwise(month: &Month, prices: &Prices) -> anyhow::Result<MarkdownTable> {
    let designs = month.designs()?;
    let billed = billed(&designs, month, prices)?;
    let mut table = table_of("together, if paid otherwise", &designs);
    let mut cheapest = Vec::new();
    for billed in &billed {
        cheapest.push(billed.cheapest()?);
    }
    table.add("Valkey Serverless", &billed, |billed| {
        total(billed.serverless().as_ref())
    });
    let label = format!("capacity for {} times the mean", text(month.peak));
    table.add(&label, &billed, |billed| {
        total(billed.provisioned().as_ref())
    });
    table.add("the same, reserved for a year", &billed, |billed| {
        total(billed.reserved().as_ref())
    });
    table.add("the cheapest of all", &cheapest, |billed| {
        let redis = match billed.redis {
            RedisKind::None => "",
            RedisKind::Nodes(_) => ", nodes",
            RedisKind::Serverless => ", Serverless",
        };
        format!("{}: {}{redis}", dollars(billed.total()), billed.class.name)
    });
    Ok(table)
}

fn billed<'month>(
    designs: &'month [Design],
    month: &'month Month,
    prices: &'month Prices,
) -> anyhow::Result<Vec<Billed<'month>>> {
    let billed = designs
        .iter()
        .map(|design| Billed::new(design, month, prices));
    billed.collect()
}

/// A table without rows, with a column for each design.
fn table_of(label: &str, designs: &[Design]) -> MarkdownTable {
    let mut head = vec![label.to_owned()];
    for design in designs {
        head.push(design.name.replace("four indexes with", "with"));
    }
    MarkdownTable {
        head,
        rows: Vec::new(),
    }
}

fn total(billed: Option<&Billed<'_>>) -> String {
    match billed {
        Some(billed) => dollars(billed.total()),
        None => NOT_A_NUMBER.to_owned(),
    }
}

fn nodes(redis: &RedisKind) -> String {
    match redis {
        RedisKind::Nodes(cluster) => format!("{} x {}", text(cluster.shards), cluster.node),
        RedisKind::None | RedisKind::Serverless => NOT_A_NUMBER.to_owned(),
    }
}

/// What a deployment needs beside the data, a month.
pub fn needs(prices: &Prices) -> MarkdownTable {
    let deployment = &prices.deployment;
    let stacks = [Stack::Pagemark, Stack::PageIndex, Stack::TableAlone];
    let mut rows = Vec::new();
    for need in &deployment.needs {
        rows.push(need.row(stacks, ""));
    }
    let mut together = vec!["together".to_owned(), String::new()];
    together.extend(stacks.map(|stack| dollars_and_cents(deployment.month_usd(stack, 0.0, 0.0))));
    rows.push(together);
    for need in &deployment.needs_of_a_million_comments {
        rows.push(need.row(stacks, "a million comments: "));
    }
    for need in &deployment.needs_of_a_million_views {
        rows.push(need.row(stacks, "a million page views: "));
    }
    let head = [
        "a month",
        "price",
        "Pagemark",
        "four indexes with the page index",
        "four indexes",
    ];
    MarkdownTable::new(head, rows)
}

/// The bills of months of several sizes: the data alone, and the whole deployment.
pub fn sizes(prices: &Prices) -> anyhow::Result<MarkdownTable> {
    let mut rows = Vec::new();
    for options in SIZES {
        let month = Month::parse(options)?;
        let mut row = [month.comments, month.writes, month.views]
            .map(text)
            .to_vec();
        for design in month.designs()? {
            if [PAGEMARK, FOUR_INDEXES_PAGE_INDEX, FOUR_INDEXES].contains(&design.name.as_str()) {
                let billed = Billed::new(&design, &month, prices)?;
                let whole = billed.total() + billed.beside_usd();
                row.push(format!("{}, {}", dollars(billed.total()), dollars(whole)));
            }
        }
        rows.push(row);
    }
    let head = [
        "comments",
        "writes",
        "page views",
        PAGEMARK,
        FOUR_INDEXES,
        FOUR_INDEXES_PAGE_INDEX,
    ];
    Ok(MarkdownTable::new(head, rows))
}

/// The mix of page views that all have so many ratings.
pub(crate) fn all_of(ratings: usize) -> Vec<f64> {
    let mut mix = vec![0.0; 5];
    if let Some(percent) = mix.get_mut(ratings) {
        *percent = 100.0;
    }
    mix
}

impl Need {
    /// Its row in [`needs`].
    fn row<const STACKS: usize>(&self, stacks: [Stack; STACKS], of: &str) -> Vec<String> {
        let mut row = vec![format!("{of}{}", self.what), self.price.clone()];
        row.extend(stacks.map(|stack| dollars_and_cents(self.usd(stack))));
        row
    }
}

fn dollars_and_cents(usd: f64) -> String {
    format!("${usd:.2}")
}

fn dollars(usd: f64) -> String {
    format!("${}", text(usd))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;
    use crate::design::FOUR_INDEXES_BATCH;

    /// Words that are sums of money, such as `$58.4`.
    fn sums_in(text: &str) -> BTreeSet<String> {
        let words = text.split([' ', '\n', '|', '(', ')', '*', ';', ':']);
        let sums = words.filter(|word| {
            let digits = word.strip_prefix('$').unwrap_or_default();
            digits.starts_with(|char: char| char.is_ascii_digit())
        });
        sums.map(|word| word.trim_end_matches(['.', ',']).to_owned())
            .collect()
    }

    /// Options of the months that documents name, beside [`SIZES`].
    const OTHER_MONTHS: [&str; 3] = [
        "--redis-bytes 226 --table-class Standard",
        "--table-class Standard",
        "--front 0 --depth 10",
    ];

    /// All that is printed and published, and rounded sums.
    fn computed() -> BTreeSet<String> {
        let prices = Prices::published().unwrap();
        let mut texts = needs(&prices).text() + &sizes(&prices).unwrap().text();
        let mut rounded = Vec::new();
        for options in SIZES.into_iter().chain(OTHER_MONTHS) {
            let month = Month::parse(options).unwrap();
            texts.push_str(&statement(&month).unwrap());
            for design in month.designs().unwrap() {
                let billed = Billed::new(&design, &month, &prices).unwrap();
                rounded.push(format!("${:.0}", billed.total()));
            }
        }
        let mut sums = sums_in(&texts);
        sums.extend(rounded);
        sums
    }

    /// Bills of earlier versions, what documents say is reckoned by hand, and prices of other
    /// products.
    const NOT_COMPUTED: [&str; 6] = ["$427", "$439", "$240", "$21,300", "$15", "$339"];

    fn document(path: &str) -> String {
        fs::read_to_string(format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    #[test]
    fn documents_name_the_bills_that_are_computed() {
        let mut computed = computed();
        computed.extend(NOT_COMPUTED.map(str::to_owned));
        let benchmarks = document("docs/benchmarks.md");
        let deploying = document("docs/deploy.md");
        let (_, costs) = deploying.split_once("\n## What it costs").unwrap();
        let (deployment, _) = costs.split_once("\n## ").unwrap();
        for (path, text, at_least) in [
            ("README.md", document("README.md").as_str(), 2),
            ("docs/choosing.md", &document("docs/choosing.md"), 20),
            ("docs/benchmarks.md", &benchmarks, 20),
            ("docs/deploy.md", deployment, 20),
        ] {
            let named = sums_in(text);
            let others: Vec<_> = named.difference(&computed).collect();
            assert!(
                named.len() >= at_least && others.is_empty(),
                "{path}: {others:?}"
            );
        }
    }

    fn total_of(month: &Month, design: &str) -> f64 {
        let prices = Prices::published().unwrap();
        let designs = month.designs().unwrap();
        let design = designs.iter().find(|of| of.name == design).unwrap();
        Billed::new(design, month, &prices).unwrap().total()
    }

    /// From how many page views for each write on Pagemark is cheaper than a design, by a mix.
    fn from(options: &str, design: &str, mix: &[f64]) -> String {
        let month = Month::parse(options).unwrap();
        let prices = Prices::published().unwrap();
        let designs = month.designs().unwrap();
        let billed = billed(&designs, &month, &prices).unwrap();
        let theirs = billed.iter().find(|billed| billed.design.name == design);
        let said = cheaper((&billed[0], theirs.unwrap()), mix);
        said.strip_prefix("from ").unwrap_or(&said).to_owned()
    }

    #[test]
    fn documents_draw_their_conclusions_from_the_bills() {
        let million = Month::parse(SIZES[1]).unwrap();
        let month = Month::parse("").unwrap();
        let ours = total_of(&month, PAGEMARK);
        let theirs = total_of(&month, FOUR_INDEXES_PAGE_INDEX);
        let alone = from("", FOUR_INDEXES, &month.mix);
        let by_numbers = from("--front 0 --depth 10", FOUR_INDEXES, &month.mix);
        let of_three = all_of(SHOWN_RATINGS);
        for (path, said) in [
            (
                "README.md",
                format!("${:.0} a month are fine", total_of(&million, PAGEMARK)),
            ),
            (
                "README.md",
                format!(
                    "${:.0} must do",
                    total_of(&million, FOUR_INDEXES_PAGE_INDEX)
                ),
            ),
            (
                "README.md",
                format!("cost ${:.0} instead of ${:.0}", theirs, ours),
            ),
            (
                "docs/choosing.md",
                format!("cost less up to {alone} page views"),
            ),
            ("docs/choosing.md", format!("from {by_numbers} page views")),
            (
                "docs/choosing.md",
                format!(
                    "from {} page views",
                    from("", FOUR_INDEXES_PAGE_INDEX, &of_three)
                ),
            ),
            ("docs/benchmarks.md", format!("from {alone} page views")),
            (
                "docs/benchmarks.md",
                format!("from {} page views", from("", FOUR_INDEXES, &of_three)),
            ),
            (
                "docs/benchmarks.md",
                format!(
                    "from {} page views",
                    from("", FOUR_INDEXES_BATCH, &month.mix)
                ),
            ),
        ] {
            let text = document(path).replace('\n', " ");
            assert!(text.contains(&said), "{path}: {said}");
        }
    }
}
