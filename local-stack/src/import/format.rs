//! The formats of files with rows.

use std::path::Path;

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One JSON object a line, as an export writes them
    JsonLines,
    /// Cells separated by commas, with a first row that names the columns (RFC 4180)
    Csv,
    /// Cells separated by semicolons, as spreadsheets in much of Europe write them
    Semicolons,
    /// Cells separated by tabs; a file with a cell `\N` is read as `database`
    Tsv,
    /// Cells separated by tabs, with `\N`, `\n` and `\t`, as PostgreSQL and MySQL write them
    Database,
}

impl Format {
    /// The format that a file's name asks for: `.csv` or `.tsv`, whether or not `.gz` or `.zst`
    /// follows, or JSON Lines.
    pub(crate) fn of_name(path: &Path) -> Self {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        let plain = [".gz", ".zst"]
            .into_iter()
            .find_map(|ending| name.strip_suffix(ending))
            .unwrap_or(&name);
        match plain.rsplit_once('.') {
            Some((_, "csv")) => Self::Csv,
            Some((_, "tsv" | "tab")) => Self::Tsv,
            _ => Self::JsonLines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_says_its_format() {
        for (name, format) in [
            ("a.csv", Format::Csv),
            ("A.CSV.GZ", Format::Csv),
            ("a.tsv.zst", Format::Tsv),
            ("a.jsonl", Format::JsonLines),
            ("csv", Format::JsonLines),
        ] {
            assert_eq!(Format::of_name(Path::new(name)), format, "{name}");
        }
    }
}
