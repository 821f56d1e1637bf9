//! librdkafka's ways from a key to a partition.

use super::sys;

/// Partitioners that use the key alone (so `random` is not one of them).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partitioner {
    /// CRC32: `consistent`, `consistent_random`.
    Consistent,
    /// As Java's client: `murmur2`, `murmur2_random`.
    Murmur2,
    /// As Sarama's: `fnv1a`, `fnv1a_random`.
    Fnv1a,
}

impl Partitioner {
    /// By the value of librdkafka's option `partitioner`.
    pub fn named(name: &str) -> Option<Self> {
        match name.strip_suffix("_random").unwrap_or(name) {
            "consistent" => Some(Self::Consistent),
            "murmur2" => Some(Self::Murmur2),
            "fnv1a" => Some(Self::Fnv1a),
            _ => None,
        }
    }

    /// The partition of a key where there are `count` (≥ 1).
    pub fn partition(self, key: &[u8], count: i32) -> i32 {
        let call = match self {
            Self::Consistent => sys::rd_kafka_msg_partitioner_consistent,
            Self::Murmur2 => sys::rd_kafka_msg_partitioner_murmur2,
            Self::Fnv1a => sys::rd_kafka_msg_partitioner_fnv1a,
        };
        let (none, nothing) = (std::ptr::null(), std::ptr::null_mut());
        // SAFETY: a live key with its length; of the other arguments these three read the count alone.
        unsafe { call(none, key.as_ptr().cast(), key.len(), count.max(1), nothing, nothing) }
    }
}

#[cfg(test)]
mod tests {
    use super::Partitioner;

    #[test]
    fn names() {
        let found = ["murmur2_random", "murmur2", "consistent_random", "fnv1a", "random", "_random", "x"]
            .map(Partitioner::named);
        let (murmur2, consistent, fnv1a) = (Partitioner::Murmur2, Partitioner::Consistent, Partitioner::Fnv1a);
        assert_eq!([Some(murmur2), Some(murmur2), Some(consistent), Some(fnv1a), None, None, None], found);
    }

    /// Of Kafka's own tests (UtilsTest.testMurmur2), made positive as its partitioner does.
    #[test]
    fn murmur2_is_java_s() {
        let expected: [(&str, i32); 6] = [
            ("21", -973932308),
            ("foobar", -790332482),
            ("a-little-bit-long-string", -985981536),
            ("a-little-bit-longer-string", -1486304829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
            ("abc", 479470107),
        ];
        for (key, hash) in expected {
            assert_eq!(hash & 0x7fff_ffff, Partitioner::Murmur2.partition(key.as_bytes(), i32::MAX), "{key}");
        }
    }
}
