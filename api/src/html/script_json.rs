//! JSON inside a `<script>` element.

use serde::Serialize;

/// JSON that is safe in an HTML `<script>`: every character with a meaning in HTML or JavaScript becomes a JSON escape
/// sequence (`a_text_cannot_end_the_script`). Only this type is written into pages unescaped.
#[derive(Debug)]
pub(super) struct ScriptJson(String);

impl ScriptJson {
    /// # Errors
    /// When the value cannot be written as JSON.
    pub(super) fn new(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        let plain = serde_json::to_string(value)?;
        let mut escaped = String::with_capacity(plain.len());
        // JSON has these characters only inside strings.
        for character in plain.chars() {
            match character {
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
                }
                other => escaped.push(other),
            }
        }
        Ok(Self(escaped))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_end_the_script() {
        for hostile in ["</script><script>alert(1)", "<!--<script>", "]]>", "&lt;", "a\u{2028}b\u{2029}c", "\"\\</"] {
            let ScriptJson(json) = ScriptJson::new(&[hostile]).unwrap();
            assert!(!json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{json}");
            assert_eq!(serde_json::from_str::<[String; 1]>(&json).unwrap(), [hostile]);
        }
    }
}
