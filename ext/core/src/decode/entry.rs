//! The 64-bit entry that stands for one value: tag in bits 60-63, length in bits 32-59, offset in bits 0-31.
//!
//! ```text
//! NULL FALSE TRUE   nothing else
//! INT               the value, 60 bits, signed
//! FLOAT             offset = index in the tape of its 64 bits
//! WIDE              offset = index in the tape of what does not fit an entry, length = what that is: SIGNED and
//!                   UNSIGNED are 64 bits, an EXTENSION is its type and a BYTES entry, a DECIMAL its scale and a
//!                   BYTES entry, a DATE its days since 1970, MILLIS, MICROS and NANOS are a time since 1970,
//!                   FOREIGN_KEYS are an object of which an EXTENSION is a key: its OBJECT entry
//! ARRAY OBJECT      offset = index in the tape of the first child, length = elements / pairs;
//!                   children are contiguous, a pair is key entry + value entry
//! STRING + flags    offset and length in bytes, in the chunk or (OWNED) in the tree's text
//! BYTES BROKEN      the same, not flagged WIDE_TEXT: bytes that are no text, text that is no UTF-8
//! ```

pub(super) const NULL: u64 = 0;
pub(super) const FALSE: u64 = 1;
pub(super) const TRUE: u64 = 2;
pub(super) const INT: u64 = 3;
pub(super) const WIDE: u64 = 4;
pub(super) const FLOAT: u64 = 5;
pub(super) const ARRAY: u64 = 6;
pub(super) const OBJECT: u64 = 7;
/// Plus any of the two flags below: tags 8 to 11. Above it all are bytes.
pub(super) const STRING: u64 = 8;
/// String flag: a byte above 0x7f occurs.
pub(super) const WIDE_TEXT: u64 = 1;
/// String flag: the bytes are in the tree's text (they had escapes), not in the chunk.
pub(super) const OWNED: u64 = 2;
/// Maybe OWNED: tags 12 and 14.
pub(super) const BYTES: u64 = 12;
/// Maybe OWNED: tags 13 and 15.
pub(super) const BROKEN: u64 = 13;

/// What a WIDE entry is, in its length.
pub(super) const SIGNED: usize = 0;
pub(super) const UNSIGNED: usize = 1;
pub(super) const EXTENSION: usize = 2;
pub(super) const DECIMAL: usize = 3;
pub(super) const DATE: usize = 4;
/// Units since 1970, one kind for each unit.
pub(super) const MILLIS: usize = 5;
pub(super) const MICROS: usize = 6;
pub(super) const NANOS: usize = 7;
pub(super) const FOREIGN_KEYS: usize = 8;

/// The largest length that fits an entry, and so the longest document: none of its strings and containers is longer.
pub(super) const MAX_LENGTH: usize = (1 << 28) - 1;

/// An entry without length and offset.
#[inline(always)]
pub(super) const fn plain(tag: u64) -> u64 {
    tag << 60
}

/// An entry with length and offset, which fit (`Tree::parse_json` sees to it).
#[inline(always)]
pub(super) const fn sized(tag: u64, length: usize, offset: usize) -> u64 {
    tag << 60 | (length as u64) << 32 | offset as u64
}

/// The tree entry of an integer that fits 60 bits.
#[inline(always)]
pub(super) fn small_int(value: i64) -> Option<u64> {
    let shifted = value << 4;
    (shifted >> 4 == value).then_some(INT << 60 | (shifted as u64) >> 4)
}

#[inline(always)]
pub(super) const fn tag(entry: u64) -> u64 {
    entry >> 60
}

#[inline(always)]
pub(super) const fn length(entry: u64) -> usize {
    (entry >> 32) as usize & MAX_LENGTH
}

#[inline(always)]
pub(super) const fn offset(entry: u64) -> usize {
    entry as u32 as usize
}

/// Value of an INT entry.
#[inline(always)]
pub(super) const fn int(entry: u64) -> i64 {
    (entry << 4) as i64 >> 4
}

/// Whether only the application knows what is inside.
#[inline(always)]
pub(super) const fn is_foreign(entry: u64) -> bool {
    tag(entry) == WIDE && matches!(length(entry), EXTENSION | FOREIGN_KEYS)
}
