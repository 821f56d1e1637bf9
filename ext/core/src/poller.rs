//! The event thread: one native thread that drains the queues of every client registered with it. It starts with its
//! first client and ends with its last. No Ruby, no polling: it sleeps in `poll(2)` on one pipe, into which librdkafka
//! writes the token of each queue that turns from empty to non-empty.
//!
//! Three rules keep a wake-up from being lost:
//! 1. the pipe is emptied *before* the queues are drained;
//! 2. a client whose time budget ended with events left stays on the `ready` list (no new token would come);
//! 3. once a second every queue of every client is looked at (timers such as the OAuth refresh may not signal, and it
//!    tells librdkafka that the application lives: `max.poll.interval.ms`).

use crate::error::Error;
use crate::lock;
use crate::rd::{PerProcess, Token, Wakeup};
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A client's share of one turn.
pub const DEFAULT_BUDGET: Duration = Duration::from_millis(100);
const SAFETY_ROUND: Duration = Duration::from_secs(1);
const CRIT_SYS_RESOURCE: i32 = -194;

/// A client, as the poller sees it.
pub trait Source: Send + Sync {
    /// Drains the queues named in `queues` until they are empty or `deadline` has passed; leaves those with work left.
    /// Runs on the poller's thread; must not block.
    fn serve(&self, queues: &mut Vec<u32>, deadline: Instant);
    /// Adds every queue that the client has (for the safety round).
    fn all_queues(&self, queues: &mut Vec<u32>);
}

struct State {
    clients: HashMap<u32, Arc<dyn Source>>,
    last_id: u32,
    /// Whether a thread serves this poller. Set and cleared under the same lock that adds and removes clients, so a
    /// client registered while the thread ends starts another.
    running: bool,
    /// The client being served at this moment.
    serving: Option<u32>,
}

pub struct Poller {
    name: String,
    wakeup: Wakeup,
    state: Mutex<State>,
    /// Signalled when `serving` ends.
    served: Condvar,
    budget_nanos: AtomicU64,
}

static DEFAULT: PerProcess<Arc<Poller>> = PerProcess::new();
/// Poller threads alive in this process.
static THREADS: PerProcess<AtomicUsize> = PerProcess::new();

impl Poller {
    /// The process's own, used by every client that names no other.
    pub fn global() -> &'static Arc<Poller> {
        DEFAULT.get_or_init(|| Poller::new("pelton.poller"))
    }

    /// A dedicated one, for isolation. Panics only where the process has no descriptors left.
    pub fn new(name: &str) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            wakeup: Wakeup::new().expect("a pipe for the poller"),
            state: Mutex::new(State { clients: HashMap::new(), last_id: 0, running: false, serving: None }),
            served: Condvar::new(),
            budget_nanos: AtomicU64::new(DEFAULT_BUDGET.as_nanos() as u64),
        })
    }

    /// How long one client may be served in one turn.
    pub fn set_budget(&self, budget: Duration) {
        self.budget_nanos.store(budget.as_nanos() as u64, Ordering::Relaxed);
    }

    pub fn wakeup(&self) -> &Wakeup {
        &self.wakeup
    }

    /// Poller threads alive in this process.
    pub fn threads() -> usize {
        THREADS.get().map_or(0, |threads| threads.load(Ordering::Relaxed))
    }

    /// Takes a client in; `make` gets the id that its tokens must carry.
    pub fn register<S: Source + 'static>(self: &Arc<Self>, make: impl FnOnce(u32) -> Arc<S>) -> Result<Arc<S>, Error> {
        let id = {
            let mut state = lock(&self.state);
            state.last_id += 1;
            state.last_id
        };
        let source = make(id);
        let mut state = lock(&self.state);
        state.clients.insert(id, source.clone());
        if !state.running {
            state.running = true;
            let poller = Arc::clone(self);
            let started = std::thread::Builder::new().name(self.name.clone()).spawn(move || poller.run());
            if let Err(error) = started {
                state.running = false;
                state.clients.remove(&id);
                return Err(Error::from((CRIT_SYS_RESOURCE, format!("no thread for the poller: {error}"))));
            }
            THREADS.get_or_init(AtomicUsize::default).fetch_add(1, Ordering::Relaxed);
        }
        drop(state);
        // Whatever was queued before the signals were switched on.
        self.wake(Token { client: id, queue: u32::MAX });
        Ok(source)
    }

    /// Lets a client go; afterwards it is not being served and never will be.
    pub fn unregister(&self, id: u32) {
        let mut state = lock(&self.state);
        state.clients.remove(&id);
        while state.serving == Some(id) {
            state = self.served.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.wake(Token { client: id, queue: u32::MAX });
    }

    /// Has a queue looked at soon (`u32::MAX`: all queues of the client).
    pub fn wake(&self, token: Token) {
        self.wakeup.signal(token);
    }

    fn run(self: Arc<Self>) {
        let mut ready: VecDeque<(u32, Vec<u32>)> = VecDeque::new();
        let mut tokens = Vec::new();
        let mut safety_round = Instant::now() + SAFETY_ROUND;
        loop {
            let now = Instant::now();
            let timeout = if ready.is_empty() { safety_round.saturating_duration_since(now) } else { Duration::ZERO };
            self.wakeup.wait(timeout, &mut tokens);
            for token in tokens.drain(..) {
                self.note(&mut ready, token);
            }
            if Instant::now() >= safety_round {
                safety_round = Instant::now() + SAFETY_ROUND;
                let ids: Vec<u32> = lock(&self.state).clients.keys().copied().collect();
                for client in ids {
                    self.note(&mut ready, Token { client, queue: u32::MAX });
                }
            }
            // One turn for each client that is ready now; those with work left queue up again behind the others.
            for _ in 0..ready.len() {
                if let Some((id, mut queues)) = ready.pop_front() {
                    self.serve(id, &mut queues);
                    if !queues.is_empty() {
                        ready.push_back((id, queues));
                    }
                }
            }
            let mut state = lock(&self.state);
            if state.clients.is_empty() {
                state.running = false;
                THREADS.get_or_init(AtomicUsize::default).fetch_sub(1, Ordering::Relaxed);
                return;
            }
        }
    }

    fn note(&self, ready: &mut VecDeque<(u32, Vec<u32>)>, token: Token) {
        let index = ready.iter().position(|(id, _)| *id == token.client).unwrap_or_else(|| {
            ready.push_back((token.client, Vec::new()));
            ready.len() - 1
        });
        let queues = &mut ready[index].1;
        if token.queue == u32::MAX {
            let source = lock(&self.state).clients.get(&token.client).cloned();
            if let Some(source) = source {
                source.all_queues(queues);
                queues.sort_unstable();
                queues.dedup();
            }
        } else if !queues.contains(&token.queue) {
            queues.push(token.queue);
        }
    }

    /// One turn of one client. A panic costs that client its turn, not the process its poller.
    fn serve(&self, id: u32, queues: &mut Vec<u32>) {
        let source = {
            let mut state = lock(&self.state);
            let found = state.clients.get(&id).cloned();
            state.serving = found.is_some().then_some(id);
            found
        };
        let Some(source) = source else { return queues.clear() };
        let deadline = Instant::now() + Duration::from_nanos(self.budget_nanos.load(Ordering::Relaxed));
        if catch_unwind(AssertUnwindSafe(|| source.serve(queues, deadline))).is_err() {
            queues.clear();
        }
        // The count goes before `unregister` may return: a client's last reference is never dropped on this thread.
        drop(source);
        lock(&self.state).serving = None;
        self.served.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::Mailbox;
    use crate::wait::{Outcome, Parker};

    /// A client with a number of pieces of work, one of which is done per millisecond of budget.
    struct Flood {
        left: AtomicUsize,
        done: Arc<Mailbox<()>>,
    }

    impl Source for Flood {
        fn serve(&self, queues: &mut Vec<u32>, deadline: Instant) {
            loop {
                if self.left.load(Ordering::SeqCst) == 0 {
                    queues.clear();
                    return self.done.push(());
                }
                self.left.fetch_sub(1, Ordering::SeqCst);
                if Instant::now() >= deadline {
                    return;
                }
            }
        }

        fn all_queues(&self, queues: &mut Vec<u32>) {
            queues.push(0);
        }
    }

    #[test]
    fn a_client_whose_budget_ends_is_not_stranded_and_starves_nobody() {
        let poller = Poller::new("test.poller");
        poller.set_budget(Duration::ZERO);
        let done: Vec<_> = (0..2).map(|_| Arc::new(Mailbox::default())).collect();
        for (index, mailbox) in done.iter().enumerate() {
            let left = AtomicUsize::new(if index == 0 { 200_000 } else { 1 });
            poller.register(|_| Arc::new(Flood { left, done: Arc::clone(mailbox) })).expect("a thread");
        }
        let deadline = Some(Instant::now() + Duration::from_secs(20));
        assert_eq!(Outcome::Ready, done[1].wait(&Parker::new(), deadline));
        assert_eq!(Outcome::Ready, done[0].wait(&Parker::new(), deadline));
    }

    #[test]
    fn the_thread_ends_with_its_last_client_and_comes_back_for_the_next() {
        let poller = Poller::new("test.poller");
        for _ in 0..2_000 {
            let done = Arc::new(Mailbox::default());
            let mut id = 0;
            poller
                .register(|given| {
                    id = given;
                    Arc::new(Flood { left: AtomicUsize::new(1), done: Arc::clone(&done) })
                })
                .map(drop)
                .expect("a thread");
            let deadline = Some(Instant::now() + Duration::from_secs(20));
            assert_eq!(Outcome::Ready, done.wait(&Parker::new(), deadline));
            poller.unregister(id);
        }
    }
}
