//! Walks a parsed tree. Nothing here allocates, recurses or panics, even if tree and bytes do not belong together.

use super::tree::{Root, Tree};
use super::word;

/// One value of a tree; cheap to copy.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    pub(super) tree: &'a Tree,
    /// The chunk the tree was parsed from.
    pub(super) bytes: &'a [u8],
    pub(super) word: u64,
}

impl Tree {
    /// The value of a document parsed from `bytes`. With other bytes than those it was parsed from the strings are wrong
    /// or empty, nothing worse.
    #[inline]
    pub fn node<'a>(&'a self, bytes: &'a [u8], root: Root) -> Node<'a> {
        let word = self.tape.get(root.0 as usize).copied().unwrap_or(0);
        Node { tree: self, bytes, word }
    }
}

/// The kind of a [`Node`], with its value.
pub enum Kind<'a> {
    Null,
    True,
    False,
    Int(i64),
    /// Above `i64::MAX`.
    Unsigned(u64),
    /// JSON's are finite.
    Float(f64),
    Str(Text<'a>),
    Bytes(&'a [u8]),
    Array(Items<'a>),
    Object(Fields<'a>),
    /// MessagePack's extension types.
    Extension(i8, &'a [u8]),
    /// Two's complement, the highest byte first, and the number of its digits after the decimal point (negative: zeros
    /// before it).
    Decimal(&'a [u8], i32),
    /// Days since 1970.
    Date(i32),
    /// Since 1970.
    Time(i64, Unit),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    pub const fn per_second(self) -> i64 {
        match self {
            Self::Millis => 1000,
            Self::Micros => 1_000_000,
            Self::Nanos => 1_000_000_000,
        }
    }
}

/// Bytes of a string: UTF-8, escapes resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Text<'a> {
    pub bytes: &'a [u8],
    /// No byte is above 0x7f.
    pub ascii: bool,
    /// It is indeed UTF-8: JSON's always are.
    pub valid: bool,
}

impl<'a> Node<'a> {
    /// The value, or the way into it.
    #[inline(always)]
    pub fn kind(self) -> Kind<'a> {
        match word::tag(self.word) {
            word::FALSE => Kind::False,
            word::TRUE => Kind::True,
            word::INT => Kind::Int(word::int(self.word)),
            word::WIDE => self.wide(),
            word::FLOAT => Kind::Float(f64::from_bits(self.stored(0))),
            word::ARRAY => Kind::Array(Items { node: self, words: self.children().iter() }),
            word::OBJECT => Kind::Object(Fields { node: self, words: self.children().iter() }),
            word::NULL => Kind::Null,
            _ => self.text().map_or_else(|| Kind::Bytes(self.span()), Kind::Str),
        }
    }

    /// The characters, if this is a string.
    #[inline]
    pub fn text(self) -> Option<Text<'a>> {
        let tag = word::tag(self.word);
        let text = |valid| Text { bytes: self.span(), ascii: tag & word::WIDE_TEXT == 0, valid };
        match tag & !word::OWNED {
            tag if tag & !word::WIDE_TEXT == word::STRING => Some(text(true)),
            word::BROKEN => Some(text(false)),
            _ => None,
        }
    }

    /// The value of `key` (as unescaped bytes) if this is an object that has it. As in Ruby, bytes that are no text are
    /// a name if they are ASCII. Of duplicate keys the last one counts. Finds nothing if `is_foreign`.
    #[inline]
    pub fn get(self, key: &[u8]) -> Option<Node<'a>> {
        if word::tag(self.word) != word::OBJECT {
            return None;
        }
        for pair in self.children().rchunks_exact(2) {
            let name = self.with(pair[0]);
            if word::length(name.word) == key.len() && name.is_named(key) {
                return Some(self.with(pair[1]));
            }
        }
        None
    }

    /// The element at `index` if this is an array that has it; negative counts from the end, as Ruby's `Array#[]`.
    #[inline]
    pub fn at(self, index: i64) -> Option<Node<'a>> {
        if word::tag(self.word) != word::ARRAY {
            return None;
        }
        let children = self.children();
        let index = if index < 0 { index.checked_add(children.len() as i64)? } else { index };
        children.get(usize::try_from(index).ok()?).map(|&word| self.with(word))
    }

    /// Number of elements (array) or of pairs (object, duplicates included), else 0 (also if foreign). O(1).
    #[inline]
    pub fn size(self) -> usize {
        match word::tag(self.word) {
            word::ARRAY | word::OBJECT => word::length(self.word),
            _ => 0,
        }
    }

    #[inline]
    fn with(self, word: u64) -> Node<'a> {
        Node { word, ..self }
    }

    #[inline]
    fn is_named(self, key: &[u8]) -> bool {
        let tag = word::tag(self.word);
        tag >= word::STRING && self.span() == key && (tag & !word::OWNED != word::BYTES || key.is_ascii())
    }

    /// Only for WIDE words.
    fn wide(self) -> Kind<'a> {
        match word::length(self.word) {
            word::SIGNED => Kind::Int(self.stored(0) as i64),
            word::UNSIGNED => Kind::Unsigned(self.stored(0)),
            word::EXTENSION => Kind::Extension(self.stored(0) as i8, self.with(self.stored(1)).span()),
            word::DECIMAL => Kind::Decimal(self.with(self.stored(1)).span(), self.stored(0) as i32),
            word::DATE => Kind::Date(self.stored(0) as i32),
            word::MILLIS => Kind::Time(self.stored(0) as i64, Unit::Millis),
            word::MICROS => Kind::Time(self.stored(0) as i64, Unit::Micros),
            word::NANOS => Kind::Time(self.stored(0) as i64, Unit::Nanos),
            _ => {
                let object = self.with(self.stored(0));
                Kind::Object(Fields { node: object, words: object.children().iter() })
            }
        }
    }

    /// An extension's value, or an object that has one as a key: only the application knows what is inside.
    #[inline]
    pub fn is_foreign(self) -> bool {
        word::is_foreign(self.word)
    }

    /// Word number `index` of what did not fit this one.
    #[inline]
    fn stored(self, index: usize) -> u64 {
        self.tree.tape.get(word::offset(self.word) + index).copied().unwrap_or(0)
    }

    /// Words of the elements or of the keys and values, in document order.
    #[inline]
    fn children(self) -> &'a [u64] {
        let first = word::offset(self.word);
        let width = if word::tag(self.word) == word::OBJECT { 2 } else { 1 };
        let end = first.saturating_add(word::length(self.word) * width);
        self.tree.tape.get(first..end).unwrap_or_default()
    }

    /// Only for words of STRING and above.
    #[inline]
    fn span(self) -> &'a [u8] {
        let source: &'a [u8] = if word::tag(self.word) & word::OWNED == 0 { self.bytes } else { &self.tree.text };
        let first = word::offset(self.word);
        let end = first.saturating_add(word::length(self.word));
        source.get(first..end).unwrap_or_default()
    }
}

/// Elements of an array, in order.
#[derive(Clone)]
pub struct Items<'a> {
    node: Node<'a>,
    words: std::slice::Iter<'a, u64>,
}

impl<'a> Iterator for Items<'a> {
    type Item = Node<'a>;

    #[inline]
    fn next(&mut self) -> Option<Node<'a>> {
        self.words.next().map(|&word| self.node.with(word))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.words.size_hint()
    }
}

impl ExactSizeIterator for Items<'_> {}

/// Keys and values of an object in document order; duplicate keys come each time they were written. JSON's keys are
/// strings.
#[derive(Clone)]
pub struct Fields<'a> {
    node: Node<'a>,
    /// Keys and values in turn.
    words: std::slice::Iter<'a, u64>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Node<'a>, Node<'a>);

    #[inline]
    fn next(&mut self) -> Option<(Node<'a>, Node<'a>)> {
        let (key, value) = (self.words.next()?, self.words.next()?);
        Some((self.node.with(*key), self.node.with(*value)))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.words.len() / 2, Some(self.words.len() / 2))
    }
}

impl ExactSizeIterator for Fields<'_> {}
