//! The flat tree: every value is one entry (see `entry.rs`), the children of a container lie side by side.

use super::simd::{self, Input};
use super::{PADDING, Reject, entry, json};

/// Chunk buffers above this many bytes are rejected.
pub(super) const MAX_BYTES: usize = 1 << 31;

/// Memory that only serves while parsing is freed at once above this size, because it grows with the longest document.
const MAX_KEPT: usize = 2 << 20;

/// Parsed documents in a few reusable allocations. Any number of documents of one chunk go into one tree.
#[derive(Default)]
pub struct Tree {
    /// Children of closed containers, numbers that do not fit an entry, roots.
    pub(super) tape: Vec<u64>,
    /// Strings that had escapes, resolved.
    pub(super) text: Vec<u8>,
    /// Values of containers still open while parsing; its contents do not outlive a parse.
    pub(super) stack: Vec<u64>,
    /// Padded copy of a document that has no padding of its own.
    scratch: Vec<u8>,
}

/// Where a document starts in its tree; means nothing in another tree or after `clear`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root(pub(super) u32);

/// Where a tree ends: entries and bytes of text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeEnd(usize, usize);

/// Whether a document of that length may follow so many entries or bytes of text.
fn fits(most: usize, length: usize) -> bool {
    length <= entry::MAX_LENGTH && most <= u32::MAX as usize - 2 * entry::MAX_LENGTH
}

impl Tree {
    pub fn new() -> Tree {
        Tree::default()
    }

    /// Forgets all documents and keeps the memory.
    pub fn clear(&mut self) {
        self.tape.clear();
        self.text.clear();
    }

    /// For `cut`.
    pub fn end(&self) -> TreeEnd {
        TreeEnd(self.tape.len(), self.text.len())
    }

    /// Forgets the documents that were parsed since `end` was asked.
    pub fn cut(&mut self, end: TreeEnd) {
        self.tape.truncate(end.0);
        self.text.truncate(end.1);
    }

    /// Bytes allocated, used or not.
    pub fn memory(&self) -> usize {
        (self.tape.capacity() + self.stack.capacity()) * size_of::<u64>()
            + self.text.capacity()
            + self.scratch.capacity()
    }

    /// Parses the document `bytes[start..end]` and appends it. `bytes` is the whole chunk. Strings without escapes stay
    /// there, so [`Tree::node`] needs the same bytes again. A document that is no object or array is copied first, and
    /// so is one with fewer than [`PADDING`] bytes behind `end` (slower, same result).
    ///
    /// # Errors
    /// [`Reject`] when Ruby must decide (see the module), when the range is not inside `bytes`, when `bytes` is above 2
    /// GiB or the document above 256 MiB. The tree is then unchanged.
    pub fn parse_json(&mut self, bytes: &[u8], start: usize, end: usize) -> Result<Root, Reject> {
        self.parse_nested::<{ json::MAX_DEPTH }>(bytes, start, end)
    }

    /// The same of what nests as deep as that.
    pub(super) fn parse_nested<const DEPTH: usize>(
        &mut self,
        bytes: &[u8],
        start: usize,
        end: usize,
    ) -> Result<Root, Reject> {
        if bytes.len() > MAX_BYTES {
            return Err(Reject);
        }
        let document = bytes.get(start..end).ok_or(Reject)?;
        let first = document.iter().find(|byte| !json::is_blank(**byte)).ok_or(Reject)?;
        let before = self.end();
        if !self.has_room(document.len()) {
            return Err(Reject);
        }
        let container = matches!(first, b'{' | b'[');
        let root = match bytes.get(start..end + PADDING) {
            Some(padded) if container => self.parse_padded::<DEPTH>(padded, document.len(), start),
            _ => {
                // A bare number needs a byte after it that is surely no digit, hence zeros.
                let mut scratch = std::mem::take(&mut self.scratch);
                scratch.clear();
                scratch.extend_from_slice(document);
                scratch.resize(document.len() + PADDING, 0);
                let root = self.parse_padded::<DEPTH>(&scratch, document.len(), start);
                if scratch.len() <= MAX_KEPT {
                    self.scratch = scratch;
                }
                root
            }
        };
        if root.is_err() {
            self.cut(before);
        }
        root
    }

    /// Offsets have 32 bits. A document of JSON adds at most one entry and one byte of text per byte; what others add,
    /// their writer bounds.
    pub(super) fn has_room(&self, length: usize) -> bool {
        fits(self.tape.len().max(self.text.len()), length)
    }

    pub(super) fn give_back(&mut self) {
        if self.stack.len() > MAX_KEPT / size_of::<u64>() {
            self.stack = Vec::new();
        }
    }

    /// `padded` = document of `length` bytes + [`PADDING`]; `base` = where it lies in the chunk.
    fn parse_padded<const DEPTH: usize>(&mut self, padded: &[u8], length: usize, base: usize) -> Result<Root, Reject> {
        let source = Input::new(padded).ok_or(Reject)?;
        if self.stack.len() < json::stack_size(length) {
            // Not `resize`: fresh zeros cost nothing until they are written to.
            self.stack = vec![0; json::stack_size(length).max(1024).next_power_of_two()];
        }
        let Tree { tape, text, stack, .. } = self;
        let root = simd::run(&mut json::JsonParser::<DEPTH> { source, length, base, stack, tape, text });
        self.give_back();
        let index = u32::try_from(self.tape.len()).map_err(|_| Reject)?;
        self.tape.push(root.ok_or(Reject)?);
        Ok(Root(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_of_256_mib_has_no_room_and_one_byte_less_has() {
        let tree = Tree::new();
        assert_eq!([true, true, false], [0, (256 << 20) - 1, 256 << 20].map(|length| tree.has_room(length)));
    }

    /// Twice a document: what a writer appends beyond its estimate still has an offset.
    #[test]
    fn tree_that_could_outgrow_its_32_bits_has_no_room() {
        let last = u32::MAX as usize - 2 * entry::MAX_LENGTH;
        assert_eq!([true, true, false], [0, last, last + 1].map(|most| fits(most, 1)));
    }
}
