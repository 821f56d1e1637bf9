//! Pelton::Native::CallCounts

use crate::value::typed::{NativeData, Shared};
use magnus::value::ReprValue;
use magnus::{Error, IntoValue, Module, Object, RHash, RModule, Ruby, Value, function, method};
use pelton_core::call_counts::{CallCounts, Calls};
use std::sync::Arc;

pub static CLASS: Shared<Arc<CallCounts>> = Shared::new(c"Pelton::Native::CallCounts");

impl NativeData for Arc<CallCounts> {
    fn collected(self) {}
}

pub fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = native.define_class("CallCounts", ruby.class_object())?;
    CLASS.define(class);
    class.define_singleton_method("new", function!(new, 2))?;
    class.define_method("waited", method!(waited, 1))?;
    class.define_method("called", method!(called, 5))?;
    class.define_method("take", method!(take, 0))
}

/// new(bounds of seconds, bounds of sizes)
fn new(seconds: Vec<f64>, sizes: Vec<f64>) -> Result<Value, Error> {
    CLASS.wrap(Arc::new(CallCounts::new(&seconds, &sizes)))
}

/// As CallMeter's, which measures what is given here.
fn waited(ruby: &Ruby, this: Value, seconds: f64) -> Result<(), Error> {
    CLASS.get(ruby, &this)?.waited(seconds);
    Ok(())
}

/// called(partition, messages, seconds, age, failed)
fn called(
    ruby: &Ruby,
    this: Value,
    partition: i32,
    messages: u64,
    seconds: f64,
    age: Option<f64>,
    failed: bool,
) -> Result<(), Error> {
    CLASS.get(ruby, &this)?.called(partition, messages, seconds, age, failed);
    Ok(())
}

/// A Hash of what was counted since the last time; nil: nothing.
fn take(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    let calls = CLASS.get(ruby, &this)?.take();
    calls.map_or_else(|| Ok(ruby.qnil().as_value()), |calls| Ok(describe(ruby, &calls)?.as_value()))
}

fn describe(ruby: &Ruby, calls: &Calls) -> Result<RHash, Error> {
    let counts = ruby.hash_new();
    counts.aset(ruby.to_symbol("messages"), calls.messages)?;
    counts.aset(ruby.to_symbol("failures"), calls.failures)?;
    for (name, histogram) in [("seconds", &calls.seconds), ("ages", &calls.ages), ("waits", &calls.waits)] {
        counts.aset(ruby.to_symbol(name), row(ruby, &histogram.counts, histogram.sum))?;
    }
    counts.aset(ruby.to_symbol("sizes"), row(ruby, &calls.sizes.counts, calls.messages))?;
    let ages = ruby.hash_from_iter(calls.partitions.iter().map(|(partition, age)| (*partition, *age)));
    counts.aset(ruby.to_symbol("partitions"), ages)?;
    Ok(counts)
}

/// A histogram: `[counts of the buckets, sum]`.
pub fn row(ruby: &Ruby, counts: &[u64], sum: impl IntoValue) -> Value {
    (ruby.ary_from_iter(counts.iter().copied()), sum.into_value_with(ruby)).into_value_with(ruby)
}
