//! What a topic's payloads are, from its settings `decode` and `deserializer`.

use crate::value::kept::Kept;
use magnus::value::ReprValue;
use magnus::{Error, RHash, Ruby, Symbol, Value};
use pelton_core::format::{Encoding, Format, Shape};
use std::sync::Arc;

pub const ALLOWED: &str = "allowed: {\"topic\" => :json or :msgpack (or a Hash with options), :bytes or :utf8}, nil for \
                           JSON when it is asked for, \"*\" for other topics";

/// What Ruby adds to a format.
#[derive(Default)]
struct Extra {
    /// Makes a payload of a message.
    deserializer: Option<Kept>,
}

/// The topic's deserializer.
pub fn deserializer(format: &Format) -> Option<Value> {
    let extra = format.extra.as_ref()?.downcast_ref::<Extra>()?;
    extra.deserializer.as_ref().map(Kept::get)
}

/// `:json`, `:msgpack`, `:bytes`, `:utf8`, nil, or `{format: :json, symbolize_names: true, freeze: true, deserializer:
/// object}`; `None` for anything else.
pub fn read(ruby: &Ruby, given: Value) -> Result<Option<Format>, Error> {
    let mut shape = Shape::default();
    let mut format = given;
    let mut extra = Extra::default();
    if let Some(options) = RHash::from_value(given) {
        let flag = |name| options.lookup::<_, Option<bool>>(ruby.to_symbol(name));
        format = options.lookup(ruby.to_symbol("format"))?;
        shape.symbols = flag("symbolize_names")?.or(flag("symbolize_keys")?).unwrap_or(false);
        shape.frozen = flag("freeze")?.unwrap_or(false);
        extra.deserializer = options.lookup::<_, Option<Value>>(ruby.to_symbol("deserializer"))?.map(Kept::new);
    }
    let format = match Symbol::from_value(format) {
        None if format.is_nil() => Format::LAZY,
        None => return Ok(None),
        Some(name) => {
            let encoding = match &*name.name()? {
                "json" => Encoding::Json,
                "msgpack" => Encoding::MessagePack,
                "bytes" => Encoding::Bytes,
                "utf8" => Encoding::Text,
                _ => return Ok(None),
            };
            Format::ahead(encoding, shape)
        }
    };
    Ok(Some(Format { extra: Some(Arc::new(extra)), ..format }))
}
