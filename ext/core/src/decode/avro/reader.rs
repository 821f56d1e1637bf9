//! Reads a document by a plan into the tree. Nothing is allocated by a length that was read: containers take room as
//! their items come.

use super::MAX_DEPTH;
use super::decimal::{MOST_BYTES, MOST_DIGITS};
use super::plan::{Bytes, DURATION, FieldPlan, IntegerForm, Plan, ReadStep, StepId, shifted};
use crate::decode::Refusal;
use crate::decode::entry;
use crate::decode::node::Unit;
use crate::decode::writer::Writer;
use std::ops::Range;

/// The most items and skipped records of a document that take no bytes in it (nulls, empty records). Without a limit,
/// their number alone would cost memory and time.
const MOST_EMPTY: usize = 1 << 16;

/// A decimal has at most the bytes that its precision needs, plus these, because some writers pad.
const SPARE_BYTES: usize = 64;

const ENDS: Refusal = Refusal::malformed("it ends too early");

/// Writes the document `bytes[range]`, of which nothing may be left.
pub(super) fn read(plan: &Plan, writer: &mut Writer, bytes: &[u8], range: Range<usize>) -> Result<(), Refusal> {
    let blob = writer.append(&plan.blob)?;
    let mut reader = AvroReader { plan, bytes, at: range.start, end: range.end, blob, owned: None, depth: 0, empty: 0 };
    reader.value(writer, plan.root)?;
    match reader.end - reader.at {
        0 => Ok(()),
        rest => Err(Refusal::Malformed(format!("{rest} extra bytes after the value").into())),
    }
}

struct AvroReader<'a> {
    plan: &'a Plan,
    /// The chunk, or the plan's blob.
    bytes: &'a [u8],
    at: usize,
    end: usize,
    /// The blob's start in the tree's text.
    blob: usize,
    /// For `bytes` outside the chunk: their start in the tree's text.
    owned: Option<usize>,
    depth: usize,
    /// Items, and records read over, without bytes so far.
    empty: usize,
}

impl AvroReader<'_> {
    #[allow(clippy::too_many_lines, reason = "one short arm for each type of a schema")]
    fn value(&mut self, to: &mut Writer, step: StepId) -> Result<(), Refusal> {
        match &self.plan.steps[step] {
            ReadStep::Null => to.null(),
            ReadStep::Boolean => match self.byte()? {
                value @ (0 | 1) => to.bool(value == 1),
                other => malformed(format!("{other} is not a boolean")),
            },
            ReadStep::Integer { wide, form } => {
                let value = if *wide { self.long()? } else { self.int()?.into() };
                match form {
                    IntegerForm::Plain => to.int(value),
                    IntegerForm::Float => to.float((value as f32).into()),
                    IntegerForm::Double => to.float(value as f64),
                    IntegerForm::Date => to.stored(entry::WIDE, entry::DATE, &[value as u64]),
                    IntegerForm::Time(unit) => to.stored(entry::WIDE, kind(*unit), &[value as u64]),
                }
            }
            ReadStep::Float => to.float(f32::from_le_bytes(self.take()?).into()),
            ReadStep::Double => to.float(f64::from_le_bytes(self.take()?)),
            ReadStep::Bytes(bytes) => {
                let range = self.sized()?;
                self.bytes(to, *bytes, range)
            }
            ReadStep::Fixed(size, bytes) => {
                let range = self.skip(*size)?;
                self.bytes(to, *bytes, range)
            }
            ReadStep::Rest(bytes) => {
                let range = self.skip(self.end - self.at)?;
                self.bytes(to, *bytes, range)
            }
            ReadStep::Enum(symbols) => match symbols.get(self.index()?) {
                Some(Ok(entry)) => to.entry(shifted(*entry, self.blob)),
                Some(Err(why)) => malformed(why.clone()),
                None => Err(Refusal::malformed("an enum has no such symbol")),
            },
            ReadStep::Union(branches) => match branches.get(self.index()?) {
                Some(branch) => self.value(to, *branch),
                None => Err(Refusal::malformed("a union has no such branch")),
            },
            ReadStep::Array(items) => self.nested(|this| {
                let first = to.open();
                this.blocks(|this| this.value(to, *items))?;
                to.array(first)
            }),
            ReadStep::Map(values) => self.nested(|this| {
                let first = to.open();
                this.blocks(|this| {
                    let key = this.sized()?;
                    this.text(to, key)?;
                    this.value(to, *values)
                })?;
                to.object(first)
            }),
            ReadStep::Record(fields) => self.nested(|this| {
                let first = to.open();
                fields.iter().try_for_each(|field| this.field(to, field))?;
                to.object(first)
            }),
            ReadStep::Unreadable(why) => malformed(why.clone()),
        }
    }

    fn field(&mut self, to: &mut Writer, field: &FieldPlan) -> Result<(), Refusal> {
        match field {
            FieldPlan::Read { key, step } => {
                to.entry(shifted(*key, self.blob))?;
                self.value(to, *step)
            }
            FieldPlan::Skip(step) => self.pass(*step),
            FieldPlan::Default { key, step, start, end } => {
                to.entry(shifted(*key, self.blob))?;
                let bytes = &self.plan.blob;
                let (plan, blob, depth, empty) = (self.plan, self.blob, self.depth, self.empty);
                let owned = Some(blob);
                AvroReader { plan, bytes, at: *start, end: *end, blob, owned, depth, empty }.value(to, *step)
            }
        }
    }

    /// Reads over a value.
    fn pass(&mut self, step: StepId) -> Result<(), Refusal> {
        match &self.plan.steps[step] {
            ReadStep::Null => Ok(()),
            // Its bytes cannot be counted, so nothing after them can be read.
            ReadStep::Unreadable(why) => malformed(why.clone()),
            ReadStep::Boolean => self.skip(1).map(drop),
            ReadStep::Integer { .. } | ReadStep::Enum(_) => self.long().map(drop),
            ReadStep::Float => self.skip(4).map(drop),
            ReadStep::Double => self.skip(8).map(drop),
            ReadStep::Bytes(_) => self.sized().map(drop),
            ReadStep::Fixed(size, _) => self.skip(*size).map(drop),
            ReadStep::Rest(_) => self.skip(self.end - self.at).map(drop),
            ReadStep::Union(branches) => match branches.get(self.index()?) {
                Some(branch) => self.pass(*branch),
                None => Err(Refusal::malformed("a union has no such branch")),
            },
            ReadStep::Array(items) => self.nested(|this| this.blocks(|this| this.pass(*items))),
            ReadStep::Map(values) => self.nested(|this| {
                this.blocks(|this| {
                    this.sized()?;
                    this.pass(*values)
                })
            }),
            ReadStep::Record(fields) => {
                let before = self.at;
                self.nested(|this| {
                    fields.iter().try_for_each(|field| match field {
                        FieldPlan::Read { step, .. } | FieldPlan::Skip(step) => this.pass(*step),
                        FieldPlan::Default { .. } => Ok(()),
                    })
                })?;
                // It may have two of its kind inside, and these two each, and so on.
                if self.at == before { self.count_empty() } else { Ok(()) }
            }
        }
    }

    fn nested(&mut self, inside: impl FnOnce(&mut Self) -> Result<(), Refusal>) -> Result<(), Refusal> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Refusal::malformed("it is nested deeper than 100 levels"));
        }
        inside(self)?;
        self.depth -= 1;
        Ok(())
    }

    /// Items in blocks. Each block starts with its number of items, negative if its size in bytes follows. 0 ends the
    /// list.
    fn blocks(&mut self, mut item: impl FnMut(&mut Self) -> Result<(), Refusal>) -> Result<(), Refusal> {
        loop {
            let count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                self.long()?;
            }
            for _ in 0..count.unsigned_abs() {
                let (at, empty) = (self.at, self.empty);
                item(self)?;
                // A record that was passed counts itself.
                if self.at == at && self.empty == empty {
                    self.count_empty()?;
                }
            }
        }
    }

    fn count_empty(&mut self) -> Result<(), Refusal> {
        self.empty += 1;
        if self.empty > MOST_EMPTY {
            return Err(Refusal::malformed("it has more than 65536 items without bytes"));
        }
        Ok(())
    }

    #[allow(clippy::too_many_lines, reason = "one short arm for each type of a schema")]
    fn bytes(&mut self, to: &mut Writer, made: Bytes, range: Range<usize>) -> Result<(), Refusal> {
        match made {
            Bytes::Plain => {
                let entry = self.spanned(entry::BYTES, &range);
                to.entry(entry)
            }
            Bytes::Text => self.text(to, range),
            Bytes::Decimal { precision, scale } => {
                if range.len() > precision as usize / 2 + SPARE_BYTES {
                    return malformed(format!("a decimal of precision {precision} has {} bytes", range.len()));
                }
                self.decimal(to, range, scale as i32)
            }
            Bytes::BigDecimal => {
                // Inside of the bytes: bytes, and an int.
                let (at, end) = (self.at, self.end);
                (self.at, self.end) = (range.start, range.end);
                let unscaled = self.sized()?;
                let scale = self.int()?;
                (self.at, self.end) = (at, end);
                if unscaled.len() > MOST_BYTES {
                    let size = unscaled.len();
                    return malformed(format!("a big-decimal has {size} bytes; at most {MOST_BYTES} are read"));
                }
                // To compute with such a number takes as many digits: 2 GB for the largest scale.
                if i64::from(scale).abs() > MOST_DIGITS {
                    return malformed(format!("a big-decimal has the scale {scale}; at most {MOST_DIGITS} is read"));
                }
                self.decimal(to, unscaled, scale)
            }
            Bytes::Uuid => {
                let text = uuid(&self.bytes[range]);
                let start = to.append(text.as_bytes())?;
                to.entry(entry::sized(entry::STRING | entry::OWNED, text.len(), start))
            }
            Bytes::Duration => {
                let first = to.open();
                let mut key = 0;
                for (name, number) in DURATION.iter().zip(self.bytes[range].chunks_exact(4)) {
                    to.entry(entry::sized(entry::STRING | entry::OWNED, name.len(), self.blob + key))?;
                    key += name.len();
                    to.int(number.iter().rev().fold(0, |value, byte| value << 8 | i64::from(*byte)))?;
                }
                to.object(first)
            }
        }
    }

    fn decimal(&mut self, to: &mut Writer, range: Range<usize>, scale: i32) -> Result<(), Refusal> {
        let unscaled = self.spanned(entry::BYTES, &range);
        to.stored(entry::WIDE, entry::DECIMAL, &[i64::from(scale) as u64, unscaled])
    }

    #[inline]
    fn text(&mut self, to: &mut Writer, range: Range<usize>) -> Result<(), Refusal> {
        match self.owned {
            None => to.text(range),
            Some(_) => {
                let wide = if self.bytes[range.clone()].is_ascii() { 0 } else { entry::WIDE_TEXT };
                to.entry(self.spanned(entry::STRING | wide, &range))
            }
        }
    }

    /// The entry for these of the bytes.
    fn spanned(&self, tag: u64, range: &Range<usize>) -> u64 {
        match self.owned {
            None => entry::sized(tag, range.len(), range.start),
            Some(base) => entry::sized(tag | entry::OWNED, range.len(), base + range.start),
        }
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, Refusal> {
        let byte = *self.bytes.get(self.at..self.end).and_then(<[u8]>::first).ok_or(ENDS)?;
        self.at += 1;
        Ok(byte)
    }

    /// Zigzag, seven bits a byte.
    #[inline]
    fn long(&mut self) -> Result<i64, Refusal> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return Err(Refusal::malformed("a number has more than 64 bits"));
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
            shift += 7;
        }
    }

    #[inline]
    fn int(&mut self) -> Result<i32, Refusal> {
        let value = self.long()?;
        i32::try_from(value).map_err(|_| Refusal::malformed("an int has more than 32 bits"))
    }

    /// Of a symbol or a branch; one too large is none.
    #[inline]
    fn index(&mut self) -> Result<usize, Refusal> {
        Ok(usize::try_from(self.long()?).unwrap_or(usize::MAX))
    }

    /// The bytes after a length.
    #[inline]
    fn sized(&mut self) -> Result<Range<usize>, Refusal> {
        let length = self.long()?;
        match usize::try_from(length) {
            Ok(length) => self.skip(length),
            Err(_) => malformed(format!("{length} is not a valid length")),
        }
    }

    #[inline]
    fn skip(&mut self, length: usize) -> Result<Range<usize>, Refusal> {
        if length > self.end - self.at {
            return Err(ENDS);
        }
        self.at += length;
        Ok(self.at - length..self.at)
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let range = self.skip(N)?;
        self.bytes.get(range).and_then(<[u8]>::first_chunk).copied().ok_or(ENDS)
    }
}

fn malformed<T>(why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Malformed(why.into().into()))
}

/// 16 bytes as "8-4-4-4-12" digits.
pub(super) fn uuid(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.extend([byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap_or('0')));
    }
    text
}

/// A time's kind of WIDE entry.
fn kind(unit: Unit) -> usize {
    match unit {
        Unit::Millis => entry::MILLIS,
        Unit::Micros => entry::MICROS,
        Unit::Nanos => entry::NANOS,
    }
}
