//! The options of a subscription, read from a Hash.

use crate::{error, filter, format, poller};
use magnus::r_hash::ForEach;
use magnus::value::ReprValue;
use magnus::{Error, RHash, Ruby, Value};
use pelton_core::poller::Polling;
use pelton_core::subscription::Options;
use std::sync::Arc;

/// `{max_messages: 100, max_batch_bytes: 1 << 20, prefetch_batches: 16, prefetch_bytes: 2 << 20,
/// decode: {"topic" => :json}, where: {"topic" =>
/// condition}, poller: …, max_time: 100}`
pub(super) fn read(ruby: &Ruby, given: RHash) -> Result<(Options, Polling), Error> {
    let mut options = Options::default();
    let polling = poller::read_polling(ruby, given, |name, setting| {
        let refuse = |allowed| error::bad_option(ruby, name, setting, allowed);
        let count = || {
            let number = magnus::Integer::from_value(setting).and_then(|number| number.to_usize().ok());
            number.filter(|number| *number > 0).ok_or_else(|| refuse("expected an Integer > 0"))
        };
        match name {
            "max_messages" => options.limits.messages = count()?,
            "max_batch_bytes" => options.limits.bytes = count()?,
            "prefetch_batches" => options.limits.prefetch = count()?,
            "prefetch_bytes" => options.limits.prefetch_bytes = count()?,
            "decode" => {
                let formats = RHash::from_value(setting).ok_or_else(|| refuse(format::ALLOWED))?;
                formats.foreach(|topic: String, format: Value| {
                    let format = format::read(ruby, format)?.ok_or_else(|| refuse(format::ALLOWED))?;
                    options.formats.insert(topic, Arc::new(format));
                    Ok(ForEach::Continue)
                })?;
            }
            "where" => {
                let filters = RHash::from_value(setting).ok_or_else(|| refuse("expected {\"topic\" => condition}"))?;
                filters.foreach(|topic: String, condition: Value| {
                    let filter = if condition.is_nil() { None } else { Some(Arc::new(filter::read(ruby, condition)?)) };
                    options.filters.insert(topic, filter);
                    Ok(ForEach::Continue)
                })?;
            }
            _ => return Err(refuse("unknown option")),
        }
        Ok(())
    })?;
    Ok((options, polling))
}
