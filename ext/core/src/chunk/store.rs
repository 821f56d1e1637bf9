//! The memory of a chunk: its bytes and the tree that was decoded ahead. Buffers and trees are used again.

use super::{CHUNK_BYTES, Record};
use crate::budget::{Copied, Reservation};
use crate::decode::{Node, Refusal, Root, Tree};
use crate::free_list::FreeList;
use std::sync::Arc;

/// The bytes of a chunk's messages.
pub(super) enum Store {
    Whole {
        bytes: Arc<Buffer>,
        decoded: Option<Decoded>,
    },
    /// The referenced only, by index, each with its own bytes.
    Kept(Vec<(usize, Box<[u8]>)>, #[expect(dead_code, reason = "counted until it is dropped")] Copied),
}

impl Store {
    /// A message's document that was decoded ahead.
    pub(super) fn tree(&self, index: usize) -> Option<(&Tree, &[u8], Root)> {
        let Store::Whole { bytes, decoded: Some(decoded) } = self else { return None };
        Some((&decoded.tree, bytes, decoded.roots.get(index).copied().flatten()?))
    }

    /// The bytes that a message is part of.
    pub(super) fn bytes(&self, index: usize) -> Option<&[u8]> {
        match self {
            Store::Whole { bytes, .. } => Some(bytes),
            Store::Kept(kept, _) => find(kept, index),
        }
    }

    /// The message's start in these bytes.
    pub(super) fn start(&self, record: &Record) -> usize {
        if matches!(self, Store::Whole { .. }) { record.start as usize } else { 0 }
    }
}

pub(super) fn find(kept: &[(usize, Box<[u8]>)], index: usize) -> Option<&[u8]> {
    kept.binary_search_by_key(&index, |(kept, _)| *kept).ok().map(|found| &*kept[found].1)
}

/// A document that was parsed by itself, with the bytes that it refers to.
pub struct SingleDocument {
    pub(super) store: Arc<Store>,
    pub(super) tree: Tree,
    pub(super) root: Result<Root, Refusal>,
    pub(super) index: usize,
}

impl SingleDocument {
    /// Lends it, as `Chunk::decoded` does.
    pub fn read<R>(self, call: impl FnOnce(Node<'_>) -> R) -> Result<R, Refusal> {
        let root = self.root?;
        let bytes = self.store.bytes(self.index).ok_or(Refusal::Undecided)?;
        Ok(call(self.tree.node(bytes, root)))
    }
}

/// Messages' bytes, then the decoder's padding.
pub(super) struct Buffer(
    pub(super) Vec<u8>,
    #[expect(dead_code, reason = "counted until it is dropped")] pub(super) Copied,
);

static BUFFERS: FreeList<Vec<u8>> = FreeList::new(128);
/// Smaller buffers are left to the allocator, larger ones are not kept.
const SPARE_BUFFERS: std::ops::RangeInclusive<usize> = CHUNK_BYTES / 4..=CHUNK_BYTES * 2;

impl Buffer {
    /// An empty one for about that many bytes.
    pub(super) fn with_capacity(bytes: usize) -> Vec<u8> {
        let spare = if SPARE_BUFFERS.contains(&bytes) { BUFFERS.take() } else { None };
        spare.unwrap_or_else(|| Vec::with_capacity(bytes))
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if SPARE_BUFFERS.contains(&self.0.capacity()) {
            self.0.clear();
            BUFFERS.give(std::mem::take(&mut self.0));
        }
    }
}

pub(super) struct Decoded {
    pub(super) tree: Tree,
    pub(super) roots: Vec<Option<Root>>,
    /// Its share of the budget. `None`: the budget was used up, so the tree may not be kept.
    pub(super) room: Option<Reservation>,
}

pub(super) static TREES: FreeList<Tree> = FreeList::new(32);
pub(super) const SPARE_TREE_BYTES: usize = 256 * 1024;

impl Drop for Decoded {
    fn drop(&mut self) {
        if self.tree.memory() <= SPARE_TREE_BYTES {
            self.tree.clear();
            TREES.give(std::mem::take(&mut self.tree));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise it would have the documents of all chunks that it was used for, up to its limit.
    #[test]
    fn a_tree_that_is_used_again_is_empty() {
        for _ in 0..10 {
            let mut tree = Tree::new();
            tree.parse_json(b"[1,2,3]", 0, 7).expect("JSON");
            drop(Decoded { tree, roots: Vec::new(), room: None });
            assert!(std::iter::from_fn(|| TREES.take()).all(|tree| tree.end() == Tree::new().end()));
        }
    }
}
