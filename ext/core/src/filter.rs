//! Filters of routing (`where`), asked on the decoding threads: they decide which messages Ruby sees.
//!
//! An answer is yes, no or "not decided" (`None`). It is not decided if the native decoder cannot decide about the
//! document, or only Ruby's Regexp knows what a pattern means. The caller then asks the same filter in Ruby
//! (lib/pelton/routing/condition.rb), which this one must never contradict.

mod pattern;
#[cfg(test)]
mod tests;

use crate::decode::{Kind, Node, Unit};
use crate::view::View;
pub use pattern::Pattern;
use std::cmp::Ordering;
use std::collections::HashSet;

pub enum Filter {
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
    Test(Subject, Check),
}

/// The part of a message that a filter checks.
pub enum Subject {
    Field(Vec<PathStep>),
    Key,
    /// By name; of several values one is enough.
    Header(Vec<u8>),
    /// Its bytes, not decoded.
    Payload,
}

/// Into a document: an object's name or an array's position (negative: from the end).
pub enum PathStep {
    Name(Vec<u8>),
    At(i64),
}

pub enum Check {
    /// It exists, even if it is null.
    Exists,
    OneOf(Literals),
    /// Compared with the literal it is this, or that.
    Ordered(Ordering, Option<Ordering>, Literal),
    StartsWith(Vec<u8>),
    Contains(Needle),
    Matches(Pattern),
}

/// Bytes that are looked for in others.
pub struct Needle(regex::bytes::Regex);

impl Needle {
    /// `None`: the text is too long.
    pub fn new(text: &str) -> Option<Self> {
        regex::bytes::Regex::new(&regex::escape(text)).ok().map(Self)
    }
}

#[derive(Clone, PartialEq)]
pub enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    /// Finite.
    Float(f64),
    Text(Vec<u8>),
    /// Days since 1970.
    Date(i64),
    /// Nanoseconds since 1970, rounded down, and whether they were rounded.
    Time(i128, bool),
    /// A number that only Ruby compares: a BigDecimal.
    Foreign,
}

/// Texts by hash, because there may be many.
#[derive(Default)]
pub struct Literals {
    texts: HashSet<Vec<u8>>,
    others: Vec<Literal>,
}

impl FromIterator<Literal> for Literals {
    fn from_iter<T: IntoIterator<Item = Literal>>(all: T) -> Self {
        let mut literals = Self::default();
        for literal in all {
            match literal {
                Literal::Text(text) => drop(literals.texts.insert(text)),
                other => literals.others.push(other),
            }
        }
        literals
    }
}

/// A message's payload, if it was decoded.
#[derive(Clone, Copy)]
pub enum Document<'a> {
    /// A tombstone has no fields.
    Absent,
    Undecided,
    Root(Node<'a>),
}

/// The subject of a check.
#[derive(Clone, Copy)]
enum Operand<'a> {
    Missing,
    Null,
    Bool(bool),
    Int(i64),
    /// Above `i64::MAX`.
    Unsigned(u64),
    Float(f64),
    Text(&'a [u8]),
    /// No text, but a String in Ruby.
    Bytes(&'a [u8]),
    /// Days since 1970.
    Date(i64),
    /// Nanoseconds since 1970.
    Time(i128),
    /// An array or an object.
    Container,
    /// A value that Ruby, or the application, interprets.
    Extension,
}

impl<'a> Operand<'a> {
    fn text(bytes: Option<&'a [u8]>) -> Self {
        bytes.map_or(Self::Null, Self::Text)
    }

    fn is_number(self) -> bool {
        matches!(self, Self::Int(_) | Self::Unsigned(_) | Self::Float(_))
    }
}

fn nanos(value: i64, unit: Unit) -> i128 {
    i128::from(value) * i128::from(Unit::Nanos.per_second() / unit.per_second())
}

impl<'a> From<Node<'a>> for Operand<'a> {
    fn from(node: Node<'a>) -> Self {
        match node.kind() {
            Kind::Null => Self::Null,
            Kind::True => Self::Bool(true),
            Kind::False => Self::Bool(false),
            Kind::Int(value) => Self::Int(value),
            Kind::Unsigned(value) => Self::Unsigned(value),
            Kind::Float(value) => Self::Float(value),
            Kind::Str(text) => Self::Text(text.bytes),
            Kind::Bytes(bytes) => Self::Bytes(bytes),
            Kind::Array(_) | Kind::Object(_) => Self::Container,
            Kind::Date(days) => Self::Date(days.into()),
            Kind::Time(value, unit) => Self::Time(nanos(value, unit)),
            Kind::Extension(..) | Kind::Decimal(..) => Self::Extension,
        }
    }
}

impl Filter {
    /// `None`: Ruby decides.
    pub fn passes(&self, document: Document<'_>, message: &View<'_>) -> Option<bool> {
        match self {
            Self::All(parts) => decided(parts, false, document, message),
            Self::Any(parts) => decided(parts, true, document, message),
            Self::Not(part) => part.passes(document, message).map(|passes| !passes),
            Self::Test(subject, check) => subject.is(check, document, message),
        }
    }
}

/// `ending` as soon as one part says so, and none of them may be undecided for the other.
fn decided(parts: &[Filter], ending: bool, document: Document<'_>, message: &View<'_>) -> Option<bool> {
    let mut sure = true;
    for part in parts {
        match part.passes(document, message) {
            Some(answer) if answer == ending => return Some(ending),
            Some(_) => {}
            None => sure = false,
        }
    }
    sure.then_some(!ending)
}

impl Subject {
    fn is(&self, check: &Check, document: Document<'_>, message: &View<'_>) -> Option<bool> {
        match self {
            Self::Field(path) => match document {
                Document::Absent => check.holds(Operand::Missing),
                Document::Undecided => None,
                Document::Root(root) => check.holds(walk(root, path)),
            },
            Self::Key => check.holds(message.key.map_or(Operand::Missing, Operand::Text)),
            Self::Payload => check.holds(message.payload.map_or(Operand::Missing, Operand::Text)),
            Self::Header(wanted) => {
                let mut sure = true;
                let mut values = message.headers().filter(|(name, _)| name == wanted).peekable();
                if values.peek().is_none() {
                    return check.holds(Operand::Missing);
                }
                for (_, value) in values {
                    match check.holds(Operand::text(value)) {
                        Some(true) => return Some(true),
                        Some(false) => {}
                        None => sure = false,
                    }
                }
                sure.then_some(false)
            }
        }
    }
}

fn walk<'a>(root: Node<'a>, path: &[PathStep]) -> Operand<'a> {
    let mut node = root;
    for step in path {
        if node.is_foreign() {
            return Operand::Extension;
        }
        let next = match step {
            PathStep::Name(name) => node.get(name),
            PathStep::At(position) => node.at(*position),
        };
        match next {
            Some(next) => node = next,
            None => return Operand::Missing,
        }
    }
    Operand::from(node)
}

impl Check {
    fn holds(&self, given: Operand<'_>) -> Option<bool> {
        match (self, given) {
            (_, Operand::Extension) => None,
            (Self::Exists, given) => Some(!matches!(given, Operand::Missing)),
            (Self::OneOf(literals), given) => match literals.include(given) {
                false if given.is_number() && literals.others.contains(&Literal::Foreign) => None,
                answer => Some(answer),
            },
            (Self::Ordered(_, _, Literal::Foreign), given) if given.is_number() => None,
            (Self::Ordered(this, that, literal), given) => {
                Some(literal.compare(given).is_some_and(|order| order == *this || Some(order) == *that))
            }
            (Self::StartsWith(prefix), Operand::Text(text) | Operand::Bytes(text)) => Some(text.starts_with(prefix)),
            (Self::Contains(needle), Operand::Text(text) | Operand::Bytes(text)) => Some(needle.0.is_match(text)),
            (Self::Matches(pattern), Operand::Text(text)) => pattern.matches(text),
            (Self::StartsWith(_) | Self::Contains(_) | Self::Matches(_), _) => Some(false),
        }
    }
}

impl Literals {
    /// A missing value counts as null.
    fn include(&self, given: Operand<'_>) -> bool {
        match given {
            Operand::Text(text) => self.texts.contains(text),
            Operand::Bytes(bytes) => bytes.is_ascii() && self.texts.contains(bytes),
            Operand::Missing | Operand::Null => self.others.contains(&Literal::Null),
            Operand::Bool(value) => self.others.contains(&Literal::Bool(value)),
            other => self.others.iter().any(|literal| literal.compare(other) == Some(Ordering::Equal)),
        }
    }
}

impl Literal {
    /// How the given value compares with this one. `None` if they do not compare: numbers compare only with numbers,
    /// texts only with texts (by their bytes, as in Ruby), dates with dates, times with times.
    fn compare(&self, given: Operand<'_>) -> Option<Ordering> {
        match (given, self) {
            (Operand::Int(given), Self::Int(own)) => Some(given.cmp(own)),
            (Operand::Int(given), Self::Float(own)) => compare(given.into(), *own),
            (Operand::Unsigned(given), Self::Float(own)) => compare(given.into(), *own),
            (Operand::Unsigned(_), Self::Int(_)) => Some(Ordering::Greater),
            (Operand::Float(given), Self::Int(own)) => compare((*own).into(), given).map(Ordering::reverse),
            (Operand::Float(given), Self::Float(own)) => given.partial_cmp(own),
            (Operand::Text(given), Self::Text(own)) => Some(given.cmp(own)),
            // Ruby's order of equal bytes that are not equal: binary comes before UTF-8.
            (Operand::Bytes(given), Self::Text(own)) => {
                Some(given.cmp(own).then(if given.is_ascii() { Ordering::Equal } else { Ordering::Less }))
            }
            (Operand::Date(given), Self::Date(own)) => Some(given.cmp(own)),
            (Operand::Time(given), Self::Time(own, rounded)) => {
                Some(given.cmp(own).then(if *rounded { Ordering::Less } else { Ordering::Equal }))
            }
            _ => None,
        }
    }
}

/// Exactly, as Ruby does: an integer beyond 2^53 is not rounded first.
fn compare(integer: i128, float: f64) -> Option<Ordering> {
    // Beyond 64 bits, signed or not.
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    if float.is_nan() {
        return None;
    }
    if float >= LIMIT {
        return Some(Ordering::Less);
    }
    if float < -LIMIT {
        return Some(Ordering::Greater);
    }
    let fraction = 0.0.partial_cmp(&float.fract())?;
    Some(integer.cmp(&(float.trunc() as i128)).then(fraction))
}
