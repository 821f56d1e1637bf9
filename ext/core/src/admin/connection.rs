//! A client of an administrator with its queue, and which questions go to which.

use crate::error::Error;
use crate::poller::Poller;
use crate::rd::{Client, ClientKind, Conf, Queue, Request, Token, codes};
use crate::{config, events, wait};
use std::sync::Arc;
use std::time::Duration;

/// Questions to a group's coordinator have a client of their own. librdkafka 2.12 has two bugs there:
///
/// 1. A question that it gave up before the coordinator was there stays in a list. When a broker returns it is sent,
///    its freed state is used, and the process aborts (librdkafka issue 4605: `rd_kafka_enq_once_del_source_return`).
///    So librdkafka is given an hour, we give up in time, and end the client: it never returns to what we gave up.
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

    /// The longest wait for an answer. A question that was given up waits in its client for the others there, all
    /// younger than this: librdkafka's time must not be over by then.
    pub fn patience(self) -> Option<Duration> {
        (self == Self::Coordinator).then_some(LONGEST / 3)
    }
}

pub(super) struct Connection {
    queue: Arc<Queue>,
    /// In the poller's tokens; never used again by another connection of the same administrator.
    queue_id: u32,
    client: Arc<Client>,
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
        Self { queue, queue_id, client }
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
