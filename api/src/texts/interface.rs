//! The messages of one language.

use std::borrow::Cow;

use fluent_bundle::{FluentArgs, FluentResource, FluentValue, concurrent::FluentBundle};
use icu_decimal::{DecimalFormatter, input::Decimal};
use icu_locale::Locale;
use intl_memoizer::{Memoizable, concurrent::IntlLangMemoizer};
use sha2::{Digest, Sha256};
use unic_langid::LanguageIdentifier;

use super::InterfaceLanguage;

#[derive(derive_more::Debug)]
#[debug("Interface({language:?})")]
pub(crate) struct Interface {
    pub(crate) language: InterfaceLanguage,
    pub(super) bundle: FluentBundle<FluentResource>,
    /// Stands for all messages: other texts have another version.
    pub(crate) version: [u8; 32],
}

impl Interface {
    /// The messages of these sources. Later ones replace earlier ones with the same name.
    pub(super) fn new<'source>(
        language: InterfaceLanguage,
        sources: impl Iterator<Item = &'source str>,
    ) -> Self {
        let locale = language
            .tag()
            .parse::<LanguageIdentifier>()
            .unwrap_or_default();
        let mut bundle = FluentBundle::new_concurrent(vec![locale]);
        // A name in another script would move the punctuation around it.
        bundle.set_use_isolating(language.direction() == "rtl");
        bundle.set_formatter(Some(written));
        let mut hash = Sha256::new();
        for source in sources {
            hash.update(source);
            // Unreadable messages were refused before, or are found by a test.
            let resource =
                FluentResource::try_new(source.to_owned()).unwrap_or_else(|(readable, _)| readable);
            bundle.add_resource_overriding(resource);
        }
        Self {
            language,
            bundle,
            version: hash.finalize().into(),
        }
    }

    pub(crate) fn text(&self, id: &'static str) -> Cow<'_, str> {
        self.found(id, None).unwrap_or(Cow::Borrowed(id))
    }

    /// A message with these variables. Numbers are written in the language's way, with its plural
    /// form.
    pub(crate) fn with<const N: usize>(
        &self,
        id: &'static str,
        variables: [(&'static str, FluentValue<'_>); N],
    ) -> String {
        let variables: FluentArgs<'_> = variables.into_iter().collect();
        match self.found(id, Some(&variables)) {
            Some(text) => text.into_owned(),
            None => id.to_owned(),
        }
    }

    /// A message whose name is known only now; `None` if there is none.
    pub(crate) fn find(&self, id: &str) -> Option<String> {
        self.found(id, None).map(Cow::into_owned)
    }

    fn found<'text>(
        &'text self,
        id: &str,
        variables: Option<&'text FluentArgs<'_>>,
    ) -> Option<Cow<'text, str>> {
        let message = self.bundle.get_message(id)?;
        Some(
            self.bundle
                .format_pattern(message.value()?, variables, &mut Vec::new()),
        )
    }
}

struct Numbers(DecimalFormatter);

impl Memoizable for Numbers {
    type Args = ();
    type Error = ();

    fn construct(language: LanguageIdentifier, (): ()) -> Result<Self, ()> {
        let locale: Locale = language.to_string().parse().map_err(drop)?;
        DecimalFormatter::try_new(locale.into(), Default::default())
            .map(Self)
            .map_err(drop)
    }
}

/// A variable as people read it; `None` for a text, which stays as it is.
fn written(value: &FluentValue<'_>, memoizer: &IntlLangMemoizer) -> Option<String> {
    let FluentValue::Number(number) = value else {
        return None;
    };
    let digits = number.as_string();
    if is_written_alike(&digits) {
        return Some(digits.into_owned());
    }
    let decimal: Decimal = digits.parse().ok()?;
    memoizer
        .with_try_get::<Numbers, _, _>((), |numbers| numbers.0.format(&decimal).to_string())
        .ok()
}

/// Whether all languages of the interface write this number as it is: up to three digits. Most
/// numbers of a page are such.
fn is_written_alike(digits: &str) -> bool {
    digits.len() <= 3 && digits.bytes().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use strum::VariantArray;

    use super::*;

    #[test]
    fn all_languages_write_numbers_of_up_to_three_digits_alike() {
        for language in InterfaceLanguage::VARIANTS {
            let numbers = Numbers::construct(language.tag().parse().unwrap(), ()).unwrap();
            for number in 0..1_000 {
                let digits = number.to_string();
                assert!(is_written_alike(&digits));
                assert_eq!(
                    numbers.0.format(&Decimal::from(number)).to_string(),
                    digits,
                    "{language}"
                );
            }
        }
        assert!(!["1000", "-10", "4.2"].into_iter().any(is_written_alike));
    }
}
