//! Sizes and costs of items by DynamoDB's rules (AWS: "DynamoDB item sizes and formats", "DynamoDB
//! read and write operations").

use serde_dynamo::{AttributeValue, Item};

/// Bytes of an item per write unit. A strongly consistent read unit covers four times as many.
const WRITE_UNIT_BYTES: usize = 1024;

/// The size of an item in bytes: the names and values of its attributes.
pub fn item_bytes(item: &Item) -> usize {
    item.iter()
        .map(|(name, value)| name.len() + value_bytes(value))
        .sum()
}

pub fn value_bytes(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::B(bytes) => bytes.len(),
        AttributeValue::N(number) => number_bytes(number),
        AttributeValue::Bool(_) | AttributeValue::Null(_) => 1,
        // Three bytes, plus one for each element.
        AttributeValue::M(fields) => {
            3 + fields
                .iter()
                .map(|(name, value)| 1 + name.len() + value_bytes(value))
                .sum::<usize>()
        }
        AttributeValue::L(values) => {
            3 + values
                .iter()
                .map(|value| 1 + value_bytes(value))
                .sum::<usize>()
        }
        AttributeValue::Ss(texts) => texts.iter().map(String::len).sum(),
        AttributeValue::Ns(numbers) => numbers.iter().map(|number| number_bytes(number)).sum(),
        AttributeValue::Bs(values) => values.iter().map(Vec::len).sum(),
    }
}

/// One byte for each two significant digits, plus one. DynamoDB calls this approximate.
fn number_bytes(number: &str) -> usize {
    let digits: String = number
        .chars()
        .take_while(|c| !matches!(c, 'e' | 'E'))
        .filter(char::is_ascii_digit)
        .collect();
    1 + digits
        .trim_start_matches('0')
        .trim_end_matches('0')
        .len()
        .div_ceil(2)
}

/// The units for writing an item, in the table or in an index. A transaction takes twice as many in
/// the table.
pub fn write_units(item_bytes: usize) -> usize {
    item_bytes.div_ceil(WRITE_UNIT_BYTES).max(1)
}
