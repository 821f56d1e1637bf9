//! Pelton::Message

use crate::value::build::{BuildOptions, build};
use crate::value::message::{self as objects, MessageRef, message_ref};
use crate::value::{self, StringEncoding};
use crate::{error, format, gvl};
use magnus::scan_args::scan_args;
use magnus::value::{Opaque, ReprValue};
use magnus::{Error, Exception, IntoValue, Module, RArray, RClass, RHash, RModule, Ruby, Symbol, Value, method};
use pelton_core::chunk::{Part, View};
use pelton_core::decode::avro::SchemaId;
use pelton_core::decode::{Kind, Node, Refusal};
use pelton_core::format::{Encoding, Shape};
use std::borrow::Cow;
use std::iter::once;
use std::sync::{Arc, OnceLock};

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
    class.define_method("epoch", method!(epoch, 0))?;
    class.define_method("size", method!(size, 0))?;
    class.define_method("tombstone?", method!(is_tombstone, 0))?;
    class.define_method("key", method!(key, 0))?;
    class.define_method("raw_key", method!(raw_key, 0))?;
    class.define_method("raw_payload", method!(raw_payload, 0))?;
    class.define_method("headers", method!(headers, 0))?;
    class.define_method("raw_headers", method!(raw_headers, 0))?;
    class.define_method("payload", method!(payload, 0))?;
    class.define_method("decoded", method!(decoded, 0))?;
    class.define_method("keep", method!(keep, -1))?;
    class.define_method("dig", method!(dig, -1))?;
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

fn epoch(ruby: &Ruby, this: Value) -> Result<u64, Error> {
    Ok(message_ref(ruby, this)?.chunk().epoch)
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

/// A copy of one part of the message as a String; nil where there is none. Its length is asked first, for making a
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
    match deserializer(&message, Part::Key) {
        Some(deserializer) if message.record().has_key() => made(ruby, this, &message, Part::Key, deserializer),
        _ => key_of(ruby, &message),
    }
}

fn raw_key(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    key_of(ruby, &message_ref(ruby, this)?)
}

fn key_of(ruby: &Ruby, message: &MessageRef) -> Result<Value, Error> {
    copy(ruby, message, StringEncoding::Text, |view| view.key)
}

/// What a deserializer made of the key or the headers, or makes now.
fn made(ruby: &Ruby, this: Value, message: &MessageRef, part: Part, deserializer: Value) -> Result<Value, Error> {
    match objects::kept(message, part) {
        Some(kept) => Ok(kept),
        None => {
            ours(ruby, message)?;
            deserialize(ruby, this, part, deserializer)
        }
    }
}

/// Ruby asks it, and has the message keep the answer.
fn deserialize(ruby: &Ruby, this: Value, part: Part, deserializer: Value) -> Result<Value, Error> {
    let deserializing: Value = value::pelton(ruby)?.const_get("Deserializing")?;
    let method = match part {
        Part::Payload => "payload",
        Part::Key => "key",
        Part::Headers => "headers",
    };
    deserializing.funcall(method, (deserializer, this))
}

fn raw_payload(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    copy(ruby, &message_ref(ruby, this)?, StringEncoding::Binary, |view| view.payload)
}

fn headers(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    let message = message_ref(ruby, this)?;
    match deserializer(&message, Part::Headers) {
        Some(deserializer) => made(ruby, this, &message, Part::Headers, deserializer),
        None => Ok(headers_of(ruby, &message)?.as_value()),
    }
}

fn raw_headers(ruby: &Ruby, this: Value) -> Result<RHash, Error> {
    headers_of(ruby, &message_ref(ruby, this)?)
}

fn headers_of(ruby: &Ruby, message: &MessageRef) -> Result<RHash, Error> {
    let places = view(ruby, message, |view| view.header_places())?;
    if places.is_empty() {
        return Ok(ruby.get_inner(*NO_HEADERS.get().expect("set up at Init")));
    }
    let hash = ruby.hash_new();
    for at in places {
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

fn payload(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    let message = message_ref(ruby, this)?;
    if let Some(kept) = kept(&message)? {
        return Ok(kept);
    }
    if message.record().payload_size().is_none() {
        return Ok(ruby.qnil().as_value());
    }
    ours(ruby, &message)?;
    if let Some(deserializer) = deserializer(&message, Part::Payload) {
        return deserialize(ruby, this, Part::Payload, deserializer);
    }
    let built = decode(ruby, &message).inspect_err(|error| keep_error(this, &message, error))?;
    // Where Ruby code took part (a decoder of extensions, say), another thread may have been quicker.
    if let Some(kept) = kept(&message)? {
        return Ok(kept);
    }
    objects::keep(this, &message, Part::Payload, built);
    Ok(built)
}

/// The topic's deserializer of this part, which is the main Ractor's.
fn deserializer(message: &MessageRef, part: Part) -> Option<Value> {
    let format = &message.chunk().format;
    if part != Part::Payload && !format.keeps_parts {
        return None;
    }
    format::deserializer(format, part).filter(|_| value::in_main_ractor())
}

/// What the topic's `decode` alone makes of the payload: built anew where a deserializer has the payload.
fn decoded(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    let message = message_ref(ruby, this)?;
    if message.record().payload_size().is_none() || deserializer(&message, Part::Payload).is_none() {
        return payload(ruby, this);
    }
    ours(ruby, &message)?;
    decode(ruby, &message)
}

/// Keeps a payload that was made elsewhere, if there is none yet (or a :key, or :headers); returns what is kept.
fn keep(ruby: &Ruby, this: Value, args: &[Value]) -> Result<Value, Error> {
    let args = scan_args::<(Value,), (Option<Symbol>,), (), (), (), ()>(args)?;
    let (made,) = args.required;
    let part = match args.optional.0.map(|part| part.name().map(Cow::into_owned)).transpose()?.as_deref() {
        Some("key") => Part::Key,
        Some("headers") => Part::Headers,
        _ => Part::Payload,
    };
    let message = message_ref(ruby, this)?;
    let before = if part == Part::Payload { kept(&message)? } else { objects::kept(&message, part) };
    if let Some(before) = before {
        return Ok(before);
    }
    objects::keep(this, &message, part, made);
    Ok(made)
}

fn decode(ruby: &Ruby, message: &MessageRef) -> Result<Value, Error> {
    let format = &message.chunk().format;
    match &format.encoding {
        Encoding::Bytes => copy(ruby, message, StringEncoding::Binary, |view| view.payload),
        Encoding::Text => as_text(ruby, message),
        _ => match read(ruby, message, |node| build(node, format::options(ruby, format)?))? {
            Ok(built) => built.map_err(|error| explained(ruby, message, error)),
            Err(Refusal::Undecided) => ask_ruby(ruby, message),
            Err(Refusal::Malformed(reason)) => Err(undecodable(ruby, message, &reason)),
            Err(Refusal::Unknown(schema)) => look_up(ruby, message, schema),
        },
    }
}

/// Lends the message's decoded payload to `call`, which has Ruby's lock. What has to be parsed for it (a chunk that no native
/// thread began with, or this document alone) is parsed without, where that takes long.
fn read<R>(ruby: &Ruby, message: &MessageRef, call: impl FnOnce(Node<'_>) -> R) -> Result<Result<R, Refusal>, Error> {
    let (chunk, index, nil) = (message.chunk(), message.index, ruby.qnil().as_value());
    if let Some(bytes) = chunk.waiting() {
        let theirs = Arc::clone(chunk);
        gvl::aside(ruby, nil, bytes, move || theirs.decode())?;
    }
    match chunk.unparsed(index).filter(|bytes| gvl::is_long(*bytes)) {
        Some(bytes) => {
            let theirs = Arc::clone(chunk);
            Ok(gvl::aside(ruby, nil, bytes, move || theirs.decode_alone(index))?.read(call))
        }
        None => Ok(chunk.decoded(index, call)),
    }
}

/// Ruby has the topic learn the schema; then it can be read.
fn look_up(ruby: &Ruby, message: &MessageRef, schema: SchemaId) -> Result<Value, Error> {
    let (chunk, record) = (message.chunk(), message.record());
    format::look_up(ruby, &chunk.format, schema, (&chunk.topic, chunk.partition, record.offset))?;
    match read(ruby, message, |node| build(node, format::options(ruby, &chunk.format)?))? {
        Ok(built) => built.map_err(|error| explained(ruby, message, error)),
        Err(Refusal::Malformed(reason)) => Err(undecodable(ruby, message, &reason)),
        Err(_) => Err(undecodable(ruby, message, "its schema is not known")),
    }
}

/// The payload that was built before, or again the error.
fn kept(message: &MessageRef) -> Result<Option<Value>, Error> {
    let kept = objects::kept(message, Part::Payload);
    let error = kept.and_then(Exception::from_value);
    // Another exception is what a deserializer made.
    match error.filter(|error| error.respond_to("again", false).unwrap_or(false)) {
        Some(error) => Err(error.funcall::<_, _, Exception>("again", ()).map_or_else(|error| error, Error::from)),
        None => Ok(kept),
    }
}

/// Keeps a DecodeError for the next read; others (no memory, an interrupt) say nothing of the payload, and decoders of
/// extensions may succeed the next time.
fn keep_error(this: Value, message: &MessageRef, error: &Error) {
    if let Some(error) = error.value()
        && !format::has_extensions(&message.chunk().format)
        && error.respond_to("again", false).is_ok_and(|answer| answer)
        && let Ok(again) = error.funcall("again", ())
    {
        objects::keep(this, message, Part::Payload, again);
    }
}

/// What a decoder of extensions raised (or Ruby, of a Symbol that is no UTF-8) as the cause of a DecodeError.
fn explained(ruby: &Ruby, message: &MessageRef, error: Error) -> Error {
    let Some(cause) = error.value().filter(|cause| cause.is_kind_of(ruby.exception_standard_error())) else {
        return error;
    };
    let (chunk, offset) = (message.chunk(), message.record().offset);
    let ask = || {
        let deserializing: Value = value::pelton(ruby)?.const_get("Deserializing")?;
        deserializing.funcall::<_, _, Value>("failed", (value::interned(&chunk.topic)?, chunk.partition, offset, cause))
    };
    ask().err().unwrap_or(error)
}

/// The payload as a String of UTF-8, or an error.
fn as_text(ruby: &Ruby, message: &MessageRef) -> Result<Value, Error> {
    let valid = |view: View<'_>| view.payload.is_none_or(|bytes| std::str::from_utf8(bytes).is_ok());
    if !view(ruby, message, valid)? {
        return Err(undecodable(ruby, message, "it is not valid UTF-8"));
    }
    copy(ruby, message, StringEncoding::Text, |view| view.payload)
}

fn undecodable(ruby: &Ruby, message: &MessageRef, reason: &str) -> Error {
    let chunk = message.chunk();
    error::undecodable(ruby, Some((&chunk.topic, chunk.partition, message.record().offset)), reason)
}

/// The native decoder does not decide: Ruby's own gives its value or its error.
fn ask_ruby(ruby: &Ruby, message: &MessageRef) -> Result<Value, Error> {
    let raw = copy(ruby, message, StringEncoding::Binary, |view| view.payload)?;
    let json: Value = value::pelton(ruby)?.const_get("Json")?;
    let (chunk, record) = (message.chunk(), message.record());
    let shape = chunk.format.shape;
    let options = (shape != Shape::default()).then(|| ruby.hash_new());
    if let Some(options) = options {
        options.aset(ruby.to_symbol("symbolize_names"), shape.symbols)?;
        options.aset(ruby.to_symbol("freeze"), shape.frozen)?;
    }
    json.funcall("parse", (raw, value::interned(&chunk.topic)?, chunk.partition, record.offset, options))
}

/// What walking the tree came to.
enum Dug {
    Missing,
    Found(Value),
    /// The steps from this one on are for Ruby, on this object: what is there is no container, or the step no plain key.
    Rest(Value, usize),
}

fn dig(ruby: &Ruby, this: Value, path: &[Value]) -> Result<Value, Error> {
    if path.is_empty() {
        return Err(Error::new(ruby.exception_arg_error(), "wrong number of arguments (given 0, expected 1+)"));
    }
    let message = message_ref(ruby, this)?;
    // What a deserializer made is not looked at.
    let kept = if deserializer(&message, Part::Payload).is_none() { kept(&message)? } else { None };
    if let Some(kept) = kept {
        return dig_in(ruby, kept, path);
    }
    if message.record().payload_size().is_none() {
        return Ok(ruby.qnil().as_value());
    }
    ours(ruby, &message)?;
    if !message.chunk().format.has_fields() {
        return dig_in(ruby, decoded(ruby, this)?, path);
    }
    let options = format::options(ruby, &message.chunk().format)?;
    match read(ruby, &message, |root| walk(root, path, options))? {
        Err(_) => dig_in(ruby, decoded(ruby, this)?, path),
        Ok(dug) => match dug.map_err(|error| explained(ruby, &message, error))? {
            Dug::Missing => Ok(ruby.qnil().as_value()),
            Dug::Found(found) => Ok(found),
            Dug::Rest(object, step) => dig_in(ruby, object, &path[step..]),
        },
    }
}

/// Whether a step is a plain key of the objects that this shape has.
fn is_name(step: Value, shape: Shape) -> bool {
    let is_symbol = Symbol::from_value(step).is_some();
    shape.symbols == is_symbol && name(step).is_ok_and(value::is_utf8_key)
}

/// A Symbol's String, or the step itself.
fn name(step: Value) -> Result<Value, Error> {
    if Symbol::from_value(step).is_some() { step.funcall("name", ()) } else { Ok(step) }
}

fn walk(root: Node<'_>, path: &[Value], options: BuildOptions) -> Result<Dug, Error> {
    let mut node = root;
    for (index, step) in path.iter().enumerate() {
        let next = match node.kind() {
            Kind::Null => return Ok(Dug::Missing),
            Kind::Object(_) if !node.is_foreign() && is_name(*step, options.shape) => {
                value::bytes(&name(*step)?).and_then(|key| node.get(key))
            }
            Kind::Array(_) if magnus::value::Fixnum::from_value(*step).is_some() => {
                magnus::value::Fixnum::from_value(*step).and_then(|position| node.at(position.to_i64()))
            }
            _ => return Ok(Dug::Rest(build(node, options)?, index)),
        };
        match next {
            None => return Ok(Dug::Missing),
            Some(child) => node = child,
        }
    }
    build(node, options).map(Dug::Found)
}

/// Ruby's own `dig`, which also answers for what has none ("Integer does not have #dig method").
fn dig_in(ruby: &Ruby, object: Value, path: &[Value]) -> Result<Value, Error> {
    let around = ruby.ary_new_from_values(&[object]);
    let steps: Vec<Value> = once(0.into_value_with(ruby)).chain(path.iter().copied()).collect();
    around.funcall("dig", &*steps)
}
