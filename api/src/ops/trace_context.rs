//! The header `traceparent` (W3C Trace Context, level 1, section 3.2): the trace of a request.

use actix_web::http::header::HeaderMap;

/// The trace and the caller's span that made the request: 32 and 16 hex digits. The standard requires ignoring a repeated
/// or invalid header.
pub(crate) fn caller(headers: &HeaderMap) -> Option<(&str, &str)> {
    let mut values = headers.get_all("traceparent");
    let value = values.next()?.to_str().ok()?;
    if values.next().is_some() { None } else { parse(value) }
}

fn parse(value: &str) -> Option<(&str, &str)> {
    let mut parts = value.split('-');
    let version = hex(parts.next()?, 2)?;
    let (trace_id, span_id) = (hex(parts.next()?, 32)?, hex(parts.next()?, 16)?);
    hex(parts.next()?, 2)?;
    // Later versions may append parts. Version 00 has exactly these, and version ff is forbidden.
    if version == "ff" || (version == "00" && parts.next().is_some()) {
        return None;
    }
    Some((not_zero(trace_id)?, not_zero(span_id)?))
}

fn hex(part: &str, len: usize) -> Option<&str> {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (part.len() == len && part.bytes().all(digit)).then_some(part)
}

fn not_zero(id: &str) -> Option<&str> {
    id.bytes().any(|byte| byte != b'0').then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";

    #[test]
    fn a_trace_parent_is_read_or_ignored() {
        let whole = format!("00-{TRACE}-{PARENT}-01");
        assert_eq!(parse(&whole), Some((TRACE, PARENT)));
        assert!(parse(&format!("01-{TRACE}-{PARENT}-01-later")).is_some());
        let (zero_trace, zero_parent) = ("0".repeat(32), "0".repeat(16));
        for broken in [
            String::new(),
            format!("{whole}-more"),
            format!("ff-{TRACE}-{PARENT}-01"),
            format!("00-{}-{PARENT}-01", TRACE.to_uppercase()),
            format!("00-{zero_trace}-{PARENT}-01"),
            format!("00-{TRACE}-{zero_parent}-01"),
            format!("00-{TRACE}-{PARENT}"),
            format!("00-{TRACE}-{PARENT}-1"),
            format!("00-{}-{PARENT}-01", &TRACE[1..]),
        ] {
            assert_eq!(parse(&broken), None, "{broken}");
        }
    }
}
