//! Pelton::Native::Producer

use crate::delivery::CLASS as DELIVERY;
use crate::room::{named, wait_for_room};
use crate::rows::{MessageRow, Rows, row};
use crate::value::typed::{NativeData, Shared};
use crate::{convert, error, gvl, oauth, poller, send_times, value};
use magnus::scan_args::scan_args;
use magnus::value::ReprValue;
use magnus::{Error, Module, Object, RArray, RClass, RHash, RModule, Ruby, Value, function, method};
use pelton_core::delivery::{Delivery, Outcomes};
use pelton_core::error::{Error as CoreError, KafkaError};
use pelton_core::producer::exit::{self, Exit, Loss};
use pelton_core::producer::{Producer, is_topic_name};
use pelton_core::rd::{Client, Partitioner, codes};
use pelton_core::wait;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

pub static CLASS: Shared<Arc<Producer>> = Shared::new(c"Pelton::Native::Producer");

impl NativeData for Arc<Producer> {
    fn collected(self) {
        self.abandon();
    }
}

pub fn define(ruby: &Ruby, native: RModule) -> Result<RClass, Error> {
    let class = native.define_class("Producer", ruby.class_object())?;
    CLASS.define(class);
    class.define_singleton_method("new", function!(new, -1))?;
    class.define_singleton_method("check", function!(check, 1))?;
    class.define_singleton_method("partition", function!(partition, 3))?;
    class.define_method("produce", method!(produce, -1))?;
    class.define_method("produce_many", method!(produce_many, -1))?;
    class.define_method("partition_count", method!(partition_count, 2))?;
    class.define_method("flush", method!(flush, 1))?;
    class.define_method("await_reports", method!(await_reports, 1))?;
    class.define_method("failures", method!(failures, 0))?;
    class.define_method("end_with_process", method!(end_with_process, 3))?;
    class.define_method("purge", method!(purge, 0))?;
    class.define_method("pending", method!(pending, 0))?;
    class.define_method("sent", method!(sent, 0))?;
    class.define_method("last_error", method!(last_error, 0))?;
    class.define_method("set_oauth_token", method!(oauth::set_token::<Producer>, 4))?;
    class.define_method("set_oauth_failure", method!(oauth::set_failure::<Producer>, 1))?;
    class.define_method("disconnect", method!(disconnect, 1))?;
    class.define_method("disconnect_idle", method!(disconnect_idle, 1))?;
    class.define_method("publish_reports", method!(publish_reports, 2))?;
    class.define_method("count_times", method!(count_times, 1))?;
    class.define_method("connected?", method!(is_connected, 0))?;
    class.define_method("close", method!(close, 1))?;
    class.define_method("closed?", method!(is_closed, 0))?;
    Ok(class)
}

/// new(name, {"linger.ms" => "5"}, {poller: …, max_time: 100} = {})
fn new(ruby: &Ruby, arguments: &[Value]) -> Result<Value, Error> {
    let given = scan_args::<(String, RHash), (Option<RHash>,), (), (), (), ()>(arguments)?;
    let ((name, options), (polling,)) = (given.required, given.optional);
    let options = convert::client_options(ruby, options)?;
    let polling = poller::read_polling(ruby, polling.unwrap_or_else(|| ruby.hash_new()), |name, setting| {
        Err(error::bad_option(ruby, name, setting, "unknown option"))
    })?;
    let producer = Producer::new(&name, convert::borrowed(&options), polling);
    drop(options);
    CLASS.wrap(producer.map_err(|error| error::ruby(ruby, &format!("producer {name}"), error))?)
}

/// produce(topic, payload, key, partition, timestamp, headers, queue_timeout, awaited = false): no Hash, no allocation.
/// awaited: the caller then waits for the delivery.
fn produce(ruby: &Ruby, this: Value, arguments: &[Value]) -> Result<Value, Error> {
    let (required, awaited) = match arguments {
        [required @ .., awaited] if arguments.len() == 8 => (required, awaited.to_bool()),
        _ => (arguments, false),
    };
    let &[topic, payload, key, partition, timestamp, headers, queue_timeout] = required else {
        let text = format!("wrong number of arguments (given {}, expected 7..8)", arguments.len());
        return Err(Error::new(ruby.exception_arg_error(), text));
    };
    let producer = CLASS.get(ruby, &this)?;
    let given = MessageRow { topic, payload, key, partition, timestamp, headers };
    let seen = producer.reports();
    match given.lend(ruby, |message| producer.produce_awaited(message, awaited))? {
        Ok(delivery) => Ok(DELIVERY.wrap_bare(delivery)),
        Err(CoreError::QueueFull) => produce_later(ruby, this, given, queue_timeout, awaited, seen),
        Err(error) => Err(refused(ruby, &producer, given, error)),
    }
}

/// The queue is full: waits for room and reads the arguments again, because they may have changed meanwhile.
fn produce_later(
    ruby: &Ruby,
    this: Value,
    given: MessageRow,
    queue_timeout: Value,
    awaited: bool,
    mut seen: u64,
) -> Result<Value, Error> {
    let producer = Arc::clone(&*CLASS.get(ruby, &this)?);
    let timeout = convert::timeout(queue_timeout)?;
    let deadline = wait::deadline(timeout);
    loop {
        if !wait_for_room(ruby, this, &producer, seen, deadline)? {
            let topic = convert::topic(ruby, &given.topic)?.to_owned();
            return Err(error::queue_full(ruby, &topic, timeout, None));
        }
        seen = producer.reports();
        match given.lend(ruby, |message| producer.produce_awaited(message, awaited))? {
            Ok(delivery) => return DELIVERY.wrap(delivery),
            Err(CoreError::QueueFull) => {}
            Err(error) => return Err(refused(ruby, &producer, given, error)),
        }
    }
}

/// An immediate error of librdkafka is a delivery error, as a later one is.
fn refused(ruby: &Ruby, producer: &Producer, given: MessageRow, error: CoreError) -> Error {
    match error {
        CoreError::Kafka(error) => {
            let topic = convert::utf8(&given.topic).unwrap_or_default().into();
            let partition = convert::partition(ruby, given.partition).unwrap_or(-1);
            error::not_delivered(ruby, &Outcomes { topic, partition, offset: -1001, error: Some(error) })
        }
        error => error::ruby(ruby, &named(producer), error),
    }
}

/// Raises the error that sending this message (a Hash) would raise, if the message alone shows it.
fn check(ruby: &Ruby, message: Value) -> Result<(), Error> {
    let Some(given) = row(ruby, message)? else { return Ok(()) };
    if given.lend(ruby, |message| is_topic_name(message.topic))? {
        return Ok(());
    }
    Err(error::invalid(ruby, "topic", given.topic, "1 to 249 of the letters a-z A-Z 0-9 . _ -"))
}

/// The partition of a key among `count` partitions; nil if this partitioner ignores keys.
fn partition(ruby: &Ruby, partitioner: String, key: Value, count: i32) -> Result<Option<i32>, Error> {
    let bytes = value::bytes(&key).ok_or_else(|| error::invalid(ruby, "partition_key", key, "a String"))?;
    Ok(Partitioner::named(&partitioner).map(|partitioner| partitioner.partition(bytes, count)))
}

fn partition_count(ruby: &Ruby, this: Value, topic: String, timeout: Value) -> Result<i32, Error> {
    let producer = Arc::clone(&*CLASS.get(ruby, &this)?);
    let timeout = convert::timeout(timeout)?;
    let (theirs, name) = (Arc::clone(&producer), topic.clone());
    let ask = move || theirs.partition_count(&name, convert::bounded(timeout));
    match gvl::background(ruby, this, wait::deadline(timeout), ask)? {
        None | Some(Err(CoreError::TimedOut)) => {
            Err(error::wait_timeout(ruby, &format!("partition count of {topic}"), None, timeout))
        }
        Some(Err(error)) => Err(error::ruby(ruby, &named(&producer), error)),
        Some(Ok(count)) => Ok(count),
    }
}

/// produce_many(messages, queue_timeout, awaited = false): sends a batch. With a block: yields the delivery before
/// anything is sent. nil, and nothing is sent: there are messages with a label or a partition_key among them.
/// awaited: the caller then waits for the delivery, unless this raises.
fn produce_many(ruby: &Ruby, this: Value, arguments: &[Value]) -> Result<Value, Error> {
    let given = scan_args::<(RArray, Value), (Option<bool>,), (), (), (), ()>(arguments)?;
    let ((rows, queue_timeout), (awaited,)) = (given.required, given.optional);
    let producer = Arc::clone(&*CLASS.get(ruby, &this)?);
    let timeout = convert::timeout(queue_timeout)?;
    let Some(mut batch) = Rows::check(ruby, rows, &producer)? else { return Ok(ruby.qnil().as_value()) };
    let delivery = producer.batch(batch.take_topics());
    let delivery = delivery.map_err(|error| error::ruby(ruby, &named(&producer), error))?;
    if awaited == Some(true) {
        delivery.expect_wait();
    }
    let sent = send_many(ruby, this, &producer, batch, &delivery, timeout);
    if sent.is_err() {
        delivery.expect_no_wait();
    }
    sent
}

fn send_many(
    ruby: &Ruby,
    this: Value,
    producer: &Arc<Producer>,
    mut batch: Rows,
    delivery: &Delivery,
    timeout: Option<Duration>,
) -> Result<Value, Error> {
    let deadline = wait::deadline(timeout);
    // The only object of the delivery: if another one were collected, an expected wait would be given up.
    let refuse =
        |from: usize| (from..delivery.len()).for_each(|index| producer.refuse(delivery, index, codes::QUEUE_FULL));
    let made = DELIVERY.wrap(delivery.clone()).inspect_err(|_| refuse(0))?;
    if ruby.block_given() {
        // Ruby runs: the rows may be others afterwards.
        batch.forget();
        ruby.yield_value::<_, Value>(made).inspect_err(|_| refuse(0))?;
    }
    let mut turns = gvl::TimeSlice::new();
    for index in 0..delivery.len() {
        let turn = turns.step(ruby).inspect(|turn| {
            if *turn {
                batch.forget();
            }
        });
        let sent = turn.and_then(|_| batch.send(ruby, this, producer, index, delivery, deadline));
        if matches!(sent, Ok(true)) {
            continue;
        }
        // Marks the messages that were not sent, so that no caller waits for them without end.
        refuse(index);
        sent?;
        let topic = delivery.topic(index).to_string();
        return Err(error::queue_full(ruby, &topic, timeout, Some(made)));
    }
    Ok(made)
}

fn flush(ruby: &Ruby, this: Value, timeout: Value) -> Result<bool, Error> {
    let producer = Arc::clone(&*CLASS.get(ruby, &this)?);
    let timeout = convert::timeout(timeout)?;
    let started = producer.start_flush(convert::bounded(timeout));
    started.map_err(|error| error::ruby(ruby, &named(&producer), error))?;
    gvl::wait(ruby, this, &*producer, wait::deadline(timeout), &|| producer.is_flushed())
}

/// Sends what was produced so far and waits until as many messages have their report, however many come meanwhile.
fn await_reports(ruby: &Ruby, this: Value, timeout: Value) -> Result<bool, Error> {
    let producer = Arc::clone(&*CLASS.get(ruby, &this)?);
    let timeout = convert::timeout(timeout)?;
    let sent = producer.sent();
    let started = producer.start_flush(convert::bounded(timeout));
    started.map_err(|error| error::ruby(ruby, &named(&producer), error))?;
    gvl::wait(ruby, this, &*producer, wait::deadline(timeout), &|| producer.is_reported(sent))
}

/// Failed messages that no caller waited for: [[topic, code, name, count], …].
fn failures(ruby: &Ruby, this: Value) -> Result<RArray, Error> {
    let producer = CLASS.get(ruby, &this)?;
    let rows = ruby.ary_new();
    for (topic, code, count) in producer.failures() {
        let name = ruby.to_symbol(KafkaError::new(code).name);
        rows.push((topic.to_string(), code, name, count))?;
    }
    Ok(rows)
}

/// At process exit: the seconds that are left for pending messages, and out of how many seconds in all. `silent`: lost
/// messages are not reported.
fn end_with_process(ruby: &Ruby, this: Value, left: Value, limit: Value, silent: bool) -> Result<(), Error> {
    let [left, limit] = [convert::bounded(convert::timeout(left)?), convert::bounded(convert::timeout(limit)?)];
    CLASS.get(ruby, &this)?.end_with_process(Exit { left, limit, silent });
    Ok(())
}

/// The process ends: sends pending messages, and writes to stderr what could not be sent. Called when no Ruby runs.
pub fn finish() {
    for loss in exit::finish() {
        let text = match loss {
            Loss::Messages { client, topic, count, error, late } => {
                let late = late.map(|limit| format!(" within flush_timeout ({:.1} s)", limit.as_secs_f64()));
                format!(
                    "{client}: {count} message{} to {topic} not delivered at process exit{}: {} ({})",
                    if count == 1 { "" } else { "s" },
                    late.unwrap_or_default(),
                    one_line(&error.reason),
                    error.name,
                )
            }
            Loss::Transaction { client } => {
                format!("{client}: a transaction was open at process exit and is aborted; its messages do not count")
            }
        };
        let _ = writeln!(std::io::stderr(), "pelton: {text}"); // which may be closed
    }
}

/// Text from librdkafka or a broker: no control characters may reach a terminal or start a line.
fn one_line(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '?' } else { char }).collect()
}

fn purge(ruby: &Ruby, this: Value) -> Result<(), Error> {
    let producer = CLASS.get(ruby, &this)?;
    producer.purge().map_err(|error| error::ruby(ruby, &named(&producer), error))
}

fn pending(ruby: &Ruby, this: Value) -> Result<u64, Error> {
    Ok(CLASS.get(ruby, &this)?.pending())
}

/// Messages that its queue has accepted so far.
fn sent(ruby: &Ruby, this: Value) -> Result<u64, Error> {
    Ok(CLASS.get(ruby, &this)?.sent())
}

/// Why no message gets through, as a Pelton::KafkaError; nil if nothing is known to be wrong.
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
    Ok(if ended { closing.lost() as u64 } else { producer.undelivered() })
}

/// False: it is in use, or the time was too short (the disconnect then continues).
fn disconnect(ruby: &Ruby, this: Value, timeout: Value) -> Result<bool, Error> {
    let producer = Arc::clone(&*CLASS.get(ruby, &this)?);
    let what = named(&producer);
    let deadline = wait::deadline(convert::timeout(timeout)?);
    let done = gvl::background(ruby, this, deadline, move || producer.disconnect())?;
    done.unwrap_or(Ok(false)).map_err(|error| error::ruby(ruby, &what, error))
}

fn publish_reports(ruby: &Ruby, this: Value, acknowledged: bool, purged: bool) -> Result<(), Error> {
    CLASS.get(ruby, &this)?.publish_reports(acknowledged, purged);
    Ok(())
}

/// count_times([SendTimes, …])
fn count_times(ruby: &Ruby, this: Value, times: RArray) -> Result<(), Error> {
    let times = (0..value::length(times)).map(|index| {
        let times = value::element(times, index);
        Ok::<_, Error>(Arc::clone(&*send_times::CLASS.get(ruby, &times)?))
    });
    CLASS.get(ruby, &this)?.count_times(times.collect::<Result<_, _>>()?);
    Ok(())
}

/// Seconds without a message until it disconnects; nil for never.
fn disconnect_idle(ruby: &Ruby, this: Value, limit: Value) -> Result<(), Error> {
    CLASS.get(ruby, &this)?.disconnect_idle(convert::timeout(limit)?);
    Ok(())
}

fn is_connected(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    Ok(CLASS.get(ruby, &this)?.is_connected())
}

fn is_closed(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    Ok(CLASS.get(ruby, &this)?.closing().started())
}

impl oauth::TokenReceiver for Producer {
    const CLASS: &Shared<Arc<Self>> = &CLASS;

    fn what(&self) -> String {
        named(self)
    }

    fn with<R>(&self, mut call: impl FnMut(&Client) -> R) -> Result<R, CoreError> {
        self.with_client(|client| call(client))
    }
}
