//! Tables in Markdown.

pub(crate) type Row = Vec<String>;

pub(crate) fn markdown_table((head, rows): &(Row, Vec<Row>)) -> String {
    let rule: Row = (0..head.len())
        .map(|column| if column == 0 { "---" } else { "---:" }.to_owned())
        .collect();
    let line = |cells: &Row| format!("| {} |\n", cells.join(" | "));
    [head, &rule].into_iter().chain(rows).map(line).collect()
}
