//! Process-wide native threads that run tasks without Ruby's GVL.
//!
//! A thread starts when a task comes and no thread is free. It ends after [`IDLE`] without work, parked on a condition
//! variable meanwhile (no polling). A forked child has none of its parent's threads, and maybe a lock that a vanished
//! thread holds. So each generation of processes has a `ProcessPool` of its own and never touches an older one.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The fork handler adds 1 in the child, before anything else uses the pool there (pthread_atfork).
pub static FORK_GENERATION: AtomicU64 = AtomicU64::new(0);

/// A thread of the global pool ends after this time without work.
pub const IDLE: Duration = Duration::from_secs(10);

/// Nested generations that can have threads. Deeper ones run their tasks inside `submit`.
const PROCESSES: usize = 64;

static GLOBAL: Pool = Pool::new(0, IDLE);

/// Work for a native thread. It never sees Ruby. The pool catches and counts a panic inside ([`Pool::panics`]), and
/// Rust's panic hook writes it to stderr. A thread that waits for the task must notice by itself that it did not finish
/// (a guard's Drop).
pub trait Task: Send + Sync {
    fn run(&self);
}

type TaskQueue = VecDeque<Arc<dyn Task>>;

/// Native threads that share one queue, first in, first out. Use [`Pool::global`]; others are for tests.
pub struct Pool {
    pools: [ProcessPool; PROCESSES],
    /// Generation * PROCESSES + index of its `ProcessPool`.
    current: AtomicU64,
    /// Most threads at a time; 0 if not set, see `most`.
    threads: AtomicUsize,
    panics: AtomicU64,
    idle: Duration,
}

/// The threads of one process.
struct ProcessPool {
    state: Mutex<PoolState>,
    work: Condvar,
    ended: Condvar,
}

struct PoolState {
    queue: TaskQueue,
    live: usize,
    /// Waiting threads that no submit has called.
    resting: usize,
    /// Calls that no waiting thread has taken yet. `resting + called` = threads that wait.
    called: usize,
    /// Threads end as soon as the queue is empty.
    closing: bool,
}

impl Pool {
    /// A pool of its own, for a `static`. `threads` = most at a time, 0 = cores - 1 (at least 1); they end after
    /// `idle`.
    pub const fn new(threads: usize, idle: Duration) -> Pool {
        Pool {
            pools: [const { ProcessPool::new() }; PROCESSES],
            current: AtomicU64::new(0),
            threads: AtomicUsize::new(threads),
            panics: AtomicU64::new(0),
            idle,
        }
    }

    /// The pool of this process.
    pub fn global() -> &'static Pool {
        &GLOBAL
    }

    /// Most threads of the global pool, 0 = cores - 1 (at least 1). Threads that already live stay until idle.
    pub fn configure(threads: usize) {
        GLOBAL.threads.store(threads, Ordering::Relaxed);
    }

    /// Adds tasks in order, under one lock. Takes less than a microsecond, or a few tens when a thread has to start.
    /// Runs the tasks itself if the system refuses a first thread.
    pub fn submit_many(&'static self, tasks: Vec<Arc<dyn Task>>) {
        let Some(pool) = self.process_pool() else {
            return tasks.into_iter().for_each(|task| self.perform(task));
        };
        let most = self.most();
        let mut state = pool.lock();
        let before = state.queue.len();
        state.queue.extend(tasks);
        let added = state.queue.len() - before;
        let calls = added.min(state.resting);
        state.resting -= calls;
        state.called += calls;
        let starts = (added - calls).min(most.saturating_sub(state.live));
        state.live += starts;
        if added > 0 {
            state.closing = false;
        }
        drop(state);
        for _ in 0..calls {
            pool.work.notify_one();
        }
        for _ in 0..starts {
            self.start(pool);
        }
    }

    /// Threads alive now in this process.
    pub fn threads(&self) -> usize {
        self.process_pool().map_or(0, |pool| pool.lock().live)
    }

    /// Tasks that were added and not yet started.
    pub fn waiting(&self) -> usize {
        self.process_pool().map_or(0, |pool| pool.lock().queue.len())
    }

    /// Tasks that panicked, since the first process of the family began.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Lets the threads end once the queue is empty, and waits up to `timeout` for that. Returns true if none is left.
    /// A later `submit` starts new threads. Do not call it from a task.
    pub fn shutdown(&self, timeout: Duration) -> bool {
        let Some(pool) = self.process_pool() else { return true };
        let deadline = Instant::now() + timeout;
        let mut state = pool.lock();
        state.closing = true;
        pool.work.notify_all();
        while state.live > 0 && state.closing {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = pool.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.live == 0
    }

    fn most(&self) -> usize {
        match self.threads.load(Ordering::Relaxed) {
            0 => {
                let most = default_threads(std::thread::available_parallelism().map_or(1, |cores| cores.get()));
                // Asking costs system calls. If `configure` is called meanwhile, its number wins.
                let chosen = self.threads.compare_exchange(0, most, Ordering::Relaxed, Ordering::Relaxed);
                chosen.err().unwrap_or(most)
            }
            most => most,
        }
    }

    /// The threads of this generation of processes; `None` when all are used up.
    fn process_pool(&self) -> Option<&ProcessPool> {
        let generation = FORK_GENERATION.load(Ordering::Acquire);
        let mut current = self.current.load(Ordering::Acquire);
        while current / PROCESSES as u64 != generation {
            // The last index means "none left".
            let index = (current % PROCESSES as u64 + 1).min(PROCESSES as u64 - 1);
            let next = generation * PROCESSES as u64 + index;
            match self.current.compare_exchange(current, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => current = next,
                Err(other) => current = other,
            }
        }
        let index = (current % PROCESSES as u64) as usize;
        if index == PROCESSES - 1 { None } else { self.pools.get(index) }
    }

    /// Starts a thread that already counts as alive.
    fn start(&'static self, pool: &'static ProcessPool) {
        let thread = std::thread::Builder::new().name("pelton.decode".to_owned());
        if thread.spawn(move || self.work(pool)).is_ok() {
            return;
        }
        let mut state = pool.lock();
        state.live -= 1;
        while state.live == 0 {
            let Some(task) = state.queue.pop_front() else { break };
            drop(state);
            self.perform(task);
            state = pool.lock();
        }
        pool.ended.notify_all();
    }

    /// A thread's life.
    fn work(&self, pool: &ProcessPool) {
        let mut state = pool.lock();
        loop {
            if let Some(task) = state.queue.pop_front() {
                drop(state);
                self.perform(task);
                state = pool.lock();
                continue;
            }
            if state.closing {
                break;
            }
            state.resting += 1;
            let (woken, wait) = pool.work.wait_timeout(state, self.idle).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if state.called > 0 {
                // Maybe another one's call: that one then finds no call and an empty queue, and rests again.
                state.called -= 1;
                continue;
            }
            state.resting -= 1;
            if wait.timed_out() && state.queue.is_empty() {
                break;
            }
        }
        state.live -= 1;
        if state.live == 0 {
            // An idle process keeps no queue either.
            state.queue = TaskQueue::new();
        }
        pool.ended.notify_all();
    }

    /// Runs and drops a task; nothing of it escapes.
    fn perform(&self, task: Arc<dyn Task>) {
        let outcome = catch_unwind(AssertUnwindSafe(move || task.run()));
        if let Err(payload) = outcome {
            self.panics.fetch_add(1, Ordering::Relaxed);
            // Its Drop is foreign code outside of the catch.
            std::mem::forget(payload);
        }
    }
}

impl ProcessPool {
    const fn new() -> ProcessPool {
        let state = PoolState { queue: TaskQueue::new(), live: 0, resting: 0, called: 0, closing: false };
        ProcessPool { state: Mutex::new(state), work: Condvar::new(), ended: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One core is left to the threads that use what was decoded.
fn default_threads(cores: usize) -> usize {
    cores.saturating_sub(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Task for Nothing {
        fn run(&self) {}
    }

    /// A thread that rests takes a task. Only for the others does a thread start.
    #[test]
    fn no_more_threads_start_than_tasks_need() {
        static POOL: Pool = Pool::new(4, Duration::from_secs(3600));
        let tasks = |count| (0..count).map(|_| Arc::new(Nothing) as Arc<dyn Task>).collect();
        let all_rest = || {
            let state = POOL.process_pool().expect("a first process").lock();
            state.queue.is_empty() && state.called == 0 && state.resting == state.live
        };
        for (count, threads) in [(1, 1), (1, 1), (2, 2), (1, 2), (3, 3), (9, 4)] {
            POOL.submit_many(tasks(count));
            assert_eq!(threads, POOL.threads(), "{count} tasks");
            while !all_rest() {
                std::thread::yield_now();
            }
        }
        assert!(POOL.shutdown(Duration::from_secs(60)));
    }

    #[test]
    fn pool_has_a_thread_less_than_the_machine_has_cores_but_at_least_one() {
        assert_eq!([1, 1, 2, 15], [1, 2, 3, 16].map(super::default_threads));
    }
}
