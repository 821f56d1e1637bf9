//! Waiting without polling. A waiter registers first, then checks the condition, then parks. Code that makes the
//! condition true wakes every registered waiter. Nothing sleeps. Only a token left from an earlier wait wakes a thread
//! without reason, and the loop absorbs it.

use crate::lock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// A waiter: a parked thread, or (in the glue) a fiber.
pub trait Wake: Send + Sync {
    /// Must not block and may be called more than once.
    fn wake(&self);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Ready,
    TimedOut,
    Interrupted,
}

/// A thread that waits, and the means to end its wait from outside.
pub struct Parker {
    thread: Thread,
    interrupted: AtomicBool,
}

impl Parker {
    /// For the calling thread.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { thread: std::thread::current(), interrupted: AtomicBool::new(false) })
    }

    /// Ends the wait at once, from any thread.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Release);
        self.thread.unpark();
    }

    /// Parks the calling thread (which created this) until `ready`, an interrupt or the deadline (`None` for no
    /// deadline).
    pub fn park_until(&self, deadline: Option<Instant>, mut ready: impl FnMut() -> bool) -> Outcome {
        loop {
            if ready() {
                return Outcome::Ready;
            }
            if self.interrupted.load(Ordering::Acquire) {
                return Outcome::Interrupted;
            }
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(Duration::ZERO) => return Outcome::TimedOut,
                Some(left) => std::thread::park_timeout(left),
            }
        }
    }
}

impl Wake for Parker {
    fn wake(&self) {
        self.thread.unpark();
    }
}

/// The waiters for a condition, or for one of several conditions, which a number distinguishes.
#[derive(Default)]
pub struct Waiters {
    list: Mutex<Vec<(u32, Arc<dyn Wake>)>>,
    /// Their number, so that waking no waiter takes no lock.
    count: AtomicUsize,
}

impl Waiters {
    pub fn add(&self, waiter: Arc<dyn Wake>) {
        self.add_for(0, waiter);
    }

    /// For the condition of that number.
    pub fn add_for(&self, number: u32, waiter: Arc<dyn Wake>) {
        let mut list = lock(&self.list);
        list.push((number, waiter));
        self.count.store(list.len(), Ordering::SeqCst);
    }

    pub fn remove(&self, waiter: &Arc<dyn Wake>) {
        let mut list = lock(&self.list);
        list.retain(|(_, other)| !Arc::ptr_eq(other, waiter));
        self.count.store(list.len(), Ordering::SeqCst);
    }

    /// To be called after the condition was made true (by a sequentially consistent store).
    pub fn wake_all(&self) {
        self.wake_those(|_| true);
    }

    /// As `wake_all`, for the condition of that number.
    pub fn wake(&self, number: u32) {
        self.wake_those(|other| other == number);
    }

    fn wake_those(&self, wanted: impl Fn(u32) -> bool) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        if TIMING.load(Ordering::Relaxed) {
            *lock(&LAST_WAKE) = Some(Instant::now());
        }
        for (_, waiter) in lock(&self.list).iter().filter(|(number, _)| wanted(*number)) {
            waiter.wake();
        }
    }

    /// Parks the calling thread until `ready`.
    pub fn wait(&self, parker: &Arc<Parker>, deadline: Option<Instant>, ready: impl Fn() -> bool) -> Outcome {
        self.wait_for(0, parker, deadline, ready)
    }

    /// The same, for the condition of that number.
    pub fn wait_for(
        &self,
        number: u32,
        parker: &Arc<Parker>,
        deadline: Option<Instant>,
        ready: impl Fn() -> bool,
    ) -> Outcome {
        let waiter: Arc<dyn Wake> = parker.clone();
        self.add_for(number, Arc::clone(&waiter));
        let outcome = parker.park_until(deadline, ready);
        self.remove(&waiter);
        outcome
    }
}

/// For bench/wakeup.rb: whether wake-ups are timed, and when the last one was.
static TIMING: AtomicBool = AtomicBool::new(false);
static LAST_WAKE: Mutex<Option<Instant>> = Mutex::new(None);

pub fn time_wakes(on: bool) {
    TIMING.store(on, Ordering::Relaxed);
    *lock(&LAST_WAKE) = None;
}

/// The time since the last wake-up, while `time_wakes` is on.
pub fn since_wake() -> Option<Duration> {
    lock(&LAST_WAKE).map(|then| then.elapsed())
}

/// The end of a wait of that length from now. `None` (no limit) also if an `Instant` cannot hold it.
pub fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// The time until then, in librdkafka's milliseconds.
pub fn millis_left(deadline: Option<Instant>) -> i32 {
    millis(deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now())))
}

/// A time in librdkafka's milliseconds: a longer one than fits lasts 24 days.
pub(crate) fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_milliseconds_is_rounded_down_and_fits() {
        let longest = Duration::from_millis(i32::MAX as u64);
        let times = [Duration::from_micros(2999), longest, longest + Duration::from_millis(1), Duration::MAX];
        assert_eq!([2, i32::MAX, i32::MAX, i32::MAX], times.map(millis));
    }

    #[test]
    fn what_is_left_ends_with_the_deadline() {
        assert_eq!(
            [0, i32::MAX, i32::MAX],
            [deadline(Some(Duration::ZERO)), deadline(Some(Duration::MAX)), None].map(millis_left)
        );
        let left = millis_left(deadline(Some(Duration::from_secs(1000))));
        assert!((900_000..=1_000_000).contains(&left), "{left}");
    }

    #[test]
    fn a_wait_ends_when_ready_at_its_deadline_and_when_interrupted() {
        let waiters = Arc::new(Waiters::default());
        let ready = Arc::new(AtomicBool::new(false));
        let (waiters2, ready2) = (Arc::clone(&waiters), Arc::clone(&ready));
        let other = std::thread::spawn(move || {
            ready2.store(true, Ordering::SeqCst);
            waiters2.wake_all();
        });
        let far = Some(Instant::now() + Duration::from_secs(30));
        let flag = Arc::clone(&ready);
        assert_eq!(Outcome::Ready, waiters.wait(&Parker::new(), far, move || flag.load(Ordering::SeqCst)));
        other.join().expect("no panic");

        let soon = deadline(Some(Duration::from_millis(20)));
        assert_eq!(Outcome::TimedOut, waiters.wait(&Parker::new(), soon, || false));

        let parker = Parker::new();
        let interrupter = Arc::clone(&parker);
        let other = std::thread::spawn(move || interrupter.interrupt());
        assert_eq!(Outcome::Interrupted, waiters.wait(&parker, far, || false));
        other.join().expect("no panic");
        assert_eq!(0, waiters.count.load(Ordering::SeqCst));
    }

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn waiters_are_woken_for_their_own_condition_until_they_are_removed() {
        let waiters = Waiters::default();
        let counts: [Arc<Count>; 3] = std::array::from_fn(|_| Arc::new(Count(AtomicUsize::new(0))));
        let woken = || counts.each_ref().map(|count| count.0.load(Ordering::SeqCst));
        waiters.add_for(1, counts[0].clone());
        waiters.add_for(2, counts[1].clone());
        waiters.add(counts[2].clone());
        waiters.wake(2);
        assert_eq!([0, 1, 0], woken());
        waiters.wake_all();
        assert_eq!([1, 2, 1], woken());
        let second: Arc<dyn Wake> = counts[1].clone();
        waiters.remove(&second);
        waiters.wake_all();
        assert_eq!([2, 2, 2], woken());
    }

    #[test]
    fn a_wake_up_is_timed_while_that_is_asked_for() {
        let waiters = Waiters::default();
        waiters.add(Arc::new(Count(AtomicUsize::new(0))));
        time_wakes(true);
        waiters.wake_all();
        assert!(since_wake().is_some());
        time_wakes(false);
    }
}
