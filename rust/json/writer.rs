//! The writer of the canonical form: every rule of `json/mod.rs` stands here once, whatever the value is read from.
//!
//! A walker announces the value event by event. Object members are written in the order they come and put in order
//! when their object ends, so no walker sorts and no tree is built; the common payload (a few short members) costs
//! one copy of its bytes more. The path of the current value is not tracked either: a refusal reads it back from the
//! text written so far.

use std::cmp::Ordering;

use super::member::Member;
use super::{DEPTH_LIMIT, INTEGER_DIGITS, Refusal, number, path, string};

/// Writes one canonical value.
///
/// Before each value inside an array comes [`element`](Self::element), before each value inside an object
/// [`key`](Self::key). The first refusal ends the writing: a writer that refused must be dropped.
#[derive(Debug)]
pub struct Writer {
    out: String,
    limit: usize,
    /// The open arrays and objects, outermost first.
    frames: Vec<Frame>,
    /// The members of all open objects; each object frame owns the tail from its `first`.
    members: Vec<Member>,
}

#[derive(Clone, Copy, Debug)]
enum Frame {
    Array {
        /// How many elements were begun.
        begun: usize,
    },
    Object {
        /// Index of the object's first member in `members`.
        first: usize,
        /// Whether each key so far came after its predecessor, which also rules out duplicates.
        ordered: bool,
    },
}

impl Writer {
    /// A writer that refuses to grow beyond `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { out: String::with_capacity(limit.min(128)), limit, frames: Vec::new(), members: Vec::new() }
    }

    /// The canonical text; call it after the whole value was announced.
    #[must_use]
    pub fn finish(self) -> String {
        debug_assert!(self.frames.is_empty(), "an array or object is still open");
        self.out
    }

    /// Writes `null`.
    ///
    /// # Errors
    /// When the text outgrows the limit.
    pub fn null(&mut self) -> Result<(), Refusal> {
        self.out.push_str("null");
        self.check_size()
    }

    /// Writes `true` or `false`.
    ///
    /// # Errors
    /// When the text outgrows the limit.
    pub fn boolean(&mut self, value: bool) -> Result<(), Refusal> {
        self.out.push_str(if value { "true" } else { "false" });
        self.check_size()
    }

    /// Writes an integer that fits a machine word.
    ///
    /// # Errors
    /// When the text outgrows the limit.
    pub fn integer(&mut self, value: i64) -> Result<(), Refusal> {
        number::push_integer(&mut self.out, value);
        self.check_size()
    }

    /// Writes an integer of any size, given as JSON spells it: an optional minus, then digits without leading zeros.
    ///
    /// # Errors
    /// When it has more than [`INTEGER_DIGITS`] digits, or the text outgrows the limit.
    pub fn integer_digits(&mut self, digits: &str) -> Result<(), Refusal> {
        let length = digits.strip_prefix('-').unwrap_or(digits).len();
        if length > INTEGER_DIGITS {
            return Err(self.refuse_integer());
        }
        // Integers have one zero; Python reads `-0` as 0 too.
        self.out.push_str(if digits == "-0" { "0" } else { digits });
        self.check_size()
    }

    /// Writes a float.
    ///
    /// # Errors
    /// When it is NaN or infinite, or the text outgrows the limit.
    pub fn float(&mut self, value: f64) -> Result<(), Refusal> {
        if !value.is_finite() {
            let shown = if value.is_nan() {
                "NaN"
            } else if value > 0.0 {
                "Infinity"
            } else {
                "-Infinity"
            };
            return Err(
                self.refuse(format!("{shown} is not JSON; numbers must be finite (write null or a string instead)"))
            );
        }
        number::push_float(&mut self.out, value);
        self.check_size()
    }

    /// Writes a string.
    ///
    /// # Errors
    /// When the text outgrows the limit.
    pub fn string(&mut self, value: &str) -> Result<(), Refusal> {
        self.quoted(value).map(drop)
    }

    /// Opens an array.
    ///
    /// # Errors
    /// When it stands deeper than [`DEPTH_LIMIT`], or the text outgrows the limit.
    pub fn begin_array(&mut self) -> Result<(), Refusal> {
        self.open(Frame::Array { begun: 0 }, '[')
    }

    /// Announces the next element of the array.
    pub fn element(&mut self) {
        if let Some(Frame::Array { begun }) = self.frames.last_mut() {
            if *begun > 0 {
                self.out.push(',');
            }
            *begun += 1;
        }
    }

    /// Closes the array.
    ///
    /// # Errors
    /// When the text outgrows the limit.
    pub fn end_array(&mut self) -> Result<(), Refusal> {
        self.frames.pop();
        self.out.push(']');
        self.check_size()
    }

    /// Opens an object.
    ///
    /// # Errors
    /// When it stands deeper than [`DEPTH_LIMIT`], or the text outgrows the limit.
    pub fn begin_object(&mut self) -> Result<(), Refusal> {
        let first = self.members.len();
        self.open(Frame::Object { first, ordered: true }, '{')
    }

    /// Announces the next member of the object by its key.
    ///
    /// # Errors
    /// When the text outgrows the limit.
    pub fn key(&mut self, key: &str) -> Result<(), Refusal> {
        let Some(&Frame::Object { first, ordered }) = self.frames.last() else {
            debug_assert!(false, "a key outside an object");
            return Ok(());
        };
        if self.members.len() > first {
            if let Some(previous) = self.members.last_mut() {
                previous.end = self.out.len();
            }
            self.out.push(',');
        }
        let start = self.out.len();
        let escaped = self.quoted(key)?;
        let key_end = self.out.len();
        self.out.push(':');
        let member = Member { start, key_end, end: key_end, escaped };
        let in_order = match self.members[first..].last() {
            Some(previous) if ordered => previous.compare(&member, &self.out) == Ordering::Less,
            _ => ordered,
        };
        self.members.push(member);
        if let Some(Frame::Object { ordered, .. }) = self.frames.last_mut() {
            *ordered = in_order;
        }
        Ok(())
    }

    /// Closes the object: puts its members in the order of their keys' code points.
    ///
    /// # Errors
    /// When two members have one key, or the text outgrows the limit.
    pub fn end_object(&mut self) -> Result<(), Refusal> {
        let Some(&Frame::Object { first, ordered }) = self.frames.last() else {
            debug_assert!(false, "no object to close");
            return Ok(());
        };
        if !ordered {
            self.sort_members(first)?;
        }
        self.frames.pop();
        self.members.truncate(first);
        self.out.push('}');
        self.check_size()
    }

    fn sort_members(&mut self, first: usize) -> Result<(), Refusal> {
        let Self { out, members, .. } = self;
        let members = &mut members[first..];
        let start = members[0].start;
        if let Some(last) = members.last_mut() {
            last.end = out.len();
        }
        members.sort_unstable_by(|left, right| left.compare(right, out));
        let twin = members
            .windows(2)
            .find(|pair| pair[0].compare(&pair[1], out) == Ordering::Equal)
            .map(|pair| pair[0].key(out).into_owned());
        if let Some(key) = twin {
            let mut path = self.container_path();
            path::push_key(&mut path, &key);
            return Err(Refusal {
                path,
                problem: "the object has two members of this key; every key may stand once".into(),
            });
        }
        let mut sorted = String::with_capacity(out.len() - start);
        for (index, member) in members.iter().enumerate() {
            if index > 0 {
                sorted.push(',');
            }
            sorted.push_str(&out[member.start..member.end]);
        }
        out.truncate(start);
        out.push_str(&sorted);
        Ok(())
    }

    fn open(&mut self, frame: Frame, bracket: char) -> Result<(), Refusal> {
        if self.frames.len() == DEPTH_LIMIT {
            return Err(self.refuse(format!(
                "nested deeper than {DEPTH_LIMIT} arrays and objects, or a value that contains itself"
            )));
        }
        self.frames.push(frame);
        self.out.push(bracket);
        self.check_size()
    }

    /// Appends the string in quotes and tells whether anything in it was escaped.
    fn quoted(&mut self, value: &str) -> Result<bool, Refusal> {
        // Before the copy: escapes only make it longer.
        if value.len() > self.limit.saturating_sub(self.out.len()) {
            return Err(self.refuse_size());
        }
        let escaped = string::push_quoted(&mut self.out, value);
        self.check_size()?;
        Ok(escaped)
    }

    fn check_size(&self) -> Result<(), Refusal> {
        if self.out.len() > self.limit {
            return Err(self.refuse_size());
        }
        Ok(())
    }

    /// The refusal of a value whose text would outgrow the limit. It is the whole that is too large, hence the path.
    #[must_use]
    pub fn refuse_size(&self) -> Refusal {
        Refusal {
            path: "$".into(),
            problem: format!(
                "larger than {} bytes as JSON; store large data elsewhere and pass a reference to it",
                self.limit
            ),
        }
    }

    /// The refusal of an integer with more than [`INTEGER_DIGITS`] digits, for walkers that need not print it first.
    #[must_use]
    pub fn refuse_integer(&self) -> Refusal {
        self.refuse(format!("an integer of more than {INTEGER_DIGITS} digits; write it as a string"))
    }

    /// A refusal of the value that was announced last.
    #[must_use]
    pub fn refuse(&self, problem: String) -> Refusal {
        Refusal { path: self.path(&self.frames), problem }
    }

    /// A refusal of something that stands between values: a bad key, a missing comma.
    #[must_use]
    pub fn refuse_container(&self, problem: String) -> Refusal {
        Refusal { path: self.container_path(), problem }
    }

    fn container_path(&self) -> String {
        self.path(&self.frames[..self.frames.len().saturating_sub(1)])
    }

    /// The path that leads through the open frames: the last key, or the count of elements, of each.
    fn path(&self, frames: &[Frame]) -> String {
        let mut path = String::from("$");
        for (depth, frame) in frames.iter().enumerate() {
            match *frame {
                Frame::Array { begun: 0 } => {}
                Frame::Array { begun } => path::push_index(&mut path, begun - 1),
                Frame::Object { first, .. } => {
                    // The frame's last member is the one before the next object frame's first.
                    let next = self.frames[depth + 1..]
                        .iter()
                        .find_map(|frame| match *frame {
                            Frame::Object { first, .. } => Some(first),
                            Frame::Array { .. } => None,
                        })
                        .unwrap_or(self.members.len());
                    if let Some(member) = self.members[first..next].last() {
                        path::push_key(&mut path, &member.key(&self.out));
                    }
                }
            }
        }
        path
    }
}
