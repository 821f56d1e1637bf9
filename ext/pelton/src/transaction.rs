//! Pelton::Native::Producer's transactional methods. Each is one blocking call of the core's, on a native thread.

use crate::producer::CLASS;
use crate::room::named;
use crate::subscription::CLASS as SUBSCRIPTION;
use crate::{convert, error, gvl};
use magnus::value::ReprValue;
use magnus::{Error, Module, RArray, RClass, Ruby, Value, method};
use pelton_core::error::Error as CoreError;
use pelton_core::producer::{Producer, Ticket, group_metadata};
use pelton_core::rd::PartitionList;
use pelton_core::wait;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A native call's own result at its deadline says more than ours.
const GRACE: Duration = Duration::from_secs(2);

pub fn define(class: RClass) -> Result<(), Error> {
    class.define_method("begin_transaction", method!(begin, 1))?;
    class.define_method("commit_transaction", method!(commit, 1))?;
    class.define_method("abort_transaction", method!(abort, 2))?;
    class.define_method("send_offsets", method!(send_offsets, 3))?;
    class.define_method("gap?", method!(has_gap, 0))?;
    class.define_method("fatal_error", method!(fatal_error, 0))?;
    class.define_method("fail_for_good", method!(fail_for_good, 2))
}

fn call<T: Send + 'static>(
    ruby: &Ruby,
    this: Value,
    timeout: Value,
    what: &str,
    work: impl FnOnce(&Producer, Ticket, Option<Instant>) -> Result<T, CoreError> + Send + 'static,
) -> Result<T, Error> {
    let producer = Arc::clone(&*CLASS.get(ruby, &this)?);
    producer.check_origin().map_err(|error| error::ruby(ruby, &named(&producer), error))?;
    let timeout = convert::timeout(timeout)?;
    let deadline = wait::deadline(timeout);
    let patience = wait::deadline(timeout.and_then(|timeout| timeout.checked_add(GRACE)));
    let ticket = producer.transactions().ticket();
    let theirs = Arc::clone(&producer);
    match gvl::background(ruby, this, patience, move || work(&theirs, ticket, deadline))? {
        None => Err(error::timed_out(ruby, what)),
        Some(result) => result.map_err(|error| error::ruby(ruby, &named(&producer), error)),
    }
}

fn begin(ruby: &Ruby, this: Value, timeout: Value) -> Result<bool, Error> {
    call(ruby, this, timeout, "begin", Producer::begin_transaction).map(|()| true)
}

fn commit(ruby: &Ruby, this: Value, timeout: Value) -> Result<bool, Error> {
    call(ruby, this, timeout, "commit", Producer::commit_transaction).map(|()| true)
}

/// abort_transaction(timeout, ack_wait): false when it turned out to be committed.
fn abort(ruby: &Ruby, this: Value, timeout: Value, ack_wait: Value) -> Result<bool, Error> {
    let patience = convert::bounded(convert::timeout(ack_wait)?);
    call(ruby, this, timeout, "abort", move |producer, ticket, deadline| {
        producer.abort_transaction(ticket, deadline, patience)
    })
}

/// send_offsets([[topic, partition, next offset], …], subscription, timeout)
fn send_offsets(ruby: &Ruby, this: Value, offsets: RArray, subscription: Value, timeout: Value) -> Result<bool, Error> {
    let subscription = Arc::clone(&*SUBSCRIPTION.get(ruby, &subscription)?);
    let offsets = convert::topic_partitions(ruby, offsets, true)?;
    call(ruby, this, timeout, "send_offsets", move |producer, ticket, deadline| {
        let rows = offsets.iter().map(|(topic, partition, offset)| (topic.as_str(), *partition, *offset, -1));
        let list = PartitionList::with_offsets(rows).map_err(|topic| CoreError::Invalid {
            what: "topic",
            value: topic.into(),
            allowed: "a text without a NUL byte",
        })?;
        producer.send_offsets(&list, &group_metadata(&subscription)?, ticket, deadline)
    })
    .map(|()| true)
}

/// Whether the next transaction would pay for messages of this one.
fn has_gap(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    Ok(CLASS.get(ruby, &this)?.transactions().has_gap())
}

/// The error that ended the client, as a Pelton::KafkaError; nil while it can be used.
fn fatal_error(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    match CLASS.get(ruby, &this)?.fatal_error() {
        None => Ok(ruby.qnil().as_value()),
        Some(error) => error::kafka_error(ruby, &error),
    }
}

/// For tests: a fatal error with this code.
fn fail_for_good(ruby: &Ruby, this: Value, code: i32, reason: String) -> Result<(), Error> {
    let producer = CLASS.get(ruby, &this)?;
    producer.fail_for_good(code, &reason).map_err(|error| error::ruby(ruby, &named(&producer), error))
}
