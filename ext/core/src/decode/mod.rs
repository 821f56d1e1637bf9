//! Decoding off the Ruby lock: documents to a flat [`Tree`] by native threads of the [`Pool`].
//!
//! The native side accepts only what every Ruby `JSON.parse` (json 2.6.1 … 2.18) turns into the same value. Whatever
//! is doubtful, malformed included, is a [`Reject`]: the caller then asks `JSON.parse`, which gives Ruby's exact value
//! or Ruby's exact error. So a wrong answer is a bug here, an unneeded `Reject` is only slower.

#[forbid(unsafe_code)]
mod json;
#[forbid(unsafe_code)]
mod node;
#[forbid(unsafe_code)]
mod number;
#[forbid(unsafe_code)]
pub mod pool;
mod simd;
#[forbid(unsafe_code)]
mod string;
#[cfg(test)]
#[forbid(unsafe_code)]
mod tests;
#[forbid(unsafe_code)]
mod tree;
#[forbid(unsafe_code)]
mod word;

pub use node::{Fields, Items, Kind, Node, Text};
pub use pool::{Pool, Task};
pub use tree::{Root, Tree};

/// "The native side does not decide": the caller asks `JSON.parse`. Says nothing about whether the document is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reject;

/// Readable bytes [`Tree::parse_json`] wants after the end of a document (their values do not matter).
/// Without them the document is copied first.
pub const PADDING: usize = 64;
