//! Pelton::Native: module functions.

use crate::value::build::{BuildOptions, build, copies_hashes};
use crate::{convert, error, filter, format, gvl, statistics, value};
use magnus::value::ReprValue;
use magnus::{
    Class, Error, ExceptionClass, IntoValue, Module, Object, RArray, RHash, RModule, RString, Ruby, Symbol, Value,
    function,
};
use pelton_core::budget;
use pelton_core::config;
use pelton_core::decode::{Node, Pool, Refusal, Reject, Tree};
use pelton_core::effective;
use pelton_core::error::KafkaError;
use pelton_core::events;
use pelton_core::fallbacks;
use pelton_core::metadata::{self, Metadata};
use pelton_core::poller::Poller;
use pelton_core::rd::{self, ClientKind, fetching};
use pelton_core::wait;
use std::sync::Arc;
use std::time::Duration;

/// Limit of a question that is not given one.
const ASK: Duration = Duration::from_secs(60);

/// librdkafka's own answer comes in time, and says more than ours.
const GRACE: Duration = Duration::from_secs(1);

pub fn define(_: &Ruby, native: RModule) -> Result<(), Error> {
    native.define_singleton_method("librdkafka_version", function!(librdkafka_version, 0))?;
    native.define_singleton_method("librdkafka_features", function!(librdkafka_features, 0))?;
    native.define_singleton_method("librdkafka_shared?", function!(rd::library_is_shared, 0))?;
    native.define_singleton_method("threads", function!(threads, 0))?;
    native.define_singleton_method("decoding_threads=", function!(set_decoding_threads, 1))?;
    native.define_singleton_method("decoding_memory=", function!(set_decoding_memory, 1))?;
    native.define_singleton_method("decoding_memory", function!(budget::taken, 0))?;
    native.define_singleton_method("decode_fallbacks", function!(decode_fallbacks, 0))?;
    native.define_singleton_method("limit_memory", function!(limit_memory, 3))?;
    native.define_singleton_method("memory", function!(memory, 0))?;
    native.define_singleton_method("allocator_memory", function!(allocator_memory, 0))?;
    native.define_singleton_method("next_token_requests", function!(next_token_requests, 1))?;
    native.define_singleton_method("next_fibers", function!(next_fibers, 1))?;
    native.define_singleton_method("time_wakes=", function!(wait::time_wakes, 1))?;
    native.define_singleton_method("since_wake", function!(since_wake, 0))?;
    native.define_singleton_method("parse_json", function!(parse_json, 1))?;
    native.define_singleton_method("decode", function!(decode, 2))?;
    native.define_singleton_method("copies_hashes?", function!(copies_hashes, 0))?;
    native.define_singleton_method("parse_statistics", function!(parse_statistics, 1))?;
    native.define_singleton_method("error", function!(error_of, 1))?;
    native.define_singleton_method("check_options", function!(check_options, 1))?;
    native.define_singleton_method("effective_options", function!(effective_options, 2))?;
    native.define_singleton_method("knows_pattern?", function!(knows_pattern, 1))?;
    native.define_singleton_method("metadata", function!(metadata, 3))?;
    native.define_singleton_method("read_kernel_file", function!(read_kernel_file, 1))
}

/// The text of a file that the kernel makes up, such as /proc/self/status; else SystemCallError. Reading it never
/// waits, so the scheduler of a fiber is left out: it would read through IO::Buffer, and Ruby warns that this is
/// experimental. A blocking fiber would leave it out, too, but Ruby crashes in a child forked while another thread is
/// in one.
fn read_kernel_file(ruby: &Ruby, path: String) -> Result<RString, Error> {
    let text = std::fs::read(&path).map_err(|error| {
        let class = ruby.class_object().const_get::<_, ExceptionClass>("SystemCallError");
        match class.and_then(|class| class.new_instance((path, error.raw_os_error()))) {
            Ok(raised) => raised.into(),
            Err(failure) => failure,
        }
    })?;
    Ok(ruby.enc_str_new(text, ruby.utf8_encoding()))
}

/// Whether a `where` with this Regexp is answered without Ruby (except for some texts).
fn knows_pattern(ruby: &Ruby, regexp: Value) -> Result<bool, Error> {
    filter::pattern(ruby, regexp).map(|pattern| !pattern.is_foreign())
}

/// The meaning of a code, as a Pelton::KafkaError.
fn error_of(ruby: &Ruby, code: i32) -> Result<Value, Error> {
    error::kafka_error(ruby, &KafkaError::new(code))
}

/// Raises the error that opening a client with these options would raise, if the options alone show it.
fn check_options(ruby: &Ruby, options: RHash) -> Result<(), Error> {
    let options = convert::options(ruby, options)?;
    let built = config::build(convert::borrowed(&options));
    built.map(drop).map_err(|error| error::ruby(ruby, "options", error))
}

/// All options that such a client would work with, secrets included. Creates a client for this, and waits for it.
fn effective_options(ruby: &Ruby, kind: Symbol, options: RHash) -> Result<RHash, Error> {
    let options = convert::options(ruby, options)?;
    let kind = if kind.name()? == "consumer" { ClientKind::Consumer } else { ClientKind::Producer };
    let ask = move || effective::options(kind, convert::borrowed(&options));
    match gvl::background(ruby, native(ruby), None, ask)? {
        None => Err(error::timed_out(ruby, "effective_options")),
        Some(Err(error)) => Err(error::ruby(ruby, "options", error)),
        Some(Ok(found)) => Ok(ruby.hash_from_iter(found)),
    }
}

fn librdkafka_version() -> String {
    rd::library_version()
}

fn librdkafka_features() -> Vec<String> {
    rd::library_features().split(',').map(Into::into).collect()
}

fn threads(ruby: &Ruby) -> Result<RHash, Error> {
    let counts = ruby.hash_new();
    counts.aset(ruby.to_symbol("poller"), Poller::threads())?;
    counts.aset(ruby.to_symbol("decode"), Pool::global().threads())?;
    Ok(counts)
}

/// Bytes that the extension holds, librdkafka included: `{allocated:, resident:}`. nil with the system's allocator.
#[cfg(own_allocator)]
fn allocator_memory(ruby: &Ruby) -> Result<Option<RHash>, Error> {
    let memory = pelton_allocator::memory();
    let figures = ruby.hash_new();
    figures.aset(ruby.to_symbol("allocated"), memory.allocated)?;
    figures.aset(ruby.to_symbol("resident"), memory.resident)?;
    Ok(Some(figures))
}

#[cfg(not(own_allocator))]
fn allocator_memory() -> Option<RHash> {
    None
}

fn set_decoding_threads(count: Option<usize>) {
    Pool::configure(count.unwrap_or(0));
}

fn set_decoding_memory(bytes: Option<usize>) {
    budget::configure(bytes.unwrap_or(budget::DEFAULT));
}

/// {"orders" => documents of this topic that Ruby decoded, because the native decoder left them}
fn decode_fallbacks(ruby: &Ruby) -> RHash {
    ruby.hash_from_iter(fallbacks::counts().into_iter().map(|(topic, count)| (String::from(topic), count)))
}

/// Limits the bytes of messages in the whole process: of those that wait or are in batches, of those that message
/// objects keep before garbage is collected, and of those that producers queue. nil: no limit.
fn limit_memory(fetched: Option<usize>, retained: Option<usize>, queued: Option<usize>) {
    fetching::configure(fetched.unwrap_or(usize::MAX));
    budget::limit_retained(retained.unwrap_or(usize::MAX));
    budget::limit_queued(queued.unwrap_or(usize::MAX));
}

/// Bytes that this process holds.
fn memory(ruby: &Ruby) -> Result<RHash, Error> {
    let parts = ruby.hash_new();
    parts.aset(ruby.to_symbol("fetched"), fetching::waiting())?;
    parts.aset(ruby.to_symbol("batches"), fetching::batches())?;
    parts.aset(ruby.to_symbol("retained"), budget::retained())?;
    parts.aset(ruby.to_symbol("decoded"), budget::taken())?;
    parts.aset(ruby.to_symbol("producers"), budget::queued())?;
    Ok(parts)
}

fn native(ruby: &Ruby) -> Value {
    ruby.qnil().as_value()
}

/// Ids of fibers to be unblocked; for the thread of lib/pelton/runtime/fibers.rb.
fn next_fibers(ruby: &Ruby, timeout: Value) -> Result<RArray, Error> {
    let mailbox = gvl::woken_fibers();
    let deadline = wait::deadline(convert::timeout(timeout)?);
    gvl::wait(ruby, native(ruby), mailbox, deadline, &|| mailbox.ready())?;
    Ok(ruby.ary_from_iter(mailbox.take_all()))
}

/// Names of clients that want a token; for the thread of lib/pelton/runtime/oauth.rb.
fn next_token_requests(ruby: &Ruby, timeout: Value) -> Result<RArray, Error> {
    let mailbox = events::tokens();
    let deadline = wait::deadline(convert::timeout(timeout)?);
    gvl::wait(ruby, native(ruby), mailbox, deadline, &|| mailbox.ready())?;
    Ok(ruby.ary_from_iter(mailbox.take_all()))
}

/// Seconds since native code woke a waiting thread or fiber; nil if there was none since `time_wakes = true`. For
/// bench/wakeup.rb.
fn since_wake() -> Option<f64> {
    wait::since_wake().map(|past| past.as_secs_f64())
}

/// A document's value by the native decoder; what that does not decide, by Ruby's own.
fn parse_json(ruby: &Ruby, document: Value) -> Result<Value, Error> {
    parse(ruby, document, |root| build(root, BuildOptions::default()))
}

/// The same for a client's statistics: of a consumer's partitions those that are assigned to it.
fn parse_statistics(ruby: &Ruby, document: Value) -> Result<Value, Error> {
    parse(ruby, document, |root| statistics::build(ruby, root))
}

fn parse(ruby: &Ruby, document: Value, make: impl FnOnce(Node<'_>) -> Result<Value, Error>) -> Result<Value, Error> {
    let Some(bytes) = value::bytes(&document).map(<[u8]>::to_vec) else {
        return Err(Error::new(ruby.exception_type_error(), "expected a document, a String"));
    };
    let (root, tree, bytes) = gvl::aside(ruby, native(ruby), bytes.len(), move || {
        let mut tree = Tree::new();
        (tree.parse_json(&bytes, 0, bytes.len()), tree, bytes)
    })?;
    match root {
        Ok(root) => make(tree.node(&bytes, root)),
        Err(Reject) => value::pelton(ruby)?.const_get::<_, Value>("Json")?.funcall("parse", (document,)),
    }
}

/// The same of any format (as a topic's setting `decode`), which leaves nothing to Ruby; else DecodeError.
fn decode(ruby: &Ruby, format: Value, document: Value) -> Result<Value, Error> {
    let wrong = || Error::new(ruby.exception_arg_error(), "expected a format and a String");
    let format = Arc::new(format::read(ruby, format)?.ok_or_else(wrong)?);
    let bytes = value::bytes(&document).map(<[u8]>::to_vec).ok_or_else(wrong)?;
    let theirs = Arc::clone(&format);
    let (root, tree, bytes) = gvl::aside(ruby, native(ruby), bytes.len(), move || {
        let mut tree = Tree::new();
        (theirs.decode(&mut tree, &bytes, 0, bytes.len()), tree, bytes)
    })?;
    match root {
        Ok(root) => build(tree.node(&bytes, root), format::options(ruby, &format)?),
        Err(Refusal::Malformed(reason)) => Err(error::undecodable(ruby, None, &reason)),
        Err(refusal) => Err(error::undecodable(ruby, None, &format!("{refusal:?}"))),
    }
}

fn metadata(ruby: &Ruby, options: RHash, topic: Option<String>, timeout: Value) -> Result<RHash, Error> {
    let options = convert::options(ruby, options)?;
    let timeout = convert::timeout(timeout)?;
    let millis = timeout.unwrap_or(ASK).as_millis().min(i32::MAX as u128) as i32;
    let ask = move || metadata::fetch(convert::borrowed(&options), topic.as_deref(), millis);
    let deadline = wait::deadline(timeout.and_then(|time| time.checked_add(GRACE)));
    match gvl::background(ruby, native(ruby), deadline, ask)? {
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
