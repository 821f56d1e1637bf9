//! Writes a document into a tree, value by value in the document's order. All formats use it but JSON, whose parser
//! does the same by hand.

use super::Refusal;
use super::tree::{MAX_BYTES, Root, Tree};
use super::word;
use std::ops::Range;

/// The most words of a document: this many for each byte, plus a constant. Defaults and items without bytes turn a few
/// bytes into many words.
const WORDS_PER_BYTE: usize = 16;
const SPARE_WORDS: usize = 1 << 20;
/// And no more than fits into the length of a container.
const MOST_WORDS: usize = word::MAX_LENGTH;

const TOO_MANY: Refusal = Refusal::malformed("it has too many values: more than 16 per byte and more than 1048576");

pub(super) struct Writer<'a> {
    tree: &'a mut Tree,
    /// The chunk.
    bytes: &'a [u8],
    /// Words on the tree's stack: values of containers that are still open, or the document's.
    top: usize,
    /// Where its words, and its text, end at last.
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
        let word = read(&mut writer, range).and_then(|()| writer.root());
        self.give_back();
        let index = u32::try_from(self.tape.len()).map_err(|_| Refusal::malformed("it is too large"));
        match word.and_then(|word| Ok((word, index?))) {
            Ok((word, index)) => {
                self.tape.push(word);
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
        let most = tree.tape.len() + (length * WORDS_PER_BYTE + SPARE_WORDS).min(MOST_WORDS);
        let most_text = tree.text.len() + 2 * word::MAX_LENGTH;
        Self { tree, bytes, top: 0, most, most_text }
    }

    #[inline]
    pub(super) fn null(&mut self) -> Result<(), Refusal> {
        self.push(word::plain(word::NULL))
    }

    #[inline]
    pub(super) fn bool(&mut self, value: bool) -> Result<(), Refusal> {
        self.push(word::plain(if value { word::TRUE } else { word::FALSE }))
    }

    #[inline]
    pub(super) fn int(&mut self, value: i64) -> Result<(), Refusal> {
        match word::small_int(value) {
            Some(word) => self.push(word),
            None => self.stored(word::WIDE, word::SIGNED, &[value as u64]),
        }
    }

    #[inline]
    pub(super) fn unsigned(&mut self, value: u64) -> Result<(), Refusal> {
        match i64::try_from(value) {
            Ok(value) => self.int(value),
            Err(_) => self.stored(word::WIDE, word::UNSIGNED, &[value]),
        }
    }

    #[inline]
    pub(super) fn float(&mut self, value: f64) -> Result<(), Refusal> {
        self.stored(word::FLOAT, 0, &[value.to_bits()])
    }

    /// Characters: those of the chunk in `range`, UTF-8 or not.
    #[inline]
    pub(super) fn text(&mut self, range: Range<usize>) -> Result<(), Refusal> {
        let text = self.bytes.get(range.clone()).unwrap_or_default();
        let tag = if text.is_ascii() {
            word::STRING
        } else if simdutf8::basic::from_utf8(text).is_ok() {
            word::STRING | word::WIDE_TEXT
        } else {
            word::BROKEN
        };
        self.push(word::sized(tag, text.len(), range.start))
    }

    /// The bytes of the chunk in `range`.
    #[inline]
    pub(super) fn bytes(&mut self, range: Range<usize>) -> Result<(), Refusal> {
        self.push(word::sized(word::BYTES, range.len(), range.start))
    }

    /// A value of an application's own type: the bytes of the chunk in `range`.
    #[inline]
    pub(super) fn extension(&mut self, kind: i8, range: Range<usize>) -> Result<(), Refusal> {
        let data = word::sized(word::BYTES, range.len(), range.start);
        self.stored(word::WIDE, word::EXTENSION, &[kind as u64, data])
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
        self.push(word::sized(word::ARRAY, count, start))
    }

    /// An object of all that was written since `open`: keys (of any kind) and values in turn.
    #[inline]
    pub(super) fn object(&mut self, first: usize) -> Result<(), Refusal> {
        let (start, count) = self.close(first)?;
        let object = word::sized(word::OBJECT, count / 2, start);
        let mut keys = self.tree.tape.get(start..).unwrap_or_default().iter().step_by(2);
        if keys.any(|key| word::is_foreign(*key)) {
            return self.stored(word::WIDE, word::FOREIGN_KEYS, &[object]);
        }
        self.push(object)
    }

    /// The tree word of the document: the one value that is left.
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

    /// Adds to the tree's text, for OWNED words; says where it begins there.
    pub(super) fn append(&mut self, text: &[u8]) -> Result<usize, Refusal> {
        let start = self.tree.text.len();
        if start + text.len() > self.most_text {
            return Err(Refusal::malformed("it has too much text"));
        }
        self.tree.text.extend_from_slice(text);
        Ok(start)
    }

    /// A value that is this word.
    #[inline]
    pub(super) fn word(&mut self, word: u64) -> Result<(), Refusal> {
        self.push(word)
    }

    /// A value that does not fit its word.
    #[inline]
    pub(super) fn stored(&mut self, tag: u64, kind: usize, words: &[u64]) -> Result<(), Refusal> {
        let start = self.tree.tape.len();
        if start + words.len() > self.most {
            return Err(TOO_MANY);
        }
        self.tree.tape.extend_from_slice(words);
        self.push(word::sized(tag, kind, start))
    }

    #[inline]
    fn push(&mut self, word: u64) -> Result<(), Refusal> {
        if self.top == self.tree.stack.len() {
            self.grow()?;
        }
        if let Some(slot) = self.tree.stack.get_mut(self.top) {
            *slot = word;
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
