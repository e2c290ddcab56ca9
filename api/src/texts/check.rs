//! Checks messages that a site gives itself against the English ones.

use std::collections::{BTreeMap, BTreeSet};

use fluent_bundle::{FluentArgs, FluentResource, FluentValue};
use fluent_syntax::{
    ast::{CallArguments, Entry, Expression, InlineExpression, Message, Pattern, PatternElement},
    parser::ParserError,
};
use thiserror::Error;

use super::{
    InterfaceLanguage,
    interface::{Interface, parsed},
};

/// What is wrong with messages of a site.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TextsError {
    /// The source is no valid Fluent syntax.
    #[error("line {line} of the messages in {language} is no valid Fluent syntax: {problem}")]
    Syntax {
        /// The language of the source.
        language: InterfaceLanguage,
        /// The line, counted from 1.
        line: usize,
        /// The parser's words.
        problem: String,
    },
    /// There is something else than a message with a text.
    #[error("the messages in {language} have {what}; only messages of the form `name = text` are used")]
    NoMessage {
        /// The language of the source.
        language: InterfaceLanguage,
        /// What is there.
        what: String,
    },
    /// No text of a page has this name.
    #[error(
        "the messages in {language} have {id}, which is the name of no message; see api/texts/en.ftl for all names"
    )]
    UnknownMessage {
        /// The language of the source.
        language: InterfaceLanguage,
        /// The name.
        id: String,
    },
    /// The message uses a variable, a message or a function that it cannot use.
    #[error("message {id} in {language} uses {used}; it may use {allowed}")]
    UnknownReference {
        /// The language of the source.
        language: InterfaceLanguage,
        /// The name of the message.
        id: String,
        /// What it uses.
        used: String,
        /// What it may use.
        allowed: String,
    },
    /// The message cannot be written.
    #[error("message {id} in {language} cannot be written: {problem}")]
    Unwritable {
        /// The language of the source.
        language: InterfaceLanguage,
        /// The name of the message.
        id: String,
        /// The formatter's words.
        problem: String,
    },
}

impl TextsError {
    pub(super) fn syntax(
        language: InterfaceLanguage,
        source: &str,
        (_, errors): (FluentResource, Vec<ParserError>),
    ) -> Self {
        let first = errors.first();
        let before = first.and_then(|error| source.get(..error.pos.start)).unwrap_or_default();
        let problem = first.map(|error| error.kind.to_string()).unwrap_or_default();
        Self::Syntax { language, line: before.matches('\n').count() + 1, problem }
    }
}

/// What a message uses.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) variables: BTreeSet<String>,
    messages: BTreeSet<String>,
    /// Terms, functions and attributes, which no text has.
    others: BTreeSet<String>,
}

/// The messages of the language that the others follow, each with what it uses.
pub(super) struct English(BTreeMap<String, Uses>);

impl English {
    pub(super) fn new(sources: [&str; 2]) -> Self {
        let mut uses = BTreeMap::new();
        for source in sources {
            let resource = parsed(source).unwrap_or_else(|(readable, _)| readable);
            uses.extend(messages(resource.entries()).map(|(id, message)| (id, Uses::of(message))));
        }
        let all = uses.clone();
        let uses = uses.into_iter().map(|(id, own)| (id, own.with_referenced(&all)));
        Self(uses.collect())
    }

    /// The variables of each message, with those of the messages that it contains.
    #[cfg(test)]
    pub(super) fn variables(&self) -> BTreeMap<&str, &BTreeSet<String>> {
        self.0.iter().map(|(id, uses)| (id.as_str(), &uses.variables)).collect()
    }

    /// # Errors
    /// What is wrong with the source, except of what [`English::try_out`] finds.
    pub(super) fn check(&self, language: InterfaceLanguage, source: &str) -> Result<(), TextsError> {
        let resource = parsed(source).map_err(|syntax| TextsError::syntax(language, source, syntax))?;
        for entry in resource.entries() {
            let what = match entry {
                Entry::Message(Message { value: Some(_), attributes, .. }) if attributes.is_empty() => continue,
                Entry::Comment(_) | Entry::GroupComment(_) | Entry::ResourceComment(_) => continue,
                Entry::Message(message) => format!("an attribute of {}", message.id.name),
                Entry::Term(term) => format!("the term -{}", term.id.name),
                Entry::Junk { content } => content.chars().take(80).collect(),
            };
            return Err(TextsError::NoMessage { language, what });
        }
        for (id, message) in messages(resource.entries()) {
            let Some(allowed) = self.0.get(&id) else { return Err(TextsError::UnknownMessage { language, id }) };
            let used = Uses::of(message);
            let variable = used.variables.difference(&allowed.variables).map(|name| format!("${name}"));
            let unknown = used.messages.iter().filter(|name| !self.0.contains_key(*name)).cloned();
            let Some(used) = variable.chain(unknown).chain(used.others.iter().cloned()).next() else { continue };
            let names: Vec<String> = allowed.variables.iter().map(|name| format!("${name}")).collect();
            let allowed = if names.is_empty() { "no variable".to_owned() } else { names.join(", ") };
            return Err(TextsError::UnknownReference { language, id, used, allowed });
        }
        Ok(())
    }

    /// Writes each of these messages once.
    ///
    /// # Errors
    /// The first message that contains itself, or that uses a variable which it has not.
    pub(super) fn try_out<'resource>(
        &self,
        interface: &Interface,
        entries: impl Iterator<Item = &'resource Entry<&'resource str>>,
    ) -> Result<(), TextsError> {
        for (id, _) in messages(entries) {
            let variables = self.0.get(&id).into_iter().flat_map(|uses| &uses.variables);
            let variables: FluentArgs<'_> = variables.map(|name| (name.as_str(), FluentValue::from(2))).collect();
            if let Some(problem) = interface.problems(&id, &variables).first() {
                let language = interface.language();
                return Err(TextsError::Unwritable { language, id, problem: problem.to_string() });
            }
        }
        Ok(())
    }
}

fn messages<'resource>(
    entries: impl Iterator<Item = &'resource Entry<&'resource str>>,
) -> impl Iterator<Item = (String, &'resource Pattern<&'resource str>)> {
    entries.filter_map(|entry| match entry {
        Entry::Message(Message { id, value: Some(value), .. }) => Some((id.name.to_owned(), value)),
        Entry::Message(_)
        | Entry::Term(_)
        | Entry::Comment(_)
        | Entry::GroupComment(_)
        | Entry::ResourceComment(_)
        | Entry::Junk { .. } => None,
    })
}

impl Uses {
    fn of(pattern: &Pattern<&str>) -> Self {
        let mut uses = Self::default();
        uses.add_pattern(pattern);
        uses
    }

    /// With the variables of the messages that the message contains. A message contains others that contain none.
    fn with_referenced(mut self, all: &BTreeMap<String, Self>) -> Self {
        let referenced = self.messages.iter().filter_map(|id| all.get(id));
        let mut variables: BTreeSet<String> = referenced.clone().flat_map(|uses| uses.variables.clone()).collect();
        let deeper = referenced.flat_map(|uses| &uses.messages).filter_map(|id| all.get(id));
        variables.extend(deeper.flat_map(|uses| uses.variables.clone()));
        self.variables.append(&mut variables);
        self
    }

    fn add_pattern(&mut self, pattern: &Pattern<&str>) {
        for element in &pattern.elements {
            match element {
                PatternElement::TextElement { .. } => {}
                PatternElement::Placeable { expression } => self.add(expression),
            }
        }
    }

    fn add(&mut self, expression: &Expression<&str>) {
        match expression {
            Expression::Select { selector, variants } => {
                self.add_inline(selector);
                for variant in variants {
                    self.add_pattern(&variant.value);
                }
            }
            Expression::Inline(inline) => self.add_inline(inline),
        }
    }

    fn add_inline(&mut self, expression: &InlineExpression<&str>) {
        match expression {
            InlineExpression::StringLiteral { .. } | InlineExpression::NumberLiteral { .. } => {}
            InlineExpression::VariableReference { id } => {
                self.variables.insert(id.name.to_owned());
            }
            InlineExpression::MessageReference { id, attribute: None } => {
                self.messages.insert(id.name.to_owned());
            }
            InlineExpression::MessageReference { id, attribute: Some(attribute) } => {
                self.others.insert(format!("{}.{}", id.name, attribute.name));
            }
            InlineExpression::TermReference { id, .. } => {
                self.others.insert(format!("-{}", id.name));
            }
            InlineExpression::FunctionReference { id, arguments: CallArguments { .. } } => {
                self.others.insert(format!("{}()", id.name));
            }
            InlineExpression::Placeable { expression } => self.add(expression),
        }
    }
}
