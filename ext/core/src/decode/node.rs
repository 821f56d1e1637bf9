//! Walks a parsed tree. Nothing here allocates, recurses or panics, even if tree and bytes do not belong together.

use super::entry;
use super::tree::{Root, Tree};

/// One value of a tree; cheap to copy.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    pub(super) tree: &'a Tree,
    /// The chunk the tree was parsed from.
    pub(super) bytes: &'a [u8],
    pub(super) entry: u64,
}

impl Tree {
    /// The value of a document parsed from `bytes`. With other bytes than those it was parsed from the strings are
    /// wrong or empty, nothing worse.
    #[inline]
    pub fn node<'a>(&'a self, bytes: &'a [u8], root: Root) -> Node<'a> {
        let entry = self.tape.get(root.0 as usize).copied().unwrap_or(0);
        Node { tree: self, bytes, entry }
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
        match entry::tag(self.entry) {
            entry::FALSE => Kind::False,
            entry::TRUE => Kind::True,
            entry::INT => Kind::Int(entry::int(self.entry)),
            entry::WIDE => self.wide(),
            entry::FLOAT => Kind::Float(f64::from_bits(self.stored(0))),
            entry::ARRAY => Kind::Array(Items { node: self, entries: self.children().iter() }),
            entry::OBJECT => Kind::Object(Fields { node: self, entries: self.children().iter() }),
            entry::NULL => Kind::Null,
            _ => self.text().map_or_else(|| Kind::Bytes(self.span()), Kind::Str),
        }
    }

    /// The characters, if this is a string.
    #[inline]
    pub fn text(self) -> Option<Text<'a>> {
        let tag = entry::tag(self.entry);
        let text = |valid| Text { bytes: self.span(), ascii: tag & entry::WIDE_TEXT == 0, valid };
        match tag & !entry::OWNED {
            tag if tag & !entry::WIDE_TEXT == entry::STRING => Some(text(true)),
            entry::BROKEN => Some(text(false)),
            _ => None,
        }
    }

    /// The value of `key` (as unescaped bytes) if this is an object that has it. As in Ruby, bytes that are no text are
    /// a name if they are ASCII. Of duplicate keys the last one counts. Finds nothing if `is_foreign`.
    #[inline]
    pub fn get(self, key: &[u8]) -> Option<Node<'a>> {
        if entry::tag(self.entry) != entry::OBJECT {
            return None;
        }
        for pair in self.children().rchunks_exact(2) {
            let name = self.with(pair[0]);
            if entry::length(name.entry) == key.len() && name.is_named(key) {
                return Some(self.with(pair[1]));
            }
        }
        None
    }

    /// The element at `index` if this is an array that has it; negative counts from the end, as Ruby's `Array#[]`.
    #[inline]
    pub fn at(self, index: i64) -> Option<Node<'a>> {
        if entry::tag(self.entry) != entry::ARRAY {
            return None;
        }
        let children = self.children();
        let index = if index < 0 { index.checked_add(children.len() as i64)? } else { index };
        children.get(usize::try_from(index).ok()?).map(|&entry| self.with(entry))
    }

    /// Number of elements (array) or of pairs (object, duplicates included), else 0 (also if foreign). O(1).
    #[inline]
    pub fn size(self) -> usize {
        match entry::tag(self.entry) {
            entry::ARRAY | entry::OBJECT => entry::length(self.entry),
            _ => 0,
        }
    }

    #[inline]
    fn with(self, entry: u64) -> Node<'a> {
        Node { entry, ..self }
    }

    #[inline]
    fn is_named(self, key: &[u8]) -> bool {
        let tag = entry::tag(self.entry);
        tag >= entry::STRING && self.span() == key && (tag & !entry::OWNED != entry::BYTES || key.is_ascii())
    }

    /// Only for WIDE entries.
    fn wide(self) -> Kind<'a> {
        match entry::length(self.entry) {
            entry::SIGNED => Kind::Int(self.stored(0) as i64),
            entry::UNSIGNED => Kind::Unsigned(self.stored(0)),
            entry::EXTENSION => Kind::Extension(self.stored(0) as i8, self.with(self.stored(1)).span()),
            entry::DECIMAL => Kind::Decimal(self.with(self.stored(1)).span(), self.stored(0) as i32),
            entry::DATE => Kind::Date(self.stored(0) as i32),
            entry::MILLIS => Kind::Time(self.stored(0) as i64, Unit::Millis),
            entry::MICROS => Kind::Time(self.stored(0) as i64, Unit::Micros),
            entry::NANOS => Kind::Time(self.stored(0) as i64, Unit::Nanos),
            _ => {
                let object = self.with(self.stored(0));
                Kind::Object(Fields { node: object, entries: object.children().iter() })
            }
        }
    }

    /// An extension's value, or an object that has one as a key: only the application knows what is inside.
    #[inline]
    pub fn is_foreign(self) -> bool {
        entry::is_foreign(self.entry)
    }

    /// Entry number `index` of what did not fit this one.
    #[inline]
    fn stored(self, index: usize) -> u64 {
        self.tree.tape.get(entry::offset(self.entry) + index).copied().unwrap_or(0)
    }

    /// Entries of the elements or of the keys and values, in document order.
    #[inline]
    fn children(self) -> &'a [u64] {
        let first = entry::offset(self.entry);
        let width = if entry::tag(self.entry) == entry::OBJECT { 2 } else { 1 };
        let end = first.saturating_add(entry::length(self.entry) * width);
        self.tree.tape.get(first..end).unwrap_or_default()
    }

    /// Only for entries of STRING and above.
    #[inline]
    fn span(self) -> &'a [u8] {
        let source: &'a [u8] = if entry::tag(self.entry) & entry::OWNED == 0 { self.bytes } else { &self.tree.text };
        let first = entry::offset(self.entry);
        let end = first.saturating_add(entry::length(self.entry));
        source.get(first..end).unwrap_or_default()
    }
}

/// Elements of an array, in order.
#[derive(Clone)]
pub struct Items<'a> {
    node: Node<'a>,
    entries: std::slice::Iter<'a, u64>,
}

impl<'a> Iterator for Items<'a> {
    type Item = Node<'a>;

    #[inline]
    fn next(&mut self) -> Option<Node<'a>> {
        self.entries.next().map(|&entry| self.node.with(entry))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl ExactSizeIterator for Items<'_> {}

/// Keys and values of an object in document order; duplicate keys come each time they were written. JSON's keys are
/// strings.
#[derive(Clone)]
pub struct Fields<'a> {
    node: Node<'a>,
    /// Keys and values in turn.
    entries: std::slice::Iter<'a, u64>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Node<'a>, Node<'a>);

    #[inline]
    fn next(&mut self) -> Option<(Node<'a>, Node<'a>)> {
        let (key, value) = (self.entries.next()?, self.entries.next()?);
        Some((self.node.with(*key), self.node.with(*value)))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.entries.len() / 2, Some(self.entries.len() / 2))
    }
}

impl ExactSizeIterator for Fields<'_> {}
