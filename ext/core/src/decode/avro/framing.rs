//! The bytes before a document, which name its writer's schema.

use super::{encode, reader};
use crate::decode::Refusal;

/// A header that names the schema, in place of the first bytes of Confluent's payloads.
pub const HEADER: &[u8] = b"__value_schema_id";

/// The first bytes of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// Nothing: all documents are of one schema.
    None,
    /// Confluent's format: 0, then the schema's number in the registry, 4 bytes. Or nothing, and a header names the
    /// schema.
    Registry,
    /// "Single-object encoding": C3 01 and the schema's fingerprint, 8 bytes.
    SingleObject,
}

/// A writer's schema, as messages name it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SchemaId {
    /// The only one.
    Own,
    Number(u32),
    Fingerprint(u64),
    /// The same in all registries.
    Guid([u8; 16]),
}

impl SchemaId {
    /// Of "8-4-4-4-12" digits.
    pub fn guid(text: &str) -> Option<Self> {
        encode::uuid(text).map(Self::Guid)
    }

    /// As "8-4-4-4-12" digits.
    pub fn shown(guid: [u8; 16]) -> String {
        reader::uuid(&guid)
    }

    /// The header's content.
    pub(super) fn of_header(value: &[u8]) -> Result<Self, Refusal> {
        match value {
            [0, number @ ..] if number.len() == 4 => {
                Ok(Self::Number(number.iter().fold(0, |all, byte| all << 8 | u32::from(*byte))))
            }
            [1, guid @ ..] if let Ok(guid) = guid.try_into() => Ok(Self::Guid(guid)),
            _ => Err(Refusal::malformed("its header __value_schema_id is not a schema number or GUID")),
        }
    }
}

impl Framing {
    /// The schema's id, and the bytes before the document.
    pub(super) fn read(self, payload: &[u8]) -> Result<(SchemaId, usize), Refusal> {
        match (self, payload) {
            (Self::None, _) => Ok((SchemaId::Own, 0)),
            (Self::Registry, [0, a, b, c, d, ..]) => Ok((SchemaId::Number(u32::from_be_bytes([*a, *b, *c, *d])), 5)),
            (Self::SingleObject, [0xc3, 0x01, rest @ ..]) => match rest.first_chunk::<8>() {
                Some(print) => Ok((SchemaId::Fingerprint(u64::from_le_bytes(*print)), 10)),
                None => Err(Refusal::malformed("it ends inside the schema fingerprint")),
            },
            (Self::Registry, _) => Err(Refusal::malformed("it does not start with byte 0 and a schema number")),
            (Self::SingleObject, _) => Err(Refusal::malformed("it does not start with bytes C3 01 and a fingerprint")),
        }
    }
}
