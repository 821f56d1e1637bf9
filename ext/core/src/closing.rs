//! Ends a client. librdkafka's own end blocks, so it runs once, on a native thread of its own. A caller of `close`
//! waits for it as for anything else, and may be interrupted without harm.

use crate::lock;
use crate::wait::{self, Outcome, Parker, Waiters, Wake};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long an end waits for calls of other threads that began before it.
pub(crate) const CALLS_WAIT: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Closing {
    started: AtomicBool,
    done: AtomicBool,
    /// The deadline; `None` for no limit. It only ever moves nearer. A deadline that is over when the closing starts no
    /// longer counts.
    ends: Mutex<Option<Instant>>,
    /// Messages that were given up.
    lost: AtomicUsize,
    waiters: Waiters,
}

impl Closing {
    pub fn started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    pub fn done(&self) -> bool {
        self.done.load(Ordering::SeqCst)
    }

    pub fn lost(&self) -> usize {
        self.lost.load(Ordering::Acquire)
    }

    /// The number of messages that are given up, which the end knows before it is over.
    pub(crate) fn gives_up(&self, count: usize) {
        self.lost.store(count, Ordering::Release);
    }

    /// Limits the end to this time, if it starts before. The caller wakes the waiters of `ends` after this.
    pub fn limit(&self, timeout: Duration) {
        let mut ends = lock(&self.ends);
        *ends = wait::deadline(Some(timeout)).into_iter().chain(*ends).min();
    }

    /// `None` also before it started.
    pub fn ends(&self) -> Option<Instant> {
        lock(&self.ends).filter(|_| self.started())
    }

    pub fn is_over(&self) -> bool {
        self.ends().is_some_and(|ends| Instant::now() >= ends)
    }

    /// Runs `work` on a thread of its own the first time it is called; `work` returns how many messages were lost.
    pub fn start(self: &Arc<Self>, work: impl FnOnce() -> usize + Send + 'static) {
        if !self.begins() {
            return;
        }
        let closing = Arc::clone(self);
        let work = Arc::new(Mutex::new(Some(work)));
        let run = move || {
            let Some(work) = lock(&work).take() else { return };
            let lost = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(0);
            closing.lost.store(lost, Ordering::Release);
            closing.done.store(true, Ordering::SeqCst);
            closing.waiters.wake_all();
        };
        if std::thread::Builder::new().name("pelton.close".into()).spawn(run.clone()).is_err() {
            // No thread can be started. To block here is better than never to end.
            run();
        }
    }

    /// True the first time.
    fn begins(&self) -> bool {
        let mut ends = lock(&self.ends);
        if self.started.swap(true, Ordering::AcqRel) {
            return false;
        }
        *ends = ends.filter(|ends| *ends > Instant::now());
        true
    }

    pub fn wait(&self, parker: &Arc<Parker>, deadline: Option<Instant>) -> Outcome {
        self.waiters.wait(parker, deadline, || self.done())
    }

    pub fn add_waiter(&self, waiter: Arc<dyn Wake>) {
        self.waiters.add(waiter);
    }

    pub fn remove_waiter(&self, waiter: &Arc<dyn Wake>) {
        self.waiters.remove(waiter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1000);

    #[test]
    fn a_limit_counts_from_the_start_on_unless_it_is_past_by_then() {
        let closing = Arc::new(Closing::default());
        closing.limit(Duration::ZERO);
        assert_eq!((None, false), (closing.ends(), closing.is_over()));
        closing.start(|| 0);
        assert_eq!((None, false), (closing.ends(), closing.is_over()));
        closing.limit(LONG);
        closing.limit(Duration::ZERO);
        closing.limit(LONG);
        assert!(closing.is_over());
    }

    #[test]
    fn only_the_first_start_of_a_close_begins_it() {
        let closing = Arc::new(Closing::default());
        assert!(closing.begins());
        closing.start(|| unreachable!("it began"));
        assert!(!closing.begins() && !closing.done());
    }

    #[test]
    fn a_limit_of_just_before_the_start_is_kept() {
        let closing = Arc::new(Closing::default());
        closing.limit(LONG);
        closing.start(|| 0);
        let ends = closing.ends().expect("a limit");
        closing.limit(LONG * 2);
        assert_eq!(Some(ends), closing.ends());
    }

    #[test]
    fn a_close_is_done_with_what_its_work_lost_or_with_its_panic() {
        let ended = |work: fn() -> usize| {
            let closing = Arc::new(Closing::default());
            closing.start(work);
            assert_eq!(Outcome::Ready, closing.wait(&Parker::new(), wait::deadline(Some(LONG))));
            (closing.started(), closing.done(), closing.lost())
        };
        assert_eq!((true, true, 3), ended(|| 3));
        assert_eq!((true, true, 0), ended(|| panic!("as asked for")));
    }

    #[test]
    fn a_close_knows_what_it_gives_up_before_it_is_done() {
        let closing = Arc::new(Closing::default());
        closing.gives_up(2);
        assert_eq!((2, false, false), (closing.lost(), closing.started(), closing.done()));
    }
}
