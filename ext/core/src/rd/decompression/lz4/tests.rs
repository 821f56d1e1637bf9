use super::*;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

/// lz4's own, with which librdkafka was built.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Preferences {
    block_size: c_uint,
    independent: c_uint,
    checksum: c_uint,
    kind: c_uint,
    length: c_ulonglong,
    dictionary: c_uint,
    block_checksums: c_uint,
    level: c_int,
    flush: c_uint,
    speed: c_uint,
    reserved: [c_uint; 3],
}

unsafe extern "C" {
    fn LZ4F_compressFrameBound(length: usize, preferences: *const Preferences) -> usize;
    fn LZ4F_compressFrame(
        to: *mut c_void,
        room: usize,
        from: *const c_void,
        length: usize,
        preferences: *const Preferences,
    ) -> usize;
}

fn compressed(plain: &[u8], preferences: Preferences) -> Vec<u8> {
    // SAFETY: buffers with their lengths.
    unsafe {
        let mut frame = vec![0u8; LZ4F_compressFrameBound(plain.len(), &preferences)];
        let length = LZ4F_compressFrame(
            frame.as_mut_ptr().cast(),
            frame.len(),
            plain.as_ptr().cast(),
            plain.len(),
            &preferences,
        );
        assert!(length <= frame.len(), "an error of lz4");
        frame.truncate(length);
        frame
    }
}

/// Bytes that do not repeat.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

fn kinds() -> Vec<Preferences> {
    let plain = Preferences::default();
    let all = (4..=7).map(|block_size| Preferences { block_size, ..plain });
    let checked = Preferences { checksum: 1, block_checksums: 1, independent: 1, ..plain };
    let numbered = Preferences { dictionary: 7, block_size: 5, ..plain };
    all.chain([plain, checked, numbered, Preferences { level: 9, block_size: 7, ..checked }]).collect()
}

/// Zeros, text, noise, and all of them.
fn contents() -> Vec<Vec<u8>> {
    let text: Vec<u8> =
        (0..60_000).flat_map(|i: u32| format!("{{\"id\":{}}}", i.wrapping_mul(i)).into_bytes()).collect();
    let (zeros, noise) = (vec![0; 3_000_001], noise(300_000));
    let mixed = [&noise[..100_000], &zeros[..70_000], &text[..200_000], &noise[..]].concat();
    vec![zeros, text, noise, mixed, b"x".to_vec(), vec![7; 65_536], vec![7; 65_537]]
}

#[test]
fn a_frame_exceeds_any_limit_below_its_length_and_none_above() {
    for content in contents() {
        for preferences in kinds() {
            let frame = compressed(&content, preferences);
            assert!(!exceeds(&frame, content.len()), "{} bytes, {}", content.len(), preferences.block_size);
            assert!(exceeds(&frame, content.len() - 1), "{} bytes, {}", content.len(), preferences.block_size);
            assert!(exceeds(&frame, 0));
        }
    }
    assert!(!exceeds(&compressed(b"", Preferences::default()), 0));
}

#[test]
fn a_frame_that_states_its_length_is_judged_by_that() {
    let content = vec![0; 200_000];
    for dictionary in [0, 9] {
        let frame = compressed(&content, Preferences { length: 1, dictionary, ..Preferences::default() });
        assert_eq!(frame[6..14], 200_000u64.to_le_bytes());
        assert!(!exceeds(&frame, 200_000));
        assert!(exceeds(&frame[..20], 199_999));
        let mut lies = frame.clone();
        lies[6..14].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(exceeds(&lies, 200_000));
        lies[6..14].copy_from_slice(&1u64.to_le_bytes());
        assert!(exceeds(&lies, 199_999));
    }
}

// Sizes of blocks and no more: reading the sequences costs time.
#[test]
fn blocks_are_bounded_by_their_sizes_before_they_are_read() {
    let frame = compressed(&vec![0; 200_000], Preferences::default());
    let frame = Lz4Frame::of(&frame).expect("a frame");
    assert_eq!(frame.largest, 65_536);
    assert_eq!(frame.sum(Lz4Block::length), 200_000);
    assert!((200_000..4 * 65_536).contains(&frame.sum(Lz4Block::most)));
    let short = compressed(&noise(10), Preferences::default());
    assert_eq!(Lz4Frame::of(&short).expect("a frame").sum(Lz4Block::most), 10);
    assert_eq!(Lz4Block::Compressed(&[0x10, b'x'], 65_536).most(), 510);
}

#[test]
fn what_is_damaged_counts_no_less_than_it_can_become() {
    assert!(!exceeds(b"", 0));
    assert!(!exceeds(b"no frame at all", 0));
    let frame = compressed(&vec![0; 200_000], Preferences::default());
    let mut other = frame.clone();
    other[0] ^= 1;
    assert!(!exceeds(&other, 0));
    for length in 0..7 {
        assert!(!exceeds(&frame[..length], 0), "{length} bytes have no block");
    }
    // A block that is cut off may become the largest.
    let half = &frame[..frame.len() / 2];
    assert_eq!(Lz4Frame::of(half).expect("a frame").sum(Lz4Block::length), 2 * 65_536);
    assert_eq!(Lz4Block::Compressed(&[0x1f, b'x', 1, 0, 255], 1000).length(), 1000);
    // One literal, 4 + 15 + 255 + 3 bytes from 1 before, and 2 literals.
    let sequences = [0x1f, b'x', 1, 0, 255, 3, 0x20, b'a', b'b'];
    assert_eq!(Lz4Block::Compressed(&sequences, 1000).length(), 1 + 277 + 2);
    assert_eq!(Lz4Block::Compressed(&sequences, 100).length(), 100);
    // Nothing behind the end counts.
    let zeros = Lz4Frame::of(&frame).expect("a frame").sum(Lz4Block::length);
    let longer = [&frame[..], &[9, 0, 0, 0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9]].concat();
    assert_eq!(Lz4Frame::of(&longer).expect("a frame").sum(Lz4Block::length), zeros);
}
