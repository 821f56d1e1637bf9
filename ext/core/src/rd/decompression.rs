//! The limit of a compressed batch. librdkafka decompresses a fetched batch as a whole. It bounds the result for zstd
//! only, by `receive.message.max.bytes`; gzip makes 1 GB of 1 MB of zeros, and lz4 240 MB. No option and no callback
//! comes in between. So we replace librdkafka's function for gzip, and look at a batch before its functions for lz4 and
//! snappy do. That works with a static library only: a shared one calls its own.

#[cfg(not(feature = "system"))]
mod gzip;
#[cfg(wraps)]
mod lz4;
#[cfg(wraps)]
mod snappy;
#[cfg(wraps)]
mod wrapped;

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
