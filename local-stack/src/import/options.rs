//! How a foreign file is read: the options of the command line, and the preset behind them.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use model::{InvalidInput, Timestamp};
use serde_json::{Map, Value};

use super::{
    date::{date_format, read_date, rfc_3339, time_zone},
    fields::{MAKES_IDS, OPTIONAL, REQUIRED, attribute, check_field},
    format::Format,
    preset::{Preset, read_preset},
    value::{look_up, text},
};

/// How a foreign file is read: the options of the command line.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Files of other programs")]
pub struct ReadingArgs {
    /// The format of the files [default: csv or tsv for names that say so, otherwise json-lines]
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: Option<Format>,
    /// The rules for a program's export: judgeme, woocommerce or yotpo, or the path of a file with a
    /// site's own; the other options count before it.
    #[arg(long, value_name = "NAME|FILE", value_parser = read_preset)]
    preset: Option<Preset>,
    /// The column of a field, where it has another name, such as `rating=stars,body=text`; `a.b` is
    /// b within a, `status=` takes no column, and `attributes.NAME=COLUMN` fills a key of the
    /// attributes.
    #[arg(long, value_name = "FIELD=COLUMN", value_delimiter = ',', value_parser = assignment)]
    map: Vec<(String, String)>,
    /// The columns that make an id together, where the file has none; the same values make the same
    /// id.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    id_from: Vec<String>,
    /// The value of a field where the file has none, such as `language=en`; repeatable.
    #[arg(long, value_name = "FIELD=TEXT", value_parser = set_value)]
    set: Vec<(String, String)>,
    /// What a value of a field means here, in any case, such as `status:spam=hidden`; repeatable.
    #[arg(long, value_name = "FIELD:FROM=TO", value_parser = replacement)]
    value: Vec<Replacement>,
    /// Columns that are left out although they look like a status.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    drop: Vec<String>,
    /// Turn HTML into text: tags and entities, in title, body, author and the shop's reply.
    #[arg(long)]
    html_to_text: bool,
    /// How dates are written: `unix`, `unix-ms`, or as in strptime, `%d.%m.%Y %H:%M` [default: RFC
    /// 3339]
    #[arg(long, value_name = "FORMAT", value_parser = date_format)]
    date_format: Option<String>,
    /// The time zone of dates whose format has none, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", value_parser = time_zone, requires = "date_format")]
    time_zone: Option<TimeZone>,
}

/// A value of the file, and what is read instead.
#[derive(Debug, Clone, PartialEq)]
struct Replacement {
    field: String,
    from: String,
    to: String,
}

fn replacement(text: &str) -> Result<Replacement, String> {
    let Some((field, rest)) = text.split_once(':') else {
        return Err("is not FIELD:FROM=TO".to_owned());
    };
    let (field, rest) = assignment(&format!("{field}={rest}"))?;
    let (from, to) = rest.split_once('=').ok_or("is not FIELD:FROM=TO")?;
    Ok(Replacement {
        field,
        from: from.to_owned(),
        to: to.to_owned(),
    })
}

/// One value for all rows, which an id cannot be.
fn set_value(text: &str) -> Result<(String, String), String> {
    let assigned = assignment(text)?;
    if assigned.0 == "id" {
        return Err(format!("would be the id of every row; {MAKES_IDS}"));
    }
    Ok(assigned)
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (field, text) = text.split_once('=').ok_or("is not FIELD=TEXT")?;
    check_field(field)?;
    Ok((field.to_owned(), text.to_owned()))
}

/// What is assigned to a field; the last one counts.
fn assigned<'a>(assignments: &'a [(String, String)], field: &str) -> Option<&'a str> {
    assignments
        .iter()
        .rfind(|(of, _)| of == field)
        .map(|(_, text)| text.as_str())
}

impl ReadingArgs {
    /// The columns that a field may have; none for a field that takes none. The first that a row
    /// has counts.
    pub(super) fn columns_of<'a>(&'a self, field: &'a str) -> Vec<&'a str> {
        if let Some(column) = assigned(&self.map, field) {
            return Vec::from_iter((!column.is_empty()).then_some(column));
        }
        if let Some(columns) = self.preset().and_then(|preset| preset.columns.get(field)) {
            return columns.iter().map(String::as_str).collect();
        }
        // A key of the attributes has no column of its own.
        Vec::from_iter(attribute(field).is_none().then_some(field))
    }

    fn preset(&self) -> Option<&Preset> {
        self.preset.as_ref()
    }

    /// Whether an option names the column of the field, or says that it has none.
    pub(super) fn is_named(&self, field: &str) -> bool {
        assigned(&self.map, field).is_some()
    }

    /// Whether an option or the preset names a column of the field.
    pub(super) fn names_column(&self, field: &str) -> bool {
        let by_preset = self
            .preset()
            .is_some_and(|preset| preset.columns.contains_key(field));
        (self.is_named(field) || by_preset) && !self.columns_of(field).is_empty()
    }

    /// The value of a field where a row has none.
    pub(super) fn set_value(&self, field: &str) -> Option<&str> {
        assigned(&self.set, field).or_else(|| {
            let set = &self.preset()?.set;
            set.get(field).map(String::as_str)
        })
    }

    /// What a value of a field means, if it means another one.
    pub(super) fn meaning(&self, field: &str, value: &str) -> Option<&str> {
        for Replacement {
            field: of,
            from,
            to,
        } in &self.value
        {
            if of == field && from.eq_ignore_ascii_case(value) {
                return Some(to);
            }
        }
        let values = self.preset()?.values.get(field)?;
        let (_, to) = values
            .iter()
            .find(|(from, _)| from.eq_ignore_ascii_case(value))?;
        Some(to)
    }

    /// Whether the preset lets the field count in this row.
    pub(super) fn counts(&self, field: &str, row: &Map<String, Value>) -> bool {
        let conditions = self
            .preset()
            .and_then(|preset| preset.only_if.get(field))
            .into_iter()
            .flatten();
        for (column, values) in conditions {
            let found = look_up(row, column).and_then(|value| text("attributes", value).ok());
            let found = found.unwrap_or_default();
            if !values
                .iter()
                .any(|value| value.eq_ignore_ascii_case(&found))
            {
                return false;
            }
        }
        true
    }

    /// The columns of which ids are made; none where a column holds them.
    pub(super) fn columns_of_id(&self) -> &[String] {
        if !self.id_from.is_empty() {
            return &self.id_from;
        }
        match self.preset() {
            Some(preset) if !self.is_named("id") => &preset.id_from,
            _ => &[],
        }
    }

    /// The columns of `--id-from` that a table does not have. Those of a preset may be missing.
    pub(super) fn missing_for_id(&self, columns: &[String]) -> Vec<&str> {
        let mut missing = Vec::new();
        for column in &self.id_from {
            if !columns.contains(column) {
                missing.push(column.as_str());
            }
        }
        missing
    }

    /// The keys of the attributes that have a column or a value of their own, as fields.
    pub(super) fn attribute_fields(&self) -> BTreeSet<&str> {
        let mut fields = BTreeSet::new();
        for (field, _) in self.map.iter().chain(&self.set) {
            fields.insert(field.as_str());
        }
        if let Some(preset) = self.preset() {
            fields.extend(preset.columns.keys().map(String::as_str));
            fields.extend(preset.set.keys().map(String::as_str));
        }
        fields.retain(|field| attribute(field).is_some());
        fields
    }

    /// Every column that decides about a comment.
    pub(super) fn columns(&self) -> Vec<&str> {
        let mut columns = Vec::new();
        for field in REQUIRED.iter().chain(&OPTIONAL) {
            columns.extend(self.columns_of(field));
        }
        for field in self.attribute_fields() {
            columns.extend(self.columns_of(field));
        }
        columns.extend(self.columns_of_id().iter().map(String::as_str));
        for conditions in self
            .preset()
            .iter()
            .flat_map(|preset| preset.only_if.values())
        {
            columns.extend(conditions.keys().map(String::as_str));
        }
        columns
    }

    /// Whether the column is left out by its name.
    pub(super) fn is_dropped(&self, name: &str) -> bool {
        let by_preset = self.preset().map(|preset| preset.drop.as_slice());
        let dropped = self.drop.iter().chain(by_preset.unwrap_or_default());
        dropped.into_iter().any(|dropped| dropped == name)
    }

    pub(super) fn turns_html_to_text(&self) -> bool {
        self.html_to_text || self.preset().is_some_and(|preset| preset.html_to_text)
    }

    pub(super) fn date(&self, text: &str) -> Result<Timestamp, InvalidInput> {
        let utc = TimeZone::UTC;
        let zone = self.time_zone.as_ref().unwrap_or(&utc);
        if let Some(format) = &self.date_format {
            return read_date(format, text, zone);
        }
        let formats = self.preset().map(|preset| preset.date_formats.as_slice());
        for format in formats.unwrap_or_default() {
            if let Ok(date) = read_date(format, text, zone) {
                return Ok(date);
            }
        }
        rfc_3339(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_names_a_field() {
        assert!(
            assignment("stars=rating")
                .unwrap_err()
                .contains("is not a field: id, product")
        );
        assert!(assignment("rating").is_err());
        for wrong in ["status", "status:spam", "state:spam=hidden"] {
            assert!(replacement(wrong).is_err(), "{wrong}");
        }
        let refused = set_value("id=1").unwrap_err();
        assert!(refused.contains("--id-from"), "{refused}");
    }
}
