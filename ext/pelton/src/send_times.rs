//! Pelton::Native::SendTimes

use crate::call_counts::row;
use crate::value::typed::{NativeData, Shared};
use magnus::{Error, Module, Object, RModule, Ruby, Value, function, method};
use pelton_core::send_times::SendTimes;
use std::sync::Arc;

pub static CLASS: Shared<Arc<SendTimes>> = Shared::new(c"Pelton::Native::SendTimes");

impl NativeData for Arc<SendTimes> {
    fn collected(self) {}
}

pub fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = native.define_class("SendTimes", ruby.class_object())?;
    CLASS.define(class);
    class.define_singleton_method("new", function!(new, 1))?;
    class.define_method("take", method!(take, 0))
}

/// new(bounds of seconds)
fn new(bounds: Vec<f64>) -> Result<Value, Error> {
    CLASS.wrap(Arc::new(SendTimes::new(&bounds)))
}

/// `[counts of the buckets, sum]` of what was counted since the last time; nil: nothing.
fn take(ruby: &Ruby, this: Value) -> Result<Option<Value>, Error> {
    Ok(CLASS.get(ruby, &this)?.take().map(|(counts, sum)| row(ruby, &counts, sum)))
}
