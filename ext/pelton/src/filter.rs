//! A filter from the frozen tree of lib/pelton/routing/condition.rb, which says what it consists of and has checked it.

use crate::convert::utf8;
use crate::datum::JULIAN_1970;
use crate::{error, value};
use magnus::value::{Fixnum, Qfalse, Qtrue, ReprValue};
use magnus::{Error, Float, Integer, RArray, Ruby, Symbol, Value};
use pelton_core::filter::{Check, Filter, Literal, Needle, PathStep, Pattern, Subject};
use std::cmp::Ordering;

/// Regexp::IGNORECASE, EXTENDED, MULTILINE.
const OPTIONS: [u32; 3] = [1, 2, 4];

/// `[:all, …]`, `[:any, …]`, `[:not, …]` or `[:is, subject, check, value]`.
pub fn read(ruby: &Ruby, tree: Value) -> Result<Filter, Error> {
    let row = array(ruby, tree)?;
    let part = |index| value::element(row, index);
    let parts = || (1..value::length(row)).map(|index| read(ruby, part(index))).collect::<Result<Vec<_>, _>>();
    match &*symbol(ruby, part(0))? {
        "all" => Ok(Filter::All(parts()?)),
        "any" => Ok(Filter::Any(parts()?)),
        "not" => Ok(Filter::Not(Box::new(read(ruby, part(1))?))),
        "is" => Ok(Filter::Test(subject(ruby, part(1))?, check(ruby, &symbol(ruby, part(2))?, part(3))?)),
        _ => Err(refuse(ruby, tree)),
    }
}

/// `[:field, step, …]`, `[:key]`, `[:header, name]` or `[:payload]`.
fn subject(ruby: &Ruby, given: Value) -> Result<Subject, Error> {
    let row = array(ruby, given)?;
    match &*symbol(ruby, value::element(row, 0))? {
        "field" => {
            let steps = (1..value::length(row)).map(|index| step(ruby, value::element(row, index)));
            Ok(Subject::Field(steps.collect::<Result<_, _>>()?))
        }
        "key" => Ok(Subject::Key),
        "payload" => Ok(Subject::Payload),
        "header" => Ok(Subject::Header(text(ruby, value::element(row, 1))?)),
        _ => Err(refuse(ruby, given)),
    }
}

fn step(ruby: &Ruby, given: Value) -> Result<PathStep, Error> {
    match Fixnum::from_value(given) {
        Some(position) => Ok(PathStep::At(position.to_i64())),
        None => Ok(PathStep::Name(text(ruby, given)?)),
    }
}

fn check(ruby: &Ruby, name: &str, given: Value) -> Result<Check, Error> {
    let ordered = |this, that| Ok(Check::Ordered(this, that, literal(ruby, given)?));
    match name {
        "exists" => Ok(Check::Exists),
        "in" => {
            let list = array(ruby, given)?;
            let literals = (0..value::length(list)).map(|index| literal(ruby, value::element(list, index)));
            Ok(Check::OneOf(literals.collect::<Result<_, _>>()?))
        }
        "gt" => ordered(Ordering::Greater, None),
        "gteq" => ordered(Ordering::Greater, Some(Ordering::Equal)),
        "lt" => ordered(Ordering::Less, None),
        "lteq" => ordered(Ordering::Less, Some(Ordering::Equal)),
        "contains" => {
            let text = utf8(&given).ok_or_else(|| refuse(ruby, given))?;
            Ok(Check::Contains(Needle::new(text).ok_or_else(|| refuse(ruby, given))?))
        }
        "starts_with" => Ok(Check::StartsWith(text(ruby, given)?)),
        "matches" => Ok(Check::Matches(pattern(ruby, given)?)),
        _ => Err(refuse(ruby, given)),
    }
}

/// Of a Regexp.
pub fn pattern(ruby: &Ruby, given: Value) -> Result<Pattern, Error> {
    let options: u32 = given.funcall("options", ())?;
    let [ignore_case, extended, multiline] = OPTIONS.map(|option| options & option != 0);
    let source = given.funcall::<_, _, Value>("source", ())?;
    let source = utf8(&source).ok_or_else(|| refuse(ruby, given))?;
    Ok(Pattern::new(source, ignore_case, multiline, extended))
}

fn literal(ruby: &Ruby, given: Value) -> Result<Literal, Error> {
    if let Some(number) = Integer::from_value(given) {
        return number.to_i64().map(Literal::Int);
    }
    if let Some(number) = Float::from_value(given) {
        return Ok(Literal::Float(number.to_f64()));
    }
    Ok(match () {
        () if given.is_nil() => Literal::Null,
        () if Qtrue::from_value(given).is_some() => Literal::Bool(true),
        () if Qfalse::from_value(given).is_some() => Literal::Bool(false),
        () if given.is_kind_of(ruby.class_time()) => time(ruby, given)?,
        () if given.is_kind_of(ruby.class_numeric()) => Literal::Foreign,
        () if given.respond_to("jd", false)? => Literal::Date(given.funcall::<_, _, i64>("jd", ())? - JULIAN_1970),
        () => Literal::Text(text(ruby, given)?),
    })
}

fn time(ruby: &Ruby, given: Value) -> Result<Literal, Error> {
    let (seconds, nanos) = value::time(given).ok_or_else(|| refuse(ruby, given))?;
    let rounded = !given.funcall::<_, _, Value>("floor", (9,))?.equal(given)?;
    Ok(Literal::Time(i128::from(seconds) * 1_000_000_000 + i128::from(nanos), rounded))
}

fn text(ruby: &Ruby, given: Value) -> Result<Vec<u8>, Error> {
    utf8(&given).map(|text| text.as_bytes().to_vec()).ok_or_else(|| refuse(ruby, given))
}

fn array(ruby: &Ruby, given: Value) -> Result<RArray, Error> {
    RArray::from_value(given).ok_or_else(|| refuse(ruby, given))
}

fn symbol(ruby: &Ruby, given: Value) -> Result<String, Error> {
    let name = Symbol::from_value(given).ok_or_else(|| refuse(ruby, given))?;
    Ok(name.name()?.into_owned())
}

fn refuse(ruby: &Ruby, given: Value) -> Error {
    error::bad_option(ruby, "where", given, "expected a tree of Pelton::Routing::Condition")
}
