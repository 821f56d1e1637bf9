//! Values of Avro's logical types: which are written, as what, and which are refused.

use pelton_core::decode::avro::{Datum, Framing, Schema, SchemaId, TopicSchemas, encode};
use pelton_core::decode::{Kind, Tree};

fn schema(attributes: &str) -> Schema {
    let none: &[&str] = &[];
    Schema::parse(&format!("{{{attributes}}}"), none).expect("a schema")
}

fn logical(kind: &str, name: &str) -> String {
    format!(r#""type":"{kind}","logicalType":"{name}""#)
}

fn written(attributes: &str, value: &Datum) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    encode(&schema(attributes), value, &mut bytes).ok().map(|()| bytes)
}

/// The long that is written for a value.
fn number(attributes: &str, value: &Datum) -> Option<i64> {
    let bytes = written(attributes, value)?;
    let zigzag = bytes.iter().rev().fold(0u64, |value, byte| value << 7 | u64::from(byte & 0x7f));
    Some((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
}

fn at(seconds: i64, nanos: u32, offset: i64) -> Datum {
    Datum::Time { seconds, nanos, offset }
}

#[test]
fn a_time_of_day_is_within_a_day() {
    const DAY: i64 = 86_400_000;
    for (kind, name, end) in [("int", "time-millis", DAY), ("long", "time-micros", 1000 * DAY)] {
        let given = |time| number(&logical(kind, name), &Datum::Int(time));
        assert_eq!([Some(0), Some(end - 1), None, None], [0, end - 1, end, -1].map(given), "{name}");
    }
}

#[test]
fn a_time_is_written_in_units_of_its_type_rounded_down() {
    let units = |name: &str| {
        let given = [at(1, 999_999_999, 3600), at(-1, 1_999_999, 0), at(0, 0, -60)];
        given.map(|time| number(&logical("long", name), &time))
    };
    assert_eq!([Some(1_999), Some(-999), Some(0)], units("timestamp-millis"));
    assert_eq!([Some(1_999_999), Some(-998_001), Some(0)], units("timestamp-micros"));
    assert_eq!([Some(1_999_999_999), Some(-998_000_001), Some(0)], units("timestamp-nanos"));
    assert_eq!([Some(3_601_999), Some(-999), Some(-60_000)], units("local-timestamp-millis"));
    let far = i64::MAX / 1000;
    let given = |seconds| number(&logical("long", "timestamp-millis"), &at(seconds, 0, 0));
    assert_eq!([Some(far * 1000), None], [far, far + 1].map(given));
}

#[test]
fn a_date_has_32_bits() {
    let given = |days| number(&logical("int", "date"), &Datum::Date(days));
    let (first, last) = (i64::from(i32::MIN), i64::from(i32::MAX));
    assert_eq!([Some(first), Some(last), None, None], [first, last, first - 1, last + 1].map(given));
}

#[test]
fn a_uuid_has_its_digits_and_dashes_in_their_places() {
    const UUID: &str = "00112233-4455-6677-8899-aabbccddeeff";
    let fixed = r#""type":"fixed","name":"U","size":16,"logicalType":"uuid""#;
    let given = |text: &str| written(fixed, &Datum::Text(text.into()));
    let bytes: Vec<u8> = (0..16).map(|digit| digit << 4 | digit).collect();
    assert_eq!(Some(bytes.clone()), given(UUID));
    assert_eq!(Some(bytes), given(&UUID.to_uppercase()));
    for wrong in [
        "00112233-4455-6677-8899-aabbccddeef",
        "00112233-4455-6677-8899-aabbccddeeff0",
        "0011223-34455-6677-8899-aabbccddeeff",
        "00112233445566778899aabbccddeeff",
        "0011223g-4455-6677-8899-aabbccddeeff",
    ] {
        assert_eq!(None, given(wrong), "{wrong}");
    }
    let string = written(&logical("string", "uuid"), &Datum::Text(UUID.into()));
    assert_eq!(Some([&[72], UUID.as_bytes()].concat()), string);
}

#[test]
fn a_duration_has_three_parts_of_32_bits() {
    let fixed = r#""type":"fixed","name":"D","size":12,"logicalType":"duration""#;
    let given = |parts: &[(&str, i64)]| {
        let pair = |(name, value): &(&str, i64)| ((*name).to_owned(), Datum::Int(*value));
        written(fixed, &Datum::Map(parts.iter().map(pair).collect()))
    };
    let most = i64::from(u32::MAX);
    let bytes = vec![1, 0, 0, 0, 0, 2, 0, 0, 255, 255, 255, 255];
    assert_eq!(Some(bytes), given(&[("millis", most), ("months", 1), ("days", 512)]));
    assert_eq!(None, given(&[("millis", most + 1), ("months", 1), ("days", 512)]));
    assert_eq!(None, given(&[("millis", -1), ("months", 1), ("days", 512)]));
    assert_eq!(None, given(&[("months", 1), ("days", 512)]));
    assert_eq!(None, given(&[("millis", 1), ("months", 1), ("days", 1), ("years", 1)]));
}

#[test]
fn a_decimal_keeps_to_its_precision_and_is_written_with_its_scale() {
    let decimal = r#""type":"bytes","logicalType":"decimal","precision":4,"scale":2"#;
    let given = |unscaled: &[u8], scale| written(decimal, &Datum::Decimal { unscaled: unscaled.into(), scale });
    // 12.34, 12.3 and 12; −12.34
    assert_eq!(Some(vec![4, 0x04, 0xd2]), given(&[0x04, 0xd2], 2));
    assert_eq!(Some(vec![4, 0x04, 0xce]), given(&[123], 1));
    assert_eq!(Some(vec![4, 0x04, 0xb0]), written(decimal, &Datum::Int(12)));
    assert_eq!(Some(vec![4, 0xfb, 0x2e]), given(&[0xfb, 0x2e], 2));
    assert_eq!(Some(vec![2, 0]), given(&[0], 7), "any zero");
    assert_eq!(Some(vec![4, 0x27, 0x0f]), given(&[0x27, 0x0f], 2), "99.99");
    assert_eq!(None, given(&[0x27, 0x10], 2), "100.00");
    assert_eq!(None, given(&[123], 3), "0.123");
    let fixed = r#""type":"fixed","name":"F","size":3,"logicalType":"decimal","precision":4,"scale":2"#;
    let given = |unscaled: &[u8]| written(fixed, &Datum::Decimal { unscaled: unscaled.into(), scale: 2 });
    assert_eq!(Some(vec![0, 0x04, 0xd2]), given(&[0x04, 0xd2]));
    assert_eq!(Some(vec![0xff, 0xfb, 0x2e]), given(&[0xfb, 0x2e]));
}

/// Of the type's own bytes otherwise.
#[test]
fn a_decimal_type_has_a_scale_within_its_precision_and_that_within_its_bytes() {
    let is_decimal = |attributes: &str, document: &[u8]| {
        let topic = TopicSchemas::new(Framing::None, None);
        topic.learn(SchemaId::Own, &schema(attributes));
        let mut tree = Tree::new();
        let root = topic.decode(&mut tree, document, 0, document.len()).expect("a document");
        matches!(tree.node(document, root).kind(), Kind::Decimal(..))
    };
    let of_bytes = |more: &str| is_decimal(&format!(r#""type":"bytes","logicalType":"decimal"{more}"#), &[2, 1]);
    let given = [r#","precision":3"#, r#","precision":3,"scale":3"#, r#","precision":4096"#].map(of_bytes);
    assert_eq!([true; 3], given);
    let given = ["", r#","precision":0"#, r#","precision":3,"scale":4"#, r#","precision":4097"#].map(of_bytes);
    assert_eq!([false; 4], given);
    let of_fixed = |(size, precision): (usize, u32)| {
        let attributes =
            format!(r#""type":"fixed","name":"F","size":{size},"logicalType":"decimal","precision":{precision}"#);
        is_decimal(&attributes, &vec![0; size])
    };
    assert_eq!(
        [true, false, true, false, true, false],
        [(1, 2), (1, 3), (4, 9), (4, 10), (8, 18), (8, 19)].map(of_fixed)
    );
}
