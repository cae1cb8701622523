//! Reads Python objects for the canonical form of `json/mod.rs`, with the verdicts of Python's `json.dumps` on what
//! is a string, a list or a number.
//!
//! Runs once per job, so the exact types come first and are read in place. Subclasses (`IntEnum`, `StrEnum`,
//! `OrderedDict`, namedtuples) are taken by value as `json.dumps` takes them; those are the only ones whose code may
//! run here, so nothing borrowed from a container is held while its elements are read.

use std::borrow::Cow;
use std::cell::RefCell;

use pyo3::exceptions::{PyException, PyMemoryError, PyUnicodeEncodeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::json::{self, Refusal, Writer, path};

/// Bits of the largest integer with `json::INTEGER_DIGITS` digits: 640 × log2(10) = 2126.03. Longer ones are refused
/// before they are printed, because printing takes quadratic time.
const INTEGER_BITS: usize = 2127;

/// Why there is no canonical text.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The value is not storable.
    Refused(Refusal),
    /// Not the value's fault, and not ours to hide: a keyboard interrupt, a cancellation, no memory.
    Raised(PyErr),
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The canonical text of a Python value, at most `limit` bytes.
pub(crate) fn canonical(value: &Bound<'_, PyAny>, limit: usize) -> Result<String, Fault> {
    let mut walker = Walker { writer: Writer::new(limit), limit, pending: RefCell::default() };
    walker.value(value)?;
    Ok(walker.writer.finish())
}

/// The canonical text of a Python string that holds JSON, at most `limit` bytes.
pub(crate) fn canonical_text(text: &Bound<'_, PyString>, limit: usize) -> Result<String, Fault> {
    match text.to_str() {
        Ok(text) => Ok(json::canonical_text(text, limit)?),
        Err(error) => {
            let writer = Writer::new(limit);
            Err(match lone_surrogate(text, &error) {
                Some(problem) => writer.refuse(problem).into(),
                None => python_fault(&writer, text.py(), error),
            })
        }
    }
}

/// An error text as every store can keep it: lone surrogates and U+0000 become U+FFFD. Never fails.
pub(crate) fn storable_text(text: &Bound<'_, PyString>) -> String {
    if let Ok(text) = text.to_str() {
        return json::storable_text(text).into_owned();
    }
    let encoded = text
        .call_method1("encode", ("utf-8", "surrogatepass"))
        .and_then(|encoded| encoded.extract::<Vec<u8>>())
        .unwrap_or_default();
    let mut storable = String::with_capacity(encoded.len());
    for chunk in encoded.utf8_chunks() {
        storable.push_str(&json::storable_text(chunk.valid()));
        // A surrogate is three bytes, each reported alone; the first is always 0xED.
        if chunk.invalid().first() == Some(&0xed) {
            storable.push('\u{fffd}');
        }
    }
    storable
}

struct Walker<'py> {
    writer: Writer,
    limit: usize,
    /// The members still to be written, of all open dicts: taken out of each dict in one go, because code of a
    /// member's class may change the dict. One buffer for the whole walk spares an allocation per dict.
    pending: RefCell<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>>,
}

impl<'py> Walker<'py> {
    /// Writes one value. The writer bounds the recursion: it refuses the 129th level, so cycles end too.
    fn value(&mut self, value: &Bound<'py, PyAny>) -> Result<(), Fault> {
        if let Ok(text) = value.cast_exact::<PyString>() {
            return self.string(text);
        }
        if value.is_exact_instance_of::<PyInt>() {
            return self.integer(value);
        }
        if let Ok(dict) = value.cast_exact::<PyDict>() {
            return self.dict(dict);
        }
        if let Ok(list) = value.cast_exact::<PyList>() {
            self.writer.begin_array()?;
            for element in list {
                self.writer.element();
                self.value(&element)?;
            }
            return Ok(self.writer.end_array()?);
        }
        if value.is_none() {
            return Ok(self.writer.null()?);
        }
        if let Ok(boolean) = value.cast_exact::<PyBool>() {
            return Ok(self.writer.boolean(boolean.is_true())?);
        }
        if let Ok(float) = value.cast_exact::<PyFloat>() {
            return Ok(self.writer.float(float.value())?);
        }
        if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            self.writer.begin_array()?;
            for element in tuple {
                self.writer.element();
                self.value(&element)?;
            }
            return Ok(self.writer.end_array()?);
        }
        self.subclass(value)
    }

    fn subclass(&mut self, value: &Bound<'py, PyAny>) -> Result<(), Fault> {
        if let Ok(text) = value.cast::<PyString>() {
            return self.string(text);
        }
        if value.is_instance_of::<PyInt>() {
            return self.integer(value);
        }
        if let Ok(float) = value.cast::<PyFloat>() {
            return Ok(self.writer.float(float.value())?);
        }
        if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            self.writer.begin_array()?;
            for element in self.python(value.py(), value.try_iter())? {
                self.writer.element();
                let element = self.python(value.py(), element)?;
                self.value(&element)?;
            }
            return Ok(self.writer.end_array()?);
        }
        if value.is_instance_of::<PyDict>() {
            return self.dict_subclass(value);
        }
        Err(self
            .writer
            .refuse(format!(
                "a value of type {} is not JSON; allowed are dict with string keys, list, tuple, str, int, float, \
                 bool and None",
                type_name(value)
            ))
            .into())
    }

    fn string(&mut self, text: &Bound<'py, PyString>) -> Result<(), Fault> {
        self.check_length(text)?;
        match text.to_str() {
            Ok(text) => Ok(self.writer.string(text)?),
            Err(error) => Err(match lone_surrogate(text, &error) {
                Some(problem) => self.writer.refuse(problem).into(),
                None => python_fault(&self.writer, text.py(), error),
            }),
        }
    }

    /// Refuses a string that cannot fit before its UTF-8 form is made: every character takes a byte or more.
    fn check_length(&self, text: &Bound<'py, PyString>) -> Result<(), Fault> {
        // A subclass may lie about its length; it is then refused after the conversion.
        match text.len() {
            Ok(length) if length > self.limit && text.is_exact_instance_of::<PyString>() => {
                Err(self.writer.refuse_size().into())
            }
            _ => Ok(()),
        }
    }

    /// Writes an `int`, or the value that an instance of a subclass has as an `int`.
    fn integer(&mut self, value: &Bound<'py, PyAny>) -> Result<(), Fault> {
        if let Ok(small) = value.extract::<i64>() {
            return Ok(self.writer.integer(small)?);
        }
        let py = value.py();
        let int = py.get_type::<PyInt>();
        let bits = int.call_method1(intern!(py, "bit_length"), (value,)).and_then(|bits| bits.extract::<usize>());
        if self.python(py, bits)? > INTEGER_BITS {
            return Err(self.writer.refuse_integer().into());
        }
        match int.call_method1(intern!(py, "__repr__"), (value,)) {
            Ok(digits) => {
                let digits = self.python(py, digits.extract::<String>())?;
                Ok(self.writer.integer_digits(&digits)?)
            }
            // 641 digits fit in as many bits, and this process may be set to print no more than 640.
            Err(_) => Err(self.writer.refuse_integer().into()),
        }
    }

    fn dict(&mut self, dict: &Bound<'py, PyDict>) -> Result<(), Fault> {
        self.writer.begin_object()?;
        // `"":0,` is the shortest member: a dict that cannot fit is refused before it is copied.
        if dict.len() > self.limit / 4 {
            return Err(self.writer.refuse_size().into());
        }
        let start = self.pending.borrow().len();
        let taken = dict.locked_for_each(|key, value| {
            self.pending.borrow_mut().push((key, value));
            Ok(())
        });
        self.python(dict.py(), taken)?;
        let end = self.pending.borrow().len();
        for index in start..end {
            let (key, value) = {
                let pending = &self.pending.borrow()[index];
                (pending.0.clone(), pending.1.clone())
            };
            self.member(&key, &value)?;
        }
        self.pending.borrow_mut().truncate(start);
        Ok(self.writer.end_object()?)
    }

    fn dict_subclass(&mut self, dict: &Bound<'py, PyAny>) -> Result<(), Fault> {
        let py = dict.py();
        self.writer.begin_object()?;
        let items = dict.call_method0(intern!(py, "items")).and_then(|items| items.try_iter());
        for item in self.python(py, items)? {
            let item = item.and_then(|item| item.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>());
            let (key, value) = self.python(py, item)?;
            self.member(&key, &value)?;
        }
        Ok(self.writer.end_object()?)
    }

    fn member(&mut self, key: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> Result<(), Fault> {
        let Ok(text) = key.cast::<PyString>() else {
            let problem = format!("the object has a key of type {}; keys must be strings", type_name(key));
            return Err(self.writer.refuse_container(problem).into());
        };
        self.check_length(text)?;
        match text.to_str() {
            Ok(text) => self.writer.key(text)?,
            Err(error) => {
                return Err(match lone_surrogate(text, &error) {
                    Some(problem) => self.writer.refuse_container(format!("in a key: {problem}")).into(),
                    None => python_fault(&self.writer, key.py(), error),
                });
            }
        }
        self.value(value)
    }

    /// Turns an error of the value's own code into a refusal of that value.
    fn python<T>(&self, py: Python<'py>, result: PyResult<T>) -> Result<T, Fault> {
        result.map_err(|error| python_fault(&self.writer, py, error))
    }
}

fn python_fault(writer: &Writer, py: Python<'_>, error: PyErr) -> Fault {
    if !error.is_instance_of::<PyException>(py) || error.is_instance_of::<PyMemoryError>(py) {
        return Fault::Raised(error);
    }
    let text = error.value(py).str();
    let text = text.map_or_else(|_| String::new(), |text| storable_text(&text));
    let mut problem = format!("reading the value raised {}: ", type_name(error.value(py)));
    path::push_quoted(&mut problem, &text);
    Fault::Refused(writer.refuse(problem))
}

/// The problem of a string that has no UTF-8 form, if a lone surrogate is the reason.
fn lone_surrogate(text: &Bound<'_, PyString>, error: &PyErr) -> Option<String> {
    let py = text.py();
    if !error.is_instance_of::<PyUnicodeEncodeError>(py) {
        return None;
    }
    let place = error
        .value(py)
        .getattr("start")
        .and_then(|start| start.extract::<usize>())
        .map_or(Cow::Borrowed("somewhere"), |start| Cow::Owned(format!("at character {start}")));
    Some(format!("a string with a lone surrogate ({place}) is not Unicode text and cannot be stored"))
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().fully_qualified_name().map_or_else(|_| "unknown".into(), |name| storable_text(&name))
}
