//! MessagePack into trees: hostile bytes never panic, never read beside the document, and take no more memory than
//! values that are there. test/native/msgpack_test.rb compares the values with the Ruby gem.

use pelton_core::decode::{Kind, Node, Refusal, Tree};

/// Every value of it, walked to its end; the number of values.
fn walk(node: Node) -> usize {
    match node.kind() {
        Kind::Array(items) => 1 + items.map(walk).sum::<usize>(),
        Kind::Object(fields) => 1 + fields.map(|(key, value)| walk(key) + walk(value)).sum::<usize>(),
        Kind::Str(text) => {
            assert_eq!(text.ascii, text.bytes.is_ascii());
            assert_eq!(text.valid, std::str::from_utf8(text.bytes).is_ok());
            1
        }
        _ => 1,
    }
}

/// A step of a generator that needs no crate.
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}

fn append(state: &mut u64, depth: usize, out: &mut Vec<u8>) {
    let count = next(state) % 6;
    match next(state) % if depth > 6 { 8 } else { 12 } {
        0 => out.push(0xc0 + (next(state) % 4) as u8),
        1 => out.push(next(state) as u8),
        2 => out.extend([0xcb, 0x40, 9, 0x21, 0xfb, 0x54, 0x44, 0x2d, 0x18]),
        3 => out.extend([0xcf, 0xff, 0, 0, 0, 0, 0, 0, 1]),
        4 => {
            out.push(0xa0 + count as u8);
            out.extend(&b"abcdef"[..count]);
        }
        5 => out.extend([0xc4, 2, 0xff, next(state) as u8]),
        6 => out.extend([0xd6, 0xff, 0, 0, 0, 1]),
        7 => out.extend([0xd9, 3, 0xe2, 0x82, 0xac]),
        8 | 9 => {
            out.push(0x90 + count as u8);
            (0..count).for_each(|_| append(state, depth + 1, out));
        }
        _ => {
            out.extend([0xde, 0, count as u8]);
            (0..2 * count).for_each(|_| append(state, depth + 1, out));
        }
    }
}

#[test]
fn mutations_do_no_harm() {
    let mut state = 0x2545_f491_4f6c_dd1d;
    let (mut tree, mut read) = (Tree::new(), 0);
    for _ in 0..60_000 {
        let mut document = Vec::new();
        append(&mut state, 0, &mut document);
        for _ in 0..next(&mut state) % 3 {
            let place = next(&mut state) % document.len();
            document[place] = next(&mut state) as u8;
        }
        document.truncate(document.len() - next(&mut state) % 4 % document.len());
        // Neighbours that would go on with whatever is cut off.
        let chunk = [&[0x91; 9], &document[..], &[0x61; 9]].concat();
        tree.clear();
        let end = tree.end();
        match tree.parse_msgpack(&chunk, 9, 9 + document.len()) {
            Ok(root) => {
                let values = walk(tree.node(&chunk, root));
                assert!(values <= document.len());
                // Alone it is the same.
                let other = tree.parse_msgpack(&document, 0, document.len()).expect("read before");
                assert_eq!(walk(tree.node(&document, other)), values);
                read += 1;
            }
            Err(Refusal::Malformed(_)) => assert_eq!(tree.end(), end),
            Err(Refusal::Undecided | Refusal::Unknown(_)) => panic!("MessagePack is decided here"),
        }
        assert!(tree.memory() < 1 << 20);
    }
    assert!(read > 10_000, "{read}");
}

#[test]
fn a_length_that_was_read_is_not_believed() {
    for document in [
        &[0xdd, 0xff, 0xff, 0xff, 0xff][..],
        &[0xdf, 0xff, 0xff, 0xff, 0xff, 0xc0],
        &[0xdb, 0xff, 0xff, 0xff, 0xff, 0x61],
        &[0xc6, 0xff, 0xff, 0xff, 0xff],
        &[0xc9, 0xff, 0xff, 0xff, 0xff, 1],
        &[0x9f; 128],
    ] {
        let mut tree = Tree::new();
        assert!(matches!(tree.parse_msgpack(document, 0, document.len()), Err(Refusal::Malformed(_))));
        assert!(tree.memory() < 64 * 1024, "{}", tree.memory());
    }
}

#[test]
fn names_are_found_whatever_kind_the_keys_are() {
    // {1 => 2, "a" => 3, bin("a") => 4, bin("é") => 5, "é" => 6, [] => 7}
    let document = b"\x86\x01\x02\xa1a\x03\xc4\x01a\x04\xc4\x02\xc3\xa9\x05\xa2\xc3\xa9\x06\x90\x07";
    let mut tree = Tree::new();
    let root = tree.parse_msgpack(document, 0, document.len()).unwrap();
    let find = |name: &[u8]| match tree.node(document, root).get(name)?.kind() {
        Kind::Int(value) => Some(value),
        _ => None,
    };
    assert_eq!([find(b"a"), find("é".as_bytes()), find(b"\x01"), find(b"")], [Some(4), Some(6), None, None]);
}

#[test]
fn wrong_ranges_and_wrong_bytes_do_no_harm() {
    let document = b"\x92\xa1a\xd4\x01\x05";
    let mut tree = Tree::new();
    for (start, end) in [(0, 7), (3, 2), (usize::MAX, 0), (0, usize::MAX)] {
        assert!(tree.parse_msgpack(document, start, end).is_err());
    }
    let root = tree.parse_msgpack(document, 0, 6).unwrap();
    assert_eq!(walk(tree.node(b"", root)), 3);
    tree.clear();
    assert!(matches!(tree.node(document, root).kind(), Kind::Null));
}

/// Ruby compares such a key with all others like it.
#[test]
fn a_document_has_a_thousand_keys_that_are_nan_and_no_more() {
    let document = |keys: u16| {
        let pairs = [0xca, 0x7f, 0xc0, 0, 0, 1].repeat(usize::from(keys));
        [&[0xde][..], &keys.to_be_bytes(), &pairs].concat()
    };
    let read = |keys| {
        let bytes = document(keys);
        Tree::new().parse_msgpack(&bytes, 0, bytes.len()).is_ok()
    };
    assert_eq!([true, true, false], [1, 1000, 1001].map(read));
}
