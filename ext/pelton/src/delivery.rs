//! Pelton::Delivery

use crate::value::typed::{NativeData, Shared};
use crate::{convert, error, gvl, value};
use magnus::scan_args::{get_kwargs, scan_args};
use magnus::value::ReprValue;
use magnus::{Error, IntoValue, Module, RArray, RHash, RModule, Ruby, Value, method};
use pelton_core::delivery::{Delivery, Outcomes};
use pelton_core::wait;
use std::time::Duration;

pub static CLASS: Shared<Delivery> = Shared::new(c"Pelton::Delivery");

impl NativeData for Delivery {
    /// An expected wait that never came (its thread was killed before) costs no failure its event.
    fn collected(self) {
        self.expect_no_wait();
    }
}

pub fn define(ruby: &Ruby, pelton: RModule) -> Result<(), Error> {
    let class = pelton.define_class("Delivery", ruby.class_object())?;
    CLASS.define(class);
    class.define_method("wait", method!(wait, -1))?;
    class.define_method("done?", method!(is_done, 0))?;
    class.define_method("delivered?", method!(is_delivered, 0))?;
    class.define_method("settled?", method!(is_settled, 0))?;
    class.define_method("size", method!(size, 0))?;
    class.define_method("id", method!(id, 0))?;
    class.define_method("publish_reports", method!(publish_reports, 0))?;
    class.define_method("expect_wait", method!(expect_wait, 0))?;
    class.define_method("expect_no_wait", method!(expect_no_wait, 0))?;
    class.define_method("seen", method!(seen, 0))?;
    class.define_method("topic", method!(topic, 0))?;
    class.define_method("partition", method!(partition, 0))?;
    class.define_method("offset", method!(offset, 0))?;
    class.define_method("error", method!(failure, 0))?;
    class.define_method("reports", method!(reports, 0))
}

fn wait(ruby: &Ruby, this: Value, arguments: &[Value]) -> Result<Value, Error> {
    let lent = CLASS.get(ruby, &this)?;
    if arguments.is_empty() && lent.is_delivered() {
        return Ok(this);
    }
    let delivery = lent.clone();
    let timeout = match arguments {
        [] => None,
        _ => {
            let given = scan_args::<(), (), (), (), RHash, ()>(arguments)?;
            let (seconds,) = get_kwargs::<_, (), (Option<Value>,), ()>(given.keywords, &[], &["timeout"])?.optional;
            seconds.map_or(Ok(None), convert::timeout)?
        }
    };
    delivery.check_origin().map_err(|error| error::ruby(ruby, "delivery", error))?;
    // However the wait ends: failures that this caller does not get become events.
    let watch = delivery.watch();
    let no_linger = delivery.skip_linger();
    let ended = gvl::wait(ruby, this, &delivery, wait::deadline(timeout), &|| delivery.is_done());
    drop(no_linger);
    if !ended? && !delivery.is_done() {
        return Err(late(ruby, &delivery, timeout));
    }
    let Some(failed) = delivery.first_failure() else { return Ok(this) };
    let failure = error::delivery_error(ruby, &failed)?;
    // A kill, or an exception from another thread, would replace this one, and the failure would be lost.
    ruby.thread_check_ints()?;
    watch.seen();
    Err(error::raised(ruby, failure))
}

/// "delivery to orders not finished …", "3 of 10 deliveries …"
fn late(ruby: &Ruby, delivery: &Delivery, timeout: Option<Duration>) -> Error {
    let positions = 0..delivery.len();
    let topic = delivery.topic(0);
    let topic = positions.clone().all(|position| delivery.topic(position) == topic).then(|| &**topic);
    let what = if delivery.len() == 1 {
        "delivery".into()
    } else {
        let open = positions.filter(|position| !delivery.is_reported(*position)).count();
        format!("{open} of {} deliveries", delivery.len())
    };
    match delivery.last_error() {
        None => error::wait_timeout(ruby, &what, topic, timeout),
        Some(reason) => error::wait_timeout_because(ruby, &what, topic, timeout, &reason),
    }
}

fn is_done(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    Ok(CLASS.get(ruby, &this)?.is_done())
}

fn is_delivered(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    Ok(CLASS.get(ruby, &this)?.is_delivered())
}

fn is_settled(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    Ok(CLASS.get(ruby, &this)?.is_settled())
}

fn size(ruby: &Ruby, this: Value) -> Result<usize, Error> {
    Ok(CLASS.get(ruby, &this)?.len())
}

/// The first message's outcome; `None` for an empty batch.
fn first(ruby: &Ruby, this: Value) -> Result<Option<Outcomes>, Error> {
    let delivery = CLASS.get(ruby, &this)?;
    Ok((!delivery.is_empty()).then(|| delivery.outcome(0)))
}

fn id(ruby: &Ruby, this: Value) -> Result<u64, Error> {
    Ok(CLASS.get(ruby, &this)?.id())
}

/// For the block of `produce_many`, which gets a delivery of its own.
fn publish_reports(ruby: &Ruby, this: Value) -> Result<(), Error> {
    CLASS.get(ruby, &this)?.publish_reports();
    Ok(())
}

fn expect_wait(ruby: &Ruby, this: Value) -> Result<(), Error> {
    CLASS.get(ruby, &this)?.expect_wait();
    Ok(())
}

fn expect_no_wait(ruby: &Ruby, this: Value) -> Result<(), Error> {
    CLASS.get(ruby, &this)?.expect_no_wait();
    Ok(())
}

fn seen(ruby: &Ruby, this: Value) -> Result<(), Error> {
    CLASS.get(ruby, &this)?.seen();
    Ok(())
}

fn topic(ruby: &Ruby, this: Value) -> Result<Option<Value>, Error> {
    first(ruby, this)?.map(|outcome| value::interned(&outcome.topic)).transpose()
}

fn partition(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    Ok(error::partition(ruby, first(ruby, this)?.map_or(-1, |outcome| outcome.partition)))
}

fn offset(ruby: &Ruby, this: Value) -> Result<Option<i64>, Error> {
    Ok(first(ruby, this)?.map(|outcome| outcome.offset).filter(|offset| *offset >= 0))
}

fn failure(ruby: &Ruby, this: Value) -> Result<Value, Error> {
    match CLASS.get(ruby, &this)?.first_failure() {
        None => Ok(ruby.qnil().as_value()),
        Some(failed) => error::delivery_error(ruby, &failed),
    }
}

fn reports(ruby: &Ruby, this: Value) -> Result<RArray, Error> {
    let delivery = CLASS.get(ruby, &this)?.clone();
    let rows = ruby.ary_new_capa(delivery.len());
    for position in 0..delivery.len() {
        let outcome = delivery.outcome(position);
        let partition = error::partition(ruby, outcome.partition);
        let offset = Some(outcome.offset).filter(|offset| *offset >= 0).into_value_with(ruby);
        let failure = error::delivery_error(ruby, &outcome)?;
        let row = ruby.ary_new_from_values(&[value::interned(&outcome.topic)?, partition, offset, failure]);
        rows.push(row)?;
    }
    Ok(rows)
}
