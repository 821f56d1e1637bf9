//! Pelton::Native: module functions.

use crate::{convert, error, gvl};
use magnus::value::ReprValue;
use magnus::{Error, IntoValue, Object, RArray, RHash, RModule, Ruby, Value, function};
use pelton_core::decode::Pool;
use pelton_core::error::KafkaError;
use pelton_core::events::{self, ClientEvent, Kind};
use pelton_core::metadata::{self, Metadata};
use pelton_core::poller::Poller;
use pelton_core::rd;
use pelton_core::wait;
use std::time::Duration;

/// Limit of a question that is not given one.
const ASK: Duration = Duration::from_secs(60);

pub fn define(_: &Ruby, native: RModule) -> Result<(), Error> {
    native.define_singleton_method("librdkafka_version", function!(librdkafka_version, 0))?;
    native.define_singleton_method("threads", function!(threads, 0))?;
    native.define_singleton_method("decoding_threads=", function!(set_decoding_threads, 1))?;
    native.define_singleton_method("next_events", function!(next_events, 1))?;
    native.define_singleton_method("next_fibers", function!(next_fibers, 1))?;
    native.define_singleton_method("metadata", function!(metadata, 3))
}

fn librdkafka_version() -> String {
    rd::library_version()
}

fn threads(ruby: &Ruby) -> Result<RHash, Error> {
    let counts = ruby.hash_new();
    counts.aset(ruby.to_symbol("poller"), Poller::threads())?;
    counts.aset(ruby.to_symbol("decode"), Pool::global().threads())?;
    Ok(counts)
}

fn set_decoding_threads(count: Option<usize>) {
    Pool::configure(count.unwrap_or(0));
}

fn native(ruby: &Ruby) -> Value {
    ruby.qnil().as_value()
}

fn next_events(ruby: &Ruby, timeout: Value) -> Result<RArray, Error> {
    let mailbox = events::mailbox();
    let deadline = wait::deadline(convert::timeout(timeout)?);
    gvl::wait(ruby, native(ruby), mailbox, deadline, &|| mailbox.ready())?;
    let list = ruby.ary_new();
    for event in mailbox.take_all() {
        list.push(row(ruby, event)?)?;
    }
    Ok(list)
}

fn row(ruby: &Ruby, event: ClientEvent) -> Result<RArray, Error> {
    let row = ruby.ary_new_capa(6);
    let begin = |kind: &str| {
        row.push(ruby.to_symbol(kind))?;
        row.push(event.client.as_str())
    };
    match event.kind {
        Kind::Log { level, facility, message } => {
            begin("log")?;
            row.push(level)?;
            row.push(facility)?;
            row.push(message)?;
        }
        Kind::Error { code, reason, fatal } => {
            begin("error")?;
            row.push(code)?;
            row.push(ruby.to_symbol(KafkaError::new(code).name))?;
            row.push(reason)?;
            row.push(fatal)?;
        }
        Kind::Statistics(json) => {
            begin("statistics")?;
            row.push(json)?;
        }
        Kind::DeliveryFailed { code, topic, partition } => {
            begin("delivery_failed")?;
            let error = KafkaError::new(code);
            row.push(code)?;
            row.push(ruby.to_symbol(error.name))?;
            row.push(error.reason)?;
            row.push(topic)?;
            row.push(error::partition(ruby, partition))?;
        }
        Kind::Unclosed { lost } => {
            begin("unclosed")?;
            row.push(lost)?;
        }
    }
    Ok(row)
}

/// Ids of fibers to be unblocked; for the thread of lib/pelton/fibers.rb.
fn next_fibers(ruby: &Ruby, timeout: Value) -> Result<RArray, Error> {
    let mailbox = gvl::woken_fibers();
    let deadline = wait::deadline(convert::timeout(timeout)?);
    gvl::wait(ruby, native(ruby), mailbox, deadline, &|| mailbox.ready())?;
    Ok(ruby.ary_from_iter(mailbox.take_all()))
}

fn metadata(ruby: &Ruby, options: RHash, topic: Option<String>, timeout: Value) -> Result<RHash, Error> {
    let options = convert::options(ruby, options)?;
    let timeout = convert::timeout(timeout)?;
    let millis = timeout.unwrap_or(ASK).as_millis().min(i32::MAX as u128) as i32;
    let ask = move || metadata::fetch(convert::borrowed(&options), topic.as_deref(), millis);
    match gvl::background(ruby, native(ruby), wait::deadline(timeout), ask)? {
        None => Err(error::timed_out(ruby, "metadata")),
        Some(Err(error)) => Err(error::ruby(ruby, "metadata", error)),
        Some(Ok(found)) => describe(ruby, &found),
    }
}

fn describe(ruby: &Ruby, found: &Metadata) -> Result<RHash, Error> {
    let brokers = ruby.ary_new_capa(found.brokers.len());
    for (id, host, port) in &found.brokers {
        let row = [id.into_value_with(ruby), host.as_str().into_value_with(ruby), port.into_value_with(ruby)];
        brokers.push(ruby.ary_new_from_values(&row))?;
    }
    let topics = ruby.hash_new();
    for (name, partitions) in &found.topics {
        match partitions {
            Ok(count) => topics.aset(name.as_str(), *count)?,
            Err(code) => topics.aset(name.as_str(), error::kafka_error(ruby, &KafkaError::new(*code))?)?,
        }
    }
    let answer = ruby.hash_new();
    answer.aset(ruby.to_symbol("brokers"), brokers)?;
    answer.aset(ruby.to_symbol("topics"), topics)?;
    Ok(answer)
}
