//! Ruby objects that native memory refers to. A [`GcRoot`] keeps its object alive and in its place. Any native thread
//! may drop one, even inside the garbage collector, so nothing here blocks.

use super::cooked;
use super::typed::{FREE_IMMEDIATELY, StaticType};
use magnus::rb_sys::{AsRawValue, protect};
use magnus::value::ReprValue;
use magnus::{Error, Module, RHash, RModule, Ruby, Value};
use rb_sys::{VALUE, rb_data_type_t};
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A slot for one object, then all others. Slots are used again and never freed.
struct RootSlot {
    /// 0: free.
    object: AtomicUsize,
    next: OnceLock<Box<RootSlot>>,
}

impl RootSlot {
    const fn new() -> Self {
        Self { object: AtomicUsize::new(0), next: OnceLock::new() }
    }
}

static FIRST: RootSlot = RootSlot::new();

fn slots() -> impl Iterator<Item = &'static RootSlot> {
    std::iter::successors(Some(&FIRST), |slot| slot.next.get().map(|next| &**next))
}

pub struct GcRoot(&'static RootSlot);

impl GcRoot {
    /// GVL contract: see `value`.
    pub fn new(object: Value) -> Self {
        let raw = object.as_raw() as usize;
        let mut slot = &FIRST;
        while slot.object.compare_exchange(0, raw, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            slot = slot.next.get_or_init(|| Box::new(RootSlot::new()));
        }
        Self(slot)
    }

    /// GVL contract: see `value`.
    pub fn get(&self) -> Value {
        cooked(self.0.object.load(Ordering::Acquire) as VALUE)
    }
}

impl Drop for GcRoot {
    fn drop(&mut self) {
        self.0.object.store(0, Ordering::Release);
    }
}

static TYPE: StaticType = {
    // SAFETY: plain data for which zero means "none".
    let mut raw: rb_data_type_t = unsafe { std::mem::zeroed() };
    raw.wrap_struct_name = c"Pelton's kept objects".as_ptr();
    raw.function.dmark = Some(mark);
    raw.flags = FREE_IMMEDIATELY;
    StaticType(raw)
};

/// Whether the collector of this process says that it runs while it marks. Ruby's own does, MMTk's does not.
static TELLS: AtomicBool = AtomicBool::new(false);

/// Whether this is a collection, for a mark function. Ruby also calls mark functions to find what an object refers to.
pub(super) fn is_collection() -> bool {
    // SAFETY: no preconditions.
    !TELLS.load(Ordering::Relaxed) || unsafe { rb_sys::rb_during_gc() != 0 }
}

/// From Ruby 3.4 on: `GC.config # => {…, implementation: "default"}`
fn is_ruby_s_own(ruby: &Ruby) -> Result<bool, Error> {
    let gc: RModule = ruby.class_object().const_get("GC")?;
    if !gc.respond_to("config", false)? {
        return Ok(true);
    }
    let config: RHash = gc.funcall("config", ())?;
    Ok(config.lookup::<_, Option<String>>(ruby.to_symbol("implementation"))?.is_none_or(|name| name == "default"))
}

extern "C" fn mark(_: *mut c_void) {
    for slot in slots() {
        let object = slot.object.load(Ordering::Acquire);
        if object != 0 {
            // SAFETY: alive until now, for each collection marks it.
            unsafe { rb_sys::rb_gc_mark(object as VALUE) };
        }
    }
}

/// Once, at Init.
pub fn set_up(ruby: &Ruby) -> Result<(), Error> {
    TELLS.store(is_ruby_s_own(ruby)?, Ordering::Relaxed);
    let marker = protect(|| {
        // SAFETY: the type lives for ever; without a free function the data is never looked at. Not write-barrier
        // protected, so that each collection marks it.
        unsafe { rb_sys::rb_data_typed_object_wrap(0, std::ptr::dangling_mut::<c_void>(), &TYPE.0) }
    })?;
    super::keep_for_ever(cooked(marker));
    Ok(())
}
