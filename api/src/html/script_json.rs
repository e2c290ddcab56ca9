//! JSON inside a `<script>` element.

use serde::Serialize;

/// JSON that is safe in an HTML `<script>`: every character with a meaning in HTML or JavaScript
/// becomes a JSON escape sequence (`a_text_cannot_end_the_script`). Only this type is written into
/// pages unescaped.
#[derive(Debug)]
pub(super) struct ScriptJson(pub(super) String);

impl ScriptJson {
    pub(super) fn new(value: &impl Serialize) -> Self {
        // This cannot fail: all keys are strings, and the text is written to memory.
        let mut json = serde_json::to_string(value).unwrap_or_default();
        // JSON has these characters only inside strings.
        for special in ['<', '>', '&', '\u{2028}', '\u{2029}'] {
            if json.contains(special) {
                json = json.replace(special, &format!("\\u{:04x}", u32::from(special)));
            }
        }
        Self(json)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_cannot_end_the_script() {
        for hostile in [
            "</script><script>alert(1)",
            "<!--<script>",
            "]]>",
            "&lt;",
            "a\u{2028}b\u{2029}c",
            "\"\\</",
        ] {
            let ScriptJson(json) = ScriptJson::new(&json!([hostile]));
            assert!(
                !json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']),
                "{json}"
            );
            assert_eq!(
                serde_json::from_str::<[String; 1]>(&json).unwrap(),
                [hostile]
            );
        }
    }
}
