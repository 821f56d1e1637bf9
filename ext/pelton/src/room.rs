//! Room in a producer's queue.

use crate::gvl;
use magnus::{Error, Ruby, Value};
use pelton_core::producer::Producer;
use std::sync::Arc;
use std::time::Instant;

/// The producer's name in errors.
pub fn named(producer: &Producer) -> String {
    format!("producer {}", producer.name())
}

/// False: there is none until the deadline.
pub fn wait_for_room(
    ruby: &Ruby,
    this: Value,
    producer: &Arc<Producer>,
    seen: u64,
    deadline: Option<Instant>,
) -> Result<bool, Error> {
    let started = Instant::now();
    let _no_linger = producer.skip_linger();
    let ready = || producer.reports() != seen || producer.closing().started();
    let found = gvl::wait(ruby, this, &**producer, deadline, &ready);
    producer.waited_for_room(started.elapsed());
    found
}
