//! The Avro of one topic: whichever schemas its messages were written with, read as one.

use super::framing::{Framing, HEADER, SchemaId};
use super::plan::Plan;
use super::reader;
use super::schema::Schema;
use crate::decode::{Refusal, Root, Tree};
use crate::view::View;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

pub struct TopicSchemas {
    framing: Framing,
    /// The reader's schema. `None`: documents are read as written.
    reader: Option<Arc<Schema>>,
    /// The plans by the writer's schema; `learn` adds one. Not under a lock: a fork might copy a lock that a decoding
    /// thread holds, and the child would wait for it for ever.
    plans: [PlanSlot; PLACES],
}

const PLACES: usize = 64;

/// A list of plans whose ids share a place.
type PlanSlot = OnceLock<Box<KnownSchema>>;

struct KnownSchema {
    id: SchemaId,
    plan: Plan,
    next: PlanSlot,
}

impl TopicSchemas {
    pub fn new(framing: Framing, reader: Option<Arc<Schema>>) -> Self {
        Self { framing, reader, plans: [const { OnceLock::new() }; PLACES] }
    }

    /// From now on documents with this id can be read. The first schema of an id counts.
    pub fn learn(&self, id: SchemaId, writer: &Schema) {
        let mut slot = self.slot(id);
        if self.plan(id).is_some() {
            return;
        }
        let reader = self.reader.as_deref().unwrap_or(writer);
        let plan = match self.framing {
            Framing::Registry => Plan::framed(writer, reader),
            Framing::None | Framing::SingleObject => Plan::new(writer, reader),
        };
        let mut new = Box::new(KnownSchema { id, plan, next: OnceLock::new() });
        while let Err(refused) = slot.set(new) {
            new = refused;
            match slot.get() {
                Some(known) => slot = &known.next,
                None => return,
            }
        }
    }

    fn slot(&self, id: SchemaId) -> &PlanSlot {
        let number = match id {
            SchemaId::Own => 0,
            SchemaId::Number(number) => number.into(),
            SchemaId::Fingerprint(print) => print,
            SchemaId::Guid(guid) => guid[15].into(),
        };
        &self.plans[number as usize % PLACES]
    }

    fn plan(&self, id: SchemaId) -> Option<&Plan> {
        let mut known = self.slot(id).get();
        while let Some(one) = known.filter(|one| one.id != id) {
            known = one.next.get();
        }
        known.map(|known| &known.plan)
    }

    /// The schema that the payload or its header names, if `learn` does not know it. `None` if none is named.
    pub fn unknown(&self, payload: &[u8], header: Option<&[u8]>) -> Option<SchemaId> {
        let (id, _) = self.named(payload, header).ok()?;
        self.plan(id).is_none().then_some(id)
    }

    /// The same of a message.
    pub fn unknown_of(&self, message: &View<'_>) -> Option<SchemaId> {
        self.unknown(message.payload?, self.header(message))
    }

    /// Appends the document `bytes[start..end]`, its framing before it, to the tree.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] if `learn` must be called first.
    pub fn decode(&self, tree: &mut Tree, bytes: &[u8], start: usize, end: usize) -> Result<Root, Refusal> {
        self.decode_named(tree, bytes, start..end, None)
    }

    /// The same for a document whose schema may be in a header.
    ///
    /// # Errors
    /// As of `decode`.
    pub fn decode_named(
        &self,
        tree: &mut Tree,
        bytes: &[u8],
        range: Range<usize>,
        header: Option<&[u8]>,
    ) -> Result<Root, Refusal> {
        let payload = bytes.get(range.clone()).ok_or(Refusal::malformed("it is too large"))?;
        let (id, framing) = self.named(payload, header)?;
        let plan = self.plan(id).ok_or(Refusal::Unknown(id))?;
        let document = range.start + framing..range.end;
        tree.write(bytes, document, |writer, range| reader::read(plan, writer, bytes, range))
    }

    /// The same for a message's payload, whose schema may be in a header.
    ///
    /// # Errors
    /// As of `decode`.
    pub fn decode_message(
        &self,
        tree: &mut Tree,
        bytes: &[u8],
        range: Range<usize>,
        message: &View<'_>,
    ) -> Result<Root, Refusal> {
        self.decode_named(tree, bytes, range, self.header(message))
    }

    /// The header of a message that names its payload's schema.
    fn header<'a>(&self, message: &View<'a>) -> Option<&'a [u8]> {
        if self.framing != Framing::Registry {
            return None;
        }
        message.headers().filter(|(name, _)| *name == HEADER).last()?.1
    }

    /// The schema, and the bytes before the document.
    fn named(&self, payload: &[u8], header: Option<&[u8]>) -> Result<(SchemaId, usize), Refusal> {
        match header {
            Some(value) if self.framing == Framing::Registry => Ok((SchemaId::of_header(value)?, 0)),
            _ => self.framing.read(payload),
        }
    }
}
