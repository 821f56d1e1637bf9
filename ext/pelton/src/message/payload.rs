//! The payload as a Ruby object: built from the decoded tree once, then kept. Deserializers of users, for keys and
//! headers too.

use super::{copy, ours, view};
use crate::value::build::build;
use crate::value::message::{self as objects, MessageRef, message_ref};
use crate::value::{self, StringEncoding};
use crate::{error, format, gvl};
use magnus::scan_args::scan_args;
use magnus::value::ReprValue;
use magnus::{Error, Exception, Module, Ruby, Symbol, Value};
use pelton_core::chunk::{MessagePart, View};
use pelton_core::decode::avro::SchemaId;
use pelton_core::decode::{Node, Refusal};
use pelton_core::fallbacks;
use pelton_core::format::{Encoding, Shape};
use std::borrow::Cow;
use std::sync::Arc;

pub(super) fn payload(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    let message = message_ref(ruby, this)?;
    if let Some(kept) = kept(&message)? {
        return Ok(kept);
    }
    if message.record().payload_size().is_none() {
        return Ok(ruby.qnil().as_value());
    }
    ours(ruby, &message)?;
    if let Some(deserializer) = deserializer(&message, MessagePart::Payload) {
        return deserialize(ruby, this, MessagePart::Payload, deserializer);
    }
    let built = decode(ruby, &message).inspect_err(|error| keep_error(this, &message, error))?;
    // If Ruby code took part (a decoder of extensions, say), another thread may have been faster.
    if let Some(kept) = kept(&message)? {
        return Ok(kept);
    }
    objects::keep(this, &message, MessagePart::Payload, built);
    Ok(built)
}

/// The topic's deserializer of this part, which is the main Ractor's.
pub(super) fn deserializer(message: &MessageRef, part: MessagePart) -> Option<Value> {
    let format = &message.chunk().format;
    if part != MessagePart::Payload && !format.keeps_parts {
        return None;
    }
    format::deserializer(format, part).filter(|_| value::in_main_ractor())
}

/// The payload from the topic's `decode` alone. Built again if a deserializer made the payload.
pub(super) fn decoded(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    let message = message_ref(ruby, this)?;
    if message.record().payload_size().is_none() || deserializer(&message, MessagePart::Payload).is_none() {
        return payload(ruby, this);
    }
    ours(ruby, &message)?;
    decode(ruby, &message)
}

/// Keeps a payload (or a :key, or :headers) that was made elsewhere, if there is none yet. Returns the kept one.
pub(super) fn keep(ruby: &Ruby, this: Value, args: &[Value]) -> Result<Value, Error> {
    let args = scan_args::<(Value,), (Option<Symbol>,), (), (), (), ()>(args)?;
    let (made,) = args.required;
    let part = match args.optional.0.map(|part| part.name().map(Cow::into_owned)).transpose()?.as_deref() {
        Some("key") => MessagePart::Key,
        Some("headers") => MessagePart::Headers,
        _ => MessagePart::Payload,
    };
    let message = message_ref(ruby, this)?;
    let before = if part == MessagePart::Payload { kept(&message)? } else { objects::kept(&message, part) };
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

/// Lends the message's decoded payload to `call`, which has the GVL. A chunk that no native thread started with, or a
/// single document, is parsed here first: without the GVL if that takes long.
pub(super) fn read<R>(
    ruby: &Ruby,
    message: &MessageRef,
    call: impl FnOnce(Node<'_>) -> R,
) -> Result<Result<R, Refusal>, Error> {
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
pub(super) fn look_up(ruby: &Ruby, message: &MessageRef, schema: SchemaId) -> Result<Value, Error> {
    let (chunk, record) = (message.chunk(), message.record());
    format::look_up(ruby, &chunk.format, schema, (&chunk.topic, chunk.partition, record.offset))?;
    match read(ruby, message, |node| build(node, format::options(ruby, &chunk.format)?))? {
        Ok(built) => built.map_err(|error| explained(ruby, message, error)),
        Err(Refusal::Malformed(reason)) => Err(undecodable(ruby, message, &reason)),
        Err(_) => Err(undecodable(ruby, message, "its schema is not known")),
    }
}

/// The payload that was built before, or again the error.
pub(super) fn kept(message: &MessageRef) -> Result<Option<Value>, Error> {
    let kept = objects::kept(message, MessagePart::Payload);
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
        objects::keep(this, message, MessagePart::Payload, again);
    }
}

/// An error from a decoder of extensions (or from Ruby, for a Symbol that is not UTF-8), as the cause of a DecodeError.
pub(super) fn explained(ruby: &Ruby, message: &MessageRef, error: Error) -> Error {
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

pub(super) fn undecodable(ruby: &Ruby, message: &MessageRef, reason: &str) -> Error {
    let chunk = message.chunk();
    error::undecodable(ruby, Some((&chunk.topic, chunk.partition, message.record().offset)), reason)
}

/// The native decoder does not decide: Ruby's own gives its value or its error.
pub(super) fn ask_ruby(ruby: &Ruby, message: &MessageRef) -> Result<Value, Error> {
    let raw = copy(ruby, message, StringEncoding::Binary, |view| view.payload)?;
    let json: Value = value::pelton(ruby)?.const_get("Json")?;
    let (chunk, record) = (message.chunk(), message.record());
    fallbacks::count(&chunk.topic);
    let shape = chunk.format.shape;
    let options = (shape != Shape::default()).then(|| ruby.hash_new());
    if let Some(options) = options {
        options.aset(ruby.to_symbol("symbolize_names"), shape.symbols)?;
        options.aset(ruby.to_symbol("freeze"), shape.frozen)?;
    }
    json.funcall("parse", (raw, value::interned(&chunk.topic)?, chunk.partition, record.offset, options))
}

/// The key or headers from a deserializer, made now if that did not happen yet.
pub(super) fn made(
    ruby: &Ruby,
    this: Value,
    message: &MessageRef,
    part: MessagePart,
    deserializer: Value,
) -> Result<Value, Error> {
    match objects::kept(message, part) {
        Some(kept) => Ok(kept),
        None => {
            ours(ruby, message)?;
            deserialize(ruby, this, part, deserializer)
        }
    }
}

/// Ruby asks it, and has the message keep the answer.
fn deserialize(ruby: &Ruby, this: Value, part: MessagePart, deserializer: Value) -> Result<Value, Error> {
    let deserializing: Value = value::pelton(ruby)?.const_get("Deserializing")?;
    let method = match part {
        MessagePart::Payload => "payload",
        MessagePart::Key => "key",
        MessagePart::Headers => "headers",
    };
    deserializing.funcall(method, (deserializer, this))
}
