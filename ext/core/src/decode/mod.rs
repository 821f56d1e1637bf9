//! Decoding without Ruby's GVL: documents to a flat [`Tree`] by native threads of the [`Pool`].
//!
//! A format is a function from a document's bytes into a tree ([`Tree::parse_json`], [`Tree::parse_msgpack`]) and a
//! line in `format.rs`. A document that it cannot read gives a [`Refusal`].
//!
//! Of JSON the native side accepts only what every Ruby `JSON.parse` (json 2.6.1 … 2.18) turns into the same value.
//! Whatever is doubtful, malformed included, is a [`Reject`]: the caller then asks `JSON.parse`, which gives Ruby's
//! exact value or Ruby's exact error. So a wrong answer is a bug here, an unneeded `Reject` is only slower.

pub mod avro;
mod entry;
mod json;
mod json_value;
mod msgpack;
mod node;
mod number;
pub mod pool;
#[allow(unsafe_code)]
mod simd;
mod string;
#[cfg(test)]
mod tests;
mod tree;
mod writer;

pub use node::{Fields, Items, Kind, Node, Text, Unit};
pub use pool::{Pool, Task};
use std::borrow::Cow;
pub use tree::{Root, Tree};

/// "The native side does not decide": the caller asks `JSON.parse`. Says nothing about whether the document is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reject;

/// Why a document has no tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Ruby decides: it may have a value, or an error.
    Undecided,
    /// It is not what its format says, and why: "it ends too early".
    Malformed(Cow<'static, str>),
    /// Its schema must be looked up first.
    Unknown(avro::SchemaId),
}

impl Refusal {
    const fn malformed(reason: &'static str) -> Self {
        Self::Malformed(Cow::Borrowed(reason))
    }
}

impl From<Reject> for Refusal {
    fn from(_: Reject) -> Self {
        Self::Undecided
    }
}

/// Readable bytes [`Tree::parse_json`] wants after the end of a document (their values do not matter).
/// Without them the document is copied first.
pub const PADDING: usize = 64;
