//! What the linker puts in front of librdkafka's functions for lz4 and snappy. Like a damaged batch, one beyond the
//! limit is reported as `_BAD_COMPRESSION`.

use super::{limit, lz4, snappy};
use crate::rd::codes;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::slice::from_raw_parts;

const REASON: &CStr = c"more than receive.message.max.bytes";

unsafe extern "C" {
    fn __real_rd_kafka_lz4_decompress(
        broker: *mut c_void,
        proper: c_int,
        offset: i64,
        compressed: *mut c_char,
        length: usize,
        result: *mut *mut c_void,
        result_length: *mut usize,
    ) -> c_int;
    fn __real_rd_kafka_snappy_uncompressed_length(block: *const c_char, length: usize, result: *mut usize) -> bool;
    fn __real_rd_kafka_snappy_java_uncompress(
        chunks: *const c_char,
        length: usize,
        result_length: *mut usize,
        reason: *mut c_char,
        reason_room: usize,
    ) -> *mut c_char;
}

/// # Safety
/// librdkafka's own arguments.
#[unsafe(export_name = "__wrap_rd_kafka_lz4_decompress")]
unsafe extern "C" fn decompress_lz4(
    broker: *mut c_void,
    proper: c_int,
    offset: i64,
    compressed: *mut c_char,
    length: usize,
    result: *mut *mut c_void,
    result_length: *mut usize,
) -> c_int {
    // SAFETY: `compressed` has `length` bytes.
    if lz4::exceeds(unsafe { from_raw_parts(compressed.cast(), length) }, limit()) {
        return codes::BAD_COMPRESSION;
    }
    // SAFETY: the caller's promise.
    unsafe { __real_rd_kafka_lz4_decompress(broker, proper, offset, compressed, length, result, result_length) }
}

/// librdkafka asks this before it takes memory for a batch without chunks.
///
/// # Safety
/// librdkafka's own arguments.
#[unsafe(export_name = "__wrap_rd_kafka_snappy_uncompressed_length")]
unsafe extern "C" fn length_of_snappy(block: *const c_char, length: usize, result: *mut usize) -> bool {
    // SAFETY: the caller's promise; a length that is there was written.
    unsafe { __real_rd_kafka_snappy_uncompressed_length(block, length, result) && *result <= limit() }
}

/// # Safety
/// librdkafka's own arguments.
#[unsafe(export_name = "__wrap_rd_kafka_snappy_java_uncompress")]
unsafe extern "C" fn decompress_snappy_chunks(
    chunks: *const c_char,
    length: usize,
    result_length: *mut usize,
    reason: *mut c_char,
    reason_room: usize,
) -> *mut c_char {
    // SAFETY: `chunks` has `length` bytes.
    if snappy::chunks_length(unsafe { from_raw_parts(chunks.cast(), length) }) > limit() {
        // SAFETY: a place for a sentence, with its room.
        unsafe { libc::snprintf(reason, reason_room, c"%s".as_ptr(), REASON.as_ptr()) };
        return std::ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    unsafe { __real_rd_kafka_snappy_java_uncompress(chunks, length, result_length, reason, reason_room) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rd::{decompression::allow, text};

    unsafe extern "C" {
        fn rd_kafka_snappy_java_uncompress(
            chunks: *const c_char,
            length: usize,
            result_length: *mut usize,
            reason: *mut c_char,
            reason_room: usize,
        ) -> *mut c_char;
        fn rd_kafka_snappy_uncompressed_length(block: *const c_char, length: usize, result: *mut usize) -> bool;
    }

    /// A chunk of snappy-java: one block that states the length, and has one literal byte and copies of it.
    fn chunk(stated: u32, copies: usize) -> Vec<u8> {
        let mut block: Vec<u8> = (0..5).map(|digit| ((stated >> (7 * digit)) as u8 & 0x7f) | 0x80).collect();
        block[4] &= 0x7f;
        block.extend([0, b'x']);
        block.extend([63 << 2 | 2, 1, 0].repeat(copies)); // 64 bytes from 1 byte before
        [&(block.len() as u32).to_be_bytes()[..], &block].concat()
    }

    /// What librdkafka makes of the chunks, or its reason.
    fn decompressed(chunks: &[u8]) -> Result<Vec<u8>, String> {
        let (mut length, mut reason) = (0, [0 as c_char; 128]);
        let (from, room) = (chunks.as_ptr().cast(), reason.len());
        // SAFETY: bytes and a place for a sentence, with their lengths; the result is allocated, and freed once.
        unsafe {
            let result = rd_kafka_snappy_java_uncompress(from, chunks.len(), &mut length, reason.as_mut_ptr(), room);
            if result.is_null() {
                return Err(text(reason.as_ptr()));
            }
            let bytes = from_raw_parts(result.cast(), length).to_vec();
            libc::free(result.cast());
            Ok(bytes)
        }
    }

    // Other tests open consumers, which raise the limit to 100 MB.
    #[test]
    fn chunks_of_snappy_java_beyond_the_limit_are_refused_before_their_memory_is_taken() {
        allow(1_000_000);
        let within = [chunk(65, 1), chunk(129, 2)].concat();
        assert_eq!(decompressed(&within), Ok(vec![b'x'; 194]));
        let beyond = [chunk(1_500_000_000, 1), chunk(1_500_000_000, 1)].concat();
        assert_eq!(decompressed(&beyond), Err("more than receive.message.max.bytes".into()));
    }

    #[test]
    fn a_block_of_snappy_has_no_length_beyond_the_limit() {
        allow(1_000_000);
        let length = |stated| {
            let (block, mut result) = (&chunk(stated, 1)[4..], 0);
            // SAFETY: bytes with their length, and a place for the result.
            let known = unsafe { rd_kafka_snappy_uncompressed_length(block.as_ptr().cast(), block.len(), &mut result) };
            known.then_some(result)
        };
        assert_eq!(length(1_000_000), Some(1_000_000));
        assert_eq!(length(1_500_000_000), None);
    }
}
