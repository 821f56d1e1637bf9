//! An administrator's requests (`rd_kafka_CreateTopics` and the like). Plain values go in (`objects.rs`), plain values
//! come out (`answers.rs`). No call blocks: the answer is an event of the given queue.

mod answers;
mod objects;

use super::{Client, Queue, ffi, sys, text};
use objects::{Owned, Refused, acl, altered, config_of, list, new_partitions, new_topic, string, strings};
use std::ffi::{CString, c_char, c_int, c_void};

/// A value of an answer; a list is mostly a row whose columns `answers.rs` lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    None,
    Flag(bool),
    Number(i64),
    Text(String),
    List(Vec<Answer>),
    /// Code and sentence of what failed for one row.
    Error(i32, String),
}

/// Topic, partition, and an offset where one is needed.
pub type TopicOffsets = Vec<(String, i32, i64)>;

pub struct NewTopic {
    pub name: String,
    pub partitions: i32,
    /// −1: as the broker does by default.
    pub replicas: i32,
    pub config: Vec<(String, String)>,
}

/// Whose configuration.
pub enum Resource {
    Topic(String),
    Broker(i32),
}

/// An access rule, or a filter of rules; numbers are Kafka's own.
pub struct Acl {
    pub resource: i32,
    pub name: Option<String>,
    pub pattern: i32,
    pub principal: Option<String>,
    pub host: Option<String>,
    pub operation: i32,
    pub permission: i32,
}

pub enum Request {
    CreateTopic(NewTopic),
    DeleteTopic(String),
    /// Name, partitions in all.
    CreatePartitions(String, usize),
    DescribeTopics(Vec<String>),
    DescribeCluster,
    DescribeConfig(Resource),
    /// An option and its value; `None` resets the option to its default.
    AlterConfig(Resource, Vec<(String, Option<String>)>),
    ListGroups,
    DescribeGroups(Vec<String>),
    DeleteGroup(String),
    /// The group's committed offsets.
    GroupOffsets(String),
    /// The last are the offsets' metadata.
    AlterGroupOffsets(String, TopicOffsets, Vec<String>),
    DeleteGroupOffsets(String, TopicOffsets),
    /// −1 is the end, −2 the beginning, −3 the newest timestamp, anything else a timestamp. True: up to open
    /// transactions only.
    ListOffsets(TopicOffsets, bool),
    /// All records before these offsets; −1 for all.
    DeleteRecords(TopicOffsets),
    CreateAcl(Acl),
    DescribeAcls(Acl),
    DeleteAcls(Acl),
}

impl Request {
    fn operation(&self) -> sys::rd_kafka_admin_op_t {
        use sys::rd_kafka_admin_op_t::*;
        match self {
            Self::CreateTopic(_) => RD_KAFKA_ADMIN_OP_CREATETOPICS,
            Self::DeleteTopic(_) => RD_KAFKA_ADMIN_OP_DELETETOPICS,
            Self::CreatePartitions(..) => RD_KAFKA_ADMIN_OP_CREATEPARTITIONS,
            Self::DescribeTopics(_) => RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
            Self::DescribeCluster => RD_KAFKA_ADMIN_OP_DESCRIBECLUSTER,
            Self::DescribeConfig(_) => RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS,
            Self::AlterConfig(..) => RD_KAFKA_ADMIN_OP_INCREMENTALALTERCONFIGS,
            Self::ListGroups => RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPS,
            Self::DescribeGroups(_) => RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS,
            Self::DeleteGroup(_) => RD_KAFKA_ADMIN_OP_DELETEGROUPS,
            Self::GroupOffsets(_) => RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS,
            Self::AlterGroupOffsets(..) => RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS,
            Self::DeleteGroupOffsets(..) => RD_KAFKA_ADMIN_OP_DELETECONSUMERGROUPOFFSETS,
            Self::ListOffsets(..) => RD_KAFKA_ADMIN_OP_LISTOFFSETS,
            Self::DeleteRecords(_) => RD_KAFKA_ADMIN_OP_DELETERECORDS,
            Self::CreateAcl(_) => RD_KAFKA_ADMIN_OP_CREATEACLS,
            Self::DescribeAcls(_) => RD_KAFKA_ADMIN_OP_DESCRIBEACLS,
            Self::DeleteAcls(_) => RD_KAFKA_ADMIN_OP_DELETEACLS,
        }
    }

    /// The group whose coordinator answers it, if it is for one.
    pub fn coordinated(&self) -> Option<&str> {
        match self {
            Self::DescribeGroups(groups) => groups.first().map(String::as_str),
            Self::DeleteGroup(group)
            | Self::GroupOffsets(group)
            | Self::AlterGroupOffsets(group, ..)
            | Self::DeleteGroupOffsets(group, _) => Some(group),
            _ => None,
        }
    }

    /// Whether it changes a group.
    pub fn changes(&self) -> bool {
        matches!(self, Self::DeleteGroup(_) | Self::AlterGroupOffsets(..) | Self::DeleteGroupOffsets(..))
    }

    fn options(&self, client: &Client, id: usize, millis: i32) -> Result<Owned<sys::rd_kafka_AdminOptions_t>, Refused> {
        const LONGEST: i32 = 3_600_000; // librdkafka's own
        let mut reason = [0 as c_char; 512];
        // SAFETY: a live client; the number is of a kind that librdkafka knows.
        let raw = unsafe { sys::rd_kafka_AdminOptions_new(client.raw(), self.operation()) };
        let owned = Owned::new(raw, sys::rd_kafka_AdminOptions_destroy, &reason)?;
        // SAFETY: a live object; a buffer with its length. The opaque is a number, never followed.
        unsafe {
            let (millis, size) = (millis.clamp(1, LONGEST), reason.len());
            ffi::rd_kafka_AdminOptions_set_request_timeout(owned.raw, millis, reason.as_mut_ptr(), size);
            sys::rd_kafka_AdminOptions_set_opaque(owned.raw, id as *mut c_void);
        }
        if let Self::ListOffsets(_, true) = self {
            use sys::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED as COMMITTED;
            // SAFETY: a live object; the error, if any, is ours.
            let error = unsafe { sys::rd_kafka_AdminOptions_set_isolation_level(owned.raw, COMMITTED) };
            if !error.is_null() {
                return Err(super::client::take_error(error));
            }
        }
        Ok(owned)
    }
}

/// librdkafka's objects for groups all consist of a group and a list.
macro_rules! of_group {
    ($group:expr, $list:expr, $new:ident, $destroy:ident) => {{
        let group = string($group)?;
        // SAFETY: a live string and list (copied); null is "all partitions".
        let raw = unsafe { sys::$new(group.as_ptr(), $list) };
        Owned::new(raw, sys::$destroy, &[0])?
    }};
}

impl Client {
    /// Sends a request. The answer comes through `answers` with this id (`Event::answer`), after about `millis` at the
    /// latest. `Err`: nothing was sent.
    #[allow(clippy::too_many_lines, reason = "one short arm for each type of request")]
    pub fn ask(&self, request: &Request, id: usize, millis: i32, answers: &Queue) -> Result<(), (i32, String)> {
        let owned = request.options(self, id, millis)?;
        let (client, options, queue) = (self.raw(), owned.raw.cast_const(), answers.raw());
        let pointers = |strings: &[CString]| strings.iter().map(|one| one.as_ptr()).collect::<Vec<_>>();
        // SAFETY (for each call below): live client, options and queue; arrays with their lengths, of live objects that
        // are copied by the call.
        match request {
            Request::CreateTopic(topic) => {
                let mut topic = new_topic(topic)?;
                // SAFETY: see above.
                unsafe { sys::rd_kafka_CreateTopics(client, topic.array(), 1, options, queue) }
            }
            Request::DeleteTopic(name) => {
                let name = string(name)?;
                // SAFETY: a live string (copied).
                let raw = unsafe { sys::rd_kafka_DeleteTopic_new(name.as_ptr()) };
                let mut topic = Owned::new(raw, sys::rd_kafka_DeleteTopic_destroy, &[0])?;
                // SAFETY: see above.
                unsafe { sys::rd_kafka_DeleteTopics(client, topic.array(), 1, options, queue) }
            }
            Request::CreatePartitions(topic, count) => {
                let mut partitions = new_partitions(topic, *count)?;
                // SAFETY: see above.
                unsafe { sys::rd_kafka_CreatePartitions(client, partitions.array(), 1, options, queue) }
            }
            Request::DescribeTopics(names) => {
                let names = strings(names)?;
                let mut names = pointers(&names);
                // SAFETY: live strings (copied).
                let raw = unsafe { sys::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len()) };
                let topics = Owned::new(raw, sys::rd_kafka_TopicCollection_destroy, &[0])?;
                // SAFETY: see above.
                unsafe { sys::rd_kafka_DescribeTopics(client, topics.raw, options, queue) }
            }
            // SAFETY: see above.
            Request::DescribeCluster => unsafe { sys::rd_kafka_DescribeCluster(client, options, queue) },
            Request::DescribeConfig(resource) => {
                let mut resource = config_of(resource)?;
                // SAFETY: see above.
                unsafe { sys::rd_kafka_DescribeConfigs(client, resource.array(), 1, options, queue) }
            }
            Request::AlterConfig(resource, changes) => {
                let mut resource = altered(resource, changes)?;
                // SAFETY: see above.
                unsafe { sys::rd_kafka_IncrementalAlterConfigs(client, resource.array(), 1, options, queue) }
            }
            // SAFETY: see above.
            Request::ListGroups => unsafe { sys::rd_kafka_ListConsumerGroups(client, options, queue) },
            Request::DescribeGroups(names) => {
                let names = strings(names)?;
                let mut names = pointers(&names);
                // SAFETY: see above.
                unsafe { sys::rd_kafka_DescribeConsumerGroups(client, names.as_mut_ptr(), names.len(), options, queue) }
            }
            Request::DeleteGroup(name) => {
                let name = string(name)?;
                // SAFETY: a live string (copied).
                let raw = unsafe { sys::rd_kafka_DeleteGroup_new(name.as_ptr()) };
                let mut group = Owned::new(raw, sys::rd_kafka_DeleteGroup_destroy, &[0])?;
                // SAFETY: see above.
                unsafe { sys::rd_kafka_DeleteGroups(client, group.array(), 1, options, queue) }
            }
            Request::GroupOffsets(group) => {
                let mut group = of_group!(
                    group,
                    std::ptr::null(),
                    rd_kafka_ListConsumerGroupOffsets_new,
                    rd_kafka_ListConsumerGroupOffsets_destroy
                );
                // SAFETY: see above.
                unsafe { sys::rd_kafka_ListConsumerGroupOffsets(client, group.array(), 1, options, queue) }
            }
            Request::AlterGroupOffsets(group, offsets, metadata) => {
                let mut offsets = list(offsets)?;
                metadata.iter().enumerate().for_each(|(row, one)| offsets.set_metadata(row, one.as_bytes()));
                let mut group = of_group!(
                    group,
                    offsets.raw(),
                    rd_kafka_AlterConsumerGroupOffsets_new,
                    rd_kafka_AlterConsumerGroupOffsets_destroy
                );
                // SAFETY: see above.
                unsafe { sys::rd_kafka_AlterConsumerGroupOffsets(client, group.array(), 1, options, queue) }
            }
            Request::DeleteGroupOffsets(group, offsets) => {
                let mut group = of_group!(
                    group,
                    list(offsets)?.raw(),
                    rd_kafka_DeleteConsumerGroupOffsets_new,
                    rd_kafka_DeleteConsumerGroupOffsets_destroy
                );
                // SAFETY: see above.
                unsafe { sys::rd_kafka_DeleteConsumerGroupOffsets(client, group.array(), 1, options, queue) }
            }
            Request::ListOffsets(offsets, _) => {
                // SAFETY: see above.
                unsafe { sys::rd_kafka_ListOffsets(client, list(offsets)?.raw(), options, queue) }
            }
            Request::DeleteRecords(offsets) => {
                let offsets = list(offsets)?;
                // SAFETY: a live list (copied).
                let raw = unsafe { sys::rd_kafka_DeleteRecords_new(offsets.raw()) };
                let mut records = Owned::new(raw, sys::rd_kafka_DeleteRecords_destroy, &[0])?;
                // SAFETY: see above.
                unsafe { sys::rd_kafka_DeleteRecords(client, records.array(), 1, options, queue) }
            }
            Request::CreateAcl(rule) => {
                let mut rule = acl(rule, false)?;
                // SAFETY: see above.
                unsafe { sys::rd_kafka_CreateAcls(client, rule.array(), 1, options, queue) }
            }
            Request::DescribeAcls(filter) => {
                let filter = acl(filter, true)?;
                // SAFETY: see above.
                unsafe { sys::rd_kafka_DescribeAcls(client, filter.raw, options, queue) }
            }
            Request::DeleteAcls(filter) => {
                let mut filter = acl(filter, true)?;
                // SAFETY: see above.
                unsafe { sys::rd_kafka_DeleteAcls(client, filter.array(), 1, options, queue) }
            }
        }
        Ok(())
    }
}

/// The names of `Acl`'s numbers, as librdkafka spells them; the bindings would make enums of the numbers.
fn name_of(name: unsafe extern "C" fn(c_int) -> *const c_char, number: i32) -> Answer {
    // SAFETY: takes any number, gives a static string.
    Answer::Text(text(unsafe { name(number) }))
}
