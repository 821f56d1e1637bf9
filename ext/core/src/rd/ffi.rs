//! librdkafka's functions that answer with an error code, and one that the bindings lack. In the bindings a code is a
//! Rust enum, but codes are an open set. A number that the enum does not know (from a newer broker, say) would be
//! undefined behavior. Here they are plain integers. `test/rust_architecture_test.rb` checks that no code
//! uses the bindings' versions.

use super::sys;
use std::ffi::{c_char, c_int, c_void};

pub(super) type AddrInfo = libc::addrinfo;
pub(super) type Resolve = unsafe extern "C" fn(
    node: *const c_char,
    service: *const c_char,
    hints: *const AddrInfo,
    result: *mut *mut AddrInfo,
    opaque: *mut c_void,
) -> c_int;

pub(super) type Verify = unsafe extern "C" fn(
    RawClient,
    broker: *const c_char,
    broker_id: i32,
    error: *mut c_int,
    depth: c_int,
    certificate: *const c_char,
    size: usize,
    reason: *mut c_char,
    reason_size: usize,
    *mut c_void,
) -> c_int;

type OnNew =
    unsafe extern "C" fn(RawClient, *const sys::rd_kafka_conf_t, *mut c_void, reason: *mut c_char, usize) -> c_int;
type OnThread = unsafe extern "C" fn(RawClient, kind: c_int, name: *const c_char, *mut c_void) -> c_int;
type OnResponse = unsafe extern "C" fn(
    RawClient,
    socket: c_int,
    broker: *const c_char,
    broker_id: i32,
    api_key: i16,
    version: i16,
    correlation: i32,
    size: usize,
    round_trip: i64,
    code: c_int,
    *mut c_void,
) -> c_int;

type RawClient = *mut sys::rd_kafka_t;
type RawList = *mut sys::rd_kafka_topic_partition_list_t;
type RawConstList = *const sys::rd_kafka_topic_partition_list_t;
type RawCluster = *mut sys::rd_kafka_mock_cluster_t;

unsafe extern "C" {
    pub(super) fn rd_kafka_conf_set_resolve_cb(conf: *mut sys::rd_kafka_conf_t, resolve: Resolve);
    pub(super) fn rd_kafka_conf_set_ssl_cert_verify_cb(
        conf: *mut sys::rd_kafka_conf_t,
        verify: Option<Verify>,
    ) -> c_int;
    pub(super) fn rd_kafka_conf_set(
        conf: *mut sys::rd_kafka_conf_t,
        name: *const c_char,
        value: *const c_char,
        reason: *mut c_char,
        reason_size: usize,
    ) -> c_int;

    pub(super) fn rd_kafka_conf_interceptor_add_on_new(
        conf: *mut sys::rd_kafka_conf_t,
        name: *const c_char,
        on_new: Option<OnNew>,
        opaque: *mut c_void,
    ) -> c_int;
    pub(super) fn rd_kafka_interceptor_add_on_thread_start(
        client: RawClient,
        name: *const c_char,
        on_thread_start: Option<OnThread>,
        opaque: *mut c_void,
    ) -> c_int;
    pub(super) fn rd_kafka_interceptor_add_on_thread_exit(
        client: RawClient,
        name: *const c_char,
        on_thread_exit: Option<OnThread>,
        opaque: *mut c_void,
    ) -> c_int;
    pub(super) fn rd_kafka_interceptor_add_on_response_received(
        client: RawClient,
        name: *const c_char,
        on_response_received: Option<OnResponse>,
        opaque: *mut c_void,
    ) -> c_int;

    pub(super) fn rd_kafka_last_error() -> c_int;
    pub(super) fn rd_kafka_fatal_error(client: RawClient, reason: *mut c_char, reason_size: usize) -> c_int;
    pub(super) fn rd_kafka_error_code(error: *const sys::rd_kafka_error_t) -> c_int;
    pub(super) fn rd_kafka_event_error(event: *mut sys::rd_kafka_event_t) -> c_int;

    pub(super) fn rd_kafka_set_log_queue(client: RawClient, queue: *mut sys::rd_kafka_queue_t) -> c_int;
    pub(super) fn rd_kafka_flush(client: RawClient, millis: c_int) -> c_int;
    pub(super) fn rd_kafka_purge(client: RawClient, flags: c_int) -> c_int;
    pub(super) fn rd_kafka_metadata(
        client: RawClient,
        all_topics: c_int,
        topic: *mut sys::rd_kafka_topic_t,
        metadata: *mut *const sys::rd_kafka_metadata,
        millis: c_int,
    ) -> c_int;
    pub(super) fn rd_kafka_oauthbearer_set_token(
        client: RawClient,
        token: *const c_char,
        expires_millis: i64,
        principal: *const c_char,
        extensions: *mut *const c_char,
        extension_count: usize,
        reason: *mut c_char,
        reason_size: usize,
    ) -> c_int;
    pub(super) fn rd_kafka_oauthbearer_set_token_failure(client: RawClient, reason: *const c_char) -> c_int;

    pub(super) fn rd_kafka_subscribe(client: RawClient, topics: RawConstList) -> c_int;
    pub(super) fn rd_kafka_unsubscribe(client: RawClient) -> c_int;
    pub(super) fn rd_kafka_subscription(client: RawClient, topics: *mut RawList) -> c_int;
    pub(super) fn rd_kafka_assign(client: RawClient, partitions: RawConstList) -> c_int;
    pub(super) fn rd_kafka_assignment(client: RawClient, partitions: *mut RawList) -> c_int;
    pub(super) fn rd_kafka_offsets_store(client: RawClient, offsets: RawList) -> c_int;
    pub(super) fn rd_kafka_commit_queue(
        client: RawClient,
        offsets: RawConstList,
        queue: *mut sys::rd_kafka_queue_t,
        callback: Option<unsafe extern "C" fn(RawClient, c_int, RawList, *mut c_void)>,
        opaque: *mut c_void,
    ) -> c_int;
    pub(super) fn rd_kafka_committed(client: RawClient, partitions: RawList, millis: c_int) -> c_int;
    pub(super) fn rd_kafka_position(client: RawClient, partitions: RawList) -> c_int;
    pub(super) fn rd_kafka_get_watermark_offsets(
        client: RawClient,
        topic: *const c_char,
        partition: i32,
        low: *mut i64,
        high: *mut i64,
    ) -> c_int;
    pub(super) fn rd_kafka_query_watermark_offsets(
        client: RawClient,
        topic: *const c_char,
        partition: i32,
        low: *mut i64,
        high: *mut i64,
        millis: c_int,
    ) -> c_int;
    pub(super) fn rd_kafka_offsets_for_times(client: RawClient, times: RawList, millis: c_int) -> c_int;

    pub(super) fn rd_kafka_header_add(
        headers: *mut sys::rd_kafka_headers_t,
        name: *const c_char,
        name_size: isize,
        value: *const c_void,
        value_size: isize,
    ) -> c_int;
    pub(super) fn rd_kafka_header_get_all(
        headers: *const sys::rd_kafka_headers_t,
        index: usize,
        name: *mut *const c_char,
        value: *mut *const c_void,
        value_size: *mut usize,
    ) -> c_int;
    pub(super) fn rd_kafka_message_headers(
        message: *const sys::rd_kafka_message_t,
        headers: *mut *mut sys::rd_kafka_headers_t,
    ) -> c_int;

    pub(super) fn rd_kafka_mock_topic_create(
        cluster: RawCluster,
        name: *const c_char,
        partitions: c_int,
        replicas: c_int,
    ) -> c_int;
    pub(super) fn rd_kafka_mock_push_request_errors_array(
        cluster: RawCluster,
        api_key: i16,
        count: usize,
        codes: *const c_int,
    );
    pub(super) fn rd_kafka_mock_broker_push_request_error_rtts(
        cluster: RawCluster,
        broker: i32,
        api_key: i16,
        count: usize,
        ...
    ) -> c_int;
    pub(super) fn rd_kafka_mock_topic_set_error(cluster: RawCluster, name: *const c_char, code: c_int);
    pub(super) fn rd_kafka_mock_broker_set_down(cluster: RawCluster, broker: i32) -> c_int;
    pub(super) fn rd_kafka_mock_broker_set_up(cluster: RawCluster, broker: i32) -> c_int;
    pub(super) fn rd_kafka_mock_broker_set_rtt(cluster: RawCluster, broker: i32, millis: c_int) -> c_int;

    pub(super) fn rd_kafka_NewTopic_set_config(
        topic: *mut sys::rd_kafka_NewTopic_t,
        name: *const c_char,
        value: *const c_char,
    ) -> c_int;
    pub(super) fn rd_kafka_AdminOptions_set_request_timeout(
        options: *mut sys::rd_kafka_AdminOptions_t,
        millis: c_int,
        reason: *mut c_char,
        reason_size: usize,
    ) -> c_int;
    pub(super) fn rd_kafka_topic_result_error(topic: *const sys::rd_kafka_topic_result_t) -> c_int;
    pub(super) fn rd_kafka_ConfigResource_error(resource: *const sys::rd_kafka_ConfigResource_t) -> c_int;
    // Enums of what a broker says are an open set, too.
    pub(super) fn rd_kafka_ConfigEntry_source(entry: *const sys::rd_kafka_ConfigEntry_t) -> c_int;
    pub(super) fn rd_kafka_ConfigSource_name(source: c_int) -> *const c_char;
    pub(super) fn rd_kafka_ConsumerGroupListing_state(group: *const sys::rd_kafka_ConsumerGroupListing_t) -> c_int;
    pub(super) fn rd_kafka_ConsumerGroupDescription_state(
        group: *const sys::rd_kafka_ConsumerGroupDescription_t,
    ) -> c_int;
    pub(super) fn rd_kafka_ConsumerGroupListing_type(group: *const sys::rd_kafka_ConsumerGroupListing_t) -> c_int;
    pub(super) fn rd_kafka_ConsumerGroupDescription_type(
        group: *const sys::rd_kafka_ConsumerGroupDescription_t,
    ) -> c_int;
    pub(super) fn rd_kafka_consumer_group_type_name(kind: c_int) -> *const c_char;
    pub(super) fn rd_kafka_consumer_group_state_name(state: c_int) -> *const c_char;
    pub(super) fn rd_kafka_AclBinding_new(
        resource: c_int,
        name: *const c_char,
        pattern: c_int,
        principal: *const c_char,
        host: *const c_char,
        operation: c_int,
        permission: c_int,
        reason: *mut c_char,
        reason_size: usize,
    ) -> *mut sys::rd_kafka_AclBinding_t;
    pub(super) fn rd_kafka_AclBindingFilter_new(
        resource: c_int,
        name: *const c_char,
        pattern: c_int,
        principal: *const c_char,
        host: *const c_char,
        operation: c_int,
        permission: c_int,
        reason: *mut c_char,
        reason_size: usize,
    ) -> *mut sys::rd_kafka_AclBinding_t;
    pub(super) fn rd_kafka_AclBinding_restype(acl: *const sys::rd_kafka_AclBinding_t) -> c_int;
    pub(super) fn rd_kafka_AclBinding_resource_pattern_type(acl: *const sys::rd_kafka_AclBinding_t) -> c_int;
    pub(super) fn rd_kafka_AclBinding_operation(acl: *const sys::rd_kafka_AclBinding_t) -> c_int;
    pub(super) fn rd_kafka_AclBinding_permission_type(acl: *const sys::rd_kafka_AclBinding_t) -> c_int;
    pub(super) fn rd_kafka_ResourceType_name(resource: c_int) -> *const c_char;
    pub(super) fn rd_kafka_ResourcePatternType_name(pattern: c_int) -> *const c_char;
    pub(super) fn rd_kafka_AclOperation_name(operation: c_int) -> *const c_char;
    pub(super) fn rd_kafka_AclPermissionType_name(permission: c_int) -> *const c_char;
}

/// Values that librdkafka writes through a pointer are as wide here as there, and nothing is left out.
#[cfg(test)]
mod tests {
    use super::super::{ffi, sys};
    use std::any::type_name;

    /// Enums, which are integers here; each with its size.
    macro_rules! enums {
        ($($name:ident)*) => { [$((stringify!($name), size_of::<sys::$name>())),*] };
    }

    /// Functions by what they take, each with its declaration here and the bindings' own.
    macro_rules! declarations {
        ($($arguments:tt $($name:ident)*;)*) => {
            [$($((
                stringify!($name),
                signature(ffi::$name as unsafe extern "C" fn $arguments -> _),
                signature(sys::$name as unsafe extern "C" fn $arguments -> _),
            )),*),*]
        };
    }

    fn signature<F>(_: F) -> String {
        let integers = enums!(rd_kafka_resp_err_t rd_kafka_conf_res_t rd_kafka_thread_type_t rd_kafka_consumer_group_state_t
            rd_kafka_consumer_group_type_t rd_kafka_ConfigSource_t rd_kafka_ResourceType_t rd_kafka_ResourcePatternType_t rd_kafka_AclOperation_t
            rd_kafka_AclPermissionType_t);
        integers.iter().fold(type_name::<F>().to_string(), |text, (name, size)| {
            assert_eq!(size_of::<i32>(), *size, "{name}");
            text.replace(&format!("rdkafka_sys::bindings::{name}"), "i32")
        })
    }

    #[test]
    fn declarations_are_those_of_the_bindings() {
        let all = declarations! {
            () rd_kafka_last_error;
            (_) rd_kafka_error_code rd_kafka_event_error rd_kafka_unsubscribe rd_kafka_topic_result_error
                rd_kafka_ConfigResource_error rd_kafka_ConfigEntry_source rd_kafka_ConfigSource_name
                rd_kafka_ConsumerGroupListing_state rd_kafka_ConsumerGroupDescription_state
                rd_kafka_ConsumerGroupListing_type rd_kafka_ConsumerGroupDescription_type
                rd_kafka_consumer_group_type_name rd_kafka_consumer_group_state_name rd_kafka_AclBinding_restype
                rd_kafka_AclBinding_resource_pattern_type rd_kafka_AclBinding_operation
                rd_kafka_AclBinding_permission_type rd_kafka_ResourceType_name rd_kafka_ResourcePatternType_name
                rd_kafka_AclOperation_name rd_kafka_AclPermissionType_name;
            (_, _) rd_kafka_set_log_queue rd_kafka_flush rd_kafka_purge rd_kafka_oauthbearer_set_token_failure
                rd_kafka_subscribe rd_kafka_subscription rd_kafka_assign rd_kafka_assignment rd_kafka_offsets_store
                rd_kafka_conf_set_ssl_cert_verify_cb rd_kafka_message_headers rd_kafka_mock_broker_set_down rd_kafka_mock_broker_set_up rd_kafka_position;
            (_, _, _) rd_kafka_fatal_error rd_kafka_committed rd_kafka_offsets_for_times rd_kafka_mock_broker_set_rtt
                rd_kafka_mock_topic_set_error rd_kafka_NewTopic_set_config;
            (_, _, _, _) rd_kafka_conf_interceptor_add_on_new rd_kafka_interceptor_add_on_thread_start
                rd_kafka_interceptor_add_on_thread_exit rd_kafka_interceptor_add_on_response_received
                rd_kafka_mock_topic_create rd_kafka_mock_push_request_errors_array
                rd_kafka_AdminOptions_set_request_timeout;
            (_, _, _, _, ...) rd_kafka_mock_broker_push_request_error_rtts;
            (_, _, _, _, _) rd_kafka_conf_set rd_kafka_metadata rd_kafka_commit_queue rd_kafka_get_watermark_offsets
                rd_kafka_header_add rd_kafka_header_get_all;
            (_, _, _, _, _, _) rd_kafka_query_watermark_offsets;
            (_, _, _, _, _, _, _, _) rd_kafka_oauthbearer_set_token;
            (_, _, _, _, _, _, _, _, _) rd_kafka_AclBinding_new rd_kafka_AclBindingFilter_new;
        };
        for (name, ours, theirs) in &all {
            assert_eq!(theirs, ours, "{name}");
        }
        let compared: Vec<_> = all.iter().map(|(name, ..)| *name).collect();
        let declared = include_str!("ffi.rs").split("pub(super) fn ").filter_map(|rest| rest.split('(').next());
        for name in declared.filter(|name| name.starts_with("rd_kafka_")) {
            // The bindings lack it.
            assert!(name == "rd_kafka_conf_set_resolve_cb" || compared.contains(&name), "{name} is not compared");
        }
    }
}
