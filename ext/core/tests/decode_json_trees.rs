//! The trees of the native JSON parser: walking them, their limits, and input that must not break them.

#[path = "support/json.rs"]
mod support;

use pelton_core::decode::{Kind, Node, PADDING, Reject, Tree};
use support::{accepts, rejects, show};

#[test]
fn nesting() {
    let nested = |depth: usize, inside: &str| "[".repeat(depth) + inside + &"]".repeat(depth);
    for inside in ["", "1", "\"a\""] {
        accepts(&nested(100, inside), &nested(100, inside));
        rejects(nested(101, inside));
    }
    accepts(&nested(99, "{}"), &nested(99, "{}"));
    rejects(nested(100, "{}"));
    let objects = |depth: usize| "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth);
    accepts(&objects(100), &objects(100));
    rejects(objects(101));
    rejects("[".repeat(1_000_000));
    rejects("{\"a\":".repeat(200_000));
    let wide = format!("[{}]", vec![nested(99, ""); 50].join(","));
    accepts(&wide, &wide);
}

#[test]
fn duplicate_and_empty_keys() {
    let document = br#"{"a":1,"":2,"a":3,"\u0061":4,"":5,"b":6}"#;
    let mut tree = Tree::new();
    let root = tree.parse_json(document, 0, document.len()).unwrap();
    let node = tree.node(document, root);
    assert_eq!(node.size(), 6);
    let found = |key: &[u8]| node.get(key).map(show);
    assert_eq!(found(b"a").as_deref(), Some("4"));
    assert_eq!(found(b"").as_deref(), Some("5"));
    assert_eq!(found(b"b").as_deref(), Some("6"));
    assert_eq!(found(b"c"), None);
    assert!(node.at(0).is_none());
}

#[test]
fn ways_into_arrays() {
    let document = br#"[10,"x",[1,2,3],{"k":[]}]"#;
    let mut tree = Tree::new();
    let root = tree.parse_json(document, 0, document.len()).unwrap();
    let node = tree.node(document, root);
    let at = |index| node.at(index).map(show);
    assert_eq!(at(0).as_deref(), Some("10"));
    assert_eq!(at(2).as_deref(), Some("[1,2,3]"));
    assert_eq!(at(-1).as_deref(), Some("{\"k\":[]}"));
    assert_eq!(at(-4).as_deref(), Some("10"));
    for outside in [4, -5, i64::MAX, i64::MIN] {
        assert_eq!(at(outside), None);
    }
    assert!(node.get(b"k").is_none());
    assert!(node.at(0).unwrap().at(0).is_none());
    assert!(node.at(1).unwrap().get(b"x").is_none());
    let Kind::Array(items) = node.kind() else { panic!() };
    assert_eq!(items.len(), 4);
    let Kind::Object(fields) = node.at(3).unwrap().kind() else { panic!() };
    assert_eq!(fields.len(), 1);
    assert_eq!(node.at(3).and_then(|object| object.get(b"k")).map(Node::size), Some(0));
}

#[test]
fn many_documents_in_one_tree() {
    let mut chunk = Vec::new();
    let mut places = Vec::new();
    for number in 0..1000 {
        let start = chunk.len();
        let document = match number % 4 {
            0 => format!("{{\"id\":{number},\"name\":\"n\\n{number}\"}}"),
            1 => format!("[{number},{number}.5"),
            2 => format!("\"{number}\""),
            _ => format!("[{number},\"é{number}\",{}]", i64::MAX - number),
        };
        chunk.extend_from_slice(document.as_bytes());
        places.push((start, chunk.len(), number));
    }
    chunk.extend([0; PADDING]);
    let mut tree = Tree::new();
    for _ in 0..3 {
        tree.clear();
        let roots: Vec<_> = places.iter().map(|&(start, end, _)| tree.parse_json(&chunk, start, end)).collect();
        for (root, &(_, _, number)) in roots.iter().zip(&places) {
            let shown = root.map(|root| show(tree.node(&chunk, root)));
            let expected = match number % 4 {
                0 => Ok(format!("{{\"id\":{number},\"name\":\"n\\n{number}\"}}")),
                1 => Err(Reject),
                2 => Ok(format!("\"{number}\"")),
                _ => Ok(format!("[{number},\"é{number}\",{}]", i64::MAX - number)),
            };
            assert_eq!(shown, expected);
        }
    }
    let memory = tree.memory();
    tree.clear();
    assert_eq!(tree.memory(), memory);
    assert!(memory > 0 && memory < 1 << 20);
}

#[test]
fn wrong_ranges_and_wrong_bytes_do_no_harm() {
    let mut tree = Tree::new();
    let document = br#"{"abc":"def","e":["\n",1.5,9223372036854775807]}"#;
    for (start, end) in [(0, 1000), (5, 3), (usize::MAX, usize::MAX), (0, usize::MAX), (48, 48), (100, 100)] {
        assert_eq!(tree.parse_json(document, start, end), Err(Reject));
    }
    let root = tree.parse_json(document, 0, document.len()).unwrap();
    for other in [&b""[..], b"x", b"0123456789"] {
        assert!(matches!(tree.node(other, root).kind(), Kind::Object(_)));
        assert!(tree.node(other, root).get(b"abc").is_none());
        let Kind::Object(fields) = tree.node(other, root).kind() else { panic!() };
        assert_eq!(fields.count(), 2);
    }
    tree.clear();
    assert!(matches!(tree.node(document, root).kind(), Kind::Null));
}

#[test]
fn too_long_is_left_to_ruby() {
    let mut tree = Tree::new();
    let zeros = vec![0; (1 << 31) + 1];
    assert_eq!(tree.parse_json(&zeros, 0, 10), Err(Reject));
    assert_eq!(tree.parse_json(&zeros[..1 << 31], 0, 1 << 28), Err(Reject));
    assert_eq!(tree.memory(), 0);
}

#[test]
fn the_worst_of_every_length() {
    let mut tree = Tree::new();
    for count in 0..3000 {
        let list = format!("[{}1]", "1,".repeat(count));
        assert_eq!(
            tree.parse_json(list.as_bytes(), 0, list.len()).map(|root| tree.node(b"", root).size()),
            Ok(count + 1)
        );
        let object = format!("{{{}\"\":1}}", "\"\":1,".repeat(count));
        let root = tree.parse_json(object.as_bytes(), 0, object.len());
        assert_eq!(root.map(|root| tree.node(b"", root).size()), Ok(count + 1));
        tree.clear();
    }
}

#[test]
fn a_long_document_leaves_no_more_memory_than_its_values() {
    let document = format!("[{}1]", "1,".repeat(2_000_000));
    let mut tree = Tree::new();
    let root = tree.parse_json(document.as_bytes(), 0, document.len()).unwrap();
    assert_eq!(tree.node(document.as_bytes(), root).size(), 2_000_001);
    assert!(tree.memory() < 2 * 8 * 2_000_002, "{}", tree.memory());
}

#[test]
fn a_tree_may_change_threads() {
    fn check<T: Send + Sync>() {}
    check::<Tree>();
}
