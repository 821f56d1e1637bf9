//! The Avro of one topic: whichever schemas its messages were written with, read as one.

use super::framing::{Framing, SchemaId};
use super::plan::Plan;
use super::reader;
use super::schema::Schema;
use crate::decode::{Refusal, Root, Tree};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

pub struct Topic {
    framing: Framing,
    /// What is wanted; `None`: what was written.
    reader: Option<Arc<Schema>>,
    /// By the schema that was written; grows by the schemas that `learn` is told.
    plans: RwLock<HashMap<SchemaId, Arc<Plan>>>,
}

impl Topic {
    pub fn new(framing: Framing, reader: Option<Arc<Schema>>) -> Self {
        Self { framing, reader, plans: RwLock::default() }
    }

    /// From now on documents with this id can be read.
    pub fn learn(&self, id: SchemaId, writer: &Schema) {
        let plan = Arc::new(Plan::new(writer, self.reader.as_deref().unwrap_or(writer)));
        self.plans.write().unwrap_or_else(PoisonError::into_inner).insert(id, plan);
    }

    /// The schema that the payload names, if `learn` has not been told of it; nothing of a payload that names none.
    pub fn unknown(&self, payload: &[u8]) -> Option<SchemaId> {
        let (id, _) = self.framing.read(payload).ok()?;
        let known = self.plans.read().unwrap_or_else(PoisonError::into_inner).contains_key(&id);
        (!known).then_some(id)
    }

    /// Appends the document `bytes[start..end]`, its framing before it, to the tree.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] where `learn` has to be called first.
    pub fn decode(&self, tree: &mut Tree, bytes: &[u8], start: usize, end: usize) -> Result<Root, Refusal> {
        let payload = bytes.get(start..end).ok_or(Refusal::malformed("it is too large"))?;
        let (id, framing) = self.framing.read(payload)?;
        let plan = self.plans.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        let plan = plan.ok_or(Refusal::Unknown(id))?;
        tree.write(bytes, start + framing..end, |writer, range| reader::read(&plan, writer, bytes, range))
    }
}
