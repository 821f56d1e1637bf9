//! Messages as Ruby gives them: the arguments of one, and the Hashes of a batch.

use crate::gvl::TimeSlice;
use crate::room::{named, wait_for_room};
use crate::{convert, error, value};
use magnus::r_hash::ForEach;
use magnus::rb_sys::AsRawValue;
use magnus::value::ReprValue;
use magnus::{Error, RArray, RHash, Ruby, Value};
use pelton_core::delivery::Delivery;
use pelton_core::error::Error as CoreError;
use pelton_core::producer::{Outgoing, Producer};
use pelton_core::rd::codes;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// One message's arguments, as Ruby gave them.
#[derive(Clone, Copy)]
pub struct MessageRow {
    pub topic: Value,
    pub payload: Value,
    pub key: Value,
    pub partition: Value,
    pub timestamp: Value,
    pub headers: Value,
}

impl MessageRow {
    /// Whether lending it makes no Ruby object: reading some Times does.
    fn is_plain(&self) -> bool {
        self.timestamp.is_nil() || magnus::Integer::from_value(self.timestamp).is_some()
    }

    /// Checks everything and lends it to the core. `call` must not call Ruby.
    pub fn lend<R>(&self, ruby: &Ruby, call: impl FnOnce(Outgoing<'_>) -> R) -> Result<R, Error> {
        // First what Ruby runs for: headers, which are copied, and a Time.
        let headers = convert::headers(ruby, self.headers)?;
        let timestamp = convert::timestamp(ruby, self.timestamp)?;
        let topic = convert::topic(ruby, &self.topic)?;
        let payload = convert::optional_bytes(ruby, "payload", &self.payload)?;
        let key = convert::optional_bytes(ruby, "key", &self.key)?;
        let partition = convert::partition(ruby, self.partition)?;
        Ok(call(Outgoing { topic, payload, key, partition, timestamp, headers }))
    }
}

const COLUMNS: [&str; 8] = ["topic", "payload", "key", "partition", "timestamp", "headers", "partition_key", "label"];
/// Their Symbols, which are static ones: never collected, never moved. Filled at Init. A Ractor that created them later
/// could be stopped by another Ractor's collection while a third one waits for them. That third one would never stop
/// for the collection.
static SYMBOLS: OnceLock<[u64; COLUMNS.len()]> = OnceLock::new();
const EXPECTED: &str = "a Hash of topic:, payload: and, if wanted, key:, partition:, partition_key:, timestamp:, headers: \
                        and label:";

/// Once, at Init.
pub fn set_up(ruby: &Ruby) {
    let _ = SYMBOLS.set(COLUMNS.map(|name| ruby.sym_new(name).as_raw()));
}

/// A message of a batch; `None` if Ruby must handle it first. Creates no Ruby object.
pub fn row(ruby: &Ruby, row: Value) -> Result<Option<MessageRow>, Error> {
    let columns = RHash::from_value(row).ok_or_else(|| error::invalid(ruby, "message", row, EXPECTED))?;
    let symbols = SYMBOLS.get().expect("set up at Init");
    let mut given = [None; COLUMNS.len()];
    columns.foreach(|name: Value, value: Value| {
        match symbols.iter().position(|symbol| *symbol == name.as_raw()) {
            Some(column) => given[column] = Some(value),
            None => return Err(error::invalid(ruby, "message", name, EXPECTED)),
        }
        Ok(ForEach::Continue)
    })?;
    let nil = ruby.qnil().as_value();
    let [Some(topic), Some(payload), key, partition, timestamp, headers, partition_key, label] = given else {
        return Err(error::invalid(ruby, "message", row, EXPECTED));
    };
    if [partition_key, label].into_iter().flatten().any(|column| !column.is_nil()) {
        return Ok(None);
    }
    let [key, partition, timestamp, headers] = [key, partition, timestamp, headers].map(|column| column.unwrap_or(nil));
    Ok(Some(MessageRow { topic, payload, key, partition, timestamp, headers }))
}

/// The messages of a batch. All of them are checked before the first is sent.
pub struct Rows {
    rows: RArray,
    topics: Vec<Arc<str>>,
    /// As they were when checked. Neither marked nor pinned: valid until Ruby runs again. Ruby runs in a wait, in a
    /// block, for some Times, and while other threads have their turn.
    given: Vec<MessageRow>,
}

impl Rows {
    pub fn check(ruby: &Ruby, rows: RArray, producer: &Producer) -> Result<Option<Self>, Error> {
        let count = value::length(rows);
        let (mut topics, mut given) = (Vec::<Arc<str>>::with_capacity(count), Vec::with_capacity(count));
        let (mut plain, mut turns) = (true, TimeSlice::new());
        for index in 0..count {
            if turns.step(ruby)? {
                plain = false;
            }
            let one = row(ruby, value::element(rows, index)).map_err(|error| error::at(error, index))?;
            let Some(one) = one else { return Ok(None) };
            let topic = one.lend(ruby, |message| match topics.last() {
                Some(last) if **last == *message.topic => Ok(Arc::clone(last)),
                _ => producer.topic(message.topic),
            });
            let topic = topic.map_err(|error| error::at(error, index))?;
            topics.push(topic.map_err(|error| error::at(error::ruby(ruby, &named(producer), error), index))?);
            plain &= one.is_plain();
            if plain {
                given.push(one);
            }
        }
        let mut found = Self { rows, topics, given };
        if !plain {
            found.forget();
        }
        Ok(Some(found))
    }

    /// Call this when Ruby runs: from then on the messages are read again.
    pub fn forget(&mut self) {
        self.given = Vec::new();
    }

    pub fn take_topics(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.topics)
    }

    /// The message as it is now.
    fn get(&self, ruby: &Ruby, index: usize) -> Result<MessageRow, Error> {
        match self.given.get(index) {
            Some(given) => Ok(*given),
            // Has it got a label meanwhile?
            None => row(ruby, value::element(self.rows, index))?
                .ok_or_else(|| error::plain(ruby, "the messages changed during the call")),
        }
    }

    /// Sends one message, or marks it as refused. False: the queue stayed full until the deadline.
    pub fn send(
        &mut self,
        ruby: &Ruby,
        this: Value,
        producer: &Arc<Producer>,
        index: usize,
        delivery: &Delivery,
        deadline: Option<Instant>,
    ) -> Result<bool, Error> {
        loop {
            let seen = producer.reports();
            let mut partition = -1;
            let sent = self.get(ruby, index).and_then(|given| {
                given.lend(ruby, |message| match *message.topic == **delivery.topic(index) {
                    true => {
                        partition = message.partition;
                        producer.enqueue(message, delivery, index)
                    }
                    // It was another one when the delivery was made.
                    false => Err(CoreError::code(codes::INVALID_ARG)),
                })
            });
            let code = match sent {
                Ok(Ok(())) => return Ok(true),
                Ok(Err(CoreError::QueueFull)) => {
                    // Another thread may change the rows meanwhile.
                    self.forget();
                    if !wait_for_room(ruby, this, producer, seen, deadline)? {
                        return Ok(false);
                    }
                    continue;
                }
                Ok(Err(CoreError::Kafka(error))) => error.code,
                Ok(Err(CoreError::Closed)) => codes::DESTROY,
                Ok(Err(_)) | Err(_) => codes::INVALID_ARG,
            };
            producer.give_up(delivery, index, code, partition);
            return Ok(true);
        }
    }
}
