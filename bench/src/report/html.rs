//! `report.html`: one self-contained file without scripts.

use askama::Template;

use super::{
    anchor,
    document::{Section, facts, opening, sections},
    kept::{Kept, Ratio},
    limit::verdict,
    plot::Plot,
    table::Table,
};

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'kept> {
    opening: String,
    facts: Vec<(&'static str, String)>,
    ratios: &'kept [Ratio],
    sections: Vec<Part<'kept>>,
}

/// A section with its plots drawn.
struct Part<'kept> {
    anchor: String,
    section: Section<'kept>,
    plots: Vec<(&'kept Plot, String)>,
}

impl Ratio {
    fn verdict(&self) -> &'static str {
        verdict(self.holds)
    }
}

impl Table {
    /// The class of a column's cells.
    fn class(&self, column: &usize) -> &'static str {
        if self.is_of_figures(*column) { "figure" } else { "" }
    }

    /// Whether a cell is the heading of its row.
    fn is_row_head(&self, column: &usize) -> bool {
        *column == 0 && !self.is_of_figures(0)
    }
}

/// The whole report.
pub(super) fn html(kept: &Kept) -> anyhow::Result<String> {
    let parts = sections(kept).into_iter().map(|section| {
        let plots = section.plots.iter().map(|plot| Ok((*plot, plot.svg()?)));
        let plots = plots.collect::<anyhow::Result<_>>()?;
        Ok(Part { anchor: anchor(section.name), plots, section })
    });
    let page = Page {
        opening: opening(kept),
        facts: facts(kept),
        ratios: &kept.ratios,
        sections: parts.collect::<anyhow::Result<_>>()?,
    };
    Ok(page.render()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::sample;

    #[test]
    fn a_report_is_well_formed_complete_and_needs_nothing_else() {
        let text = html(&sample()).unwrap();
        let document = roxmltree::Document::parse_with_options(
            &text,
            roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() },
        )
        .unwrap();
        let all = |name: &'static str| document.descendants().filter(move |node| node.tag_name().name() == name);
        let ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
        for link in all("a") {
            let target = link.attribute("href").unwrap().strip_prefix('#').unwrap();
            assert!(ids.contains(&target), "{target} is nowhere");
        }
        assert_eq!(all("svg").count(), 1);
        assert!(all("th").all(|head| head.attribute("scope").is_some()));
        assert_eq!(all("script").count() + all("link").count() + all("img").count(), 0);
        let first = all("p").next().unwrap();
        assert_eq!(first.text().unwrap(), opening(&sample()));
        // A measurement's text is escaped, not markup.
        assert!(text.contains("walk by &lt;cursor&gt;"), "{text}");
    }
}
