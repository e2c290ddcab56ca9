//! Other spellings of an author's id. An id is compared letter by letter, so `Ann@X` and `ann@x` are two
//! authors.
//!
//! The index `authors` finds an id only as a whole. So the usual spellings are looked up, a query
//! each, and not every mixture of small and capital letters.

use std::collections::BTreeSet;

use model::AuthorId;
use process::StoreError;
use table::Table;

/// The usual other spellings of an author's id that comments have.
pub async fn other_spellings(
    table: &Table,
    author: &AuthorId,
) -> Result<Vec<AuthorId>, StoreError> {
    let mut found = Vec::new();
    for spelling in usual_spellings(author) {
        let part = table.comments_of_author(&spelling, None, 1).await?;
        if !part.rows.is_empty() {
            found.push(spelling);
        }
    }
    Ok(found)
}

/// The usual spellings of an id with other small and capital letters: in small letters, in capital
/// ones, with a capital at the beginning of the id or of each word. Before an `@` too, with the rest
/// in small letters.
fn usual_spellings(author: &AuthorId) -> BTreeSet<AuthorId> {
    let id = author.as_str();
    let small = id.to_lowercase();
    let (name, rest) = match id.find('@') {
        Some(at) => id.split_at(at),
        None => (id, ""),
    };
    let rest = rest.to_lowercase();
    let mut texts = vec![
        small.clone(),
        id.to_uppercase(),
        with_capitals(&small, false),
        with_capitals(&small, true),
        format!("{name}{rest}"),
    ];
    for spelled in [
        name.to_uppercase(),
        with_capitals(&name.to_lowercase(), false),
        with_capitals(&name.to_lowercase(), true),
    ] {
        texts.push(spelled + &rest);
    }
    let mut spellings = BTreeSet::new();
    for text in texts {
        // Capital letters may take more bytes than an id may have.
        if let Ok(spelling) = AuthorId::parse_stored(&text)
            && spelling != *author
        {
            spellings.insert(spelling);
        }
    }
    spellings
}

/// The text with a capital letter at its beginning, or at the beginning of each word.
fn with_capitals(text: &str, of_each_word: bool) -> String {
    let mut spelled = String::new();
    let mut is_start = true;
    for letter in text.chars() {
        if is_start {
            spelled.extend(letter.to_uppercase());
        } else {
            spelled.push(letter);
        }
        is_start = of_each_word && !letter.is_alphanumeric();
    }
    spelled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spellings(id: &str) -> Vec<String> {
        let spellings = usual_spellings(&AuthorId::parse(id).unwrap());
        spellings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_usual_spellings_of_an_id_are_few_and_not_the_id_itself() {
        let of_address = [
            "ANN.LEE@X.ORG",
            "ANN.LEE@x.org",
            "Ann.Lee@X.Org",
            "Ann.Lee@x.org",
            "Ann.lee@x.org",
        ];
        assert_eq!(spellings("ann.lee@x.org"), of_address);
        assert!(spellings("Ann@X").contains(&"ann@x".to_owned()));
        assert!(spellings("aNN@X").contains(&"aNN@x".to_owned()));
        assert_eq!(spellings("4711"), Vec::<String>::new());
    }
}
