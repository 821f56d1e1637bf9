//! The event thread: one native thread that drains the queues of every client registered with it. It starts with its
//! first client and ends with its last. No Ruby, no polling: it sleeps in `poll(2)` on one pipe, into which librdkafka
//! writes the token of each queue that turns from empty to non-empty.
//!
//! Three rules keep a wake-up from being lost:
//! 1. The pipe is emptied *before* the queues are drained.
//! 2. A client whose time budget ended with events left stays on the `ready` list, because no new token would come.
//! 3. Every queue of every client is served once a second. Timers such as the OAuth refresh may not signal. It also
//!    shows librdkafka that the application lives (`max.poll.interval.ms`).

use crate::error::Error;
use crate::events::{self, EventKind, Feed};
use crate::lock;
use crate::rd::{Origin, PerProcess, Token, Wakeup, codes};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A client's share of one turn, unless it is given another.
pub const DEFAULT_MAX_TIME: Duration = Duration::from_millis(100);
const SAFETY_ROUND: Duration = Duration::from_secs(1);
/// Between the rounds of a poller whose pipe is broken: the first pause, doubled up to the safety round.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Gives freed memory back to the system: what has been free for a while, or, with true, all. An allocator does this
/// by itself only while it is used. Called in each safety round, and with true when a poller's last client has gone.
pub static GIVE_BACK_MEMORY: OnceLock<fn(bool)> = OnceLock::new();

/// A client, as the poller sees it.
pub trait Source: Send + Sync {
    /// Drains the queues named in `queues` until they are empty or `deadline` has passed; leaves those with work left.
    /// Runs on the poller's thread; must not block.
    fn serve(&self, queues: &mut Vec<u32>, deadline: Instant);
    /// Adds every queue that the client has: for the safety round, once a second.
    fn all_queues(&self, queues: &mut Vec<u32>);
}

/// A client's poller, and how long one turn may take. More time than others have is a priority.
#[derive(Clone)]
pub struct Polling {
    pub poller: Arc<Poller>,
    pub max_time: Duration,
}

impl From<&Arc<Poller>> for Polling {
    fn from(poller: &Arc<Poller>) -> Self {
        Self { poller: Arc::clone(poller), max_time: DEFAULT_MAX_TIME }
    }
}

#[derive(Clone)]
struct Registered {
    source: Arc<dyn Source>,
    /// The client's name in events.
    name: Arc<str>,
    max_time: Duration,
}

struct PollerState {
    clients: HashMap<u32, Registered>,
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
    state: Mutex<PollerState>,
    /// Signalled when `serving` ends, and to end the pause of a poller whose pipe is broken.
    moved: Condvar,
    /// What its clients report, for one reader.
    events: Arc<Feed>,
    /// `state.clients.len()` and `state.running`, to read without the lock.
    clients: AtomicUsize,
    runs: AtomicBool,
    /// In a forked child, the thread is missing.
    origin: Origin,
}

static SHARED: PerProcess<Arc<Poller>> = PerProcess::new();
/// Poller threads alive in this process.
static THREADS: PerProcess<AtomicUsize> = PerProcess::new();

impl Poller {
    /// The process's own, used by every client that names no other. Fails where the process has no descriptors left.
    pub fn global() -> Result<&'static Arc<Poller>, Error> {
        SHARED.get_or_try_init(|| Poller::new("pelton.poll"))
    }

    /// A dedicated poller. Its thread has this name, cut to the system's limit (Linux: 15 bytes).
    pub fn new(name: &str) -> Result<Arc<Self>, Error> {
        if name.contains('\0') {
            let reason = "a thread's name has no NUL byte".into();
            return Err(Error::Config { key: "poller".into(), value: Some(name.into()), reason });
        }
        let no_pipe = |error: io::Error| {
            Error::from((codes::CRIT_SYS_RESOURCE, format!("cannot create a pipe for the poller: {error}")))
        };
        Ok(Arc::new(Self {
            name: name.into(),
            wakeup: Wakeup::new().map_err(no_pipe)?,
            state: Mutex::new(PollerState { clients: HashMap::new(), last_id: 0, running: false, serving: None }),
            moved: Condvar::new(),
            events: Arc::default(),
            clients: AtomicUsize::new(0),
            runs: AtomicBool::new(false),
            origin: Origin::here(),
        }))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn wakeup(&self) -> &Wakeup {
        &self.wakeup
    }

    /// What its clients report: logs, errors, statistics.
    pub fn events(&self) -> &Arc<Feed> {
        &self.events
    }

    /// Clients that it drains. Takes no lock.
    pub fn clients(&self) -> usize {
        if self.is_foreign() { 0 } else { self.clients.load(Ordering::Relaxed) }
    }

    /// Whether its thread is alive. Takes no lock.
    pub fn is_running(&self) -> bool {
        !self.is_foreign() && self.runs.load(Ordering::Relaxed)
    }

    /// The error for a forked child that uses its parent's poller.
    pub fn check_origin(&self) -> Result<(), Error> {
        self.origin.check()
    }

    /// Whether this is a forked child's view of its parent's poller.
    pub fn is_foreign(&self) -> bool {
        self.origin.is_foreign()
    }

    /// Poller threads alive in this process.
    pub fn threads() -> usize {
        THREADS.get().map_or(0, |threads| threads.load(Ordering::Relaxed))
    }

    /// Takes a client in; `name` is what its events carry, `make` gets the id that its tokens must carry.
    pub fn register<S: Source + 'static>(
        self: &Arc<Self>,
        name: &str,
        max_time: Duration,
        make: impl FnOnce(u32) -> Arc<S>,
    ) -> Result<Arc<S>, Error> {
        self.check_origin()?;
        let id = {
            let mut state = lock(&self.state);
            state.last_id += 1;
            state.last_id
        };
        let source = make(id);
        let mut state = lock(&self.state);
        state.clients.insert(id, Registered { source: source.clone(), name: name.into(), max_time });
        if !state.running {
            let poller = Arc::clone(self);
            let started = std::thread::Builder::new().name(self.name.clone()).spawn(move || poller.run());
            if let Err(error) = started {
                state.clients.remove(&id);
                return Err(Error::from((
                    codes::CRIT_SYS_RESOURCE,
                    format!("cannot start the poller's thread: {error}"),
                )));
            }
            self.note_running(&mut state, true);
        }
        self.clients.store(state.clients.len(), Ordering::Relaxed);
        drop(state);
        // Whatever was queued before the signals were switched on.
        self.wake(Token { client: id, queue: u32::MAX });
        Ok(source)
    }

    /// Lets a client go; afterwards it is not being served and never will be.
    pub fn unregister(&self, id: u32) {
        let mut state = lock(&self.state);
        state.clients.remove(&id);
        self.clients.store(state.clients.len(), Ordering::Relaxed);
        self.moved.notify_all();
        while state.serving == Some(id) {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.wake(Token { client: id, queue: u32::MAX });
    }

    /// Has a queue read soon (`u32::MAX`: all queues of the client).
    pub fn wake(&self, token: Token) {
        self.wakeup.signal(token);
    }

    fn note_running(&self, state: &mut PollerState, running: bool) {
        state.running = running;
        self.runs.store(running, Ordering::Relaxed);
        let threads = THREADS.get_or_init(AtomicUsize::default);
        if running {
            threads.fetch_add(1, Ordering::Relaxed)
        } else {
            threads.fetch_sub(1, Ordering::Relaxed)
        };
    }

    fn run(self: Arc<Self>) {
        let mut ready: VecDeque<(u32, Vec<u32>)> = VecDeque::new();
        let mut tokens = Vec::new();
        let mut safety_round = Instant::now() + SAFETY_ROUND;
        let mut pause = None;
        loop {
            let now = Instant::now();
            let timeout = if ready.is_empty() { safety_round.saturating_duration_since(now) } else { Duration::ZERO };
            match self.wakeup.wait(timeout, &mut tokens) {
                Ok(()) => pause = None,
                Err(error) => {
                    pause = Some(self.pause(&error, pause, !ready.is_empty()));
                    safety_round = Instant::now();
                }
            }
            for token in tokens.drain(..) {
                self.note(&mut ready, token);
            }
            if Instant::now() >= safety_round {
                safety_round = Instant::now() + SAFETY_ROUND;
                let ids: Vec<u32> = lock(&self.state).clients.keys().copied().collect();
                for client in ids {
                    self.note(&mut ready, Token { client, queue: u32::MAX });
                }
                give_back_memory(false);
            }
            // One turn for each client that is ready now. Clients with work left queue up again behind the others.
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
                self.note_running(&mut state, false);
                break;
            }
        }
        give_back_memory(true);
    }

    /// The pipe is broken (other code closed descriptors that it does not own). Reports this to every client once. From
    /// then on, all queues are read after each of these pauses, so everything goes on, but slower. Returns how long
    /// this pause was.
    fn pause(&self, error: &io::Error, last: Option<Duration>, busy: bool) -> Duration {
        let state = lock(&self.state);
        if last.is_none() {
            let reason = format!("the pipe of {} is broken, so its clients are served late: {error}", self.name);
            for client in state.clients.values() {
                self.tell_failure(&client.name, reason.clone());
            }
        }
        let pause = last.map_or(FIRST_PAUSE, |last| (last * 2).min(SAFETY_ROUND));
        if !busy && !state.clients.is_empty() {
            drop(self.moved.wait_timeout(state, pause));
        }
        pause
    }

    fn tell_failure(&self, client: &str, reason: String) {
        events::emit(&self.events, client, EventKind::Error { code: codes::FAIL, reason, fatal: false });
    }

    fn note(&self, ready: &mut VecDeque<(u32, Vec<u32>)>, token: Token) {
        let index = ready.iter().position(|(id, _)| *id == token.client).unwrap_or_else(|| {
            ready.push_back((token.client, Vec::new()));
            ready.len() - 1
        });
        let queues = &mut ready[index].1;
        if token.queue == u32::MAX {
            self.call(token.client, |client| client.source.all_queues(queues));
            queues.sort_unstable();
            queues.dedup();
        } else if !queues.contains(&token.queue) {
            queues.push(token.queue);
        }
    }

    /// One turn of one client.
    fn serve(&self, id: u32, queues: &mut Vec<u32>) {
        let served = self.call(id, |client| client.source.serve(queues, Instant::now() + client.max_time));
        if !served {
            queues.clear();
        }
    }

    /// Calls a client, whose `unregister` waits meanwhile; false where there is none any more. A panic costs that
    /// client its turn (false, too), not the process its poller.
    fn call(&self, id: u32, call: impl FnOnce(&Registered)) -> bool {
        let client = {
            let mut state = lock(&self.state);
            let found = state.clients.get(&id).cloned();
            state.serving = found.is_some().then_some(id);
            found
        };
        let Some(client) = client else { return false };
        let called = catch_unwind(AssertUnwindSafe(|| call(&client))).is_ok();
        if !called {
            self.tell_failure(&client.name, format!("a panic while {} served it", self.name));
        }
        // The count drops before `unregister` may return, so this thread never drops a client's last reference.
        drop(client);
        lock(&self.state).serving = None;
        self.moved.notify_all();
        called
    }
}

fn give_back_memory(all: bool) {
    if let Some(give_back) = GIVE_BACK_MEMORY.get() {
        give_back(all);
    }
}
