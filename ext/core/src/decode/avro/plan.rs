//! How to read documents of one writer's schema as another schema. Made once per pair: a list of steps that name each
//! other by their places.

use super::MAX_DEPTH;
use super::default::Budget;
use super::logical::Logical;
use super::matching;
use super::schema::Schema;
use super::types::{EnumType, Field, Id, RecordType, Type};
use crate::decode::entry;
use crate::decode::node::Unit;
use std::collections::HashMap;

/// A place among the steps.
pub(super) type StepId = usize;

pub struct Plan {
    pub(super) steps: Vec<ReadStep>,
    pub(super) root: StepId,
    /// What documents do not contain: names of fields, symbols, defaults. Copied into the tree before a document, whose
    /// entries refer to it.
    pub(super) blob: Vec<u8>,
}

/// What to read, and what to make of it.
pub(super) enum ReadStep {
    Null,
    Boolean,
    /// `wide`: long, else int.
    Integer {
        wide: bool,
        form: IntegerForm,
    },
    Float,
    Double,
    /// With its length before it.
    Bytes(Bytes),
    Fixed(usize, Bytes),
    /// All that is left.
    Rest(Bytes),
    /// The tree entries of the symbols (see [`shifted`]). `Err`: the reader has no such symbol.
    Enum(Vec<Result<u64, Box<str>>>),
    Array(StepId),
    Map(StepId),
    Record(Vec<FieldPlan>),
    Union(Vec<StepId>),
    /// The reader does not want what comes here.
    Unreadable(Box<str>),
}

/// What an integer becomes.
#[derive(Clone, Copy)]
pub(super) enum IntegerForm {
    Plain,
    /// To the reader's float, or double.
    Float,
    Double,
    Date,
    Time(Unit),
}

/// What bytes become.
#[derive(Clone, Copy)]
pub(super) enum Bytes {
    Plain,
    Text,
    Decimal {
        precision: u32,
        scale: u32,
    },
    BigDecimal,
    /// 16 bytes, shown as text.
    Uuid,
    Duration,
}

/// How to read one field of a record.
pub(super) enum FieldPlan {
    Read {
        key: u64,
        step: StepId,
    },
    /// The reader has no such field.
    Skip(StepId),
    /// The writer has no such field: it is read from the blob.
    Default {
        key: u64,
        step: StepId,
        start: usize,
        end: usize,
    },
}

/// Keys of a duration.
pub(super) const DURATION: [&str; 3] = ["months", "days", "millis"];

impl Plan {
    /// Always succeeds: what the reader cannot read fails in the documents that have it.
    pub fn new(writer: &Schema, reader: &Schema) -> Self {
        let (steps, blob, texts) = (Vec::new(), Vec::new(), HashMap::new());
        let (reads, skips, budget) = (HashMap::new(), HashMap::new(), Budget::default());
        let mut planner = Planner { writer, reader, steps, blob, texts, reads, skips, depth: 0, budget, compared: 0 };
        for name in DURATION {
            planner.text(name);
        }
        let root = planner.read(writer.root, reader.root);
        Self { steps: planner.steps, root, blob: planner.blob }
    }

    /// For documents with Confluent's frame: see [`Schema::is_bytes`].
    pub(super) fn framed(writer: &Schema, reader: &Schema) -> Self {
        let mut plan = Self::new(writer, reader);
        if let (true, ReadStep::Bytes(bytes)) = (writer.is_bytes(), &plan.steps[plan.root]) {
            plan.steps[plan.root] = ReadStep::Rest(*bytes);
        }
        plan
    }
}

/// The tree entry of a text in the blob, as if the blob were all of the tree's text.
fn blob_entry(text: &str, offset: usize) -> u64 {
    let wide = if text.is_ascii() { 0 } else { entry::WIDE_TEXT };
    entry::sized(entry::STRING | entry::OWNED | wide, text.len(), offset)
}

/// The tree entry of a text in the blob whose first byte is at `base` of the tree's text.
#[inline(always)]
pub(super) fn shifted(entry: u64, base: usize) -> u64 {
    entry + base as u64
}

struct Planner<'a> {
    writer: &'a Schema,
    reader: &'a Schema,
    steps: Vec<ReadStep>,
    blob: Vec<u8>,
    texts: HashMap<String, u64>,
    /// (writer's type, reader's type): its step.
    reads: HashMap<(Id, Id), StepId>,
    /// How the reader's defaults and the writer's unwanted fields are read: (is it the reader's?, type).
    skips: HashMap<(bool, Id), StepId>,
    depth: usize,
    budget: Budget,
    /// Branches of unions that were compared.
    compared: usize,
}

/// Steps are planned by recursion. Types that contain each other can nest deeper than any one of them does, though not
/// the documents.
const MOST_NESTED: usize = 4 * MAX_DEPTH;
/// Each type of the writer's may meet each of the reader's, by aliases.
const MOST_STEPS: usize = 1 << 20;
/// So do branches of their unions.
const MOST_COMPARED: usize = 1 << 24;

impl Planner<'_> {
    fn text(&mut self, text: &str) -> u64 {
        if let Some(entry) = self.texts.get(text) {
            return *entry;
        }
        let entry = blob_entry(text, self.blob.len());
        self.blob.extend_from_slice(text.as_bytes());
        self.texts.insert(text.to_owned(), entry);
        entry
    }

    fn read(&mut self, wrote: Id, wanted: Id) -> StepId {
        if let Some(step) = self.reads.get(&(wrote, wanted)) {
            return *step;
        }
        // Reserved: it may contain itself.
        let step = self.reserve();
        self.reads.insert((wrote, wanted), step);
        self.steps[step] = self.nested(|this| this.made(wrote, wanted));
        step
    }

    fn nested(&mut self, made: impl FnOnce(&mut Self) -> ReadStep) -> ReadStep {
        self.depth += 1;
        let read = if self.depth > MOST_NESTED {
            ReadStep::Unreadable("its types are nested too deeply".into())
        } else if self.steps.len() > MOST_STEPS {
            ReadStep::Unreadable(format!("it takes more than {MOST_STEPS} steps to read it as the other schema").into())
        } else {
            made(self)
        };
        self.depth -= 1;
        read
    }

    fn reserve(&mut self) -> StepId {
        self.steps.push(ReadStep::Null);
        self.steps.len() - 1
    }

    fn made(&mut self, wrote: Id, wanted: Id) -> ReadStep {
        let (writer, reader) = (self.writer, self.reader);
        if let Type::Union(branches) = writer.at(wrote) {
            return ReadStep::Union(branches.iter().map(|branch| self.read(*branch, wanted)).collect());
        }
        if let Type::Union(branches) = reader.at(wanted) {
            self.compared += branches.len();
            if self.compared > MOST_COMPARED {
                return ReadStep::Unreadable(
                    format!("its unions have more than {MOST_COMPARED} pairs of branches").into(),
                );
            }
            return match matching::branch(writer, wrote, reader, branches) {
                Some(branch) => self.made(wrote, branch),
                None => unreadable(writer, wrote, reader, wanted),
            };
        }
        if !matching::matches(writer, wrote, reader, wanted) {
            return unreadable(writer, wrote, reader, wanted);
        }
        let logical = reader.logical(wanted);
        match (writer.at(wrote), reader.at(wanted)) {
            (Type::Array(items), Type::Array(wanted)) => ReadStep::Array(self.read(*items, *wanted)),
            (Type::Map(values), Type::Map(wanted)) => ReadStep::Map(self.read(*values, *wanted)),
            (Type::Record(record), Type::Record(wanted)) => self.record(record, wanted),
            (Type::Enum(kind), Type::Enum(wanted)) => self.symbols(kind, wanted),
            (wrote, wanted) => leaf(wrote, wanted, logical),
        }
    }

    fn record(&mut self, wrote: &RecordType, wanted: &RecordType) -> ReadStep {
        let mut found = vec![false; wanted.fields.len()];
        // An alias counts only if the writer has no field with the reader's own name.
        let mut aliases = HashMap::new();
        for (index, own) in wanted.fields.iter().enumerate().filter(|(_, own)| !wrote.indexes.contains_key(&own.name)) {
            for alias in &own.aliases {
                aliases.entry(&**alias).or_insert(index);
            }
        }
        let mut fields = Vec::with_capacity(wrote.fields.len());
        for field in &wrote.fields {
            let index = wanted.indexes.get(&field.name).or_else(|| aliases.get(&*field.name));
            fields.push(match index.copied() {
                Some(index) if !found[index] => {
                    found[index] = true;
                    let own = &wanted.fields[index];
                    FieldPlan::Read { key: self.text(&own.name), step: self.read(field.of, own.of) }
                }
                _ => FieldPlan::Skip(self.same(false, field.of)),
            });
        }
        for (own, _) in wanted.fields.iter().zip(found).filter(|(_, found)| !found) {
            let default = own.default.as_ref();
            let bytes = default.map(|default| self.reader.default_bytes(own.of, default, &mut self.budget));
            let Some(Some(bytes)) = bytes else {
                let why = if bytes.is_none() { "has no default" } else { "has a default of another type" };
                let name = wanted.name.full();
                return ReadStep::Unreadable(
                    format!("{name}.{} is missing in the writer's schema and {why}", own.name).into(),
                );
            };
            let start = self.blob.len();
            self.blob.extend(bytes);
            let end = self.blob.len();
            fields.push(FieldPlan::Default { key: self.text(&own.name), step: self.same(true, own.of), start, end });
        }
        ReadStep::Record(fields)
    }

    fn symbols(&mut self, wrote: &EnumType, wanted: &EnumType) -> ReadStep {
        let mut symbol = |symbol: &str| {
            let chosen = wanted.indexes.get(symbol).copied().or(wanted.default);
            chosen.map(|index| self.text(&wanted.symbols[index])).ok_or_else(|| {
                format!("enum {} of the reader's schema has no symbol {symbol} and no default", wanted.name.full())
                    .into()
            })
        };
        ReadStep::Enum(wrote.symbols.iter().map(|own| symbol(own)).collect())
    }

    /// Reading a type as it was written.
    fn same(&mut self, readers: bool, of: Id) -> StepId {
        if let Some(step) = self.skips.get(&(readers, of)) {
            return *step;
        }
        let step = self.reserve();
        self.skips.insert((readers, of), step);
        self.steps[step] = self.nested(|this| this.made_same(readers, of));
        step
    }

    fn made_same(&mut self, readers: bool, of: Id) -> ReadStep {
        let schema = if readers { self.reader } else { self.writer };
        match schema.at(of) {
            Type::Array(items) => ReadStep::Array(self.same(readers, *items)),
            Type::Map(values) => ReadStep::Map(self.same(readers, *values)),
            Type::Union(branches) => {
                ReadStep::Union(branches.iter().map(|branch| self.same(readers, *branch)).collect())
            }
            Type::Enum(kind) => self.symbols(kind, kind),
            Type::Record(record) => {
                let own =
                    |field: &Field| FieldPlan::Read { key: self.text(&field.name), step: self.same(readers, field.of) };
                ReadStep::Record(record.fields.iter().map(own).collect())
            }
            kind => leaf(kind, kind, schema.logical(of)),
        }
    }
}

/// Types that match and have no types inside.
fn leaf(wrote: &Type, wanted: &Type, logical: Option<Logical>) -> ReadStep {
    let form = match logical {
        Some(Logical::Date) => IntegerForm::Date,
        Some(Logical::Timestamp(unit) | Logical::LocalTimestamp(unit)) => IntegerForm::Time(unit),
        _ => IntegerForm::Plain,
    };
    let bytes = match logical {
        Some(Logical::Decimal { precision, scale }) => Bytes::Decimal { precision, scale },
        Some(Logical::BigDecimal) => Bytes::BigDecimal,
        Some(Logical::Uuid) if matches!(wanted, Type::Fixed(_)) => Bytes::Uuid,
        Some(Logical::Duration) => Bytes::Duration,
        _ if matches!(wanted, Type::String) => Bytes::Text,
        _ => Bytes::Plain,
    };
    match (wrote, wanted) {
        (Type::Boolean, _) => ReadStep::Boolean,
        (Type::Int, Type::Float) | (Type::Long, Type::Float) => {
            ReadStep::Integer { wide: matches!(wrote, Type::Long), form: IntegerForm::Float }
        }
        (Type::Int, Type::Double) | (Type::Long, Type::Double) => {
            ReadStep::Integer { wide: matches!(wrote, Type::Long), form: IntegerForm::Double }
        }
        (Type::Int, _) => ReadStep::Integer { wide: false, form },
        (Type::Long, _) => ReadStep::Integer { wide: true, form },
        (Type::Float, _) => ReadStep::Float,
        (Type::Double, _) => ReadStep::Double,
        (Type::Bytes | Type::String, _) => ReadStep::Bytes(bytes),
        (Type::Fixed(fixed), _) => ReadStep::Fixed(fixed.size, bytes),
        _ => ReadStep::Null,
    }
}

fn unreadable(writer: &Schema, wrote: Id, reader: &Schema, wanted: Id) -> ReadStep {
    let shown = |schema: &Schema, id| match schema.logical(id) {
        Some(logical) => format!("{} ({logical})", schema.shown(id)),
        None => schema.shown(id),
    };
    ReadStep::Unreadable(
        format!("the writer's schema has {}, the reader's has {}", shown(writer, wrote), shown(reader, wanted)).into(),
    )
}
