//! Hashes whose keys came before begin as a copy of an earlier one, in which only the values are written anew: no key is
//! hashed or compared. For small Hashes, which Ruby keeps as a list of pairs; the way to those is Ruby's own affair, so
//! it is tried out once, and where it is another one all Hashes are made in Ruby's way.

use rb_sys::{VALUE, ruby_value_type};
use std::cell::Cell;
use std::ffi::c_long;
use std::sync::atomic::{AtomicBool, Ordering};

/// Direct-mapped by their keys.
const COUNT: usize = 256;
/// Ruby keeps larger Hashes in another way.
const MOST: usize = 8;

/// A Ractor's; whoever owns it marks `objects`, so that they stay in their places. Ruby's allocations may run the mark
/// function at any time, therefore cells.
pub struct Moulds(Box<[Mould]>);

/// Whether the way to the pairs is the one that `values` takes.
static KNOWN_WAY: AtomicBool = AtomicBool::new(false);

#[derive(Default)]
struct Mould {
    /// A Hash with these keys; 0: none, and then the keys are only what came last, maybe dead.
    hash: Cell<VALUE>,
    count: Cell<usize>,
    keys: [Cell<VALUE>; MOST],
}

impl Moulds {
    pub const BYTES: usize = COUNT * size_of::<Mould>();

    pub fn new() -> Self {
        Self((0..COUNT).map(|_| Mould::default()).collect())
    }

    pub fn objects(&self) -> impl Iterator<Item = VALUE> {
        let made = self.0.iter().filter(|mould| mould.hash.get() != 0);
        made.flat_map(|mould| mould.keys[..mould.count.get()].iter().chain([&mould.hash])).map(Cell::get)
    }

    /// A new Hash of these keys and values in turn, `None` where there is no such mould: there is one the second time.
    ///
    /// # Safety
    /// Ruby's lock is held, these are the Ractor's own moulds, and the pairs are alive. Calls no Ruby code.
    pub unsafe fn cast(&self, pairs: &[VALUE]) -> Option<VALUE> {
        let count = pairs.len() / 2;
        if count == 0 || count > MOST || !in_use() {
            return None;
        }
        let keys = || pairs.iter().step_by(2);
        let print = keys().fold(count as u64, |print, key| print.rotate_left(9) ^ *key);
        let mould = &self.0[(print.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % COUNT];
        if mould.count.get() != count || !mould.keys.iter().zip(keys()).all(|(own, key)| own.get() == *key) {
            mould.hash.set(0);
            mould.count.set(count);
            mould.keys.iter().zip(keys()).for_each(|(own, key)| own.set(*key));
            return None;
        }
        // SAFETY: the caller's promise. A new Hash is written to before Ruby is called again: no collection has seen it.
        unsafe {
            if mould.hash.get() == 0 {
                mould.hash.set(made(pairs)?);
            }
            let hash = rb_sys::rb_hash_dup(mould.hash.get());
            let places = values(hash);
            for (index, value) in pairs.iter().skip(1).step_by(2).enumerate() {
                *places.add(2 * index) = *value;
            }
            Some(hash)
        }
    }
}

/// Tries out the way to the pairs; at Init.
///
/// # Safety
/// Ruby's lock is held; may raise for want of memory.
pub unsafe fn try_out() {
    // SAFETY: small numbers; a Hash on the machine's stack, as large as it gets without being kept in another way.
    unsafe {
        let pairs: [VALUE; 2 * MOST] = std::array::from_fn(|index| rb_sys::LONG2FIX(1000 + index as c_long));
        let hash = rb_sys::rb_hash_new();
        rb_sys::rb_hash_bulk_insert(pairs.len() as c_long, pairs.as_ptr(), hash);
        let first = values(hash).sub(1);
        KNOWN_WAY.store((0..pairs.len()).all(|index| *first.add(index) == pairs[index]), Ordering::Relaxed);
        std::hint::black_box(hash);
    }
}

/// Whether Hashes are made so, in this Ruby.
pub fn in_use() -> bool {
    KNOWN_WAY.load(Ordering::Relaxed)
}

/// Where the value of the first pair is; a key and a value further is the next one.
///
/// # Safety
/// A Hash of 1 to `MOST` pairs, none of which was deleted.
unsafe fn values(hash: VALUE) -> *mut VALUE {
    let words = hash as *mut VALUE;
    // SAFETY: two words of every object's, the default value, a word about the pairs, then those; before 3.3 a pointer to them
    // is the third word.
    unsafe { if cfg!(ruby_gte_3_3) { words.add(5) } else { (*words.add(2) as *mut VALUE).add(1) } }
}

/// The Hash of a mould: with these keys and nil each. `None` if a key comes twice, or has its own idea of equality.
///
/// # Safety
/// As of `cast`.
unsafe fn made(pairs: &[VALUE]) -> Option<VALUE> {
    // SAFETY: live values; the Hash is new, and on the machine's stack.
    unsafe {
        let plain = |key: VALUE| {
            rb_sys::SPECIAL_CONST_P(key)
                || matches!(
                    rb_sys::RB_BUILTIN_TYPE(key),
                    ruby_value_type::RUBY_T_STRING | ruby_value_type::RUBY_T_SYMBOL
                )
        };
        if !pairs.iter().step_by(2).all(|key| plain(*key)) {
            return None;
        }
        let hash = rb_sys::rb_hash_new();
        rb_sys::rb_hash_bulk_insert(pairs.len() as c_long, pairs.as_ptr(), hash);
        let count = pairs.len() / 2;
        if rb_sys::RHASH_SIZE(hash) != count {
            return None;
        }
        let places = values(hash);
        (0..count).for_each(|index| *places.add(2 * index) = rb_sys::Qnil as VALUE);
        rb_sys::RB_OBJ_FREEZE(hash);
        Some(hash)
    }
}
