//! The effects of a fork: threads do not survive it, and locks may be held forever. Values that belong to one process.

#[cfg(wraps)]
use super::openssl_locks;
use super::resolver;
use crate::decode::pool::FORK_GENERATION;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

static REGISTER: Once = Once::new();

/// Generations whose process is remembered.
const ANCESTORS: usize = 64;
/// Process ids by generation (modulo their number). Each process stores its own before it forks; 0 for unknown.
static PIDS: [AtomicU32; ANCESTORS] = [const { AtomicU32::new(0) }; ANCESTORS];

extern "C" fn before() {
    let own = FORK_GENERATION.load(Ordering::Relaxed) as usize % ANCESTORS;
    PIDS[own].store(std::process::id(), Ordering::Relaxed);
    resolver::fork_begins();
    #[cfg(wraps)]
    openssl_locks::fork_begins();
}

extern "C" fn in_parent() {
    #[cfg(wraps)]
    openssl_locks::fork_ended();
    resolver::fork_ended();
}

extern "C" fn in_child() {
    FORK_GENERATION.fetch_add(1, Ordering::Relaxed);
    #[cfg(wraps)]
    renew_global_lock();
}

/// Another thread of the parent may have held librdkafka's lock around the count of its clients at the fork, or that
/// of Kerberos logins. The first client of a process prepares the latter. So the child begins to count anew; it never
/// destroys a client of its parent.
#[cfg(wraps)]
fn renew_global_lock() {
    use std::ffi::{c_int, c_void};
    const PLAIN: c_int = 0; // mtx_plain
    unsafe extern "C" {
        static mut rd_kafka_global_lock: c_void;
        static mut rd_kafka_global_cnt: c_int;
        fn mtx_init(mutex: *mut c_void, kind: c_int) -> c_int;
    }
    // SAFETY: librdkafka's mutex and count; the child has no other thread that could use them.
    unsafe {
        mtx_init(&raw mut rd_kafka_global_lock, PLAIN);
        rd_kafka_global_cnt = 0;
    }
}

/// How often the process's line of ancestors has forked since the core was loaded: 0 where it was loaded, one more in
/// each child. Far cheaper than `getpid` (a system call).
pub fn generation() -> u64 {
    REGISTER.call_once(|| {
        // SAFETY: the child's handler only adds to an atomic and overwrites a mutex; the others run in the parent.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    });
    FORK_GENERATION.load(Ordering::Relaxed)
}

/// The process that made a value. A forked child must not use what its parent made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(u64);

impl Origin {
    /// This process.
    pub fn here() -> Self {
        Self(generation())
    }

    #[cfg(test)]
    pub fn of_another_process() -> Self {
        Self(u64::MAX)
    }

    /// Whether this is a forked child of the process that made the value.
    pub fn is_foreign(self) -> bool {
        self.0 != generation()
    }

    /// The id of that process, if it is an ancestor of this one and remembered.
    pub fn process(self) -> Option<u32> {
        let age = generation().checked_sub(self.0)? as usize;
        let pid = match age {
            0 => std::process::id(),
            1..ANCESTORS => PIDS[self.0 as usize % ANCESTORS].load(Ordering::Relaxed),
            _ => 0,
        };
        (pid != 0).then_some(pid)
    }
}

/// A lazily created process-wide value. A forked child creates its own and never touches the parent's, whose locks may
/// have been held at the fork. Such values are few and never freed.
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
        let Ok(value) = self.get_or_try_init::<std::convert::Infallible>(|| Ok(make()));
        value
    }

    /// The same, where making it may fail.
    pub fn get_or_try_init<E>(&'static self, make: impl FnOnce() -> Result<T, E>) -> Result<&'static T, E> {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let fresh = Box::into_raw(Box::new((generation(), make()?)));
        loop {
            let seen = self.slot.load(Ordering::Acquire);
            if let Some(value) = self.get() {
                // SAFETY: `fresh` was made above and shared with no other thread.
                drop(unsafe { Box::from_raw(fresh) });
                return Ok(value);
            }
            if self.slot.compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                // SAFETY: `fresh` is now the slot's value, which is never freed.
                return Ok(unsafe { &(*fresh).1 });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_knows_whether_this_process_made_it() {
        let (own, foreign) = (Origin::here(), Origin::of_another_process());
        assert_eq!((false, Some(std::process::id())), (own.is_foreign(), own.process()));
        assert_eq!((true, None), (foreign.is_foreign(), foreign.process()));
    }
}
