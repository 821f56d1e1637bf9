//! What a topic's payloads are, from its setting `decode`.

use magnus::value::ReprValue;
use magnus::{Error, RHash, Ruby, Symbol, Value};
use pelton_core::format::{Encoding, Format, Shape};

pub const ALLOWED: &str = "allowed: {\"topic\" => :json or :msgpack (or a Hash with options), :bytes or :utf8}, nil for \
                           JSON when it is asked for, \"*\" for other topics";

/// `:json`, `:msgpack`, `:bytes`, `:utf8`, nil, or `{format: :json, symbolize_names: true, freeze: true}`; `None` for
/// anything else.
pub fn read(ruby: &Ruby, given: Value) -> Result<Option<Format>, Error> {
    let mut shape = Shape::default();
    let mut format = given;
    if let Some(options) = RHash::from_value(given) {
        let flag = |name| options.lookup::<_, Option<bool>>(ruby.to_symbol(name));
        format = options.lookup(ruby.to_symbol("format"))?;
        shape.symbols = flag("symbolize_names")?.or(flag("symbolize_keys")?).unwrap_or(false);
        shape.frozen = flag("freeze")?.unwrap_or(false);
    }
    let Some(format) = Symbol::from_value(format) else { return Ok(format.is_nil().then_some(Format::LAZY)) };
    let encoding = match &*format.name()? {
        "json" => Encoding::Json,
        "msgpack" => Encoding::MessagePack,
        "bytes" => Encoding::Bytes,
        "utf8" => Encoding::Text,
        _ => return Ok(None),
    };
    Ok(Some(Format::ahead(encoding, shape)))
}
