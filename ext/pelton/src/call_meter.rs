//! Pelton::Native::CallMeter

use crate::value::typed::{NativeData, Shared};
use crate::{call_counts, convert, value};
use magnus::{Error, Module, Object, RArray, RModule, Ruby, Value, function, method};
use pelton_core::call_counts::CallMeter;
use std::sync::Arc;

static CLASS: Shared<Arc<CallMeter>> = Shared::new(c"Pelton::Native::CallMeter");

impl NativeData for Arc<CallMeter> {
    fn collected(self) {}
}

pub fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = native.define_class("CallMeter", ruby.class_object())?;
    CLASS.define(class);
    class.define_singleton_method("new", function!(new, 2))?;
    class.define_method("waited", method!(waited, 1))?;
    class.define_method("begin", method!(begin, 0))?;
    class.define_method("called", method!(called, 4))
}

/// new(partition, [CallCounts, …])
fn new(ruby: &Ruby, partition: Value, counts: RArray) -> Result<Value, Error> {
    let partition = convert::number(ruby, "partition", partition)?;
    let counts = (0..value::length(counts)).map(|index| {
        let counts = value::element(counts, index);
        Ok::<_, Error>(Arc::clone(&*call_counts::CLASS.get(ruby, &counts)?))
    });
    CLASS.wrap(Arc::new(CallMeter::new(partition, counts.collect::<Result<_, _>>()?)))
}

fn waited(ruby: &Ruby, this: Value, seconds: f64) -> Result<(), Error> {
    CLASS.get(ruby, &this)?.waited(seconds);
    Ok(())
}

fn begin(ruby: &Ruby, this: Value) -> Result<(), Error> {
    CLASS.get(ruby, &this)?.begin();
    Ok(())
}

/// called(messages, began, timestamp, failed): when it began, in seconds since 1970, and the first message's time, in
/// milliseconds.
fn called(
    ruby: &Ruby,
    this: Value,
    messages: u64,
    began: Option<f64>,
    timestamp: Option<i64>,
    failed: bool,
) -> Result<(), Error> {
    let timestamp = timestamp.filter(|milliseconds| *milliseconds >= 0);
    let age = began.zip(timestamp).map(|(began, milliseconds)| began - milliseconds as f64 / 1000.0);
    CLASS.get(ruby, &this)?.called(messages, age, failed);
    Ok(())
}
