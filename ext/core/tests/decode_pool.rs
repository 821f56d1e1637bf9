//! The pool of native threads loses no task, contains panics, and starts and ends threads.

use pelton_core::decode::{Pool, Task};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(3600);
const DEADLINE: Duration = Duration::from_secs(60);

/// Counts finished tasks, and wakes the waiting thread.
#[derive(Default)]
struct Tally {
    done: Mutex<usize>,
    changed: Condvar,
}

impl Tally {
    fn add(&self) {
        *self.done.lock().unwrap() += 1;
        self.changed.notify_all();
    }

    #[track_caller]
    fn wait(&self, count: usize) {
        let done = self.done.lock().unwrap();
        let (done, wait) = self.changed.wait_timeout_while(done, DEADLINE, |done| *done < count).unwrap();
        assert!(!wait.timed_out(), "{done} of {count}", done = *done);
    }
}

/// Does `work`, then counts, also when `work` panics.
struct Job<F>(Arc<Tally>, F);

impl<F: Fn() + Send + Sync> Task for Job<F> {
    fn run(&self) {
        struct Add<'a>(&'a Tally);
        impl Drop for Add<'_> {
            fn drop(&mut self) {
                self.0.add();
            }
        }
        let _add = Add(&self.0);
        (self.1)();
    }
}

fn job(tally: &Arc<Tally>, work: impl Fn() + Send + Sync + 'static) -> Arc<dyn Task> {
    Arc::new(Job(Arc::clone(tally), work))
}

#[track_caller]
fn until(what: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !what() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
}

#[test]
fn many_submitters() {
    static POOL: Pool = Pool::new(3, LONG);
    let tally = Arc::new(Tally::default());
    std::thread::scope(|scope| {
        for submitter in 0..8 {
            let tally = &tally;
            scope.spawn(move || {
                for round in 0..2000 {
                    if (submitter + round) % 5 == 0 {
                        POOL.submit_many((0..3).map(|_| job(tally, || ())).collect());
                    } else {
                        POOL.submit_many(vec![job(tally, || ())]);
                    }
                }
            });
        }
    });
    tally.wait(8 * (400 * 3 + 1600));
    assert!((1..=3).contains(&POOL.threads()));
    assert_eq!(POOL.waiting(), 0);
    assert!(POOL.shutdown(DEADLINE));
    assert_eq!(POOL.threads(), 0);
}

#[test]
fn threads_work_side_by_side() {
    static POOL: Pool = Pool::new(4, LONG);
    let tally = Arc::new(Tally::default());
    let barrier = Arc::new(std::sync::Barrier::new(4));
    let tasks = (0..4).map(|_| {
        let barrier = Arc::clone(&barrier);
        job(&tally, move || {
            barrier.wait();
        })
    });
    POOL.submit_many(tasks.collect());
    tally.wait(4);
    assert_eq!(POOL.threads(), 4);
    assert!(POOL.shutdown(DEADLINE));
}

#[test]
fn threads_never_exceed_the_limit() {
    static POOL: Pool = Pool::new(2, LONG);
    static NOW: AtomicUsize = AtomicUsize::new(0);
    let tally = Arc::new(Tally::default());
    for _ in 0..500 {
        POOL.submit_many(vec![job(&tally, || {
            assert!(NOW.fetch_add(1, Ordering::SeqCst) < 2);
            std::thread::yield_now();
            NOW.fetch_sub(1, Ordering::SeqCst);
        })]);
        assert!(POOL.threads() <= 2);
    }
    tally.wait(500);
    assert_eq!(POOL.panics(), 0);
    assert!(POOL.shutdown(DEADLINE));
}

#[test]
fn a_panic_is_contained() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("while dropped (expected in this test)");
            }
        }
    }
    static POOL: Pool = Pool::new(1, LONG);
    let tally = Arc::new(Tally::default());
    for _ in 0..3 {
        POOL.submit_many(vec![job(&tally, || panic!("while run (expected in this test)"))]);
    }
    let bomb = Bomb;
    POOL.submit_many(vec![job(&tally, move || {
        let _kept = &bomb;
    })]);
    POOL.submit_many(vec![job(&tally, || std::panic::panic_any(7))]);
    POOL.submit_many(vec![job(&tally, || ())]);
    tally.wait(6);
    assert!(POOL.shutdown(DEADLINE));
    assert_eq!(POOL.panics(), 5);
}

#[test]
fn idle_threads_end_and_start_again() {
    static POOL: Pool = Pool::new(2, Duration::from_millis(50));
    for _ in 0..5 {
        let tally = Arc::new(Tally::default());
        POOL.submit_many((0..10).map(|_| job(&tally, || ())).collect());
        tally.wait(10);
        until(|| POOL.threads() == 0);
    }
}

#[test]
fn work_that_comes_while_threads_end_is_done() {
    static POOL: Pool = Pool::new(2, Duration::from_micros(50));
    let tally = Arc::new(Tally::default());
    for round in 0..3000usize {
        POOL.submit_many(vec![job(&tally, || ())]);
        if round % 3 == 0 {
            tally.wait(round + 1);
        }
        if round % 100 == 0 {
            POOL.shutdown(Duration::ZERO);
        }
    }
    tally.wait(3000);
    until(|| POOL.threads() == 0);
}

#[test]
fn shutdown_waits_for_what_was_handed_over() {
    static POOL: Pool = Pool::new(1, LONG);
    let tally = Arc::new(Tally::default());
    let gate = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&gate);
    POOL.submit_many(vec![job(&tally, move || until(|| seen.load(Ordering::SeqCst)))]);
    POOL.submit_many((0..20).map(|_| job(&tally, || ())).collect());
    assert!(!POOL.shutdown(Duration::from_millis(20)));
    assert_eq!(POOL.threads(), 1);
    gate.store(true, Ordering::SeqCst);
    assert!(POOL.shutdown(DEADLINE));
    assert_eq!(*tally.done.lock().unwrap(), 21);
    POOL.submit_many(vec![job(&tally, || ())]);
    tally.wait(22);
    assert!(POOL.shutdown(DEADLINE));
}

#[test]
fn a_task_may_submit() {
    static POOL: Pool = Pool::new(1, LONG);
    let tally = Arc::new(Tally::default());
    let inner = Arc::clone(&tally);
    POOL.submit_many(vec![job(&tally, move || POOL.submit_many(vec![job(&inner, || ())]))]);
    tally.wait(2);
    assert!(POOL.shutdown(DEADLINE));
}

#[test]
fn the_global_pool() {
    assert!(std::ptr::eq(Pool::global(), Pool::global()));
    Pool::configure(2);
    let tally = Arc::new(Tally::default());
    let named = Arc::new(Mutex::new(String::new()));
    let name = Arc::clone(&named);
    Pool::global().submit_many(vec![job(&tally, move || {
        *name.lock().unwrap() = std::thread::current().name().unwrap_or_default().to_owned();
    })]);
    tally.wait(1);
    assert_eq!(*named.lock().unwrap(), "pelton.decode");
    assert_eq!(Pool::global().threads(), 1);
    assert!(Pool::global().shutdown(DEADLINE));
}
