//! What a fork changes: threads do not survive it, locks may be held for ever. Values that belong to one process.

use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::decode::pool::FORK_GENERATION;

static REGISTER: Once = Once::new();

extern "C" fn in_child() {
    FORK_GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// How often the process's line of ancestors has forked since the core was loaded: 0 where it was loaded, one more in
/// each child. Far cheaper than `getpid` (a system call).
pub fn generation() -> u64 {
    REGISTER.call_once(|| {
        // SAFETY: the handler only adds to an atomic, which is async-signal-safe.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    FORK_GENERATION.load(Ordering::Relaxed)
}

/// A lazily made process-wide value that a forked child makes anew, without ever touching the parent's (whose locks may
/// have been held at the moment of the fork). Values are few and never freed.
pub struct PerProcess<T> {
    slot: AtomicPtr<(u64, T)>,
}

impl<T: Send + Sync> PerProcess<T> {
    #[allow(clippy::new_without_default)] // only ever made in a static, where Default can't be called
    pub const fn new() -> Self {
        Self { slot: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// This process's value, if it was made yet.
    pub fn get(&'static self) -> Option<&'static T> {
        let found = self.slot.load(Ordering::Acquire);
        // SAFETY: a non-null pointer came from `Box::into_raw` below and is never freed.
        let (made_in, value) = unsafe { found.as_ref() }?;
        (*made_in == generation()).then_some(value)
    }

    /// This process's value, made by `make` on first use (a loser of a race drops its own).
    pub fn get_or_init(&'static self, make: impl FnOnce() -> T) -> &'static T {
        if let Some(value) = self.get() {
            return value;
        }
        let fresh = Box::into_raw(Box::new((generation(), make())));
        loop {
            let seen = self.slot.load(Ordering::Acquire);
            if let Some(value) = self.get() {
                // SAFETY: `fresh` was made above and given to nobody.
                drop(unsafe { Box::from_raw(fresh) });
                return value;
            }
            if self.slot.compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                // SAFETY: `fresh` is now the slot's value, which is never freed.
                return unsafe { &(*fresh).1 };
            }
        }
    }
}
