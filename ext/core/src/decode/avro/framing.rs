//! What comes before a document: which schema it was written with.

use crate::decode::Refusal;

/// What a payload begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// Nothing: all documents are of one schema.
    None,
    /// Confluent's: 0 and a registry's number of the schema, 4 bytes.
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
}

impl Framing {
    /// The schema's id, and the bytes before the document.
    pub(super) fn read(self, payload: &[u8]) -> Result<(SchemaId, usize), Refusal> {
        match (self, payload) {
            (Self::None, _) => Ok((SchemaId::Own, 0)),
            (Self::Registry, [0, a, b, c, d, ..]) => Ok((SchemaId::Number(u32::from_be_bytes([*a, *b, *c, *d])), 5)),
            (Self::SingleObject, [0xc3, 0x01, rest @ ..]) => match rest.first_chunk::<8>() {
                Some(print) => Ok((SchemaId::Fingerprint(u64::from_le_bytes(*print)), 10)),
                None => Err(Refusal::malformed("it ends within its schema's fingerprint")),
            },
            (Self::Registry, _) => Err(Refusal::malformed("it does not begin with 0 and the number of a schema")),
            (Self::SingleObject, _) => Err(Refusal::malformed("it does not begin with C3 01 and a fingerprint")),
        }
    }
}
