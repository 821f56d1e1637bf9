//! MessagePack: <https://github.com/msgpack/msgpack/blob/master/spec.md>. Accepts what Ruby's `MessagePack.unpack`
//! accepts and extension types of any number.
//!
//! Nothing is allocated by a length that was read: a container takes room as its elements come, which have a byte each.

use super::Refusal;
use super::tree::{Root, Tree};
use super::writer::Writer;
use std::ops::Range;

/// Containers open at a time, as in Ruby's msgpack; an empty one is never open.
const MAX_DEPTH: usize = 128;
/// Keys of a document that are NaN or contain one, at most. Such a key has the hash of every other one and equals none,
/// so Ruby compares it with all of them.
const MOST_NAN_KEYS: usize = 1000;
/// The extension type that is MessagePack's own.
const TIMESTAMP: i8 = -1;

/// A container whose end has not come.
#[derive(Clone, Copy, Default)]
struct OpenContainer {
    /// Its start: `Writer::open`.
    first: usize,
    /// Values (of an object: keys and values) that it still wants.
    left: u64,
    object: bool,
    /// It is a key, or within one.
    key: bool,
}

impl OpenContainer {
    /// Whether what comes next is a key, or within one.
    fn wants_key(&self) -> bool {
        self.key || (self.object && self.left.is_multiple_of(2))
    }
}

struct MsgpackReader<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
    /// Floats so far that are no number.
    nans: u64,
}

impl Tree {
    /// Reads the MessagePack value `bytes[start..end]` and appends it; `bytes` as for `parse_json`.
    ///
    /// # Errors
    /// [`Refusal::Malformed`], also for documents that are too large. The tree is then unchanged.
    pub fn parse_msgpack(&mut self, bytes: &[u8], start: usize, end: usize) -> Result<Root, Refusal> {
        self.write(bytes, start..end, |writer, range| read(writer, bytes, range))
    }
}

/// Writes the document `bytes[start..end]`.
fn read(writer: &mut Writer, bytes: &[u8], range: Range<usize>) -> Result<(), Refusal> {
    let mut reader = MsgpackReader { bytes, at: range.start, end: range.end, nans: 0 };
    let mut frames = [OpenContainer::default(); MAX_DEPTH];
    let (mut depth, mut nans, mut nan_keys) = (0, 0, 0);
    loop {
        if let Some((left, object)) = reader.value(writer)? {
            let key = around(&frames, depth).is_some_and(OpenContainer::wants_key);
            let frame = frames.get_mut(depth).ok_or(Refusal::malformed("it is nested too deeply"))?;
            *frame = OpenContainer { first: writer.open(), left, object, key };
            depth += 1;
            continue;
        }
        if reader.nans > nans {
            nans = reader.nans;
            nan_keys += usize::from(around(&frames, depth).is_some_and(OpenContainer::wants_key));
            if nan_keys > MOST_NAN_KEYS {
                return Err(TOO_MANY_NAN_KEYS);
            }
        }
        // A value is whole, and maybe with it containers around it.
        while let Some(frame) = frames.get_mut(..depth).and_then(<[OpenContainer]>::last_mut) {
            frame.left -= 1;
            if frame.left > 0 {
                break;
            }
            if frame.object {
                writer.object(frame.first)?
            } else {
                writer.array(frame.first)?
            }
            depth -= 1;
        }
        if depth == 0 {
            break;
        }
    }
    match reader.end - reader.at {
        0 => Ok(()),
        extra => Err(Refusal::Malformed(format!("{extra} extra bytes after the value").into())),
    }
}

/// The container that the next value is in.
fn around(frames: &[OpenContainer], depth: usize) -> Option<&OpenContainer> {
    frames.get(..depth)?.last()
}

impl MsgpackReader<'_> {
    /// Writes the value that starts here. For a container that is not empty, returns how many values follow and whether
    /// they are keys and values.
    #[inline]
    #[allow(clippy::too_many_lines, reason = "one short arm for each type of MessagePack")]
    fn value(&mut self, writer: &mut Writer) -> Result<Option<(u64, bool)>, Refusal> {
        let [first] = self.take()?;
        match first {
            0x00..=0x7f => writer.int(first.into())?,
            0x80..=0x8f => return self.open(writer, u64::from(first & 0x0f), true),
            0x90..=0x9f => return self.open(writer, u64::from(first & 0x0f), false),
            0xa0..=0xbf => writer.text(self.skip(u64::from(first & 0x1f))?)?,
            0xc0 => writer.null()?,
            0xc1 => return Err(Refusal::malformed("invalid byte 0xc1")),
            0xc2 | 0xc3 => writer.bool(first == 0xc3)?,
            0xc4..=0xc6 => {
                let length = self.length(first - 0xc4)?;
                writer.bytes(self.skip(length)?)?;
            }
            0xc7..=0xc9 => {
                let length = self.length(first - 0xc7)?;
                self.extension(writer, length)?;
            }
            0xca => {
                let value = f32::from_be_bytes(self.take()?);
                self.float(writer, value.into())?;
            }
            0xcb => {
                let value = f64::from_be_bytes(self.take()?);
                self.float(writer, value)?;
            }
            0xcc..=0xce => {
                let value = self.length(first - 0xcc)?;
                writer.unsigned(value)?;
            }
            0xcf => writer.unsigned(u64::from_be_bytes(self.take()?))?,
            0xd0 => writer.int(i8::from_be_bytes(self.take()?).into())?,
            0xd1 => writer.int(i16::from_be_bytes(self.take()?).into())?,
            0xd2 => writer.int(i32::from_be_bytes(self.take()?).into())?,
            0xd3 => writer.int(i64::from_be_bytes(self.take()?))?,
            0xd4..=0xd8 => self.extension(writer, 1 << (first - 0xd4))?,
            0xd9..=0xdb => {
                let length = self.length(first - 0xd9)?;
                writer.text(self.skip(length)?)?;
            }
            0xdc | 0xdd => {
                let count = self.length(first - 0xdc + 1)?;
                return self.open(writer, count, false);
            }
            0xde | 0xdf => {
                let count = self.length(first - 0xde + 1)?;
                return self.open(writer, count, true);
            }
            0xe0..=0xff => writer.int((first as i8).into())?,
        }
        Ok(None)
    }

    fn open(&mut self, writer: &mut Writer, count: u64, object: bool) -> Result<Option<(u64, bool)>, Refusal> {
        if count > 0 {
            return Ok(Some((if object { count * 2 } else { count }, object)));
        }
        let first = writer.open();
        if object {
            writer.object(first)?
        } else {
            writer.array(first)?
        }
        Ok(None)
    }

    #[inline]
    fn float(&mut self, writer: &mut Writer, value: f64) -> Result<(), Refusal> {
        self.nans += u64::from(value.is_nan());
        writer.float(value)
    }

    fn extension(&mut self, writer: &mut Writer, length: u64) -> Result<(), Refusal> {
        let [kind] = self.take()?;
        if kind as i8 == TIMESTAMP && !matches!(length, 4 | 8 | 12) {
            return Err(Refusal::malformed("a timestamp has 4, 8 or 12 bytes"));
        }
        writer.extension(kind as i8, self.skip(length)?)
    }

    /// An unsigned number of 1, 2 or 4 bytes: `size` is 0, 1 or 2.
    #[inline]
    fn length(&mut self, size: u8) -> Result<u64, Refusal> {
        Ok(match size {
            0 => u8::from_be_bytes(self.take()?).into(),
            1 => u16::from_be_bytes(self.take()?).into(),
            _ => u32::from_be_bytes(self.take()?).into(),
        })
    }

    #[inline]
    fn take<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], Refusal> {
        let range = self.skip(SIZE as u64)?;
        self.bytes.get(range).and_then(<[u8]>::first_chunk).copied().ok_or(CUT_OFF)
    }

    /// The position of the next `length` bytes.
    #[inline]
    fn skip(&mut self, length: u64) -> Result<Range<usize>, Refusal> {
        if length > (self.end - self.at) as u64 {
            return Err(CUT_OFF);
        }
        let start = self.at;
        self.at += length as usize;
        Ok(start..self.at)
    }
}

const TOO_MANY_NAN_KEYS: Refusal = Refusal::malformed("more than 1000 map keys are NaN or contain it");
const CUT_OFF: Refusal = Refusal::malformed("it ends too early");
