//! How serde reads the types that are one text: a table.

use crate::{
    error::InvalidInput,
    id::{CommentId, ProductId},
    language::Language,
    product::{Gtin, WebUrl},
    revision::Revision,
    site_data::AuthorId,
    timestamp::Timestamp,
};

macro_rules! read_from_text {
    ($($name:ty: $parse:expr,)*) => {$(
        impl TryFrom<String> for $name {
            type Error = InvalidInput;

            fn try_from(text: String) -> Result<Self, InvalidInput> {
                ($parse)(&text)
            }
        }
    )*};
}

read_from_text! {
    AuthorId: AuthorId::parse_stored,
    CommentId: CommentId::parse,
    Gtin: Gtin::parse,
    Language: Language::parse_stored,
    ProductId: ProductId::parse_stored,
    Revision: Revision::parse,
    Timestamp: Timestamp::parse,
    WebUrl: |text| WebUrl::parse("url", text),
}
