//! One validator and one canonical form for every payload, result and evidence (promise 9).
//!
//! Two jobs carry the same payload when their canonical texts are the same bytes, on every store and in the
//! pure-Python stores too. The form is what Python gives for
//! `json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)`, so it can be
//! recomputed anywhere; `tests/vectors/json.json` holds both sides to it. What that call would let through and a
//! store or a reader would change or refuse later (a lone surrogate, a key that is not a string, a second member of
//! the same name) is refused here, with its path, before any SQL.
//!
//! `Writer` knows all the rules; `canonical_text` feeds it from JSON text and `py/json.rs` from Python objects.

mod member;
mod number;
mod parse;
pub(crate) mod path;
mod string;
mod writer;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use parse::canonical_text;
pub use writer::Writer;

/// Arrays and objects may stand in one another this deep; `[]` alone is one level.
///
/// SQLite refuses JSON deeper than 1000, and every reader that recurses has some limit; this one is below them all.
pub const DEPTH_LIMIT: usize = 128;

/// Integers may have this many digits.
///
/// It is the lowest value that `sys.set_int_max_str_digits` accepts, so every Python process can read back what is
/// stored.
pub const INTEGER_DIGITS: usize = 640;

/// Why a value has no canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Where the offending value stands, as in `$.items[3].price`: one printable line.
    pub path: String,
    /// What is wrong and what is allowed, for the person who reads it.
    pub problem: String,
}

/// An error text as every store can keep it: never fails, because a failed job must not lose its outcome to the
/// wording of its error.
///
/// U+0000 is the only character of a Rust string that a store refuses (PostgreSQL, in `text`); it becomes U+FFFD.
#[must_use]
pub fn storable_text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}
