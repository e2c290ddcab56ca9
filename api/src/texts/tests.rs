//! Every language is complete, and messages of a site are checked.

use std::collections::BTreeSet;

use fluent_bundle::{FluentArgs, FluentValue};

use super::*;

fn others() -> impl Iterator<Item = InterfaceLanguage> {
    InterfaceLanguage::VARIANTS.iter().copied().filter(|language| *language != InterfaceLanguage::En)
}

#[test]
fn every_language_has_the_messages_of_english() {
    let english = English::new(InterfaceLanguage::En.sources());
    for language in others() {
        let [messages, names] = language.sources();
        for source in [messages, names] {
            english.check(language, source).unwrap();
        }
        assert_eq!(English::new(language.sources()).variables(), english.variables(), "{language}");
        let has_words = |line: &str| {
            let text = line.split_once(" = ").map_or("", |(_, text)| text);
            text.split(['{', '}']).step_by(2).any(|outside| outside.contains(char::is_alphabetic))
        };
        let untranslated = messages.lines().filter(|line| InterfaceLanguage::En.sources()[0].contains(*line));
        let texts: Vec<&str> = untranslated.filter(|line| has_words(line)).collect();
        assert!(texts.len() < 8, "{language}: {texts:#?}");
    }
}

#[test]
fn every_message_can_be_written() {
    let english = English::new(InterfaceLanguage::En.sources());
    for language in InterfaceLanguage::VARIANTS {
        let texts = Texts::built_in();
        let t = texts.in_language(*language);
        for (id, variables) in english.variables() {
            for value in [0, 1, 2, 5, 12, 1_000_000].map(FluentValue::from).into_iter().chain(["text".into()]) {
                let all: FluentArgs<'_> = variables.iter().map(|name| (name.as_str(), value.clone())).collect();
                assert_eq!(t.problems(id, &all), [], "{id} in {language}");
            }
        }
    }
}

#[test]
fn plural_forms_and_numbers_follow_the_language() {
    let texts = Texts::built_in();
    for (language, forms) in [
        (InterfaceLanguage::En, ["0 comments", "1 comment", "2 comments", "12,275 comments"]),
        (InterfaceLanguage::De, ["0 Kommentare", "1 Kommentar", "2 Kommentare", "12.275 Kommentare"]),
        (InterfaceLanguage::Fr, ["0 commentaire", "1 commentaire", "2 commentaires", "12\u{202f}275 commentaires"]),
        (
            InterfaceLanguage::He,
            ["\u{2068}0\u{2069} תגובות", "תגובה אחת", "שתי תגובות", "\u{2068}12,275\u{2069} תגובות"],
        ),
        (InterfaceLanguage::Ja, ["コメント0件", "コメント1件", "コメント2件", "コメント12,275件"]),
    ] {
        let t = texts.in_language(language);
        assert_eq!([0_u64, 1, 2, 12_275].map(|count| t.with("comments", [("count", count.into())])), forms);
    }
    let average = |language| texts.in_language(language).with("average", [("average", hundredths(450))]);
    assert_eq!(
        (average(InterfaceLanguage::En), average(InterfaceLanguage::De)),
        ("4.50".to_owned(), "4,50".to_owned())
    );
    let thousand = |language| texts.in_language(language).with("number", [("number", 1_234.into())]);
    assert_eq!(
        (thousand(InterfaceLanguage::De), thousand(InterfaceLanguage::Es)),
        ("1.234".to_owned(), "1234".to_owned())
    );
}

#[test]
fn dates_follow_the_language() {
    let texts = Texts::built_in();
    for (language, day, minute) in [
        (InterfaceLanguage::En, "29 Feb 2024", "29 Feb 2024, 23:59 UTC"),
        (InterfaceLanguage::De, "29. Feb. 2024", "29. Feb. 2024, 23:59 UTC"),
        (InterfaceLanguage::Fr, "29 févr. 2024", "29 févr. 2024, 23:59 UTC"),
        (InterfaceLanguage::Es, "29 feb 2024", "29 feb 2024, 23:59 UTC"),
        (InterfaceLanguage::Pt, "29 de fev. de 2024", "29 de fev. de 2024, 23:59 UTC"),
        (InterfaceLanguage::He, "29 בפבר׳ 2024", "29 בפבר׳ 2024, 23:59 UTC"),
        (InterfaceLanguage::Ja, "2024年2月29日", "2024年2月29日 23:59 UTC"),
    ] {
        let t = texts.in_language(language);
        let plain = |text: String| text.replace(['\u{2068}', '\u{2069}'], "");
        let shown = t.with("day", [("day", 29.into()), ("month", 2.into()), ("year", "2024".into())]);
        assert_eq!(plain(shown.clone()), day);
        assert_eq!(plain(t.with("minute", [("day", shown.into()), ("time", "23:59".into())])), minute);
    }
}

/// A misspelt name would be shown to people in place of the text.
#[test]
fn pages_name_exactly_the_messages_that_there_are() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let english = English::new(InterfaceLanguage::En.sources());
    let ids: BTreeSet<&str> = english.variables().into_keys().collect();
    let (mut code, mut templates) = (String::new(), String::new());
    for (folder, text) in [("src/html", &mut code), ("templates", &mut templates)] {
        for file in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = file.unwrap().path();
            if path.is_file() {
                text.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let named: BTreeSet<&str> =
        (code.split('"').chain(templates.split('"'))).filter(|text| ids.contains(text)).collect();
    let sources = InterfaceLanguage::En.sources();
    let is_used = |id: &&&str| {
        let is_inside = sources.iter().any(|source| source.contains(&format!("{{ {id} }}")));
        named.contains(**id) || is_inside || id.starts_with("language-") || id.starts_with("part-")
    };
    assert_eq!(ids.iter().find(|id| !is_used(id)), None, "no page uses it");
    let called = |text: &str, call: &str| -> Vec<String> {
        text.split(call).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
    };
    for call in ["t.text(\"", "t.with(\"", "self.text(\"", "self.with(\"", "t.counted(\"", "t.page(\"", "at_most(\""] {
        for id in [called(&code, call), called(&templates, call)].concat() {
            assert!(ids.contains(id.as_str()), "{id}");
        }
    }
}

#[test]
fn a_site_replaces_messages_of_a_language() {
    let own = "newest = Latest\nday = { month } { $day }, { $year }\n";
    let texts = Texts::load(&[(InterfaceLanguage::En, own.to_owned())]).unwrap();
    let t = texts.in_language(InterfaceLanguage::En);
    assert_eq!((t.text("newest"), t.text("oldest")), ("Latest".into(), "Oldest".into()));
    let day = t.with("day", [("day", 29.into()), ("month", 2.into()), ("year", "2024".into())]);
    assert_eq!(day, "Feb 29, 2024");
    let built_in = Texts::built_in();
    let version = |texts: &Texts, language| format!("{:?}", texts.in_language(language).version());
    assert_ne!(version(&texts, InterfaceLanguage::En), version(&built_in, InterfaceLanguage::En));
    assert_eq!(version(&texts, InterfaceLanguage::De), version(&built_in, InterfaceLanguage::De));
}

#[test]
fn wrong_messages_of_a_site_are_refused_with_the_reason() {
    for (source, reason) in [
        ("newest = Latest\noldest =\n", "line 2 of the messages in de is no valid Fluent syntax"),
        ("newst = Latest", "newst, which is the name of no message"),
        ("newest = Latest { $count }", "message newest in de uses $count; it may use no variable"),
        ("days = { $from } { $till }", "message days in de uses $till; it may use $from, $to"),
        ("newest = { latest }", "message newest in de uses latest"),
        ("average = { NUMBER($average) }", "message average in de uses NUMBER()"),
        ("-brand = Ada", "have the term -brand"),
        ("newest = Latest\n    .title = Title", "have an attribute of newest"),
        ("newest = { oldest }\noldest = { newest }", "cannot be written"),
    ] {
        let error = Texts::load(&[(InterfaceLanguage::De, source.to_owned())]).unwrap_err().to_string();
        assert!(error.contains(reason), "{source}: {error}");
    }
}
