//! An administrator: changes topics, groups, settings and access rules in Kafka, and reads them. Nothing blocks.
//! Answers come to the event thread, which wakes the threads that wait for them.
//!
//! An administrator has up to two clients (`Connection`). The first request for a client opens it. A client that knows
//! too little or too much (an answer that never came, a leader or coordinator that moved) is retired: it answers its
//! open requests, and ends. See `Side` for the reason, and `Connection::keeps` for when it goes on instead.

mod connection;

use crate::closing::{CALLS_WAIT, Closing};
use crate::error::{Error, KafkaError};
use crate::poller::{Poller, Polling, Source};
use crate::rd::{Answer, Client, Origin, Request, codes};
use crate::wait::{self, Outcome, Parker, Waiters};
use crate::{events, lock};
use connection::{Connection, Question, Side};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// librdkafka answers in time; this only bounds the unthinkable.
const GRACE: Duration = Duration::from_secs(1);

/// A question and what became of it; as many may wait as like, as often as they like.
#[derive(Default)]
pub struct Call {
    id: usize,
    /// Of its connection.
    queue: u32,
    /// If a coordinator is to answer.
    question: Option<Question>,
    /// Set once, before `done`.
    answer: Mutex<Option<Result<Answer, KafkaError>>>,
    done: AtomicBool,
    pub waiters: Waiters,
}

impl Call {
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::SeqCst)
    }

    pub fn answer(&self) -> Option<Result<Answer, KafkaError>> {
        lock(&self.answer).clone()
    }

    /// Parks the calling thread until the answer arrives.
    pub fn wait(&self, parker: &Arc<Parker>, deadline: Option<Instant>) -> Outcome {
        self.waiters.wait(parker, deadline, || self.is_done())
    }

    fn resolve(&self, answer: Result<Answer, KafkaError>) {
        *lock(&self.answer) = Some(answer);
        self.done.store(true, Ordering::SeqCst);
        self.waiters.wake_all();
    }
}

#[derive(Default)]
struct AdminState {
    /// The client of the next request; `None` until one is opened.
    open: [Option<Connection>; Side::COUNT],
    /// Those that still have to answer something.
    retired: Vec<Connection>,
    /// Those without an answer, by the id that librdkafka brings back.
    calls: HashMap<usize, Arc<Call>>,
}

impl AdminState {
    fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.open.iter().flatten().chain(&self.retired)
    }

    /// Retires the connections that `which` selects. Returns those without open requests, which the caller must end.
    fn retire(&mut self, which: impl Fn(&Connection) -> bool) -> Vec<Connection> {
        for slot in &mut self.open {
            if slot.as_ref().is_some_and(&which) {
                self.retired.extend(slot.take());
            }
        }
        self.unused()
    }

    /// Returns the connections to end.
    fn give_up(&mut self, call: &Call) -> Vec<Connection> {
        let Some(question) = &call.question else { return Vec::new() };
        let open = self.open.iter_mut().flatten().find(|one| one.queue_id() == call.queue);
        if open.is_some_and(|one| one.keeps(call.id, question)) {
            return Vec::new();
        }
        self.retire(|one| one.queue_id() == call.queue)
    }

    /// Takes the call that an answer on this queue is for, if anything still waits for it.
    fn answered(&mut self, queue: u32, id: usize, is_ok: bool) -> (Option<Arc<Call>>, Vec<Connection>) {
        let call = self.calls.remove(&id);
        if let Some(open) = self.open.iter_mut().flatten().find(|one| one.queue_id() == queue) {
            open.hear(id, call.as_ref().and_then(|call| call.question.as_ref()), is_ok);
        }
        (call, self.unused())
    }

    fn unused(&mut self) -> Vec<Connection> {
        let calls = &self.calls;
        let used = |one: &Connection| calls.values().any(|call| call.queue == one.queue_id());
        let (kept, unused) = std::mem::take(&mut self.retired).into_iter().partition(used);
        self.retired = kept;
        unused
    }
}

pub struct Admin {
    name: String,
    /// librdkafka's.
    options: Vec<(String, String)>,
    poller: Arc<Poller>,
    id: u32,
    state: Mutex<AdminState>,
    /// Held while a connection is opened, which takes milliseconds.
    opening: Mutex<()>,
    last_call: AtomicUsize,
    last_queue: AtomicU32,
    /// Why no broker answers, if librdkafka said so.
    last_error: Mutex<Option<KafkaError>>,
    closing: Arc<Closing>,
    /// A forked child takes none of these locks.
    origin: Origin,
}

impl Admin {
    /// `options` are librdkafka's. Connects in the background.
    pub fn new<'a>(
        name: &str,
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
        polling: impl Into<Polling>,
    ) -> Result<Arc<Self>, Error> {
        let Polling { poller, max_time } = polling.into();
        let options: Vec<_> = options.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let first = Connection::client(None, &options)?;
        let admin = poller.register(name, max_time, |id| {
            Arc::new(Self {
                name: name.into(),
                options,
                poller: Arc::clone(&poller),
                id,
                state: Mutex::default(),
                opening: Mutex::default(),
                last_call: AtomicUsize::new(0),
                last_queue: AtomicU32::new(0),
                last_error: Mutex::default(),
                closing: Arc::default(),
                origin: Origin::here(),
            })
        })?;
        admin.put(Side::Cluster, first)?;
        Ok(admin)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Calls librdkafka briefly for each client, and returns the last result.
    pub fn with_clients<R>(&self, mut call: impl FnMut(&Arc<Client>) -> R) -> Result<R, Error> {
        self.open(None)?;
        let clients: Vec<_> = self.alive()?.connections().map(|one| Arc::clone(one.handle())).collect();
        clients.iter().map(&mut call).last().ok_or(Error::Closed)
    }

    fn alive(&self) -> Result<MutexGuard<'_, AdminState>, Error> {
        self.origin.check()?;
        let state = lock(&self.state);
        if self.closing.started() { Err(Error::Closed) } else { Ok(state) }
    }

    /// Makes a client for this question where there is none, which blocks for milliseconds.
    pub fn prepare(&self, request: &Request) -> Result<(), Error> {
        self.open(request.coordinated())
    }

    /// Whether there is nothing to `prepare`.
    pub fn is_prepared(&self, request: &Request) -> bool {
        self.alive().is_ok_and(|state| state.open[Side::of(request).index()].is_some())
    }

    /// With a client for this question, which may have been retired right after it was opened.
    fn prepared(&self, request: &Request) -> Result<MutexGuard<'_, AdminState>, Error> {
        loop {
            self.prepare(request)?;
            let state = self.alive()?;
            if state.open[Side::of(request).index()].is_some() {
                return Ok(state);
            }
        }
    }

    fn open(&self, group: Option<&str>) -> Result<(), Error> {
        let side = if group.is_some() { Side::Coordinator } else { Side::Cluster };
        if self.alive()?.open[side.index()].is_some() {
            return Ok(());
        }
        let _one = lock(&self.opening);
        if self.alive()?.open[side.index()].is_some() {
            return Ok(());
        }
        self.put(side, Connection::client(group, &self.options)?)
    }

    fn put(&self, side: Side, client: Arc<Client>) -> Result<(), Error> {
        let queue = self.last_queue.fetch_add(1, Ordering::Relaxed) + 1;
        let connection = Connection::new(client, &self.poller, self.id, queue);
        let mut state = self.alive()?;
        state.open[side.index()] = Some(connection);
        Ok(())
    }

    /// Sends a request. Wait for the answer until `deadline`, and call `give_up` if none came by then.
    pub fn ask(&self, request: &Request, timeout: Duration) -> Result<Arc<Call>, Error> {
        let side = Side::of(request);
        let mut state = self.prepared(request)?;
        let Some(connection) = &state.open[side.index()] else { return Err(Error::Closed) };
        let id = self.last_call.fetch_add(1, Ordering::Relaxed) + 1;
        let question = Question::of(request);
        let call = Arc::new(Call { id, queue: connection.queue_id(), question, ..Call::default() });
        connection.ask(request, id, side.librdkafkas(timeout))?;
        state.calls.insert(id, Arc::clone(&call));
        Ok(call)
    }

    /// Until when to wait for the answer to this question.
    pub fn deadline(request: &Request, timeout: Duration) -> Option<Instant> {
        let ours = match Side::of(request).patience() {
            Some(longest) => timeout.min(longest),
            None => timeout.checked_add(GRACE)?,
        };
        Instant::now().checked_add(ours)
    }

    /// What to ask before this change. The client may not know the group's coordinator yet. Then the change would be
    /// sent when it does, perhaps long after it was given up.
    pub fn question_before(&self, request: &Request) -> Option<Request> {
        let group = request.coordinated().filter(|_| request.changes())?;
        let state = lock(&self.state);
        let open = state.open[Side::Coordinator.index()].as_ref();
        (!open.is_some_and(|one| one.has_heard_of(group))).then(|| Request::GroupOffsets(group.into()))
    }

    /// Stops waiting for the answer, and returns it if it is there by now. A request to a coordinator that is still
    /// unanswered may cost its client (`Side`).
    pub fn give_up(&self, call: &Call) -> Result<Answer, KafkaError> {
        let unused = {
            let mut state = lock(&self.state);
            if state.calls.remove(&call.id).is_none() {
                drop(state);
                return call.answer().unwrap_or_else(|| Err(KafkaError::new(codes::DESTROY)));
            }
            state.give_up(call)
        };
        unused.into_iter().for_each(Connection::end_aside);
        Err(self.late())
    }

    /// No answer came in time.
    pub fn late(&self) -> KafkaError {
        self.explained(codes::TIMED_OUT, "Kafka did not answer in time")
    }

    /// Forgets which broker leads a partition or coordinates a group, because librdkafka keeps what it knew for
    /// minutes. So the next request goes to a new client.
    pub fn renew(&self) -> Result<(), Error> {
        let unused = self.alive()?.retire(|_| true);
        unused.into_iter().for_each(Connection::end_aside);
        Ok(())
    }

    /// The names of all topics. Blocks up to the time given.
    pub fn topics(&self, timeout: Duration) -> Result<Vec<String>, Error> {
        self.open(None)?;
        let client = self.alive()?.open[Side::Cluster.index()].as_ref().map(|one| Arc::clone(one.handle()));
        let answer = client.ok_or(Error::Closed)?.metadata(None, wait::millis(timeout));
        let (_, topics) = answer.map_err(|code| Error::Kafka(self.explained(code, "")))?;
        Ok(topics.into_iter().map(|(name, _)| name).collect())
    }

    /// The error of an unanswered request, with the reason if there is one.
    fn explained(&self, code: i32, reason: &str) -> KafkaError {
        let mut error = KafkaError::with_reason(code, reason.into());
        let unanswered = matches!(code, codes::TIMED_OUT | codes::TRANSPORT);
        if let Some(last) = lock(&self.last_error).as_ref().filter(|_| unanswered) {
            error.reason = format!("{}; last error: {}", error.reason, last.reason);
        }
        error
    }

    /// Whether this is a forked child's view of its parent's.
    pub fn is_foreign(&self) -> bool {
        self.origin.is_foreign()
    }

    pub fn closing(&self) -> &Arc<Closing> {
        &self.closing
    }

    /// Starts closing; waiting calls get an error. Idempotent. Wait with `closing()`.
    pub fn close(self: &Arc<Self>) -> Result<(), Error> {
        self.origin.check()?;
        let admin = Arc::clone(self);
        self.closing.start(move || admin.end());
        Ok(())
    }

    /// On the closing thread.
    fn end(&self) -> usize {
        self.poller.unregister(self.id);
        let (connections, calls) = {
            let mut state = lock(&self.state);
            let retired = std::mem::take(&mut state.retired);
            let open = state.open.iter_mut().filter_map(Option::take);
            let connections: Vec<_> = open.chain(retired).collect();
            (connections, std::mem::take(&mut state.calls))
        };
        for call in calls.into_values() {
            call.resolve(Err(KafkaError::new(codes::DESTROY)));
        }
        connections.into_iter().for_each(|one| one.end(CALLS_WAIT));
        0
    }

    /// Retires clients whose oldest question that was given up is too old (`Connection::is_overdue`). `now`: for tests.
    pub fn retire_overdue(&self, now: Instant) {
        let unused = lock(&self.state).retire(|one| one.is_overdue(now));
        unused.into_iter().for_each(Connection::end_aside);
    }

    /// True when the connection's queue is empty.
    fn serve_queue(&self, queue_id: u32, queue: &crate::rd::Queue, deadline: Instant) -> bool {
        while let Some(event) = queue.poll() {
            match event.answer() {
                Some((id, answer)) => {
                    if answer.is_ok() {
                        *lock(&self.last_error) = None;
                    }
                    let (call, unused) = lock(&self.state).answered(queue_id, id, answer.is_ok());
                    // Otherwise it was given up, or the administrator was closed.
                    if let Some(call) = call {
                        call.resolve(answer.map_err(|(code, reason)| self.explained(code, &reason)));
                    }
                    unused.into_iter().for_each(Connection::end_aside);
                }
                None => events::emit_and_keep(self.poller.events(), &self.name, &event, &self.last_error),
            }
            if Instant::now() >= deadline {
                return false;
            }
        }
        true
    }
}

impl Source for Admin {
    fn serve(&self, queues: &mut Vec<u32>, deadline: Instant) {
        queues.retain(|id| {
            let queue = lock(&self.state).connections().find(|one| one.queue_id() == *id).map(Connection::queue);
            queue.is_some_and(|queue| !self.serve_queue(*id, &queue, deadline))
        });
    }

    /// Once a second, so overdue connections are retired here.
    fn all_queues(&self, queues: &mut Vec<u32>) {
        self.retire_overdue(Instant::now());
        queues.extend(lock(&self.state).connections().map(Connection::queue_id));
    }
}
