//! The parameters of requests, each with its description for the OpenAPI document.
//!
//! A [`Request`] is the typed form of a request. It names its parameters and reads them. No other parameter is accepted.

use std::future::{Ready, ready};

use actix_web::{FromRequest, HttpRequest, dev::Payload};
use model::{
    AuthorId, CommentId, Filter, InvalidInput, Language, Order, PageNumber, PageSize, Rating, RatingSet, Status,
};
use serde_json::{Value, json};
use utoipa::{
    IntoParams,
    openapi::{
        ArrayBuilder, KnownFormat, ObjectBuilder, Required, Schema, SchemaFormat, Type,
        path::{Parameter as Description, ParameterBuilder, ParameterIn},
    },
};

use super::schema;
use crate::{
    error::ApiError,
    http::path_and_query::{not_encoded, pairs, repeated},
    links,
    read::cursor::SEALED_MAX_LEN,
};

pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) place: ParameterIn,
    pub(crate) description: &'static str,
    pub(crate) schema: fn() -> Schema,
    pub(crate) example: fn() -> Value,
}

pub(crate) static PRODUCT: Parameter = Parameter {
    name: "product",
    place: ParameterIn::Path,
    description: "The id of a product: any text without control characters but `.` and `..`, percent-encoded, a slash \
                  in it as `%2F` or as it is. One to write begins and ends with a visible character",
    schema: || schema::product().into(),
    example: || json!("espresso-machine"),
};

/// Maximum number of products of one request: a page of products has fewer. One call of the page index answers them, so
/// the number bounds how long the index works for one request.
pub(crate) const PRODUCTS_MAX: usize = 100;

pub(crate) static PRODUCTS: Parameter = Parameter {
    name: PRODUCT.name,
    place: ParameterIn::Query,
    description: "The id of a product, as in a path; repeated for each product, each once",
    schema: || {
        let products = ArrayBuilder::new().items(schema::product()).unique_items(true);
        products.min_items(Some(1)).max_items(Some(PRODUCTS_MAX)).into()
    },
    example: || json!(["espresso-machine", "milk-jug"]),
};

pub(crate) static COMMENT_ID: Parameter = Parameter {
    name: "id",
    place: ParameterIn::Path,
    description: "The id of a comment, never `.` or `..`; those made here are ULIDs",
    schema: || schema::text(format!("^[A-Za-z0-9._-]{{1,{}}}$", CommentId::MAX_LEN)).into(),
    example: || json!("01JCP3D7W0K2V6H9QF1T8MZ4XB"),
};

pub(crate) static AUTHOR_ID: Parameter = Parameter {
    name: AuthorId::FIELD,
    place: ParameterIn::Path,
    description: "The id of an author at the site, with at least one visible character, percent-encoded",
    schema: || schema::author_id_text().into(),
    example: || json!("customer-4711"),
};

pub(crate) static LANGUAGE: Parameter = Parameter {
    name: "language",
    place: ParameterIn::Query,
    description: "Only comments in this language: a BCP 47 tag, such as `en` or `pt-BR`. Case does not matter, and all \
                  codes of a language are one: `iw` is `he`",
    schema: || schema::language().into(),
    example: || json!("en"),
};

pub(crate) static RATING: Parameter = Parameter {
    name: "rating",
    place: ParameterIn::Query,
    description: "Only comments with one of these ratings; all five are the same as none",
    schema: || ArrayBuilder::new().items(schema::rating()).into(),
    example: || json!([1, 5]),
};

/// Not of published comments: readers' listings have those.
pub(crate) static STATUS: Parameter = Parameter {
    name: "status",
    place: ParameterIn::Query,
    description: "Which comments: those that wait for a decision, or those that a moderator has hidden",
    schema: || {
        let names = Status::UNPUBLISHED.map(Status::as_str);
        let status = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names));
        status.default(Some(Status::Pending.as_str().into())).into()
    },
    example: || json!("pending"),
};

/// A cursor in the lists of moderators. The key that sealed its example is lost.
pub(crate) static MODERATION_CURSOR: Parameter = Parameter {
    name: "cursor",
    place: ParameterIn::Query,
    description: "The cursor `next` of an earlier answer for the same status and page size",
    schema: CURSOR.schema,
    example: CURSOR.example,
};

pub(crate) static PAGE: Parameter = Parameter {
    name: "page",
    place: ParameterIn::Query,
    description: "The number of the page, from 1 (without it and `numbering`, page 1); not together with `cursor`",
    schema: || schema::number(1, PageNumber::MAX.get()).into(),
    example: || json!(1),
};

/// The number of a page in a list without cursors.
pub(crate) static PAGE_OF_LIST: Parameter = Parameter {
    name: PAGE.name,
    place: ParameterIn::Query,
    description: "The number of the page, from 1",
    schema: || {
        let number = schema::number(1, PageNumber::MAX.get());
        number.default(Some(PageNumber::FIRST.get().into())).into()
    },
    example: || json!(1),
};

pub(crate) static PAGE_SIZE: Parameter = Parameter {
    name: "page_size",
    place: ParameterIn::Query,
    description: "How many comments, or products, a page has",
    schema: || {
        let default = PageSize::default().get().into();
        schema::number(1, PageSize::MAX.get().into()).default(Some(default)).into()
    },
    example: || json!(20),
};

pub(crate) static ORDER: Parameter = Parameter {
    name: "order",
    place: ParameterIn::Query,
    description: "Newest or oldest first",
    schema: || {
        let order = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["newest", "oldest"]));
        order.default(Some("newest".into())).into()
    },
    example: || json!("newest"),
};

pub(crate) static NUMBERING: Parameter = Parameter {
    name: "numbering",
    place: ParameterIn::Query,
    description: "`stable`: pages are counted from the oldest comment, as on the pages for people, so comments posted \
                  later change no page with a number. Each of them is full, and shows its newest comment first. \
                  Without `page`, the answer is the front page: the newest comments, fewer than twice `page_size`. \
                  Not together with `order`, `as_of` or `cursor`",
    schema: || ObjectBuilder::new().schema_type(Type::String).enum_values(Some([links::STABLE])).into(),
    example: || json!(links::STABLE),
};

pub(crate) static AS_OF: Parameter = Parameter {
    name: "as_of",
    place: ParameterIn::Query,
    description: "Only comments dated up to this instant: the `as_of` of an earlier answer, or any other. So comments \
                  posted later shift no page. Deletions, changes of rating or language, and imports of earlier dates \
                  still do; a cursor continues where its page ended. Not together with `cursor` or `numbering`",
    schema: || {
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).into()
    },
    example: || json!("2024-11-14T09:30:00.000Z"),
};

pub(crate) static DATE: Parameter = Parameter {
    name: "date",
    place: ParameterIn::Query,
    description: "Leads (302) to the page that holds the newest comment of this month or day (UTC), or of the last one \
                  before it that has comments: `2024-05` or `2024-05-17`. A day that its month does not have stands for \
                  the month's last day. Not together with `page`, `as_of` or `cursor`",
    schema: || schema::text("^[0-9]{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?$").into(),
    example: || json!("2024-05"),
};

pub(crate) static EXPLAIN: Parameter = Parameter {
    name: "explain",
    place: ParameterIn::Query,
    description: "`true`: the answer says what it asked of the stores: the filter key, the start key, the number of \
                  calls, and the read units. Such an answer is not cached",
    schema: || ObjectBuilder::new().schema_type(Type::Boolean).default(Some(false.into())).into(),
    example: || json!(true),
};

/// The key that sealed its example is lost.
pub(crate) static CURSOR: Parameter = Parameter {
    name: "cursor",
    place: ParameterIn::Query,
    description: "A cursor of an earlier answer for the same product, language, ratings, order and page size; not \
                  together with `page` or `as_of`",
    schema: || schema::text("^[A-Za-z0-9_-]+$").max_length(Some(SEALED_MAX_LEN)).into(),
    example: || json!("LWH1nTgQm0q2b5yXoS3cVQe7dJk9uPzR4tA6wGhYB8sC"),
};

pub(crate) static AUTHORS_CURSOR: Parameter = Parameter {
    name: CURSOR.name,
    place: ParameterIn::Query,
    description: "The cursor of an earlier answer for the same author",
    schema: COMMENT_ID.schema,
    example: || json!("01JCP3D7W0K2V6H9QF1T8MZ4XB"),
};

impl Parameter {
    fn describe(&self) -> Description {
        let is_required = self.place == ParameterIn::Path || self.name == PRODUCTS.name;
        let required = if is_required { Required::True } else { Required::False };
        ParameterBuilder::new()
            .name(self.name)
            .parameter_in(self.place.clone())
            .required(required)
            .description(Some(self.description))
            .schema(Some((self.schema)()))
            .example(Some((self.example)()))
            .build()
    }
}

/// A request as its handler gets it, without its body.
pub(crate) trait Request: Sized {
    /// Its parameters, in the order of the OpenAPI document. Its query string may have no others.
    const PARAMETERS: &'static [&'static Parameter];

    /// # Errors
    /// Names the first parameter that breaks a rule.
    fn read(request: &HttpRequest) -> Result<Self, ApiError>;
}

/// Reads a request, and describes it.
#[derive(Debug)]
pub(crate) struct Parsed<R>(pub(crate) R);

impl<R: Request> FromRequest for Parsed<R> {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(R::read(request).map(Self))
    }
}

impl<R: Request> IntoParams for Parsed<R> {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Description> {
        R::PARAMETERS.iter().map(|parameter| parameter.describe()).collect()
    }
}

pub(crate) struct Query(Vec<(&'static Parameter, String)>);

impl Query {
    /// Reads the query string of a request that accepts those of the `parameters` that have their place there.
    ///
    /// # Errors
    /// Names the parameter that is unknown, repeated, or not percent-encoded UTF-8.
    pub(crate) fn read(request: &HttpRequest, parameters: &[&'static Parameter]) -> Result<Self, ApiError> {
        let known = || parameters.iter().filter(|parameter| parameter.place == ParameterIn::Query);
        let mut query = Self(Vec::new());
        for pair in pairs(request.query_string()) {
            let name = pair.name.ok_or_else(|| {
                ApiError::invalid("query", "holds a parameter whose name is not percent-encoded UTF-8")
            })?;
            let Some(parameter) = known().find(|parameter| parameter.name == name) else {
                let names: Vec<&str> = known().map(|parameter| parameter.name).collect();
                let there_are = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                return Err(ApiError::invalid(name, format!("is not a parameter here; there are {there_are}")));
            };
            if ![RATING.name, PRODUCTS.name].contains(&parameter.name) && query.get(parameter).is_some() {
                return Err(repeated(name));
            }
            query.0.push((parameter, pair.value.ok_or_else(|| not_encoded(parameter.name))?));
        }
        Ok(query)
    }

    pub(crate) fn all(&self, parameter: &Parameter) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(given, _)| given.name == parameter.name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn get(&self, parameter: &Parameter) -> Option<&str> {
        self.all(parameter).next()
    }

    pub(crate) fn parse<T>(
        &self,
        parameter: &Parameter,
        parse: fn(&str) -> Result<T, InvalidInput>,
    ) -> Result<Option<T>, ApiError> {
        let parsed = self.get(parameter).map(parse).transpose();
        parsed.map_err(|error| ApiError::invalid(parameter.name, error.problem))
    }

    /// The filter of [`LANGUAGE`] and [`RATING`].
    pub(crate) fn filter(&self) -> Result<Filter, ApiError> {
        let language = self.parse(&LANGUAGE, Language::parse)?;
        let ratings: Vec<Rating> = self.all(&RATING).map(Rating::parse).collect::<Result<_, _>>()?;
        Ok(Filter::new(language, RatingSet::of(ratings)))
    }

    pub(crate) fn page_size(&self) -> Result<PageSize, ApiError> {
        Ok(self.parse(&PAGE_SIZE, PageSize::parse)?.unwrap_or_default())
    }

    /// Whether [`NUMBERING`] asks for stable numbering.
    ///
    /// # Errors
    /// Another value, or one of the `excluded` parameters beside it.
    pub(crate) fn is_stable(&self, excluded: &[&Parameter]) -> Result<bool, ApiError> {
        let Some(numbering) = self.get(&NUMBERING) else { return Ok(false) };
        if numbering != links::STABLE {
            return Err(ApiError::invalid(NUMBERING.name, "is not stable, its only value"));
        }
        match excluded.iter().find(|parameter| self.get(parameter).is_some()) {
            Some(given) => Err(ApiError::invalid(given.name, "cannot be combined with numbering")),
            None => Ok(true),
        }
    }

    /// Whether [`EXPLAIN`] asks for an explanation.
    ///
    /// # Errors
    /// Neither `true` nor `false`.
    pub(crate) fn explains(&self) -> Result<bool, ApiError> {
        match self.get(&EXPLAIN) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(ApiError::invalid(EXPLAIN.name, "is not true or false")),
        }
    }

    pub(crate) fn order(&self) -> Result<Order, ApiError> {
        Ok(self.parse(&ORDER, Order::parse)?.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;
    use crate::error::tests::refused_field;

    #[test]
    fn unknown_repeated_and_undecodable_parameters_are_named() {
        let read = |query: &str| {
            let request = TestRequest::with_uri(&format!("/?{query}")).to_http_request();
            Query::read(&request, &[&PRODUCT, &LANGUAGE, &PAGE, &PAGE_SIZE, &ORDER, &RATING])
        };
        for (query, field) in [
            ("pages=1", "pages"),
            ("product=p", "product"),
            ("page=1&page=1", "page"),
            ("language=%FF", "language"),
            ("%FF=1", "query"),
            ("page=%", "page"),
        ] {
            assert_eq!(refused_field(read(query)), field, "{query}");
        }
        let query = read("&p%61ge=1+2&rating=1&rating=5&").unwrap();
        assert_eq!(query.get(&PAGE), Some("1 2"));
        assert_eq!(refused_field(query.parse(&PAGE, PageNumber::parse)), "page");
        assert_eq!(query.filter().unwrap().to_string(), "~/1.5");
    }
}
