//! JSON text in, canonical text out: RFC 8259 to the letter, with no leniency that another reader might not share.
//!
//! Written by hand because no parser at hand reports all of it: duplicate keys, the exact digits of integers, and the
//! path and position of whatever is refused. With `serde_json` each takes a detour (a visitor per level, a private
//! marker key for exact numbers) that is longer than these lines. Strings, sizes, order and depth are the writer's.

use std::borrow::Cow;

use super::{Refusal, Writer};

/// Turns strict JSON text into canonical text of at most `limit` bytes.
///
/// # Errors
/// When the text is not JSON, or holds something that no payload may hold (see the module's first lines). A syntax
/// error is reported with its line and column, counted in characters from 1.
pub fn canonical_text(text: &str, limit: usize) -> Result<String, Refusal> {
    let mut parser = Parser { text, at: 0, writer: Writer::new(limit) };
    parser.skip_whitespace();
    parser.value()?;
    parser.skip_whitespace();
    if parser.at < text.len() {
        let problem = parser.syntax("text follows the value");
        return Err(parser.writer.refuse(problem));
    }
    Ok(parser.writer.finish())
}

struct Parser<'text> {
    text: &'text str,
    /// The byte to read next; always on a character boundary when an error is reported.
    at: usize,
    writer: Writer,
}

impl<'text> Parser<'text> {
    /// Reads one value. The writer bounds the recursion: it refuses the 129th level.
    fn value(&mut self) -> Result<(), Refusal> {
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => match self.string() {
                Ok(value) => self.writer.string(&value),
                Err(problem) => Err(self.writer.refuse(problem)),
            },
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.accept("null") => self.writer.null(),
            _ if self.accept("true") => self.writer.boolean(true),
            _ if self.accept("false") => self.writer.boolean(false),
            // Python's json module writes and reads these three; the writer refuses them by name.
            _ if self.accept("NaN") => self.writer.float(f64::NAN),
            _ if self.accept("Infinity") => self.writer.float(f64::INFINITY),
            _ => Err(self.writer.refuse(self.syntax("expected a value"))),
        }
    }

    fn array(&mut self) -> Result<(), Refusal> {
        self.writer.begin_array()?;
        self.step_over_opening();
        if self.accept("]") {
            return self.writer.end_array();
        }
        loop {
            self.writer.element();
            self.value()?;
            self.skip_whitespace();
            if self.accept("]") {
                return self.writer.end_array();
            }
            self.expect(",", "expected ',' or ']'")?;
            self.skip_whitespace();
        }
    }

    fn object(&mut self) -> Result<(), Refusal> {
        self.writer.begin_object()?;
        self.step_over_opening();
        if self.accept("}") {
            return self.writer.end_object();
        }
        loop {
            if self.peek() != Some(b'"') {
                let problem = self.syntax("expected a key in double quotes");
                return Err(self.writer.refuse_container(problem));
            }
            match self.string() {
                Ok(key) => self.writer.key(&key)?,
                Err(problem) => {
                    return Err(self.writer.refuse_container(format!("in a key: {problem}")));
                }
            }
            self.skip_whitespace();
            if !self.accept(":") {
                return Err(self.writer.refuse(self.syntax("expected ':'")));
            }
            self.skip_whitespace();
            self.value()?;
            self.skip_whitespace();
            if self.accept("}") {
                return self.writer.end_object();
            }
            self.expect(",", "expected ',' or '}'")?;
            self.skip_whitespace();
        }
    }

    fn number(&mut self) -> Result<(), Refusal> {
        let start = self.at;
        self.accept("-");
        if self.accept("Infinity") {
            return self.writer.float(f64::NEG_INFINITY);
        }
        // A zero stands alone; whatever digit follows it is then text after the value.
        if !self.accept("0") {
            self.digits()?;
        }
        let mut exact = true;
        if self.accept(".") {
            exact = false;
            self.digits()?;
        }
        if self.accept("e") || self.accept("E") {
            exact = false;
            let _ = self.accept("+") || self.accept("-");
            self.digits()?;
        }
        let token = &self.text[start..self.at];
        if exact {
            return self.writer.integer_digits(token);
        }
        match token.parse::<f64>() {
            Ok(value) if value.is_finite() => self.writer.float(value),
            _ => Err(self.writer.refuse(
                "the number overflows to Infinity, which is not JSON; numbers must be finite \
                 (the largest is about 1.8e308)"
                    .into(),
            )),
        }
    }

    fn digits(&mut self) -> Result<(), Refusal> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.writer.refuse(self.syntax("expected a digit")));
        }
        Ok(())
    }

    /// Reads a string from its opening quote; the problem of a bad one, because only the caller knows whose it is.
    fn string(&mut self) -> Result<Cow<'text, str>, String> {
        self.at += 1;
        let mut start = self.at;
        let mut decoded = String::new();
        loop {
            match self.peek() {
                Some(b'"') => {
                    let rest = &self.text[start..self.at];
                    self.at += 1;
                    if decoded.is_empty() {
                        return Ok(Cow::Borrowed(rest));
                    }
                    decoded.push_str(rest);
                    return Ok(Cow::Owned(decoded));
                }
                Some(b'\\') => {
                    decoded.push_str(&self.text[start..self.at]);
                    decoded.push(self.escape()?);
                    start = self.at;
                }
                Some(0..0x20) => {
                    return Err(self.syntax("a control character in a string must be escaped"));
                }
                Some(_) => self.at += 1,
                None => return Err(self.syntax("the text ends inside a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let start = self.at;
        self.at += 1;
        let letter = self.peek();
        self.at += 1;
        let character = match letter {
            Some(letter @ (b'"' | b'\\' | b'/')) => char::from(letter),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.escaped_code(start),
            _ => {
                self.at = start;
                return Err(self.syntax("no such escape in JSON"));
            }
        };
        Ok(character)
    }

    /// Reads the digits after `\u`, and the second half of a pair if these are the first half.
    fn escaped_code(&mut self, start: usize) -> Result<char, String> {
        let code = self.four_digits(start)?;
        if !(0xd800..0xe000).contains(&code) {
            return Ok(char::from_u32(code).unwrap_or('\u{fffd}'));
        }
        let after = self.at;
        if code < 0xdc00 && self.accept("\\u") {
            let low = self.four_digits(after)?;
            if (0xdc00..0xe000).contains(&low) {
                let pair = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(pair).unwrap_or('\u{fffd}'));
            }
        }
        self.at = start;
        let (line, column) = self.position();
        Err(format!(
            "the lone surrogate \\u{code:04x} (line {line}, column {column}) is not a character and cannot be stored"
        ))
    }

    fn four_digits(&mut self, escape_start: usize) -> Result<u32, String> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let code = digits
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        if let Some(code) = code {
            self.at += 4;
            return Ok(code);
        }
        self.at = escape_start;
        Err(self.syntax("expected four hexadecimal digits after \\u"))
    }

    fn step_over_opening(&mut self) {
        self.at += 1;
        self.skip_whitespace();
    }

    fn skip_whitespace(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn accept(&mut self, token: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(token.as_bytes());
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str, problem: &str) -> Result<(), Refusal> {
        if self.accept(token) {
            return Ok(());
        }
        Err(self.writer.refuse_container(self.syntax(problem)))
    }

    fn syntax(&self, problem: &str) -> String {
        let (line, column) = self.position();
        format!("not valid JSON at line {line}, column {column}: {problem}")
    }

    fn position(&self) -> (usize, usize) {
        let before = &self.text.as_bytes()[..self.at];
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        // A character is a byte that does not continue another one.
        let column = before[line_start..].iter().filter(|&&byte| byte & 0xc0 != 0x80).count();
        let line = before.split(|&byte| byte == b'\n').count();
        (line, column + 1)
    }
}
