//! Pelton::Native::Subscription

mod events;
mod options;

use crate::value::typed::{NativeData, Shared};
use crate::{convert, error, gvl, oauth, value};
use magnus::scan_args::scan_args;
use magnus::value::ReprValue;
use magnus::{Error, IntoValue, Module, Object, RArray, RHash, RModule, Ruby, Value, function, method};
use pelton_core::budget;
use pelton_core::error::{Error as CoreError, KafkaError};
use pelton_core::rd::Client;
use pelton_core::subscription::{Committed, End, Subscription};
use pelton_core::wait;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub static CLASS: Shared<Arc<Subscription>> = Shared::new(c"Pelton::Native::Subscription");

/// How long a subscription that was garbage collected unclosed may take to leave its group.
const ABANDONED: Duration = Duration::from_secs(10);
/// Limit of a call that is not given one.
const CALL: Duration = Duration::from_secs(60);

impl NativeData for Arc<Subscription> {
    fn collected(self) {
        let _ = self.close(ABANDONED);
    }
}

pub fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = native.define_class("Subscription", ruby.class_object())?;
    CLASS.define(class);
    class.define_singleton_method("new", function!(new, 3))?;
    class.define_method("subscribe", method!(subscribe, 1))?;
    class.define_method("unsubscribe", method!(unsubscribe, 0))?;
    class.define_method("assign", method!(assign, 1))?;
    class.define_method("poll", method!(poll, 1))?;
    class.define_method("wake", method!(wake, 0))?;
    class.define_method("revoked", method!(revoked, 1))?;
    class.define_method("mark", method!(mark, -1))?;
    class.define_method("unmark", method!(unmark, 2))?;
    class.define_method("commit", method!(commit, 1))?;
    class.define_method("commit_async", method!(commit_async, 0))?;
    class.define_method("commit_offset_async", method!(commit_offset_async, 3))?;
    class.define_method("commit_offset", method!(commit_offset, -1))?;
    class.define_method("committed", method!(committed, 2))?;
    class.define_method("committed_with_metadata", method!(committed_with_metadata, 2))?;
    class.define_method("pause", method!(pause, 1))?;
    class.define_method("resume", method!(resume, 1))?;
    class.define_method("seek", method!(seek, -1))?;
    class.define_method("position", method!(position, 2))?;
    class.define_method("ends", method!(ends, 0))?;
    class.define_method("lost?", method!(is_lost, 0))?;
    class.define_method("partition_count", method!(partition_count, 2))?;
    class.define_method("watermarks", method!(watermarks, 3))?;
    class.define_method("offsets_for_times", method!(offsets_for_times, 2))?;
    class.define_method("assignment", method!(assignment, 0))?;
    class.define_method("set_oauth_token", method!(oauth::set_token::<Subscription>, 4))?;
    class.define_method("set_oauth_failure", method!(oauth::set_failure::<Subscription>, 1))?;
    class.define_method("unconfirmed", method!(unconfirmed, 0))?;
    class.define_method("close", method!(close, 1))?;
    class.define_method("shorten_deadline", method!(shorten_deadline, 1))?;
    class.define_method("closed?", method!(is_closed, 0))
}

fn named(subscription: &Subscription) -> String {
    format!("subscription {}", subscription.name())
}

fn new(ruby: &Ruby, name: String, settings: RHash, options: RHash) -> Result<Value, Error> {
    let settings = convert::client_options(ruby, settings)?;
    let (options, polling) = options::read(ruby, options)?;
    let made = Subscription::new(&name, convert::borrowed(&settings), options, polling);
    drop(settings);
    CLASS.wrap(made.map_err(|error| error::ruby(ruby, &format!("subscription {name}"), error))?)
}

fn subscribe(ruby: &Ruby, this: Value, topics: RArray) -> Result<(), Error> {
    let topics = convert::strings(ruby, "topics", topics)?;
    call(ruby, this, Some(CALL), "subscribe", move |subscription| {
        subscription.subscribe(topics.iter().map(String::as_str))
    })
}

fn unsubscribe(ruby: &Ruby, this: Value) -> Result<(), Error> {
    call(ruby, this, Some(CALL), "unsubscribe", Subscription::unsubscribe)
}

fn assign(ruby: &Ruby, this: Value, list: RArray) -> Result<(), Error> {
    let pairs = convert::topic_partitions(ruby, list, true)?;
    call(ruby, this, Some(CALL), "assign", move |subscription| subscription.assign(&convert::with_offsets(&pairs)))
}

fn poll(ruby: &Ruby, this: Value, timeout: Value) -> Result<Value, Error> {
    let subscription = Arc::clone(&*CLASS.get(ruby, &this)?);
    subscription.check_origin().map_err(|error| error::ruby(ruby, &named(&subscription), error))?;
    let mailbox = subscription.mailbox();
    gvl::wait(ruby, this, mailbox, wait::deadline(convert::timeout(timeout)?), &|| mailbox.ready())?;
    // Here, because an interrupt may come out of a collection: nothing is taken yet.
    if let Some(all) = budget::crowded() {
        value::collect(ruby, all)?;
        budget::collected();
    }
    match subscription.pop() {
        Some(event) => events::event_row(ruby, event),
        None => Ok(ruby.qnil().as_value()),
    }
}

fn wake(ruby: &Ruby, this: Value) -> Result<(), Error> {
    let subscription = CLASS.get(ruby, &this)?;
    if !subscription.is_foreign() {
        subscription.mailbox().wake();
    }
    Ok(())
}

fn revoked(ruby: &Ruby, this: Value, token: u64) -> Result<(), Error> {
    call(ruby, this, None, "revoked", move |subscription| subscription.revoked(token))
}

/// mark(topic, partition, offset, leader_epoch = -1, metadata = nil)
fn mark(ruby: &Ruby, this: Value, arguments: &[Value]) -> Result<bool, Error> {
    let given = scan_args::<(Value, Value, Value), (Option<Value>, Option<Value>), (), (), (), ()>(arguments)?;
    let ((topic, partition, offset), (leader_epoch, metadata)) = (given.required, given.optional);
    let subscription = CLASS.get(ruby, &this)?;
    let (partition, offset) = (convert::number(ruby, "partition", partition)?, convert::offset(ruby, offset)?);
    let leader_epoch = leader_epoch.map_or(Ok(-1), |epoch| convert::leader_epoch(ruby, epoch))?;
    let metadata = metadata.unwrap_or_else(|| ruby.qnil().as_value());
    let marked = {
        let metadata = convert::metadata(ruby, &metadata)?;
        subscription.mark(convert::topic(ruby, &topic)?, partition, offset, leader_epoch, metadata)
    };
    marked.map_err(|error| error::ruby(ruby, &named(&subscription), error))
}

fn unmark(ruby: &Ruby, this: Value, topic: Value, partition: Value) -> Result<(), Error> {
    let subscription = CLASS.get(ruby, &this)?;
    let partition = convert::number(ruby, "partition", partition)?;
    let unmarked = subscription.unmark(convert::topic(ruby, &topic)?, partition);
    unmarked.map_err(|error| error::ruby(ruby, &named(&subscription), error))
}

/// Runs a blocking call of librdkafka on a native thread and waits for it.
fn call<T: Send + 'static>(
    ruby: &Ruby,
    this: Value,
    timeout: Option<Duration>,
    what: &str,
    work: impl FnOnce(&Subscription) -> Result<T, CoreError> + Send + 'static,
) -> Result<T, Error> {
    let subscription = Arc::clone(&*CLASS.get(ruby, &this)?);
    let name = named(&subscription);
    subscription.check_origin().map_err(|error| error::ruby(ruby, &name, error))?;
    let deadline: Option<Instant> = wait::deadline(timeout);
    match gvl::background(ruby, this, deadline, move || work(&subscription))? {
        None => Err(error::timed_out(ruby, what)),
        Some(result) => result.map_err(|error| error::ruby(ruby, &name, error)),
    }
}

/// commit_offset(topic, partition, offset, leader_epoch, metadata, timeout)
fn commit_offset(ruby: &Ruby, this: Value, arguments: &[Value]) -> Result<bool, Error> {
    let given = scan_args::<(Value, i32, i64, i32, Value, Value), (), (), (), (), ()>(arguments)?;
    let (topic, partition, offset, leader_epoch, metadata, timeout) = given.required;
    let topic = convert::topic(ruby, &topic)?.to_owned();
    let metadata = convert::metadata(ruby, &metadata)?.map(<[u8]>::to_vec);
    let work = move |subscription: &Subscription| {
        subscription.commit_offset(&topic, partition, offset, leader_epoch, metadata.as_deref())
    };
    call(ruby, this, convert::timeout(timeout)?, "commit", work).map(|()| true)
}

fn commit(ruby: &Ruby, this: Value, timeout: Value) -> Result<bool, Error> {
    call(ruby, this, convert::timeout(timeout)?, "commit", Subscription::commit).map(|()| true)
}

fn commit_async(ruby: &Ruby, this: Value) -> Result<(), Error> {
    let subscription = CLASS.get(ruby, &this)?;
    subscription.commit_async().map_err(|error| error::ruby(ruby, &named(&subscription), error))
}

fn commit_offset_async(ruby: &Ruby, this: Value, topic: Value, partition: i32, offset: i64) -> Result<(), Error> {
    let subscription = CLASS.get(ruby, &this)?;
    let done = subscription.commit_offset_async(convert::topic(ruby, &topic)?, partition, offset);
    done.map_err(|error| error::ruby(ruby, &named(&subscription), error))
}

/// Committed offsets in the order of the arguments; nil if there is none.
fn committed(ruby: &Ruby, this: Value, partitions: RArray, timeout: Value) -> Result<RArray, Error> {
    let list = ruby.ary_new();
    for found in all_committed(ruby, this, partitions, timeout)? {
        list.push(found.map(|found| found.offset))?;
    }
    Ok(list)
}

/// The same as `[offset, metadata]`, metadata nil where it is empty.
fn committed_with_metadata(ruby: &Ruby, this: Value, partitions: RArray, timeout: Value) -> Result<RArray, Error> {
    let list = ruby.ary_new();
    for found in all_committed(ruby, this, partitions, timeout)? {
        list.push(found.map(|found| {
            let metadata = String::from_utf8_lossy(&found.metadata).into_owned();
            (found.offset, Some(metadata).filter(|metadata| !metadata.is_empty()))
        }))?;
    }
    Ok(list)
}

fn all_committed(
    ruby: &Ruby,
    this: Value,
    partitions: RArray,
    timeout: Value,
) -> Result<Vec<Option<Committed>>, Error> {
    let pairs = convert::topic_partitions(ruby, partitions, false)?;
    let timeout = convert::timeout(timeout)?;
    call(ruby, this, timeout, "committed", move |subscription| {
        subscription.committed(&convert::plain(&pairs), timeout.unwrap_or(CALL))
    })
}

fn pause(ruby: &Ruby, this: Value, partitions: RArray) -> Result<(), Error> {
    steer(ruby, this, partitions, Subscription::pause)
}

fn resume(ruby: &Ruby, this: Value, partitions: RArray) -> Result<(), Error> {
    steer(ruby, this, partitions, Subscription::resume)
}

fn steer(
    ruby: &Ruby,
    this: Value,
    partitions: RArray,
    act: impl Fn(&Subscription, &[(&str, i32)]) -> Result<(), CoreError>,
) -> Result<(), Error> {
    let subscription = CLASS.get(ruby, &this)?;
    let pairs = convert::topic_partitions(ruby, partitions, false)?;
    act(&subscription, &convert::plain(&pairs)).map_err(|error| error::ruby(ruby, &named(&subscription), error))
}

/// seek(topic, partition, offset, timeout = 60)
fn seek(ruby: &Ruby, this: Value, arguments: &[Value]) -> Result<(), Error> {
    let given = scan_args::<(Value, Value, Value), (Option<Value>,), (), (), (), ()>(arguments)?;
    let ((topic, partition, offset), (timeout,)) = (given.required, given.optional);
    let timeout = timeout.map_or(Ok(None), convert::timeout)?.unwrap_or(CALL);
    let (partition, offset) = (convert::number(ruby, "partition", partition)?, convert::offset(ruby, offset)?);
    // Before an interrupt is possible: of two seeks, the later one counts.
    let subscription = CLASS.get(ruby, &this)?;
    let announced = subscription.announce_seek(convert::topic(ruby, &topic)?, partition);
    let seek = announced.map_err(|error| error::ruby(ruby, &named(&subscription), error))?;
    call(ruby, this, Some(timeout), "seek", move |subscription| subscription.seek(&seek, offset, timeout))
}

fn position(ruby: &Ruby, this: Value, topic: Value, partition: Value) -> Result<Option<i64>, Error> {
    let subscription = CLASS.get(ruby, &this)?;
    let partition = convert::number(ruby, "partition", partition)?;
    let position = subscription.position(convert::topic(ruby, &topic)?, partition);
    position.map_err(|error| error::ruby(ruby, &named(&subscription), error))
}

/// [[topic, partition, position or nil, end or nil, reached or nil], …]
fn ends(ruby: &Ruby, this: Value) -> Result<RArray, Error> {
    let subscription = CLASS.get(ruby, &this)?;
    let ends = subscription.ends().map_err(|error| error::ruby(ruby, &named(&subscription), error))?;
    let rows = ruby.ary_new_capa(ends.len());
    for End { topic_partition: (topic, partition), position, end, reached } in ends {
        rows.push((value::interned(&topic)?, partition, position, end, reached))?;
    }
    Ok(rows)
}

fn is_lost(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    let subscription = CLASS.get(ruby, &this)?;
    subscription.is_lost().map_err(|error| error::ruby(ruby, &named(&subscription), error))
}

fn partition_count(ruby: &Ruby, this: Value, topic: Value, timeout: Value) -> Result<i32, Error> {
    let (topic, timeout) = (convert::topic(ruby, &topic)?.to_owned(), convert::timeout(timeout)?);
    call(ruby, this, timeout, "partition_count", move |subscription| {
        subscription.partition_count(&topic, timeout.unwrap_or(CALL))
    })
}

/// `[lowest, next]`
fn watermarks(ruby: &Ruby, this: Value, topic: Value, partition: Value, timeout: Value) -> Result<(i64, i64), Error> {
    let partition = convert::number(ruby, "partition", partition)?;
    let (topic, timeout) = (convert::topic(ruby, &topic)?.to_owned(), convert::timeout(timeout)?);
    call(ruby, this, timeout, "watermarks", move |subscription| {
        subscription.watermarks(&topic, partition, timeout.unwrap_or(CALL))
    })
}

/// `[[topic, partition, milliseconds], …]` to offsets in that order; nil where all messages are older.
fn offsets_for_times(ruby: &Ruby, this: Value, times: RArray, timeout: Value) -> Result<RArray, Error> {
    let times = convert::topic_partitions(ruby, times, true)?;
    let timeout = convert::timeout(timeout)?;
    let offsets = call(ruby, this, timeout, "offsets_for_times", move |subscription| {
        subscription.offsets_for_times(&convert::with_offsets(&times), timeout.unwrap_or(CALL))
    })?;
    Ok(ruby.ary_from_iter(offsets))
}

fn assignment(ruby: &Ruby, this: Value) -> Result<RArray, Error> {
    let partitions = call(ruby, this, Some(CALL), "assignment", Subscription::assignment)?;
    events::list(ruby, &partitions)
}

/// `[[topic, partition, offset, KafkaError or nil], …]`
fn unconfirmed(ruby: &Ruby, this: Value) -> Result<RArray, Error> {
    let subscription = CLASS.get(ruby, &this)?;
    let rows = ruby.ary_new();
    for row in subscription.unconfirmed().map_err(|error| error::ruby(ruby, &named(&subscription), error))? {
        let error = match row.code {
            0 => ruby.qnil().as_value(),
            code => error::kafka_error(ruby, &KafkaError::new(code))?,
        };
        let row = (value::interned(&row.topic)?, row.partition, row.offset, error);
        rows.push(row.into_value_with(ruby))?;
    }
    Ok(rows)
}

fn close(ruby: &Ruby, this: Value, timeout: Value) -> Result<bool, Error> {
    let subscription = Arc::clone(&*CLASS.get(ruby, &this)?);
    let timeout = convert::timeout(timeout)?;
    let deadline = convert::close_deadline(timeout, !subscription.closing().started());
    let started = subscription.close(convert::bounded(timeout));
    started.map_err(|error| error::ruby(ruby, &named(&subscription), error))?;
    let closing = Arc::clone(subscription.closing());
    // Done, and Kafka confirmed the last commit.
    Ok(gvl::wait(ruby, this, &*closing, deadline, &|| closing.done())? && closing.lost() == 0)
}

/// Limits a running close to this many further seconds.
fn shorten_deadline(ruby: &Ruby, this: Value, timeout: Value) -> Result<(), Error> {
    CLASS.get(ruby, &this)?.shorten_deadline(convert::bounded(convert::timeout(timeout)?));
    Ok(())
}

fn is_closed(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    Ok(CLASS.get(ruby, &this)?.closing().started())
}

impl oauth::TokenReceiver for Subscription {
    const CLASS: &Shared<Arc<Self>> = &CLASS;

    fn what(&self) -> String {
        named(self)
    }

    fn with<R>(&self, mut call: impl FnMut(&Client) -> R) -> Result<R, CoreError> {
        self.with_client(|client| call(client))
    }
}
