//! What the routes and the layers of all rooms have in common.

use actix_web::{
    Error, HttpRequest, HttpResponse, Resource, Route,
    dev::{ServiceFactory, ServiceRequest, ServiceResponse},
    error::InternalError,
    guard,
    middleware::from_fn,
    web,
};

use super::{audience::Audience, caching};
use crate::error::ApiError;

/// A resource whose answers caches may keep for a while and revalidate, and which are compressed.
pub(crate) fn cached(
    path: &str,
    allow: &'static str,
    max_age_seconds: u32,
) -> Resource<
    impl ServiceFactory<
        ServiceRequest,
        Config = (),
        Response = ServiceResponse,
        Error = Error,
        InitError = (),
    > + use<>,
> {
    web::resource(path)
        .wrap(from_fn(move |request, next| {
            caching::serve(max_age_seconds, request, next)
        }))
        .default_service(not_allowed(allow))
}

/// GET and HEAD: a HEAD request gets the answer to GET without the body.
pub(crate) fn get() -> Route {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

/// `OPTIONS`: what HAProxy asks at `/`, or at the path of its check, to know whether a server is up.
pub(crate) fn options() -> Route {
    web::route().guard(guard::Options())
}

/// Answers all other methods of a resource.
pub(crate) fn not_allowed(allow: &'static str) -> Route {
    web::to(move |request: HttpRequest| async move {
        let error = ApiError::MethodNotAllowed { allow };
        Err::<&'static str, _>(Audience::of_path(request.path()).error(error))
    })
}

pub(crate) async fn no_route(request: HttpRequest) -> Result<&'static str, Error> {
    Err(Audience::of_path(request.path()).error(ApiError::NoRoute))
}

/// The answer after a change. A layer that gives a request up, because it takes too long or panics,
/// has only an error: its answer is made here.
pub(crate) fn changed(
    answer: Result<ServiceResponse, Error>,
    change: impl FnOnce(HttpResponse) -> HttpResponse,
) -> Result<ServiceResponse, Error> {
    match answer {
        Ok(answer) => {
            let (request, answer) = answer.into_parts();
            Ok(ServiceResponse::new(request, change(answer)))
        }
        Err(error) => Err(InternalError::from_response(
            "given up",
            change(HttpResponse::from_error(error)),
        )
        .into()),
    }
}
