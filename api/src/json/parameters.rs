//! The parameters of requests. Each is declared once: its name, how it is read, and how the OpenAPI
//! document describes it.
//!
//! A type that is [`FromParameters`] is the typed form of a request. What it asks for while it is
//! read are its parameters: they are described, and no others are accepted.

use std::{
    cell::RefCell,
    future::{Ready, ready},
};

use actix_web::{FromRequest, HttpRequest, dev::Payload};
use model::{
    AuthorId, CommentId, Filter, InvalidInput, Language, ListingOrder, PageNumber, PageSize,
    Period, ProductId, Rating, RatingSet, Status, Timestamp,
};
use serde_json::{Value, json};
use utoipa::{
    IntoParams,
    openapi::{
        ArrayBuilder, KnownFormat, Required, Schema, SchemaFormat, Type,
        path::{Parameter as Description, ParameterBuilder, ParameterIn},
    },
};

use super::schema;
use crate::{
    error::ApiError,
    http::path_and_query::{Pair, not_encoded, pairs, path_part, repeated},
    links,
    read::cursor::SEALED_MAX_LEN,
};

pub(crate) struct Parameter<T> {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) schema: fn() -> Schema,
    /// In a path, a text that can be read: a request is described with it.
    pub(crate) example: fn() -> Value,
    pub(crate) parse: fn(&str) -> Result<T, InvalidInput>,
}

pub(crate) static PRODUCT: Parameter<ProductId> = Parameter {
    name: "product",
    description: "The id of a product: any text without control characters but `.` and `..`, percent-encoded, a slash \
                  in it as `%2F` or as it is. One to write begins and ends with a visible character",
    schema: || schema::line(ProductId::MAX_CHARS).into(),
    example: || json!("espresso-machine"),
    parse: ProductId::parse_stored,
};

/// Maximum number of products of one request: a page of products has fewer. One call of the page
/// index answers them, so the number bounds how long the index works for one request.
pub(crate) const PRODUCTS_MAX: usize = 100;

pub(crate) static PRODUCTS: Parameter<ProductId> = Parameter {
    description: "The id of a product, as in a path; repeated for each product, each once",
    schema: || {
        let products = ArrayBuilder::new()
            .items(schema::line(ProductId::MAX_CHARS))
            .unique_items(true);
        products
            .min_items(Some(1))
            .max_items(Some(PRODUCTS_MAX))
            .into()
    },
    example: || json!(["espresso-machine", "milk-jug"]),
    ..PRODUCT
};

pub(crate) static COMMENT_ID: Parameter<CommentId> = Parameter {
    name: "id",
    description: "The id of a comment, never `.` or `..`; those made here are ULIDs",
    schema: || schema::text(format!("^[A-Za-z0-9._-]{{1,{}}}$", CommentId::MAX_LEN)).into(),
    example: || json!("01JCP3D7W0K2V6H9QF1T8MZ4XB"),
    parse: CommentId::parse,
};

pub(crate) static AUTHOR_ID: Parameter<AuthorId> = Parameter {
    name: AuthorId::FIELD,
    description: "The id of an author at the site, with at least one visible character, percent-encoded",
    schema: || schema::line(AuthorId::MAX_BYTES).into(),
    example: || json!("customer-4711"),
    parse: AuthorId::parse_stored,
};

pub(crate) static LANGUAGE: Parameter<Language> = Parameter {
    name: "language",
    description: "Only comments in this language: a BCP 47 tag, such as `en` or `pt-BR`. Case does not matter, and all \
                  codes of a language are one: `iw` is `he`",
    schema: || schema::language().into(),
    example: || json!("en"),
    parse: Language::parse,
};

pub(crate) static RATING: Parameter<Rating> = Parameter {
    name: "rating",
    description: "Only comments with one of these ratings; all five are the same as none",
    schema: || ArrayBuilder::new().items(schema::rating()).into(),
    example: || json!([1, 5]),
    parse: Rating::parse,
};

/// Not of published comments: readers' listings have those.
pub(crate) static STATUS: Parameter<Status> = Parameter {
    name: "status",
    description: "Which comments: those that wait for a decision, or those that a moderator has hidden",
    schema: || {
        let status = schema::one_of(Status::UNPUBLISHED.map(Status::as_str));
        status.default(Some(Status::Pending.as_str().into())).into()
    },
    example: || json!("pending"),
    parse: unpublished,
};

/// A cursor in the lists of moderators.
pub(crate) static MODERATION_CURSOR: Parameter<String> = Parameter {
    description: "The cursor `next` of an earlier answer for the same status and page size",
    ..CURSOR
};

pub(crate) static PAGE: Parameter<PageNumber> = Parameter {
    name: "page",
    description: "The number of the page, from 1 (without it and `numbering`, page 1); not together with `cursor`",
    schema: || schema::number(1, PageNumber::MAX.get()).into(),
    example: || json!(1),
    parse: PageNumber::parse,
};

/// The number of a page in a list without cursors.
static PAGE_OF_LIST: Parameter<PageNumber> = Parameter {
    description: "The number of the page, from 1",
    schema: || {
        let number = schema::number(1, PageNumber::MAX.get());
        number.default(Some(PageNumber::FIRST.get().into())).into()
    },
    ..PAGE
};

pub(crate) static PAGE_SIZE: Parameter<PageSize> = Parameter {
    name: "page_size",
    description: "How many comments, or products, a page has",
    schema: || {
        let default = PageSize::default().get().into();
        schema::number(1, PageSize::MAX.get().into())
            .default(Some(default))
            .into()
    },
    example: || json!(20),
    parse: PageSize::parse,
};

pub(crate) static ORDER: Parameter<ListingOrder> = Parameter {
    name: "order",
    description: "Newest or oldest first; or the highest or lowest rating first, and the newest first within a rating",
    schema: || {
        schema::one_of(["newest", "oldest", "highest", "lowest"])
            .default(Some("newest".into()))
            .into()
    },
    example: || json!("newest"),
    parse: ListingOrder::parse,
};

pub(crate) static NUMBERING: Parameter<()> = Parameter {
    name: "numbering",
    description: "`stable`: pages are counted from the oldest comment, as on the pages for people, so comments posted \
                  later change no page with a number. Each of them is full, and shows its newest comment first. \
                  Without `page`, the answer is the front page: the newest comments, fewer than twice `page_size`. \
                  Not together with `order`, `as_of` or `cursor`",
    schema: || schema::one_of([links::STABLE]).into(),
    example: || json!(links::STABLE),
    parse: stable,
};

pub(crate) static AS_OF: Parameter<Timestamp> = Parameter {
    name: "as_of",
    description: "Only comments dated up to this instant: the `as_of` of an earlier answer, or any other. So comments \
                  posted later shift no page. Deletions, changes of rating or language, and imports of earlier dates \
                  still do; a cursor continues where its page ended. Not together with `cursor` or `numbering`",
    schema: || {
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        schema::of_type(Type::String).format(Some(format)).into()
    },
    example: || json!("2024-11-14T09:30:00.000Z"),
    parse: Timestamp::parse,
};

pub(crate) static DATE: Parameter<Period> = Parameter {
    name: "date",
    description: "Leads (302) to the page that holds the newest comment of this month or day (UTC), or of the last one \
                  before it that has comments: `2024-05` or `2024-05-17`. A day that its month does not have stands for \
                  the month's last day. Not together with `page`, `as_of` or `cursor`",
    schema: || schema::text("^[0-9]{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?$").into(),
    example: || json!("2024-05"),
    parse: Period::parse,
};

pub(crate) static EXPLAIN: Parameter<bool> = Parameter {
    name: "explain",
    description: "`true`: the answer says what it asked of the stores: the filter key, the start key, the number of \
                  calls, and the read units. Such an answer is not cached",
    schema: || {
        schema::of_type(Type::Boolean)
            .default(Some(false.into()))
            .into()
    },
    example: || json!(true),
    parse: true_or_false,
};

/// The key that sealed its example is lost.
pub(crate) static CURSOR: Parameter<String> = Parameter {
    name: "cursor",
    description: "A cursor of an earlier answer for the same product, language, ratings, order and page size; not \
                  together with `page` or `as_of`",
    schema: || {
        schema::text("^[A-Za-z0-9_-]+$")
            .max_length(Some(SEALED_MAX_LEN))
            .into()
    },
    example: || json!("LWH1nTgQm0q2b5yXoS3cVQe7dJk9uPzR4tA6wGhYB8sC"),
    parse: |text| Ok(text.to_owned()),
};

pub(crate) static AUTHORS_CURSOR: Parameter<CommentId> = Parameter {
    name: CURSOR.name,
    description: "The cursor of an earlier answer for the same author",
    parse: |id| {
        CommentId::parse(id).map_err(|_| InvalidInput::new(CURSOR.name, "is of no earlier answer"))
    },
    ..COMMENT_ID
};

fn unpublished(text: &str) -> Result<Status, InvalidInput> {
    let status = Status::parse(text)
        .ok()
        .filter(|status| !status.is_published());
    status.ok_or_else(|| InvalidInput::new(STATUS.name, "must be pending or hidden"))
}

fn stable(text: &str) -> Result<(), InvalidInput> {
    if text == links::STABLE {
        Ok(())
    } else {
        let problem = "is not stable, its only value";
        Err(InvalidInput::new(NUMBERING.name, problem))
    }
}

fn true_or_false(text: &str) -> Result<bool, InvalidInput> {
    text.parse()
        .map_err(|_| InvalidInput::new(EXPLAIN.name, "is not true or false"))
}

impl<T> Parameter<T> {
    /// # Errors
    /// Names the parameter.
    pub(crate) fn read(&self, text: &str) -> Result<T, ApiError> {
        (self.parse)(text).map_err(|error| ApiError::invalid(self.name, error.problem))
    }

    fn describe(&self, location: ParameterIn) -> Description {
        let is_required = location == ParameterIn::Path || self.name == PRODUCTS.name;
        let required = if is_required {
            Required::True
        } else {
            Required::False
        };
        ParameterBuilder::new()
            .name(self.name)
            .parameter_in(location)
            .required(required)
            .description(Some(self.description))
            .schema(Some((self.schema)()))
            .example(Some((self.example)()))
            .build()
    }
}

/// What a handler takes of a request, without its body.
pub(crate) trait FromParameters: Sized {
    /// Asks for every parameter, in the order of the OpenAPI document, before it judges any beside
    /// another.
    ///
    /// # Errors
    /// Names the first parameter that breaks a rule.
    fn read(given: &Given<'_>) -> Result<Self, ApiError>;
}

impl<A: FromParameters, B: FromParameters> FromParameters for (A, B) {
    fn read(given: &Given<'_>) -> Result<Self, ApiError> {
        Ok((A::read(given)?, B::read(given)?))
    }
}

impl FromParameters for ProductId {
    fn read(given: &Given<'_>) -> Result<Self, ApiError> {
        given.in_path(&PRODUCT)
    }
}

impl FromParameters for CommentId {
    fn read(given: &Given<'_>) -> Result<Self, ApiError> {
        given.in_path(&COMMENT_ID)
    }
}

impl FromParameters for Option<Language> {
    fn read(given: &Given<'_>) -> Result<Self, ApiError> {
        given.get(&LANGUAGE)
    }
}

/// The page size of a list without cursors.
impl FromParameters for PageNumber {
    fn read(given: &Given<'_>) -> Result<Self, ApiError> {
        Ok(given.get(&PAGE_OF_LIST)?.unwrap_or(Self::FIRST))
    }
}

impl FromParameters for PageSize {
    fn read(given: &Given<'_>) -> Result<Self, ApiError> {
        Ok(given.get(&PAGE_SIZE)?.unwrap_or_default())
    }
}

impl FromParameters for Filter {
    fn read(given: &Given<'_>) -> Result<Self, ApiError> {
        let language = given.get(&LANGUAGE)?;
        let ratings = given.all(&RATING)?;
        Ok(Self::new(language, RatingSet::of(ratings)))
    }
}

/// Reads a request, and describes it.
#[derive(Debug)]
pub(crate) struct Parsed<R>(pub(crate) R);

impl<R: FromParameters> FromRequest for Parsed<R> {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let given = Given::of(request);
        ready(R::read(&given).and_then(|read| given.check_known().map(|()| Self(read))))
    }
}

impl<R: FromParameters> IntoParams for Parsed<R> {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Description> {
        let given = Given {
            request: None,
            query: Vec::new(),
            known: RefCell::default(),
            described: RefCell::default(),
        };
        // It need not be a good request: it is only read for what it is asked.
        R::read(&given).ok();
        given.described.into_inner()
    }
}

/// The part of the path of every operation that holds an id.
const ID_IN_PATH: usize = 4;

/// What a client gives with its request.
pub(crate) struct Given<'request> {
    /// `None` while a request is described: then each parameter of the path is its example, and
    /// there are no others.
    request: Option<&'request HttpRequest>,
    query: Vec<Pair<'request>>,
    /// The parameters of the query that were asked for.
    known: RefCell<Vec<&'static str>>,
    /// The parameters that were asked for while the request is described.
    described: RefCell<Vec<Description>>,
}

impl<'request> Given<'request> {
    pub(crate) fn of(request: &'request HttpRequest) -> Self {
        let query = pairs(request.query_string()).collect();
        Self {
            request: Some(request),
            query,
            known: RefCell::default(),
            described: RefCell::default(),
        }
    }

    fn note<T>(&self, parameter: &Parameter<T>, location: ParameterIn) {
        if self.request.is_none() {
            self.described
                .borrow_mut()
                .push(parameter.describe(location));
        } else if location == ParameterIn::Query {
            self.known.borrow_mut().push(parameter.name);
        }
    }

    pub(crate) fn in_path<T>(&self, parameter: &Parameter<T>) -> Result<T, ApiError> {
        self.note(parameter, ParameterIn::Path);
        let text = match self.request {
            Some(request) => path_part(request, ID_IN_PATH, parameter.name)?,
            None => (parameter.example)()
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        };
        parameter.read(&text)
    }

    /// The values of a header, which may occur several times.
    pub(crate) fn in_headers<T>(&self, parameter: &Parameter<T>) -> Result<Vec<&str>, ApiError> {
        self.note(parameter, ParameterIn::Header);
        let Some(request) = self.request else {
            return Ok(Vec::new());
        };
        let mut texts = Vec::new();
        for value in request.headers().get_all(parameter.name) {
            let Ok(text) = value.to_str() else {
                let problem = "holds characters that are not visible ASCII";
                return Err(ApiError::invalid(parameter.name, problem));
            };
            texts.push(text);
        }
        Ok(texts)
    }

    fn values(&self, name: &str) -> impl Iterator<Item = &Pair<'request>> {
        self.query
            .iter()
            .filter(move |pair| pair.name.as_deref() == Some(name))
    }

    /// The values of a parameter that may be repeated.
    pub(crate) fn all<T>(&self, parameter: &Parameter<T>) -> Result<Vec<T>, ApiError> {
        self.note(parameter, ParameterIn::Query);
        let mut values = Vec::new();
        for Pair { value, .. } in self.values(parameter.name) {
            let text = value
                .as_deref()
                .ok_or_else(|| not_encoded(parameter.name))?;
            values.push(parameter.read(text)?);
        }
        Ok(values)
    }

    pub(crate) fn get<T>(&self, parameter: &Parameter<T>) -> Result<Option<T>, ApiError> {
        let mut values = self.all(parameter)?.into_iter();
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(repeated(parameter.name)),
            (value, None) => Ok(value),
        }
    }

    /// # Errors
    /// One of the parameters with these names is given, although the one named `beside` is.
    pub(crate) fn check_absent<const N: usize>(
        &self,
        names: [&'static str; N],
        beside: &'static str,
    ) -> Result<(), ApiError> {
        for name in names {
            if self.values(name).next().is_some() {
                let problem = format!("cannot be combined with {beside}");
                return Err(ApiError::invalid(name, problem));
            }
        }
        Ok(())
    }

    /// # Errors
    /// Names a parameter of the query that the request was not asked for.
    fn check_known(&self) -> Result<(), ApiError> {
        let known = self.known.borrow();
        for Pair { name, .. } in &self.query {
            let Some(name) = name else {
                return Err(ApiError::invalid(
                    "query",
                    "holds a parameter whose name is not percent-encoded UTF-8",
                ));
            };
            if !known.contains(&name.as_str()) {
                let there_are = if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                };
                let problem = format!("is not a parameter here; there are {there_are}");
                return Err(ApiError::invalid(name.clone(), problem));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use actix_web::test::TestRequest;

    use super::*;
    use crate::error::tests::refused_field;

    /// The request with this target, as its handler gets it.
    pub(crate) fn read_at<R: FromParameters>(target: &str) -> Result<R, ApiError> {
        let request = TestRequest::with_uri(target).to_http_request();
        Parsed::from_request(&request, &mut Payload::None)
            .into_inner()
            .map(|Parsed(read)| read)
    }

    #[test]
    fn unknown_repeated_and_undecodable_parameters_are_named() {
        for (query, field) in [
            ("pages=1", "pages"),
            ("product=p", "product"),
            ("page_size=1&page_size=1", "page_size"),
            ("language=%FF", "language"),
            ("%FF=1", "query"),
            ("page_size=%", "page_size"),
            ("page_size=1+2", "page_size"),
        ] {
            let read =
                read_at::<(ProductId, (Filter, PageSize))>(&format!("/api/v1/products/p?{query}"));
            assert_eq!(refused_field(read), field, "{query}");
        }
    }

    #[test]
    fn names_and_values_are_decoded_and_ratings_may_be_repeated() {
        let read = read_at::<(Filter, PageSize)>("/?p%61ge_size=%31&rating=1&rating=5&").unwrap();
        assert_eq!(
            read,
            (
                Filter::new(None, RatingSet::parse("1.5").ok()),
                PageSize::new(1).unwrap()
            )
        );
    }
}
