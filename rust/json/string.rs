//! Strings in quotes, escaped as little as JSON allows: what Python's `json.dumps(..., ensure_ascii=False)` writes.

use std::fmt::Write;

/// Appends the string in quotes and tells whether anything in it was escaped.
pub(super) fn push_quoted(out: &mut String, value: &str) -> bool {
    let mut rest = value;
    let mut escaped = false;
    out.push('"');
    while let Some(position) = first_escape(rest.as_bytes()) {
        escaped = true;
        out.push_str(&rest[..position]);
        match rest.as_bytes()[position] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            other => {
                let _ = write!(out, "\\u{other:04x}");
            }
        }
        rest = &rest[position + 1..];
    }
    out.push_str(rest);
    out.push('"');
    escaped
}

/// Where the first byte stands that must be escaped. Most strings have none: sixteen bytes are looked at together, so
/// that the compiler can use vector instructions.
fn first_escape(bytes: &[u8]) -> Option<usize> {
    let (chunks, tail) = bytes.as_chunks::<16>();
    let clean =
        chunks.iter().take_while(|chunk| !chunk.iter().fold(false, |found, &byte| found | must_escape(byte))).count()
            * 16;
    let rest = if clean == bytes.len() - tail.len() { tail } else { &bytes[clean..] };
    rest.iter().position(|&byte| must_escape(byte)).map(|position| clean + position)
}

fn must_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}
