//! Arguments: from Ruby's values to the core's, with errors that name key and value.

use crate::{error, value};
use magnus::r_hash::ForEach;
use magnus::value::ReprValue;
use magnus::{Error, RArray, RHash, Ruby, TryConvert, Value};
use pelton_core::config;
use pelton_core::rd::Headers;
use pelton_core::wait;
use std::time::{Duration, Instant};

/// Seconds, as a Numeric >= 0. nil, or more than a Duration can hold, is no limit. (`Clock.check` does the same.)
pub fn timeout(seconds: Value) -> Result<Option<Duration>, Error> {
    if seconds.is_nil() {
        return Ok(None);
    }
    match f64::try_convert(seconds) {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(Duration::try_from_secs_f64(number).ok()),
        _ => {
            let ruby = Ruby::get_with(seconds);
            Err(error::bad_option(&ruby, "timeout", seconds, "expected a number of seconds >= 0 or nil"))
        }
    }
}

/// The same for calls that need a limit.
pub fn bounded(timeout: Option<Duration>) -> Duration {
    timeout.unwrap_or(Duration::MAX)
}

/// How long a caller of `close` waits. The caller that started the close also grants the time that ending a client may
/// take. Other callers wait for a close that may have more time than they have.
pub fn close_deadline(timeout: Option<Duration>, begins: bool) -> Option<Instant> {
    let grace = Duration::from_secs(if begins { 10 } else { 1 });
    wait::deadline(timeout.and_then(|timeout| timeout.checked_add(grace)))
}

/// `{"key" => "value"}`, Strings only.
pub fn options(ruby: &Ruby, options: RHash) -> Result<Vec<(String, String)>, Error> {
    let mut pairs = Vec::new();
    options.foreach(|key: Value, setting: Value| {
        let name = utf8(&key).map(str::to_owned);
        let Some(name) = name else {
            return Err(error::bad_option(ruby, "librdkafka", key, "an option's name must be a String"));
        };
        let text = utf8(&setting).map(str::to_owned);
        let text = text.ok_or_else(|| error::bad_option(ruby, &name, setting, "a value must be a String"))?;
        pairs.push((name, text));
        Ok(ForEach::Continue)
    })?;
    Ok(pairs)
}

/// Options of a client that connects: `options`, and they say where Kafka is.
pub fn client_options(ruby: &Ruby, given: RHash) -> Result<Vec<(String, String)>, Error> {
    const WHERE: [&str; 3] = ["bootstrap.servers", "metadata.broker.list", "test.mock.num.brokers"];
    let pairs = options(ruby, given)?;
    let says_where = |text: &str| text.split(',').any(|server| !server.trim().is_empty());
    if pairs.iter().any(|(name, text)| WHERE.contains(&name.as_str()) && says_where(text)) {
        return Ok(pairs);
    }
    // A misspelled name (bootstrap_servers) is reported as such.
    config::build(borrowed(&pairs)).map_err(|error| error::ruby(ruby, "options", error))?;
    let reason = "not set, so there is no Kafka to connect to. Set it: \
                  config.kafka = { \"bootstrap.servers\" => \"localhost:9092\" }";
    Err(error::bad_option(ruby, WHERE[0], ruby.qnil().as_value(), reason))
}

/// Pairs as the core takes them.
pub fn borrowed(pairs: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))
}

/// A String's characters, if it is one of valid UTF-8 (or ASCII). No Ruby may be called while they are in use.
pub fn utf8(value: &Value) -> Option<&str> {
    std::str::from_utf8(value::bytes(value)?).ok()
}

/// A String's bytes, `None` for nil.
pub fn optional_bytes<'a>(ruby: &Ruby, key: &str, given: &'a Value) -> Result<Option<&'a [u8]>, Error> {
    match value::bytes(given) {
        None if !given.is_nil() => Err(error::invalid(ruby, key, *given, "a String or nil")),
        bytes => Ok(bytes),
    }
}

pub fn topic<'a>(ruby: &Ruby, topic: &'a Value) -> Result<&'a str, Error> {
    utf8(topic).ok_or_else(|| error::invalid(ruby, "topic", *topic, "a String"))
}

/// −1 (or nil): the partitioner chooses.
pub fn partition(ruby: &Ruby, partition: Value) -> Result<i32, Error> {
    if partition.is_nil() {
        return Ok(-1);
    }
    let number = magnus::Integer::from_value(partition).and_then(|number| number.to_i32().ok());
    let number = number.filter(|number| *number >= -1);
    number.ok_or_else(|| error::invalid(ruby, "partition", partition, "an Integer >= 0 or nil"))
}

/// An Integer that is not negative.
pub fn number(ruby: &Ruby, key: &str, given: Value) -> Result<i32, Error> {
    let number = magnus::Integer::from_value(given).and_then(|number| number.to_i32().ok());
    number.filter(|number| *number >= 0).ok_or_else(|| error::invalid(ruby, key, given, "an Integer >= 0"))
}

pub fn offset(ruby: &Ruby, given: Value) -> Result<i64, Error> {
    let number = magnus::Integer::from_value(given).and_then(|number| number.to_i64().ok());
    number.filter(|number| *number >= 0).ok_or_else(|| error::invalid(ruby, "offset", given, "an Integer >= 0"))
}

/// −1 (or nil): unknown.
pub fn leader_epoch(ruby: &Ruby, given: Value) -> Result<i32, Error> {
    if given.is_nil() {
        return Ok(-1);
    }
    let number = magnus::Integer::from_value(given).and_then(|number| number.to_i32().ok());
    let number = number.filter(|number| *number >= -1);
    number.ok_or_else(|| error::invalid(ruby, "leader_epoch", given, "an Integer >= -1 or nil"))
}

/// The metadata that is stored with an offset: the protocol's length has 15 bits.
pub fn metadata<'a>(ruby: &Ruby, given: &'a Value) -> Result<Option<&'a [u8]>, Error> {
    let invalid = || error::invalid(ruby, "metadata", *given, "a String of up to 32767 bytes or nil");
    match value::bytes(given) {
        None if given.is_nil() => Ok(None),
        found => found.filter(|bytes| bytes.len() <= 32767).map(Some).ok_or_else(invalid),
    }
}

/// A Time, or milliseconds since 1970; 0 (nil) is now.
pub fn timestamp(ruby: &Ruby, timestamp: Value) -> Result<i64, Error> {
    if timestamp.is_nil() {
        return Ok(0);
    }
    let number = magnus::Integer::from_value(timestamp).and_then(|number| number.to_i64().ok());
    let number = number.or_else(|| value::time_millis(timestamp)).filter(|number| *number > 0);
    number.ok_or_else(|| error::invalid(ruby, "timestamp", timestamp, "a Time after 1970 or Integer milliseconds > 0"))
}

/// `{"name" => "value" | nil | ["value", …]}` or nil.
pub fn headers(ruby: &Ruby, headers: Value) -> Result<Option<Headers>, Error> {
    const EXPECTED: &str = "a Hash of String => String, nil or an Array of those";
    if headers.is_nil() {
        return Ok(None);
    }
    let invalid = |value| error::invalid(ruby, "headers", value, EXPECTED);
    let hash = RHash::from_value(headers).ok_or_else(|| invalid(headers))?;
    if hash.is_empty() {
        return Ok(None);
    }
    let mut native = Headers::with_capacity(hash.len());
    hash.foreach(|name: Value, values: Value| {
        let bytes = value::bytes(&name).ok_or_else(|| invalid(name))?;
        // Consumers on librdkafka would see the text before it as another header's name.
        if bytes.contains(&0) {
            return Err(error::invalid(ruby, "headers", name, "names without a NUL byte"));
        }
        let mut add = |one: Value| match value::bytes(&one) {
            None if !one.is_nil() => Err(invalid(one)),
            value => {
                native.add(bytes, value);
                Ok(())
            }
        };
        match RArray::from_value(values) {
            None => add(values)?,
            Some(list) => (0..value::length(list)).try_for_each(|index| add(value::element(list, index)))?,
        }
        Ok(ForEach::Continue)
    })?;
    Ok(Some(native))
}

/// `[[topic, partition], …]`, with an offset each where `offsets`.
pub fn topic_partitions(ruby: &Ruby, list: RArray, offsets: bool) -> Result<Vec<(String, i32, i64)>, Error> {
    let expected = if offsets { "[[topic, partition, offset], …]" } else { "[[topic, partition], …]" };
    let mut topic_partitions = Vec::with_capacity(value::length(list));
    for index in 0..value::length(list) {
        let row = value::element(list, index);
        let invalid = || error::invalid(ruby, "partitions", row, expected);
        let columns = RArray::from_value(row).ok_or_else(invalid)?;
        let name = value::element(columns, 0);
        let topic = utf8(&name).ok_or_else(invalid)?.to_owned();
        let integer = |column| magnus::Integer::from_value(value::element(columns, column));
        let number = integer(1).and_then(|number| number.to_i32().ok()).filter(|number| *number >= 0);
        let number = number.ok_or_else(invalid)?;
        let offset = if offsets { integer(2).and_then(|offset| offset.to_i64().ok()).ok_or_else(invalid)? } else { 0 };
        topic_partitions.push((topic, number, offset));
    }
    Ok(topic_partitions)
}

/// Partitions as the core takes them.
pub fn plain(topic_partitions: &[(String, i32, i64)]) -> Vec<(&str, i32)> {
    topic_partitions.iter().map(|(topic, number, _)| (topic.as_str(), *number)).collect()
}

pub fn with_offsets(topic_partitions: &[(String, i32, i64)]) -> Vec<(&str, i32, i64)> {
    topic_partitions.iter().map(|(topic, number, offset)| (topic.as_str(), *number, *offset)).collect()
}

/// Strings of an Array.
pub fn strings(ruby: &Ruby, key: &str, list: RArray) -> Result<Vec<String>, Error> {
    let one = |index| {
        let given = value::element(list, index);
        let text = utf8(&given).map(str::to_owned);
        text.ok_or_else(|| error::invalid(ruby, key, given, "an Array of Strings"))
    };
    (0..value::length(list)).map(one).collect()
}
