//! Address resolution that survives a fork. glibc's `getaddrinfo` holds a lock (`__check_pf`) that glibc's fork
//! handlers ignore. In a child that is forked meanwhile, no name could ever be resolved again, so its clients would
//! never connect. Therefore every client resolves here (`Conf::new`). The fork handlers (process.rs) let running
//! lookups end first, and make new ones wait.

use super::{PerProcess, ffi};
use crate::lock;
#[cfg(not(target_vendor = "apple"))]
use libc::__errno_location as own_errno;
#[cfg(target_vendor = "apple")]
use libc::__error as own_errno;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest time that a fork waits for a lookup, from the lookup's start. A lookup that takes longer waits for a
/// name server, and holds no lock meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);

/// A child makes its own: the parent's mutex may be held by a thread that the child does not have.
static LOOKUPS: PerProcess<Lookups> = PerProcess::new();

#[derive(Default)]
struct Lookups {
    state: Mutex<LookupState>,
    changed: Condvar,
}

#[derive(Default)]
struct LookupState {
    running: usize,
    /// When the newest of those that run began.
    newest: Option<Instant>,
    /// Lookups that wait for forks to be over.
    waiting: usize,
    /// Threads between the two fork handlers.
    forks: usize,
}

impl Lookups {
    fn run<R>(&self, lookup: impl FnOnce() -> R) -> R {
        let mut state = lock(&self.state);
        state.waiting += 1;
        while state.forks > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        state.running += 1;
        state.newest = Some(Instant::now());
        drop(state);
        self.changed.notify_all();
        let result = lookup();
        lock(&self.state).running -= 1;
        self.changed.notify_all();
        result
    }

    /// Returns when no lookup runs, or only lookups older than `patience`. Then none starts until `fork_ended`.
    fn fork_begins(&self, patience: Duration) {
        let mut state = lock(&self.state);
        // Lookups that wait for the forks of other threads come first: forks without end must not keep them away.
        while state.waiting > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.forks += 1;
        while state.running > 0 {
            let age = state.newest.map_or(patience, |newest| newest.elapsed());
            let Some(left) = patience.checked_sub(age).filter(|left| !left.is_zero()) else { return };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn fork_ended(&self) {
        lock(&self.state).forks -= 1;
        self.changed.notify_all();
    }
}

/// For the forking thread, just before.
pub(super) fn fork_begins() {
    LOOKUPS.get_or_init(Lookups::default).fork_begins(PATIENCE);
}

/// For the parent's thread that forked. (The child's lookups are new.)
pub(super) fn fork_ended() {
    if let Some(lookups) = LOOKUPS.get() {
        lookups.fork_ended();
    }
}

/// librdkafka's resolve callback: `getaddrinfo`. Without a node it is `freeaddrinfo` of the result, which takes no
/// lock.
///
/// # Safety
/// librdkafka's contract: strings and hints that live during the call, a place for the result.
pub(super) unsafe extern "C" fn resolve(
    node: *const c_char,
    service: *const c_char,
    hints: *const ffi::AddrInfo,
    result: *mut *mut ffi::AddrInfo,
    _opaque: *mut c_void,
) -> c_int {
    if node.is_null() && service.is_null() && hints.is_null() {
        // SAFETY: the list that an earlier call put there, freed once.
        unsafe { libc::freeaddrinfo(*result) };
        return 0;
    }
    // librdkafka's place is not initialised.
    let mut found = null_mut();
    let (code, errno) = LOOKUPS.get_or_init(Lookups::default).run(|| {
        // SAFETY: the caller's arguments as they are, and a place for the list.
        let code = unsafe { libc::getaddrinfo(node, service, hints, &mut found) };
        (code, std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    });
    // SAFETY: the caller's place for the result; this thread's errno, which EAI_SYSTEM refers to.
    unsafe {
        *result = found;
        *own_errno() = errno;
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, channel};
    use std::sync::{Arc, Barrier};
    use std::thread;

    const LONG: Duration = Duration::from_secs(60);

    /// A lookup that runs until the test ends it.
    fn slow(lookups: &Arc<Lookups>, end: Receiver<()>) -> thread::JoinHandle<()> {
        let (begun, lookups) = (Arc::new(Barrier::new(2)), Arc::clone(lookups));
        let theirs = Arc::clone(&begun);
        let thread = thread::spawn(move || {
            lookups.run(|| {
                theirs.wait();
                end.recv().expect("notified");
            });
        });
        begun.wait();
        thread
    }

    fn until(condition: impl Fn() -> bool) {
        let deadline = Instant::now() + LONG;
        while !condition() {
            assert!(Instant::now() < deadline, "not within {LONG:?}");
            thread::yield_now();
        }
    }

    /// It is `freeaddrinfo` only where nothing is asked for.
    #[test]
    fn a_service_without_a_node_is_looked_up() {
        let (none, mut found) = (std::ptr::null(), null_mut());
        // SAFETY: a live string and a place for the result; then the list that was put there.
        let codes = unsafe {
            let code = resolve(null_mut(), c"9092".as_ptr(), none, &mut found, null_mut());
            assert!(!found.is_null());
            [code, resolve(null_mut(), null_mut(), none, &mut found, null_mut())]
        };
        assert_eq!([0, 0], codes);
    }

    #[test]
    fn a_fork_waits_for_a_lookup_and_lookups_for_the_fork() {
        let lookups = Arc::new(Lookups::default());
        let (end, ended) = channel();
        let first = slow(&lookups, ended);
        let forked = Arc::new(AtomicBool::new(false));
        let (theirs, flag) = (Arc::clone(&lookups), Arc::clone(&forked));
        let fork = thread::spawn(move || {
            theirs.fork_begins(LONG);
            flag.store(true, Ordering::SeqCst);
        });
        until(|| lock(&lookups.state).forks == 1);
        let done = Arc::new(AtomicBool::new(false));
        let (theirs, flag) = (Arc::clone(&lookups), Arc::clone(&done));
        let second = thread::spawn(move || theirs.run(|| flag.store(true, Ordering::SeqCst)));
        until(|| lock(&lookups.state).waiting == 1);
        assert!(!forked.load(Ordering::SeqCst) && !done.load(Ordering::SeqCst));
        end.send(()).expect("it waits");
        fork.join().expect("no panic");
        first.join().expect("no panic");
        assert!(!done.load(Ordering::SeqCst), "a lookup began between the fork handlers");
        lookups.fork_ended();
        second.join().expect("no panic");
        assert!(done.load(Ordering::SeqCst));
    }

    #[test]
    fn a_fork_does_not_wait_for_a_dead_name_server() {
        let lookups = Arc::new(Lookups::default());
        let (end, ended) = channel();
        let lookup = slow(&lookups, ended);
        lookups.fork_begins(Duration::from_millis(50));
        lookups.fork_ended();
        let patience = lock(&lookups.state).newest.expect("one").elapsed();
        let begun = Instant::now();
        lookups.fork_begins(patience); // its patience with this one is used up already
        assert!(begun.elapsed() < LONG / 2);
        lookups.fork_ended();
        end.send(()).expect("it waits");
        lookup.join().expect("no panic");
    }

    #[test]
    fn forks_of_many_threads_keep_no_lookup_away() {
        let lookups = Arc::new(Lookups::default());
        let (stop, inside) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let forks: Vec<_> = (0..4)
            .map(|_| {
                let (lookups, stop, inside) = (Arc::clone(&lookups), Arc::clone(&stop), Arc::clone(&inside));
                thread::spawn(move || {
                    while !stop.load(Ordering::SeqCst) {
                        lookups.fork_begins(LONG);
                        assert_eq!(0, inside.load(Ordering::SeqCst), "a lookup runs during a fork");
                        lookups.fork_ended();
                    }
                })
            })
            .collect();
        let resolvers: Vec<_> = (0..4)
            .map(|_| {
                let (lookups, inside) = (Arc::clone(&lookups), Arc::clone(&inside));
                thread::spawn(move || {
                    for _ in 0..2_000 {
                        lookups.run(|| {
                            inside.fetch_add(1, Ordering::SeqCst);
                            thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                })
            })
            .collect();
        resolvers.into_iter().for_each(|thread| thread.join().expect("all lookups ran"));
        stop.store(true, Ordering::SeqCst);
        forks.into_iter().for_each(|thread| thread.join().expect("no lookup was seen"));
    }
}
