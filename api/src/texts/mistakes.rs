//! Finds mistakes in the messages of a site: of syntax, and functions, variables and messages that
//! pages do not have. Fluent itself shows such a part in braces to every reader.

use std::collections::{BTreeMap, BTreeSet};

use fluent_bundle::FluentResource;
use fluent_syntax::ast::{
    CallArguments, Entry, Expression, InlineExpression, Pattern, PatternElement,
};

use super::InterfaceLanguage;

/// What a text uses: names of variables, of messages and terms, and of functions.
#[derive(Debug, Default, Clone)]
struct Uses {
    variables: BTreeSet<String>,
    texts: BTreeSet<String>,
    functions: BTreeSet<String>,
}

/// The texts of some sources by their names; those of terms begin with `-`. Later ones replace
/// earlier ones.
type Texts = BTreeMap<String, Uses>;

/// The first mistake of a site's messages in this language, and what to do about it.
pub(crate) fn first_mistake(language: InterfaceLanguage, source: &str) -> Option<String> {
    let own = match FluentResource::try_new(source.to_owned()) {
        Ok(own) => own,
        Err((_, errors)) => {
            let error = errors.first()?;
            let before = source.get(..error.pos.start).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            return Some(format!("line {line}: {}", error.kind));
        }
    };
    let built_in = texts_of(language.sources()[..2].iter().copied());
    let mut all = built_in.clone();
    let own = texts_of_resource(&own);
    all.extend(own.clone());
    for (name, uses) in &own {
        if let Some(function) = uses.functions.first() {
            return Some(format!(
                "{name} calls {function}(), and pages have no functions: write the variable alone, \
                 as in {{ $count }}"
            ));
        }
        if let Some(missing) = uses.texts.iter().find(|used| !all.contains_key(*used)) {
            return Some(format!("{name} uses {missing}, which is no message"));
        }
        // A message that only others use has the variables of those.
        let Some(_) = built_in.get(name) else {
            continue;
        };
        let given = variables(&built_in, name);
        if let Some(unknown) = variables(&all, name).difference(&given).next() {
            let given: Vec<String> = given.iter().map(|name| format!("${name}")).collect();
            return Some(format!(
                "{name} uses ${unknown}, and pages give it {}",
                if given.is_empty() {
                    "no variable".to_owned()
                } else {
                    given.join(", ")
                }
            ));
        }
    }
    None
}

/// The variables of a text and of all texts in it. A term has none but those that it is called with.
fn variables(texts: &Texts, name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![name.to_owned()];
    while let Some(name) = open.pop() {
        let Some(uses) = texts.get(&name) else {
            continue;
        };
        if name.starts_with('-') || !seen.insert(name) {
            continue;
        }
        found.extend(uses.variables.iter().cloned());
        open.extend(uses.texts.iter().cloned());
    }
    found
}

fn texts_of<'source>(sources: impl Iterator<Item = &'source str>) -> Texts {
    let mut texts = Texts::new();
    for source in sources {
        let resource =
            FluentResource::try_new(source.to_owned()).unwrap_or_else(|(readable, _)| readable);
        texts.extend(texts_of_resource(&resource));
    }
    texts
}

fn texts_of_resource(resource: &FluentResource) -> Texts {
    let mut texts = Texts::new();
    for entry in resource.entries() {
        let (name, pattern) = match entry {
            Entry::Message(message) => (message.id.name.to_owned(), message.value.as_ref()),
            Entry::Term(term) => (format!("-{}", term.id.name), Some(&term.value)),
            Entry::Comment(_)
            | Entry::GroupComment(_)
            | Entry::ResourceComment(_)
            | Entry::Junk { .. } => continue,
        };
        let mut uses = Uses::default();
        if let Some(pattern) = pattern {
            uses.add_pattern(pattern);
        }
        texts.insert(name, uses);
    }
    texts
}

impl Uses {
    fn add_pattern(&mut self, pattern: &Pattern<&str>) {
        for element in &pattern.elements {
            if let PatternElement::Placeable { expression } = element {
                self.add_expression(expression);
            }
        }
    }

    fn add_expression(&mut self, expression: &Expression<&str>) {
        match expression {
            Expression::Inline(inline) => self.add_inline(inline),
            Expression::Select { selector, variants } => {
                self.add_inline(selector);
                for variant in variants {
                    self.add_pattern(&variant.value);
                }
            }
        }
    }

    fn add_inline(&mut self, inline: &InlineExpression<&str>) {
        match inline {
            InlineExpression::StringLiteral { .. } | InlineExpression::NumberLiteral { .. } => {}
            InlineExpression::VariableReference { id } => {
                self.variables.insert(id.name.to_owned());
            }
            InlineExpression::MessageReference { id, .. } => {
                self.texts.insert(id.name.to_owned());
            }
            InlineExpression::TermReference { id, arguments, .. } => {
                self.texts.insert(format!("-{}", id.name));
                if let Some(arguments) = arguments {
                    self.add_arguments(arguments);
                }
            }
            InlineExpression::FunctionReference { id, arguments } => {
                self.functions.insert(id.name.to_owned());
                self.add_arguments(arguments);
            }
            InlineExpression::Placeable { expression } => self.add_expression(expression),
        }
    }

    fn add_arguments(&mut self, arguments: &CallArguments<&str>) {
        for value in &arguments.positional {
            self.add_inline(value);
        }
        for argument in &arguments.named {
            self.add_inline(&argument.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_uses_only_what_pages_give_it() {
        for (source, mistake) in [
            ("newest = { NUMBER(5) }", Some("newest calls NUMBER()")),
            ("day = { DATETIME($day) }", Some("day calls DATETIME()")),
            (
                "comments = { $count ->\n    [one] one\n   *[other] { NUMBER($count) }\n}",
                Some("comments calls NUMBER()"),
            ),
            (
                "mine = { FN() }\nnewest = { mine }",
                Some("mine calls FN()"),
            ),
            ("-brand = { NUMBER(1) }", Some("-brand calls NUMBER()")),
            (
                "newest = { latest }",
                Some("newest uses latest, which is no message"),
            ),
            (
                "newest = { -shop }",
                Some("newest uses -shop, which is no message"),
            ),
            (
                "newest = { $name }",
                Some("newest uses $name, and pages give it no variable"),
            ),
            (
                "title-comments = { mine }\nmine = { $product }",
                Some("title-comments uses $product, and pages give it $name"),
            ),
            ("newest = ", Some("line 1: ")),
            ("title-comments = { mine }\nmine = { $name }", None),
            (
                "-shop = Shop { $case }\nnewest = { -shop(case: \"x\") }",
                None,
            ),
            ("day = { month } { $day }", None),
            ("nobody-uses-this = { $x }", None),
        ] {
            let found = first_mistake(InterfaceLanguage::En, source);
            match mistake {
                Some(mistake) => {
                    let found = found.unwrap_or_else(|| panic!("nothing is wrong with {source}"));
                    assert!(found.starts_with(mistake), "{source}: {found}");
                }
                None => assert_eq!(found, None, "{source}"),
            }
        }
    }
}
