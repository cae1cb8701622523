//! Numbers in Python's notation, byte for byte what `repr` gives, so that both languages write one canonical form.

use std::fmt::{self, Write};

/// Appends a finite float as Python's `repr` writes it.
///
/// Rust's `{:e}` yields the shortest digits that read back to the same double and, among those, the closest. Python
/// wants the same digits, but the even one when two are equally close: 960732244908812.25 is `…12.2` there, `…12.3`
/// here. The placing of the point is Python's rule too: fixed notation while the decimal exponent is in -4..16, always
/// with a point; otherwise an exponent with a sign and two digits.
pub(super) fn push_float(out: &mut String, value: f64) {
    let mut scientific = Scratch::default();
    // Infallible: the longest shortest form, `-2.2250738585072014e-308`, has 24 bytes.
    let _ = write!(scientific, "{value:e}");
    let mut even = Scratch::default();
    let (mantissa, exponent) = split(scientific.text());
    let fraction_digits = mantissa.split_once('.').map_or(0, |(_, rest)| rest.len());
    let halfway =
        decimals(value).is_some_and(|digits| digits == i32::try_from(fraction_digits).unwrap_or(0) - exponent + 1);
    if halfway {
        // With a precision, Rust rounds ties to even.
        let _ = write!(even, "{value:.fraction_digits$e}");
    }
    // Below a power of two doubles stand closer together, so the even neighbour may be another double.
    let same = halfway && even.text().parse() == Ok(value);
    let text = if same { even.text() } else { scientific.text() };
    let (mantissa, exponent) = split(text);
    let mantissa = match mantissa.strip_prefix('-') {
        Some(rest) => {
            out.push('-');
            rest
        }
        None => mantissa,
    };
    let (first, rest) = mantissa.split_once('.').unwrap_or((mantissa, ""));

    if (0..16).contains(&exponent) {
        let whole = exponent.unsigned_abs() as usize;
        out.push_str(first);
        if rest.len() > whole {
            out.push_str(&rest[..whole]);
            out.push('.');
            out.push_str(&rest[whole..]);
        } else {
            out.push_str(rest);
            out.extend(std::iter::repeat_n('0', whole - rest.len()));
            out.push_str(".0");
        }
    } else if (-4..0).contains(&exponent) {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', exponent.unsigned_abs() as usize - 1));
        out.push_str(first);
        out.push_str(rest);
    } else {
        out.push_str(first);
        if !rest.is_empty() {
            out.push('.');
            out.push_str(rest);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "e{sign}{:02}", exponent.unsigned_abs());
    }
}

fn split(scientific: &str) -> (&str, i32) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    (mantissa, exponent.parse().unwrap_or(0))
}

/// How many decimals the exact value has (fewer than none for multiples of ten, as far as powers of two can tell).
///
/// The value is an odd number times a power of two, and each halving adds one decimal. Only a value with exactly one
/// decimal more than its shortest form can stand halfway between two such forms, so this tells cheaply when the digits
/// must be looked at again.
fn decimals(value: f64) -> Option<i32> {
    let bits = value.to_bits();
    let biased = i32::try_from(bits >> 52 & 0x7ff).ok()?;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, exponent) = match biased {
        0 => (fraction, -1074),
        _ => (fraction | 1 << 52, biased - 1075),
    };
    let trailing = i32::try_from(mantissa.trailing_zeros()).ok()?;
    (mantissa != 0).then_some(-(exponent + trailing))
}

/// Appends an integer that fits a machine word.
pub(super) fn push_integer(out: &mut String, value: i64) {
    let _ = write!(out, "{value}");
}

/// A line of text on the stack: a float is written once per number, and a heap string each time would be felt.
#[derive(Default)]
struct Scratch {
    bytes: [u8; 32],
    length: usize,
}

impl Scratch {
    fn text(&self) -> &str {
        // Only whole strings are written, so this is always text.
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl Write for Scratch {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let room = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}
