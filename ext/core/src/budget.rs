//! The memory that trees decoded ahead may take in this process. A tree that does not fit is decoded when a caller asks
//! for it.

use crate::rd::{Origin, PerProcess};
use std::sync::atomic::{AtomicUsize, Ordering};

pub const DEFAULT: usize = 256 << 20;

static LIMIT: AtomicUsize = AtomicUsize::new(DEFAULT);
/// A forked child has no part in its parent's.
static TAKEN: PerProcess<AtomicUsize> = PerProcess::new();

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
