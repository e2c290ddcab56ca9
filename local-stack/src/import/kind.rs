//! Files that are neither JSON Lines nor tables: what they are, and what makes them so.

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::options::ReadingArgs;

const SPREADSHEET: &str = "is a zip archive or a spreadsheet (.xlsx, .ods): save the sheet as CSV in UTF-8, or unpack the archive";

/// How the files of other programs begin, and what to do with them. Each is known by four bytes.
const BEGINNINGS: [(&[u8], &str); 17] = [
    (b"PK\x03\x04", SPREADSHEET),
    (
        b"\xd0\xcf\x11\xe0",
        "is a spreadsheet of an old Excel (.xls): save it as CSV in UTF-8",
    ),
    (
        b"PAR1",
        "is a Parquet file: `duckdb -c \"COPY (FROM 'FILE') TO 'out.jsonl' (FORMAT json)\"` makes JSON Lines of it",
    ),
    (
        b"SQLi",
        "is a database of SQLite: `sqlite3 FILE -json 'SELECT …' | jq -c '.[]'` makes JSON Lines of it",
    ),
    (b"Obj\x01", "is an Avro file: make JSON Lines of it"),
    (b"%PDF", "is a PDF, which holds no rows"),
    (
        b"\xfd7zX",
        "is compressed by xz: `xz -dc FILE | pagemark import -` reads it, with --format csv for a table",
    ),
    (
        b"BZh",
        "is compressed by bzip2: `bzip2 -dc FILE | pagemark import -` reads it, with --format csv for a table",
    ),
    (
        b"\x04\x22\x4d\x18",
        "is compressed by lz4: `lz4 -dc FILE | pagemark import -` reads it, with --format csv for a table",
    ),
    (
        b"\x1f\x9d",
        "is compressed by compress: `gzip -dc FILE | pagemark import -` reads it, with --format csv for a table",
    ),
    (b"7z\xbc\xaf", "is a 7z archive: unpack it"),
    (b"Rar!", "is a RAR archive: unpack it"),
    (b"\xff\xfe", UTF_16),
    (b"\xfe\xff", UTF_16),
    (b"<", XML),
    (b"\xef\xbb\xbf<", XML),
    (b"\0", "is no text: it begins with a zero byte"),
];

const UTF_16: &str = "is UTF-16, not UTF-8: `iconv -f UTF-16 -t UTF-8 FILE` converts it; Excel's \"Unicode text\" is a table with tabs";
const XML: &str = "is XML or HTML: make JSON Lines or CSV of it, such as by `yq -p xml -o json -I 0 '.reviews.review[]' FILE`";

/// What a file is that begins with these bytes, if it is no text with rows.
pub(super) fn of_start(start: &[u8]) -> Option<&'static str> {
    let (_, problem) = BEGINNINGS
        .iter()
        .find(|(beginning, _)| start.starts_with(beginning))?;
    Some(problem)
}

/// What makes JSON Lines of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableRemedy {
    /// Comments are also read from tables.
    Format,
    /// Records of products are not.
    Convert,
}

/// What a file is whose first line, not blank, is no JSON Lines. `None` where only this line may be
/// wrong.
pub(super) fn of_json_line(
    line: &[u8],
    reading: &ReadingArgs,
    table: TableRemedy,
) -> Option<String> {
    if line.starts_with(b"{") {
        return of_object(line, reading);
    }
    let format = table_format(line)?;
    Some(match table {
        TableRemedy::Format => format!("looks like a table: --format {format} reads it"),
        TableRemedy::Convert => {
            "looks like a table, but records of products are JSON Lines: `duckdb -c \"COPY (FROM 'FILE') TO 'out.jsonl' (FORMAT json)\"` makes them"
                .to_owned()
        }
    })
}

/// What a file is whose first line begins an object that is no row.
fn of_object(line: &[u8], reading: &ReadingArgs) -> Option<String> {
    match serde_json::from_slice::<IgnoredAny>(line) {
        Ok(_) => {}
        // A line that ends within a text was cut by a line feed, which `jq` refuses, too.
        Err(error) if error.is_eof() && !ends_in_text(line) => {
            return Some(
                "begins a JSON document of several lines, but a file must be JSON Lines: each line one object; \
                 `jq -c . FILE` writes an object a line, and `jq -c '.reviews[]' FILE` those of its array `reviews`"
                    .to_owned(),
            );
        }
        Err(_) => return None,
    }
    let object: Map<String, Value> = serde_json::from_slice(line).ok()?;
    if object.keys().any(|key| reading.takes(key)) {
        return None;
    }
    let (key, _) = object.iter().find(|(_, value)| {
        value
            .as_array()
            .is_some_and(|array| array.first().is_some_and(Value::is_object))
    })?;
    Some(format!(
        "is one JSON document, but a file must be JSON Lines: each line one object; `jq -c '.[{}][]' FILE` writes its rows so",
        Value::from(key.as_str())
    ))
}

/// Whether a line of JSON ends before a text in it does.
fn ends_in_text(line: &[u8]) -> bool {
    let mut is_text = false;
    let mut is_escaped = false;
    for byte in line {
        if *byte == b'"' && !is_escaped {
            is_text = !is_text;
        }
        is_escaped = *byte == b'\\' && !is_escaped;
    }
    is_text
}

/// The format of a table with this first row: several names with one separator between them.
fn table_format(line: &[u8]) -> Option<&'static str> {
    let text = std::str::from_utf8(line).ok()?;
    let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
    let formats = [('\t', "tsv"), (';', "semicolons"), (',', "csv")];
    let (_, format) = formats
        .into_iter()
        .find(|(separator, _)| text.matches(*separator).count() > 1)?;
    (!is_json && !text.contains('{')).then_some(format)
}

/// Why the first row of a table is that of JSON Lines.
pub(super) fn of_table_line(line: &[u8]) -> Option<&'static str> {
    let line = line.trim_ascii_start();
    let is_json =
        line.starts_with(b"{\"") || line.starts_with(b"[{") || line == b"[" || line == b"{";
    is_json.then_some("is JSON, not a table: --format json-lines reads an object a line; `jq -c '.[]' FILE` writes those of an array so")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_kind_is_named_by_its_beginning() {
        for (start, expected) in [
            (&b"PK\x03\x04\x14"[..], "spreadsheet"),
            (b"PAR1\x15", "Parquet"),
            (b"SQLite format 3\0", "SQLite"),
            (b"\xfd7zXZ\0", "`xz -dc"),
            (b"BZh91AY", "`bzip2 -dc"),
            (b"\xff\xfei\0", "iconv"),
            (b"<?xml", "XML"),
            (b"\xef\xbb\xbf<rss", "XML"),
        ] {
            let found = of_start(start).unwrap();
            assert!(found.contains(expected), "{found}");
        }
        for good in [
            &b"{\"id\""[..],
            b"id,product",
            b"",
            b"\xef\xbb\xbfid",
            b" <",
        ] {
            assert_eq!(of_start(good), None);
        }
    }

    #[test]
    fn a_first_line_says_that_a_file_is_no_json_lines() {
        let reading = ReadingArgs::default();
        for (line, expected) in [
            ("{", "jq -c"),
            ("{ \"reviews\": [", "several lines"),
            (
                r#"{"page":1,"reviews":[{"id":1}]}"#,
                r#"jq -c '.["reviews"][]'"#,
            ),
            ("id;product;language", "--format semicolons"),
            ("id,product,language", "--format csv"),
            ("id\tproduct\tlanguage", "--format tsv"),
        ] {
            let found = of_json_line(line.as_bytes(), &reading, TableRemedy::Format).unwrap();
            assert!(found.contains(expected), "{found}");
        }
        for row in [
            r#"{"id":1,"photos":[{"url":"a"}]}"#,
            "{\"a\": 1, nonsense",
            r#"{"a": "one \" and then cut"#,
            "1",
            "\"a,b,c\"",
            "nonsense",
        ] {
            let found = of_json_line(row.as_bytes(), &reading, TableRemedy::Format);
            assert!(row.contains("nonsense") || found.is_none(), "{found:?}");
        }
        let found = of_json_line(b"product,name,url", &reading, TableRemedy::Convert).unwrap();
        assert!(found.contains("duckdb"), "{found}");
        assert!(of_table_line(b"{\"id\":1}").is_some() && of_table_line(b"id,{a}").is_none());
    }
}
