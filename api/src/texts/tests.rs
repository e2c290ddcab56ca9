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
            let is_more = |line: &&str| line.is_empty() || line.starts_with([' ', '}', '\n']);
            let more: usize = rest
                .split_inclusive('\n')
                .skip(1)
                .take_while(is_more)
                .map(str::len)
                .sum();
            let (message, behind) = rest.split_at((line.len() + 1).min(rest.len()) + more);
            rest = behind;
            if let Some((id, text)) = message
                .split_once(" =")
                .filter(|_| line.starts_with(char::is_alphabetic))
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
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.split('$')
        .skip(1)
        .map(|rest| rest.split(|c| !is_name(c)).next().unwrap())
        .collect()
}

fn messages(language: InterfaceLanguage) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let texts = texts_of(language, &language.sources()[..2]);
    let inside = |text: &'static str| -> Vec<&str> {
        text.split("{ ")
            .skip(1)
            .filter_map(|rest| texts.get(rest.split(' ').next()?).copied())
            .collect()
    };
    let all = texts.iter().map(|(id, text)| {
        let deeper = inside(text)
            .into_iter()
            .flat_map(|text| [vec![text], inside(text)].concat());
        (*id, deeper.chain([*text]).flat_map(variables).collect())
    });
    all.collect()
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
            [texts, names].map(first_mistake),
            [None, None],
            "{language}"
        );
        let has_words = |line: &&str| {
            let text = line.split_once(" = ").map_or("", |(_, text)| text);
            text.split(['{', '}'])
                .step_by(2)
                .any(|outside| outside.contains(char::is_alphabetic))
        };
        let is_english = |line: &&str| InterfaceLanguage::En.sources()[0].contains(line);
        let untranslated: Vec<&str> = texts.lines().filter(is_english).filter(has_words).collect();
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
        let (all, preset) = (
            texts_of(language, &[messages, names]),
            texts_of(language, &[reviews]),
        );
        assert_eq!(first_mistake(reviews), None, "{language}");
        for (id, text) in &preset {
            assert_eq!(variables(text), variables(all[id]), "{id} in {language}");
        }
        // The demo has no preset, and a Hebrew reply is called like a comment.
        let is_left = |(id, text): &(&&str, &&str)| {
            let is_of_demo = id.starts_with("try") || **id == "demo" || **id == "reply-of";
            !is_of_demo
                && preset
                    .get(**id)
                    .unwrap_or(*text)
                    .replace("$comments", "")
                    .to_lowercase()
                    .contains(comment)
        };
        assert_eq!(all.iter().find(is_left), None, "{language}");
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
                let (message, mut problems) = (t.bundle.get_message(id).unwrap(), Vec::new());
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
    let average = |language| {
        texts
            .in_language(language)
            .with("average", [("average", FluentValue::try_number("4.50"))])
    };
    assert_eq!(
        (
            average(InterfaceLanguage::En),
            average(InterfaceLanguage::De)
        ),
        ("4.50".to_owned(), "4,50".to_owned())
    );
    let thousand = |language| {
        texts
            .in_language(language)
            .with("number", [("number", 1_234.into())])
    };
    assert_eq!(
        (
            thousand(InterfaceLanguage::De),
            thousand(InterfaceLanguage::Es)
        ),
        ("1.234".to_owned(), "1234".to_owned())
    );
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
        let plain = |text: String| text.replace(['\u{2068}', '\u{2069}'], "");
        let shown = t.with(
            "day",
            [
                ("day", 29.into()),
                ("month", 2.into()),
                ("year", "2024".into()),
            ],
        );
        assert_eq!(plain(shown), day);
    }
}

/// A misspelt name would be shown to people instead of the text.
#[test]
fn pages_name_exactly_the_messages_that_there_are() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let ids: BTreeSet<&str> = messages(InterfaceLanguage::En).into_keys().collect();
    let (mut code, mut templates) = (String::new(), String::new());
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
    let is_used = |id: &&&str| {
        let is_inside = [messages, names]
            .iter()
            .any(|source| source.contains(&format!("{{ {id} }}")));
        named.contains(**id) || is_inside || id.starts_with("language-") || id.starts_with("part-")
    };
    assert_eq!(ids.iter().find(|id| !is_used(id)), None, "no page uses it");
    let called = |text: &str, call: &str| -> Vec<String> {
        text.split(call)
            .skip(1)
            .filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()))
            .collect()
    };
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
            assert!(ids.contains(id.as_str()), "{id}");
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
    let version = |texts: &InterfaceTexts, language| texts.in_language(language).version;
    assert_ne!(
        version(&texts, InterfaceLanguage::En),
        version(&built_in, InterfaceLanguage::En)
    );
    assert_eq!(
        version(&texts, InterfaceLanguage::De),
        version(&built_in, InterfaceLanguage::De)
    );
}
