//! `/local/product/{product}/comments`: a form to post a comment, so that a person who tries Pagemark out can see it
//! appear.
//!
//! Only the local stack has this form, because a site has its own ways to know who writes. The form asks for the write
//! token, which the stack prints. A token inside the form would be readable for any page whose name was made to lead to
//! this machine. A token that the browser keeps and sends automatically would be sent by any site's pages.
//!
//! A form carries a key, so that sending it twice makes one comment. Errors are shown in the form, with everything as
//! it was typed except the token. So a text far above its limit is read, too, up to [`FORM_MAX_BYTES`].

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{self, ContentType, HeaderName},
    web,
};
use askama::Template;
use model::{CommentText, ProductId, Rating};

use super::{
    error_page::PageError,
    head::{Head, Robots},
};
use crate::{
    error::ApiError,
    http::{
        body::{self, BODY_MAX_BYTES},
        path_and_query::{self, not_encoded, pairs},
    },
    json::{
        create::{self, OwnedKey},
        fields::NewContent,
        headers::parse_idempotency_key,
    },
    links,
    secrets::WriteTokens,
    site::Site,
    store::StoreClients,
};

/// Like the policy of the other pages, but forms may be sent to this site.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                                       base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The largest form that is read. The limit exceeds that of a comment, so that a text that is too long can be shown
/// again.
const FORM_MAX_BYTES: usize = 8 * BODY_MAX_BYTES;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The fields as they were typed.
#[derive(Debug, Default)]
struct Typed {
    language: String,
    rating: String,
    title: String,
    body: String,
    author: String,
    token: String,
    key: String,
}

impl Typed {
    /// The fields before anything is typed.
    fn nothing() -> Self {
        Self { language: "en".to_owned(), ..Self::default() }
    }

    /// # Errors
    /// Names the field that is unknown, or the form when it is not percent-encoded UTF-8.
    fn read(form: &[u8]) -> Result<Self, ApiError> {
        let refuse = || not_encoded("form");
        let sent: Vec<(String, String)> = pairs(std::str::from_utf8(form).map_err(|_| refuse())?)
            .map(|pair| Ok((pair.name.ok_or_else(refuse)?, pair.value.ok_or_else(refuse)?)))
            .collect::<Result<_, ApiError>>()?;
        let mut typed = Self::default();
        for (name, value) in sent {
            let field = match name.as_str() {
                "language" => &mut typed.language,
                "rating" => &mut typed.rating,
                "title" => &mut typed.title,
                "body" => &mut typed.body,
                "author" => &mut typed.author,
                "token" => &mut typed.token,
                "key" => &mut typed.key,
                _ => return Err(ApiError::invalid(name, "is not a field of this form")),
            };
            *field = value;
        }
        Ok(typed)
    }

    fn content(&self) -> Result<NewContent, ApiError> {
        let Self { language, rating, title, body, author, .. } = self;
        let fields = [("language", language), ("rating", rating), ("title", title), ("body", body), ("author", author)];
        NewContent::of_form(fields.map(|(name, value)| (name, value.as_str())))
    }
}

#[derive(Template)]
#[template(path = "form.html")]
struct FormPage<'form> {
    head: Head,
    product: &'form str,
    all_comments: String,
    action: String,
    typed: &'form Typed,
    key: String,
    ratings: [RatingInput; Rating::ALL.len()],
    problem: Option<Problem>,
    title_max: usize,
    body_max: usize,
    author_max: usize,
}

struct RatingInput {
    rating: Rating,
    checked: bool,
}

/// The problem, and the name of its field, which is empty for a problem of the whole form.
struct Problem {
    field: String,
    text: String,
}

impl Problem {
    fn of(error: &ApiError) -> Self {
        let (field, text) = if let ApiError::Invalid { field, problem } = error {
            let mut name = field.chars();
            let capital = name.next().map(|first| first.to_ascii_uppercase()).into_iter();
            (field.to_string(), format!("{} {problem}", capital.chain(name).collect::<String>()))
        } else if let ApiError::Unauthorized = error {
            ("token".to_owned(), "This is not the write token.".to_owned())
        } else if let ApiError::BodyTooLarge { max_bytes } = error {
            let text = format!(
                "The form is larger than {} KiB, so it was not read. Go back to find what you typed, and shorten it.",
                max_bytes / 1024
            );
            ("body".to_owned(), text)
        } else if let ApiError::IdempotencyMismatch = error {
            let text = "This form was sent before, with another text. Send it again to post this one too.";
            (String::new(), text.to_owned())
        } else {
            (String::new(), error.to_string())
        };
        Self { field, text }
    }
}

impl FormPage<'_> {
    fn field_is(&self, field: &str) -> bool {
        self.problem.as_ref().is_some_and(|problem| problem.field == field)
    }
}

/// Shows the empty form.
pub(super) async fn show(request: HttpRequest, site: web::Data<Site>) -> Result<HttpResponse, PageError> {
    let product = product(&request, &site)?;
    let body = render(&product, &Typed::nothing(), process::new_ulid(), None)?;
    Ok(HttpResponse::Ok()
        .insert_header(ContentType::html())
        .insert_header((header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY))
        // The key of the form is valid for one comment.
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .body(body))
}

/// Creates the comment and redirects to it: the newest comment is on page 1.
pub(super) async fn post(
    request: HttpRequest,
    payload: web::Payload,
    site: web::Data<Site>,
    stores: web::Data<StoreClients>,
    tokens: web::Data<WriteTokens>,
) -> Result<HttpResponse, PageError> {
    let product = product(&request, &site)?;
    check_origin(&request, &site)?;
    let sent = match body::read(&request, payload, &["application/x-www-form-urlencoded"], FORM_MAX_BYTES).await {
        Err(error @ ApiError::BodyTooLarge { .. }) => {
            return show_again(&product, &Typed::nothing(), process::new_ulid(), &error);
        }
        sent => sent?,
    };
    let typed = Typed::read(&sent)?;
    match create(&stores, &tokens, &product, &typed).await {
        Ok(place) => Ok(HttpResponse::SeeOther().insert_header((header::LOCATION, place)).finish()),
        Err(error) => {
            let was_used = matches!(error, ApiError::IdempotencyMismatch);
            let key = if was_used { process::new_ulid() } else { typed.key.clone() };
            show_again(&product, &typed, key, &error)
        }
    }
}

/// Shows the form with the typed fields and their problem.
fn show_again(product: &ProductId, typed: &Typed, key: String, error: &ApiError) -> Result<HttpResponse, PageError> {
    let body = render(product, typed, key, Some(Problem::of(error)))?;
    Ok(error
        .answer()
        .insert_header(ContentType::html())
        .insert_header((header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY))
        .body(body))
}

async fn create(
    stores: &StoreClients,
    tokens: &WriteTokens,
    product: &ProductId,
    typed: &Typed,
) -> Result<String, ApiError> {
    let content = typed.content()?;
    // Last, so that the token must be typed again as rarely as possible.
    let writer = tokens.check(Some(typed.token.trim()))?;
    let key = OwnedKey { writer, key: parse_idempotency_key(&typed.key)? };
    let comment = create::create(stores, product.clone(), content, Some(key)).await?;
    Ok(links::product_page(product) + &links::fragment(&comment.id))
}

/// The product of a form.
///
/// # Errors
/// [`ApiError::NoRoute`] without this form.
fn product(request: &HttpRequest, site: &Site) -> Result<ProductId, ApiError> {
    if !site.comment_form {
        return Err(ApiError::NoRoute);
    }
    path_and_query::product(request, 3)
}

/// Accepts a form only if it was sent from a page of this site. Browsers say where a form comes from. A request that
/// does not say so is refused: it comes from another kind of program, or from a browser that hides the origin.
fn check_origin(request: &HttpRequest, site: &Site) -> Result<(), ApiError> {
    let header = |name: HeaderName| request.headers().get(name).map(|value| value.to_str().unwrap_or_default());
    let (sender, origin) = (header(SEC_FETCH_SITE), header(header::ORIGIN));
    let host = header(header::HOST).unwrap_or_default();
    let is_own = |origin: &str| {
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        authority.is_some_and(|authority| authority == host) || origin == site.public_url.to_string()
    };
    match (sender, origin) {
        (None, None) => Err(ApiError::CrossSite),
        (sender, origin) if sender.is_none_or(|sender| sender == "same-origin") && origin.is_none_or(is_own) => Ok(()),
        _ => Err(ApiError::CrossSite),
    }
}

fn render(product: &ProductId, typed: &Typed, key: String, problem: Option<Problem>) -> Result<String, ApiError> {
    let wrong = if problem.is_some() { "Mistake: " } else { "" };
    let page = FormPage {
        head: Head::uncanonical(format!("{wrong}Write a comment on {product}"), Robots::NoIndex),
        product: product.as_str(),
        all_comments: links::product_page(product),
        action: links::comment_form(product),
        key,
        ratings: Rating::ALL.map(|rating| RatingInput { rating, checked: typed.rating == rating.as_str() }),
        typed,
        problem,
        title_max: CommentText::TITLE_MAX_CHARS,
        body_max: CommentText::BODY_MAX_CHARS,
        author_max: CommentText::AUTHOR_MAX_CHARS,
    };
    page.render().map_err(ApiError::internal)
}
