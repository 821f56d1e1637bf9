//! Hashes whose keys came before start as a copy of an earlier one, and only the values are written. So no key is
//! hashed or compared. Ruby keeps the pairs of a small Hash as a list, those of a larger one in a table. Their layout
//! is internal to Ruby, so it is tried out once. If it differs, Hashes are made in Ruby's own way.

use rb_sys::{VALUE, ruby_value_type};
use std::cell::Cell;
use std::ffi::c_long;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Direct-mapped by their keys.
const COUNT: usize = 256;
/// Pairs of the largest Hash that is a list.
const LIST: usize = 8;
/// Of the largest for which there are templates.
const MOST: usize = 32;

/// The templates of one Ractor. Its owner marks `objects`, so that they stay in their places. Ruby's allocations may
/// run the mark function at any time, therefore cells.
pub struct HashTemplates(Box<[HashTemplate]>);

/// `values` knows the layout of Hashes with up to this many pairs: 0, `LIST` or `MOST`.
static KNOWN: AtomicUsize = AtomicUsize::new(0);

struct HashTemplate {
    /// A Hash with these keys. 0: none, and then the keys are only those that came last, maybe dead.
    hash: Cell<VALUE>,
    count: Cell<usize>,
    keys: [Cell<VALUE>; MOST],
}

impl HashTemplates {
    pub const BYTES: usize = COUNT * size_of::<HashTemplate>();

    pub fn new() -> Self {
        let empty = || HashTemplate { hash: Cell::new(0), count: Cell::new(0), keys: [const { Cell::new(0) }; MOST] };
        Self((0..COUNT).map(|_| empty()).collect())
    }

    pub fn objects(&self) -> impl Iterator<Item = VALUE> {
        let made = self.0.iter().filter(|template| template.hash.get() != 0);
        made.flat_map(|template| template.keys[..template.count.get()].iter().chain([&template.hash])).map(Cell::get)
    }

    /// A new Hash from these keys and values in turn. `None` if there is no template for the keys yet: the second time
    /// there is one.
    ///
    /// # Safety
    /// These are the Ractor's own templates, and the pairs are alive. Calls no Ruby code.
    pub unsafe fn cast(&self, pairs: &[VALUE]) -> Option<VALUE> {
        let count = pairs.len() / 2;
        if count == 0 || count > KNOWN.load(Ordering::Relaxed) {
            return None;
        }
        let keys = || pairs.iter().step_by(2);
        let print = keys().fold(count as u64, |print, key| print.rotate_left(9) ^ *key);
        let template = &self.0[(print.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % COUNT];
        if template.count.get() != count || !template.keys.iter().zip(keys()).all(|(own, key)| own.get() == *key) {
            template.hash.set(0);
            template.count.set(count);
            template.keys.iter().zip(keys()).for_each(|(own, key)| own.set(*key));
            return None;
        }
        // SAFETY: the caller's promise. A new Hash is written to before Ruby is called again: either no collection has
        // seen it, or the last call made the collector look at it again.
        unsafe {
            if template.hash.get() == 0 {
                template.hash.set(made(pairs)?);
            }
            let hash = rb_sys::rb_hash_dup(template.hash.get());
            let (first, step) = values(hash, count);
            for (index, value) in pairs.iter().skip(1).step_by(2).enumerate() {
                *first.add(step * index) = *value;
            }
            // Before 3.3, Ruby does not report the copy of a table to the collector, although it may collect for its
            // memory.
            #[cfg(not(ruby_gte_3_3))]
            if count > LIST {
                for value in pairs.iter().skip(1).step_by(2).filter(|value| !rb_sys::SPECIAL_CONST_P(**value)) {
                    rb_sys::rb_gc_writebarrier(hash, *value);
                }
            }
            Some(hash)
        }
    }
}

/// Tries out the ways to the pairs; at Init.
///
/// # Safety
/// Only the GVL contract (see `value`). Raises NoMemoryError.
pub unsafe fn try_out() {
    // SAFETY: the caller's promise.
    let known = |count| unsafe { is_known(count) };
    let most = match known(LIST) {
        true if known(LIST + 1) && known(MOST) => MOST,
        true => LIST,
        false => 0,
    };
    KNOWN.store(most, Ordering::Relaxed);
}

/// Whether `values` finds the values of a Hash with this many pairs.
///
/// # Safety
/// As of `try_out`.
unsafe fn is_known(count: usize) -> bool {
    // SAFETY: small numbers; a Hash on the machine's stack. A table is only looked into if what it says of itself is
    // true.
    unsafe {
        let pairs: [VALUE; 2 * MOST] = std::array::from_fn(|index| rb_sys::LONG2FIX(1000 + index as c_long));
        let hash = rb_sys::rb_hash_new();
        rb_sys::rb_hash_bulk_insert(2 * count as c_long, pairs.as_ptr(), hash);
        let sound = count <= LIST || {
            let rb_sys::st_table { num_entries, entries_start, entries_bound, entries, .. } = *table(hash);
            let entries = entries.cast::<VALUE>();
            (num_entries as usize, entries_start, entries_bound as usize) == (count, 0, count)
                && entries.is_aligned()
                && !entries.is_null()
        };
        let found = sound && {
            let (first, step) = values(hash, count);
            let pair = |index| first.add(step * index);
            (0..count).all(|index| [*pair(index).sub(1), *pair(index)] == pairs[2 * index..2 * index + 2])
        };
        std::hint::black_box(hash);
        found
    }
}

/// Whether Hashes are made so, in this Ruby: of all sizes that there are templates for.
pub fn in_use() -> bool {
    KNOWN.load(Ordering::Relaxed) == MOST
}

/// The place of the first pair's value, and the number of words to the next one.
///
/// # Safety
/// A Hash of this many pairs, 1 to `MOST`, none of which was deleted.
unsafe fn values(hash: VALUE, count: usize) -> (*mut VALUE, usize) {
    let words = hash as *mut VALUE;
    // SAFETY: two words of every object's, the default value, a word about the pairs, then those, key and value; before
    // 3.3 a pointer to them is the third word. A table's entries are the key's hash, the key and the value.
    unsafe {
        if count > LIST {
            ((*table(hash)).entries.cast::<VALUE>().add(2), 3)
        } else if cfg!(ruby_gte_3_3) {
            (words.add(5), 2)
        } else {
            ((*words.add(2) as *mut VALUE).add(1), 2)
        }
    }
}

/// # Safety
/// A Hash of more than `LIST` pairs.
unsafe fn table(hash: VALUE) -> *const rb_sys::st_table {
    let words = hash as *const VALUE;
    // SAFETY: it is where a list would be; behind the default value since 3.3.
    unsafe { if cfg!(ruby_gte_3_3) { words.add(3).cast() } else { *words.add(2) as *const rb_sys::st_table } }
}

/// The Hash of a template: with these keys and nil each. `None` if a key comes twice, or has its own idea of equality.
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
        let (first, step) = values(hash, count);
        (0..count).for_each(|index| *first.add(step * index) = rb_sys::Qnil as VALUE);
        rb_sys::RB_OBJ_FREEZE(hash);
        Some(hash)
    }
}
