//! The texts of pages, feeds and errors for people, in the languages of the interface.
//!
//! Each language has three files in the Fluent syntax (<https://projectfluent.org>), parsed once
//! per process:
//!
//! - `api/texts/de.ftl`: the messages;
//! - `api/texts/languages/de.ftl`: the names of languages, from Unicode's CLDR;
//! - `api/texts/reviews/de.ftl`: the messages that say review instead of comment, for sites that
//!   choose them.
//!
//! `interface` has the messages of one language, with its numbers and plural forms. `mistakes` finds
//! what is wrong with those of a site.
//!
//! **Invariant:** every language has the messages of English, with the same variables, and each can
//! be formatted (`every_language_has_the_messages_of_english`). So no page mixes languages.

mod interface;
mod mistakes;

use std::sync::{Arc, LazyLock};

use clap::ValueEnum;
use model::Language;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

pub(crate) use interface::Interface;
pub(crate) use mistakes::first_mistake;

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum InterfaceLanguage {
    /// English.
    En,
    /// German.
    De,
    /// French.
    Fr,
    /// Spanish.
    Es,
    /// Portuguese.
    Pt,
    /// Hebrew.
    He,
    /// Japanese.
    Ja,
}

impl InterfaceLanguage {
    /// The language of comments in `language`: `pt` for `pt-BR`; `None` if pages are not written in
    /// it.
    pub(crate) fn of(language: &Language) -> Option<Self> {
        language.as_str().split('-').next()?.parse().ok()
    }

    pub(crate) fn tag(self) -> &'static str {
        self.into()
    }

    pub(crate) fn direction(self) -> &'static str {
        if self == Self::He { "rtl" } else { "ltr" }
    }

    /// Its messages, the names of languages, and the messages that call a comment a review.
    pub(crate) fn sources(self) -> [&'static str; 3] {
        macro_rules! files {
            ($tag:literal) => {
                [
                    include_str!(concat!("../../texts/", $tag, ".ftl")),
                    include_str!(concat!("../../texts/languages/", $tag, ".ftl")),
                    include_str!(concat!("../../texts/reviews/", $tag, ".ftl")),
                ]
            };
        }
        match self {
            Self::En => files!("en"),
            Self::De => files!("de"),
            Self::Fr => files!("fr"),
            Self::Es => files!("es"),
            Self::Pt => files!("pt"),
            Self::He => files!("he"),
            Self::Ja => files!("ja"),
        }
    }
}

#[derive(Debug)]
pub(crate) struct InterfaceTexts(Vec<Interface>);

impl InterfaceTexts {
    pub(crate) fn built_in() -> Arc<Self> {
        static BUILT_IN: LazyLock<Arc<InterfaceTexts>> =
            LazyLock::new(|| Arc::new(InterfaceTexts::with(&[])));
        Arc::clone(&BUILT_IN)
    }

    /// The texts with messages of the site instead of those delivered. Each source has messages of
    /// one language in the Fluent syntax. It may leave out any of them.
    pub(crate) fn with(overrides: &[(InterfaceLanguage, String)]) -> Self {
        let mut interfaces = Vec::new();
        for language in InterfaceLanguage::VARIANTS {
            let [messages, names, _] = language.sources();
            let own = overrides
                .iter()
                .filter(|(of, _)| of == language)
                .map(|(_, source)| source.as_str());
            let sources = [messages, names].into_iter().chain(own);
            interfaces.push(Interface::new(*language, sources));
        }
        Self(interfaces)
    }

    pub(crate) fn in_language(&self, language: InterfaceLanguage) -> &Interface {
        // They are in the order of the variants.
        self.0
            .get(language as usize)
            .unwrap_or_else(|| unreachable!("every language has an interface"))
    }
}

#[cfg(test)]
mod tests;
