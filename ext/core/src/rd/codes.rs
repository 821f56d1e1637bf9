//! Error codes by name: Kafka's (positive) and librdkafka's own (negative). Those that the core decides by; all others
//! pass through as numbers.

pub const UNKNOWN_TOPIC_OR_PART: i32 = 3;
pub const LEADER_NOT_AVAILABLE: i32 = 5;
pub const REQUEST_TIMED_OUT: i32 = 7;
pub const MSG_SIZE_TOO_LARGE: i32 = 10;
pub const COORDINATOR_LOAD_IN_PROGRESS: i32 = 14;
pub const COORDINATOR_NOT_AVAILABLE: i32 = 15;
pub const NOT_COORDINATOR: i32 = 16;
pub const ILLEGAL_GENERATION: i32 = 22;
pub const UNKNOWN_MEMBER_ID: i32 = 25;
pub const REBALANCE_IN_PROGRESS: i32 = 27;
pub const GROUP_AUTHORIZATION_FAILED: i32 = 30;
pub const FENCED_INSTANCE_ID: i32 = 82;
pub const UNSTABLE_OFFSET_COMMIT: i32 = 88;
pub const FENCED_MEMBER_EPOCH: i32 = 110;
pub const STALE_MEMBER_EPOCH: i32 = 113;

pub const BAD_COMPRESSION: i32 = -198;
pub const DESTROY: i32 = -197;
pub const FAIL: i32 = -196;
pub const TRANSPORT: i32 = -195;
pub const CRIT_SYS_RESOURCE: i32 = -194;
pub const RESOLVE: i32 = -193;
pub const PARTITION_EOF: i32 = -191;
pub const UNKNOWN_PARTITION: i32 = -190;
pub const UNKNOWN_TOPIC: i32 = -188;
pub const ALL_BROKERS_DOWN: i32 = -187;
pub const INVALID_ARG: i32 = -186;
pub const TIMED_OUT: i32 = -185;
pub const QUEUE_FULL: i32 = -184;
pub const WAIT_COORD: i32 = -180;
pub const UNKNOWN_GROUP: i32 = -179;
pub const PREV_IN_PROGRESS: i32 = -177;
pub const ASSIGN_PARTITIONS: i32 = -175;
pub const REVOKE_PARTITIONS: i32 = -174;
pub const STATE: i32 = -172;
pub const NO_OFFSET: i32 = -168;
pub const OUTDATED: i32 = -167;
pub const TIMED_OUT_QUEUE: i32 = -166;
pub const PURGE_QUEUE: i32 = -152;
pub const PURGE_INFLIGHT: i32 = -151;
/// "See rd_kafka_fatal_error()".
pub const FATAL: i32 = -150;
pub const ASSIGNMENT_LOST: i32 = -142;

/// Ours, because only a number is kept for a message: MSG_SIZE_TOO_LARGE for the producer's own queue. Users see
/// MSG_SIZE_TOO_LARGE (`KafkaError::number`).
pub const LARGER_THAN_QUEUE: i32 = i32::MIN;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rd::error_name;

    #[test]
    fn they_are_librdkafkas() {
        macro_rules! own {
            ($($name:ident)*) => { [$((concat!("_", stringify!($name)), $name)),*] };
        }
        let own = own![DESTROY FAIL TRANSPORT CRIT_SYS_RESOURCE RESOLVE PARTITION_EOF UNKNOWN_PARTITION UNKNOWN_TOPIC
            ALL_BROKERS_DOWN INVALID_ARG TIMED_OUT QUEUE_FULL WAIT_COORD UNKNOWN_GROUP PREV_IN_PROGRESS ASSIGN_PARTITIONS
            REVOKE_PARTITIONS STATE NO_OFFSET OUTDATED TIMED_OUT_QUEUE PURGE_QUEUE PURGE_INFLIGHT FATAL ASSIGNMENT_LOST];
        let kafkas = [
            ("UNKNOWN_TOPIC_OR_PART", UNKNOWN_TOPIC_OR_PART),
            ("LEADER_NOT_AVAILABLE", LEADER_NOT_AVAILABLE),
            ("REQUEST_TIMED_OUT", REQUEST_TIMED_OUT),
            ("MSG_SIZE_TOO_LARGE", MSG_SIZE_TOO_LARGE),
            ("COORDINATOR_LOAD_IN_PROGRESS", COORDINATOR_LOAD_IN_PROGRESS),
            ("COORDINATOR_NOT_AVAILABLE", COORDINATOR_NOT_AVAILABLE),
            ("NOT_COORDINATOR", NOT_COORDINATOR),
            ("ILLEGAL_GENERATION", ILLEGAL_GENERATION),
            ("UNKNOWN_MEMBER_ID", UNKNOWN_MEMBER_ID),
            ("REBALANCE_IN_PROGRESS", REBALANCE_IN_PROGRESS),
            ("GROUP_AUTHORIZATION_FAILED", GROUP_AUTHORIZATION_FAILED),
            ("FENCED_INSTANCE_ID", FENCED_INSTANCE_ID),
            ("UNSTABLE_OFFSET_COMMIT", UNSTABLE_OFFSET_COMMIT),
            ("FENCED_MEMBER_EPOCH", FENCED_MEMBER_EPOCH),
            ("STALE_MEMBER_EPOCH", STALE_MEMBER_EPOCH),
        ];
        for (name, code) in own.into_iter().chain(kafkas) {
            assert_eq!(name, error_name(code));
        }
    }
}
