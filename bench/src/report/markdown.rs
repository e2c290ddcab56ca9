//! Tables in Markdown.

/// The cells of a line.
pub(crate) type Cells = Vec<String>;

pub(crate) struct MarkdownTable {
    pub(crate) head: Cells,
    pub(crate) rows: Vec<Cells>,
}

impl MarkdownTable {
    pub(crate) fn new<const COLUMNS: usize>(head: [&str; COLUMNS], rows: Vec<Cells>) -> Self {
        Self {
            head: head.map(str::to_owned).into(),
            rows,
        }
    }

    /// Its text. The cells of every column but the first stand at the right.
    pub(crate) fn text(&self) -> String {
        let mut rule = vec!["---:".to_owned(); self.head.len()];
        if let Some(first) = rule.first_mut() {
            *first = "---".to_owned();
        }
        let mut text = line(&self.head) + &line(&rule);
        for row in &self.rows {
            text.push_str(&line(row));
        }
        text
    }
}

fn line(cells: &Cells) -> String {
    format!("| {} |\n", cells.join(" | "))
}
