//! Pelton::Native::GivenPartition, for tests without a broker (lib/pelton/testing).

use crate::value::typed::{NativeData, Shared};
use crate::{batch, convert, error, filter, format, value};
use magnus::value::ReprValue;
use magnus::{Error, Module, Object, RArray, RModule, Ruby, TryConvert, Value, function, method};
use pelton_core::chunk::GivenMessage;
use pelton_core::partition::GivenPartition;
use std::sync::Arc;

static CLASS: Shared<Arc<GivenPartition>> = Shared::new(c"Pelton::Native::GivenPartition");

impl NativeData for Arc<GivenPartition> {
    fn collected(self) {}
}

pub fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = native.define_class("GivenPartition", ruby.class_object())?;
    CLASS.define(class);
    class.define_singleton_method("new", function!(new, 4))?;
    class.define_method("begin", method!(begin, 0))?;
    class.define_method("batch", method!(batch, 2))
}

/// new(topic, partition, format, condition): the latter two as a subscription takes them.
fn new(ruby: &Ruby, topic: Value, number: Value, format: Value, condition: Value) -> Result<Value, Error> {
    let refuse = || error::bad_option(ruby, "decode", format, format::ALLOWED);
    let read = format::read(ruby, format)?.ok_or_else(refuse)?;
    let filter = if condition.is_nil() { None } else { Some(filter::read(ruby, condition)?) };
    let number = convert::number(ruby, "partition", number)?;
    CLASS.wrap(Arc::new(GivenPartition::new(convert::topic(ruby, &topic)?, number, read, filter)))
}

/// The batches up to now are stale.
fn begin(ruby: &Ruby, this: Value) -> Result<(), Error> {
    CLASS.get(ruby, &this)?.begin();
    Ok(())
}

/// A Pelton::Batch of `[[offset, timestamp_ms, key, payload, [[name, value], …]], …]`.
fn batch(ruby: &Ruby, this: Value, rows: RArray, received: i64) -> Result<Value, Error> {
    let partition = Arc::clone(&*CLASS.get(ruby, &this)?);
    let rows = (0..value::length(rows)).map(|index| Row::read(ruby, value::element(rows, index)));
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    let messages: Vec<_> = rows.iter().map(Row::lend).collect();
    batch::wrap(partition.batch(&messages, received))
}

/// A copy of what Ruby gave, because building the batch must not depend on Ruby's objects.
struct Row {
    offset: i64,
    timestamp: i64,
    key: Option<Vec<u8>>,
    payload: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Row {
    fn read(ruby: &Ruby, given: Value) -> Result<Self, Error> {
        let row = RArray::try_convert(given)?;
        let part = |index| value::element(row, index);
        let copy =
            |key: &str, given: Value| Ok::<_, Error>(convert::optional_bytes(ruby, key, &given)?.map(<[u8]>::to_vec));
        let list = RArray::try_convert(part(4))?;
        let mut headers = Vec::new();
        for index in 0..value::length(list) {
            let pair = RArray::try_convert(value::element(list, index))?;
            let name = copy("header", value::element(pair, 0))?.unwrap_or_default();
            headers.push((name, copy("header", value::element(pair, 1))?));
        }
        Ok(Self {
            offset: convert::offset(ruby, part(0))?,
            timestamp: i64::try_convert(part(1))?,
            key: copy("key", part(2))?,
            payload: copy("payload", part(3))?,
            headers,
        })
    }

    fn lend(&self) -> GivenMessage<'_> {
        let headers = self.headers.iter().map(|(name, value)| (name.as_slice(), value.as_deref())).collect();
        let (offset, timestamp) = (self.offset, self.timestamp);
        GivenMessage { offset, timestamp, payload: self.payload.as_deref(), key: self.key.as_deref(), headers }
    }
}
