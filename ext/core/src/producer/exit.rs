//! The end of the process. By then no Ruby thread produces. So this flushes everything that is left: the last messages
//! of threads and `at_exit` handlers, and those of producers that were garbage collected.

use super::{PURGE_WAIT, Producer};
use crate::error::{Error, KafkaError};
use crate::lock;
use crate::rd::{PerProcess, codes};
use crate::wait::{Outcome, Parker};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// How long to ask Kafka which of a producer's topics exist.
const ASK: Duration = Duration::from_secs(3);

/// Producers of this process that are flushed at its end.
static OPEN: PerProcess<Mutex<Vec<Weak<Producer>>>> = PerProcess::new();

/// How a producer ends with the process: how long it still waits for its messages, out of how much time in all, and
/// whether it reports lost ones.
#[derive(Debug, Clone, Copy)]
pub struct Exit {
    pub left: Duration,
    pub limit: Duration,
    pub silent: bool,
}

/// What was lost at process exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// `count` messages of a topic failed, for this reason. `late`: they were not sent within that time.
    Messages { client: String, topic: String, count: u64, error: KafkaError, late: Option<Duration> },
    /// A transaction was open, and is aborted.
    Transaction { client: String },
}

struct Ending {
    producer: Arc<Producer>,
    exit: Exit,
    deadline: Instant,
    /// Failures from before.
    before: BTreeMap<(Arc<str>, i32), u64>,
    aborted: bool,
}

impl Producer {
    /// From now on, process exit waits for pending messages and reports those that were not delivered.
    pub fn end_with_process(&self, exit: Exit) {
        if lock(&self.exit).replace(exit).is_none() {
            let mut open = lock(OPEN.get_or_init(Mutex::default));
            open.retain(|one| one.strong_count() > 0);
            open.push(Weak::clone(&self.me));
        }
    }

    fn ending(self: Arc<Self>, now: Instant) -> Option<Ending> {
        let exit = (*lock(&self.exit)).filter(|_| !self.closing.done())?;
        let open = self.transactions.is_open();
        (open || !self.is_flushed()).then(|| Ending {
            exit,
            deadline: now + exit.left,
            before: self.publisher.failures(),
            aborted: open,
            producer: self,
        })
    }
}

impl Ending {
    fn start(&self) {
        if self.aborted
            && let Ok(client) = self.producer.client()
        {
            self.producer.abort_abandoned(&client, Some(self.deadline));
        }
        // Without a thread for it, the linger just ends later.
        let _ = self.producer.start_flush(self.exit.left);
    }

    /// Waits for pending messages, gives up the rest, and returns what was lost.
    fn finish(&self) -> Vec<Loss> {
        let parker = Parker::new();
        if self.producer.wait_flushed(&parker, Some(self.deadline)) != Outcome::Ready {
            let _ = self.producer.purge();
            self.producer.wait_flushed(&parker, Some(Instant::now() + PURGE_WAIT));
        }
        if self.exit.silent {
            return Vec::new();
        }
        let client = self.producer.name().to_string();
        let mut losses: Vec<Loss> = self.failures().collect();
        if self.aborted {
            losses.push(Loss::Transaction { client });
        }
        losses
    }

    /// Why the messages could not be sent in time, if anything is known.
    fn reason(&self, topic: &str, deadline: Instant) -> Option<KafkaError> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.producer.last_error().or_else(|| match self.producer.partition_count(topic, left) {
            Err(Error::Kafka(error)) => Some(error),
            _ => None,
        })
    }

    fn failures(&self) -> impl Iterator<Item = Loss> + '_ {
        let deadline = Instant::now() + ASK;
        self.producer.publisher.failures().into_iter().filter_map(move |((topic, code), count)| {
            let before = self.before.get(&(Arc::clone(&topic), code)).copied().unwrap_or(0);
            let late = matches!(code, codes::PURGE_QUEUE | codes::PURGE_INFLIGHT);
            let why = if late { self.reason(&topic, deadline) } else { None };
            (count > before).then(|| Loss::Messages {
                client: self.producer.name().to_string(),
                topic: topic.to_string(),
                count: count - before,
                error: why.unwrap_or_else(|| KafkaError::new(code)),
                late: late.then_some(self.exit.limit),
            })
        })
    }
}

/// Flushes all producers, beside each other, each within its budget. Blocks.
pub fn finish() -> Vec<Loss> {
    let now = Instant::now();
    let open: Vec<_> = OPEN.get().map(|open| lock(open).iter().filter_map(Weak::upgrade).collect()).unwrap_or_default();
    let endings: Vec<_> = open.into_iter().filter_map(|producer: Arc<Producer>| producer.ending(now)).collect();
    endings.iter().for_each(Ending::start);
    endings.iter().flat_map(Ending::finish).collect()
}
