//! Which of a reader's types can read which of a writer's: the specification's rules of schema resolution, one level
//! deep.

use super::logical::Logical;
use super::schema::Schema;
use super::types::{Id, Type};

/// Whether the reader's type may stand for the writer's. Ignores what the two contain. Neither is a union.
pub(super) fn matches(writer: &Schema, wrote: Id, reader: &Schema, wanted: Id) -> bool {
    alike(writer.logical(wrote), reader.logical(wanted))
        && (same(writer, wrote, reader, wanted) || promotes(writer.at(wrote), reader.at(wanted)))
}

/// Without a promotion, and ignoring logical types.
fn same(writer: &Schema, wrote: Id, reader: &Schema, wanted: Id) -> bool {
    match (writer.at(wrote), reader.at(wanted)) {
        (Type::Record(_), Type::Record(_)) | (Type::Enum(_), Type::Enum(_)) => {
            named_alike(writer, wrote, reader, wanted)
        }
        (Type::Fixed(one), Type::Fixed(other)) => one.size == other.size && named_alike(writer, wrote, reader, wanted),
        (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}

fn promotes(from: &Type, to: &Type) -> bool {
    matches!(
        (from, to),
        (Type::Int, Type::Long | Type::Float | Type::Double)
            | (Type::Long, Type::Float | Type::Double)
            | (Type::Float, Type::Double)
            | (Type::String, Type::Bytes)
            | (Type::Bytes, Type::String)
    )
}

/// Whole names, last names, or an alias of the reader's.
fn named_alike(writer: &Schema, wrote: Id, reader: &Schema, wanted: Id) -> bool {
    let (Some((name, _)), Some((own, aliases))) = (writer.at(wrote).names(), reader.at(wanted).names()) else {
        return false;
    };
    name.last() == own.last() || aliases.contains(name)
}

/// The two schemas must not contradict each other about the same bytes: the value would silently change. If one of them
/// has no logical type, the reader's counts.
fn alike(wrote: Option<Logical>, wanted: Option<Logical>) -> bool {
    match (wrote, wanted) {
        (Some(Logical::Decimal { scale, .. }), Some(Logical::Decimal { scale: other, .. })) => scale == other,
        (Some(wrote), Some(wanted)) => wrote == wanted,
        _ => true,
    }
}

/// The branch of the reader's union that reads a type of the writer's: one of the same name, else of the same type,
/// else the first to which the type is promoted.
pub(super) fn branch(writer: &Schema, wrote: Id, reader: &Schema, branches: &[Id]) -> Option<Id> {
    let fits: Vec<Id> = branches.iter().copied().filter(|id| matches(writer, wrote, reader, *id)).collect();
    let whole = |id: &&Id| match (writer.at(wrote).names(), reader.at(**id).names()) {
        (Some((name, _)), Some((own, _))) => name == own,
        _ => false,
    };
    let same = |id: &&Id| same(writer, wrote, reader, **id);
    fits.iter().find(whole).or_else(|| fits.iter().find(same)).or(fits.first()).copied()
}
