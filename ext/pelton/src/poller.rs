//! Pelton::Native::Poller

use crate::value::typed::{NativeData, Shared};
use crate::{convert, error, gvl, value};
use magnus::{Error, Module, Object, RArray, RHash, RModule, Ruby, Symbol, Value, function, method, r_hash::ForEach};
use pelton_core::error::KafkaError;
use pelton_core::events::{ClientEvent, EventKind};
use pelton_core::poller::{DEFAULT_MAX_TIME, Poller, Polling};
use pelton_core::wait;
use std::sync::Arc;
use std::time::Duration;

static CLASS: Shared<Arc<Poller>> = Shared::new(c"Pelton::Native::Poller");

impl NativeData for Arc<Poller> {
    /// Its thread and its clients hold it as long as they need it.
    fn collected(self) {}
}

pub fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = native.define_class("Poller", ruby.class_object())?;
    CLASS.define(class);
    class.define_singleton_method("new", function!(new, 1))?;
    class.define_singleton_method("shared", function!(shared, 0))?;
    class.define_method("name", method!(name, 0))?;
    class.define_method("clients", method!(clients, 0))?;
    class.define_method("running?", method!(is_running, 0))?;
    class.define_method("next_events", method!(next_events, 2))?;
    class.define_method("told", method!(told, 0))?;
    class.define_method("wake", method!(wake, 0))
}

fn new(ruby: &Ruby, name: String) -> Result<Value, Error> {
    let made = Poller::new(&name);
    CLASS.wrap(made.map_err(|error| error::ruby(ruby, &format!("poller {name}"), error))?)
}

/// This process's own.
fn shared(ruby: &Ruby) -> Result<Value, Error> {
    CLASS.wrap(Arc::clone(global(ruby)?))
}

fn global(ruby: &Ruby) -> Result<&'static Arc<Poller>, Error> {
    Poller::global().map_err(|error| error::ruby(ruby, "the poller", error))
}

fn name(ruby: &Ruby, this: Value) -> Result<String, Error> {
    Ok(CLASS.get(ruby, &this)?.name().into())
}

fn clients(ruby: &Ruby, this: Value) -> Result<usize, Error> {
    Ok(CLASS.get(ruby, &this)?.clients())
}

fn is_running(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    Ok(CLASS.get(ruby, &this)?.is_running())
}

/// `[[kind, client, fact, …, seconds since it was emitted], …]`, at most `limit`
fn next_events(ruby: &Ruby, this: Value, timeout: Value, limit: usize) -> Result<RArray, Error> {
    let poller = Arc::clone(&*CLASS.get(ruby, &this)?);
    poller.check_origin().map_err(|error| error::ruby(ruby, &format!("poller {}", poller.name()), error))?;
    let feed = &**poller.events();
    let deadline = wait::deadline(convert::timeout(timeout)?);
    gvl::wait(ruby, this, feed, deadline, &|| feed.ready())?;
    let list = ruby.ary_new();
    for event in feed.take(limit) {
        list.push(row(ruby, event)?)?;
    }
    Ok(list)
}

/// The number of events that its clients ever emitted.
fn told(ruby: &Ruby, this: Value) -> Result<u64, Error> {
    Ok(CLASS.get(ruby, &this)?.events().pushed())
}

/// Ends the running `next_events`, or the next one, without an event.
fn wake(ruby: &Ruby, this: Value) -> Result<(), Error> {
    let poller = CLASS.get(ruby, &this)?;
    if !poller.is_foreign() {
        poller.events().wake();
    }
    Ok(())
}

#[allow(clippy::too_many_lines, reason = "one short arm for each kind of event")]
fn row(ruby: &Ruby, event: ClientEvent) -> Result<RArray, Error> {
    let row = ruby.ary_new_capa(9);
    let begin = |kind: &str| {
        row.push(ruby.to_symbol(kind))?;
        row.push(event.client.as_str())
    };
    match event.kind {
        EventKind::Log { level, facility, message } => {
            begin("log")?;
            row.push(level)?;
            row.push(facility)?;
            row.push(message)?;
        }
        EventKind::Error { code, reason, fatal } => {
            begin("error")?;
            row.push(code)?;
            row.push(ruby.to_symbol(KafkaError::new(code).name))?;
            row.push(reason)?;
            row.push(fatal)?;
        }
        EventKind::Statistics(json) => {
            begin("statistics")?;
            row.push(json)?;
        }
        EventKind::DeliveryFailed { code, topic, partition, delivery, position } => {
            begin("delivery_failed")?;
            failed(ruby, row, code, &topic, partition)?;
            row.push(delivery)?;
            row.push(position)?;
        }
        EventKind::Purged { code, topic, partition, delivery, position } => {
            begin("purged")?;
            failed(ruby, row, code, &topic, partition)?;
            row.push(delivery)?;
            row.push(position)?;
        }
        EventKind::Acknowledged { topic, partition, offset, micros, delivery, position } => {
            begin("acknowledged")?;
            row.push(value::interned(&topic)?)?;
            row.push(partition)?;
            row.push(offset)?;
            row.push(micros as f64 / 1e6)?;
            row.push(delivery)?;
            row.push(position)?;
        }
        EventKind::Reported { code, topic, partition, offset, micros, delivery, position } => {
            begin("reported")?;
            failed(ruby, row, code, &topic, partition)?;
            row.push(offset)?;
            row.push(micros as f64 / 1e6)?;
            row.push(delivery)?;
            row.push(position)?;
        }
        EventKind::QueueFull { waits, time } => {
            begin("queue_full")?;
            row.push(waits)?;
            row.push(time.as_secs_f64())?;
        }
        EventKind::Disconnected { idle } => {
            begin("disconnected")?;
            row.push(idle)?;
        }
        EventKind::Reconnected => begin("reconnected")?,
        EventKind::Unclosed { lost } => {
            begin("unclosed")?;
            row.push(lost)?;
        }
    }
    row.push(event.at.elapsed().as_secs_f64())?;
    Ok(row)
}

fn failed(ruby: &Ruby, row: RArray, code: i32, topic: &str, partition: i32) -> Result<(), Error> {
    let error = KafkaError::new(code);
    row.push(error.number())?;
    row.push(ruby.to_symbol(error.name))?;
    row.push(error.reason)?;
    row.push(value::interned(topic)?)?;
    row.push(error::partition(ruby, partition))
}

/// `{poller: Native::Poller, max_time: 100}` (milliseconds), both optional. `rest` gets the other options.
pub fn read_polling(
    ruby: &Ruby,
    given: RHash,
    mut rest: impl FnMut(&str, Value) -> Result<(), Error>,
) -> Result<Polling, Error> {
    let (mut poller, mut max_time) = (None, DEFAULT_MAX_TIME);
    given.foreach(|key: Symbol, setting: Value| {
        let name = key.name()?.into_owned();
        let refuse = |allowed| error::bad_option(ruby, &name, setting, allowed);
        match name.as_str() {
            "poller" => {
                let given = CLASS.get(ruby, &setting).map_err(|_| refuse("expected a Pelton::Native::Poller"))?;
                poller = Some(Arc::clone(&*given));
            }
            "max_time" => {
                let millis = magnus::Integer::from_value(setting).and_then(|number| number.to_u64().ok());
                let millis = millis.filter(|millis| *millis > 0);
                max_time = Duration::from_millis(millis.ok_or_else(|| refuse("expected an Integer > 0"))?);
            }
            _ => rest(&name, setting)?,
        }
        Ok(ForEach::Continue)
    })?;
    // Made only where it is used: it takes descriptors.
    let poller = poller.map_or_else(|| global(ruby).cloned(), Ok)?;
    Ok(Polling { poller, max_time })
}
