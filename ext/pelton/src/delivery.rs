//! Pelton::Delivery

use crate::value::typed::{Behind, Shared};
use crate::{convert, error, gvl, value};
use magnus::scan_args::{get_kwargs, scan_args};
use magnus::value::ReprValue;
use magnus::{Error, IntoValue, Module, RArray, RHash, RModule, Ruby, Value, method};
use pelton_core::delivery::{Delivery, Outcomes};
use pelton_core::error::Error as CoreError;
use pelton_core::wait;
use std::sync::Arc;

pub static CLASS: Shared<Delivery> = Shared::new(c"Pelton::Delivery");

impl Behind for Delivery {
    fn collected(self: Arc<Self>) {}

    fn size(&self) -> usize {
        size_of::<Self>() + if self.len() > 1 { self.len() * 32 } else { 0 }
    }
}

pub fn define(ruby: &Ruby, pelton: RModule) -> Result<(), Error> {
    let class = pelton.define_class("Delivery", ruby.class_object())?;
    CLASS.define(class);
    class.define_method("wait", method!(wait, -1))?;
    class.define_method("done?", method!(is_done, 0))?;
    class.define_method("delivered?", method!(is_delivered, 0))?;
    class.define_method("size", method!(size, 0))?;
    class.define_method("topic", method!(topic, 0))?;
    class.define_method("partition", method!(partition, 0))?;
    class.define_method("offset", method!(offset, 0))?;
    class.define_method("error", method!(failure, 0))?;
    class.define_method("reports", method!(reports, 0))
}

fn wait(ruby: &Ruby, this: Value, arguments: &[Value]) -> Result<Value, Error> {
    let timeout = match arguments {
        [] => None,
        _ => {
            let given = scan_args::<(), (), (), (), RHash, ()>(arguments)?;
            let (seconds,) = get_kwargs::<_, (), (Option<Value>,), ()>(given.keywords, &[], &["timeout"])?.optional;
            seconds.map_or(Ok(None), convert::timeout)?
        }
    };
    let delivery = Arc::clone(&*CLASS.get(ruby, &this)?);
    delivery.watch();
    if delivery.is_foreign() {
        return Err(error::ruby(ruby, "delivery", CoreError::Forked));
    }
    let ended = gvl::wait(ruby, this, &*delivery, wait::deadline(timeout), &|| delivery.is_done());
    if !matches!(ended, Ok(true)) {
        // Nobody looks any more: a failure is told as an event.
        delivery.unwatch();
    }
    // A failure reported in between was told to nobody: it is told here.
    if !ended? && !delivery.is_done() {
        let topic = (!delivery.is_empty()).then(|| &**delivery.topic(0));
        return Err(error::wait_timeout(ruby, "delivery", topic, timeout));
    }
    match delivery.first_failure() {
        None => Ok(this),
        Some(failed) => Err(error::not_delivered(ruby, &failed)),
    }
}

fn is_done(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    Ok(CLASS.get(ruby, &this)?.is_done())
}

fn is_delivered(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    Ok(CLASS.get(ruby, &this)?.is_delivered())
}

fn size(ruby: &Ruby, this: Value) -> Result<usize, Error> {
    Ok(CLASS.get(ruby, &this)?.len())
}

/// The first message's outcome; `None` for an empty batch.
fn first(ruby: &Ruby, this: Value) -> Result<Option<Outcomes>, Error> {
    let delivery = CLASS.get(ruby, &this)?;
    Ok((!delivery.is_empty()).then(|| delivery.outcome(0)))
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
    let delivery = Arc::clone(&*CLASS.get(ruby, &this)?);
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
