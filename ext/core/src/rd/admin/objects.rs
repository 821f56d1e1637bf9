//! librdkafka's objects for an administrator's requests, made of plain values. librdkafka copies them when it sends.

use super::{Acl, NewTopic, Resource, TopicOffsets};
use crate::rd::{PartitionList, codes, ffi, sys, text};
use std::ffi::{CString, c_char};

pub type Refused = (i32, String);

fn refuse(reason: &str) -> Refused {
    (codes::INVALID_ARG, reason.into())
}

pub fn string(given: &str) -> Result<CString, Refused> {
    CString::new(given).map_err(|_| refuse("contains a NUL byte"))
}

pub fn strings(given: &[String]) -> Result<Vec<CString>, Refused> {
    given.iter().map(|one| string(one)).collect()
}

pub fn list(offsets: &TopicOffsets) -> Result<PartitionList, Refused> {
    PartitionList::with_offsets(offsets.iter().map(|(topic, number, offset)| (topic.as_str(), *number, *offset, -1)))
        .map_err(|_| refuse("a topic contains a NUL byte"))
}

/// An object of librdkafka's that lives while a request is written.
pub struct Owned<T> {
    pub raw: *mut T,
    destroy: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    pub fn new(raw: *mut T, destroy: unsafe extern "C" fn(*mut T), reason: &[c_char]) -> Result<Self, Refused> {
        if raw.is_null() { Err(refuse(&text(reason.as_ptr()))) } else { Ok(Self { raw, destroy }) }
    }

    /// As an array of one.
    pub fn array(&mut self) -> *mut *mut T {
        &mut self.raw
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: not null, made by the function that belongs to `destroy`, destroyed once.
        unsafe { (self.destroy)(self.raw) };
    }
}

pub fn new_topic(topic: &NewTopic) -> Result<Owned<sys::rd_kafka_NewTopic_t>, Refused> {
    let (name, mut reason) = (string(&topic.name)?, [0 as c_char; 512]);
    // SAFETY: a live string; a buffer with its length.
    let raw = unsafe {
        let (partitions, replicas) = (topic.partitions, topic.replicas);
        sys::rd_kafka_NewTopic_new(name.as_ptr(), partitions, replicas, reason.as_mut_ptr(), reason.len())
    };
    let owned = Owned::new(raw, sys::rd_kafka_NewTopic_destroy, &reason)?;
    for (key, value) in &topic.config {
        let (key, value) = (string(key)?, string(value)?);
        // SAFETY: a live object and strings (copied).
        let code = unsafe { ffi::rd_kafka_NewTopic_set_config(owned.raw, key.as_ptr(), value.as_ptr()) };
        if code != 0 {
            return Err((code, "an option of a topic is invalid".into()));
        }
    }
    Ok(owned)
}

pub fn new_partitions(topic: &str, count: usize) -> Result<Owned<sys::rd_kafka_NewPartitions_t>, Refused> {
    let (name, mut reason) = (string(topic)?, [0 as c_char; 512]);
    // SAFETY: a live string; a buffer with its length.
    let raw = unsafe { sys::rd_kafka_NewPartitions_new(name.as_ptr(), count, reason.as_mut_ptr(), reason.len()) };
    Owned::new(raw, sys::rd_kafka_NewPartitions_destroy, &reason)
}

pub fn config_of(resource: &Resource) -> Result<Owned<sys::rd_kafka_ConfigResource_t>, Refused> {
    let (kind, name) = match resource {
        Resource::Topic(name) => (sys::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_TOPIC, string(name)?),
        Resource::Broker(id) => (sys::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_BROKER, string(&id.to_string())?),
    };
    // SAFETY: a live string (copied).
    let raw = unsafe { sys::rd_kafka_ConfigResource_new(kind, name.as_ptr()) };
    Owned::new(raw, sys::rd_kafka_ConfigResource_destroy, &[0])
}

pub fn altered(
    resource: &Resource,
    changes: &[(String, Option<String>)],
) -> Result<Owned<sys::rd_kafka_ConfigResource_t>, Refused> {
    use sys::rd_kafka_AlterConfigOpType_t::{RD_KAFKA_ALTER_CONFIG_OP_TYPE_DELETE as DELETE, *};
    let owned = config_of(resource)?;
    for (key, value) in changes {
        let key = string(key)?;
        let value = value.as_deref().map(string).transpose()?;
        let (change, value) = match &value {
            Some(value) => (RD_KAFKA_ALTER_CONFIG_OP_TYPE_SET, value.as_ptr()),
            None => (DELETE, std::ptr::null()),
        };
        // SAFETY: a live object and strings (copied).
        let error =
            unsafe { sys::rd_kafka_ConfigResource_add_incremental_config(owned.raw, key.as_ptr(), change, value) };
        if !error.is_null() {
            return Err(crate::rd::client::take_error(error));
        }
    }
    Ok(owned)
}

/// A rule (`filter` false) or a filter of rules.
pub fn acl(acl: &Acl, filter: bool) -> Result<Owned<sys::rd_kafka_AclBinding_t>, Refused> {
    let [name, principal, host] = [&acl.name, &acl.principal, &acl.host].map(|part| part.as_deref().map(string));
    let (name, principal, host) = (name.transpose()?, principal.transpose()?, host.transpose()?);
    let [name, principal, host] =
        [&name, &principal, &host].map(|part| part.as_ref().map_or(std::ptr::null(), |part| part.as_ptr()));
    let mut reason = [0 as c_char; 512];
    let make = if filter { ffi::rd_kafka_AclBindingFilter_new } else { ffi::rd_kafka_AclBinding_new };
    // SAFETY: live strings or none (copied); numbers that librdkafka checks; a buffer with its length.
    let raw = unsafe {
        let (operation, permission) = (acl.operation, acl.permission);
        make(acl.resource, name, acl.pattern, principal, host, operation, permission, reason.as_mut_ptr(), reason.len())
    };
    Owned::new(raw, sys::rd_kafka_AclBinding_destroy, &reason)
}
