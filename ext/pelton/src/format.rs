//! The format of a topic's payloads, from its settings `decode` and `deserializer`, and the Ruby objects that are built
//! from them.

use crate::value::build::BuildOptions;
use crate::value::gc_root::GcRoot;
use crate::{avro_topic, error, value};
use magnus::r_hash::ForEach;
use magnus::value::ReprValue;
use magnus::{Error, Module, RHash, Ruby, Symbol, Value};
use pelton_core::chunk::MessagePart;
use pelton_core::decode::avro::SchemaId;
use pelton_core::format::{Encoding, Format, Shape};
use std::borrow::Cow;
use std::sync::Arc;

pub const ALLOWED: &str = "expected {\"topic\" => :json or :msgpack (or a Hash with options), :bytes, :utf8, or nil for \
                           JSON that is parsed when it is read}; the key \"*\" is for other topics";

/// The options of each format.
const DESERIALIZERS: [&str; 3] = ["deserializer", "key_deserializer", "headers_deserializer"];

/// Ruby's additions to a format.
#[derive(Default)]
struct Extra {
    /// Makes a payload of a message.
    deserializer: Option<GcRoot>,
    /// Makes its key, and its headers.
    key_deserializer: Option<GcRoot>,
    headers_deserializer: Option<GcRoot>,
    /// A Hash from MessagePack's extension types to what decodes them.
    extensions: Option<GcRoot>,
    /// Other Ractors may call those.
    shareable: bool,
    /// Of Avro: a Pelton::Avro::Decoder, which looks schemas up.
    decoder: Option<GcRoot>,
}

fn extra(format: &Format) -> Option<&Extra> {
    format.extra.as_ref()?.downcast_ref()
}

/// The topic's deserializer of this part.
pub fn deserializer(format: &Format, part: MessagePart) -> Option<Value> {
    let extra = extra(format)?;
    let found = match part {
        MessagePart::Payload => &extra.deserializer,
        MessagePart::Key => &extra.key_deserializer,
        MessagePart::Headers => &extra.headers_deserializer,
    };
    found.as_ref().map(GcRoot::get)
}

/// Of Avro the object that looks schemas up.
pub fn decoder(format: &Format) -> Option<Value> {
    extra(format)?.decoder.as_ref().map(GcRoot::get)
}

/// Has Ruby look the schema up, from which the topic then learns it. Raises what that raises.
pub fn look_up(ruby: &Ruby, format: &Format, id: SchemaId, place: (&str, i32, i64)) -> Result<(), Error> {
    let Some(decoder) = decoder(format).filter(|_| value::in_main_ractor()) else {
        let why = "its schema is not known yet, and only the main Ractor can look it up: read one message there first";
        return Err(error::undecodable(ruby, Some(place), why));
    };
    let (topic, partition, offset) = place;
    decoder.funcall::<_, _, Value>("look_up", (avro_topic::shown(ruby, id), topic, partition, offset)).map(drop)
}

/// Whether building calls the user's code.
pub fn has_extensions(format: &Format) -> bool {
    extra(format).is_some_and(|extra| extra.extensions.is_some())
}

/// Fails in a Ractor that must not call the decoders of extension types.
pub fn options(ruby: &Ruby, format: &Format) -> Result<BuildOptions, Error> {
    let extensions = extra(format).and_then(|extra| Some((extra.extensions.as_ref()?.get(), extra.shareable)));
    if extensions.is_some_and(|(_, shareable)| !shareable && !value::in_main_ractor()) {
        return Err(error::undecodable(
            ruby,
            None,
            "`ext` belongs to the main Ractor: make it shareable with Ractor.make_shareable",
        ));
    }
    Ok(BuildOptions { shape: format.shape, extensions: extensions.map(|(decoders, _)| decoders) })
}

/// `:json`, `:msgpack`, `:bytes`, `:utf8`, nil, or `{format: :json, symbolize_names: true, freeze: true, deserializer:
/// object}`, `{format: :msgpack, ext: {1 => decoder}}`, `{format: :avro, decoder: …}`; `None` for anything else. Fails
/// for options that the format has not.
pub fn read(ruby: &Ruby, given: Value) -> Result<Option<Format>, Error> {
    let options = RHash::from_value(given);
    let name = match options {
        Some(options) => options.lookup(ruby.to_symbol("format"))?,
        None => given,
    };
    let name = match Symbol::from_value(name) {
        None if name.is_nil() => None,
        None => return Ok(None),
        Some(name) => Some(name.name()?.into_owned()),
    };
    let Some(known) = known_options(name.as_deref()) else { return Ok(None) };
    let (shape, extra) = match options {
        Some(options) => read_options(ruby, options, known)?,
        None => Default::default(),
    };
    let format = match name.as_deref() {
        None => Format { shape, ..Format::LAZY },
        Some("msgpack") => Format::ahead(Encoding::MessagePack, shape),
        Some("avro") => match &extra.decoder {
            Some(decoder) => {
                let topic = avro_topic::of(ruby, decoder.get().funcall("native", ())?)?;
                Format::ahead(Encoding::Avro(topic), shape)
            }
            None => return Ok(None),
        },
        Some("bytes") => Format::ahead(Encoding::Bytes, shape),
        Some("utf8") => Format::ahead(Encoding::Text, shape),
        Some(_) => Format::ahead(Encoding::Json, shape),
    };
    let keeps_parts = extra.key_deserializer.is_some() || extra.headers_deserializer.is_some();
    Ok(Some(Format { keeps_parts, extra: Some(Arc::new(extra)), ..format }))
}

/// The other settings of a format, beside `format` and deserializers. `None`: there is no such format.
fn known_options(format: Option<&str>) -> Option<&'static [&'static str]> {
    Some(match format {
        None | Some("json") => &["symbolize_names", "freeze"],
        Some("msgpack") => &["symbolize_keys", "freeze", "ext"],
        Some("avro") => &["symbolize_names", "freeze", "decoder"],
        Some("bytes" | "utf8") => &[],
        Some(_) => return None,
    })
}

fn read_options(ruby: &Ruby, options: RHash, known: &[&str]) -> Result<(Shape, Extra), Error> {
    let (mut shape, mut extra) = (Shape::default(), Extra::default());
    options.foreach(|option: Value, value: Value| {
        let name = Symbol::from_value(option).map(|name| name.name().map(Cow::into_owned)).transpose()?;
        let name = name.unwrap_or_else(|| option.inspect());
        let refuse = |allowed: &str| error::bad_option(ruby, &format!("decode, {name}"), value, allowed);
        let flag = || match value {
            _ if value.is_nil() || value.is_kind_of(ruby.class_false_class()) => Ok(false),
            _ if value.is_kind_of(ruby.class_true_class()) => Ok(true),
            _ => Err(refuse("expected true or false")),
        };
        match &*name {
            "format" => {}
            "deserializer" => extra.deserializer = rooted(value),
            "key_deserializer" => extra.key_deserializer = rooted(value),
            "headers_deserializer" => extra.headers_deserializer = rooted(value),
            name if !known.contains(&name) => {
                let allowed = [&DESERIALIZERS, known].concat().join(", ");
                return Err(refuse(&format!("unknown option, known are {allowed}")));
            }
            "freeze" => shape.frozen = flag()?,
            "decoder" => extra.decoder = rooted(value),
            "ext" if value.is_nil() => {}
            "ext" => {
                let decoders = RHash::from_value(value).ok_or_else(|| refuse("expected {1 => ->(bytes) { … }}"))?;
                let ractor: Value = ruby.class_object().const_get("Ractor")?;
                extra.shareable = ractor.funcall("shareable?", (decoders,))?;
                extra.extensions = rooted(value);
            }
            _ => shape.symbols = flag()?,
        }
        Ok(ForEach::Continue)
    })?;
    Ok((shape, extra))
}

fn rooted(value: Value) -> Option<GcRoot> {
    (!value.is_nil()).then(|| GcRoot::new(value))
}
