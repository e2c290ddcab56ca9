//! Tables for people.

/// The rows as lines, in columns that are as wide as their longest cell.
pub(crate) fn in_columns(rows: &[Vec<String>]) -> Vec<String> {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    rows.iter().map(|row| aligned(row, &widths)).collect()
}

fn aligned(row: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, width) in row.iter().zip(widths) {
        line += &format!("{cell:<width$}  ");
    }
    line.trim_end().to_owned()
}
