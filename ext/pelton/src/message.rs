//! Pelton::Message

mod dig;
mod payload;

use crate::error;
use crate::value::message::{self as objects, MessageRef, message_ref};
use crate::value::{self, StringEncoding};
use magnus::value::{Opaque, ReprValue};
use magnus::{Error, Module, RArray, RClass, RHash, RModule, Ruby, Value, method};
use payload::{deserializer, made};
use pelton_core::chunk::{MessagePart, View};
use std::sync::OnceLock;

/// The headers of every message without any.
static NO_HEADERS: OnceLock<Opaque<RHash>> = OnceLock::new();

pub fn define(ruby: &Ruby, pelton: RModule) -> Result<(), Error> {
    let class: RClass = pelton.define_class("Message", ruby.class_object())?;
    objects::define(class);
    let none = ruby.hash_new();
    none.freeze();
    value::keep_for_ever(none);
    let _ = NO_HEADERS.set(none.into());
    class.define_method("topic", method!(topic, 0))?;
    class.define_method("partition", method!(partition, 0))?;
    class.define_method("offset", method!(offset, 0))?;
    class.define_method("timestamp_ms", method!(timestamp, 0))?;
    class.define_method("received_ms", method!(received, 0))?;
    class.define_method("leader_epoch", method!(leader_epoch, 0))?;
    class.define_method("seek_count", method!(seek_count, 0))?;
    class.define_method("size", method!(size, 0))?;
    class.define_method("tombstone?", method!(is_tombstone, 0))?;
    class.define_method("key", method!(key, 0))?;
    class.define_method("raw_key", method!(raw_key, 0))?;
    class.define_method("raw_payload", method!(raw_payload, 0))?;
    class.define_method("headers", method!(headers, 0))?;
    class.define_method("raw_headers", method!(raw_headers, 0))?;
    class.define_method("payload", method!(payload::payload, 0))?;
    class.define_method("decoded", method!(payload::decoded, 0))?;
    class.define_method("keep", method!(payload::keep, -1))?;
    class.define_method("dig", method!(dig::dig, -1))?;
    class.define_method("undecided?", method!(is_undecided, 0))
}

fn topic(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    value::interned(&message_ref(ruby, this)?.chunk().topic)
}

fn partition(ruby: &Ruby, this: Value) -> Result<i32, Error> {
    Ok(message_ref(ruby, this)?.chunk().partition)
}

fn offset(ruby: &Ruby, this: Value) -> Result<i64, Error> {
    Ok(message_ref(ruby, this)?.record().offset)
}

fn timestamp(ruby: &Ruby, this: Value) -> Result<i64, Error> {
    Ok(message_ref(ruby, this)?.record().timestamp)
}

fn received(ruby: &Ruby, this: Value) -> Result<i64, Error> {
    Ok(message_ref(ruby, this)?.chunk().received)
}

fn leader_epoch(ruby: &Ruby, this: Value) -> Result<i32, Error> {
    Ok(message_ref(ruby, this)?.record().leader_epoch)
}

fn seek_count(ruby: &Ruby, this: Value) -> Result<u64, Error> {
    Ok(message_ref(ruby, this)?.chunk().seek_count)
}

fn size(ruby: &Ruby, this: Value) -> Result<usize, Error> {
    Ok(message_ref(ruby, this)?.record().payload_size().unwrap_or(0))
}

fn is_tombstone(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    Ok(message_ref(ruby, this)?.record().payload_size().is_none())
}

/// A forked child must not ask for its parent's bytes.
fn ours(ruby: &Ruby, message: &MessageRef) -> Result<(), Error> {
    message.chunk().check_origin().map_err(|error| error::ruby(ruby, "message", error))
}

/// Runs `call` with the message's bytes; it must not call Ruby.
fn view<R>(ruby: &Ruby, message: &MessageRef, call: impl FnOnce(View<'_>) -> R) -> Result<R, Error> {
    ours(ruby, message)?;
    message.chunk().view(message.index, call).ok_or_else(|| error::plain(ruby, "the message was released"))
}

/// A copy of one part of the message as a String; nil if there is none. Asks for the length first, because creating a
/// String is a call of Ruby.
fn copy(
    ruby: &Ruby,
    message: &MessageRef,
    encoding: StringEncoding,
    part: impl for<'a> Fn(&View<'a>) -> Option<&'a [u8]>,
) -> Result<Value, Error> {
    let Some(size) = view(ruby, message, |view| part(&view).map(<[u8]>::len))? else {
        return Ok(ruby.qnil().as_value());
    };
    value::string(size, encoding, |string| {
        message.chunk().view(message.index, |view| {
            if let Some(bytes) = part(&view) {
                string.copy_from_slice(bytes);
            }
        });
    })
}

/// Whether the topic has a `where` that the native side could not answer for this message.
fn is_undecided(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    let message = message_ref(ruby, this)?;
    Ok(message.chunk().is_undecided(message.index))
}

fn key(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    let message = message_ref(ruby, this)?;
    match deserializer(&message, MessagePart::Key) {
        Some(deserializer) if message.record().has_key() => made(ruby, this, &message, MessagePart::Key, deserializer),
        _ => key_of(ruby, &message),
    }
}

fn raw_key(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    key_of(ruby, &message_ref(ruby, this)?)
}

fn key_of(ruby: &Ruby, message: &MessageRef) -> Result<Value, Error> {
    copy(ruby, message, StringEncoding::Text, |view| view.key)
}

fn raw_payload(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    copy(ruby, &message_ref(ruby, this)?, StringEncoding::Binary, |view| view.payload)
}

fn headers(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    let message = message_ref(ruby, this)?;
    match deserializer(&message, MessagePart::Headers) {
        Some(deserializer) => made(ruby, this, &message, MessagePart::Headers, deserializer),
        None => Ok(headers_of(ruby, &message)?.as_value()),
    }
}

fn raw_headers(ruby: &Ruby, this: Value) -> Result<RHash, Error> {
    headers_of(ruby, &message_ref(ruby, this)?)
}

fn headers_of(ruby: &Ruby, message: &MessageRef) -> Result<RHash, Error> {
    let positions = view(ruby, message, |view| view.header_positions())?;
    if positions.is_empty() {
        return Ok(ruby.get_inner(*NO_HEADERS.get().expect("set up at Init")));
    }
    let hash = ruby.hash_new();
    for at in positions {
        let name = copy(ruby, message, StringEncoding::Text, |view| view.header(at).map(|(name, _)| name))?;
        let value = copy(ruby, message, StringEncoding::Text, |view| view.header(at).and_then(|(_, value)| value))?;
        match hash.get(name) {
            None => hash.aset(name, value)?,
            // A second value of a name makes it a list; no header value is an Array by itself.
            Some(first) => match RArray::from_value(first) {
                Some(list) => list.push(value)?,
                None => hash.aset(name, ruby.ary_new_from_values(&[first, value]))?,
            },
        }
    }
    Ok(hash)
}
