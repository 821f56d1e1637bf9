//! The limit of a gzip batch. librdkafka decompresses a fetched batch as a whole. It bounds the result for zstd only, by
//! `receive.message.max.bytes`; gzip makes 1 GB of 1 MB of zeros. No option and no callback comes in between. So we
//! replace a function of librdkafka, which works with a static library only: a shared one calls its own.

#[cfg(not(feature = "system"))]
mod replacement;

use std::sync::atomic::{AtomicUsize, Ordering};

/// The largest `receive.message.max.bytes` of the consumers of this process; 0 for none yet.
static LIMIT: AtomicUsize = AtomicUsize::new(0);

/// A consumer with that limit is opened.
pub fn allow(bytes: usize) {
    LIMIT.fetch_max(bytes, Ordering::Relaxed);
}

/// Bytes that a batch may become.
pub fn limit() -> usize {
    LIMIT.load(Ordering::Relaxed)
}
