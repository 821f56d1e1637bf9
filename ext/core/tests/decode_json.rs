//! What the native JSON parser takes, and what it leaves to Ruby.
//!
//! Each accepted value was compared with JSON.parse of json 2.6.1, 2.6.3 and 2.18.0.

#[path = "support/json.rs"]
mod support;

use support::{accepts, rejects};

#[test]
fn scalars_at_the_top() {
    accepts("true", "true");
    accepts("false", "false");
    accepts("null", "null");
    accepts("10", "10");
    accepts("-5", "-5");
    accepts("0", "0");
    accepts(" 1 \n", "1");
    accepts("1.5", "1.5");
    accepts(" 1.5 ", "1.5");
    accepts("1e5", "100000.0");
    accepts("\"a\"", "\"a\"");
    accepts("\"\"", "\"\"");
}

#[test]
fn integers() {
    accepts("[-0]", "[0]");
    accepts("-0", "0");
    for value in [0, 7, 12, 1234567, 12345678, 123456789, 1234567890123456, 12345678901234567, i64::MAX, i64::MIN] {
        accepts(&value.to_string(), &value.to_string());
        accepts(&format!("[{value},{value} ,-1]"), &format!("[{value},{value},-1]"));
    }
    for exponent in 0..63 {
        for value in [(1i64 << exponent) - 1, 1 << exponent, -(1i64 << exponent), -(1i64 << exponent) - 1] {
            accepts(&value.to_string(), &value.to_string());
        }
    }
    rejects("[9223372036854775808]");
    rejects("[-9223372036854775809]");
    rejects("[18446744073709551616]");
    rejects("[99999999999999999999999999]");
    rejects("[100000000000000000000]");
    for malformed in ["01", "-01", "00", "+1", "-", "- 1", "0x10", "1_000", "--1", "1-2", "-a", "1 2", "1a", "0b1"] {
        rejects(malformed);
        rejects(format!("[{malformed}]"));
        rejects(format!("{{\"a\":{malformed}}}"));
    }
}

#[test]
fn floats() {
    for (text, value) in [
        ("-0.0", "-0.0"),
        ("0.0", "0.0"),
        ("1E5", "100000.0"),
        ("1e+5", "100000.0"),
        ("1.0E+2", "100.0"),
        ("1e05", "100000.0"),
        ("1e00", "1.0"),
        ("0e5", "0.0"),
        ("-0e5", "-0.0"),
        ("0E0", "0.0"),
        ("0.0e400", "0.0"),
        ("0.1", "0.1"),
        ("12.0e-5", "0.00012"),
        ("-1.5E-05", "-1.5e-5"),
        ("9007199254740993.0", "9007199254740992.0"),
        ("9007199254740993.5", "9007199254740994.0"),
        ("1.2345678901234567", "1.2345678901234567"),
        ("-65.613616999999977", "-65.61361699999998"),
        ("1.234567890123456789", "1.2345678901234567"),
        ("0.000000123456789012", "1.23456789012e-7"),
        ("1e22", "1e22"),
        ("1e23", "1e23"),
        ("1e308", "1e308"),
        ("1.7976931348623157e308", "1.7976931348623157e308"),
        ("2.2250738585072014e-308", "2.2250738585072014e-308"),
    ] {
        accepts(text, value);
        accepts(&format!("[{text}]"), &format!("[{value}]"));
    }
    for malformed in ["1.", "1.e5", ".5", "1e", "1e+", "1e-", "1.5.5", "1e5.5", "1.0-", "00.5", "-00.5", "01.5", "1.5e"]
    {
        rejects(malformed);
        rejects(format!("[{malformed}]"));
    }
    for other in ["NaN", "-NaN", "Infinity", "-Infinity", "nan", "inf"] {
        rejects(other);
        rejects(format!("[{other}]"));
    }
}

#[test]
fn floats_where_rubies_warn_or_round_otherwise_are_left_to_ruby() {
    for doubtful in ["1e309", "-1e400", "1.7976931348623159e308", "1e-400", "3e-324", "2.2250738585072011e-308"] {
        rejects(format!("[{doubtful}]"));
    }
    for exponent in ["1e999999999", "1e-999999999", "0e99999999999999999999", "1e99999999999999999999"] {
        rejects(format!("[{exponent}]"));
    }
    rejects(format!("[0.{}1]", "0".repeat(60)));
    rejects(format!("[{}.5]", "1".repeat(60)));
}

#[test]
fn literals() {
    accepts("[true,false,null]", "[true,false,null]");
    for malformed in ["tru", "truex", "True", "true1", "nul", "nullnull", "fals", "falsey", "f", "t", "n", "falsd"] {
        rejects(malformed);
        rejects(format!("[{malformed}]"));
    }
}

#[test]
fn strings() {
    accepts(r#"["a\u0000b"]"#, "[\"a\\0b\"]");
    accepts("[\"\x7f\"]", "[\"\\u{7f}\"]");
    accepts(r#"["\"\\\/\b\f\n\r\t"]"#, r#"["\"\\/\u{8}\u{c}\n\r\t"]"#);
    accepts(r#"["\u00e9\u00E9é"]"#, "[\"ééé\"]");
    accepts(r#"["\ud83d\ude00\uD83D\uDE00"]"#, "[\"😀😀\"]");
    accepts(r#"["\udbff\udfff"]"#, "[\"\\u{10ffff}\"]");
    accepts(r#"["\u0041","\u007f","\u0080"]"#, "[\"A\",\"\\u{7f}\",\"\\u{80}\"]");
    accepts("[\"\u{feff}\"]", "[\"\\u{feff}\"]");
    for control in 0..0x20u8 {
        rejects([b'[', b'"', control, b'"', b']']);
        rejects([b'[', b'"', b'\\', b'n', control, b'"', b']']);
    }
    for letter in (0..=255u8).filter(|letter| !b"\"\\/bfnrtu".contains(letter)) {
        rejects([b'[', b'"', b'\\', letter, b'"', b']']);
    }
    for malformed in [
        r#"["a]"#,
        r#"["\"#,
        r#"["\"]"#,
        r#"["\u"]"#,
        r#"["\u12"]"#,
        r#"["\u123"]"#,
        r#"["\u 123"]"#,
        r#"["\u+123"]"#,
        r#"["\uXYZW"]"#,
        "['a']",
        r#"["a" "b"]"#,
        r#"["a"1]"#,
        r#"[1"a"]"#,
    ] {
        rejects(malformed);
    }
}

#[test]
fn lone_surrogates_are_left_to_ruby() {
    for unit in ["\\ud800", "\\udbff", "\\udc00", "\\udfff"] {
        let behind = ["", "x", "\\u0041", "\\ud83d", "\\n", "\\ud83d\\ude00", "\\ud7ff", "\\ue000", "\\uffff"];
        for behind in behind {
            rejects(format!("[\"{unit}{behind}\"]"));
            rejects(format!("[\"a{unit}{behind}b\"]"));
        }
    }
}

#[test]
fn invalid_utf8_is_left_to_ruby() {
    for bytes in [
        &b"\xff"[..],
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xe2\x82",
        b"\x80",
        b"\xf4\x90\x80\x80",
        b"\xf0\x80\x80\x80",
        b"\xc3\\n",
        b"\\n\xc3",
    ] {
        for before in ["", "plain ", "é", "\\n", "0123456789012345678901234567890123456789"] {
            rejects([b"[\"", before.as_bytes(), bytes, b"\"]"].concat());
            rejects([b"{\"", before.as_bytes(), bytes, b"\":1}"].concat());
            rejects([b"\"", before.as_bytes(), bytes, b"\""].concat());
        }
    }
}

#[test]
fn strings_of_every_length() {
    for length in 0..200 {
        let plain = "x".repeat(length);
        accepts(&format!("[\"{plain}\",1]"), &format!("[\"{plain}\",1]"));
        accepts(&format!("[\"{plain}é\"]"), &format!("[\"{plain}é\"]"));
        accepts(&format!("[\"{plain}\\\"{plain}\"]"), &format!("[\"{plain}\\\"{plain}\"]"));
        rejects(format!("[\"{plain}\x01\"]"));
        rejects(format!("[\"{plain}]"));
    }
}

#[test]
fn white_space() {
    accepts(" \t\r\n[ \t\r\n1 \t\r\n, \t\r\n2 \t\r\n] \t\r\n", "[1,2]");
    accepts(" { \"a\" : 1 , \"b\" :\n2 } ", "{\"a\":1,\"b\":2}");
    accepts("[ ]", "[]");
    accepts("{ }", "{}");
    for count in 1..100 {
        let blanks = " ".repeat(count);
        accepts(
            &format!("{blanks}[{blanks}1{blanks},{blanks}{{{blanks}\"a\"{blanks}:{blanks}2{blanks}}}{blanks}]{blanks}"),
            "[1,{\"a\":2}]",
        );
    }
    for other in
        ["\x0c", "\x0b", "\0", "\u{a0}", "\u{85}", "\u{feff}", "\u{2028}", "\x08", "\x1f", "/**/", "//\n", "#\n"]
    {
        rejects(format!("{other}[1]"));
        rejects(format!("[1]{other}"));
        rejects(format!("[1,{other}2]"));
        rejects(format!("[1, {other}2]"));
        rejects(format!("[1{other}]"));
        rejects(format!("{{\"a\"{other}:1}}"));
        rejects(format!("{other}1"));
        rejects(format!("1{other}"));
    }
}

#[test]
fn malformed_structure() {
    for document in [
        "",
        " ",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "[1,]",
        "[,1]",
        "[1,,2]",
        "[,]",
        "[1 2]",
        "[1}",
        "{\"a\":1]",
        "{\"a\":1,}",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\" 1}",
        "{1:2}",
        "{null:2}",
        "{a:1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\",1}",
        "[1]x",
        "[1] x",
        "[1][2]",
        "[1],",
        "1,2",
        "[1:2]",
        "{\"a\":1:2}",
        "[[]",
        "[]]",
        "{{}}",
        "{[]}",
        "{\"a\":1",
        "[1,2",
        "[\"a\"",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1,",
        "[\"a\",",
        "[{",
        "{\"a\":[",
        "\"",
        "tru]",
        "[1/2]",
    ] {
        rejects(document);
    }
}
