//! A client of an administrator with its queue, and which questions go to which.

use crate::error::Error;
use crate::poller::Poller;
use crate::rd::{Client, ClientKind, Conf, Queue, Request, Token, codes};
use crate::{config, events, wait};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Questions to a group's coordinator have a client of their own. librdkafka 2.12 has two bugs there:
///
/// 1. A question that it gave up before the coordinator was there stays in a list. When a broker returns it is sent,
///    its freed state is used, and the process aborts (librdkafka issue 4605: `rd_kafka_enq_once_del_source_return`).
///    So librdkafka is given an hour, we give up in time, and end the client within that hour (`Connection::keeps`).
/// 2. An answer that the coordinator moved is passed to the client's own group, which a producer does not have (issue
///    5040). So it is a consumer with a group, which it never joins: the first one that it is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Cluster,
    Coordinator,
}

/// librdkafka's own limit.
const LONGEST: Duration = Duration::from_secs(3600);

impl Side {
    pub const COUNT: usize = 2;

    pub fn of(request: &Request) -> Self {
        if request.coordinated().is_some() { Self::Coordinator } else { Self::Cluster }
    }

    pub fn index(self) -> usize {
        self as usize
    }

    /// After how long librdkafka is to give up.
    pub fn librdkafkas(self, timeout: Duration) -> Duration {
        if self == Self::Coordinator { LONGEST } else { timeout }
    }

    /// The longest wait for an answer. A question that was given up waits in a retired client for the others there, all
    /// younger than this: librdkafka's time must not be over by then (`LONGEST_KEPT`).
    pub fn patience(self) -> Option<Duration> {
        (self == Self::Coordinator).then_some(LONGEST / 3)
    }
}

/// A client is retired once its oldest question that was given up is this old.
const LONGEST_KEPT: Duration = Duration::from_secs(1800);
/// Questions that were given up, and that a client may still send.
const MOST_KEPT: usize = 64;
/// Groups that a client remembers to have answered for.
const MOST_HEARD: usize = 10_000;
/// Milliseconds between two attempts to connect, unless the user says otherwise. librdkafka's own 10 s are long for
/// questions that take one.
const RECONNECT: (&str, &str) = ("reconnect.backoff.max.ms", "1000");

/// A question to a coordinator that may be given up.
#[derive(Clone)]
pub(super) struct Question {
    group: String,
    asked: Instant,
    /// A change must not happen long after it was given up.
    changes: bool,
}

impl Question {
    pub fn of(request: &Request) -> Option<Self> {
        let group = request.coordinated()?.to_owned();
        Some(Self { group, asked: Instant::now(), changes: request.changes() })
    }
}

pub(super) struct Connection {
    queue: Arc<Queue>,
    /// In the poller's tokens; never used again by another connection of the same administrator.
    queue_id: u32,
    client: Arc<Client>,
    /// Groups whose coordinator it found, and which answered.
    heard: HashSet<String>,
    /// Questions that were given up, by their ids. Answers that still come are dropped.
    given_up: HashMap<usize, Question>,
}

impl Connection {
    /// Starts a client, for a group's coordinator or the cluster, which takes milliseconds.
    pub fn client(group: Option<&str>, options: &[(String, String)]) -> Result<Arc<Client>, Error> {
        let given = options.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let (kind, mut conf) = match group {
            None => (ClientKind::Producer, config::build(given)?),
            // Of the user's options those of every client: others may not go together, or say how to join.
            Some(group) => {
                let known = Conf::properties();
                let common = |name: &str| {
                    // librdkafka refuses a low receive.message.max.bytes without a low fetch.max.bytes.
                    name == "fetch.max.bytes" || known.iter().any(|one| one.name == name && one.is_common())
                };
                let mut conf = config::build(given.filter(|(key, _)| common(key)))?;
                conf.set("group.id", group).map_err(|reason| Error::from((codes::INVALID_ARG, reason)))?;
                if !options.iter().any(|(key, _)| key.as_str() == RECONNECT.0) {
                    conf.set(RECONNECT.0, RECONNECT.1).map_err(|reason| Error::from((codes::INVALID_ARG, reason)))?;
                }
                (ClientKind::Consumer, conf)
            }
        };
        conf.set("log.queue", "true").map_err(|reason| Error::from((codes::INVALID_ARG, reason)))?;
        conf.set_events(events::COMMON);
        Client::new(kind, conf).map_err(config::refused)
    }

    pub fn new(client: Arc<Client>, poller: &Poller, owner: u32, queue_id: u32) -> Self {
        let queue = Arc::new(Queue::main(&client));
        client.logs_to(&queue);
        queue.signal(poller.wakeup(), Token { client: owner, queue: queue_id });
        Self { queue, queue_id, client, heard: HashSet::new(), given_up: HashMap::new() }
    }

    pub fn queue_id(&self) -> u32 {
        self.queue_id
    }

    pub fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }

    pub fn handle(&self) -> &Arc<Client> {
        &self.client
    }

    pub fn ask(&self, request: &Request, id: usize, timeout: Duration) -> Result<(), Error> {
        Ok(self.client.ask(request, id, wait::millis(timeout), &self.queue)?)
    }

    /// Whether its client goes on after this question of it was given up. A client that has not answered for the group
    /// yet may still be connecting, or looking for the coordinator. If it were replaced, a time that is shorter than
    /// both would never be enough. One that answered before, and is silent now, may have lost its connection.
    pub fn keeps(&mut self, id: usize, question: &Question) -> bool {
        if question.changes || self.heard.contains(&question.group) || self.given_up.len() >= MOST_KEPT {
            return false;
        }
        self.given_up.insert(id, question.clone());
        true
    }

    /// An answer came to this question, in time or too late.
    pub fn hear(&mut self, id: usize, question: Option<&Question>, is_ok: bool) {
        let late = self.given_up.remove(&id);
        let Some(question) = question.or(late.as_ref()).filter(|_| is_ok) else { return };
        if self.heard.len() >= MOST_HEARD {
            self.heard.clear();
        }
        self.heard.insert(question.group.clone());
    }

    pub fn has_heard_of(&self, group: &str) -> bool {
        self.heard.contains(group)
    }

    /// Whether librdkafka's time for a question that was given up comes near.
    pub fn is_overdue(&self, now: Instant) -> bool {
        self.given_up.values().any(|one| now.saturating_duration_since(one.asked) > LONGEST_KEPT)
    }

    /// Blocks (`Client::end`).
    pub fn end(self, patience: Duration) {
        let client = self.close();
        Client::end(client, patience);
    }

    pub fn end_aside(self) {
        let client = self.close();
        Client::end_aside(client);
    }

    fn close(self) -> Arc<Client> {
        self.queue.unsignal();
        self.client
    }
}
