//! What a run will do, and at most how many units each step consumes. No I/O.

use std::sync::Arc;

use anyhow::ensure;
use model::{Comment, Filter, ProductId, RatingSet};
use strum::VariantArray;
use table::capacity::Units;

use super::bounds::Bounds;
use crate::{
    compare::{Ask, Depth, RATINGS},
    dataset::PRODUCT,
    listing::{Listing, PAGE_SIZE},
    money::Prices,
    report::{FOUR_INDEXES, PAGEMARK, Table, row},
    statistics::as_f64,
    workload,
};

/// Comments whose lag is watched.
const WATCHED: usize = 20;
/// Maximum number of look-ups of one comment in one design. 528 are enough if 32 keys become visible one by one. With
/// growing pauses, the others last for minutes.
pub(super) const LOOKS_MAX: u32 = 700;
/// How often a page is read at most until it has the right comments.
pub(super) const CHECKS_MAX: u32 = 20;

/// A page that is measured.
pub(super) struct Page {
    pub(super) ask: Ask,
    pub(super) depth: Depth,
}

impl Page {
    pub(super) fn listing(&self) -> &Listing {
        &self.ask.listing
    }

    /// How many queries the four-index design sends for it.
    pub(super) fn queries(&self) -> usize {
        self.listing().key.filter.ratings().map_or(1, |ratings| ratings.iter().count())
    }
}

/// The comments and pages of a run.
pub(super) struct Sample {
    /// Those of one product. The first ones are watched.
    pub(super) comments: Vec<Comment>,
    /// The first, the middle and the last page of filters by one to five ratings.
    pub(super) pages: Vec<Page>,
    /// How often each page is read in each design.
    pub(super) views: u32,
}

impl Sample {
    pub(super) fn new(comments: u32, views: u32) -> anyhow::Result<Self> {
        let product = ProductId::parse(PRODUCT)?;
        let mut comments = workload::Comments::new(8)?.take(comments)?;
        comments.iter_mut().for_each(|comment| comment.product = product.clone());
        let mut pages = Vec::new();
        for ratings in RATINGS {
            let mut listing = Listing::new(&product, Filter::new(None, ratings.map(RatingSet::parse).transpose()?));
            for comment in &comments {
                listing.add(comment);
            }
            let listing: Arc<Listing> = listing.sorted()?;
            for depth in Depth::VARIANTS {
                pages.push(Page { ask: Ask::new(&listing, depth.page_of(&listing))?, depth: *depth });
            }
        }
        Ok(Self { comments, pages, views })
    }

    /// How many comments are watched.
    pub(super) fn watched(&self) -> usize {
        self.comments.len().min(WATCHED)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub(super) enum Kind {
    #[strum(to_string = "inserts")]
    Inserts,
    #[strum(to_string = "lag")]
    Lag,
    #[strum(to_string = "pages")]
    Pages,
}

/// A step in one design, and at most what it consumes.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) kind: Kind,
    pub(super) design: &'static str,
    what: String,
    pub(super) units: Units,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
}

impl Plan {
    pub(super) fn of(sample: &Sample) -> anyhow::Result<Self> {
        let (ours, four) = (Bounds::of_pagemark(&sample.comments)?, Bounds::of_four_indexes(&sample.comments)?);
        let our_inserts: Vec<f64> =
            sample.comments.iter().map(|comment| ours.pagemark_insert(comment)).collect::<anyhow::Result<_>>()?;
        let four_inserts: f64 = sample.comments.iter().map(|comment| four.four_indexes_insert(comment)).sum();
        let reads = f64::from(CHECKS_MAX + sample.views);
        let our_pages: f64 = sample.pages.iter().map(|_| reads * ours.query(PAGE_SIZE)).sum();
        let queries = sample.pages.iter().map(|page| as_f64(page.queries() as u64));
        let four_pages: f64 = queries.map(|queries| reads * queries * four.query(PAGE_SIZE)).sum();
        let watched = sample.watched();
        let looks = as_f64(watched as u64) * f64::from(LOOKS_MAX);
        let mut steps = Vec::new();
        for (design, inserts, look, pages) in [
            (PAGEMARK, our_inserts.iter().sum::<f64>(), ours.query(1), our_pages),
            (FOUR_INDEXES, four_inserts, four.query(1), four_pages),
        ] {
            let mut step = |kind, what: String, read, write| {
                steps.push(Step { kind, design, what, units: Units { read, write } });
            };
            step(Kind::Inserts, format!("insert {} comments", sample.comments.len()), 0.0, inserts);
            step(Kind::Lag, format!("watch {watched} of them, {LOOKS_MAX} look-ups each"), looks * look, 0.0);
            let what = format!("{} pages: {CHECKS_MAX} checks, {} views each", sample.pages.len(), sample.views);
            step(Kind::Pages, what, pages, 0.0);
        }
        Ok(Self { steps })
    }

    pub(super) fn total(&self) -> Units {
        let sum = |of: fn(&Units) -> f64| self.steps.iter().map(|step| of(&step.units)).sum::<f64>();
        Units { read: sum(|units| units.read), write: sum(|units| units.write) }
    }

    /// Refuses a budget that does not cover the plan.
    pub(super) fn check(&self, budget: Units) -> anyhow::Result<()> {
        let Units { read, write } = self.total();
        ensure!(
            read <= budget.read && write <= budget.write,
            "the plan takes up to {read} read units and {write} write units, and the budget is {} and {}: nothing was \
             called; ask for fewer --comments or --views, or for a larger budget",
            budget.read,
            budget.write
        );
        Ok(())
    }

    pub(super) fn table(&self, prices: &Prices) -> Table {
        let row = |what: &str, design: &str, units: Units| {
            row![
                ("step", what),
                ("design", design),
                ("read units", units.read),
                ("write units", units.write),
                ("US dollars", usd(units, prices)),
            ]
        };
        let steps = self.steps.iter().map(|step| row(&step.what, step.design, step.units));
        let about = format!(
            "At most what is consumed, by DynamoDB's rules and the prices of {} of {}. Not counted: storage for minutes, far \
             below a cent; reads of the stream, four a second for each shard and function, of which 2,500,000 a month are \
             free.",
            prices.region, prices.looked_up
        );
        Table::new("endpoint: plan", about, steps.chain([row("together", "both", self.total())]))
    }
}

/// The price of these units.
pub(super) fn usd(units: Units, prices: &Prices) -> f64 {
    (units.read * prices.million_read_units.usd + units.write * prices.million_write_units.usd) / 1e6
}
