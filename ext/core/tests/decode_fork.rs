//! A forked child has none of its parent's threads, and maybe a queue lock that a vanished thread holds.
//!
//! No thread may be starting or ending when this test forks: in a program whose `main` is Rust's, the standard library
//! then holds a lock of its own (for stack overflow messages), and the child could never start a thread. Hence a pool
//! of one thread, and the barrier. Ruby's `main` is not Rust's, so there this lock is never taken.

use pelton_core::decode::pool::FORK_GENERATION;
use pelton_core::decode::{Pool, Task};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

static POOL: Pool = Pool::new(1, Duration::from_secs(3600));

struct Add(Arc<AtomicUsize>);

impl Task for Add {
    fn run(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// True when the pool ran 10 tasks within some seconds.
fn works() -> bool {
    let count = Arc::new(AtomicUsize::new(0));
    POOL.submit_many((0..10).map(|_| Arc::new(Add(Arc::clone(&count))) as Arc<dyn Task>).collect());
    let deadline = Instant::now() + Duration::from_secs(60);
    while count.load(Ordering::SeqCst) < 10 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    count.load(Ordering::SeqCst) == 10
}

/// So many generations of processes, the first one included, have threads of their own.
const WITH_THREADS: usize = 63;

/// Forks `depth` times, each child the next; true when the pool worked in all of them. `parents`: generations before
/// the first child.
fn works_in_children(depth: usize, parents: usize) -> bool {
    // SAFETY: the child only uses the pool, the allocator (glibc makes it ready after a fork) and `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        FORK_GENERATION.fetch_add(1, Ordering::SeqCst);
        let none = POOL.threads() == 0;
        let threads = usize::from(parents < WITH_THREADS);
        let ok = none && works() && POOL.threads() == threads;
        let ok = ok && (depth == 1 || works_in_children(depth - 1, parents + 1));
        // SAFETY: ends the child without running the test harness' exit handlers.
        unsafe { libc::_exit(if ok { 0 } else { 1 }) }
    }
    exits_well(child)
}

/// True when the pool ran its tasks in a child for which the system starts no further thread.
fn works_in_a_child_without_threads() -> bool {
    /// More than glibc keeps stacks of for later threads.
    const OTHERS: usize = 40;
    // SAFETY: as above.
    let child = unsafe { libc::fork() };
    if child == 0 {
        FORK_GENERATION.fetch_add(1, Ordering::SeqCst);
        // SAFETY: a call that waits for its own lock would never end.
        unsafe { libc::alarm(60) };
        let begun = Arc::new(AtomicUsize::new(0));
        for _ in 0..OTHERS {
            let begun = Arc::clone(&begun);
            std::thread::spawn(move || {
                begun.fetch_add(1, Ordering::SeqCst);
                loop {
                    std::thread::park();
                }
            });
        }
        while begun.load(Ordering::SeqCst) < OTHERS {
            std::thread::yield_now();
        }
        drop(std::hint::black_box(vec![0u8; 100_000])); // room for what is not a thread
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a live limit.
        let ok = unsafe { libc::setrlimit(libc::RLIMIT_AS, &none) } == 0;
        let ok = ok && std::thread::Builder::new().spawn(|| ()).is_err() && works() && POOL.threads() == 0;
        // SAFETY: as above.
        unsafe { libc::_exit(if ok { 0 } else { 1 }) }
    }
    exits_well(child)
}

fn exits_well(child: libc::pid_t) -> bool {
    let mut status = 0;
    // SAFETY: waits for a child of this process; `status` is a live i32.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status == 0
}

#[test]
fn children_start_threads_of_their_own() {
    assert!(works());
    assert!(works_in_children(3, 1));
    // Deeper than there are pools: tasks run inside `submit`.
    assert!(works_in_children(80, 1));
    assert!(works_in_a_child_without_threads());
    let stop = AtomicBool::new(false);
    let begun = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                begun.wait();
                while !stop.load(Ordering::SeqCst) {
                    works();
                }
            });
        }
        begun.wait();
        // Forks while other threads may hold the lock.
        let ok = (0..100).all(|_| works_in_children(1, 1));
        stop.store(true, Ordering::SeqCst);
        assert!(ok);
    });
    assert!(works());
}
