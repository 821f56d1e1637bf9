//! The parts of a schema.

use super::names::Name;
use crate::decode::json_value::Json;
use std::collections::HashMap;

/// The place of a type in its schema.
pub(super) type Id = usize;

pub(super) enum Type {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Array(Id),
    Map(Id),
    Union(Vec<Id>),
    Record(RecordType),
    Enum(EnumType),
    Fixed(FixedType),
}

pub(super) struct RecordType {
    pub(super) name: Name,
    pub(super) aliases: Vec<Name>,
    pub(super) fields: Vec<Field>,
    /// Which of the fields has a name.
    pub(super) indexes: HashMap<Box<str>, usize>,
}

pub(super) struct Field {
    pub(super) name: Box<str>,
    pub(super) aliases: Vec<Box<str>>,
    pub(super) of: Id,
    pub(super) default: Option<Json>,
}

pub(super) struct EnumType {
    pub(super) name: Name,
    pub(super) aliases: Vec<Name>,
    pub(super) symbols: Vec<Box<str>>,
    /// Which of the symbols it is.
    pub(super) indexes: HashMap<Box<str>, usize>,
    /// A symbol's place.
    pub(super) default: Option<usize>,
}

pub(super) struct FixedType {
    pub(super) name: Name,
    pub(super) aliases: Vec<Name>,
    pub(super) size: usize,
}
