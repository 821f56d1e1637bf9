//! Pelton::Native::AvroTopic: what lib/pelton/avro/decoder.rb stands on.

use crate::value::build::{BuildOptions, build};
use crate::value::typed::{NativeData, Shared};
use crate::{avro_schema, error, gvl, value};
use magnus::value::ReprValue;
use magnus::{
    Error, Integer, IntoValue, Module, Object, RArray, RModule, RString, Ruby, Symbol, Value, function, method,
};
use pelton_core::decode::avro::{Framing, SchemaId, TopicSchemas};
use pelton_core::decode::{Refusal, Tree};
use pelton_core::format::Shape;
use std::sync::Arc;

static CLASS: Shared<Arc<TopicSchemas>> = Shared::new(c"Pelton::Native::AvroTopic");

impl NativeData for Arc<TopicSchemas> {
    fn collected(self) {}
}

pub fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = native.define_class("AvroTopic", ruby.class_object())?;
    CLASS.define(class);
    class.define_singleton_method("new", function!(new, 2))?;
    class.define_method("learn", method!(learn, 2))?;
    class.define_method("unknown", method!(unknown, 2))?;
    class.define_method("decode", method!(decode, 3))
}

/// The topic behind an object of this class.
pub fn of(ruby: &Ruby, object: Value) -> Result<Arc<TopicSchemas>, Error> {
    Ok(Arc::clone(&*CLASS.get(ruby, &object)?))
}

fn new(ruby: &Ruby, framing: Symbol, reader: Value) -> Result<Value, Error> {
    let framing = match &*framing.name()? {
        "confluent" => Framing::Registry,
        "single_object" => Framing::SingleObject,
        _ => Framing::None,
    };
    let reader = if reader.is_nil() { None } else { Some(avro_schema::of(ruby, reader)?) };
    CLASS.wrap(Arc::new(TopicSchemas::new(framing, reader)))
}

/// id: nil, a registry's number, [fingerprint] or a GUID: "8-4-4-4-12" digits.
fn learn(ruby: &Ruby, this: Value, id: Value, schema: Value) -> Result<(), Error> {
    let id = if let Some(list) = RArray::from_value(id) {
        SchemaId::Fingerprint(list.entry(0)?)
    } else if let Some(number) = Integer::from_value(id) {
        SchemaId::Number(number.to_u32()?)
    } else if let Some(text) = RString::from_value(id) {
        let wrong = || Error::new(ruby.exception_arg_error(), "wanted: 8-4-4-4-12 digits");
        SchemaId::guid(&text.to_string()?).ok_or_else(wrong)?
    } else {
        SchemaId::Own
    };
    let (topic, schema) = (of(ruby, this)?, avro_schema::of(ruby, schema)?);
    gvl::aside(ruby, this, avro_schema::WORK * schema.bytes(), move || topic.learn(id, &schema))
}

/// As `learn` takes it.
pub fn shown(ruby: &Ruby, id: SchemaId) -> Value {
    match id {
        SchemaId::Own => ruby.qnil().as_value(),
        SchemaId::Number(number) => number.into_value_with(ruby),
        SchemaId::Guid(guid) => SchemaId::shown(guid).into_value_with(ruby),
        SchemaId::Fingerprint(print) => ruby.ary_new_from_values(&[print.into_value_with(ruby)]).as_value(),
    }
}

/// The id of the payload's schema (by the header that names it, or nil), as `learn` takes it, if that is not known yet.
fn unknown(ruby: &Ruby, this: Value, payload: Value, header: Value) -> Result<Value, Error> {
    let id = CLASS.get(ruby, &this)?.unknown(value::bytes(&payload).unwrap_or_default(), value::bytes(&header));
    Ok(id.map_or_else(|| ruby.qnil().as_value(), |id| shown(ruby, id)))
}

/// The value of a payload whose schema is known. Raises DecodeError.
fn decode(ruby: &Ruby, this: Value, payload: Value, header: Value, shape: RArray) -> Result<Value, Error> {
    let topic = of(ruby, this)?;
    let wrong = || Error::new(ruby.exception_type_error(), "expected a payload, a String");
    let bytes = value::bytes(&payload).map(<[u8]>::to_vec).ok_or_else(wrong)?;
    let header = value::bytes(&header).map(<[u8]>::to_vec);
    let (root, tree, bytes) = gvl::aside(ruby, this, bytes.len(), move || {
        let mut tree = Tree::new();
        (topic.decode_named(&mut tree, &bytes, 0..bytes.len(), header.as_deref()), tree, bytes)
    })?;
    match root {
        Ok(root) => {
            let shape = Shape { symbols: shape.entry(0)?, frozen: shape.entry(1)? };
            build(tree.node(&bytes, root), BuildOptions { shape, extensions: None })
        }
        Err(Refusal::Malformed(why)) => Err(error::undecodable(ruby, None, &why)),
        Err(_) => Err(error::undecodable(ruby, None, "its schema is not known")),
    }
}
