//! `/local/product/{product}/comments`: a form to post a comment, so that a person who tries Pagemark out can see it
//! appear.
//!
//! Only the local stack has this form, because a site has its own ways to know who writes. The form asks for the write
//! token, which the stack prints. A token inside the form would be readable for any page whose name was made to lead to
//! this machine. A token that the browser keeps and sends automatically would be sent by any site's pages.
//!
//! A form carries a key, so that sending it twice makes one comment. Errors are shown in the form, with everything as
//! it was typed except the token. So a text far above its limit is read, too, up to [`FORM_MAX_BYTES`].

use std::collections::BTreeMap;

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{self, HeaderName},
    web,
};
use askama::Template;
use model::{Comment, CommentText, ProductId, Rating, Status};

use super::{
    error_page::{PageError, html},
    explanation::Explanation,
    head::Head,
};
use crate::{
    error::ApiError,
    http::{
        body::{self, BODY_MAX_BYTES},
        caching,
        path_and_query::{not_encoded, pairs, path_part},
    },
    links,
    secrets::Scope,
    site::Site,
    store::StoreClients,
    texts::Interface,
    tokens::{Caller, Tokens},
    write::{
        self, IdempotencyKey,
        content::{FORM_FIELDS, Fields, NewContent},
    },
};

/// The largest form that is read. The limit exceeds that of a comment, so that a text that is too long can be shown
/// again.
const FORM_MAX_BYTES: usize = 8 * BODY_MAX_BYTES;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The fields beside those of the comment.
const TOKEN: &str = "token";
const KEY: &str = "key";

struct Typed(BTreeMap<&'static str, String>);

impl Typed {
    fn nothing() -> Self {
        Self(BTreeMap::from([("language", "en".to_owned())]))
    }

    /// The text of a field; empty for one that was not sent.
    fn get(&self, field: &str) -> &str {
        self.0.get(field).map_or("", String::as_str)
    }

    /// # Errors
    /// Names the field that is unknown, or the form when it is not percent-encoded UTF-8.
    fn read(form: &[u8]) -> Result<Self, ApiError> {
        let refuse = || not_encoded("form");
        let mut typed = BTreeMap::new();
        for pair in pairs(std::str::from_utf8(form).map_err(|_| refuse())?) {
            let (name, text) = (pair.name.ok_or_else(refuse)?, pair.value.ok_or_else(refuse)?);
            let field = FORM_FIELDS.into_iter().chain([TOKEN, KEY]).find(|field| *field == name);
            typed.insert(field.ok_or_else(|| ApiError::invalid(name, "is not a field of this form"))?, text);
        }
        Ok(Self(typed))
    }

    /// The fields of the comment that were filled in. All are texts except the rating, which is a number.
    fn filled_in(&self) -> Fields {
        let filled_in = FORM_FIELDS.into_iter().filter(|field| !self.get(field).is_empty());
        let fields = filled_in.map(|field| match self.get(field).parse::<u64>() {
            Ok(number) if field == "rating" => (field.to_owned(), number.into()),
            // Forms send line feeds with carriage returns.
            _ => (field.to_owned(), self.get(field).replace("\r\n", "\n").into()),
        });
        fields.collect()
    }
}

#[derive(Template)]
#[template(path = "form.html")]
struct FormPage<'form> {
    head: Head,
    t: &'form Interface,
    product: &'form ProductId,
    typed: &'form Typed,
    key: String,
    problem: Option<Problem>,
}

#[derive(Template)]
#[template(path = "pending.html")]
struct PendingPage<'form> {
    head: Head,
    t: &'form Interface,
    product: &'form ProductId,
}

/// The problem, and the name of its field, which is empty for a problem of the whole form.
struct Problem {
    field: String,
    explanation: Explanation,
}

impl Problem {
    fn of(t: &Interface, error: &ApiError) -> Self {
        let of_text = |field: &str, text: String| Self {
            field: field.to_owned(),
            explanation: Explanation { text: Some(text), reason: None },
        };
        if let ApiError::Invalid { field, problem } = error {
            let mut name = field.chars();
            let capital = name.next().map(|first| first.to_ascii_uppercase()).into_iter();
            let reason = format!("{} {problem}", capital.chain(name).collect::<String>());
            let field = field.to_string();
            let text = t.with("wrong-field", [("field", label(t, &field).into())]);
            Self { field, explanation: Explanation { text: Some(text), reason: Some(reason) } }
        } else if let ApiError::Unauthorized | ApiError::NotAllowed(_) = error {
            of_text("token", t.text("wrong-token").into_owned())
        } else if let ApiError::BodyTooLarge { max_bytes } = error {
            of_text("body", t.with("form-too-large", [("kib", (max_bytes / 1024).into())]))
        } else if let ApiError::IdempotencyMismatch = error {
            of_text("", t.text("form-sent-before").into_owned())
        } else {
            Self { field: String::new(), explanation: Explanation::of(t, error) }
        }
    }
}

fn label(t: &Interface, field: &str) -> String {
    let id = match field {
        "rating" => "rating",
        "language" => "language",
        "title" => "title",
        "body" => "comment",
        "author" => "your-name",
        "token" => "write-token",
        other => return other.to_owned(),
    };
    t.text(id).into_owned()
}

impl FormPage<'_> {
    fn at_most(&self, id: &'static str, chars: usize) -> String {
        self.t.counted(id, u64::try_from(chars).unwrap_or(u64::MAX))
    }

    fn field_is(&self, field: &str) -> bool {
        self.problem.as_ref().is_some_and(|problem| problem.field == field)
    }
}

pub(super) async fn show(request: HttpRequest, site: web::Data<Site>) -> Result<HttpResponse, PageError> {
    let product = product(&request, &site)?;
    answer(&site, &product, &Typed::nothing(), process::new_ulid(), None)
}

/// Creates the comment and redirects to it: the newest comment is on the first page. A pending comment is on no page, so
/// its author reads that it waits.
pub(super) async fn post(
    request: HttpRequest,
    payload: web::Payload,
    site: web::Data<Site>,
    stores: web::Data<StoreClients>,
    tokens: web::Data<Tokens>,
) -> Result<HttpResponse, PageError> {
    let product = product(&request, &site)?;
    check_origin(&request, &site)?;
    let sent = match body::read(&request, payload, &["application/x-www-form-urlencoded"], FORM_MAX_BYTES).await {
        Err(error @ ApiError::BodyTooLarge { .. }) => {
            return answer(&site, &product, &Typed::nothing(), process::new_ulid(), Some(&error));
        }
        sent => sent?,
    };
    let typed = Typed::read(&sent)?;
    let caller = Caller::by_token(&request, tokens, Some(typed.get(TOKEN).trim()));
    match create(&stores, &caller, &product, &typed).await {
        Ok(comment) => {
            let page = links::product_page(&product);
            match comment.status {
                Status::Published => Ok(lead_to(page + &links::fragment(&comment.id))),
                Status::Pending => pending(&site, &product),
                Status::Hidden => Ok(lead_to(page)),
            }
        }
        Err(error) => {
            let was_used = matches!(error, ApiError::IdempotencyMismatch);
            let key = if was_used { process::new_ulid() } else { typed.get(KEY).to_owned() };
            answer(&site, &product, &typed, key, Some(&error))
        }
    }
}

async fn create(
    stores: &StoreClients,
    caller: &Caller,
    product: &ProductId,
    typed: &Typed,
) -> Result<Comment, ApiError> {
    let content = NewContent::of_fields(&typed.filled_in())?;
    // Last, so that the token must be typed again as rarely as possible.
    let writer = caller.check(Scope::WriteComments)?;
    let key = IdempotencyKey::parse(typed.get(KEY))?;
    write::create(stores, product.clone(), content, &writer, Some(key)).await
}

/// The product of a form.
///
/// # Errors
/// [`ApiError::NoRoute`] without this form.
fn product(request: &HttpRequest, site: &Site) -> Result<ProductId, ApiError> {
    if !site.settings.comment_form {
        return Err(ApiError::NoRoute);
    }
    Ok(ProductId::parse(&path_part(request, 3, "product")?)?)
}

/// Accepts a form only if it was sent from a page of this site. Browsers say where a form comes from. A request that
/// does not say so is refused: it comes from another kind of program, or from a browser that hides the origin.
fn check_origin(request: &HttpRequest, site: &Site) -> Result<(), ApiError> {
    let header = |name: HeaderName| request.headers().get(name).map(|value| value.to_str().unwrap_or_default());
    let (sender, origin) = (header(SEC_FETCH_SITE), header(header::ORIGIN));
    let host = header(header::HOST).unwrap_or_default();
    let is_own = |origin: &str| {
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        authority.is_some_and(|authority| authority == host) || origin == site.public_url.origin()
    };
    match (sender, origin) {
        (None, None) => Err(ApiError::CrossSite),
        (sender, origin) if sender.is_none_or(|sender| sender == "same-origin") && origin.is_none_or(is_own) => Ok(()),
        _ => Err(ApiError::CrossSite),
    }
}

fn lead_to(place: String) -> HttpResponse {
    HttpResponse::SeeOther().insert_header((header::LOCATION, place)).finish()
}

fn pending(site: &Site, product: &ProductId) -> Result<HttpResponse, PageError> {
    let head = Head::new(site, product.as_str().to_owned());
    let body = PendingPage { head, t: site.interface(), product }.render();
    let mut answer = HttpResponse::Accepted();
    Ok(html(answer.insert_header(caching::NO_STORE), None, "'none'", body.map_err(ApiError::internal)?))
}

fn answer(
    site: &Site,
    product: &ProductId,
    typed: &Typed,
    key: String,
    error: Option<&ApiError>,
) -> Result<HttpResponse, PageError> {
    let t = site.interface();
    let mut answer = error.map_or_else(HttpResponse::Ok, ApiError::answer);
    // The key of the form is valid for one comment.
    answer.insert_header(caching::NO_STORE);
    let title = t.with("title-form", [("name", product.as_str().into())]);
    let title = match error {
        Some(_) => t.with("title-form-mistake", [("title", title.into())]),
        None => title,
    };
    let problem = error.map(|error| Problem::of(t, error));
    let head = Head::new(site, title);
    let body = FormPage { head, t, product, typed, key, problem }.render();
    Ok(html(&mut answer, None, "'self'", body.map_err(ApiError::internal)?))
}
