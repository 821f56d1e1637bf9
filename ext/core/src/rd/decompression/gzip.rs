//! The function that librdkafka's `rdgz.c` consists of, with a limit: a linker that finds it does not look for the
//! other one. Its name is hidden, so no other librdkafka in the process sees it.

use super::limit;
use libz_sys as zlib;
use std::ffi::{c_int, c_void};

/// Decompressed bytes, allocated with `malloc`, as librdkafka frees them.
struct Inflated {
    bytes: *mut u8,
    length: usize,
    room: usize,
}

impl Inflated {
    const FIRST: usize = 4; // times what is compressed

    /// Returns false if memory runs out.
    fn grow(&mut self, room: usize) -> bool {
        // SAFETY: null, or what was allocated here.
        let bytes = unsafe { libc::realloc(self.bytes.cast(), room) };
        if bytes.is_null() {
            return false;
        }
        (self.bytes, self.room) = (bytes.cast(), room);
        true
    }

    fn discard(self) {
        // SAFETY: null, or what was allocated here.
        unsafe { libc::free(self.bytes.cast()) };
    }
}

/// Memory for so many bytes, if the limit allows. One byte more than the limit shows that there is more.
fn room_of(wanted: usize, limit: usize) -> usize {
    wanted.clamp(1024, limit.saturating_add(1).max(1024))
}

/// The decompressed bytes. `None`: the input is damaged, or becomes more than `limit` bytes. Like librdkafka's own
/// function, it accepts input that is cut off.
fn inflate(compressed: &[u8], limit: usize) -> Option<Inflated> {
    let mut output = Inflated { bytes: std::ptr::null_mut(), length: 0, room: 0 };
    // zlib expects zeros here (no allocators), but its Rust type calls them invalid. So this is never read as a
    // value of that type.
    let mut stream = std::mem::MaybeUninit::<zlib::z_stream>::zeroed();
    let stream = stream.as_mut_ptr();
    // SAFETY: a stream that lives, and stays in its place, to the end of this function; 15 + 32: any window, gzip's or
    // zlib's header. The version is of the library that we link. zlib reads and writes within the places that it is
    // given.
    let whole = unsafe {
        if zlib::inflateInit2_(stream, 15 + 32, zlib::zlibVersion(), size_of::<zlib::z_stream>() as c_int) != zlib::Z_OK
        {
            return None;
        }
        (*stream).next_in = compressed.as_ptr().cast_mut();
        (*stream).avail_in = compressed.len() as u32;
        let mut room = room_of(compressed.len().saturating_mul(Inflated::FIRST), limit);
        let whole = loop {
            if !output.grow(room) {
                break false;
            }
            let free = (room - output.length).min(u32::MAX as usize) as u32;
            (*stream).next_out = output.bytes.add(output.length);
            (*stream).avail_out = free;
            let result = zlib::inflate(stream, zlib::Z_NO_FLUSH);
            output.length += (free - (*stream).avail_out) as usize;
            if matches!(result, zlib::Z_STREAM_ERROR | zlib::Z_NEED_DICT | zlib::Z_DATA_ERROR | zlib::Z_MEM_ERROR)
                || output.length > limit
            {
                break false;
            }
            if (*stream).avail_out > 0 || result == zlib::Z_STREAM_END {
                break true;
            }
            room = room_of(room.saturating_mul(2), limit);
        };
        zlib::inflateEnd(stream);
        whole
    };
    let length = output.length;
    if !whole || !output.grow(length + 1) {
        output.discard();
        return None;
    }
    // For the NUL that librdkafka wants behind.
    // SAFETY: the byte behind the last one.
    unsafe { output.bytes.add(length).write(0) };
    Some(output)
}

/// librdkafka calls this. On null it reports `_BAD_COMPRESSION`.
///
/// # Safety
/// `compressed` has `length` bytes; `result` is librdkafka's.
unsafe extern "C" fn decompress(compressed: *const c_void, length: c_int, result: *mut u64) -> *mut c_void {
    let length = usize::try_from(length).unwrap_or(0);
    // SAFETY: the caller's promise.
    let compressed = unsafe { std::slice::from_raw_parts(compressed.cast::<u8>(), length) };
    match inflate(compressed, limit()) {
        Some(output) => {
            // SAFETY: the caller's promise.
            unsafe { *result = output.length as u64 };
            output.bytes.cast()
        }
        None => std::ptr::null_mut(),
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
std::arch::global_asm!(
    ".globl rd_gz_decompress", ".hidden rd_gz_decompress", "rd_gz_decompress: jmp {}", sym decompress
);
#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
std::arch::global_asm!(
    ".globl rd_gz_decompress", ".hidden rd_gz_decompress", "rd_gz_decompress: b {}", sym decompress
);
#[cfg(all(target_os = "macos", target_arch = "x86_64"))]
std::arch::global_asm!(
    ".globl _rd_gz_decompress", ".private_extern _rd_gz_decompress", "_rd_gz_decompress: jmp {}", sym decompress
);
#[cfg(all(target_os = "macos", target_arch = "aarch64"))]
std::arch::global_asm!(
    ".globl _rd_gz_decompress", ".private_extern _rd_gz_decompress", "_rd_gz_decompress: b {}", sym decompress
);

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// By zlib's own compressor.
    fn packed(plain: &[u8]) -> Vec<u8> {
        let mut length = 0;
        // SAFETY: buffers with their lengths.
        unsafe {
            let mut packed = vec![0u8; zlib::compressBound(plain.len() as _) as usize];
            length += packed.len() as zlib::uLongf;
            let code = zlib::compress(packed.as_mut_ptr(), &mut length, plain.as_ptr(), plain.len() as _);
            assert_eq!(code, zlib::Z_OK);
            packed.truncate(length as usize);
            packed
        }
    }

    fn zeros(count: usize) -> Vec<u8> {
        packed(&vec![0; count])
    }

    fn becomes(compressed: &[u8], limit: usize) -> Option<usize> {
        inflate(compressed, limit).map(|output| {
            let length = output.length;
            output.discard();
            length
        })
    }

    #[test]
    fn what_becomes_more_than_the_limit_is_refused_before_its_memory_is_taken() {
        let packed = zeros(3_000_000);
        assert!(packed.len() < 4000);
        assert_eq!(becomes(&packed, 3_000_000), Some(3_000_000));
        assert_eq!(becomes(&packed, 2_999_999), None);
        assert_eq!(becomes(&packed, 0), None);
        assert_eq!(becomes(&zeros(1), 1), Some(1));
        assert_eq!(becomes(&zeros(0), 0), Some(0));
    }

    /// The room grows until it shows that there is too much.
    #[test]
    fn memory_ends_one_byte_beyond_the_limit() {
        assert_eq!([1024, 1024, 5000, 5001, 5001], [0, 1024, 5000, 5001, usize::MAX].map(|room| room_of(room, 5000)));
        assert_eq!([1024, 1024], [0, usize::MAX].map(|room| room_of(room, 10)), "a KB at least");
        assert_eq!(usize::MAX, room_of(usize::MAX, usize::MAX));
    }

    /// A child without room for more has no memory for 160 MB.
    #[test]
    fn data_for_which_there_is_no_memory_is_refused() {
        let compressed = vec![0; 40_000_000];
        let refused = || {
            // Through a black box: compilers leave memory out that nothing uses.
            let mut output = Inflated { bytes: std::ptr::null_mut(), length: 0, room: 0 };
            let grown = output.grow(10) && !black_box(&mut output).grow(160_000_000) && black_box(&output).room == 10;
            grown && inflate(&compressed, usize::MAX).is_none()
        };
        // SAFETY: the child only uses zlib, the allocator (glibc makes it ready after a fork) and `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(vec![0u8; 100_000]); // zlib has room
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: a live limit; ends the child without the exit handlers of its parent.
            unsafe { libc::_exit(i32::from(libc::setrlimit(libc::RLIMIT_AS, &none) != 0 || !refused())) }
        }
        let mut status = 0;
        // SAFETY: waits for the child made above; `status` is a live i32.
        assert_eq!(child, unsafe { libc::waitpid(child, &mut status, 0) });
        assert_eq!(0, status);
    }

    #[test]
    fn what_is_damaged_is_refused_and_what_is_cut_off_is_what_there_is() {
        let packed = zeros(3_000_000);
        assert_eq!(becomes(b"no gzip", 100), None);
        let half = becomes(&packed[..packed.len() / 2], 3_000_000).expect("half of it");
        assert!((1..3_000_000).contains(&half));
        assert_eq!(becomes(&[], 100), Some(0));
    }

    #[test]
    fn the_same_bytes_come_back_with_a_zero_behind_them() {
        for plain in [b"x".repeat(100_000), (0..=255).cycle().take(5_000).collect(), b"y".to_vec()] {
            let output = inflate(&packed(&plain), plain.len()).expect("whole");
            // SAFETY: that many bytes, and one behind them.
            let bytes = unsafe { std::slice::from_raw_parts(output.bytes, output.length + 1) };
            assert!(bytes[..plain.len()] == plain[..] && bytes[plain.len()..] == [0]);
            output.discard();
        }
    }
}
