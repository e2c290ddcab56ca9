//! What spreadsheets make of values before a shop exports them.
//!
//! Seen in LibreOffice 7.4, which was run, and in Excel's documentation:
//!
//! - A number keeps 15 digits. A longer id is shown as `1.23456789012346E+018`, or as
//!   `1234567890123460000` in a column without decimals.
//! - A text that begins with `=`, `+` or `-` is a formula, and then `#NAME?` or `Err:510`.
//! - A column that is too narrow shows `###`.
//! - A text in UTF-8 that is opened as Windows-1252 has `Ã¼` for `ü`.

use model::InvalidInput;

/// Errors that spreadsheets show in place of a value, in the languages of Excel that write them in
/// Latin letters.
const ERRORS: [&str; 37] = [
    "#N/A",
    "#NAME?",
    "#REF!",
    "#VALUE!",
    "#DIV/0!",
    "#NULL!",
    "#NUM!",
    "#SPILL!",
    "#CALC!",
    "#FIELD!",
    "#BUSY!",
    "#BLOCKED!",
    "#CONNECT!",
    "#UNKNOWN!",
    "#GETTING_DATA",
    "#MACRO?",
    // German.
    "#NV",
    "#BEZUG!",
    "#WERT!",
    "#ZAHL!",
    "#ÜBERLAUF!",
    // French.
    "#NOM?",
    "#VALEUR!",
    "#NOMBRE!",
    "#NUL!",
    // Spanish and Portuguese.
    "#¡REF!",
    "#¡VALOR!",
    "#¿NOMBRE?",
    "#¡NUM!",
    "#¡DIV/0!",
    "#VALOR!",
    "#NÚM!",
    // Italian and Dutch.
    "#NOME?",
    "#RIF!",
    "#VALORE!",
    "#WAARDE!",
    "#GETAL!",
];

/// The digits that a number of a spreadsheet keeps.
const DIGITS_KEPT: usize = 15;
/// From so many digits on, zeros behind those that are kept are hardly a coincidence.
const ROUNDED_DIGITS: usize = 17;

/// How much of a text a warning shows.
const SHOWN_CHARS: usize = 60;

/// Refuses what a spreadsheet shows in place of a value.
pub(super) fn check_undamaged(field: &'static str, text: &str) -> Result<(), InvalidInput> {
    let is_narrow = text.len() >= 3 && text.bytes().all(|byte| byte == b'#');
    let is_error = text.starts_with('#') && ERRORS.contains(&text)
        || text
            .strip_prefix("Err:")
            .is_some_and(|number| number.len() == 3 && is_digits(number));
    let is_rounded = names_something(field) && is_rounded(text);
    if !is_error && !is_rounded && !is_narrow {
        return Ok(());
    }
    let problem = format!(
        "{text:?} is what a spreadsheet shows in place of the value; format the column as text, enter the values anew, and export again"
    );
    Err(InvalidInput::new(field, problem))
}

/// What a spreadsheet may have made of a value that can be imported.
pub(super) fn doubt(field: &'static str, text: &str) -> Option<String> {
    if names_something(field) && may_be_rounded(text) {
        return Some(format!(
            "{field}: {text:?} ends as a number does that a spreadsheet has rounded to {DIGITS_KEPT} digits"
        ));
    }
    if is_misread(text) {
        let begin: String = text.chars().take(SHOWN_CHARS).collect();
        return Some(format!(
            "{field}: {begin:?} looks like UTF-8 that a program has read as Windows-1252"
        ));
    }
    None
}

/// Whether two values of the field that became one would be taken for one thing.
fn names_something(field: &str) -> bool {
    matches!(field, "id" | "product" | "author_id")
}

/// Whether it is a number that lost digits, such as `1.23457E+18`; some countries write a comma.
fn is_rounded(text: &str) -> bool {
    let Some((mantissa, exponent)) = text.split_once("E+").or_else(|| text.split_once("e+")) else {
        return false;
    };
    let (whole, fraction) = mantissa.split_once(['.', ',']).unwrap_or((mantissa, "0"));
    whole.len() == 1 && is_digits(whole) && is_digits(fraction) && is_digits(exponent)
}

fn may_be_rounded(text: &str) -> bool {
    text.len() >= ROUNDED_DIGITS
        && is_digits(text)
        && text.bytes().skip(DIGITS_KEPT).all(|digit| digit == b'0')
}

/// Whether a text has pairs that only a misread letter leaves: `Ã` or `Â` and a sign, or `â€`.
fn is_misread(text: &str) -> bool {
    if text.is_ascii() {
        return false;
    }
    let mut before = ' ';
    for character in text.chars() {
        let is_pair = match before {
            'Ã' | 'Â' => matches!(character, '\u{a0}'..='\u{bf}'),
            'â' => character == '€',
            _ => false,
        };
        if is_pair || character == char::REPLACEMENT_CHARACTER {
            return true;
        }
        before = character;
    }
    false
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_spreadsheet_shows_in_place_of_a_value_is_refused() {
        for (field, text) in [
            ("id", "1.23456789012346E+018"),
            ("product", "1.23457E+18"),
            ("product", "1,23457E+18"),
            ("product", "1.234567e+21"),
            ("author_id", "4.00E+10"),
            ("body", "#DIV/0!"),
            ("author", "#NAME?"),
            ("title", "#WERT!"),
            ("title", "Err:508"),
            ("created_at", "########"),
            ("product", "###"),
        ] {
            let error = check_undamaged(field, text).unwrap_err().to_string();
            assert!(error.contains("a spreadsheet shows"), "{error}");
        }
        for (field, text) in [
            ("id", "1e5"),
            ("product", "E+1"),
            ("body", "1.5E+3"),
            ("body", "#LOVE!"),
            ("title", "##"),
        ] {
            assert_eq!(check_undamaged(field, text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_a_spreadsheet_may_have_damaged_is_doubted() {
        for (field, text) in [
            ("product", "1234567890123460000"),
            ("id", "12345678901234500"),
            ("body", "sch\u{c3}\u{b6}n"),
            ("body", "it\u{e2}\u{20ac}\u{2122}s"),
            ("author", "Jos\u{fffd}"),
        ] {
            assert!(doubt(field, text).is_some(), "{text}");
        }
        for (field, text) in [
            ("product", "1234567890123456789"),
            ("product", "1000000000000000"),
            ("body", "1234567890123460000"),
            ("body", "NÃO é â"),
            ("body", "25 € für Ännchen"),
        ] {
            assert_eq!(doubt(field, text), None, "{text}");
        }
    }
}
