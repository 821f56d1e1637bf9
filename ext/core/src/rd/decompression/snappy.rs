//! What a batch that snappy compressed becomes. Each block states its length in front.

/// The length that a block states: 7 bits a byte, the lowest first, and a high bit in all bytes but the last.
fn length(block: &[u8]) -> usize {
    let mut length = 0;
    for (index, byte) in block.iter().take(5).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            break;
        }
    }
    length
}

/// What the chunks of snappy-java become together: each has the length of its block in front. Stops where the chunks
/// are damaged, because librdkafka then refuses them before it takes memory.
pub fn chunks_length(mut chunks: &[u8]) -> usize {
    let mut total = 0usize;
    while let Some((size, rest)) = chunks.split_first_chunk::<4>() {
        let Some((block, rest)) = rest.split_at_checked(u32::from_be_bytes(*size) as usize) else { break };
        total = total.saturating_add(length(block));
        chunks = rest;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks of one block each, which states the length and has that many bytes behind it.
    fn chunks(blocks: &[(&[u8], usize)]) -> Vec<u8> {
        blocks.iter().fold(Vec::new(), |mut all, (stated, behind)| {
            all.extend(((stated.len() + behind) as u32).to_be_bytes());
            all.extend_from_slice(stated);
            all.resize(all.len() + behind, 0);
            all
        })
    }

    #[test]
    fn chunks_become_the_sum_of_what_their_blocks_state() {
        assert_eq!(chunks_length(&[]), 0);
        assert_eq!(chunks_length(&chunks(&[(&[5], 3)])), 5);
        assert_eq!(
            chunks_length(&chunks(&[(&[0x80, 0x80, 0x02], 9), (&[0x7f], 0), (&[0xac, 0x02], 1)])),
            32_768 + 127 + 300
        );
        assert_eq!(chunks_length(&chunks(&[(&[0xff, 0xff, 0xff, 0xff, 0x0f], 1)])), u32::MAX as usize);
    }

    #[test]
    fn chunks_count_up_to_where_they_are_damaged() {
        let whole = chunks(&[(&[5], 3), (&[7], 3)]);
        assert_eq!(chunks_length(&whole), 12);
        assert_eq!(chunks_length(&whole[..whole.len() - 1]), 5);
        assert_eq!(chunks_length(&whole[..3]), 0);
        assert_eq!(chunks_length(&[0, 0, 0, 0]), 0);
    }
}
