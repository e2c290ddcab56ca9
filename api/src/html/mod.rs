//! The pages for people and crawlers: server-rendered HTML that works without JavaScript.
//!
//! A page of comments is answered by `comments`, which has its parts made of one `context` for
//! `view` and its template. All texts are in `crate::texts`.
//!
//! **Invariant:** a template escapes all text that it receives. There are two exceptions: the
//! site's own header and footer, which are trusted, and [`script_json::ScriptJson`], which escapes
//! for a script of a page.

mod address;
mod assets;
mod comments;
mod context;
mod contrast;
mod description;
pub(crate) mod explanation;
mod feed;
mod filters;
mod fold;
mod fragment;
mod head;
mod language_name;
mod page_bar;
mod page_position;
mod products;
mod script_json;
mod sitemap;
mod structured_data;
mod view;
mod words;

use actix_web::{
    HttpRequest, HttpResponse, Route,
    http::{StatusCode, header},
    middleware::from_fn,
    web,
};
use askama::Template;
use model::{CommentId, Filter, ListingOrder, PageSize};

use crate::{
    error::ApiError,
    http::{
        asset::Asset,
        caching,
        error_page::{PageError, html},
        path_and_query::path_part,
        routing::{cached, get, options},
    },
    links,
    read::ListingQuery,
    site::Site,
    store::StoreClients,
};
use head::Head;

pub(crate) fn configure(config: &mut web::ServiceConfig, max_age_seconds: u32) {
    let start = cached("/", "GET, HEAD, OPTIONS", max_age_seconds);
    let start = start.route(options().to(|| async { HttpResponse::NoContent().finish() }));
    config.service(start.route(get().to(products::start)));
    let mut page = |path: &str, route: Route| {
        config.service(cached(path, "GET, HEAD", max_age_seconds).route(route));
    };
    page(links::PRODUCTS, get().to(products::list));
    page("/static/style.css", asset(|site| &site.look.style_sheet));
    page(
        "/fragment.css",
        asset(|site| &site.look.fragment_style_sheet),
    );
    page("/static/icon.svg", asset(|_| &assets::ICON));
    page(
        "/static/pagemark-comments.js",
        asset(|_| &assets::COMPONENT),
    );
    page("/static/demo/{picture}", get().to(assets::picture));
    page("/product/{product}/comments", get().to(comments::page));
    page(
        "/product/{product}/comments/{filter:.*}",
        get().to(comments::page),
    );
    page("/product/{product}/feed", get().to(feed::feed));
    page("/product/{product}/feed/{filter:.*}", get().to(feed::feed));
    for path in [
        "/fragment/product/{product}/comments",
        "/fragment/product/{product}/comments/{filter:.*}",
    ] {
        page(
            path,
            get().to(comments::page).wrap(from_fn(fragment::mount)),
        );
    }
    page("/comments/{id}", get().to(comment));
    page("/robots.txt", get().to(sitemap::robots));
    page(links::SITEMAP, get().to(sitemap::index));
    page(links::SITEMAP_OF_LISTS, get().to(sitemap::lists));
    page("/sitemap/{file}", get().to(sitemap::part));
}

fn asset(of: fn(&Site) -> &Asset) -> Route {
    get().to(
        move |request: HttpRequest, site: web::Data<Site>| async move {
            of(&site).answer(request.query_string())
        },
    )
}

/// The answer with a page. `form_action` says where its forms may lead: see [`html`].
fn render(
    status: StatusCode,
    head: &Head<'_>,
    template: &impl Template,
    form_action: &str,
) -> Result<HttpResponse, PageError> {
    let body = template.render().map_err(ApiError::internal)?;
    Ok(rendered(status, head, body, form_action))
}

/// The answer with the text of a page.
fn rendered(status: StatusCode, head: &Head<'_>, body: String, form_action: &str) -> HttpResponse {
    let mut answer = HttpResponse::build(status);
    if let Some(links) = head.link_header() {
        answer.insert_header((header::LINK, links));
    }
    let mut picture_origins = Vec::new();
    picture_origins.extend(
        head.picture
            .as_ref()
            .map(|picture| picture.origin().to_owned()),
    );
    for host in &head.site.settings.photo_hosts {
        picture_origins.push(host.origin());
    }
    html(&mut answer, &picture_origins, form_action, body)
}

async fn comment(
    request: HttpRequest,
    stores: web::Data<StoreClients>,
) -> Result<HttpResponse, PageError> {
    let id = CommentId::parse(&path_part(&request, 2, "id")?)?;
    let comment = stores.comment(&id).await?.ok_or(ApiError::NoSuchComment)?;
    let position = stores
        .position(&comment, &Filter::ANY)
        .await
        .ok_or(ApiError::IndexUnavailable)?;
    let listing = ListingQuery {
        product: comment.product,
        filter: Filter::ANY,
        order: ListingOrder::Newest,
        page_size: PageSize::default(),
    };
    let page = links::page(
        &listing.product,
        &listing.filter,
        listing.number_of(true, position),
    );
    Ok(caching::lead_to(&(page + &links::fragment(&id))))
}
