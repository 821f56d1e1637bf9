//! Answers as plain values. Each function's comment lists the columns of its row.

use super::{Answer, name_of};
use crate::rd::{Event, PartitionList, codes, ffi, sys, text};
use std::ffi::c_char;

type Listing<E, T> = unsafe extern "C" fn(*const E, *mut usize) -> *mut *const T;

/// What `list` says belongs to `owner`, each as a row.
fn rows<E, T>(owner: *const E, list: Listing<E, T>, row: impl Fn(*const T) -> Answer) -> Answer {
    let mut count = 0;
    // SAFETY: a live owner of the type that `list` wants; the array has `count` entries that live as long as it.
    let all = unsafe {
        let first = list(owner, &mut count);
        (0..count).map(|index| *first.add(index)).collect::<Vec<_>>()
    };
    Answer::List(all.into_iter().map(row).collect())
}

fn text_or_none(string: *const c_char) -> Answer {
    if string.is_null() { Answer::None } else { Answer::Text(text(string)) }
}

fn failure(code: i32, reason: *const c_char) -> Answer {
    if code == 0 { Answer::None } else { Answer::Error(code, text(reason)) }
}

fn error(error: *const sys::rd_kafka_error_t) -> Answer {
    if error.is_null() {
        return Answer::None;
    }
    // SAFETY: a live error object; its string lives as long.
    unsafe { failure(ffi::rd_kafka_error_code(error), sys::rd_kafka_error_string(error)) }
}

/// name, error
fn topic_result(topic: *const sys::rd_kafka_topic_result_t) -> Answer {
    // SAFETY: a live row.
    unsafe {
        let error = failure(ffi::rd_kafka_topic_result_error(topic), sys::rd_kafka_topic_result_error_string(topic));
        Answer::List(vec![text_or_none(sys::rd_kafka_topic_result_name(topic)), error])
    }
}

/// topic, partition, offset, metadata, error
fn offsets(list: *const sys::rd_kafka_topic_partition_list_t) -> Answer {
    let entries = PartitionList::copy_of(list).map_or_else(Vec::new, |list| list.entries());
    let row = |entry: crate::rd::Entry| {
        let error = if entry.error == 0 { Answer::None } else { Answer::Error(entry.error, String::new()) };
        Answer::List(vec![
            Answer::Text(entry.topic),
            Answer::Number(entry.partition.into()),
            Answer::Number(entry.offset),
            Answer::Text(String::from_utf8_lossy(&entry.metadata).into_owned()),
            error,
        ])
    };
    Answer::List(entries.into_iter().map(row).collect())
}

/// group, error, places
fn group_result(group: *const sys::rd_kafka_group_result_t) -> Answer {
    // SAFETY: a live row.
    unsafe {
        let error = error(sys::rd_kafka_group_result_error(group));
        Answer::List(vec![
            text_or_none(sys::rd_kafka_group_result_name(group)),
            error,
            offsets(sys::rd_kafka_group_result_partitions(group)),
        ])
    }
}

/// id, host, port, rack
fn node(node: *const sys::rd_kafka_Node_t) -> Answer {
    if node.is_null() {
        return Answer::None;
    }
    // SAFETY: a live row.
    unsafe {
        Answer::List(vec![
            Answer::Number(sys::rd_kafka_Node_id(node).into()),
            text_or_none(sys::rd_kafka_Node_host(node)),
            Answer::Number(sys::rd_kafka_Node_port(node).into()),
            text_or_none(sys::rd_kafka_Node_rack(node)),
        ])
    }
}

fn node_id(node: *const sys::rd_kafka_Node_t) -> Answer {
    // SAFETY: a live row, if it is not null.
    if node.is_null() { Answer::None } else { Answer::Number(unsafe { sys::rd_kafka_Node_id(node) }.into()) }
}

/// partition, leader, replicas, those in sync (ids of brokers)
fn partition(partition: *const sys::rd_kafka_TopicPartitionInfo_t) -> Answer {
    // SAFETY: a live row.
    unsafe {
        Answer::List(vec![
            Answer::Number(sys::rd_kafka_TopicPartitionInfo_partition(partition).into()),
            node_id(sys::rd_kafka_TopicPartitionInfo_leader(partition)),
            rows(partition, sys::rd_kafka_TopicPartitionInfo_replicas, node_id),
            rows(partition, sys::rd_kafka_TopicPartitionInfo_isr, node_id),
        ])
    }
}

/// name, error, internal, partitions
fn topic(topic: *const sys::rd_kafka_TopicDescription_t) -> Answer {
    // SAFETY: a live row.
    unsafe {
        Answer::List(vec![
            text_or_none(sys::rd_kafka_TopicDescription_name(topic)),
            error(sys::rd_kafka_TopicDescription_error(topic)),
            Answer::Flag(sys::rd_kafka_TopicDescription_is_internal(topic) != 0),
            rows(topic, sys::rd_kafka_TopicDescription_partitions, partition),
        ])
    }
}

/// id, controller's id, nodes
fn cluster(result: *const sys::rd_kafka_event_t) -> Answer {
    // SAFETY: a live result.
    unsafe {
        Answer::List(vec![
            text_or_none(sys::rd_kafka_DescribeCluster_result_cluster_id(result)),
            node_id(sys::rd_kafka_DescribeCluster_result_controller(result)),
            rows(result, sys::rd_kafka_DescribeCluster_result_nodes, node),
        ])
    }
}

/// name, value, source, read only, secret
fn option(entry: *const sys::rd_kafka_ConfigEntry_t) -> Answer {
    // SAFETY: a live row.
    unsafe {
        Answer::List(vec![
            text_or_none(sys::rd_kafka_ConfigEntry_name(entry)),
            text_or_none(sys::rd_kafka_ConfigEntry_value(entry)),
            name_of(ffi::rd_kafka_ConfigSource_name, ffi::rd_kafka_ConfigEntry_source(entry)),
            Answer::Flag(sys::rd_kafka_ConfigEntry_is_read_only(entry) > 0),
            Answer::Flag(sys::rd_kafka_ConfigEntry_is_sensitive(entry) > 0),
        ])
    }
}

/// name, error, options
fn config(resource: *const sys::rd_kafka_ConfigResource_t) -> Answer {
    // SAFETY: a live row.
    unsafe {
        let reason = sys::rd_kafka_ConfigResource_error_string(resource);
        Answer::List(vec![
            text_or_none(sys::rd_kafka_ConfigResource_name(resource)),
            failure(ffi::rd_kafka_ConfigResource_error(resource), reason),
            rows(resource, sys::rd_kafka_ConfigResource_configs, option),
        ])
    }
}

/// id, state, type
fn listed_group(group: *const sys::rd_kafka_ConsumerGroupListing_t) -> Answer {
    // SAFETY: a live row.
    unsafe {
        let state = ffi::rd_kafka_ConsumerGroupListing_state(group);
        Answer::List(vec![
            text_or_none(sys::rd_kafka_ConsumerGroupListing_group_id(group)),
            name_of(ffi::rd_kafka_consumer_group_state_name, state),
            name_of(ffi::rd_kafka_consumer_group_type_name, ffi::rd_kafka_ConsumerGroupListing_type(group)),
        ])
    }
}

/// member's id, client's id, instance's id, host, places
fn member(member: *const sys::rd_kafka_MemberDescription_t) -> Answer {
    // SAFETY: a live row.
    unsafe {
        let assignment = sys::rd_kafka_MemberDescription_assignment(member);
        Answer::List(vec![
            text_or_none(sys::rd_kafka_MemberDescription_consumer_id(member)),
            text_or_none(sys::rd_kafka_MemberDescription_client_id(member)),
            text_or_none(sys::rd_kafka_MemberDescription_group_instance_id(member)),
            text_or_none(sys::rd_kafka_MemberDescription_host(member)),
            offsets(sys::rd_kafka_MemberAssignment_partitions(assignment)),
        ])
    }
}

/// id, error, state, type, assignor, coordinator's id, members
fn group(group: *const sys::rd_kafka_ConsumerGroupDescription_t) -> Answer {
    // SAFETY: a live row; members are counted.
    unsafe {
        let members = (0..sys::rd_kafka_ConsumerGroupDescription_member_count(group))
            .map(|index| member(sys::rd_kafka_ConsumerGroupDescription_member(group, index)));
        let state = ffi::rd_kafka_ConsumerGroupDescription_state(group);
        Answer::List(vec![
            text_or_none(sys::rd_kafka_ConsumerGroupDescription_group_id(group)),
            error(sys::rd_kafka_ConsumerGroupDescription_error(group)),
            name_of(ffi::rd_kafka_consumer_group_state_name, state),
            name_of(ffi::rd_kafka_consumer_group_type_name, ffi::rd_kafka_ConsumerGroupDescription_type(group)),
            text_or_none(sys::rd_kafka_ConsumerGroupDescription_partition_assignor(group)),
            node_id(sys::rd_kafka_ConsumerGroupDescription_coordinator(group)),
            Answer::List(members.collect()),
        ])
    }
}

/// RD_KAFKA_OFFSET_INVALID
const UNANSWERED: i64 = -1001;

/// topic, partition, offset, timestamp, error
fn offset(info: *const sys::rd_kafka_ListOffsetsResultInfo_t) -> Answer {
    // SAFETY: a live row with a live partition; the code is read as an integer, codes being an open set.
    unsafe {
        let row = sys::rd_kafka_ListOffsetsResultInfo_topic_partition(info);
        let code = std::ptr::addr_of!((*row).err).cast::<i32>().read();
        // librdkafka drops the error of a leader that did not answer, and leaves the row as it had made it. Kafka never
        // answers with this number.
        let unanswered = code == 0 && (*row).offset == UNANSWERED;
        let error = match unanswered {
            true => Answer::Error(codes::TRANSPORT, "the leader of the partition did not answer".into()),
            false => failure(code, std::ptr::null()),
        };
        Answer::List(vec![
            text_or_none((*row).topic),
            Answer::Number((*row).partition.into()),
            Answer::Number((*row).offset),
            Answer::Number(sys::rd_kafka_ListOffsetsResultInfo_timestamp(info)),
            error,
        ])
    }
}

/// resource, name, pattern, principal, host, operation, permission, error
fn rule(acl: *const sys::rd_kafka_AclBinding_t) -> Answer {
    // SAFETY: a live row.
    unsafe {
        Answer::List(vec![
            name_of(ffi::rd_kafka_ResourceType_name, ffi::rd_kafka_AclBinding_restype(acl)),
            text_or_none(sys::rd_kafka_AclBinding_name(acl)),
            name_of(ffi::rd_kafka_ResourcePatternType_name, ffi::rd_kafka_AclBinding_resource_pattern_type(acl)),
            text_or_none(sys::rd_kafka_AclBinding_principal(acl)),
            text_or_none(sys::rd_kafka_AclBinding_host(acl)),
            name_of(ffi::rd_kafka_AclOperation_name, ffi::rd_kafka_AclBinding_operation(acl)),
            name_of(ffi::rd_kafka_AclPermissionType_name, ffi::rd_kafka_AclBinding_permission_type(acl)),
            error(sys::rd_kafka_AclBinding_error(acl)),
        ])
    }
}

/// error, rules
fn deleted_rules(response: *const sys::rd_kafka_DeleteAcls_result_response_t) -> Answer {
    // SAFETY: a live row.
    unsafe {
        Answer::List(vec![
            error(sys::rd_kafka_DeleteAcls_result_response_error(response)),
            rows(response, sys::rd_kafka_DeleteAcls_result_response_matching_acls, rule),
        ])
    }
}

impl Event {
    /// The id that a request was given, and its answer (or why there is none), if this is one.
    #[allow(clippy::type_complexity)] // a plain answer, used once
    #[allow(clippy::too_many_lines, reason = "one short arm for each type of result")]
    pub fn answer(&self) -> Option<(usize, Result<Answer, (i32, String)>)> {
        // librdkafka's results are the events that bring them.
        let result = self.raw.cast_const();
        let read: &dyn Fn() -> Answer = match self.kind() {
            sys::RD_KAFKA_EVENT_CREATETOPICS_RESULT => {
                &|| rows(result, sys::rd_kafka_CreateTopics_result_topics, topic_result)
            }
            sys::RD_KAFKA_EVENT_DELETETOPICS_RESULT => {
                &|| rows(result, sys::rd_kafka_DeleteTopics_result_topics, topic_result)
            }
            sys::RD_KAFKA_EVENT_CREATEPARTITIONS_RESULT => {
                &|| rows(result, sys::rd_kafka_CreatePartitions_result_topics, topic_result)
            }
            sys::RD_KAFKA_EVENT_DESCRIBETOPICS_RESULT => {
                &|| rows(result, sys::rd_kafka_DescribeTopics_result_topics, topic)
            }
            sys::RD_KAFKA_EVENT_DESCRIBECLUSTER_RESULT => &|| cluster(result),
            sys::RD_KAFKA_EVENT_DESCRIBECONFIGS_RESULT => {
                &|| rows(result, sys::rd_kafka_DescribeConfigs_result_resources, config)
            }
            sys::RD_KAFKA_EVENT_INCREMENTALALTERCONFIGS_RESULT => {
                &|| rows(result, sys::rd_kafka_IncrementalAlterConfigs_result_resources, config)
            }
            sys::RD_KAFKA_EVENT_LISTCONSUMERGROUPS_RESULT => &|| {
                Answer::List(vec![
                    rows(result, sys::rd_kafka_ListConsumerGroups_result_valid, listed_group),
                    rows(result, sys::rd_kafka_ListConsumerGroups_result_errors, error),
                ])
            },
            sys::RD_KAFKA_EVENT_DESCRIBECONSUMERGROUPS_RESULT => {
                &|| rows(result, sys::rd_kafka_DescribeConsumerGroups_result_groups, group)
            }
            sys::RD_KAFKA_EVENT_DELETEGROUPS_RESULT => {
                &|| rows(result, sys::rd_kafka_DeleteGroups_result_groups, group_result)
            }
            sys::RD_KAFKA_EVENT_LISTCONSUMERGROUPOFFSETS_RESULT => {
                &|| rows(result, sys::rd_kafka_ListConsumerGroupOffsets_result_groups, group_result)
            }
            sys::RD_KAFKA_EVENT_ALTERCONSUMERGROUPOFFSETS_RESULT => {
                &|| rows(result, sys::rd_kafka_AlterConsumerGroupOffsets_result_groups, group_result)
            }
            sys::RD_KAFKA_EVENT_DELETECONSUMERGROUPOFFSETS_RESULT => {
                &|| rows(result, sys::rd_kafka_DeleteConsumerGroupOffsets_result_groups, group_result)
            }
            sys::RD_KAFKA_EVENT_LISTOFFSETS_RESULT => &|| rows(result, sys::rd_kafka_ListOffsets_result_infos, offset),
            // SAFETY: a live result, which owns the list.
            sys::RD_KAFKA_EVENT_DELETERECORDS_RESULT => {
                &|| offsets(unsafe { sys::rd_kafka_DeleteRecords_result_offsets(result) })
            }
            sys::RD_KAFKA_EVENT_CREATEACLS_RESULT => &|| {
                // SAFETY: a live row.
                let row = |row| error(unsafe { sys::rd_kafka_acl_result_error(row) });
                rows(result, sys::rd_kafka_CreateAcls_result_acls, row)
            },
            sys::RD_KAFKA_EVENT_DESCRIBEACLS_RESULT => &|| rows(result, sys::rd_kafka_DescribeAcls_result_acls, rule),
            sys::RD_KAFKA_EVENT_DELETEACLS_RESULT => {
                &|| rows(result, sys::rd_kafka_DeleteAcls_result_responses, deleted_rules)
            }
            _ => return None,
        };
        // SAFETY: a live event; the opaque is the number that `ask` was given.
        let id = unsafe { sys::rd_kafka_event_opaque(self.raw) } as usize;
        Some((id, if self.error() == 0 { Ok(read()) } else { Err((self.error(), self.error_text())) }))
    }
}
