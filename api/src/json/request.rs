//! Reads requests: parts of the path and the query string are decoded exactly or refused.
//!
//! The router decodes paths leniently: bytes that are not UTF-8 become replacement characters, which would name another
//! product. So the router only chooses a route, and this module decodes the parts from the path as it was sent. The
//! router never decodes `%2F`, so both see the same parts.

use actix_web::HttpRequest;
use model::{CommentId, Filter, InvalidInput, Language, Order, PageSize, ProductId, Rating, RatingSet};
use percent_encoding::percent_decode_str;

use crate::error::ApiError;

/// The part of the path with this index, counted from 1, decoded.
///
/// # Errors
/// Names `field`, when the part is not percent-encoded UTF-8.
pub(crate) fn path_part(request: &HttpRequest, index: usize, field: &'static str) -> Result<String, ApiError> {
    let part = request.uri().path().split('/').nth(index).unwrap_or_default();
    decode(part).ok_or_else(|| ApiError::invalid(field, "is not percent-encoded UTF-8"))
}

/// The product that a part of the path names.
pub(crate) fn product(request: &HttpRequest, index: usize) -> Result<ProductId, ApiError> {
    Ok(ProductId::parse(&path_part(request, index, "product")?)?)
}

/// The comment id that a part of the path names.
pub(crate) fn comment_id(request: &HttpRequest, index: usize) -> Result<CommentId, ApiError> {
    Ok(CommentId::parse(&path_part(request, index, "id")?)?)
}

/// Decodes only percent-encoded UTF-8: a `%` without two hex digits is refused.
pub(crate) fn decode(encoded: &str) -> Option<String> {
    let mut pieces = encoded.split('%');
    pieces.next();
    let escapes_are_whole = pieces.all(|piece| {
        let mut bytes = piece.bytes();
        bytes.next().is_some_and(|b| b.is_ascii_hexdigit()) && bytes.next().is_some_and(|b| b.is_ascii_hexdigit())
    });
    if !escapes_are_whole {
        return None;
    }
    Some(percent_decode_str(encoded).decode_utf8().ok()?.into_owned())
}

/// The parameters of a query string, as `application/x-www-form-urlencoded`.
#[derive(Debug)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads the query string of a request that accepts the parameters `single`, each at most once, and `repeated`.
    ///
    /// # Errors
    /// Names the parameter that is unknown, repeated, or not percent-encoded UTF-8.
    pub(crate) fn read(request: &HttpRequest, single: &[&str], repeated: &[&str]) -> Result<Self, ApiError> {
        let mut read: Vec<(String, String)> = Vec::new();
        for pair in request.query_string().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode_form(name).ok_or_else(|| {
                ApiError::invalid("query", "holds a parameter whose name is not percent-encoded UTF-8")
            })?;
            if !single.contains(&name.as_str()) && !repeated.contains(&name.as_str()) {
                let known: Vec<&str> = single.iter().chain(repeated).copied().collect();
                let problem = match known.is_empty() {
                    true => "is not a parameter here; there are none".to_owned(),
                    false => format!("is not a parameter here; there are {}", known.join(", ")),
                };
                return Err(ApiError::invalid(name, problem));
            }
            if single.contains(&name.as_str()) && read.iter().any(|(earlier, _)| *earlier == name) {
                return Err(ApiError::invalid(name, "is given more than once"));
            }
            match decode_form(value) {
                Some(value) => read.push((name, value)),
                None => return Err(ApiError::invalid(name, "is not percent-encoded UTF-8")),
            }
        }
        Ok(Self(read))
    }

    /// The value of a parameter that occurs at most once.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter that occurs at most once, parsed.
    pub(crate) fn parse<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, InvalidInput>,
    ) -> Result<Option<T>, InvalidInput> {
        self.get(name).map(parse).transpose()
    }

    fn all<'all>(&'all self, name: &'all str) -> impl Iterator<Item = &'all str> {
        self.0.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The parameters `language` and `rating`.
    pub(crate) fn filter(&self) -> Result<Filter, ApiError> {
        let language = self.parse("language", Language::parse)?;
        let ratings: Vec<Rating> = self.all("rating").map(Rating::parse).collect::<Result<_, _>>()?;
        Ok(Filter::new(language, RatingSet::of(ratings)))
    }

    /// The parameter `page_size`.
    pub(crate) fn page_size(&self) -> Result<PageSize, ApiError> {
        Ok(self.parse("page_size", PageSize::parse)?.unwrap_or_default())
    }

    /// The parameter `order`.
    pub(crate) fn order(&self) -> Result<Order, ApiError> {
        Ok(self.parse("order", Order::parse)?.unwrap_or_default())
    }
}

/// A parameter of a page for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageParameter {
    pub(crate) name: &'static str,
    /// Its value, decoded.
    pub(crate) value: String,
    /// Name and value as they were sent.
    pub(crate) spelling: String,
}

/// The `known` parameters of a page for people, in the order in which they were sent. All others, such as campaign
/// tags, are ignored.
///
/// # Errors
/// A known parameter is repeated, or is not percent-encoded UTF-8.
pub(crate) fn page_parameters(request: &HttpRequest, known: &[&'static str]) -> Result<Vec<PageParameter>, ApiError> {
    let mut found: Vec<PageParameter> = Vec::new();
    for pair in request.query_string().split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = decode_form(name);
        let Some(name) = known.iter().copied().find(|known| decoded.as_deref() == Some(*known)) else { continue };
        let value = decode_form(value).ok_or_else(|| ApiError::invalid(name, "is not percent-encoded UTF-8"))?;
        if found.iter().any(|earlier| earlier.name == name) {
            return Err(ApiError::invalid(name, "is given more than once"));
        }
        found.push(PageParameter { name, value, spelling: pair.to_owned() });
    }
    Ok(found)
}

/// The names and values of an `application/x-www-form-urlencoded` text.
///
/// # Errors
/// Names the part that is not percent-encoded UTF-8.
pub(crate) fn form_pairs(text: &str) -> Result<Vec<(String, String)>, ApiError> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let refuse = || ApiError::invalid("form", "is not percent-encoded UTF-8");
        Ok((decode_form(name).ok_or_else(refuse)?, decode_form(value).ok_or_else(refuse)?))
    });
    pairs.collect()
}

fn decode_form(encoded: &str) -> Option<String> {
    decode(&encoded.replace('+', " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    fn refused_field<T>(result: Result<T, ApiError>) -> String {
        match result {
            Err(ApiError::Invalid { field, .. }) => field.into_owned(),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("accepted"),
        }
    }

    #[test]
    fn only_whole_percent_encoded_utf8_is_decoded() {
        for (encoded, text) in [("a", "a"), ("a%2Fb%2fc", "a/b/c"), ("%25", "%"), ("%252F", "%2F"), ("%E2%98%95", "☕")]
        {
            assert_eq!(decode(encoded).as_deref(), Some(text));
        }
        for broken in ["%", "%2", "%zz", "100%", "%F", "%FF", "%E2%98", "%C0%AF", "%ED%A0%80"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }

    #[test]
    fn unknown_repeated_and_undecodable_parameters_are_named() {
        let read = |query: &str| {
            let request = TestRequest::with_uri(&format!("/?{query}")).to_http_request();
            Parameters::read(&request, &["page", "language"], &["rating"])
        };
        assert_eq!(refused_field(read("pages=1")), "pages");
        assert_eq!(refused_field(read("page=1&page=1")), "page");
        assert_eq!(refused_field(read("language=%FF")), "language");
        assert_eq!(refused_field(read("%FF=1")), "query");
        assert_eq!(refused_field(read("page=%")), "page");
        let parameters = read("&p%61ge=1+2&rating=1&rating=5&").unwrap();
        assert_eq!(parameters.get("page"), Some("1 2"));
        assert_eq!(parameters.filter().unwrap().to_string(), "~/1.5");
    }

    #[test]
    fn values_out_of_range_name_their_parameter() {
        let read = |query: &str| {
            let request = TestRequest::with_uri(&format!("/?{query}")).to_http_request();
            Parameters::read(&request, &["language", "page_size", "order"], &["rating"]).unwrap()
        };
        for rating in ["0", "6", "4.5", "five", "", "1.5", "-1", "%F0%9F%98%80"] {
            assert_eq!(refused_field(read(&format!("rating=1&rating={rating}")).filter()), "rating", "{rating}");
        }
        for language in ["e", "en_US", "", "~", &"a".repeat(300)] {
            assert_eq!(refused_field(read(&format!("language={language}")).filter()), "language", "{language}");
        }
        for size in ["0", "101", "-1", "ten", ""] {
            assert_eq!(refused_field(read(&format!("page_size={size}")).page_size()), "page_size", "{size}");
        }
        assert_eq!(refused_field(read("order=latest").order()), "order");
    }

    #[test]
    fn pages_for_people_ignore_all_parameters_but_the_known_ones() {
        let read = |query: &str| {
            let request = TestRequest::with_uri(&format!("/?{query}")).to_http_request();
            page_parameters(&request, &["order", "page"])
        };
        let parameter = |name, value: &str, spelling: &str| PageParameter {
            name,
            value: value.to_owned(),
            spelling: spelling.to_owned(),
        };
        assert_eq!(read("utm_source=%FF&page=3&x").unwrap(), [parameter("page", "3", "page=3")]);
        assert_eq!(read("p%61ge=+3").unwrap(), [parameter("page", " 3", "p%61ge=+3")]);
        let both = [parameter("page", "3", "page=3"), parameter("order", "oldest", "order=oldest")];
        assert_eq!(read("page=3&orders=x&order=oldest").unwrap(), both);
        assert_eq!(read("utm_source=a").unwrap(), []);
        assert_eq!(refused_field(read("page=1&page=2")), "page");
        assert_eq!(refused_field(read("page=1&order=newest&order=newest")), "order");
        assert_eq!(refused_field(read("page=%FF")), "page");
    }
}
