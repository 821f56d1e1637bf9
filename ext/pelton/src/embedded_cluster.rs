//! Pelton::Native::EmbeddedCluster

use crate::value::typed::{NativeData, Shared};
use crate::{convert, error, gvl};
use magnus::{Error, Module, Object, RArray, RModule, Ruby, TryConvert, Value, function, method};
use pelton_core::embedded::EmbeddedCluster;
use pelton_core::error::Error as CoreError;
use pelton_core::rd::Origin;
use std::sync::{Arc, Mutex, PoisonError};

static CLASS: Shared<Arc<Cluster>> = Shared::new(c"Pelton::Native::EmbeddedCluster");

/// Emptied when closed.
struct Cluster {
    live: Mutex<Option<Arc<EmbeddedCluster>>>,
    origin: Origin,
}

impl Cluster {
    fn live(&self) -> Result<Arc<EmbeddedCluster>, CoreError> {
        self.origin.check()?;
        self.live.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(CoreError::Closed)
    }

    fn take(&self) -> Option<Arc<EmbeddedCluster>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl NativeData for Arc<Cluster> {
    /// Ending a cluster blocks.
    fn collected(self) {
        if self.origin.is_foreign() {
            std::mem::forget(self);
        } else {
            let _ = std::thread::Builder::new().name("pelton.close".into()).spawn(move || drop(self));
        }
    }
}

pub fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = native.define_class("EmbeddedCluster", ruby.class_object())?;
    CLASS.define(class);
    class.define_singleton_method("new", function!(new, 1))?;
    class.define_method("bootstrap_servers", method!(bootstrap_servers, 0))?;
    class.define_method("create_topic", method!(create_topic, 2))?;
    class.define_method("push_errors", method!(push_errors, 2))?;
    class.define_method("topic_error", method!(topic_error, 2))?;
    class.define_method("watch_requests", method!(watch_requests, 0))?;
    class.define_method("watched_requests", method!(watched_requests, 0))?;
    class.define_method("round_trip_time", method!(round_trip_time, 2))?;
    class.define_method("broker_down", method!(broker_down, 1))?;
    class.define_method("broker_up", method!(broker_up, 1))?;
    class.define_method("close", method!(close, 0))
}

fn new(ruby: &Ruby, brokers: i32) -> Result<Value, Error> {
    let cluster = EmbeddedCluster::start(brokers).map_err(|error| error::ruby(ruby, "embedded cluster", error))?;
    let live = Mutex::new(Some(Arc::new(cluster)));
    CLASS.wrap(Arc::new(Cluster { live, origin: Origin::here() }))
}

/// Runs `act` on the live cluster.
fn with<T>(ruby: &Ruby, this: Value, act: impl FnOnce(&EmbeddedCluster) -> Result<T, CoreError>) -> Result<T, Error> {
    let live = CLASS.get(ruby, &this)?.live();
    live.and_then(|cluster| act(&cluster)).map_err(|error| error::ruby(ruby, "embedded cluster", error))
}

fn bootstrap_servers(ruby: &Ruby, this: Value) -> Result<String, Error> {
    with(ruby, this, |cluster| Ok(cluster.bootstrap_servers()))
}

fn create_topic(ruby: &Ruby, this: Value, name: Value, partitions: i32) -> Result<(), Error> {
    let name = convert::topic(ruby, &name)?.to_owned();
    with(ruby, this, |cluster| cluster.create_topic(&name, partitions))
}

fn push_errors(ruby: &Ruby, this: Value, api_key: i16, codes: RArray) -> Result<(), Error> {
    let codes: Vec<i32> = (0..crate::value::length(codes))
        .map(|index| i32::try_convert(crate::value::element(codes, index)))
        .collect::<Result<_, _>>()?;
    with(ruby, this, |cluster| {
        cluster.push_errors(api_key, &codes);
        Ok(())
    })
}

fn topic_error(ruby: &Ruby, this: Value, name: Value, code: i32) -> Result<(), Error> {
    let name = convert::topic(ruby, &name)?.to_owned();
    with(ruby, this, |cluster| cluster.topic_error(&name, code))
}

fn watch_requests(ruby: &Ruby, this: Value) -> Result<(), Error> {
    with(ruby, this, |cluster| {
        cluster.watch_requests();
        Ok(())
    })
}

fn watched_requests(ruby: &Ruby, this: Value) -> Result<Vec<i16>, Error> {
    with(ruby, this, |cluster| Ok(cluster.watched_requests()))
}

fn round_trip_time(ruby: &Ruby, this: Value, broker: i32, millis: i32) -> Result<(), Error> {
    with(ruby, this, |cluster| cluster.round_trip_time(broker, millis))
}

fn broker_down(ruby: &Ruby, this: Value, broker: i32) -> Result<(), Error> {
    with(ruby, this, |cluster| cluster.broker_down(broker))
}

fn broker_up(ruby: &Ruby, this: Value, broker: i32) -> Result<(), Error> {
    with(ruby, this, |cluster| cluster.broker_up(broker))
}

fn close(ruby: &Ruby, this: Value) -> Result<(), Error> {
    let cluster = Arc::clone(&*CLASS.get(ruby, &this)?);
    cluster.origin.check().map_err(|error| error::ruby(ruby, "embedded cluster", error))?;
    let Some(live) = cluster.take() else { return Ok(()) };
    gvl::background(ruby, this, None, move || drop(live)).map(|_| ())
}
