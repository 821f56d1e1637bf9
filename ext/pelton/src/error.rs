//! From the core's errors to Ruby's (lib/pelton/errors builds the messages), one class for each variant.

use crate::value;
use magnus::value::ReprValue;
use magnus::{Error, ExceptionClass, IntoValue, Module, Ruby, Symbol, Value};
use pelton_core::delivery::Outcomes;
use pelton_core::error::{Error as CoreError, KafkaError};
use pelton_core::rd::codes;
use std::time::Duration;

/// Makes `Pelton::<name>` with these arguments.
fn make<A: magnus::ArgList>(ruby: &Ruby, name: &str, arguments: A) -> Result<Value, Error> {
    let class: ExceptionClass = value::pelton(ruby)?.const_get(name)?;
    class.funcall("new", arguments)
}

/// An exception to raise. If creating it fails, that error is raised instead.
fn raise<A: magnus::ArgList>(ruby: &Ruby, name: &str, arguments: A) -> Error {
    match make(ruby, name, arguments) {
        Err(error) => error,
        Ok(made) => match magnus::Exception::from_value(made) {
            Some(exception) => exception.into(),
            None => Error::new(ruby.exception_type_error(), format!("Pelton::{name} is not an exception class")),
        },
    }
}

/// `what`: the object of the error: "producer orders-writer".
pub fn ruby(ruby: &Ruby, what: &str, error: CoreError) -> Error {
    match error {
        CoreError::Config { key, value, reason } => raise(ruby, "ConfigError", (key, value, reason)),
        CoreError::Kafka(error) => match kafka_error(ruby, &error) {
            Ok(made) => raised(ruby, made),
            Err(error) => error,
        },
        CoreError::Closed => raise(ruby, "ClosedError", (what,)),
        CoreError::Forked(owner) => raise(ruby, "ForkError", (what, owner)),
        CoreError::QueueFull => raise(ruby, "QueueFullError", ()),
        CoreError::TimedOut | CoreError::Interrupted => raise(ruby, "WaitTimeout", (what,)),
        CoreError::Invalid { what, value, allowed } => raise(ruby, "InvalidMessageError", (what, value, allowed)),
    }
}

fn facts(ruby: &Ruby, error: &KafkaError) -> (i32, Symbol, String, bool, bool) {
    (error.number(), ruby.to_symbol(&error.name), error.reason.clone(), error.fatal, error.retriable())
}

/// A `Pelton::KafkaError`, not raised.
pub fn kafka_error(ruby: &Ruby, error: &KafkaError) -> Result<Value, Error> {
    let (code, name, reason, fatal, retriable) = facts(ruby, error);
    make(ruby, "KafkaError", (code, name, reason, fatal, retriable, error.abortable))
}

/// A call to Kafka that had no answer in time.
pub fn timed_out(ruby: &Ruby, what: &str) -> Error {
    self::ruby(ruby, what, CoreError::code(codes::TIMED_OUT))
}

/// The `Pelton::DeliveryError` of a message that failed; nil for one that did not.
pub fn delivery_error(ruby: &Ruby, outcome: &Outcomes) -> Result<Value, Error> {
    let Some(error) = &outcome.error else { return Ok(ruby.qnil().as_value()) };
    let (code, name, reason, fatal, retriable) = facts(ruby, error);
    let partition = partition(ruby, outcome.partition);
    make(ruby, "DeliveryError", (code, name, reason, fatal, retriable, &*outcome.topic, partition))
}

/// The same, to be raised.
pub fn not_delivered(ruby: &Ruby, outcome: &Outcomes) -> Error {
    match delivery_error(ruby, outcome) {
        Err(error) => error,
        Ok(made) => raised(ruby, made),
    }
}

/// An exception that was made, to be raised.
pub fn raised(ruby: &Ruby, made: Value) -> Error {
    magnus::Exception::from_value(made).map_or_else(|| raise(ruby, "Error", ()), Error::from)
}

/// A partition's number, nil where none was chosen.
pub fn partition(ruby: &Ruby, number: i32) -> Value {
    if number < 0 { ruby.qnil().as_value() } else { number.into_value_with(ruby) }
}

/// `delivery`: the handle of a batch of which a part was taken.
pub fn queue_full(ruby: &Ruby, topic: &str, waited: Option<Duration>, delivery: Option<Value>) -> Error {
    raise(ruby, "QueueFullError", (topic, waited.map(|waited| waited.as_secs_f64()), delivery))
}

pub fn wait_timeout(ruby: &Ruby, operation: &str, topic: Option<&str>, waited: Option<Duration>) -> Error {
    raise(ruby, "WaitTimeout", (operation, topic, waited.map(|waited| waited.as_secs_f64())))
}

/// The same with Kafka's last error as its reason and cause.
pub fn wait_timeout_because(
    ruby: &Ruby,
    operation: &str,
    topic: Option<&str>,
    waited: Option<Duration>,
    reason: &KafkaError,
) -> Error {
    let raise = |reason: Value| -> Result<Value, Error> {
        let seconds = waited.map(|waited| waited.as_secs_f64());
        let made = make(ruby, "WaitTimeout", (operation, topic, seconds, reason))?;
        // Only `raise` sets the cause.
        ruby.module_kernel().funcall("raise", (made, magnus::kwargs!("cause" => reason)))
    };
    match kafka_error(ruby, reason).and_then(raise) {
        Err(error) => error,
        Ok(_) => wait_timeout(ruby, operation, topic, waited),
    }
}

pub fn invalid(ruby: &Ruby, key: &str, value: Value, expected: &str) -> Error {
    raise(ruby, "InvalidMessageError", (ruby.to_symbol(key), value, expected))
}

/// The error of a batch's message number `index`.
pub fn at(error: Error, index: usize) -> Error {
    let Some(exception) = error.value() else { return error };
    match exception.respond_to("at", false) {
        Ok(true) => exception
            .funcall("at", (index,))
            .map_or_else(|error| error, |made: Value| magnus::Exception::from_value(made).map_or(error, Error::from)),
        _ => error,
    }
}

pub fn bad_option(ruby: &Ruby, key: &str, value: Value, reason: &str) -> Error {
    raise(ruby, "ConfigError", (key, value, reason))
}

/// A payload that is not what its topic's format says.
pub fn undecodable(ruby: &Ruby, place: Option<(&str, i32, i64)>, reason: &str) -> Error {
    let (topic, partition, offset) = place.map_or((None, None, None), |(a, b, c)| (Some(a), Some(b), Some(c)));
    raise(ruby, "DecodeError", (topic, partition, offset, reason))
}

/// A value that does not fit its schema.
pub fn unfit(ruby: &Ruby, schema: Option<&str>, reason: &str) -> Error {
    raise(ruby, "EncodeError", (schema, reason))
}

/// For `Pelton::Error` itself.
pub fn plain(ruby: &Ruby, message: &str) -> Error {
    raise(ruby, "Error", (message,))
}
