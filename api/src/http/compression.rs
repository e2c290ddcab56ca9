//! Compresses answers while their requests are still under way.
//!
//! actix's own middleware compresses while an answer is being sent. By then the request no longer
//! counts as under way, so nothing would bound that work, measure it, or turn readers away for it.
//! The middleware also hands each part to other threads, which takes ten times as long as
//! compressing a page.
//!
//! **Invariant:** an answer is compressed within the request's time, counts as under way meanwhile,
//! and is sent whole (`tests/connections/bounds.rs`). Its text is in memory anyway.

use std::io::{self, Write};

use actix_web::{
    HttpMessage, HttpResponse,
    dev::ServiceRequest,
    http::header::{self, AcceptEncoding, Encoding, HeaderValue},
    web::{self, Bytes},
};
use brotli::CompressorWriter;
use flate2::{Compression, write::GzEncoder};

/// A shorter text is sent as it is: compression saves less than the size of a packet's head.
const BYTES_MIN: usize = 256;

/// A longer text is compressed by another thread, so that it blocks no other request: this many
/// bytes take a millisecond or two.
const BYTES_MAX_HERE: usize = 256 * 1024;

/// Brotli's quality, from 0 to 11, and its window, as a power of 2. On a page, quality 5 saves some
/// 5 % of the bytes. It takes up to twice as long, and with a small window a hundred times as long.
/// A larger window costs memory and finds no more.
const BROTLI_QUALITY: u32 = 4;
const BROTLI_WINDOW: u32 = 18;
const BROTLI_BUFFER_BYTES: usize = 4_096;

/// A content coding: its name, and what compresses a text with it.
pub(super) type Coding = (&'static str, fn(&[u8]) -> io::Result<Vec<u8>>);

/// The coding that the client prefers, or the shorter one if it has no preference.
///
/// A client that accepts neither an available coding nor a plain answer gets a plain one. RFC 9110
/// (section 12.5.3) lets a server ignore the header, and a readable text helps more than a refusal.
pub(super) fn wanted(request: &ServiceRequest) -> Option<Coding> {
    let offered = [Encoding::brotli(), Encoding::gzip(), Encoding::identity()];
    // A client that does not send the header may be able to read only plain text.
    match request
        .get_header::<AcceptEncoding>()?
        .negotiate(offered.iter())?
    {
        wanted if wanted == Encoding::brotli() => Some(("br", brotli)),
        wanted if wanted == Encoding::gzip() => Some(("gzip", gzip)),
        _ => None,
    }
}

fn brotli(text: &[u8]) -> io::Result<Vec<u8>> {
    let compressed = Vec::with_capacity(text.len() / 2);
    let mut encoder = CompressorWriter::new(
        compressed,
        BROTLI_BUFFER_BYTES,
        BROTLI_QUALITY,
        BROTLI_WINDOW,
    );
    encoder.write_all(text)?;
    Ok(encoder.into_inner())
}

fn gzip(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 2), Compression::default());
    encoder.write_all(text)?;
    encoder.finish()
}

/// Compresses a body, if its client wants that and it saves something.
pub(super) async fn compress(
    coding: Option<Coding>,
    answer: &mut HttpResponse<()>,
    body: Bytes,
) -> io::Result<Bytes> {
    let headers = answer.headers_mut();
    // A strong entity tag stands for the exact bytes.
    let is_exact = headers
        .get(header::ETAG)
        .is_some_and(|tag| !tag.as_bytes().starts_with(b"W/"));
    let Some((name, compress)) = coding else {
        return Ok(body);
    };
    if body.len() < BYTES_MIN || is_exact {
        return Ok(body);
    }
    let compressed = match body.len() {
        ..=BYTES_MAX_HERE => compress(&body)?,
        // A panic of that thread is an error here.
        _ => web::block(move || compress(&body))
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)))?,
    };
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(name));
    Ok(compressed.into())
}
