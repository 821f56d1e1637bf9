//! From Ruby values to those that an encoder writes.

use crate::gvl::TimeSlice;
use crate::{error, value};
use magnus::encoding::EncodingCapable;
use magnus::value::ReprValue;
use magnus::{Error, Float, Integer, Module, RArray, RClass, RHash, RString, Ruby, Symbol, Value, r_hash::ForEach};
use pelton_core::decode::avro::{Datum, decimal};
use std::cell::{Cell, RefCell};

/// Deeper ones are no values of any schema.
const MAX_DEPTH: usize = 100;
/// The most bytes that all values of a document may take until it is written: as many as Kafka's largest message has. A
/// shared value counts each time, because it is written each time: `v = [v, v]`, 40 times, would take forever.
const MOST: usize = 1_000_000_000;
/// 1 January 1970 as Date#jd counts.
pub const JULIAN_1970: i64 = 2_440_588;

/// A value that no type takes becomes `Datum::Other`, and its encoder reports where it was. Returns the bytes that the
/// value takes. Raises an `EncodeError` if the value nests too deeply or is too large. A value that contains itself
/// twice at each level nests without end, so the error stops all further reading.
pub fn read(ruby: &Ruby, schema: Option<&str>, given: Value) -> Result<(Datum, usize), Error> {
    let (date, time, decimal) = (class(ruby, "Date"), class(ruby, "DateTime"), class(ruby, "BigDecimal"));
    let turns = RefCell::new(TimeSlice::new());
    let reader = DatumReader { ruby, schema, date, time, decimal, left: Cell::new(MOST), turns };
    let datum = reader.read(given, 0)?;
    Ok((datum, MOST - reader.left.get()))
}

/// `None`: not loaded, so there are no objects of it.
fn class(ruby: &Ruby, name: &str) -> Option<RClass> {
    let object = ruby.class_object();
    let defined: bool = object.funcall("const_defined?", (ruby.to_symbol(name),)).ok()?;
    if defined { object.const_get(name).ok() } else { None }
}

struct DatumReader<'a> {
    ruby: &'a Ruby,
    /// Its name, for errors.
    schema: Option<&'a str>,
    date: Option<RClass>,
    time: Option<RClass>,
    decimal: Option<RClass>,
    /// Of `MOST`.
    left: Cell<usize>,
    turns: RefCell<TimeSlice>,
}

impl DatumReader<'_> {
    fn read(&self, given: Value, depth: usize) -> Result<Datum, Error> {
        let refuse = |reason: &str| error::unfit(self.ruby, self.schema, reason);
        let turn = self.turns.borrow_mut().step(self.ruby);
        turn?;
        if depth > MAX_DEPTH {
            return Err(refuse(&format!("it is nested deeper than {MAX_DEPTH} levels, or contains itself")));
        }
        let datum = self.datum(given, depth)?;
        let left = self.left.get().checked_sub(size_of::<Datum>() + datum.bytes());
        self.left.set(left.ok_or_else(|| refuse(&format!("its values take more than {MOST} bytes")))?);
        Ok(datum)
    }

    fn datum(&self, given: Value, depth: usize) -> Result<Datum, Error> {
        if given.is_nil() {
            return Ok(Datum::Null);
        }
        if let Some(value) = bool_of(given) {
            return Ok(Datum::Bool(value));
        }
        if let Some(number) = Integer::from_value(given) {
            return number.to_i64().map(Datum::Int).or_else(|_| large(number));
        }
        if let Some(number) = Float::from_value(given) {
            return Ok(Datum::Float(number.to_f64()));
        }
        if let Some(name) = Symbol::from_value(given) {
            // In another encoding it is what its String is.
            return match name.name() {
                Ok(name) => Ok(Datum::Text(name.into_owned())),
                Err(_) => string(name.funcall("to_s", ())?),
            };
        }
        if let Some(text) = RString::from_value(given) {
            return string(text);
        }
        if let Some(list) = RArray::from_value(given) {
            // Collected, two items would take the place of four.
            let mut items = Vec::with_capacity(value::length(list));
            for index in 0..value::length(list) {
                items.push(self.read(value::element(list, index), depth + 1)?);
            }
            return Ok(Datum::Array(items));
        }
        if let Some(hash) = RHash::from_value(given) {
            return self.pairs(hash, depth);
        }
        self.object(given)
    }

    fn pairs(&self, hash: RHash, depth: usize) -> Result<Datum, Error> {
        let mut pairs = Vec::with_capacity(hash.len());
        let mut other = None;
        hash.foreach(|key: Value, value: Value| {
            match self.read(key, depth + 1)? {
                Datum::Text(key) | Datum::Foreign { text: Some(key), .. } => {
                    pairs.push((key, self.read(value, depth + 1)?));
                }
                _ => other = Some(key),
            }
            Ok(ForEach::Continue)
        })?;
        let wrong = |key: Value| Datum::Other(format!("a Hash with a key of class {}", key.class()));
        Ok(other.map_or(Datum::Map(pairs), wrong))
    }

    fn object(&self, given: Value) -> Result<Datum, Error> {
        let is = |class: Option<RClass>| class.is_some_and(|class| given.is_kind_of(class));
        if let Some((seconds, nanos)) = value::time(given) {
            return Ok(Datum::Time { seconds, nanos, offset: given.funcall("utc_offset", ())? });
        }
        if is(self.date) && !is(self.time) {
            return Ok(Datum::Date(given.funcall::<_, _, i64>("jd", ())? - JULIAN_1970));
        }
        if is(self.decimal) {
            let (sign, digits, _, exponent): (i64, String, i64, i64) = given.funcall("split", ())?;
            let number = format!("{}{digits}", if sign < 0 { "-" } else { "" });
            if let Some(unscaled) = decimal::parse(&number) {
                return Ok(Datum::Decimal { unscaled, scale: digits.len() as i64 - exponent });
            }
        }
        Ok(Datum::Other(format!("an object of class {}", given.class())))
    }
}

fn bool_of(given: Value) -> Option<bool> {
    let ruby = Ruby::get_with(given);
    if given.is_kind_of(ruby.class_true_class()) {
        return Some(true);
    }
    given.is_kind_of(ruby.class_false_class()).then_some(false)
}

/// Beyond 64 bits: a decimal may take it.
fn large(number: Integer) -> Result<Datum, Error> {
    let text: String = number.funcall("to_s", ())?;
    let unscaled = decimal::parse(&text);
    Ok(unscaled.map_or(Datum::Other(format!("an Integer of {} digits", text.len())), |unscaled| Datum::Decimal {
        unscaled,
        scale: 0,
    }))
}

/// Text, unless it is binary or broken.
fn string(text: RString) -> Result<Datum, Error> {
    let ruby = Ruby::get_with(text);
    let bytes = |text: RString| value::bytes(&text.as_value()).unwrap_or_default().to_vec();
    if text.enc_get() == ruby.ascii8bit_encindex() {
        let bytes = bytes(text);
        // Others, such as what was read from a socket, are text as well.
        return Ok(match String::from_utf8(bytes) {
            Ok(text) if text.is_ascii() => {
                let (bytes, encoding) = (text.clone().into_bytes(), String::new());
                Datum::Foreign { text: Some(text), bytes, encoding, is_text: false }
            }
            Ok(text) => Datum::Bytes(text.into_bytes()),
            Err(wrong) => Datum::Bytes(wrong.into_bytes()),
        });
    }
    let is_text = text.enc_get() == ruby.utf8_encindex() || text.enc_get() == ruby.usascii_encindex();
    if !is_text {
        let utf8 = text.funcall::<_, _, RString>("encode", ("UTF-8",)).ok();
        let utf8 = utf8.and_then(|text| String::from_utf8(bytes(text)).ok());
        let encoding = text.funcall::<_, _, Value>("encoding", ())?.to_string();
        return Ok(Datum::Foreign { text: utf8, bytes: bytes(text), encoding, is_text: true });
    }
    Ok(String::from_utf8(bytes(text)).map_or_else(|wrong| Datum::Bytes(wrong.into_bytes()), Datum::Text))
}
