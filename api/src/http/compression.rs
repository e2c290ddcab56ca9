//! Compresses answers while their requests are still under way.
//!
//! actix's own middleware compresses while an answer is being sent. By then the request no longer
//! counts as under way, so nothing would bound that work, measure it, or turn readers away for it.
//! The middleware also hands each part to other threads, which takes ten times as long as
//! compressing a page.
//!
//! **Invariant:** an answer is compressed within the request's time, counts as under way meanwhile,
//! and is sent whole (`tests/connections/bounds.rs`). Its text is in memory anyway.

use std::{cell::RefCell, io};

use actix_web::{
    HttpMessage, HttpResponse,
    dev::ServiceRequest,
    http::header::{self, AcceptEncoding, Encoding, HeaderValue},
    web::{self, Bytes},
};
use libdeflater::{CompressionLvl, Compressor};

/// A shorter text is sent as it is: compression saves less than the size of a packet's head.
const BYTES_MIN: usize = 256;

/// A longer text is compressed by another thread, so that it blocks no other request: this many
/// bytes take a millisecond or two.
const BYTES_MAX_HERE: usize = 256 * 1024;

thread_local! {
    /// Making one costs as much as compressing a page. The level is the default of gzip. On a page,
    /// the next higher ones save 1 % each, and take a quarter longer each.
    static COMPRESSOR: RefCell<Compressor> = RefCell::new(Compressor::new(CompressionLvl::default()));
}

/// Whether the client takes gzip, and prefers it to a plain answer.
///
/// There is no other coding, because every client that reads pages takes this one (ADR 98).
///
/// A client that accepts neither gzip nor a plain answer gets a plain one. RFC 9110 (section
/// 12.5.3) lets a server ignore the header, and a readable text helps more than a refusal.
pub(super) fn is_wanted(request: &ServiceRequest) -> bool {
    let offered = [Encoding::gzip(), Encoding::identity()];
    // A client that does not send the header may be able to read only plain text.
    let accepted = request.get_header::<AcceptEncoding>();
    accepted.is_some_and(|accepted| accepted.negotiate(offered.iter()) == Some(Encoding::gzip()))
}

pub(crate) fn gzip(text: &[u8]) -> io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|compressor| {
        let mut compressed = vec![0; compressor.gzip_compress_bound(text.len())];
        let length = compressor
            .gzip_compress(text, &mut compressed)
            .map_err(io::Error::other)?;
        compressed.truncate(length);
        Ok(compressed)
    })
}

/// Compresses a body, if its client wants that and it saves something.
pub(super) async fn compress(
    is_wanted: bool,
    answer: &mut HttpResponse<()>,
    body: Bytes,
) -> io::Result<Bytes> {
    let headers = answer.headers_mut();
    // A strong entity tag stands for the exact bytes.
    let is_exact = headers
        .get(header::ETAG)
        .is_some_and(|tag| !tag.as_bytes().starts_with(b"W/"));
    if !is_wanted || body.len() < BYTES_MIN || is_exact {
        return Ok(body);
    }
    let compressed = match body.len() {
        ..=BYTES_MAX_HERE => gzip(&body)?,
        // A panic of that thread is an error here.
        _ => web::block(move || gzip(&body))
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)))?,
    };
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Ok(compressed.into())
}
