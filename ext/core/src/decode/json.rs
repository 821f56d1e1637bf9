//! The JSON parser: one pass, no recursion. Values of open containers wait on a stack. When a container closes, its
//! children move to the tape, and one entry takes their place on the stack.

use super::entry;
use super::number::{JsonNumber, any_number, number};
use super::simd::{Input, Kernel, Simd};
use super::string::string;

/// Deepest nesting that every Ruby accepts.
pub(super) const MAX_DEPTH: usize = 100;

/// The characters that Ruby's parser skips between values.
#[inline(always)]
pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// The most entries that can wait on the stack while a document of `length` bytes is parsed. A value has at least one
/// byte, and one byte separates it from the next.
pub(super) const fn stack_size(length: usize) -> usize {
    length / 2 + 2
}

/// One document to parse, which nests `DEPTH` deep at most, and where its parts go.
pub(super) struct JsonParser<'a, const DEPTH: usize> {
    /// The document and its padding.
    pub(super) source: Input<'a>,
    /// Bytes of `source` that are the document.
    pub(super) length: usize,
    /// The start of `source` in the chunk.
    pub(super) base: usize,
    /// `stack_size` entries or more, contents do not matter.
    pub(super) stack: &'a mut [u64],
    pub(super) tape: &'a mut Vec<u64>,
    pub(super) text: &'a mut Vec<u8>,
}

impl<const DEPTH: usize> Kernel for JsonParser<'_, DEPTH> {
    /// The tree entry of the document's value.
    type Output = Option<u64>;

    /// The padding may look like a continuation of a document that is cut off. A value that reaches into the padding
    /// ends behind `length`, and is refused then.
    #[inline(always)]
    fn run<S: Simd>(&mut self, simd: S) -> Option<u64> {
        // Copies, so that the compiler knows that nothing else changes them.
        let mut walk: Walk<S, DEPTH> = Walk { simd, source: self.source, base: self.base, depth: 0, top: 0, wide: 0 };
        let at = walk.skip_blanks(0)?;
        let (entry, end) = match walk.value(self.tape, self.text, at)? {
            (Value::Whole(entry), at) => (entry, at),
            (opened, at) => walk.container(self, matches!(opened, Value::Object), at)?,
        };
        let bytes = self.source.bytes();
        let rest = bytes.get(end..self.length)?;
        // Bytes above 0x7f only get this far inside strings, and quotes never cut a character: so the strings are
        // valid when the document is.
        let valid = walk.wide == 0 || simdutf8::basic::from_utf8(bytes.get(..self.length)?).is_ok();
        (valid && rest.iter().all(|byte| is_blank(*byte))).then_some(entry)
    }
}

/// The start of a place where a value must follow.
enum Value {
    /// A whole value: its entry.
    Whole(u64),
    /// A container with something in it; its first key or element is next.
    Object,
    Array,
}

/// State of a parse.
struct Walk<'a, S, const DEPTH: usize> {
    simd: S,
    source: Input<'a>,
    base: usize,
    /// Open containers.
    depth: usize,
    /// Entries on the stack.
    top: usize,
    /// Not 0 when a string has bytes above 0x7f.
    wide: u32,
}

impl<S: Simd, const DEPTH: usize> Walk<'_, S, DEPTH> {
    /// The tree entry of the container whose first key or element is at `at`, and the position behind it.
    #[inline(always)]
    #[allow(clippy::too_many_lines, reason = "the inner loop: in one function its state stays in registers")]
    fn container(
        &mut self,
        document: &mut JsonParser<DEPTH>,
        mut in_object: bool,
        mut at: usize,
    ) -> Option<(u64, usize)> {
        let JsonParser { stack, tape, text, .. } = document;
        // By the depth inside: first child of the container around (its index on the stack) * 2 + is it an object?
        let mut frames = [0usize; DEPTH];
        let mut first = 0;
        self.depth = 1;
        'inner: loop {
            // `at` is on a key of an object, on an element of an array. A loop for each: they branch differently.
            let opened = if in_object {
                loop {
                    let (key, behind) = self.key(text, at)?;
                    self.push(stack, key)?;
                    let (value, behind) = self.value(tape, text, behind)?;
                    let Value::Whole(entry) = value else { break Some((value, behind)) };
                    self.push(stack, entry)?;
                    let behind = self.skip_blanks(behind)?;
                    at = behind + 1;
                    match self.source.byte(behind)? {
                        b',' => at = self.skip_blanks(at)?,
                        b'}' => break None,
                        _ => return None,
                    }
                }
            } else {
                loop {
                    let (value, behind) = self.value(tape, text, at)?;
                    let Value::Whole(entry) = value else { break Some((value, behind)) };
                    self.push(stack, entry)?;
                    let behind = self.skip_blanks(behind)?;
                    at = behind + 1;
                    match self.source.byte(behind)? {
                        b',' => at = self.skip_blanks(at)?,
                        b']' => break None,
                        _ => return None,
                    }
                }
            };
            if let Some((value, behind)) = opened {
                *frames.get_mut(self.depth)? = first << 1 | in_object as usize;
                self.depth += 1;
                first = self.top;
                in_object = matches!(value, Value::Object);
                at = behind;
                continue;
            }
            // `at` is behind the end of the innermost container, and maybe of some around it.
            loop {
                // Its children move to the tape.
                let children = stack.get(first..self.top)?;
                let start = tape.len();
                tape.extend_from_slice(children);
                self.top = first;
                let entry = if in_object {
                    entry::sized(entry::OBJECT, children.len() / 2, start)
                } else {
                    entry::sized(entry::ARRAY, children.len(), start)
                };
                self.depth -= 1;
                if self.depth == 0 {
                    return Some((entry, at));
                }
                self.push(stack, entry)?;
                let frame = *frames.get(self.depth)?;
                first = frame >> 1;
                in_object = frame & 1 == 1;
                at = self.skip_blanks(at)?;
                let byte = self.source.byte(at)?;
                at += 1;
                if byte == b',' {
                    at = self.skip_blanks(at)?;
                    continue 'inner;
                }
                if byte != if in_object { b'}' } else { b']' } {
                    return None;
                }
            }
        }
    }

    #[inline(always)]
    fn push(&mut self, stack: &mut [u64], entry: u64) -> Option<()> {
        *stack.get_mut(self.top)? = entry;
        self.top += 1;
        Some(())
    }

    /// The value, or the start of a container, at `at`, and the position behind it.
    #[inline(always)]
    fn value(&mut self, tape: &mut Vec<u64>, text: &mut Vec<u8>, at: usize) -> Option<(Value, usize)> {
        let (entry, end) = match self.source.byte(at)? {
            b'"' => self.string(text, at)?,
            open @ (b'{' | b'[') => {
                if self.depth == DEPTH {
                    return None;
                }
                let object = open == b'{';
                let at = self.skip_blanks(at + 1)?;
                if self.source.byte(at)? != open + 2 {
                    return Some((if object { Value::Object } else { Value::Array }, at));
                }
                (entry::plain(if object { entry::OBJECT } else { entry::ARRAY }), at + 1)
            }
            b't' => (entry::plain(entry::TRUE), self.literal(at, b"true")?),
            b'f' => (entry::plain(entry::FALSE), self.literal(at + 1, b"alse")?),
            b'n' => (entry::plain(entry::NULL), self.literal(at, b"null")?),
            _ => {
                // A document that nests deeper than Ruby allows is refused.
                let any = || if DEPTH > MAX_DEPTH { any_number(self.source, at) } else { None };
                let (number, end) = number(self.source, at).or_else(any)?;
                let (tag, bits) = match number {
                    JsonNumber::Int(value) => match entry::small_int(value) {
                        Some(entry) => return Some((Value::Whole(entry), end)),
                        None => (entry::WIDE, value as u64),
                    },
                    JsonNumber::Float(value) => (entry::FLOAT, value.to_bits()),
                };
                tape.push(bits);
                (entry::sized(tag, 0, tape.len() - 1), end)
            }
        };
        Some((Value::Whole(entry), end))
    }

    /// The tree entry of the string whose quote is at `at`, and the position behind it.
    #[inline(always)]
    fn string(&mut self, text: &mut Vec<u8>, at: usize) -> Option<(u64, usize)> {
        string(self.simd, text, self.source, at + 1, self.base, &mut self.wide)
    }

    /// The tree entry of the key at `at`, and the position of its value.
    #[inline(always)]
    fn key(&mut self, text: &mut Vec<u8>, at: usize) -> Option<(u64, usize)> {
        if self.source.byte(at)? != b'"' {
            return None;
        }
        let (entry, end) = self.string(text, at)?;
        let at = self.skip_blanks(end)?;
        if self.source.byte(at)? != b':' {
            return None;
        }
        Some((entry, self.skip_blanks(at + 1)?))
    }

    /// The position of the next byte that is not white space.
    #[inline(always)]
    fn skip_blanks(&self, at: usize) -> Option<usize> {
        let byte = self.source.byte(at)?;
        if byte > b' ' {
            return Some(at);
        }
        if is_blank(byte) && self.source.byte(at + 1)? > b' ' {
            return Some(at + 1);
        }
        self.skip_many(at)
    }

    #[inline(always)]
    fn skip_many(&self, mut at: usize) -> Option<usize> {
        loop {
            let solid = self.simd.solid(self.simd.load(self.source, at)?);
            if solid != 0 {
                return Some(at + solid.trailing_zeros() as usize);
            }
            at += S::WIDTH;
        }
    }

    /// Behind the four bytes of `name` at `at`, if they are there.
    #[inline(always)]
    fn literal(&self, at: usize, name: &[u8; 4]) -> Option<usize> {
        (self.source.eight(at)? as u32 == u32::from_le_bytes(*name)).then_some(at + 4)
    }
}
