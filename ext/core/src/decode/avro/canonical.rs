//! The "parsing canonical form" of a schema, and its fingerprint: what makes two schemas differ for a reader.

use super::schema::Schema;
use super::types::{Id, Type};
use std::collections::HashSet;
use std::fmt::Write;

/// The fingerprint of no bytes, and the polynomial (Rabin).
const EMPTY: u64 = 0xc15d_213a_a4d7_a795;

const TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut print = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            print = (print >> 1) ^ (EMPTY & (print & 1).wrapping_neg());
            bit += 1;
        }
        table[byte] = print;
        byte += 1;
    }
    table
};

/// CRC-64-AVRO.
pub(super) fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(EMPTY, |print, byte| (print >> 8) ^ TABLE[(print as u8 ^ byte) as usize])
}

impl Schema {
    /// The specification's parsing canonical form.
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        self.write(self.root, &mut HashSet::new(), &mut text);
        text
    }

    /// Names need no escapes: they are words. `seen`: named types that were written, which are their names from then
    /// on.
    fn write(&self, id: Id, seen: &mut HashSet<Id>, to: &mut String) {
        let kind = self.at(id);
        if let Some((name, _)) = kind.names() {
            let full = name.full();
            if !seen.insert(id) {
                return quote(full, to);
            }
            let _ = write!(to, "{{\"name\":\"{full}\",\"type\":\"{}\"", kind.word());
        }
        match kind {
            Type::Record(record) => {
                to.push_str(",\"fields\":");
                self.list(&record.fields, to, |field, to| {
                    let _ = write!(to, "{{\"name\":\"{}\",\"type\":", field.name);
                    self.write(field.of, seen, to);
                    to.push('}');
                });
                to.push('}');
            }
            Type::Enum(kind) => {
                to.push_str(",\"symbols\":");
                self.list(&kind.symbols, to, |symbol, to| quote(symbol, to));
                to.push('}');
            }
            Type::Fixed(fixed) => {
                let _ = write!(to, ",\"size\":{}}}", fixed.size);
            }
            Type::Array(items) => {
                to.push_str("{\"type\":\"array\",\"items\":");
                self.write(*items, seen, to);
                to.push('}');
            }
            Type::Map(values) => {
                to.push_str("{\"type\":\"map\",\"values\":");
                self.write(*values, seen, to);
                to.push('}');
            }
            Type::Union(branches) => self.list(branches, to, |branch, to| self.write(*branch, seen, to)),
            primitive => quote(primitive.word(), to),
        }
    }

    fn list<T>(&self, items: &[T], to: &mut String, mut each: impl FnMut(&T, &mut String)) {
        to.push('[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                to.push(',');
            }
            each(item, to);
        }
        to.push(']');
    }
}

fn quote(word: &str, to: &mut String) {
    to.push('"');
    to.push_str(word);
    to.push('"');
}
