//! An administrator: asks Kafka for changes of topics, groups, settings, and rules, and what they are. Nothing blocks:
//! answers come to the event thread, which wakes whoever waits for them.

use crate::closing::{CALLS_WAIT, Closing};
use crate::error::{Error, KafkaError};
use crate::poller::{Poller, Polling, Source};
use crate::rd::{Answer, Client, ClientKind, Queue, Request, Token, codes, generation};
use crate::wait::{Outcome, Parker, Waiters};
use crate::{config, events, lock};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MAIN_QUEUE: u32 = 0;

/// A question and what became of it; as many may wait as like, as often as they like.
#[derive(Default)]
pub struct Call {
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

    /// Parks the calling thread until the answer is there.
    pub fn wait(&self, parker: &Arc<Parker>, deadline: Option<Instant>) -> Outcome {
        self.waiters.wait(parker, deadline, || self.is_done())
    }

    fn resolve(&self, answer: Result<Answer, KafkaError>) {
        *lock(&self.answer) = Some(answer);
        self.done.store(true, Ordering::SeqCst);
        self.waiters.wake_all();
    }
}

struct Live {
    client: Arc<Client>,
    queue: Arc<Queue>,
}

pub struct Admin {
    name: String,
    poller: Arc<Poller>,
    id: u32,
    /// Emptied when closed.
    live: Mutex<Option<Live>>,
    /// Those without an answer, by the id that librdkafka brings back.
    calls: Mutex<HashMap<usize, Arc<Call>>>,
    last_call: AtomicUsize,
    /// Why nobody answers, as far as librdkafka said.
    last_error: Mutex<Option<KafkaError>>,
    closing: Arc<Closing>,
    /// Fork generation; a child takes none of these locks.
    made_in: u64,
}

impl Admin {
    /// `options` are librdkafka's. Connects in the background.
    pub fn new<'a>(
        name: &str,
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
        polling: impl Into<Polling>,
    ) -> Result<Arc<Self>, Error> {
        let Polling { poller, max_time } = polling.into();
        let mut conf = config::build(options)?;
        conf.set("log.queue", "true").map_err(|reason| Error::from((codes::INVALID_ARG, reason)))?;
        conf.set_events(events::COMMON);
        let client = Client::new(ClientKind::Producer, conf).map_err(config::refused)?;
        let queue = Arc::new(Queue::main(&client));
        client.logs_to(&queue);
        poller.register(name, max_time, |id| {
            queue.signal(poller.wakeup(), Token { client: id, queue: MAIN_QUEUE });
            Arc::new(Self {
                name: name.into(),
                poller: Arc::clone(&poller),
                id,
                live: Mutex::new(Some(Live { client, queue })),
                calls: Mutex::default(),
                last_call: AtomicUsize::new(0),
                last_error: Mutex::default(),
                closing: Arc::default(),
                made_in: generation(),
            })
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Calls librdkafka in passing.
    pub fn with_client<R>(&self, call: impl FnOnce(&Arc<Client>) -> R) -> Result<R, Error> {
        self.with_live(|live| call(&live.client))
    }

    fn with_live<R>(&self, call: impl FnOnce(&Live) -> R) -> Result<R, Error> {
        if self.is_foreign() {
            return Err(Error::forked(self.made_in));
        }
        lock(&self.live).as_ref().filter(|_| !self.closing.started()).map(call).ok_or(Error::Closed)
    }

    /// Asks; librdkafka itself answers with an error when Kafka has not within the time given.
    pub fn ask(&self, request: &Request, timeout: Duration) -> Result<Arc<Call>, Error> {
        self.with_live(|live| {
            let id = self.last_call.fetch_add(1, Ordering::Relaxed) + 1;
            let call = Arc::new(Call::default());
            lock(&self.calls).insert(id, Arc::clone(&call));
            let millis = timeout.as_millis().min(i32::MAX as u128) as i32;
            let asked = live.client.ask(request, id, millis, &live.queue);
            if let Err(error) = asked {
                lock(&self.calls).remove(&id);
                return Err(Error::from(error));
            }
            Ok(call)
        })?
    }

    /// The names of all topics. Blocks up to the time given.
    pub fn topics(&self, timeout: Duration) -> Result<Vec<String>, Error> {
        let client = self.with_client(Arc::clone)?;
        let millis = timeout.as_millis().min(i32::MAX as u128) as i32;
        let (_, topics) = client.metadata(None, millis).map_err(|code| Error::Kafka(self.explained(code, "")))?;
        Ok(topics.into_iter().map(|(name, _)| name).collect())
    }

    /// Where nobody answered: with the reason, if there is one.
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
        self.made_in != generation()
    }

    pub fn closing(&self) -> &Arc<Closing> {
        &self.closing
    }

    /// Starts closing; whoever waits for an answer is told. Idempotent; wait with `closing()`.
    pub fn close(self: &Arc<Self>) -> Result<(), Error> {
        if self.is_foreign() {
            return Err(Error::forked(self.made_in));
        }
        let admin = Arc::clone(self);
        self.closing.start(move || admin.end());
        Ok(())
    }

    /// On the closing thread.
    fn end(&self) -> usize {
        self.poller.unregister(self.id);
        let Some(Live { client, queue }) = lock(&self.live).take() else { return 0 };
        queue.unsignal();
        drop(queue);
        let open: Vec<_> = lock(&self.calls).drain().collect();
        for (_, call) in open {
            call.resolve(Err(KafkaError::new(codes::DESTROY)));
        }
        Client::end(client, CALLS_WAIT);
        0
    }
}

impl Source for Admin {
    fn serve(&self, queues: &mut Vec<u32>, deadline: Instant) {
        let queue = lock(&self.live).as_ref().map(|live| Arc::clone(&live.queue));
        let Some(queue) = queue else { return queues.clear() };
        while let Some(event) = queue.poll() {
            match event.answer() {
                Some((id, answer)) => {
                    if answer.is_ok() {
                        *lock(&self.last_error) = None;
                    }
                    let call = lock(&self.calls).remove(&id);
                    // Nobody's: it was closed.
                    if let Some(call) = call {
                        call.resolve(answer.map_err(|(code, reason)| self.explained(code, &reason)));
                    }
                }
                None => events::emit_and_keep(self.poller.events(), &self.name, &event, &self.last_error),
            }
            if Instant::now() >= deadline {
                return;
            }
        }
        queues.clear();
    }

    fn all_queues(&self, queues: &mut Vec<u32>) {
        queues.push(MAIN_QUEUE);
    }
}
