//! Pelton::Native::Producer

use crate::delivery::CLASS as DELIVERY;
use crate::value::typed::{Behind, Shared};
use crate::{convert, error, gvl, value};
use magnus::value::ReprValue;
use magnus::{Error, Module, Object, RArray, RHash, RModule, Ruby, Value, function, method};
use pelton_core::delivery::{Delivery, Outcomes};
use pelton_core::error::Error as CoreError;
use pelton_core::poller::Poller;
use pelton_core::producer::{Outgoing, Producer};
use pelton_core::wait;
use std::sync::Arc;
use std::time::Instant;

static CLASS: Shared<Producer> = Shared::new(c"Pelton::Native::Producer");

const QUEUE_FULL: i32 = -184;
const INVALID_MESSAGE: i32 = -186;
const DESTROYED: i32 = -197;

impl Behind for Producer {
    fn collected(self: Arc<Self>) {
        self.abandon();
    }
}

pub fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = native.define_class("Producer", ruby.class_object())?;
    CLASS.define(class);
    class.define_singleton_method("new", function!(new, 2))?;
    class.define_method("produce", method!(produce, 7))?;
    class.define_method("produce_many", method!(produce_many, 2))?;
    class.define_method("flush", method!(flush, 1))?;
    class.define_method("purge", method!(purge, 0))?;
    class.define_method("pending", method!(pending, 0))?;
    class.define_method("last_error", method!(last_error, 0))?;
    class.define_method("close", method!(close, 1))?;
    class.define_method("closed?", method!(is_closed, 0))
}

fn named(producer: &Producer) -> String {
    format!("producer {}", producer.name())
}

fn new(ruby: &Ruby, name: String, options: RHash) -> Result<Value, Error> {
    let options = convert::options(ruby, options)?;
    let producer = Producer::new(&name, convert::borrowed(&options), Poller::global());
    drop(options);
    CLASS.wrap(producer.map_err(|error| error::ruby(ruby, &format!("producer {name}"), error))?)
}

/// One message's arguments, as Ruby gave them.
#[derive(Clone, Copy)]
struct Given {
    topic: Value,
    payload: Value,
    key: Value,
    partition: Value,
    timestamp: Value,
    headers: Value,
}

impl Given {
    /// Checks everything and lends it to the core. `call` must not call Ruby.
    fn lend<R>(&self, ruby: &Ruby, call: impl FnOnce(Outgoing<'_>) -> R) -> Result<R, Error> {
        // The headers first: they are copied, and walking their Hash is a call of Ruby.
        let headers = convert::headers(ruby, self.headers)?;
        let topic = convert::topic(ruby, &self.topic)?;
        let payload = convert::optional_bytes(ruby, "payload", &self.payload)?;
        let key = convert::optional_bytes(ruby, "key", &self.key)?;
        let partition = convert::partition(ruby, self.partition)?;
        let timestamp = convert::timestamp(ruby, self.timestamp)?;
        Ok(call(Outgoing { topic, payload, key, partition, timestamp, headers }))
    }
}

#[allow(clippy::too_many_arguments)] // the contract's positional call: no Hash, no allocation
fn produce(
    ruby: &Ruby,
    this: Value,
    topic: Value,
    payload: Value,
    key: Value,
    partition: Value,
    timestamp: Value,
    headers: Value,
    queue_timeout: Value,
) -> Result<Value, Error> {
    let producer = CLASS.get(ruby, &this)?;
    let given = Given { topic, payload, key, partition, timestamp, headers };
    let seen = producer.reports();
    match given.lend(ruby, |message| producer.produce(message))? {
        Ok(delivery) => Ok(DELIVERY.wrap_bare(delivery)),
        Err(CoreError::QueueFull) => produce_later(ruby, this, given, queue_timeout, seen),
        Err(error) => Err(refused(ruby, &producer, given, error)),
    }
}

/// The queue is full: waits for room and reads the arguments anew, since they may have changed meanwhile.
fn produce_later(ruby: &Ruby, this: Value, given: Given, queue_timeout: Value, mut seen: u64) -> Result<Value, Error> {
    let producer = Arc::clone(&*CLASS.get(ruby, &this)?);
    let timeout = convert::timeout(queue_timeout)?;
    let deadline = wait::deadline(timeout);
    loop {
        if !wait_for_room(ruby, this, &producer, seen, deadline)? {
            let topic = convert::topic(ruby, &given.topic)?.to_owned();
            return Err(error::queue_full(ruby, &topic, timeout, None));
        }
        seen = producer.reports();
        match given.lend(ruby, |message| producer.produce(message))? {
            Ok(delivery) => return DELIVERY.wrap(delivery),
            Err(CoreError::QueueFull) => {}
            Err(error) => return Err(refused(ruby, &producer, given, error)),
        }
    }
}

fn wait_for_room(
    ruby: &Ruby,
    this: Value,
    producer: &Arc<Producer>,
    seen: u64,
    deadline: Option<Instant>,
) -> Result<bool, Error> {
    gvl::wait(ruby, this, &**producer, deadline, &|| producer.reports() != seen || producer.closing().started())
}

/// What librdkafka says to a message at once is a delivery error as much as what it says later.
fn refused(ruby: &Ruby, producer: &Producer, given: Given, error: CoreError) -> Error {
    match error {
        CoreError::Kafka(error) => {
            let topic = convert::utf8(&given.topic).unwrap_or_default().into();
            let partition = convert::partition(ruby, given.partition).unwrap_or(-1);
            error::not_delivered(ruby, &Outcomes { topic, partition, offset: -1001, error: Some(error) })
        }
        error => error::ruby(ruby, &named(producer), error),
    }
}

fn row(ruby: &Ruby, rows: RArray, index: usize) -> Result<Given, Error> {
    const EXPECTED: &str = "[topic, payload, key, partition, timestamp_ms, headers]";
    let row = value::element(rows, index);
    let columns = RArray::from_value(row).ok_or_else(|| error::invalid(ruby, "message", row, EXPECTED))?;
    let [topic, payload, key, partition, timestamp, headers] =
        [0, 1, 2, 3, 4, 5].map(|column| value::element(columns, column));
    Ok(Given { topic, payload, key, partition, timestamp, headers })
}

fn produce_many(ruby: &Ruby, this: Value, rows: RArray, queue_timeout: Value) -> Result<Value, Error> {
    let producer = Arc::clone(&*CLASS.get(ruby, &this)?);
    let timeout = convert::timeout(queue_timeout)?;
    let deadline = wait::deadline(timeout);
    let count = value::length(rows);
    for index in 0..count {
        row(ruby, rows, index)?.lend(ruby, |_| ())?;
    }
    let delivery = batch(ruby, &producer, rows, count)?;
    for index in 0..count {
        let sent = send_row(ruby, this, &producer, rows, index, &delivery, deadline);
        if matches!(sent, Ok(true)) {
            continue;
        }
        // What was not sent is marked, so that nobody waits for it in vain.
        (index..count).for_each(|position| producer.refuse(&delivery, position as u32, QUEUE_FULL));
        sent?;
        let topic = delivery.topic(index).to_string();
        return Err(error::queue_full(ruby, &topic, timeout, Some(DELIVERY.wrap(delivery)?)));
    }
    DELIVERY.wrap(delivery)
}

fn batch(ruby: &Ruby, producer: &Arc<Producer>, rows: RArray, count: usize) -> Result<Arc<Delivery>, Error> {
    let topics: Vec<Value> =
        (0..count).map(|index| row(ruby, rows, index).map(|given| given.topic)).collect::<Result<_, _>>()?;
    let made = producer.batch(topics.iter().map(|topic| convert::utf8(topic).unwrap_or_default()));
    made.map_err(|error| error::ruby(ruby, &named(producer), error))
}

/// Sends one message of a batch, or marks it as refused. False: the queue stayed full until the deadline.
fn send_row(
    ruby: &Ruby,
    this: Value,
    producer: &Arc<Producer>,
    rows: RArray,
    index: usize,
    delivery: &Arc<Delivery>,
    deadline: Option<Instant>,
) -> Result<bool, Error> {
    let position = index as u32;
    loop {
        let seen = producer.reports();
        // Read anew each time: another thread may have changed the rows during a wait.
        let sent = row(ruby, rows, index)
            .and_then(|given| given.lend(ruby, |message| producer.enqueue(message, delivery, position)));
        let code = match sent {
            Ok(Ok(())) => return Ok(true),
            Ok(Err(CoreError::QueueFull)) => {
                if !wait_for_room(ruby, this, producer, seen, deadline)? {
                    return Ok(false);
                }
                continue;
            }
            Ok(Err(CoreError::Kafka(error))) => error.code,
            Ok(Err(CoreError::Closed)) => DESTROYED,
            Ok(Err(_)) | Err(_) => INVALID_MESSAGE,
        };
        producer.refuse(delivery, position, code);
        return Ok(true);
    }
}

fn flush(ruby: &Ruby, this: Value, timeout: Value) -> Result<bool, Error> {
    let producer = Arc::clone(&*CLASS.get(ruby, &this)?);
    let timeout = convert::timeout(timeout)?;
    let started = producer.start_flush(convert::bounded(timeout));
    started.map_err(|error| error::ruby(ruby, &named(&producer), error))?;
    gvl::wait(ruby, this, &*producer, wait::deadline(timeout), &|| producer.pending() == 0)
}

fn purge(ruby: &Ruby, this: Value) -> Result<(), Error> {
    let producer = CLASS.get(ruby, &this)?;
    producer.purge().map_err(|error| error::ruby(ruby, &named(&producer), error))
}

fn pending(ruby: &Ruby, this: Value) -> Result<u64, Error> {
    Ok(CLASS.get(ruby, &this)?.pending())
}

/// Why nothing gets through, as a Pelton::KafkaError; nil when nothing is known to be wrong.
fn last_error(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    match CLASS.get(ruby, &this)?.last_error() {
        None => Ok(ruby.qnil().as_value()),
        Some(error) => error::kafka_error(ruby, &error),
    }
}

fn close(ruby: &Ruby, this: Value, timeout: Value) -> Result<u64, Error> {
    let producer = Arc::clone(&*CLASS.get(ruby, &this)?);
    let timeout = convert::timeout(timeout)?;
    let deadline = convert::close_deadline(timeout, !producer.closing().started());
    let started = producer.close(convert::bounded(timeout));
    started.map_err(|error| error::ruby(ruby, &named(&producer), error))?;
    let closing = Arc::clone(producer.closing());
    let ended = gvl::wait(ruby, this, &*closing, deadline, &|| closing.done())?;
    Ok(if ended { closing.lost() as u64 } else { producer.pending() })
}

fn is_closed(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    Ok(CLASS.get(ruby, &this)?.closing().started())
}
