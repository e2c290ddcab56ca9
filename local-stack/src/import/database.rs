//! Tables as databases write them: cells between tabs, in which a backslash escapes.
//!
//! Seen in PostgreSQL 15 (`COPY`) and MariaDB 10.11 (`INTO OUTFILE`): `\N` is no value, and `\\` a
//! backslash. PostgreSQL writes a line end as `\n`, MariaDB puts a backslash before it. A quote is
//! text.

/// Whether a line has a cell `\N`, which no other program writes.
pub(super) fn has_null(line: &[u8]) -> bool {
    line.trim_ascii_end()
        .split(|byte| *byte == b'\t')
        .any(|cell| cell == b"\\N")
}

/// Whether the next line belongs to the row: its line end is escaped.
pub(super) fn continues(line: &[u8]) -> bool {
    let Some(row) = line.strip_suffix(b"\n") else {
        return false;
    };
    let backslashes = row.iter().rev().take_while(|byte| **byte == b'\\').count();
    backslashes % 2 == 1
}

/// The cells of a row. A cell without a value is empty.
pub(super) fn cells(row: &str) -> Vec<String> {
    let row = row.strip_suffix('\n').unwrap_or(row);
    let row = row.strip_suffix('\r').unwrap_or(row);
    let mut cells = Vec::new();
    let mut cell = String::new();
    let mut characters = row.chars();
    while let Some(character) = characters.next() {
        match character {
            '\t' => cells.push(std::mem::take(&mut cell)),
            '\\' => match characters.next() {
                // No value. It is a cell of its own.
                Some('N') => {}
                Some('n') => cell.push('\n'),
                Some('t') => cell.push('\t'),
                Some('r') => cell.push('\r'),
                Some('b') => cell.push('\u{8}'),
                Some('f') => cell.push('\u{c}'),
                Some('v') => cell.push('\u{b}'),
                Some('0') => cell.push('\0'),
                Some(other) => cell.push(other),
                None => cell.push('\\'),
            },
            other => cell.push(other),
        }
    }
    cells.push(cell);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_what_the_database_had() {
        for (row, expected) in [
            ("a\t\\N\tb\n", vec!["a", "", "b"]),
            ("one\\ntwo\\t\\\\N\n", vec!["one\ntwo\t\\N"]),
            (
                "one\\\ntwo\\\tthree\tfour\r\n",
                vec!["one\ntwo\tthree", "four"],
            ),
            ("C:\\\\temp\t\"q\"\n", vec!["C:\\temp", "\"q\""]),
        ] {
            assert_eq!(cells(row), expected, "{row:?}");
        }
        assert!(has_null(b"a\t\\N\r\n") && !has_null(b"a\t\\Nb\t\\\\N\n"));
        assert!(continues(b"a\\\n") && !continues(b"a\\\\\n") && !continues(b"a\n"));
    }
}
