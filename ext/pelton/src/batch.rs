//! Pelton::Batch

use crate::value::typed::Keeper;
use crate::value::{self, message};
use crate::{avro_topic, error, format};
use magnus::value::ReprValue;
use magnus::{Error, Module, RArray, RModule, Ruby, Value, method};
use pelton_core::decode::avro::SchemaId;
use pelton_core::partition::Batch;
use pelton_core::rd::Origin;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Broken messages may name any schema, so this is the most that one batch reports.
const MOST_SCHEMAS: usize = 16;

static CLASS: Keeper<WrappedBatch> = Keeper::new(c"Pelton::Batch");

/// A batch, and its facts that are still needed after its release.
struct WrappedBatch {
    batch: Batch,
    first_offset: i64,
    last_offset: i64,
    leader_epoch: i32,
    /// Of the first message that the filter admits; −1 if unknown.
    timestamp: i64,
    received: i64,
    /// Bytes that the garbage collector knows of, until the release.
    reported: AtomicUsize,
    origin: Origin,
}

impl WrappedBatch {
    /// Bytes that message objects still hold stay known to it: only a collection frees them.
    fn release(&self) {
        let freed = self.batch.release().min(self.reported.swap(0, Ordering::Relaxed));
        if freed > 0 {
            value::adjust_memory(-(freed as isize));
        }
    }
}

impl Drop for WrappedBatch {
    fn drop(&mut self) {
        self.release();
    }
}

pub fn define(ruby: &Ruby, pelton: RModule) -> Result<(), Error> {
    let class = pelton.define_class("Batch", ruby.class_object())?;
    CLASS.define(class);
    class.define_method("topic", method!(topic, 0))?;
    class.define_method("partition", method!(partition, 0))?;
    class.define_method("size", method!(size, 0))?;
    class.define_method("dropped", method!(dropped, 0))?;
    class.define_method("bytes", method!(bytes, 0))?;
    class.define_method("first_offset", method!(first_offset, 0))?;
    class.define_method("last_offset", method!(last_offset, 0))?;
    class.define_method("leader_epoch", method!(leader_epoch, 0))?;
    class.define_method("timestamp_ms", method!(timestamp, 0))?;
    class.define_method("received_ms", method!(received, 0))?;
    class.define_method("seek_count", method!(seek_count, 0))?;
    class.define_method("stale?", method!(is_stale, 0))?;
    class.define_method("emptied", method!(emptied, 0))?;
    class.define_method("crowded?", method!(is_crowded, 0))?;
    class.define_method("restarted?", method!(is_restarted, 0))?;
    class.define_method("messages", method!(messages, 0))?;
    class.define_method("unknown_schemas", method!(unknown_schemas, 0))?;
    class.define_method("release", method!(release, 0))
}

pub fn wrap(batch: Batch) -> Result<Value, Error> {
    let chunks = batch.chunks();
    let first_offset = chunks.first().and_then(|chunk| chunk.records().first()).map_or(-1, |record| record.offset);
    let last = chunks.last().and_then(|chunk| chunk.records().last());
    let (last_offset, leader_epoch) = last.map_or((-1, -1), |record| (record.offset, record.leader_epoch));
    let mut admitted = chunks.iter().filter_map(|chunk| Some((chunk, chunk.admitted().next()?)));
    let first = admitted.next().map(|(chunk, index)| (chunk.records()[index].timestamp, chunk.received));
    let (timestamp, received) = first.unwrap_or((-1, -1));
    // Memory of chunks that a filter refused whole is freed already.
    let held = chunks.iter().filter(|chunk| chunk.admitted().next().is_some());
    let bytes: usize = held.map(|chunk| chunk.bytes()).sum();
    drop(chunks);
    let reported = AtomicUsize::new(bytes);
    value::adjust_memory(bytes as isize);
    let origin = Origin::here();
    CLASS.wrap(WrappedBatch { batch, first_offset, last_offset, leader_epoch, timestamp, received, reported, origin })
}

fn topic(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    value::interned(&CLASS.get(ruby, &this)?.batch.topic)
}

fn partition(ruby: &Ruby, this: Value) -> Result<i32, Error> {
    Ok(CLASS.get(ruby, &this)?.batch.partition)
}

fn size(ruby: &Ruby, this: Value) -> Result<usize, Error> {
    Ok(CLASS.get(ruby, &this)?.batch.len())
}

fn dropped(ruby: &Ruby, this: Value) -> Result<usize, Error> {
    Ok(CLASS.get(ruby, &this)?.batch.dropped())
}

fn bytes(ruby: &Ruby, this: Value) -> Result<usize, Error> {
    Ok(CLASS.get(ruby, &this)?.batch.bytes())
}

fn first_offset(ruby: &Ruby, this: Value) -> Result<i64, Error> {
    Ok(CLASS.get(ruby, &this)?.first_offset)
}

fn last_offset(ruby: &Ruby, this: Value) -> Result<i64, Error> {
    Ok(CLASS.get(ruby, &this)?.last_offset)
}

fn leader_epoch(ruby: &Ruby, this: Value) -> Result<i32, Error> {
    Ok(CLASS.get(ruby, &this)?.leader_epoch)
}

fn timestamp(ruby: &Ruby, this: Value) -> Result<i64, Error> {
    Ok(CLASS.get(ruby, &this)?.timestamp)
}

fn received(ruby: &Ruby, this: Value) -> Result<i64, Error> {
    Ok(CLASS.get(ruby, &this)?.received)
}

fn seek_count(ruby: &Ruby, this: Value) -> Result<u64, Error> {
    Ok(CLASS.get(ruby, &this)?.batch.seek_count)
}

/// An empty batch that is stale when this one is.
fn emptied(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    wrap(CLASS.get(ruby, &this)?.batch.emptied())
}

fn is_stale(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    Ok(CLASS.get(ruby, &this)?.batch.is_stale())
}

fn is_crowded(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    Ok(CLASS.get(ruby, &this)?.batch.is_crowded())
}

fn is_restarted(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    Ok(CLASS.get(ruby, &this)?.batch.restarted)
}

fn messages(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    if let Some(list) = CLASS.kept(ruby, &this)? {
        return Ok(list);
    }
    let wrapped = CLASS.get(ruby, &this)?;
    wrapped.origin.check().map_err(|error| error::ruby(ruby, "batch", error))?;
    if !value::in_main_ractor() {
        // Two Ractors could make two objects for one message.
        return Err(error::plain(ruby, "the messages are not built yet: call batch.messages in the main Ractor first"));
    }
    let chunks = wrapped.batch.chunks();
    if chunks.is_empty() && !wrapped.batch.is_empty() {
        return Err(error::plain(ruby, "the batch was released before batch.messages was called"));
    }
    let list = message::wrap_all(&chunks)?.as_value();
    CLASS.keep(ruby, &this, list)?;
    Ok(list)
}

/// Of Avro whose messages name schemas that are not known yet: [their decoder, [id, …]], else nil.
fn unknown_schemas(ruby: &Ruby, this: Value) -> Result<Option<RArray>, Error> {
    let wrapped = CLASS.get(ruby, &this)?;
    wrapped.origin.check().map_err(|error| error::ruby(ruby, "batch", error))?;
    let chunks = wrapped.batch.chunks();
    let Some(decoder) = chunks.first().and_then(|chunk| format::decoder(&chunk.format)) else { return Ok(None) };
    let mut found: Vec<SchemaId> = Vec::new();
    for id in chunks.iter().flat_map(|chunk| chunk.unknown_schemas(MOST_SCHEMAS)) {
        if !found.contains(&id) && found.len() < MOST_SCHEMAS {
            found.push(id);
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    let ids = ruby.ary_from_iter(found.into_iter().map(|id| avro_topic::shown(ruby, id)));
    Ok(Some(ruby.ary_new_from_values(&[decoder, ids.as_value()])))
}

fn release(ruby: &Ruby, this: Value) -> Result<(), Error> {
    CLASS.get(ruby, &this)?.release();
    Ok(())
}
