//! The members of an object that is being written: where each stands in the text, and how two keys compare.

use std::borrow::Cow;
use std::cmp::Ordering;

/// Where one member stands in the text: `start..key_end` is its quoted key, `start..end` the whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) start: usize,
    pub(super) key_end: usize,
    pub(super) end: usize,
    /// Whether the key holds an escape, so that it must be decoded to be compared.
    pub(super) escaped: bool,
}

impl Member {
    /// Compares two keys by code point. UTF-8 sorts as its code points do, but escapes do not sort as what they
    /// stand for.
    pub(super) fn compare(&self, other: &Self, out: &str) -> Ordering {
        if self.escaped || other.escaped {
            self.key(out).cmp(&other.key(out))
        } else {
            self.written(out).cmp(other.written(out))
        }
    }

    /// The key as it was announced.
    pub(super) fn key<'text>(&self, out: &'text str) -> Cow<'text, str> {
        let written = self.written(out);
        if !self.escaped {
            return Cow::Borrowed(written);
        }
        let mut key = String::with_capacity(written.len());
        let mut rest = written;
        while let Some((plain, escape)) = rest.split_once('\\') {
            key.push_str(plain);
            let (letter, after) = escape.split_at(1);
            rest = after;
            key.push(match letter {
                "n" => '\n',
                "r" => '\r',
                "t" => '\t',
                "b" => '\u{8}',
                "f" => '\u{c}',
                "u" => {
                    // The writer escapes nothing above U+001F in this way: `00`, then the two digits that count.
                    let (digits, after) = rest.split_at(4);
                    rest = after;
                    u8::from_str_radix(&digits[2..], 16).map_or('\u{fffd}', char::from)
                }
                "\"" => '"',
                _ => '\\',
            });
        }
        key.push_str(rest);
        Cow::Owned(key)
    }

    fn written<'text>(&self, out: &'text str) -> &'text str {
        &out[self.start + 1..self.key_end - 1]
    }
}
