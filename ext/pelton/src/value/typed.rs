//! Ruby classes whose objects hold native data. No object of them is made by Ruby's own `allocate`.

use super::{cooked, keep_for_ever, process_ends};
use magnus::rb_sys::{AsRawValue, protect};
use magnus::{Class, Error, RClass, Ruby, Value};
use pelton_core::delivery::Delivery;
use pelton_core::rd::{seal, unseal};
use rb_sys::{VALUE, rb_data_type_t, rbimpl_typeddata_flags as flags};
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) const FREE_IMMEDIATELY: VALUE = flags::RUBY_TYPED_FREE_IMMEDIATELY as VALUE;
pub(super) const WB_PROTECTED: VALUE = flags::RUBY_TYPED_WB_PROTECTED as VALUE;
pub(super) const FROZEN_SHAREABLE: VALUE = flags::RUBY_TYPED_FROZEN_SHAREABLE as VALUE;

/// Describes an internal type to Ruby. For statics.
pub(super) struct StaticType(pub rb_data_type_t);

// SAFETY: its pointers are to static strings and functions.
unsafe impl Sync for StaticType {}

/// The description of a type for Ruby, and its class.
pub(super) struct DataType {
    pub raw: rb_data_type_t,
    class: AtomicUsize,
}

// SAFETY: the pointers in it are to static strings and functions; the class is atomic.
unsafe impl Sync for DataType {}

type Function = unsafe extern "C" fn(*mut c_void);

impl DataType {
    pub const fn new(
        name: &'static CStr,
        flags: VALUE,
        free: Function,
        size: unsafe extern "C" fn(*const c_void) -> rb_sys::size_t,
        mark: Option<Function>,
        compact: Option<Function>,
    ) -> Self {
        // SAFETY: plain data for which zero means "none"; versions of Ruby differ in the fields that we don't name.
        let mut raw: rb_data_type_t = unsafe { std::mem::zeroed() };
        raw.wrap_struct_name = name.as_ptr();
        raw.flags = flags;
        raw.function.dfree = Some(free);
        raw.function.dsize = Some(size);
        raw.function.dmark = mark;
        raw.function.dcompact = compact;
        Self { raw, class: AtomicUsize::new(0) }
    }

    /// Names the Ruby class, which is kept forever.
    pub fn define(&self, class: RClass) {
        class.undef_default_alloc_func();
        keep_for_ever(class);
        self.class.store(class.as_raw() as usize, Ordering::Release);
    }

    /// A new frozen object with this word as its data pointer. Raises only for want of memory.
    pub fn wrap(&self, data: *mut c_void) -> VALUE {
        let class = self.class.load(Ordering::Acquire) as VALUE;
        // SAFETY: a class made by `define`, a type that lives for ever and whose functions fit the data.
        unsafe {
            let object = rb_sys::rb_data_typed_object_wrap(class, data, &self.raw);
            rb_sys::RB_OBJ_FREEZE(object);
            object
        }
    }

    /// The data pointer, if the object is one of this kind.
    pub fn data(&self, object: Value) -> Option<*mut c_void> {
        let raw = object.as_raw();
        // SAFETY: a live VALUE; each step is guarded by the one before.
        unsafe {
            let is_data = rb_sys::RB_TYPE_P(raw, rb_sys::ruby_value_type::RUBY_T_DATA) && rb_sys::RTYPEDDATA_P(raw);
            let ours = is_data && std::ptr::eq(rb_sys::RTYPEDDATA_TYPE(raw), &self.raw);
            ours.then(|| rb_sys::RTYPEDDATA_GET_DATA(raw)).filter(|data| !data.is_null())
        }
    }
}

pub(super) fn wrong_type(ruby: &Ruby) -> Error {
    Error::new(ruby.exception_type_error(), "not an object made by Pelton's native extension")
}

// ---- objects that share a counted reference with native threads

/// A counted reference as one word, which is what a Ruby object has for it.
pub trait Word: Sized {
    /// Never null.
    fn into_word(self) -> *mut c_void;
    /// # Safety
    /// `word` must come from `into_word`, whose reference passes to the caller.
    unsafe fn from_word(word: *mut c_void) -> Self;
    /// Bytes of native memory, for ObjectSpace.
    fn size(&self) -> usize;
}

impl<T> Word for Arc<T> {
    fn into_word(self) -> *mut c_void {
        Arc::into_raw(self).cast_mut().cast()
    }

    unsafe fn from_word(word: *mut c_void) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Arc::from_raw(word.cast_const().cast()) }
    }

    fn size(&self) -> usize {
        size_of::<T>()
    }
}

impl Word for Delivery {
    fn into_word(self) -> *mut c_void {
        let (slab, position) = self.into_parts();
        seal(slab, position).expect("an address of 48 bits")
    }

    unsafe fn from_word(word: *mut c_void) -> Self {
        // SAFETY: the caller's promise.
        let (slab, position) = unsafe { unseal(word) };
        Self::from_parts(slab, position)
    }

    fn size(&self) -> usize {
        self.bytes()
    }
}

/// The native value of a Ruby object.
pub trait NativeData: Word + Send + Sync + 'static {
    /// Its Ruby object was collected. Must not block. Not called when the process ends.
    fn collected(self);
}

/// A class of objects that hold a `T`.
pub struct Shared<T> {
    kind: DataType,
    data: PhantomData<fn() -> T>,
}

/// The reference of an object that other code keeps alive.
pub struct Lent<'a, T> {
    reference: ManuallyDrop<T>,
    object: PhantomData<&'a Value>,
}

impl<T> Deref for Lent<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.reference
    }
}

impl<T: NativeData> Shared<T> {
    pub const fn new(name: &'static CStr) -> Self {
        let flags = FREE_IMMEDIATELY | WB_PROTECTED | FROZEN_SHAREABLE;
        Self { kind: DataType::new(name, flags, Self::free, Self::size, None, None), data: PhantomData }
    }

    extern "C" fn free(data: *mut c_void) {
        // SAFETY: what `wrap` put there, freed once.
        let reference = unsafe { T::from_word(data) };
        if process_ends() {
            std::mem::forget(reference);
        } else if let Err(panic) = catch_unwind(AssertUnwindSafe(|| reference.collected())) {
            std::mem::forget(panic);
        }
    }

    extern "C" fn size(data: *const c_void) -> rb_sys::size_t {
        // SAFETY: what `wrap` put there; `ManuallyDrop` leaves the object its count.
        ManuallyDrop::new(unsafe { T::from_word(data.cast_mut()) }).size() as rb_sys::size_t
    }

    pub fn define(&self, class: RClass) {
        self.kind.define(class);
    }

    /// One new Ruby object.
    pub fn wrap(&self, reference: T) -> Result<Value, Error> {
        let data = reference.into_word();
        protect(|| self.kind.wrap(data)).map(cooked)
    }

    /// The same for the hottest path. Should memory be wanting, Ruby raises over the callers' heads: nothing that must
    /// be dropped may be alive there.
    pub fn wrap_bare(&self, reference: T) -> Value {
        cooked(self.kind.wrap(reference.into_word()))
    }

    pub fn get<'a>(&self, ruby: &Ruby, object: &'a Value) -> Result<Lent<'a, T>, Error> {
        let data = self.kind.data(*object).ok_or_else(|| wrong_type(ruby))?;
        // SAFETY: put there by `wrap`; `ManuallyDrop` leaves the object its count.
        Ok(Lent { reference: ManuallyDrop::new(unsafe { T::from_word(data) }), object: PhantomData })
    }
}

// ---- objects that keep one Ruby object

/// Native data and, once it was made, one Ruby object (0: none yet).
pub struct Keeping<T> {
    data: T,
    kept: AtomicUsize,
}

/// A class of objects that hold a `T` of their own and keep one Ruby object.
pub struct Keeper<T> {
    kind: DataType,
    data: PhantomData<fn() -> T>,
}

impl<T: Send + Sync + 'static> Keeper<T> {
    pub const fn new(name: &'static CStr) -> Self {
        let flags = FREE_IMMEDIATELY | WB_PROTECTED | FROZEN_SHAREABLE;
        let (mark, compact): (Function, Function) = (Self::mark, Self::compact);
        Self { kind: DataType::new(name, flags, Self::free, Self::size, Some(mark), Some(compact)), data: PhantomData }
    }

    extern "C" fn free(data: *mut c_void) {
        // SAFETY: the box that `wrap` leaked, freed once.
        let data = unsafe { Box::from_raw(data.cast::<Keeping<T>>()) };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(data))) {
            std::mem::forget(panic);
        }
    }

    extern "C" fn size(_: *const c_void) -> rb_sys::size_t {
        size_of::<Keeping<T>>() as rb_sys::size_t
    }

    extern "C" fn mark(data: *mut c_void) {
        // SAFETY: what `wrap` put there.
        let kept = unsafe { &*data.cast::<Keeping<T>>() }.kept.load(Ordering::Acquire);
        if kept != 0 {
            // SAFETY: a live object, kept so by this very call; `compact` follows it when it moves.
            unsafe { rb_sys::rb_gc_mark_movable(kept as VALUE) };
        }
    }

    extern "C" fn compact(data: *mut c_void) {
        // SAFETY: what `wrap` put there.
        let kept = &unsafe { &*data.cast::<Keeping<T>>() }.kept;
        let object = kept.load(Ordering::Acquire);
        if object != 0 {
            // SAFETY: asked while compacting, of an object that was marked.
            kept.store(unsafe { rb_sys::rb_gc_location(object as VALUE) } as usize, Ordering::Release);
        }
    }

    pub fn define(&self, class: RClass) {
        self.kind.define(class);
    }

    pub fn wrap(&self, data: T) -> Result<Value, Error> {
        let data = Box::into_raw(Box::new(Keeping { data, kept: AtomicUsize::new(0) }));
        protect(|| self.kind.wrap(data.cast())).map(cooked)
    }

    pub fn get<'a>(&self, ruby: &Ruby, object: &'a Value) -> Result<&'a T, Error> {
        Ok(&self.keeping(ruby, object)?.data)
    }

    pub fn kept(&self, ruby: &Ruby, object: &Value) -> Result<Option<Value>, Error> {
        let kept = self.keeping(ruby, object)?.kept.load(Ordering::Acquire);
        Ok((kept != 0).then(|| cooked(kept as VALUE)))
    }

    /// Keeps `value` alive as long as `object`.
    pub fn keep(&self, ruby: &Ruby, object: &Value, value: Value) -> Result<(), Error> {
        self.keeping(ruby, object)?.kept.store(value.as_raw() as usize, Ordering::Release);
        // SAFETY: two live objects (only Arrays are kept): informs a generational collector about the new reference.
        unsafe { rb_sys::rb_gc_writebarrier(object.as_raw(), value.as_raw()) };
        Ok(())
    }

    fn keeping<'a>(&self, ruby: &Ruby, object: &'a Value) -> Result<&'a Keeping<T>, Error> {
        let data = self.kind.data(*object).ok_or_else(|| wrong_type(ruby))?;
        // SAFETY: put there by `wrap`, freed with the object.
        Ok(unsafe { &*data.cast::<Keeping<T>>() })
    }
}
