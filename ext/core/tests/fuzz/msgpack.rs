//! MessagePack: against a reader that is as simple as the format's description.

use super::value::{Value, assert_same};
use super::{Fuzz, assert_little_memory, mutate, random};
use crate::random::Random;
use pelton_core::decode::{Refusal, Tree};

const LIKELY: &[u8] = &[
    0x80, 0x81, 0x8f, 0x90, 0x91, 0x9f, 0xa0, 0xa1, 0xbf, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9,
    0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf, 0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xdb, 0xdc,
    0xdd, 0xde, 0xdf, 0xe0, 0xff, 0, 1, 2, 4, 8, 12, 0x7f,
];
/// Containers open at a time.
const DEPTH: usize = 128;
/// What is around a document in its chunk: it would go on with whatever is cut off.
const BEFORE: usize = 9;

#[derive(Default)]
pub struct MessagePack {
    tree: Option<Tree>,
    chunk: Vec<u8>,
}

impl Fuzz for MessagePack {
    fn make(&mut self, seed: u64, index: u64, input: &mut Vec<u8>) {
        let mut random = random(seed, index);
        match random.below(8) {
            0 => (0..random.below(40)).for_each(|_| input.push(LIKELY[random.below(LIKELY.len())])),
            1 => input.extend(std::iter::repeat_n(0x91, random.below(140)).chain([0xc0])),
            _ => document(&mut random, 0, input),
        }
        if random.below(3) > 0 {
            mutate(&mut random, LIKELY, input);
        }
    }

    fn check(&mut self, input: &[u8]) -> bool {
        let tree = self.tree.get_or_insert_with(Tree::new);
        tree.clear();
        self.chunk.clear();
        self.chunk.extend([0x91; BEFORE]);
        self.chunk.extend(input);
        self.chunk.extend([0x61; 9]);
        let end = tree.end();
        let mut reader = Reader { rest: input, open: 0 };
        let expected = reader.value().filter(|_| reader.rest.is_empty());
        let found = tree.parse_msgpack(&self.chunk, BEFORE, BEFORE + input.len());
        match (&found, &expected) {
            (Ok(root), Some(value)) => assert_same(tree.node(&self.chunk, *root), value),
            (Err(Refusal::Malformed(_)), None) => assert_eq!(tree.end(), end),
            (found, expected) => panic!("{found:?}, expected {expected:?}"),
        }
        assert_little_memory(tree);
        found.is_ok()
    }
}

fn document(random: &mut Random, depth: usize, out: &mut Vec<u8>) {
    let count = random.below(6);
    match random.below(if depth > 5 { 10 } else { 14 }) {
        0 => out.push(0xc0 + [0, 2, 3][random.below(3)]),
        1 => out.push(random.next() as u8 & 0x7f),
        2 => out.push(0xe0 | random.next() as u8),
        3 => {
            let size = random.below(4);
            out.push(0xcc + size as u8 + 4 * random.below(2) as u8);
            (0..1 << size).for_each(|_| out.push(random.next() as u8));
        }
        4 => {
            let wide = random.below(2);
            out.push(0xca + wide as u8);
            (0..4 << wide).for_each(|_| out.push(random.next() as u8));
        }
        5 => {
            out.push(0xd4 + random.below(5) as u8);
            let length = 1 << (out[out.len() - 1] - 0xd4);
            (0..1 + length).for_each(|_| out.push(random.next() as u8));
        }
        6 => {
            let bytes = [3, 12, random.below(30)][random.below(3)];
            out.extend([0xc7, bytes as u8, if random.below(2) == 0 { 0xff } else { 7 }]);
            (0..bytes).for_each(|_| out.push(random.next() as u8));
        }
        7 => {
            let kind = random.below(6);
            let text = ["", "a", "key", "größe", "日本", "a longer text that is plain ASCII"][kind].as_bytes();
            match random.below(4) {
                0 if text.len() < 32 => out.push(0xa0 + text.len() as u8),
                1 => out.extend([0xda, 0, text.len() as u8]),
                2 => out.extend([0xdb, 0, 0, 0, text.len() as u8]),
                _ => out.extend([0xd9, text.len() as u8]),
            }
            out.extend(text);
        }
        8 => {
            out.extend([0xc4, count as u8]);
            (0..count).for_each(|_| out.push(random.next() as u8));
        }
        9 => out.extend([0xa3, b'k', b'e', random.next() as u8]),
        10 | 11 => {
            match random.below(3) {
                0 => out.push(0x90 + count as u8),
                1 => out.extend([0xdc, 0, count as u8]),
                _ => out.extend([0xdd, 0, 0, 0, count as u8]),
            }
            (0..count).for_each(|_| document(random, depth + 1, out));
        }
        _ => {
            match random.below(3) {
                0 => out.push(0x80 + count as u8),
                1 => out.extend([0xde, 0, count as u8]),
                _ => out.extend([0xdf, 0, 0, 0, count as u8]),
            }
            (0..2 * count).for_each(|_| document(random, depth + 1, out));
        }
    }
}

/// Nothing for what is no MessagePack.
struct Reader<'a> {
    rest: &'a [u8],
    open: usize,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken.to_vec())
    }

    fn number(&mut self, bytes: usize) -> Option<u64> {
        Some(self.take(bytes)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, bytes: usize) -> Option<Value> {
        let shift = 64 - 8 * bytes;
        Some(Value::Int((((self.number(bytes)? << shift) as i64) >> shift).into()))
    }

    fn list(&mut self, count: u64) -> Option<Vec<Value>> {
        if count == 0 {
            return Some(Vec::new());
        }
        self.open += 1;
        if self.open > DEPTH {
            return None;
        }
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(self.value()?);
        }
        self.open -= 1;
        Some(values)
    }

    fn pairs(&mut self, count: u64) -> Option<Value> {
        let mut values = self.list(count * 2)?.into_iter();
        let mut pairs = Vec::new();
        while let (Some(key), Some(value)) = (values.next(), values.next()) {
            pairs.push((key, value));
        }
        Some(Value::Pairs(pairs))
    }

    fn text(&mut self, length: u64) -> Option<Value> {
        Some(Value::Text(self.take(usize::try_from(length).ok()?)?))
    }

    fn extension(&mut self, length: u64) -> Option<Value> {
        let kind = self.number(1)? as i8;
        let bytes = self.take(usize::try_from(length).ok()?)?;
        let fits = kind != -1 || matches!(bytes.len(), 4 | 8 | 12);
        fits.then_some(Value::Extension(kind, bytes))
    }

    fn value(&mut self) -> Option<Value> {
        let first = self.number(1)?;
        Some(match first {
            0x00..=0x7f => Value::Int(first.into()),
            0x80..=0x8f => return self.pairs(first & 15),
            0x90..=0x9f => Value::List(self.list(first & 15)?),
            0xa0..=0xbf => return self.text(first & 31),
            0xc0 => Value::Null,
            0xc2 => Value::Bool(false),
            0xc3 => Value::Bool(true),
            0xc4..=0xc6 => {
                let length = self.number(1 << (first - 0xc4))?;
                Value::Bytes(self.take(length as usize)?)
            }
            0xc7..=0xc9 => {
                let length = self.number(1 << (first - 0xc7))?;
                return self.extension(length);
            }
            0xca => Value::Float(f64::from(f32::from_bits(self.number(4)? as u32)).to_bits()),
            0xcb => Value::Float(self.number(8)?),
            0xcc..=0xcf => Value::Int(self.number(1 << (first - 0xcc))?.into()),
            0xd0..=0xd3 => return self.signed(1 << (first - 0xd0)),
            0xd4..=0xd8 => return self.extension(1 << (first - 0xd4)),
            0xd9..=0xdb => {
                let length = self.number(1 << (first - 0xd9))?;
                return self.text(length);
            }
            0xdc | 0xdd => {
                let count = self.number(2 << (first - 0xdc))?;
                Value::List(self.list(count)?)
            }
            0xde | 0xdf => {
                let count = self.number(2 << (first - 0xde))?;
                return self.pairs(count);
            }
            0xe0..=0xff => Value::Int(i128::from(first as i8)),
            _ => return None,
        })
    }
}
