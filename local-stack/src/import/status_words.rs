//! What says that a column is the status of a review: its name, or one of its values.

/// Words in names of columns that say whether a review is published.
const IN_NAMES: [&str; 20] = [
    "state",
    "approval",
    "curated",
    "publish",
    "visibility",
    "moderation",
    "spam",
    "rejected",
    "trash",
    "pending",
    "draft",
    "hold",
    "validate",
    "active",
    "inactive",
    "enabled",
    "disabled",
    "private",
    "archived",
    "blocked",
];

/// Endings of such words: also of `unpublished`, and of names in one word (`isapproved`).
const ENDINGS: [&str; 7] = [
    "status",
    "approved",
    "published",
    "hidden",
    "visible",
    "moderated",
    "deleted",
];

/// Values that nothing but a status has.
const VALUES: [&str; 26] = [
    "approved",
    "unapproved",
    "disapproved",
    "not approved",
    "rejected",
    "declined",
    "spam",
    "published",
    "unpublished",
    "not published",
    "hidden",
    "pending",
    "trash",
    "deleted",
    "removed",
    "in moderation",
    "hold",
    "on hold",
    "on_hold",
    "on-hold",
    "draft",
    "private",
    "blocked",
    "archived",
    "inactive",
    "disabled",
];

/// Whether a word of the name, in any spelling (`is_spam`, `isSpam`, `Is spam`), is one of those.
pub(super) fn in_name(name: &str) -> bool {
    let mut words = String::new();
    let mut was_lower = false;
    for character in name.chars() {
        if was_lower && character.is_uppercase() {
            words.push(' ');
        }
        was_lower = character.is_lowercase();
        words.extend(character.to_lowercase());
    }
    words
        .split(|character: char| !character.is_alphanumeric())
        .any(|word| IN_NAMES.contains(&word) || ENDINGS.iter().any(|ending| word.ends_with(ending)))
}

/// Whether a cell holds a status.
pub(super) fn is_value(text: &str) -> bool {
    let text = text.trim();
    VALUES.iter().any(|value| value.eq_ignore_ascii_case(text))
}
