//! A schema read from its JSON: types in one list, which name each other by their places in it, so a type may contain
//! itself.

use super::logical::Logical;
use super::names::{Name, is_word};
use super::types::{EnumType, Field, FixedType, Id, RecordType, Type};
use super::{MAX_DEPTH, canonical};
use crate::decode::json_value::Json;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::OnceLock;

/// The limit of a schema and its references together. A registry's own limit is about 1 MB, because it keeps schemas in
/// Kafka.
const MOST_BYTES: usize = 4 << 20;
/// The limit of a schema's types. A plan takes time in proportion to them, except for unions.
const MOST_PARTS: usize = 1 << 18;
/// Each of a writer's branches is compared with each of a reader's.
const MOST_BRANCHES: usize = 1024;

pub struct Schema {
    types: Vec<Typed>,
    pub(super) root: Id,
    /// Of its text and its references'.
    bytes: usize,
    fingerprint: OnceLock<u64>,
}

pub(super) struct Typed {
    pub(super) kind: Type,
    pub(super) logical: Option<Logical>,
    /// The limit of nested types, not counting those around a reference.
    height: usize,
}

/// Why a text is no schema.
#[derive(Debug, PartialEq, Eq)]
pub struct Invalid(pub String);

impl fmt::Display for Invalid {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl Type {
    /// Its word in a schema.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Bytes => "bytes",
            Self::String => "string",
            Self::Array(_) => "array",
            Self::Map(_) => "map",
            Self::Union(_) => "union",
            Self::Record(_) => "record",
            Self::Enum(_) => "enum",
            Self::Fixed(_) => "fixed",
        }
    }

    fn primitive(word: &str) -> Option<Self> {
        Some(match word {
            "null" => Self::Null,
            "boolean" => Self::Boolean,
            "int" => Self::Int,
            "long" => Self::Long,
            "float" => Self::Float,
            "double" => Self::Double,
            "bytes" => Self::Bytes,
            "string" => Self::String,
            _ => return None,
        })
    }

    /// Its name and aliases, where it has any.
    pub(super) fn names(&self) -> Option<(&Name, &[Name])> {
        match self {
            Self::Record(RecordType { name, aliases, .. })
            | Self::Enum(EnumType { name, aliases, .. })
            | Self::Fixed(FixedType { name, aliases, .. }) => Some((name, aliases)),
            _ => None,
        }
    }
}

impl Schema {
    /// `references`: texts of schemas whose names this one uses, each after those that it uses itself.
    ///
    /// # Errors
    /// The problem, and the schema that has it.
    pub fn parse(text: &str, references: &[impl AsRef<str>]) -> Result<Self, Invalid> {
        let bytes = references.iter().map(|reference| reference.as_ref().len()).sum::<usize>() + text.len();
        if bytes > MOST_BYTES {
            return invalid(format!("it has {bytes} bytes with its references; at most {MOST_BYTES} are read"));
        }
        let mut parser = SchemaParser { types: Vec::new(), names: HashMap::new(), depth: 0, parts: 0 };
        for reference in references {
            parser.document(reference.as_ref())?;
        }
        let root = parser.document(text)?;
        Ok(Self { types: parser.types, root, bytes, fingerprint: OnceLock::new() })
    }

    /// How long it is, with its references.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// CRC-64-AVRO of the canonical form. Computed once, because in some framings each document starts with it.
    pub fn fingerprint(&self) -> u64 {
        *self.fingerprint.get_or_init(|| canonical::fingerprint(&self.canonical()))
    }

    pub(super) fn at(&self, id: Id) -> &Type {
        &self.types[id].kind
    }

    pub(super) fn logical(&self, id: Id) -> Option<Logical> {
        self.types[id].logical
    }

    /// The whole name of a record, an enum or a fixed.
    pub fn name(&self) -> Option<&str> {
        self.at(self.root).names().map(|(name, _)| name.full())
    }

    /// Whether documents are bytes and nothing else. Confluent's Java clients write those directly after their frame,
    /// without the length that Avro puts before bytes (AbstractKafkaAvroSerializer).
    pub(super) fn is_bytes(&self) -> bool {
        matches!(self.at(self.root), Type::Bytes)
    }

    /// For errors: "record shop.Order", "int".
    pub(super) fn shown(&self, id: Id) -> String {
        let kind = self.at(id);
        match kind.names() {
            Some((name, _)) => format!("{} {}", kind.word(), name.full()),
            None => kind.word().to_owned(),
        }
    }
}

/// Reads a schema. What it has read so far:
struct SchemaParser {
    types: Vec<Typed>,
    names: HashMap<String, Id>,
    depth: usize,
    /// Types, fields, symbols, branches and aliases so far.
    parts: usize,
}

fn invalid<T>(reason: impl Into<String>) -> Result<T, Invalid> {
    Err(Invalid(reason.into()))
}

impl SchemaParser {
    fn document(&mut self, text: &str) -> Result<Id, Invalid> {
        let json = Json::parse(text.as_bytes());
        // A name alone may come without quotes, as registries give primitive types.
        let bare = || Type::primitive(text.trim()).map(|_| Json::Text(text.trim().into()));
        let json = json.filter(|json| *json != Json::Null).or_else(bare);
        self.read(&json.ok_or_else(|| Invalid("it is not valid JSON".to_owned()))?, "")
    }

    fn count(&mut self, more: usize) -> Result<(), Invalid> {
        self.parts += more;
        if self.parts <= MOST_PARTS {
            return Ok(());
        }
        invalid(format!("it has more than {MOST_PARTS} types, fields, symbols, union branches and aliases"))
    }

    fn add(&mut self, kind: Type, logical: Option<Logical>) -> Result<Id, Invalid> {
        self.count(1)?;
        let height = self.height(&kind)?;
        self.types.push(Typed { kind, logical, height });
        Ok(self.types.len() - 1)
    }

    /// References make types nest deeper than their texts do.
    fn height(&self, kind: &Type) -> Result<usize, Invalid> {
        let of = |id: &Id| self.types[*id].height;
        let inside = match kind {
            Type::Array(items) => of(items),
            Type::Map(values) => of(values),
            Type::Union(branches) => branches.iter().map(of).max().unwrap_or(0),
            Type::Record(record) => record.fields.iter().map(|field| of(&field.of)).max().unwrap_or(0),
            _ => 0,
        };
        if inside < MAX_DEPTH {
            Ok(inside + 1)
        } else {
            invalid(format!("types are nested deeper than {MAX_DEPTH} levels"))
        }
    }

    fn read(&mut self, json: &Json, space: &str) -> Result<Id, Invalid> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return invalid(format!("types are nested deeper than {MAX_DEPTH} levels"));
        }
        let id = match json {
            Json::Text(word) => self.named(word, space),
            Json::Array(branches) => self.union(branches, space),
            Json::Object(_) => self.object(json, space),
            other => invalid(format!("{other} is not a type")),
        };
        self.depth -= 1;
        id
    }

    /// A primitive type, or one that was defined before.
    fn named(&mut self, word: &str, space: &str) -> Result<Id, Invalid> {
        if let Some(kind) = Type::primitive(word) {
            return self.add(kind, None);
        }
        let name = Name::new(word, space).ok_or_else(|| Invalid(format!("{word:?} is not a valid type name")))?;
        let found = self.names.get(name.full()).or_else(|| self.names.get(word));
        found.copied().ok_or_else(|| Invalid(format!("the type {:?} is not defined", name.full())))
    }

    fn union(&mut self, branches: &[Json], space: &str) -> Result<Id, Invalid> {
        if branches.len() > MOST_BRANCHES {
            return invalid(format!("a union has {} branches; at most {MOST_BRANCHES} are read", branches.len()));
        }
        self.count(branches.len())?;
        let mut ids = Vec::with_capacity(branches.len());
        let mut seen = HashSet::new();
        for branch in branches {
            let id = self.read(branch, space)?;
            let kind = &self.types[id].kind;
            let what = kind.names().map_or(kind.word(), |(name, _)| name.full()).to_owned();
            if matches!(kind, Type::Union(_)) {
                return invalid("a union directly contains a union");
            }
            if !seen.insert(what.clone()) {
                return invalid(format!("a union has {what} twice"));
            }
            ids.push(id);
        }
        self.add(Type::Union(ids), None)
    }

    fn object(&mut self, json: &Json, space: &str) -> Result<Id, Invalid> {
        let of = json.get("type").ok_or_else(|| Invalid(format!("{json} has no \"type\"")))?;
        let Json::Text(word) = of else { return self.read(of, space) };
        let kind = match &**word {
            "record" | "error" => return self.record(json, space),
            "enum" => self.enumeration(json, space)?,
            "fixed" => self.fixed(json, space)?,
            "array" => Type::Array(self.part(json, "items", space)?),
            "map" => Type::Map(self.part(json, "values", space)?),
            word => match Type::primitive(word) {
                Some(kind) => kind,
                None => return self.named(word, space),
            },
        };
        let logical = Logical::read(json, &kind);
        let name = kind.names().map(|(name, _)| name.clone());
        let id = self.add(kind, logical)?;
        name.map_or(Ok(()), |name| self.define(&name, id))?;
        Ok(id)
    }

    fn part(&mut self, json: &Json, name: &str, space: &str) -> Result<Id, Invalid> {
        match json.get(name) {
            Some(part) => self.read(part, space),
            None => invalid(format!("{json} has no {name:?}")),
        }
    }

    fn define(&mut self, name: &Name, id: Id) -> Result<(), Invalid> {
        match self.names.insert(name.full().to_owned(), id) {
            None => Ok(()),
            Some(_) => invalid(format!("the type {:?} is defined twice", name.full())),
        }
    }

    /// Name and aliases of a named type.
    fn names_of(&mut self, json: &Json, space: &str) -> Result<(Name, Vec<Name>), Invalid> {
        let Some(given) = json.get("name").and_then(Json::text) else {
            return invalid(format!("{json} has no \"name\""));
        };
        let space = json.get("namespace").and_then(Json::text).unwrap_or(space);
        let new = |name: &str, space: &str| {
            let valid = Name::new(name, space).filter(|name| Type::primitive(name.full()).is_none());
            valid.ok_or_else(|| Invalid(format!("{name:?} (namespace {space:?}) is not a valid type name")))
        };
        let name = new(given, space)?;
        let aliases = texts(json, "aliases")?;
        self.count(aliases.len())?;
        let aliases = aliases.iter().map(|alias| new(alias, name.space())).collect::<Result<_, _>>()?;
        Ok((name, aliases))
    }

    fn record(&mut self, json: &Json, space: &str) -> Result<Id, Invalid> {
        let (name, aliases) = self.names_of(json, space)?;
        let space = name.space().to_owned();
        // Known before its fields, which may contain it.
        let record = RecordType { name: name.clone(), aliases, fields: Vec::new(), indexes: HashMap::new() };
        let id = self.add(Type::Record(record), None)?;
        self.define(&name, id)?;
        let Some(Json::Array(list)) = json.get("fields") else {
            return invalid(format!("record {} has no \"fields\"", name.full()));
        };
        self.count(list.len())?;
        let (mut fields, mut indexes) = (Vec::with_capacity(list.len()), HashMap::with_capacity(list.len()));
        for field in list {
            let field = self.field(field, &space).map_err(|Invalid(why)| Invalid(format!("{}: {why}", name.full())))?;
            if indexes.insert(field.name.clone(), fields.len()).is_some() {
                return invalid(format!("{}: the field {:?} is defined twice", name.full(), field.name));
            }
            fields.push(field);
        }
        if let Type::Record(record) = &mut self.types[id].kind {
            (record.fields, record.indexes) = (fields, indexes);
        }
        self.types[id].height = self.height(&self.types[id].kind)?;
        Ok(id)
    }

    fn field(&mut self, json: &Json, space: &str) -> Result<Field, Invalid> {
        let name = json.get("name").and_then(Json::text).filter(|name| is_word(name));
        let name = name.ok_or_else(|| Invalid(format!("{json} has no valid \"name\"")))?;
        let of = match json.get("type") {
            // A logical type beside the field's name is no type's (and common): the type stands alone.
            Some(of) => self.read(of, space).map_err(|Invalid(why)| Invalid(format!("{name}: {why}")))?,
            None => return invalid(format!("{name} has no \"type\"")),
        };
        let aliases = texts(json, "aliases")?;
        self.count(aliases.len())?;
        let aliases = aliases.into_iter().map(Box::from).collect();
        Ok(Field { name: name.into(), aliases, of, default: json.get("default").cloned() })
    }

    fn enumeration(&mut self, json: &Json, space: &str) -> Result<Type, Invalid> {
        let (name, aliases) = self.names_of(json, space)?;
        let symbols = texts(json, "symbols")?;
        self.count(symbols.len())?;
        if let Some(wrong) = symbols.iter().find(|symbol| !is_word(symbol)) {
            return invalid(format!("enum {}: {wrong:?} is not a valid symbol", name.full()));
        }
        let default = match json.get("default") {
            None => None,
            Some(wanted) => {
                let index = symbols.iter().position(|symbol| wanted.text() == Some(symbol));
                Some(index.ok_or_else(|| {
                    Invalid(format!("enum {}: the default {wanted} is not one of its symbols", name.full()))
                })?)
            }
        };
        let symbols: Vec<Box<str>> = symbols.into_iter().map(Box::from).collect();
        // Of duplicates the first one counts.
        let indexes = symbols.iter().cloned().enumerate().rev().map(|(index, symbol)| (symbol, index)).collect();
        Ok(Type::Enum(EnumType { name, aliases, symbols, indexes, default }))
    }

    fn fixed(&mut self, json: &Json, space: &str) -> Result<Type, Invalid> {
        let (name, aliases) = self.names_of(json, space)?;
        let size = json.get("size").and_then(Json::integer).and_then(|size| usize::try_from(size).ok());
        let size = size.ok_or_else(|| Invalid(format!("fixed {} has no \"size\" of 0 or more", name.full())))?;
        Ok(Type::Fixed(FixedType { name, aliases, size }))
    }
}

/// A list of texts, empty where there is none.
fn texts<'a>(json: &'a Json, name: &str) -> Result<Vec<&'a str>, Invalid> {
    let list = match json.get(name) {
        None => return Ok(Vec::new()),
        Some(Json::Array(list)) => list.iter().map(Json::text).collect(),
        Some(_) => None,
    };
    list.ok_or_else(|| Invalid(format!("{name:?} is not a list of names")))
}
