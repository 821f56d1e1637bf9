//! Inputs for the decoders, and what must hold of each: for the tests beside this folder, and for `bin/fuzz`, which has
//! many more of them (`examples/fuzz.rs`). An input is made of a seed and a number, so any one of them can be repeated.
#![allow(dead_code)]

pub mod avro;
pub mod json;
pub mod msgpack;
pub mod schema;
pub mod value;

use crate::random::Random;
use pelton_core::decode::Tree;

/// More than this is too much for inputs of a few hundred bytes.
const MOST_MEMORY: usize = 32 << 20;

/// One decoder's inputs.
pub trait Fuzz {
    /// Writes input number `index` of this seed.
    fn make(&mut self, seed: u64, index: u64, input: &mut Vec<u8>);

    /// Decodes it; true where it was accepted. Panics where something is wrong.
    fn check(&mut self, input: &[u8]) -> bool;
}

/// A generator of its own for each input.
pub fn random(seed: u64, index: u64) -> Random {
    let mut mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index;
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(factor);
    }
    Random((mixed ^ (mixed >> 31)) | 1)
}

/// Changes some bytes. `likely`: what it writes most of the time.
pub fn mutate(random: &mut Random, likely: &[u8], input: &mut Vec<u8>) {
    for _ in 0..1 + random.below(3) {
        if input.is_empty() {
            input.push(likely[0]);
        }
        let (at, other) = (random.below(input.len()), random.below(input.len()));
        match random.below(7) {
            0 => input[at] ^= 1 << random.below(8),
            1 => input[at] = likely[random.below(likely.len())],
            2 => input[at] = random.next() as u8,
            3 => input.swap(at, other),
            4 => input.insert(at, likely[random.below(likely.len())]),
            5 => input.truncate(at.max(1)),
            _ => drop(input.drain(at..(at + random.below(4)).min(input.len()))),
        }
    }
}

pub fn assert_little_memory(tree: &Tree) {
    assert!(tree.memory() < MOST_MEMORY, "a tree of {} bytes", tree.memory());
}
