//! The memory that trees decoded ahead may take in this process. A tree that does not fit is decoded when a caller asks
//! for it. And what messages take that Ruby's objects keep: `rd/fetching.rs` bounds the others.

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

/// Whether they are too many, so that Ruby should collect objects: all of them (true), or the young ones. `collected` is
/// to be called then.
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
