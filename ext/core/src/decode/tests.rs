//! Every kernel gives the same, whichever this processor would choose.

use super::simd::{Found, Input, Kernel, Portable, Simd};
use super::{json, simd};

/// Masks of every byte at every place, against the definition.
fn check_masks<S: Simd>(simd: S) {
    for at in 0..S::WIDTH {
        for byte in 0..=255u8 {
            for around in [b'a', b' ', b'"', 0x80, 0x1f, 0x20, 0x7f, 0, 0xff] {
                let mut source = vec![around; S::WIDTH];
                source[at] = byte;
                let padded = [&source[..], &[around; 64]].concat();
                let mask = |matches: fn(u8) -> bool| -> u32 {
                    source.iter().enumerate().map(|(bit, byte)| (matches(*byte) as u32) << bit).sum()
                };
                let block = simd.load(Input::new(&padded).unwrap(), 0).unwrap();
                let found = Found {
                    quote: mask(|byte| byte == b'"'),
                    other: mask(|byte| byte < 0x20 || byte == b'\\'),
                    high: mask(|byte| byte >= 0x80),
                };
                assert_eq!(simd.text(block), found);
                assert_eq!(simd.solid(block), mask(|byte| !json::is_blank(byte)));
            }
        }
    }
}

struct CheckMasks;

impl Kernel for CheckMasks {
    type Output = ();

    fn run<S: Simd>(&mut self, simd: S) {
        check_masks(simd);
    }
}

#[test]
fn masks() {
    check_masks(Portable);
    check_masks(simd::baseline());
    simd::run(&mut CheckMasks);
}

#[test]
fn loads_stay_inside() {
    let bytes = [b'x'; 100];
    for length in 0..=100 {
        let Some(source) = Input::new(&bytes[..length]) else {
            assert!(length < 32);
            continue;
        };
        for at in (0..=140).chain([usize::MAX - 32, usize::MAX - 7, usize::MAX]) {
            let inside = at.checked_add(32).is_some_and(|end| end <= length);
            assert_eq!(source.eight(at).is_some(), inside);
            assert_eq!(simd::baseline().load(source, at).is_some(), inside);
        }
    }
}

#[test]
fn every_kernel_parses_the_same() {
    let long = "é".repeat(50) + &"x".repeat(50);
    let documents = [
        r#"{"a":[1,-2.5,"x\ny",true,null],"b":{"":"é😀\u00e9"}}"#.to_owned(),
        format!("[\n      {{ \"key\" : \"{long}\" , \"z\": \"{long}\\\\{long}\" }},\t[ ] ,{{ }}\r\n]  "),
        format!("[\"{long}"),
        "[1,2,]".to_owned(),
        format!("[\"{long}\u{1}\"]"),
    ];
    for document in documents {
        let source = [document.as_bytes(), &[b'"'; super::PADDING]].concat();
        let parse = |run: &dyn Fn(&mut json::JsonParser<100>) -> Option<u64>| {
            let (mut tape, mut text) = (Vec::new(), Vec::new());
            let root = run(&mut json::JsonParser {
                source: Input::new(&source).unwrap(),
                length: document.len(),
                base: 5,
                stack: &mut vec![0; json::stack_size(document.len())],
                tape: &mut tape,
                text: &mut text,
            });
            (root, root.map(|_| (tape, text)))
        };
        let portable = parse(&|document| document.run(Portable));
        assert_eq!(parse(&|document| simd::run(document)), portable);
        assert_eq!(parse(&|document| document.run(simd::baseline())), portable);
    }
}
