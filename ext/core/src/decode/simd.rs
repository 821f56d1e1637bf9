//! The only unsafe code of decoding: loads of whole vectors and the switch to AVX2 at run time.
//!
//! A value of a `Simd` type is the proof that the processor has it: only `run` makes them.

/// Bytes that vectors are loaded from.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    bytes: &'a [u8],
    /// `bytes.len()` - `LARGEST`: the last place where every load stays inside.
    last: usize,
}

/// Bytes of the largest load.
const LARGEST: usize = 32;

impl<'a> Input<'a> {
    /// `None` when it is shorter than a load.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Input<'a>> {
        Some(Input { bytes, last: bytes.len().checked_sub(LARGEST)? })
    }

    #[inline(always)]
    pub(super) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    #[inline(always)]
    pub(super) fn byte(self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    /// A place where a load may start: `LARGEST` readable bytes.
    #[inline(always)]
    fn start(self, at: usize) -> Option<*const u8> {
        // SAFETY: at <= last = len - LARGEST (`new` saw to it that this is not negative), so the pointer and the
        // LARGEST bytes behind it are inside `bytes`.
        if at <= self.last { Some(unsafe { self.bytes.as_ptr().add(at) }) } else { None }
    }

    /// Eight bytes, the first one lowest.
    #[inline(always)]
    pub(super) fn eight(self, at: usize) -> Option<u64> {
        // SAFETY: `place` gives LARGEST >= 8 readable bytes; the read is unaligned.
        Some(u64::from_le(unsafe { self.start(at)?.cast::<u64>().read_unaligned() }))
    }
}

/// The kinds of bytes in a block of text. Bit n of a mask stands for byte n.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) quote: u32,
    /// Backslashes and bytes below 0x20.
    pub(super) other: u32,
    /// Bytes above 0x7f.
    pub(super) high: u32,
}

/// Looks at `WIDTH` bytes at once. Bit n of a mask is about byte n.
pub(super) trait Simd: Copy {
    type Block: Copy;
    const WIDTH: usize;
    /// The kernel for short strings: a narrow load is quicker, and less often across two cache lines.
    type Narrow: Simd;
    fn narrow(self) -> Self::Narrow;
    /// `WIDTH` bytes from `at`, `None` when they are not all inside `source`.
    fn load(self, source: Input, at: usize) -> Option<Self::Block>;
    fn text(self, block: Self::Block) -> Found;
    /// Bytes other than space, tab, line feed and carriage return.
    fn solid(self, block: Self::Block) -> u32;
}

/// Work that wants the best kernel of this processor. `run` must be `#[inline(always)]` all the way down, so that it
/// is compiled once per instruction set.
pub(super) trait Kernel {
    type Output;
    fn run<S: Simd>(&mut self, simd: S) -> Self::Output;
}

#[cfg(target_arch = "x86_64")]
pub(super) fn run<K: Kernel>(work: &mut K) -> K::Output {
    if std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
    {
        // SAFETY: the three features were found just above.
        unsafe { x86::run_avx2(work) }
    } else {
        work.run(baseline())
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn run<K: Kernel>(work: &mut K) -> K::Output {
    work.run(baseline())
}

/// The kernel that needs nothing found at run time.
#[inline(always)]
pub(super) fn baseline() -> impl Simd {
    #[cfg(target_arch = "x86_64")]
    return x86::Sse2(());
    #[cfg(not(target_arch = "x86_64"))]
    Portable
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Found, Input, Kernel, Simd};
    use std::arch::x86_64::*;

    #[derive(Clone, Copy)]
    pub(super) struct Avx2(());

    /// Every processor of this architecture has SSE2.
    #[derive(Clone, Copy)]
    pub(super) struct Sse2(pub(super) ());

    /// # Safety
    /// The processor has AVX2, BMI1 and BMI2.
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    pub(super) unsafe fn run_avx2<K: Kernel>(work: &mut K) -> K::Output {
        work.run(Avx2(()))
    }

    impl Simd for Avx2 {
        type Block = __m256i;
        const WIDTH: usize = 32;
        type Narrow = Sse2;

        #[inline(always)]
        fn narrow(self) -> Sse2 {
            Sse2(())
        }

        #[inline(always)]
        fn load(self, source: Input, at: usize) -> Option<__m256i> {
            let start = source.start(at)?;
            // SAFETY: `place` gives 32 readable bytes, the load is unaligned; `self` proves AVX2.
            Some(unsafe { _mm256_loadu_si256(start.cast()) })
        }

        #[inline(always)]
        fn text(self, block: __m256i) -> Found {
            // SAFETY: register arithmetic; `self` proves AVX2.
            unsafe {
                let quote = _mm256_cmpeq_epi8(block, _mm256_set1_epi8(b'"' as i8));
                let escape = _mm256_cmpeq_epi8(block, _mm256_set1_epi8(b'\\' as i8));
                let control = _mm256_cmpeq_epi8(_mm256_min_epu8(block, _mm256_set1_epi8(0x1f)), block);
                Found {
                    quote: _mm256_movemask_epi8(quote) as u32,
                    other: _mm256_movemask_epi8(_mm256_or_si256(escape, control)) as u32,
                    high: _mm256_movemask_epi8(block) as u32,
                }
            }
        }

        #[inline(always)]
        fn solid(self, block: __m256i) -> u32 {
            // SAFETY: register arithmetic; `self` proves AVX2.
            unsafe {
                let space = _mm256_cmpeq_epi8(block, _mm256_set1_epi8(b' ' as i8));
                let tab = _mm256_cmpeq_epi8(block, _mm256_set1_epi8(b'\t' as i8));
                let feed = _mm256_cmpeq_epi8(block, _mm256_set1_epi8(b'\n' as i8));
                let carriage = _mm256_cmpeq_epi8(block, _mm256_set1_epi8(b'\r' as i8));
                let blank = _mm256_or_si256(_mm256_or_si256(space, tab), _mm256_or_si256(feed, carriage));
                !(_mm256_movemask_epi8(blank) as u32)
            }
        }
    }

    impl Simd for Sse2 {
        type Block = __m128i;
        const WIDTH: usize = 16;
        type Narrow = Sse2;

        #[inline(always)]
        fn narrow(self) -> Sse2 {
            self
        }

        #[inline(always)]
        fn load(self, source: Input, at: usize) -> Option<__m128i> {
            let start = source.start(at)?;
            // SAFETY: `place` gives 32 readable bytes, the load is unaligned; SSE2 is always there.
            Some(unsafe { _mm_loadu_si128(start.cast()) })
        }

        #[inline(always)]
        fn text(self, block: __m128i) -> Found {
            // SAFETY: register arithmetic; SSE2 is always there.
            unsafe {
                let quote = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'"' as i8));
                let escape = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'\\' as i8));
                let control = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1f)), block);
                Found {
                    quote: _mm_movemask_epi8(quote) as u32,
                    other: _mm_movemask_epi8(_mm_or_si128(escape, control)) as u32,
                    high: _mm_movemask_epi8(block) as u32,
                }
            }
        }

        #[inline(always)]
        fn solid(self, block: __m128i) -> u32 {
            // SAFETY: register arithmetic; SSE2 is always there.
            unsafe {
                let space = _mm_cmpeq_epi8(block, _mm_set1_epi8(b' ' as i8));
                let tab = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'\t' as i8));
                let feed = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'\n' as i8));
                let carriage = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'\r' as i8));
                let blank = _mm_or_si128(_mm_or_si128(space, tab), _mm_or_si128(feed, carriage));
                (_mm_movemask_epi8(blank) as u32) ^ 0xffff
            }
        }
    }
}

/// Eight bytes at a time in an ordinary register, for every other processor.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[derive(Clone, Copy)]
pub(super) struct Portable;

#[cfg(any(test, not(target_arch = "x86_64")))]
impl Portable {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;

    /// Top bit of each byte that equals `byte`; exact, no carry from one byte to the next.
    #[inline(always)]
    fn equal(block: u64, byte: u8) -> u64 {
        let difference = block ^ (Self::ONES * byte as u64);
        let low = (difference & !Self::HIGH) + !Self::HIGH;
        !(low | difference) & Self::HIGH
    }

    /// Top bits of the bytes to the lowest 8 bits.
    #[inline(always)]
    fn gather(tops: u64) -> u32 {
        ((tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
impl Simd for Portable {
    type Block = u64;
    const WIDTH: usize = 8;
    type Narrow = Portable;

    #[inline(always)]
    fn narrow(self) -> Portable {
        self
    }

    #[inline(always)]
    fn load(self, source: Input, at: usize) -> Option<u64> {
        source.eight(at)
    }

    #[inline(always)]
    fn text(self, block: u64) -> Found {
        // Below 0x20: the three top bits are clear.
        let upper = block & (Self::ONES * 0xe0);
        let control = Self::equal(upper, 0);
        Found {
            quote: Self::gather(Self::equal(block, b'"')),
            other: Self::gather(Self::equal(block, b'\\') | control),
            high: Self::gather(block & Self::HIGH),
        }
    }

    #[inline(always)]
    fn solid(self, block: u64) -> u32 {
        let blank = Self::equal(block, b' ')
            | Self::equal(block, b'\t')
            | Self::equal(block, b'\n')
            | Self::equal(block, b'\r');
        Self::gather(blank) ^ 0xff
    }
}
