//! The Avro of one topic: whichever schemas its messages were written with, read as one.

use super::framing::{Framing, HEADER, SchemaId};
use super::plan::Plan;
use super::reader;
use super::schema::Schema;
use crate::decode::{Refusal, Root, Tree};
use crate::view::View;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

pub struct Topic {
    framing: Framing,
    /// What is wanted; `None`: what was written.
    reader: Option<Arc<Schema>>,
    /// By the schema that was written; grows by the schemas that `learn` is told. Not under a lock: a fork would copy it as a
    /// decoding thread held it, and the child would wait for that for ever.
    plans: [Place; PLACES],
}

const PLACES: usize = 64;

/// Plans whose ids share a place, one behind the other.
type Place = OnceLock<Box<Known>>;

struct Known {
    id: SchemaId,
    plan: Plan,
    next: Place,
}

impl Topic {
    pub fn new(framing: Framing, reader: Option<Arc<Schema>>) -> Self {
        Self { framing, reader, plans: [const { OnceLock::new() }; PLACES] }
    }

    /// From now on documents with this id can be read. The first schema of an id counts.
    pub fn learn(&self, id: SchemaId, writer: &Schema) {
        let mut place = self.place(id);
        if self.plan(id).is_some() {
            return;
        }
        let plan = Plan::new(writer, self.reader.as_deref().unwrap_or(writer));
        let mut new = Box::new(Known { id, plan, next: OnceLock::new() });
        while let Err(refused) = place.set(new) {
            new = refused;
            match place.get() {
                Some(known) => place = &known.next,
                None => return,
            }
        }
    }

    fn place(&self, id: SchemaId) -> &Place {
        let number = match id {
            SchemaId::Own => 0,
            SchemaId::Number(number) => number.into(),
            SchemaId::Fingerprint(print) => print,
            SchemaId::Guid(guid) => guid[15].into(),
        };
        &self.plans[number as usize % PLACES]
    }

    fn plan(&self, id: SchemaId) -> Option<&Plan> {
        let mut known = self.place(id).get();
        while let Some(one) = known.filter(|one| one.id != id) {
            known = one.next.get();
        }
        known.map(|known| &known.plan)
    }

    /// The schema that the payload names, if `learn` has not been told of it; nothing of a payload that names none.
    pub fn unknown(&self, payload: &[u8]) -> Option<SchemaId> {
        let (id, _) = self.framing.read(payload).ok()?;
        self.plan(id).is_none().then_some(id)
    }

    /// Appends the document `bytes[start..end]`, its framing before it, to the tree.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] where `learn` has to be called first.
    pub fn decode(&self, tree: &mut Tree, bytes: &[u8], start: usize, end: usize) -> Result<Root, Refusal> {
        let payload = bytes.get(start..end).ok_or(Refusal::malformed("it is too large"))?;
        let (id, framing) = self.framing.read(payload)?;
        self.read(tree, bytes, start + framing..end, id)
    }

    /// The same of a message's payload, whose schema a header of it may tell.
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
        let named = message.headers().filter(|(name, _)| *name == HEADER && self.framing == Framing::Registry).last();
        match named {
            Some((_, Some(value))) => self.read(tree, bytes, range, SchemaId::of_header(value)?),
            _ => self.decode(tree, bytes, range.start, range.end),
        }
    }

    fn read(&self, tree: &mut Tree, bytes: &[u8], range: Range<usize>, id: SchemaId) -> Result<Root, Refusal> {
        let plan = self.plan(id).ok_or(Refusal::Unknown(id))?;
        tree.write(bytes, range, |writer, range| reader::read(plan, writer, bytes, range))
    }
}
