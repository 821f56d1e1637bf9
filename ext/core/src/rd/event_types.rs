//! Types of librdkafka's events, by librdkafka's names without the prefix `RD_KAFKA_EVENT_`. A client asks for the
//! types that it serves (`Conf::set_events`).

use super::sys;

pub const DR: i32 = sys::RD_KAFKA_EVENT_DR;
pub const LOG: i32 = sys::RD_KAFKA_EVENT_LOG;
pub const ERROR: i32 = sys::RD_KAFKA_EVENT_ERROR;
pub const REBALANCE: i32 = sys::RD_KAFKA_EVENT_REBALANCE;
pub const OFFSET_COMMIT: i32 = sys::RD_KAFKA_EVENT_OFFSET_COMMIT;
pub const STATS: i32 = sys::RD_KAFKA_EVENT_STATS;
pub const OAUTHBEARER_TOKEN_REFRESH: i32 = sys::RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH;
