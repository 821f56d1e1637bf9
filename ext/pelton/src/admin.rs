//! Pelton::Native::Admin

use crate::value::typed::{NativeData, Shared};
use crate::{convert, error, gvl, oauth, poller};
use magnus::value::ReprValue;
use magnus::{Error, IntoValue, Module, Object, RArray, RHash, RModule, Ruby, Symbol, TryConvert, Value};
use magnus::{function, method};
use pelton_core::admin::Admin;
use pelton_core::error::{Error as CoreError, KafkaError};
use pelton_core::rd::{Acl, Answer, Client, NewTopic, Request, Resource, TopicOffsets};
use pelton_core::wait;
use std::sync::Arc;
use std::time::{Duration, Instant};

static CLASS: Shared<Arc<Admin>> = Shared::new(c"Pelton::Native::Admin");

/// librdkafka answers in time; this only bounds the unthinkable.
const GRACE: Duration = Duration::from_secs(1);

impl NativeData for Arc<Admin> {
    fn collected(self) {
        let _ = self.close();
    }
}

pub fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = native.define_class("Admin", ruby.class_object())?;
    CLASS.define(class);
    class.define_singleton_method("new", function!(new, 3))?;
    class.define_method("request", method!(request, 3))?;
    class.define_method("renew", method!(renew, 0))?;
    class.define_method("topics", method!(topics, 1))?;
    class.define_method("set_oauth_token", method!(oauth::set_token::<Admin>, 4))?;
    class.define_method("set_oauth_failure", method!(oauth::set_failure::<Admin>, 1))?;
    class.define_method("close", method!(close, 1))?;
    class.define_method("closed?", method!(is_closed, 0))
}

fn named(admin: &Admin) -> String {
    format!("admin {}", admin.name())
}

/// new(name, {"bootstrap.servers" => …}, {poller: …, max_time: 100})
fn new(ruby: &Ruby, name: String, options: RHash, polling: RHash) -> Result<Value, Error> {
    let options = convert::client_options(ruby, options)?;
    let polling = poller::read_polling(ruby, polling, |name, setting| {
        Err(error::bad_option(ruby, name, setting, "unknown option"))
    })?;
    let admin = Admin::new(&name, convert::borrowed(&options), polling);
    drop(options);
    CLASS.wrap(admin.map_err(|error| error::ruby(ruby, &format!("admin {name}"), error))?)
}

/// Asks and waits for the answer, an Array of rows (columns: ext/core/src/rd/admin/answers.rs).
fn request(ruby: &Ruby, this: Value, kind: Symbol, argument: Value, timeout: Value) -> Result<Value, Error> {
    let admin = Arc::clone(&*CLASS.get(ruby, &this)?);
    let kind = kind.name()?.into_owned();
    let asked = read(ruby, &kind, argument)?;
    let timeout = convert::bounded(convert::timeout(timeout)?);
    let ends = wait::deadline(Some(timeout));
    let left = || ends.map_or(timeout, |ends| ends.saturating_duration_since(Instant::now()));
    if let Some(before) = admin.question_before(&asked) {
        answer(ruby, this, &admin, before, left())?;
    }
    build(ruby, &answer(ruby, this, &admin, asked, left())?)
}

fn answer(ruby: &Ruby, this: Value, admin: &Arc<Admin>, asked: Request, timeout: Duration) -> Result<Answer, Error> {
    let asked = Arc::new(asked);
    let deadline = Admin::deadline(&asked, timeout);
    let failed = |error| error::ruby(ruby, &named(admin), error);
    if !admin.is_prepared(&asked) {
        let (theirs, asked) = (Arc::clone(admin), Arc::clone(&asked));
        let prepared = gvl::background(ruby, this, deadline, move || theirs.prepare(&asked))?;
        prepared.unwrap_or_else(|| Err(CoreError::Kafka(admin.late()))).map_err(failed)?;
    }
    let call = admin.ask(&asked, timeout).map_err(failed)?;
    let waited = gvl::wait(ruby, this, &call.waiters, deadline, &|| call.is_done());
    let answer = call.answer().unwrap_or_else(|| admin.give_up(&call));
    waited?;
    answer.map_err(|error| failed(CoreError::Kafka(error)))
}

/// Leaders and coordinators are looked up again.
fn renew(ruby: &Ruby, this: Value) -> Result<(), Error> {
    let admin = CLASS.get(ruby, &this)?;
    admin.renew().map_err(|error| error::ruby(ruby, &named(&admin), error))
}

/// lib/pelton/admin.rb has checked the arguments.
fn read(ruby: &Ruby, kind: &str, argument: Value) -> Result<Request, Error> {
    Ok(match kind {
        "create_topic" => {
            let (name, partitions, replicas, config) = <(_, _, _, Vec<_>)>::try_convert(argument)?;
            Request::CreateTopic(NewTopic { name, partitions, replicas, config })
        }
        "delete_topic" => Request::DeleteTopic(String::try_convert(argument)?),
        "create_partitions" => {
            let (topic, count) = <(String, usize)>::try_convert(argument)?;
            Request::CreatePartitions(topic, count)
        }
        "topics" => Request::DescribeTopics(Vec::try_convert(argument)?),
        "cluster" => Request::DescribeCluster,
        "config" => Request::DescribeConfig(resource(argument)?),
        "alter_config" => {
            let (whose, changes) = <(Value, Value)>::try_convert(argument)?;
            Request::AlterConfig(resource(whose)?, Vec::try_convert(changes)?)
        }
        "groups" => Request::ListGroups,
        "describe_groups" => Request::DescribeGroups(Vec::try_convert(argument)?),
        "delete_group" => Request::DeleteGroup(String::try_convert(argument)?),
        "group_offsets" => Request::GroupOffsets(String::try_convert(argument)?),
        "alter_group_offsets" => {
            let (group, offsets, metadata) = <(String, TopicOffsets, _)>::try_convert(argument)?;
            Request::AlterGroupOffsets(group, offsets, Vec::try_convert(metadata)?)
        }
        "delete_group_offsets" => {
            let (group, offsets) = <(String, TopicOffsets)>::try_convert(argument)?;
            Request::DeleteGroupOffsets(group, offsets)
        }
        "offsets" => {
            let (offsets, committed) = <(TopicOffsets, bool)>::try_convert(argument)?;
            Request::ListOffsets(offsets, committed)
        }
        "delete_records" => Request::DeleteRecords(TopicOffsets::try_convert(argument)?),
        "create_acl" => Request::CreateAcl(acl(argument)?),
        "acls" => Request::DescribeAcls(acl(argument)?),
        "delete_acls" => Request::DeleteAcls(acl(argument)?),
        _ => return Err(Error::new(ruby.exception_arg_error(), format!("unknown request: {kind}"))),
    })
}

/// A topic's name or a broker's number.
fn resource(given: Value) -> Result<Resource, Error> {
    match magnus::Integer::from_value(given) {
        Some(id) => Ok(Resource::Broker(id.to_i32()?)),
        None => Ok(Resource::Topic(String::try_convert(given)?)),
    }
}

fn acl(given: Value) -> Result<Acl, Error> {
    let (resource, name, pattern, principal, host, operation, permission) = TryConvert::try_convert(given)?;
    Ok(Acl { resource, name, pattern, principal, host, operation, permission })
}

fn build(ruby: &Ruby, answer: &Answer) -> Result<Value, Error> {
    Ok(match answer {
        Answer::None => ruby.qnil().as_value(),
        Answer::Flag(flag) => flag.into_value_with(ruby),
        Answer::Number(number) => number.into_value_with(ruby),
        Answer::Text(text) => text.as_str().into_value_with(ruby),
        Answer::Error(code, reason) => error::kafka_error(ruby, &KafkaError::with_reason(*code, reason.clone()))?,
        Answer::List(rows) => {
            let list = ruby.ary_new_capa(rows.len());
            rows.iter().try_for_each(|row| list.push(build(ruby, row)?))?;
            list.as_value()
        }
    })
}

/// The names of all topics.
fn topics(ruby: &Ruby, this: Value, timeout: Value) -> Result<RArray, Error> {
    let admin = Arc::clone(&*CLASS.get(ruby, &this)?);
    let what = named(&admin);
    let timeout = convert::bounded(convert::timeout(timeout)?);
    let deadline = wait::deadline(timeout.checked_add(GRACE));
    match gvl::background(ruby, this, deadline, move || admin.topics(timeout))? {
        None => Err(error::timed_out(ruby, &what)),
        Some(Err(error)) => Err(error::ruby(ruby, &what, error)),
        Some(Ok(names)) => Ok(ruby.ary_from_iter(names)),
    }
}

/// False: not finished within the time.
fn close(ruby: &Ruby, this: Value, timeout: Value) -> Result<bool, Error> {
    let admin = Arc::clone(&*CLASS.get(ruby, &this)?);
    let deadline = wait::deadline(convert::timeout(timeout)?);
    admin.close().map_err(|error| error::ruby(ruby, &named(&admin), error))?;
    let closing = Arc::clone(admin.closing());
    gvl::wait(ruby, this, &*closing, deadline, &|| closing.done())
}

fn is_closed(ruby: &Ruby, this: Value) -> Result<bool, Error> {
    Ok(CLASS.get(ruby, &this)?.closing().started())
}

impl oauth::TokenReceiver for Admin {
    const CLASS: &Shared<Arc<Self>> = &CLASS;

    fn what(&self) -> String {
        named(self)
    }

    fn with<R>(&self, mut call: impl FnMut(&Client) -> R) -> Result<R, CoreError> {
        self.with_clients(|client| call(client))
    }
}
