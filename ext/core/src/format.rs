//! The format of a topic's payloads, and what Ruby builds from them.

use crate::decode::{Refusal, Root, Tree, avro};
use crate::view::View;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// One for each topic (or "all others") of a subscription; its chunks share it.
pub struct Format {
    pub encoding: Encoding,
    /// Native threads decode the messages as soon as they arrive. Otherwise the first read decodes them.
    pub ahead: bool,
    pub shape: Shape,
    /// Whether the owner of message objects keeps keys and headers of them, too.
    pub keeps_parts: bool,
    /// What the Ruby side needs to build objects. Any thread may drop it.
    pub extra: Option<Arc<dyn Any + Send + Sync>>,
}

pub enum Encoding {
    Json,
    MessagePack,
    Avro(Arc<avro::TopicSchemas>),
    /// Not decoded: a payload is a String of bytes.
    Bytes,
    /// The same, of characters: UTF-8.
    Text,
}

/// How decoded values are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shape {
    /// Keys are Symbols.
    pub symbols: bool,
    /// All is frozen.
    pub frozen: bool,
}

impl Format {
    /// JSON, decoded on first use: the default of a topic.
    pub const LAZY: Self = Self {
        encoding: Encoding::Json,
        ahead: false,
        shape: Shape { symbols: false, frozen: false },
        keeps_parts: false,
        extra: None,
    };

    /// JSON, decoded ahead.
    pub const JSON: Self = Self::ahead(Encoding::Json, Shape { symbols: false, frozen: false });

    /// Decoded ahead, if there is anything to decode.
    pub const fn ahead(encoding: Encoding, shape: Shape) -> Self {
        let ahead = !matches!(encoding, Encoding::Bytes | Encoding::Text);
        Self { encoding, ahead, shape, keeps_parts: false, extra: None }
    }

    /// Whether there are trees of such payloads.
    pub fn has_fields(&self) -> bool {
        !matches!(self.encoding, Encoding::Bytes | Encoding::Text)
    }

    /// Appends the document `bytes[start..end]` to the tree. `bytes` is the whole chunk, as [`Tree::node`] wants it.
    pub fn decode(&self, tree: &mut Tree, bytes: &[u8], start: usize, end: usize) -> Result<Root, Refusal> {
        match &self.encoding {
            Encoding::Json => Ok(tree.parse_json(bytes, start, end)?),
            Encoding::MessagePack => tree.parse_msgpack(bytes, start, end),
            Encoding::Avro(topic) => topic.decode(tree, bytes, start, end),
            Encoding::Bytes | Encoding::Text => Err(Refusal::Undecided),
        }
    }

    /// The same for a message with that payload. Some formats read its headers.
    pub fn decode_message(
        &self,
        tree: &mut Tree,
        bytes: &[u8],
        range: Range<usize>,
        message: &View<'_>,
    ) -> Result<Root, Refusal> {
        match &self.encoding {
            Encoding::Avro(topic) => topic.decode_message(tree, bytes, range, message),
            _ => self.decode(tree, bytes, range.start, range.end),
        }
    }
}
