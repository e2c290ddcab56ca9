//! Hands a request of hyper to the service as actix's, and the answer back. Both use the crate
//! `http`, in two versions.

use std::{
    cell::{Cell, RefCell},
    io,
    pin::Pin,
    rc::Rc,
    task::{Poll, ready},
};

use actix_http::{BoxedPayloadStream, Payload, Request, error::PayloadError};
use actix_web::{
    Error,
    body::MessageBody,
    dev::{Response, Service, ServiceResponse},
    http::{
        Method, StatusCode, Uri, Version,
        header::{HeaderName, HeaderValue},
    },
    web::Bytes,
};
use futures_util::stream;
use http_body_util::Full;
use hyper::{
    body::{Body, Incoming},
    header,
};

use super::{Client, deadline::Deadline};

/// The service's answer to a request. It says that the connection closes if the request's body was
/// not read to its end: hyper would go on if the rest happens to have arrived.
pub(super) async fn answer<S>(
    app: &S,
    client: &Client,
    deadline: &RefCell<Deadline>,
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<Full<Bytes>>, &'static str>
where
    S: Service<Request, Response = ServiceResponse, Error = Error>,
{
    deadline.borrow_mut().of_answer();
    let version = request.version();
    let is_head = request.method() == hyper::Method::HEAD;
    let body_is_read = Rc::new(Cell::new(request.body().is_end_stream()));
    let answer = match for_service(request, client, &body_is_read) {
        Some(request) => match app.call(request).await {
            Ok(answer) => Response::from(answer),
            Err(error) => Response::from(error),
        },
        None => {
            client.is_refused(StatusCode::BAD_REQUEST);
            body_is_read.set(false);
            Response::bad_request()
        }
    };
    let (answer, body) = answer.into_parts();
    let body = body
        .try_into_bytes()
        .map_err(|_| "this service streams no answer")?;
    deadline
        .borrow_mut()
        .of_next_head(if is_head { 0 } else { body.len() });
    let mut made = hyper::Response::new(Full::new(body));
    if let Ok(status) = hyper::StatusCode::from_u16(answer.status().as_u16()) {
        *made.status_mut() = status;
    }
    let headers = made.headers_mut();
    headers.reserve(answer.headers().len());
    for (name, value) in answer.headers() {
        let name = header::HeaderName::from_bytes(name.as_ref());
        if let (Ok(name), Ok(value)) = (name, header::HeaderValue::from_bytes(value.as_bytes())) {
            headers.append(name, value);
        }
    }
    if !body_is_read.get() {
        headers.insert(
            header::CONNECTION,
            header::HeaderValue::from_static("close"),
        );
        // For a client of HTTP/1.0, hyper would add `keep-alive` to an answer of HTTP/1.1.
        *made.version_mut() = version;
    }
    Ok(made)
}

/// The request in actix's types; `None` without one host (RFC 9112 section 3.2), or if actix knows
/// no such address.
fn for_service(
    request: hyper::Request<Incoming>,
    client: &Client,
    body_is_read: &Rc<Cell<bool>>,
) -> Option<Request> {
    let (parts, body) = request.into_parts();
    let hosts = parts.headers.get_all(header::HOST).iter().count();
    let lacks_host = hosts == 0 && parts.version == hyper::Version::HTTP_11;
    if hosts > 1 || lacks_host {
        return None;
    }
    let payload = if body_is_read.get() {
        Payload::None
    } else {
        Payload::Stream {
            payload: read(body, Rc::clone(body_is_read)),
        }
    };
    let mut request = Request::with_payload(payload);
    let head = request.head_mut();
    head.method = Method::from_bytes(parts.method.as_str().as_bytes()).ok()?;
    head.uri = Uri::try_from(parts.uri.to_string()).ok()?;
    head.version = if parts.version == hyper::Version::HTTP_10 {
        Version::HTTP_10
    } else {
        Version::HTTP_11
    };
    head.peer_addr = client.address;
    for (name, value) in &parts.headers {
        let name = HeaderName::from_bytes(name.as_ref()).ok()?;
        head.headers
            .append(name, HeaderValue::from_bytes(value.as_bytes()).ok()?);
    }
    Some(request)
}

/// The parts of a request's body. Notes when it is read to its end.
fn read(mut body: Incoming, body_is_read: Rc<Cell<bool>>) -> BoxedPayloadStream {
    Box::pin(stream::poll_fn(move |context| {
        let part = ready!(Pin::new(&mut body).poll_frame(context));
        body_is_read.set(part.is_none());
        Poll::Ready(part.map(|part| match part {
            // A frame without data is a trailer.
            Ok(part) => Ok(part.into_data().unwrap_or_default()),
            Err(error) => Err(PayloadError::Io(io::Error::other(error))),
        }))
    }))
}
