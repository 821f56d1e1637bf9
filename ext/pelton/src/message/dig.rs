//! `Message#dig`: one value out of the decoded tree, without building the rest.

use super::ours;
use super::payload::{decoded, deserializer, explained, kept, read};
use crate::value::build::{BuildOptions, build};
use crate::value::message::message_ref;
use crate::{format, value};
use magnus::value::ReprValue;
use magnus::{Error, IntoValue, Ruby, Symbol, Value};
use pelton_core::chunk::MessagePart;
use pelton_core::decode::{Kind, Node};
use pelton_core::format::Shape;
use std::iter::once;

/// The result of walking the tree.
enum DigResult {
    Missing,
    Found(Value),
    /// Ruby takes the steps from this one on, on this object: it is no container, or the step is no plain key.
    Rest(Value, usize),
}

pub(super) fn dig(ruby: &Ruby, this: Value, path: &[Value]) -> Result<Value, Error> {
    if path.is_empty() {
        return Err(Error::new(ruby.exception_arg_error(), "wrong number of arguments (given 0, expected 1+)"));
    }
    let message = message_ref(ruby, this)?;
    // The tree does not contain what a deserializer made.
    let kept = if deserializer(&message, MessagePart::Payload).is_none() { kept(&message)? } else { None };
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
            DigResult::Missing => Ok(ruby.qnil().as_value()),
            DigResult::Found(found) => Ok(found),
            DigResult::Rest(object, step) => dig_in(ruby, object, &path[step..]),
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

fn walk(root: Node<'_>, path: &[Value], options: BuildOptions) -> Result<DigResult, Error> {
    let mut node = root;
    for (index, step) in path.iter().enumerate() {
        let next = match node.kind() {
            Kind::Null => return Ok(DigResult::Missing),
            Kind::Object(_) if !node.is_foreign() && is_name(*step, options.shape) => {
                value::bytes(&name(*step)?).and_then(|key| node.get(key))
            }
            Kind::Array(_) if magnus::value::Fixnum::from_value(*step).is_some() => {
                magnus::value::Fixnum::from_value(*step).and_then(|position| node.at(position.to_i64()))
            }
            _ => return Ok(DigResult::Rest(build(node, options)?, index)),
        };
        match next {
            None => return Ok(DigResult::Missing),
            Some(child) => node = child,
        }
    }
    build(node, options).map(DigResult::Found)
}

/// Ruby's own `dig`, which also answers for what has none ("Integer does not have #dig method").
fn dig_in(ruby: &Ruby, object: Value, path: &[Value]) -> Result<Value, Error> {
    let around = ruby.ary_new_from_values(&[object]);
    let steps: Vec<Value> = once(0.into_value_with(ruby)).chain(path.iter().copied()).collect();
    around.funcall("dig", &*steps)
}
