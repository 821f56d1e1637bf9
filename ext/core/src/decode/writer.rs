//! Writes a document into a tree, value by value in the document's order. All formats use it but JSON, whose parser
//! does the same by hand.

use super::Refusal;
use super::entry;
use super::tree::{MAX_BYTES, Root, Tree};
use std::ops::Range;

/// The most entries of a document: this many for each byte, plus a constant. Defaults and items without bytes turn a
/// few bytes into many entries.
const ENTRIES_PER_BYTE: usize = 16;
const SPARE_ENTRIES: usize = 1 << 20;
/// And no more than fits into the length of a container.
const MOST_ENTRIES: usize = entry::MAX_LENGTH;

const TOO_MANY: Refusal = Refusal::malformed("it has too many values: more than 16 per byte and more than 1048576");

pub(super) struct Writer<'a> {
    tree: &'a mut Tree,
    /// The chunk.
    bytes: &'a [u8],
    /// Entries on the tree's stack: values of containers that are still open, or the document's.
    top: usize,
    /// Where its entries, and its text, end at last.
    most: usize,
    most_text: usize,
}

impl Tree {
    /// Appends the document `bytes[range]` by way of a writer.
    pub(super) fn write(
        &mut self,
        bytes: &[u8],
        range: Range<usize>,
        read: impl FnOnce(&mut Writer, Range<usize>) -> Result<(), Refusal>,
    ) -> Result<Root, Refusal> {
        if bytes.len() > MAX_BYTES || bytes.get(range.clone()).is_none() || !self.has_room(range.len()) {
            return Err(Refusal::malformed("it is too large"));
        }
        let before = self.end();
        let mut writer = Writer::new(self, bytes, range.len());
        let entry = read(&mut writer, range).and_then(|()| writer.root());
        self.give_back();
        let index = u32::try_from(self.tape.len()).map_err(|_| Refusal::malformed("it is too large"));
        match entry.and_then(|entry| Ok((entry, index?))) {
            Ok((entry, index)) => {
                self.tape.push(entry);
                Ok(Root(index))
            }
            Err(refusal) => {
                self.cut(before);
                Err(refusal)
            }
        }
    }
}

impl<'a> Writer<'a> {
    /// For a document of `length` bytes.
    pub(super) fn new(tree: &'a mut Tree, bytes: &'a [u8], length: usize) -> Self {
        let most = tree.tape.len() + (length * ENTRIES_PER_BYTE + SPARE_ENTRIES).min(MOST_ENTRIES);
        let most_text = tree.text.len() + 2 * entry::MAX_LENGTH;
        Self { tree, bytes, top: 0, most, most_text }
    }

    #[inline]
    pub(super) fn null(&mut self) -> Result<(), Refusal> {
        self.push(entry::plain(entry::NULL))
    }

    #[inline]
    pub(super) fn bool(&mut self, value: bool) -> Result<(), Refusal> {
        self.push(entry::plain(if value { entry::TRUE } else { entry::FALSE }))
    }

    #[inline]
    pub(super) fn int(&mut self, value: i64) -> Result<(), Refusal> {
        match entry::small_int(value) {
            Some(entry) => self.push(entry),
            None => self.stored(entry::WIDE, entry::SIGNED, &[value as u64]),
        }
    }

    #[inline]
    pub(super) fn unsigned(&mut self, value: u64) -> Result<(), Refusal> {
        match i64::try_from(value) {
            Ok(value) => self.int(value),
            Err(_) => self.stored(entry::WIDE, entry::UNSIGNED, &[value]),
        }
    }

    #[inline]
    pub(super) fn float(&mut self, value: f64) -> Result<(), Refusal> {
        self.stored(entry::FLOAT, 0, &[value.to_bits()])
    }

    /// Characters: those of the chunk in `range`, UTF-8 or not.
    #[inline]
    pub(super) fn text(&mut self, range: Range<usize>) -> Result<(), Refusal> {
        let text = self.bytes.get(range.clone()).unwrap_or_default();
        let tag = if text.is_ascii() {
            entry::STRING
        } else if simdutf8::basic::from_utf8(text).is_ok() {
            entry::STRING | entry::WIDE_TEXT
        } else {
            entry::BROKEN
        };
        self.push(entry::sized(tag, text.len(), range.start))
    }

    /// The bytes of the chunk in `range`.
    #[inline]
    pub(super) fn bytes(&mut self, range: Range<usize>) -> Result<(), Refusal> {
        self.push(entry::sized(entry::BYTES, range.len(), range.start))
    }

    /// A value of an application's own type: the bytes of the chunk in `range`.
    #[inline]
    pub(super) fn extension(&mut self, kind: i8, range: Range<usize>) -> Result<(), Refusal> {
        let data = entry::sized(entry::BYTES, range.len(), range.start);
        self.stored(entry::WIDE, entry::EXTENSION, &[kind as u64, data])
    }

    /// Where a container begins; what is written now is inside of it, until `array` or `object`.
    #[inline]
    pub(super) fn open(&self) -> usize {
        self.top
    }

    /// An array of all that was written since `open`.
    #[inline]
    pub(super) fn array(&mut self, first: usize) -> Result<(), Refusal> {
        let (start, count) = self.close(first)?;
        self.push(entry::sized(entry::ARRAY, count, start))
    }

    /// An object of all that was written since `open`: keys (of any kind) and values in turn.
    #[inline]
    pub(super) fn object(&mut self, first: usize) -> Result<(), Refusal> {
        let (start, count) = self.close(first)?;
        let object = entry::sized(entry::OBJECT, count / 2, start);
        let mut keys = self.tree.tape.get(start..).unwrap_or_default().iter().step_by(2);
        if keys.any(|key| entry::is_foreign(*key)) {
            return self.stored(entry::WIDE, entry::FOREIGN_KEYS, &[object]);
        }
        self.push(object)
    }

    /// The tree entry of the document: the one value that is left.
    pub(super) fn root(self) -> Result<u64, Refusal> {
        let root = self.tree.stack.first().filter(|_| self.top == 1);
        root.copied().ok_or(Refusal::malformed("it is not one value"))
    }

    /// The children move to the tape.
    #[inline]
    fn close(&mut self, first: usize) -> Result<(usize, usize), Refusal> {
        let Tree { stack, tape, .. } = &mut *self.tree;
        let children = stack.get(first..self.top).unwrap_or_default();
        let start = tape.len();
        if start + children.len() > self.most {
            return Err(TOO_MANY);
        }
        tape.extend_from_slice(children);
        self.top -= children.len();
        Ok((start, children.len()))
    }

    /// Adds to the tree's text, for OWNED entries; says where it begins there.
    pub(super) fn append(&mut self, text: &[u8]) -> Result<usize, Refusal> {
        let start = self.tree.text.len();
        if start + text.len() > self.most_text {
            return Err(Refusal::malformed("it has too much text"));
        }
        self.tree.text.extend_from_slice(text);
        Ok(start)
    }

    /// A value that is this entry.
    #[inline]
    pub(super) fn entry(&mut self, entry: u64) -> Result<(), Refusal> {
        self.push(entry)
    }

    /// A value that does not fit its entry.
    #[inline]
    pub(super) fn stored(&mut self, tag: u64, kind: usize, entries: &[u64]) -> Result<(), Refusal> {
        let start = self.tree.tape.len();
        if start + entries.len() > self.most {
            return Err(TOO_MANY);
        }
        self.tree.tape.extend_from_slice(entries);
        self.push(entry::sized(tag, kind, start))
    }

    #[inline]
    fn push(&mut self, entry: u64) -> Result<(), Refusal> {
        if self.top == self.tree.stack.len() {
            self.grow()?;
        }
        if let Some(slot) = self.tree.stack.get_mut(self.top) {
            *slot = entry;
            self.top += 1;
        }
        Ok(())
    }

    #[cold]
    fn grow(&mut self) -> Result<(), Refusal> {
        let Tree { stack, tape, .. } = &mut *self.tree;
        if self.top + tape.len() > self.most {
            return Err(TOO_MANY);
        }
        stack.resize((self.top * 2).max(1024), 0);
        Ok(())
    }
}
