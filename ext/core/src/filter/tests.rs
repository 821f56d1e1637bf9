//! Answers to the letter; that Ruby gives the same ones, test/native/where_test.rb asks.

use super::{Check, Document, Filter, Literal, Needle, Operand, PathStep, Pattern, Subject, compare};
use crate::decode::Tree;
use crate::view::{View, put};
use std::cmp::Ordering::{Equal, Greater, Less};

fn field(name: &str, check: Check) -> Filter {
    Filter::Test(Subject::Field(vec![PathStep::Name(name.into())]), check)
}

fn eq(name: &str, literal: Literal) -> Filter {
    field(name, Check::OneOf([literal].into_iter().collect()))
}

/// The filter's answer for a JSON document, or for one that the native side cannot read (`None`).
fn ask(filter: &Filter, document: Option<&str>) -> Option<bool> {
    let view = View { payload: None, key: Some(b"k"), headers: &[] };
    let Some(document) = document else { return filter.passes(Document::Undecided, &view) };
    let mut tree = Tree::new();
    let root = tree.parse_json(document.as_bytes(), 0, document.len()).unwrap();
    filter.passes(Document::Root(tree.node(document.as_bytes(), root)), &view)
}

#[test]
fn integers_and_floats_compare_exactly() {
    let odd = (1_i64 << 53) + 1;
    for (integer, float, order) in [
        (1, 1.0, Some(Equal)),
        (0, -0.0, Some(Equal)),
        (odd, odd as f64, Some(Greater)),
        (-odd, -odd as f64, Some(Less)),
        (i64::MAX, i64::MAX as f64, Some(Less)),
        (i64::MIN, i64::MIN as f64, Some(Equal)),
        (i64::MIN, -1e300, Some(Greater)),
        (7, 7.5, Some(Less)),
        (-7, -7.5, Some(Greater)),
        (0, f64::INFINITY, Some(Less)),
        (0, f64::NAN, None),
    ] {
        assert_eq!(compare(integer.into(), float), order, "{integer} and {float}");
    }
}

#[test]
fn each_literal_is_equal_to_its_own_kind_of_value_and_to_no_other() {
    let values = ["null", "true", "false", "7", "-7", "2.5", "7.0", r#""7""#, r#""""#, "[]", "{}"];
    let text = |text: &str| Literal::Text(text.into());
    for (literal, equal) in [
        (Literal::Null, vec!["null"]),
        (Literal::Bool(true), vec!["true"]),
        (Literal::Bool(false), vec!["false"]),
        (Literal::Int(7), vec!["7", "7.0"]),
        (Literal::Int(-7), vec!["-7"]),
        (Literal::Float(7.0), vec!["7", "7.0"]),
        (Literal::Float(2.5), vec!["2.5"]),
        (text("7"), vec![r#""7""#]),
        (text(""), vec![r#""""#]),
    ] {
        let filter = eq("a", literal);
        let passed = |value: &&str| ask(&filter, Some(&format!(r#"{{"a":{value}}}"#))) == Some(true);
        assert_eq!(equal, values.into_iter().filter(passed).collect::<Vec<_>>());
    }
}

#[test]
fn numbers_above_64_bits_with_a_sign_compare_with_all_numbers() {
    let above = Operand::Unsigned(u64::MAX);
    assert_eq!(Literal::Int(i64::MAX).compare(above), Some(Greater));
    assert_eq!(Literal::Float(-7.5).compare(above), Some(Greater));
    assert_eq!(Literal::Float(1e300).compare(above), Some(Less));
    assert_eq!(Literal::Text(b"7".to_vec()).compare(above), None);
}

#[test]
fn values_are_above_or_below_literals_of_their_kind_only() {
    let values = ["null", "true", "6", "8", "6.5", "7.5", r#""6""#, r#""8""#, "[]"];
    let above = |literal| field("a", Check::Ordered(Greater, None, literal));
    let up_to = |literal| field("a", Check::Ordered(Less, Some(Equal), literal));
    let text = |text: &str| Literal::Text(text.into());
    for (filter, expected) in [
        (above(Literal::Int(7)), vec!["8", "7.5"]),
        (above(Literal::Float(7.5)), vec!["8"]),
        (up_to(Literal::Int(6)), vec!["6"]),
        (up_to(Literal::Float(7.5)), vec!["6", "6.5", "7.5"]),
        (above(text("7")), vec![r#""8""#]),
        (up_to(text("6")), vec![r#""6""#]),
        (above(Literal::Bool(false)), vec![]),
    ] {
        let passed = |value: &&str| ask(&filter, Some(&format!(r#"{{"a":{value}}}"#))) == Some(true);
        assert_eq!(expected, values.into_iter().filter(passed).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_missing_is_as_null_but_for_exists() {
    for (document, null, exists) in [("{}", true, false), (r#"{"a":null}"#, true, true), (r#"{"a":0}"#, false, true)] {
        assert_eq!(ask(&eq("a", Literal::Null), Some(document)), Some(null), "{document}");
        assert_eq!(ask(&field("a", Check::Exists), Some(document)), Some(exists), "{document}");
    }
    assert_eq!(ask(&eq("a", Literal::Null), Some("[1]")), Some(true));
}

#[test]
fn a_text_is_found_in_the_bytes_of_keys_and_payloads() {
    let found = |subject: Subject, text: &str, payload: Option<&[u8]>| {
        let filter = Filter::Test(subject, Check::Contains(Needle::new(text).expect("a needle")));
        filter.passes(Document::Undecided, &View { payload, key: Some(b"k.1"), headers: &[] })
    };
    assert_eq!(found(Subject::Payload, "a.b", Some(b"\xffa.b")), Some(true));
    assert_eq!(found(Subject::Payload, "a.b", Some(b"acb")), Some(false));
    assert_eq!(found(Subject::Payload, "", Some(b"")), Some(true));
    assert_eq!(found(Subject::Payload, "", None), Some(false));
    assert_eq!(found(Subject::Key, ".1", None), Some(true));
}

/// An undecided part matters only where the others leave it open.
#[test]
fn what_cannot_be_read_is_undecided() {
    let open = || eq("a", Literal::Int(1));
    let key = |text: &str| {
        let literals = [Literal::Text(text.into())].into_iter().collect();
        Filter::Test(Subject::Key, Check::OneOf(literals))
    };
    assert_eq!(ask(&open(), None), None);
    assert_eq!(ask(&Filter::Not(Box::new(open())), None), None);
    assert_eq!(ask(&Filter::All(vec![open(), key("k")]), None), None);
    assert_eq!(ask(&Filter::All(vec![open(), key("x")]), None), Some(false));
    assert_eq!(ask(&Filter::Any(vec![open(), key("k")]), None), Some(true));
    assert_eq!(ask(&Filter::Any(vec![open(), key("x")]), None), None);
}

/// A header of which one value is undecided may pass: it was refused, and the message never came.
#[test]
fn a_header_that_cannot_be_decided_is_undecided() {
    let headers = |values: &[&str]| {
        let mut bytes = Vec::new();
        for value in values {
            put(&mut bytes, Some(b"x"));
            put(&mut bytes, Some(value.as_bytes()));
        }
        bytes
    };
    let ask = |pattern: &str, values: &[&str]| {
        let pattern = Pattern::new(pattern, false, false, false);
        let filter = Filter::Test(Subject::Header(b"x".to_vec()), Check::Matches(pattern));
        filter.passes(Document::Absent, &View { payload: None, key: None, headers: &headers(values) })
    };
    assert_eq!(ask("(?<=a)b", &["ab"]), None);
    assert_eq!(ask("(?<=a)b", &["x", "ab"]), None);
    assert_eq!(ask(r"a\Z", &["x", "a\n"]), None);
    assert_eq!(ask(r"a\Z", &["a\n", "a"]), Some(true));
    assert_eq!(ask(r"a\Z", &["x", "y"]), Some(false));
    assert_eq!(ask("(?<=a)b", &[]), Some(false));
}

#[test]
fn patterns_that_are_ruby_s() {
    for source in [
        "(?<=a)b",
        "(?=a)",
        "(?!a)",
        "(?>a)",
        "(a)\\1",
        "a++",
        "a{2}?",
        "a{2}+",
        "a{,3}",
        "a{",
        "\\p{L}",
        "\\x41",
        "\\u0041",
        "\\R",
        "\\X",
        "\\G",
        "\\K",
        "\\B",
        "[[:alpha:]]",
        "[a&&b]",
        "[a-]",
        "[]a]",
        "(?i:a)",
        "(?#x)",
        "[\\p{L}]",
        "\\101",
        "^*",
        "(",
        ")",
        "a**",
        "(?<n>a)\\k<n>",
        "[\\D]",
        "a{1001}",
    ] {
        assert!(Pattern::new(source, false, false, false).is_foreign(), "{source}");
    }
    assert!(Pattern::new("a b", false, false, true).is_foreign());
    assert!(Pattern::new("ß", true, false, false).is_foreign());
    assert!(Pattern::new("(?-mix:a)", true, false, false).is_foreign());
}

#[test]
fn patterns_that_are_decided_here() {
    let check = |source: &str, text: &str| {
        let pattern = Pattern::new(source, false, false, false);
        assert!(!pattern.is_foreign(), "{source}");
        pattern.matches(text.as_bytes())
    };
    assert_eq!(check(r"\Aorder\.(created|paid)\z", "order.paid"), Some(true));
    assert_eq!(check(r"\Aorder\.(created|paid)\z", "orderXpaid"), Some(false));
    assert_eq!(check(r"\A[a-z\d_.-\/]+@(?:\w+\.)+[A-Z]{2,6}\z", "a"), Some(false));
    assert_eq!(check(r"ü.\d{3}", "xüé123"), Some(true));
    assert_eq!(check(r"\w", "é"), Some(false));
    assert_eq!(check("a{1000}", "a"), Some(false));
    assert_eq!(check(r"(?-mix:a)|<b>", "<b>"), Some(true));
    assert_eq!(check(r"^a$", "a"), Some(true));
    assert_eq!(check(r"^a$", "b\na\nc"), Some(true));
    assert_eq!(check(r"^a$", "b\nab\n"), Some(false));
    assert_eq!(check(r"a\Z", "b\na"), Some(true));
    assert_eq!(check(r"a\Z", "a\nb"), Some(false));
    // The two may differ: not decided.
    assert_eq!(check(r"^a$", "a\n"), None);
    assert_eq!(check(r"^$", "a\n"), None);
    assert_eq!(check(r"a\Z", "a\n"), None);
    assert_eq!(check(r"\ba", "é"), None);
    assert_eq!(Pattern::new("ERROR", true, false, false).matches(b"an error"), Some(true));
    assert_eq!(Pattern::new("ERROR", true, false, false).matches("é error".as_bytes()), Some(true));
    assert_eq!(Pattern::new("ss", true, false, false).matches("ß".as_bytes()), None);
    assert_eq!(Pattern::new("a", false, false, false).matches(b"a\xff"), Some(false));
    assert_eq!(Pattern::new("a.b", false, true, false).matches(b"a\nb"), Some(true));
    assert_eq!(Pattern::new("a.b", false, false, false).matches(b"a\nb"), Some(false));
}

/// A message that it refused would never come to Ruby.
#[test]
fn a_number_and_a_literal_that_only_ruby_compares_are_undecided() {
    let one_of = |literals: Vec<Literal>| field("a", Check::OneOf(literals.into_iter().collect()));
    let text = || Literal::Text(b"7".to_vec());
    for (filter, number, other) in [
        (one_of(vec![Literal::Foreign]), None, None),
        (one_of(vec![Literal::Foreign, Literal::Int(7)]), Some(true), None),
        (one_of(vec![Literal::Int(8)]), Some(false), Some(true)),
        (field("a", Check::Ordered(Greater, None, Literal::Foreign)), None, None),
    ] {
        assert_eq!([number, other], ["7", "8"].map(|value| ask(&filter, Some(&format!(r#"{{"a":{value}}}"#)))));
    }
    for (filter, found) in [(one_of(vec![Literal::Foreign]), false), (one_of(vec![Literal::Foreign, text()]), true)] {
        assert_eq!(Some(found), ask(&filter, Some(r#"{"a":"7"}"#)));
    }
}

/// Ruby's times have fractions of nanoseconds.
#[test]
fn a_time_of_kafka_compares_with_one_that_is_finer() {
    let compared = |own: Literal| [4, 5, 6].map(|given| own.compare(Operand::Time(given)));
    assert_eq!([Some(Less), Some(Equal), Some(Greater)], compared(Literal::Time(5, false)));
    assert_eq!([Some(Less), Some(Less), Some(Greater)], compared(Literal::Time(5, true)), "5 and a fraction");
}
