//! The memory that trees decoded ahead may take in this process. A tree that does not fit is decoded when a caller asks
//! for it. The same for messages that producers queue, and for those that Ruby's objects keep. `rd/fetching.rs` bounds
//! what is fetched.

use crate::rd::{Origin, PerProcess, fetching};
use std::sync::atomic::{AtomicUsize, Ordering};

pub const DEFAULT: usize = 256 << 20;

static LIMIT: AtomicUsize = AtomicUsize::new(DEFAULT);
/// A forked child has no part in its parent's.
static TAKEN: PerProcess<AtomicUsize> = PerProcess::new();
static COPIED: PerProcess<AtomicUsize> = PerProcess::new();
/// Bytes of messages that objects keep after their batch, before Ruby is asked to collect objects.
static RETAINED: AtomicUsize = AtomicUsize::new(usize::MAX);
/// The same, after a collection that left some.
static NEXT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Sets the limit, in bytes. Memory that is already taken stays taken.
pub fn configure(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

/// Bytes taken.
pub fn taken() -> usize {
    counter().load(Ordering::Relaxed)
}

fn counter() -> &'static AtomicUsize {
    TAKEN.get_or_init(AtomicUsize::default)
}

/// Bytes that are taken as long as this lives.
pub struct Reservation {
    bytes: usize,
    origin: Origin,
}

impl Reservation {
    /// `None`: there is not so much.
    pub fn take(bytes: usize) -> Option<Self> {
        let limit = LIMIT.load(Ordering::Relaxed);
        let fits = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= limit);
        let taken = counter().fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        taken.ok().map(|_| Self { bytes, origin: Origin::here() })
    }

    /// Changes the size. Returns false, and changes nothing, if the budget has too little left.
    pub fn resize(&mut self, bytes: usize) -> bool {
        if bytes == self.bytes {
            return true; // as after most messages, and all threads share the counter
        }
        if bytes < self.bytes {
            counter().fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        } else if let Some(more) = Self::take(bytes - self.bytes) {
            std::mem::forget(more);
        } else {
            return false;
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.origin.is_foreign() {
            counter().fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// Bytes of messages in chunks, in batches or behind message objects.
pub fn copied() -> usize {
    COPIED.get_or_init(AtomicUsize::default).load(Ordering::Relaxed)
}

/// Bytes of messages that only objects keep.
pub fn retained() -> usize {
    copied().saturating_sub(fetching::batches())
}

/// Sets how many of these may be garbage.
pub fn limit_retained(bytes: usize) {
    RETAINED.store(bytes, Ordering::Relaxed);
    NEXT.store(bytes, Ordering::Relaxed);
}

fn next(retained: usize) -> usize {
    retained.saturating_add(RETAINED.load(Ordering::Relaxed).max(retained / 2))
}

/// Whether they are too many, so that Ruby should collect objects: all of them (true), or the young ones. `collected`
/// is to be called then.
pub fn crowded() -> Option<bool> {
    let retained = retained();
    let limit = NEXT.fetch_min(next(retained), Ordering::Relaxed);
    (retained > limit).then(|| limit > RETAINED.load(Ordering::Relaxed).saturating_mul(2))
}

/// A collection is over.
pub fn collected() {
    NEXT.store(next(retained()), Ordering::Relaxed);
}

/// So many of them, as long as this lives.
pub struct Copied {
    bytes: usize,
    origin: Origin,
}

impl Copied {
    pub fn of(bytes: usize) -> Self {
        COPIED.get_or_init(AtomicUsize::default).fetch_add(bytes, Ordering::Relaxed);
        Self { bytes, origin: Origin::here() }
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        if !self.origin.is_foreign() {
            COPIED.get_or_init(AtomicUsize::default).fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// What all producers of the process may queue, in bytes.
static QUEUE_LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static QUEUED: PerProcess<AtomicUsize> = PerProcess::new();
/// What each producer may queue, whatever the others do. So its own reports make room for it.
const LEAST_QUEUE: usize = 1 << 20;
/// What librdkafka needs for a message beside its payload and key, about.
const QUEUE_ENTRY: usize = 256;

/// Sets the limit, in bytes.
pub fn limit_queued(bytes: usize) {
    QUEUE_LIMIT.store(bytes, Ordering::Relaxed);
}

/// Bytes of messages that producers queue.
pub fn queued() -> usize {
    QUEUED.get_or_init(AtomicUsize::default).load(Ordering::Relaxed)
}

/// What a producer's messages take, from the call that sends them until their report.
pub struct Queued {
    bytes: AtomicUsize,
    origin: Origin,
}

impl Default for Queued {
    fn default() -> Self {
        Self { bytes: AtomicUsize::new(0), origin: Origin::here() }
    }
}

impl Queued {
    /// Adds a message with so many bytes of payload and key. Returns false, and adds nothing, if there is no room.
    pub fn add(&self, bytes: usize) -> bool {
        let bytes = bytes + QUEUE_ENTRY;
        let own = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let all = QUEUED.get_or_init(AtomicUsize::default).fetch_add(bytes, Ordering::Relaxed);
        let fits = own < LEAST_QUEUE || all < QUEUE_LIMIT.load(Ordering::Relaxed);
        if !fits {
            self.free(bytes);
        }
        fits
    }

    /// So many of them, with so many bytes of payload and key together, are reported.
    pub fn remove(&self, count: usize, bytes: usize) {
        self.free(bytes + count * QUEUE_ENTRY);
    }

    fn free(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        QUEUED.get_or_init(AtomicUsize::default).fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if !self.origin.is_foreign() {
            self.free(self.bytes.load(Ordering::Relaxed));
        }
    }
}
