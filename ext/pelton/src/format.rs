//! What a topic's payloads are, from its settings `decode` and `deserializer`, and what Ruby objects become of them.

use crate::value::build::Making;
use crate::value::kept::Kept;
use crate::{avro_topic, error, value};
use magnus::value::ReprValue;
use magnus::{Error, Module, RHash, Ruby, Symbol, Value};
use pelton_core::format::{Encoding, Format, Shape};
use std::sync::Arc;

pub const ALLOWED: &str = "allowed: {\"topic\" => :json or :msgpack (or a Hash with options), :bytes or :utf8}, nil for \
                           JSON when it is asked for, \"*\" for other topics";

/// What Ruby adds to a format.
#[derive(Default)]
struct Extra {
    /// Makes a payload of a message.
    deserializer: Option<Kept>,
    /// A Hash from MessagePack's extension types to what decodes them.
    extensions: Option<Kept>,
    /// Other Ractors may call those.
    shareable: bool,
    /// Of Avro: a Pelton::Avro::Decoder, which looks schemas up.
    decoder: Option<Kept>,
}

fn extra(format: &Format) -> Option<&Extra> {
    format.extra.as_ref()?.downcast_ref()
}

/// The topic's deserializer.
pub fn deserializer(format: &Format) -> Option<Value> {
    extra(format)?.deserializer.as_ref().map(Kept::get)
}

/// What looks schemas of Avro up.
pub fn decoder(format: &Format) -> Option<Value> {
    extra(format)?.decoder.as_ref().map(Kept::get)
}

/// Whether building calls the user's code.
pub fn has_extensions(format: &Format) -> bool {
    extra(format).is_some_and(|extra| extra.extensions.is_some())
}

/// Fails in a Ractor that must not call the decoders of extension types.
pub fn making(ruby: &Ruby, format: &Format) -> Result<Making, Error> {
    let extensions = extra(format).and_then(|extra| Some((extra.extensions.as_ref()?.get(), extra.shareable)));
    if extensions.is_some_and(|(_, shareable)| !shareable && !value::in_main_ractor()) {
        return Err(error::undecodable(
            ruby,
            None,
            "`ext` is the main Ractor's: Ractor.make_shareable(it) to share it",
        ));
    }
    Ok(Making { shape: format.shape, extensions: extensions.map(|(decoders, _)| decoders) })
}

/// `:json`, `:msgpack`, `:bytes`, `:utf8`, nil, or `{format: :json, symbolize_names: true, freeze: true, deserializer:
/// object}`, `{format: :msgpack, ext: {1 => decoder}}`, `{format: :avro, decoder: …}`; `None` for anything else.
pub fn read(ruby: &Ruby, given: Value) -> Result<Option<Format>, Error> {
    let mut shape = Shape::default();
    let mut format = given;
    let mut extra = Extra::default();
    if let Some(options) = RHash::from_value(given) {
        let flag = |name| options.lookup::<_, Option<bool>>(ruby.to_symbol(name));
        format = options.lookup(ruby.to_symbol("format"))?;
        shape.symbols = flag("symbolize_names")?.or(flag("symbolize_keys")?).unwrap_or(false);
        shape.frozen = flag("freeze")?.unwrap_or(false);
        let object = |name| options.lookup::<_, Option<Value>>(ruby.to_symbol(name));
        extra.deserializer = object("deserializer")?.map(Kept::new);
        extra.decoder = object("decoder")?.map(Kept::new);
        if let Some(decoders) = object("ext")?.and_then(RHash::from_value) {
            let ractor: Value = ruby.class_object().const_get("Ractor")?;
            extra.shareable = ractor.funcall("shareable?", (decoders,))?;
            extra.extensions = Some(Kept::new(decoders.as_value()));
        }
    }
    let format = match Symbol::from_value(format) {
        None if format.is_nil() => Format::LAZY,
        None => return Ok(None),
        Some(name) => {
            let encoding = match &*name.name()? {
                "json" => Encoding::Json,
                "msgpack" => Encoding::MessagePack,
                "avro" => match &extra.decoder {
                    Some(decoder) => Encoding::Avro(avro_topic::of(ruby, decoder.get().funcall("native", ())?)?),
                    None => return Ok(None),
                },
                "bytes" => Encoding::Bytes,
                "utf8" => Encoding::Text,
                _ => return Ok(None),
            };
            Format::ahead(encoding, shape)
        }
    };
    Ok(Some(Format { extra: Some(Arc::new(extra)), ..format }))
}
