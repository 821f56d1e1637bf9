//! Keys of Hashes that came before: their interned Strings and their Symbols, found without reading Ruby's objects.

use rb_sys::VALUE;
use std::cell::Cell;
use std::ffi::c_long;

/// Direct-mapped by a hash of their bytes.
const COUNT: usize = 2048;
/// Longer keys are rarely keys that come again.
const MOST_BYTES: usize = 64;

/// The keys of one Ractor. Its owner marks `objects`. Ruby's allocations may run the mark function at any time,
/// therefore cells.
pub struct Keys(Box<[Cell<InternedKey>]>);

#[derive(Clone, Copy, Default)]
struct InternedKey {
    print: Print,
    /// Its interned String; 0 for none yet.
    string: VALUE,
    /// Its Symbol, once it was requested; 0 before.
    symbol: VALUE,
}

/// Length, first and last eight bytes of a key: all of it up to 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Print {
    length: usize,
    first: u64,
    last: u64,
}

impl Keys {
    pub const BYTES: usize = COUNT * size_of::<InternedKey>();

    pub fn new() -> Self {
        Self((0..COUNT).map(|_| Cell::default()).collect())
    }

    /// Some of them 0.
    pub fn objects(&self) -> impl Iterator<Item = VALUE> {
        self.0.iter().map(Cell::get).flat_map(|known| [known.string, known.symbol])
    }

    /// # Safety
    /// These are the Ractor's own keys.
    #[inline(always)]
    pub unsafe fn string(&self, bytes: &[u8]) -> VALUE {
        // SAFETY: the caller's promise.
        unsafe { self.slot(bytes).map_or_else(|| intern(bytes), |slot| slot.get().string) }
    }

    /// # Safety
    /// As of `string`. Raises where the bytes are no UTF-8.
    pub unsafe fn symbol(&self, bytes: &[u8]) -> VALUE {
        // SAFETY: the caller's promise.
        unsafe {
            let Some(slot) = self.slot(bytes) else { return rb_sys::rb_str_intern(intern(bytes)) };
            let mut known = slot.get();
            if known.symbol == 0 {
                known.symbol = rb_sys::rb_str_intern(known.string);
                slot.set(known);
            }
            known.symbol
        }
    }

    /// The key's place, where it is from now on; `None` if it is none to be kept.
    ///
    /// # Safety
    /// As of `string`.
    #[inline(always)]
    unsafe fn slot(&self, bytes: &[u8]) -> Option<&Cell<InternedKey>> {
        let print = Print::of(bytes)?;
        let slot = &self.0[print.hash() % COUNT];
        let known = slot.get();
        // SAFETY: a String that is kept is alive (marked).
        unsafe {
            if known.print != print || (bytes.len() > 16 && !is(known.string, bytes)) {
                slot.set(InternedKey { print, string: intern(bytes), symbol: 0 });
            }
        }
        Some(slot)
    }
}

/// # Safety
/// A live String of as many bytes.
unsafe fn is(string: VALUE, bytes: &[u8]) -> bool {
    // SAFETY: the caller's promise; the slice is not kept.
    unsafe { std::slice::from_raw_parts(rb_sys::RSTRING_PTR(string).cast::<u8>(), bytes.len()) == bytes }
}

/// # Safety
/// Only the GVL contract (see `value`).
unsafe fn intern(bytes: &[u8]) -> VALUE {
    // SAFETY: a live slice, which Ruby copies.
    unsafe { rb_sys::rb_enc_interned_str(bytes.as_ptr().cast(), bytes.len() as c_long, rb_sys::rb_utf8_encoding()) }
}

impl Print {
    /// `None`: empty, or too long to be kept.
    #[inline(always)]
    fn of(bytes: &[u8]) -> Option<Self> {
        let (first, last) = match *bytes {
            [] => return None,
            [a] => (a.into(), 0),
            [a, b] => (a.into(), b.into()),
            [a, b, c] => (a.into(), u64::from(b) << 8 | u64::from(c)),
            _ if bytes.len() < 8 => {
                (u32::from_le_bytes(*bytes.first_chunk()?).into(), u32::from_le_bytes(*bytes.last_chunk()?).into())
            }
            _ if bytes.len() <= MOST_BYTES => {
                (u64::from_le_bytes(*bytes.first_chunk()?), u64::from_le_bytes(*bytes.last_chunk()?))
            }
            _ => return None,
        };
        Some(Self { length: bytes.len(), first, last })
    }

    /// Keys that differ only in the middle just share a slot.
    #[inline(always)]
    fn hash(self) -> usize {
        let mixed = (self.first ^ self.last.rotate_left(23) ^ self.length as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize
    }
}
