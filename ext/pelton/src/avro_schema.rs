//! Pelton::Native::AvroSchema

use crate::value::typed::{NativeData, Shared};
use crate::{convert, datum, error, gvl, value};
use magnus::value::ReprValue;
use magnus::{Error, Module, Object, RArray, RModule, Ruby, Value, function, method};
use pelton_core::decode::avro::{Schema, encode, encode_framed};
use std::sync::Arc;

/// A byte of a schema is as much work as this many bytes of a document.
pub const WORK: usize = 16;

static CLASS: Shared<Arc<Schema>> = Shared::new(c"Pelton::Native::AvroSchema");

impl NativeData for Arc<Schema> {
    fn collected(self) {}
}

pub fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = native.define_class("AvroSchema", ruby.class_object())?;
    CLASS.define(class);
    class.define_singleton_method("new", function!(new, 2))?;
    class.define_method("name", method!(name, 0))?;
    class.define_method("canonical", method!(canonical, 0))?;
    class.define_method("fingerprint", method!(fingerprint, 0))?;
    class.define_method("encode", method!(encoded, 2))
}

/// The schema behind an object of this class.
pub fn of(ruby: &Ruby, object: Value) -> Result<Arc<Schema>, Error> {
    Ok(Arc::clone(&*CLASS.get(ruby, &object)?))
}

fn new(ruby: &Ruby, text: String, references: RArray) -> Result<Value, Error> {
    let references = convert::strings(ruby, "references", references)?;
    let bytes = references.iter().map(String::len).sum::<usize>() + text.len();
    let nil = ruby.qnil().as_value();
    // Much work a byte: names and numbers become objects.
    let schema = gvl::aside(ruby, nil, WORK * bytes, move || Schema::parse(&text, &references))?;
    CLASS.wrap(Arc::new(schema.map_err(|why| error::bad_option(ruby, "schema", nil, &why.to_string()))?))
}

fn name(ruby: &Ruby, this: Value) -> Result<Option<String>, Error> {
    Ok(CLASS.get(ruby, &this)?.name().map(str::to_owned))
}

fn canonical(ruby: &Ruby, this: Value) -> Result<String, Error> {
    Ok(CLASS.get(ruby, &this)?.canonical())
}

fn fingerprint(ruby: &Ruby, this: Value) -> Result<u64, Error> {
    Ok(CLASS.get(ruby, &this)?.fingerprint())
}

/// The document of a value. `framed`: Confluent's frame comes before it.
fn encoded(ruby: &Ruby, this: Value, given: Value, framed: bool) -> Result<Value, Error> {
    let schema = of(ruby, this)?;
    let encode = if framed { encode_framed } else { encode };
    let (datum, size) = datum::read(ruby, schema.name(), given)?;
    let theirs = Arc::clone(&schema);
    let (done, bytes) = gvl::aside(ruby, this, size, move || {
        let mut bytes = Vec::new();
        (encode(&theirs, &datum, &mut bytes), bytes)
    })?;
    match done {
        Ok(()) => value::string(bytes.len(), value::StringEncoding::Binary, |string| string.copy_from_slice(&bytes)),
        Err(unfit) => Err(error::unfit(ruby, schema.name(), &unfit.to_string())),
    }
}
