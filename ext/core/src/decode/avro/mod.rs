//! Avro: schemas, what a reader makes of a writer's (a plan), documents to the tree, and values to documents.
//!
//! Nothing here knows where schemas come from: the owner of a [`TopicSchemas`] teaches it those that its messages name.

mod canonical;
mod datum;
pub mod decimal;
mod default;
mod encode;
mod framing;
mod logical;
mod matching;
mod names;
mod plan;
mod reader;
mod schema;
mod topic;
mod types;

pub use datum::Datum;
pub use encode::{Unfit, encode, encode_framed};
pub use framing::{Framing, HEADER, SchemaId};
pub use plan::Plan;
pub use schema::{Invalid, Schema};
pub use topic::TopicSchemas;

/// Deepest nesting of values and of types: the tree is walked by recursion.
const MAX_DEPTH: usize = 100;
