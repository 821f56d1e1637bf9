//! What a batch that lz4 compressed becomes: one frame of blocks (lz4's doc/lz4_Frame_format.md,
//! doc/lz4_Block_format.md).

const MAGIC: u32 = 0x184d_2204;
/// No byte of a compressed block becomes more.
const MOST_A_BYTE: usize = 255;

/// Whether librdkafka would make more than `limit` bytes of it. It refuses anything that is no frame.
///
/// The sizes of the blocks suffice for nearly every batch. If they leave it open, the blocks are read.
pub fn exceeds(frame: &[u8], limit: usize) -> bool {
    Lz4Frame::of(frame).is_some_and(|frame| {
        frame.states > limit as u64 || frame.sum(Lz4Block::most) > limit && frame.sum(Lz4Block::length) > limit
    })
}

/// A frame with its header read.
struct Lz4Frame<'a> {
    blocks: &'a [u8],
    /// What a block may become.
    largest: usize,
    /// Behind each block: 4 bytes, or none.
    checksum: usize,
    /// Its length, or 0.
    states: u64,
}

enum Lz4Block<'a> {
    Plain(&'a [u8]),
    Compressed(&'a [u8], usize),
}

impl<'a> Lz4Frame<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        let (&[flags, sizes], rest) = rest.split_first_chunk::<2>()?;
        let has = |bit: u8| usize::from(flags >> bit & 1);
        let (stated, rest) = rest.split_at_checked(8 * has(3))?;
        let blocks = rest.get(4 * has(0) + 1..)?; // behind the dictionary's number and the header's checksum
        let states = stated.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let largest = 1 << (8 + 2 * (sizes >> 4 & 7)); // 4 to 7: 64 kB to 4 MB
        (u32::from_le_bytes(*magic) == MAGIC).then_some(Self { blocks, largest, checksum: 4 * has(4), states })
    }

    fn sum(&self, length: fn(&Lz4Block<'a>) -> usize) -> usize {
        let (mut total, mut rest) = (0usize, self.blocks);
        while let Some((size, behind)) = rest.split_first_chunk::<4>() {
            let size = u32::from_le_bytes(*size);
            if size == 0 {
                break;
            }
            let bytes = (size & 0x7fff_ffff) as usize;
            let (block, behind) = behind.split_at(bytes.min(behind.len()));
            let block =
                if size >> 31 == 1 { Lz4Block::Plain(block) } else { Lz4Block::Compressed(block, self.largest) };
            total = total.saturating_add(length(&block));
            rest = behind.get(self.checksum..).unwrap_or_default();
        }
        total
    }
}

impl Lz4Block<'_> {
    /// No less than its length.
    fn most(&self) -> usize {
        match *self {
            Lz4Block::Plain(block) => block.len(),
            Lz4Block::Compressed(block, largest) => largest.min(block.len().saturating_mul(MOST_A_BYTE)),
        }
    }

    /// What it becomes. A damaged block counts as the largest.
    fn length(&self) -> usize {
        match *self {
            Lz4Block::Plain(block) => block.len(),
            Lz4Block::Compressed(block, largest) => sequences(block).map_or(largest, |length| length.min(largest)),
        }
    }
}

/// What the sequences of a compressed block become: literals, and copies of what came before. `None` if it is cut off.
fn sequences(mut block: &[u8]) -> Option<usize> {
    let mut total = 0;
    loop {
        let (&token, rest) = block.split_first()?;
        let (literals, rest) = number(token >> 4, rest)?;
        let rest = rest.get(literals..)?;
        total += literals;
        if rest.is_empty() {
            return Some(total); // the last sequence copies nothing
        }
        let (copied, rest) = number(token & 15, rest.get(2..)?)?;
        total += copied + 4;
        block = rest;
    }
}

/// Of 15, the bytes that follow are added, up to the first one that is not 255.
fn number(nibble: u8, mut bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut number = usize::from(nibble);
    if nibble == 15 {
        loop {
            let (&byte, rest) = bytes.split_first()?;
            number += usize::from(byte);
            bytes = rest;
            if byte < 255 {
                break;
            }
        }
    }
    Some((number, bytes))
}

#[cfg(test)]
mod tests;
