//! The answer on a terminal.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};

use super::{
    answer::{Answer, Billed, Meeting, write_names},
    question::LEFT_OUT,
};
use crate::money::{Bill, BreakEven};

impl fmt::Display for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let question = &self.question;
        let mix: Vec<String> = question.mix.iter().map(|share| short(100.0 * share)).collect();
        writeln!(
            formatter,
            "A month with {} comments of {} bytes, {} writes and {} page views.",
            whole(question.comments),
            whole(question.shape.text_bytes.into()),
            whole(question.writes),
            whole(question.views),
        )?;
        writeln!(formatter, "Page views: {} % without filter by rating, by 1, by 2, ... ratings.", mix.join(", "))?;
        writeln!(formatter, "Prices: {}, looked up on {}.", self.region, self.prices_looked_up)?;
        writeln!(formatter, "\"Counters\" has Pagemark's features except page numbers: pages show totals and counts.")?;
        writeln!(formatter, "\n{}\n", self.bills())?;
        writeln!(formatter, "From how many page views for each write Pagemark is cheaper:\n{}\n", self.break_evens())?;
        writeln!(formatter, "The same month with one thing changed, all that is billed:\n{}\n", self.variations())?;
        writeln!(formatter, "{LEFT_OUT}")
    }
}

impl Answer {
    /// What is billed, and why: parts in dollars, then units and bytes.
    fn bills(&self) -> Table {
        let mut table = table(["US dollars a month"].into_iter().chain(self.names()));
        let mut row = |what: &str, of: &dyn Fn(&Billed) -> String| {
            table.add_row([what.to_owned()].into_iter().chain(self.designs.iter().map(of)));
        };
        for (place, (part, _)) in Bill::default().parts().into_iter().enumerate() {
            row(part, &|billed| billed.month_usd.parts().get(place).map_or_else(none, |(_, usd)| cents(*usd)));
        }
        row("once: the first load of all comments", &|billed| cents(billed.first_load_usd));
        for write in write_names() {
            let of = |billed: &Billed| billed.write_units.get(&write).map_or_else(none, |units| short(*units));
            row(&format!("write units: {write}"), &of);
        }
        for ratings in 0..self.question.mix.len() {
            let of = |billed: &Billed| billed.page_read_units.get(ratings).map_or_else(none, |units| short(*units));
            match ratings {
                0 => row("read units: page without filter", &of),
                1 => row("read units: page of 1 rating", &of),
                several => row(&format!("read units: page of {several} ratings"), &of),
            }
        }
        row("items of a comment in the table", &|billed| short(billed.items));
        row("bytes of a comment in table and indexes", &|billed| whole(billed.dynamodb_bytes));
        row("bytes of a comment in Redis", &|billed| whole(billed.redis_bytes));
        table
    }

    fn break_evens(&self) -> Table {
        let others = self.break_evens.iter().map(|meeting| format!("than {}", meeting.than));
        let mut table = table(["billed".to_owned()].into_iter().chain(others));
        let mut row = |what: String, of: &dyn Fn(&Meeting) -> String| {
            table.add_row([what].into_iter().chain(self.break_evens.iter().map(of)));
        };
        row("page views and writes only".to_owned(), &|meeting| views(meeting.requests));
        row("and storage, recovery, audits".to_owned(), &|meeting| views(meeting.and_storage));
        row("and Redis: all".to_owned(), &|meeting| views(meeting.all));
        for ratings in 2..self.question.mix.len() {
            let of = |meeting: &Meeting| meeting.all_by_ratings.get(&ratings).copied().flatten();
            row(format!("all, every view by {ratings} ratings"), &|meeting| views(of(meeting)));
        }
        row("cost of a write, functions included".to_owned(), &|meeting| {
            meeting.writes_times.map_or_else(none, |times| format!("{times:.1} times"))
        });
        table
    }

    fn variations(&self) -> Table {
        let others = self.break_evens.iter().map(|meeting| format!("cheaper than {}", meeting.than));
        let mut table = table(["changed"].into_iter().chain(self.names()).map(str::to_owned).chain(others));
        for variation in &self.sensitivity {
            let dollars = variation.month_usd.iter().map(|usd| cents(*usd));
            let break_evens = variation.break_evens.iter().map(|break_even| views(*break_even));
            table.add_row([variation.what.clone()].into_iter().chain(dollars).chain(break_evens));
        }
        table
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.designs.iter().map(|billed| billed.design.as_str())
    }
}

/// A table whose columns after the first are right-aligned.
fn table<Name: Into<comfy_table::Cell>>(header: impl Iterator<Item = Name>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header.map(Into::into).collect::<Vec<comfy_table::Cell>>());
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

fn views(break_even: Option<BreakEven>) -> String {
    match break_even {
        Some(BreakEven::From(views)) => format!("from {}", short(views)),
        Some(BreakEven::Below(views)) => format!("below {}", short(views)),
        Some(same @ (BreakEven::Always | BreakEven::Never)) => same.text(),
        None => none(),
    }
}

fn none() -> String {
    "-".to_owned()
}

/// A number with at most one decimal, which only small numbers have: "1.5", "68", "10,125".
fn short(value: f64) -> String {
    if value < 100.0 && value != value.trunc() { format!("{value:.1}") } else { whole(value) }
}

fn whole(value: f64) -> String {
    separated(&format!("{value:.0}"))
}

/// Dollars with cents: "1,234.50".
fn cents(usd: f64) -> String {
    separated(&format!("{usd:.2}"))
}

/// A comma after each three digits before the point.
fn separated(number: &str) -> String {
    let whole = number.find('.').unwrap_or(number.len());
    let mut text = String::new();
    for (place, character) in number.chars().enumerate() {
        if place > 0 && place < whole && (whole - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(character);
    }
    text
}
