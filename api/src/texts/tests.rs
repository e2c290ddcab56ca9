//! Every language is complete.

use std::collections::{BTreeMap, BTreeSet};

use fluent_bundle::{FluentArgs, FluentValue};

use super::*;

/// The text of each message.
fn texts_of(
    language: InterfaceLanguage,
    sources: &[&'static str],
) -> BTreeMap<&'static str, &'static str> {
    let mut texts = BTreeMap::new();
    for source in sources.iter().copied() {
        let mut rest = source;
        while let Some(line) = rest.lines().next() {
            let mut message_len = (line.len() + 1).min(rest.len());
            for line in rest.split_inclusive('\n').skip(1) {
                if !line.starts_with([' ', '}', '\n']) {
                    break;
                }
                message_len += line.len();
            }
            let (message, behind) = rest.split_at(message_len);
            rest = behind;
            if line.starts_with(char::is_alphabetic)
                && let Some((id, text)) = message.split_once(" =")
            {
                assert_eq!(
                    texts.insert(id, text),
                    None,
                    "{id} is there twice in {language}"
                );
            }
        }
    }
    texts
}

fn variables(text: &str) -> BTreeSet<&str> {
    text.split('$')
        .skip(1)
        .map(|rest| rest.split(is_not_of_name).next().unwrap())
        .collect()
}

fn is_not_of_name(c: char) -> bool {
    !c.is_ascii_alphanumeric() && c != '-' && c != '_'
}

/// The texts of the messages that a text refers to.
fn inside<'text>(texts: &BTreeMap<&'text str, &'text str>, text: &'text str) -> Vec<&'text str> {
    text.split("{ ")
        .skip(1)
        .filter_map(|rest| texts.get(rest.split(' ').next()?).copied())
        .collect()
}

fn messages(language: InterfaceLanguage) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let texts = texts_of(language, &language.sources()[..2]);
    let mut all = BTreeMap::new();
    for (id, text) in &texts {
        let mut names = variables(text);
        for inner in inside(&texts, text) {
            names.extend(variables(inner));
            for innermost in inside(&texts, inner) {
                names.extend(variables(innermost));
            }
        }
        all.insert(*id, names);
    }
    all
}

/// Whether a message of one line has words besides its variables.
fn has_words(line: &str) -> bool {
    let (_, text) = line.split_once(" = ").unwrap_or_default();
    text.split(['{', '}'])
        .step_by(2)
        .any(|outside| outside.contains(char::is_alphabetic))
}

/// Something that pages name and no language has would be shown to people instead of the text.
#[test]
fn every_language_has_the_messages_of_english() {
    let english = messages(InterfaceLanguage::En);
    assert!(
        english.len() > 200 && english["days"] == BTreeSet::from(["from", "to"]),
        "{english:?}"
    );
    for language in InterfaceLanguage::VARIANTS {
        assert_eq!(messages(*language), english, "{language}");
        let [texts, names, _] = language.sources();
        assert_eq!(
            [texts, names].map(|source| first_mistake(*language, source)),
            [None, None],
            "{language}"
        );
        let [of_english, _, _] = InterfaceLanguage::En.sources();
        let untranslated: Vec<&str> = texts
            .lines()
            .filter(|line| of_english.contains(line) && has_words(line))
            .collect();
        assert!(
            *language == InterfaceLanguage::En || untranslated.len() < 8,
            "{language}: {untranslated:#?}"
        );
    }
}

#[test]
fn the_preset_says_review_wherever_a_text_says_comment() {
    for (language, comment) in [
        (InterfaceLanguage::En, "comment"),
        (InterfaceLanguage::De, "komment"),
        (InterfaceLanguage::Fr, "comment"),
        (InterfaceLanguage::Es, "coment"),
        (InterfaceLanguage::Pt, "coment"),
        (InterfaceLanguage::He, "תגוב"),
        (InterfaceLanguage::Ja, "コメント"),
    ] {
        let [messages, names, reviews] = language.sources();
        let all = texts_of(language, &[messages, names]);
        let preset = texts_of(language, &[reviews]);
        assert_eq!(first_mistake(language, reviews), None, "{language}");
        for (id, text) in &preset {
            assert_eq!(variables(text), variables(all[id]), "{id} in {language}");
        }
        for (id, text) in &all {
            // The demo has no preset, and a Hebrew reply is called like a comment.
            if id.starts_with("try") || *id == "demo" || *id == "reply-of" {
                continue;
            }
            let shown = preset.get(id).unwrap_or(text).replace("$comments", "");
            assert!(
                !shown.to_lowercase().contains(comment),
                "{id} in {language}"
            );
        }
    }
}

#[test]
fn every_message_can_be_written() {
    let texts = InterfaceTexts::built_in();
    for language in InterfaceLanguage::VARIANTS {
        let t = texts.in_language(*language);
        for (id, variables) in messages(InterfaceLanguage::En) {
            assert!(t.find(id).is_some(), "{id} in {language}");
            for value in [0, 1, 2, 5, 12, 1_000_000]
                .map(FluentValue::from)
                .into_iter()
                .chain(["text".into()])
            {
                let all: FluentArgs<'_> = variables
                    .iter()
                    .map(|name| (*name, value.clone()))
                    .collect();
                let message = t.bundle.get_message(id).unwrap();
                let mut problems = Vec::new();
                t.bundle
                    .format_pattern(message.value().unwrap(), Some(&all), &mut problems);
                assert_eq!(problems, [], "{id} in {language}");
            }
        }
    }
}

#[test]
fn plural_forms_and_numbers_follow_the_language() {
    let texts = InterfaceTexts::built_in();
    for (language, forms) in [
        (
            InterfaceLanguage::En,
            ["0 comments", "1 comment", "2 comments", "12,275 comments"],
        ),
        (
            InterfaceLanguage::De,
            [
                "0 Kommentare",
                "1 Kommentar",
                "2 Kommentare",
                "12.275 Kommentare",
            ],
        ),
        (
            InterfaceLanguage::Fr,
            [
                "0 commentaire",
                "1 commentaire",
                "2 commentaires",
                "12\u{202f}275 commentaires",
            ],
        ),
        (
            InterfaceLanguage::He,
            [
                "\u{2068}0\u{2069} תגובות",
                "תגובה אחת",
                "שתי תגובות",
                "\u{2068}12,275\u{2069} תגובות",
            ],
        ),
        (
            InterfaceLanguage::Ja,
            [
                "コメント0件",
                "コメント1件",
                "コメント2件",
                "コメント12,275件",
            ],
        ),
    ] {
        let t = texts.in_language(language);
        assert_eq!(
            [0_u64, 1, 2, 12_275].map(|count| t.with("comments", [("count", count.into())])),
            forms
        );
    }
    for (language, average) in [
        (InterfaceLanguage::En, "4.50"),
        (InterfaceLanguage::De, "4,50"),
    ] {
        let t = texts.in_language(language);
        let variables = [("average", FluentValue::try_number("4.50"))];
        assert_eq!(t.with("average", variables), average);
    }
    for (language, thousand) in [
        (InterfaceLanguage::De, "1.234"),
        (InterfaceLanguage::Es, "1234"),
    ] {
        let t = texts.in_language(language);
        assert_eq!(t.with("number", [("number", 1_234.into())]), thousand);
    }
}

#[test]
fn dates_follow_the_language() {
    let texts = InterfaceTexts::built_in();
    for (language, day) in [
        (InterfaceLanguage::En, "29 Feb 2024"),
        (InterfaceLanguage::De, "29. Feb. 2024"),
        (InterfaceLanguage::Fr, "29 févr. 2024"),
        (InterfaceLanguage::Es, "29 feb 2024"),
        (InterfaceLanguage::Pt, "29 de fev. de 2024"),
        (InterfaceLanguage::He, "29 בפבר׳ 2024"),
        (InterfaceLanguage::Ja, "2024年2月29日"),
    ] {
        let t = texts.in_language(language);
        let shown = t.with(
            "day",
            [
                ("day", 29.into()),
                ("month", 2.into()),
                ("year", "2024".into()),
            ],
        );
        let without_isolation = shown.replace(['\u{2068}', '\u{2069}'], "");
        assert_eq!(without_isolation, day);
    }
}

/// The messages that a text names in this call.
fn called<'text>(text: &'text str, call: &str) -> Vec<&'text str> {
    text.split(call)
        .skip(1)
        .filter_map(|rest| Some(rest.split_once('"')?.0))
        .collect()
}

/// A misspelt name would be shown to people instead of the text.
#[test]
fn pages_name_exactly_the_messages_that_there_are() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let ids: BTreeSet<&str> = messages(InterfaceLanguage::En).into_keys().collect();
    let mut code = String::new();
    let mut templates = String::new();
    for (folder, text) in [("src/html", &mut code), ("templates", &mut templates)] {
        for file in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = file.unwrap().path();
            if path.is_file() {
                text.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let named: BTreeSet<&str> = (code.split('"').chain(templates.split('"')))
        .filter(|text| ids.contains(text))
        .collect();
    let [messages, names, _] = InterfaceLanguage::En.sources();
    for id in &ids {
        let is_inside = [messages, names]
            .iter()
            .any(|source| source.contains(&format!("{{ {id} }}")));
        let is_of_family = id.starts_with("language-") || id.starts_with("part-");
        assert!(
            named.contains(id) || is_inside || is_of_family,
            "no page uses {id}"
        );
    }
    for call in [
        "t.text(\"",
        "t.with(\"",
        "self.text(\"",
        "self.with(\"",
        "t.counted(\"",
        "t.with_one(\"",
        "self.with_one(\"",
        "t.page(\"",
    ] {
        for id in [called(&code, call), called(&templates, call)].concat() {
            assert!(ids.contains(id), "{id}");
        }
    }
}

#[test]
fn a_site_replaces_messages_of_a_language() {
    let own = "newest = Latest\nday = { month } { $day }, { $year }\n";
    let texts = InterfaceTexts::with(&[(InterfaceLanguage::En, own.to_owned())]);
    let t = texts.in_language(InterfaceLanguage::En);
    assert_eq!(
        (t.text("newest"), t.text("oldest")),
        ("Latest".into(), "Oldest".into())
    );
    let day = t.with(
        "day",
        [
            ("day", 29.into()),
            ("month", 2.into()),
            ("year", "2024".into()),
        ],
    );
    assert_eq!(day, "Feb 29, 2024");
    let built_in = InterfaceTexts::built_in();
    let built_in_english = built_in.in_language(InterfaceLanguage::En);
    assert_ne!(t.version, built_in_english.version);
    let german = texts.in_language(InterfaceLanguage::De);
    let built_in_german = built_in.in_language(InterfaceLanguage::De);
    assert_eq!(german.version, built_in_german.version);
}
