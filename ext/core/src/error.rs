//! All errors, in one place. The glue turns each variant into one Ruby class.

use crate::rd::{self, Origin, codes};
use std::fmt;

/// A code of Kafka or librdkafka with what we know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaError {
    /// Kafka's number (positive) or librdkafka's own (negative).
    pub code: i32,
    /// `"_TIMED_OUT"`, `"UNKNOWN_TOPIC_OR_PART"`.
    pub name: String,
    /// The most specific sentence there is.
    pub reason: String,
    /// The client can't be used any more.
    pub fatal: bool,
    /// The transaction must be aborted.
    pub abortable: bool,
    /// librdkafka's own `retriable`, if it gave one.
    pub(crate) retry: Option<bool>,
}

impl KafkaError {
    pub fn new(code: i32) -> Self {
        if code == codes::LARGER_THAN_QUEUE {
            let reason = "the payload is larger than the producer's whole queue (queue.buffering.max.kbytes)".into();
            return Self { code, ..Self::with_reason(codes::MSG_SIZE_TOO_LARGE, reason) };
        }
        Self {
            code,
            name: rd::error_name(code),
            reason: rd::error_text(code),
            fatal: false,
            abortable: false,
            retry: None,
        }
    }

    /// The code as users see it.
    pub fn number(&self) -> i32 {
        if self.code == codes::LARGER_THAN_QUEUE { codes::MSG_SIZE_TOO_LARGE } else { self.code }
    }

    /// The content of an ERROR event.
    pub(crate) fn of(event: &rd::Event) -> Self {
        Self { fatal: event.is_fatal(), ..Self::with_reason(event.error(), event.error_text()) }
    }

    pub fn with_reason(code: i32, reason: String) -> Self {
        let mut error = Self::new(code);
        if !reason.is_empty() {
            error.reason = reason;
        }
        error
    }

    /// Whether the same call may succeed later without a change: Kafka's transient codes (those whose exception is a
    /// RetriableException in Kafka 4.1) and librdkafka's transport and timeout codes.
    pub fn retriable(&self) -> bool {
        const TRANSIENT: &[i32] = &[
            2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 89, 100, 103,
            106, 122, 123, 133,
        ];
        let ours = matches!(
            self.code,
            codes::TRANSPORT
                | codes::RESOLVE
                | codes::ALL_BROKERS_DOWN
                | codes::TIMED_OUT
                | codes::QUEUE_FULL
                | codes::WAIT_COORD
                | codes::NO_OFFSET
        );
        !self.fatal && !self.abortable && self.retry.unwrap_or_else(|| ours || TRANSIENT.contains(&self.code))
    }

    /// How well the error says why nothing gets through. A refused password or certificate counts more than a
    /// connection that breaks later, before the broker could refuse it again; "all brokers are down" follows from
    /// either.
    pub(crate) fn weight(&self) -> u8 {
        match self.code {
            codes::ALL_BROKERS_DOWN => 0,
            _ if self.retriable() => 1,
            _ => 2,
        }
    }
}

impl fmt::Display for KafkaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.reason, self.name, self.number())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// An option that librdkafka refuses, alone or with others (`None`). The value may be a secret: only Ruby shows it.
    Config {
        key: String,
        value: Option<String>,
        reason: String,
    },
    Kafka(KafkaError),
    /// The client was closed.
    Closed,
    /// The client belongs to an ancestor of this forked process: its id, where that is known.
    Forked(Option<u32>),
    /// The local queue had no room within the time given.
    QueueFull,
    /// The deadline passed.
    TimedOut,
    /// The waiting thread was asked to stop waiting.
    Interrupted,
    /// An argument that can't be sent.
    Invalid {
        what: &'static str,
        value: String,
        allowed: &'static str,
    },
}

impl Error {
    pub fn code(code: i32) -> Self {
        Self::Kafka(KafkaError::new(code))
    }
}

impl Origin {
    /// Fails in a forked child of the process that made the value.
    pub fn check(self) -> Result<(), Error> {
        if self.is_foreign() { Err(Error::Forked(self.process())) } else { Ok(()) }
    }
}

impl From<rd::TransactionError> for Error {
    fn from(refusal: rd::TransactionError) -> Self {
        let rd::TransactionError { code, reason, fatal, retriable, abortable } = refusal;
        Self::Kafka(KafkaError { fatal, abortable, retry: Some(retriable), ..KafkaError::with_reason(code, reason) })
    }
}

impl From<(i32, String)> for Error {
    fn from((code, reason): (i32, String)) -> Self {
        Self::Kafka(KafkaError::with_reason(code, reason))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config { key, reason, .. } => write!(f, "{key}: {reason}"),
            Self::Kafka(error) => error.fmt(f),
            Self::Closed => f.write_str("the client is closed"),
            Self::Forked(_) => {
                f.write_str("the client was opened by the parent process: open a new one after the fork")
            }
            Self::QueueFull => f.write_str("the local queue stayed full"),
            Self::TimedOut => f.write_str("timed out"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Invalid { what, value, allowed } => write!(f, "{what} {value:?}: expected {allowed}"),
        }
    }
}

impl std::error::Error for Error {}

/// 0 is success, as librdkafka has it.
pub(crate) fn check(code: i32) -> Result<(), Error> {
    if code == 0 { Ok(()) } else { Err(Error::code(code)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As librdkafka names them: INVALID_MSG is Kafka's CORRUPT_MESSAGE.
    const RETRIABLE: [&str; 27] = [
        "INVALID_MSG",
        "UNKNOWN_TOPIC_OR_PART",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "REQUEST_TIMED_OUT",
        "REPLICA_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "NOT_CONTROLLER",
        "CONCURRENT_TRANSACTIONS",
        "KAFKA_STORAGE_ERROR",
        "FETCH_SESSION_ID_NOT_FOUND",
        "INVALID_FETCH_SESSION_EPOCH",
        "LISTENER_NOT_FOUND",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "OFFSET_NOT_AVAILABLE",
        "PREFERRED_LEADER_NOT_AVAILABLE",
        "ELIGIBLE_LEADERS_NOT_AVAILABLE",
        "ELECTION_NOT_NEEDED",
        "UNSTABLE_OFFSET_COMMIT",
        "THROTTLING_QUOTA_EXCEEDED",
        "UNKNOWN_TOPIC_ID",
    ];
    /// Later than librdkafka's names.
    const NEWER: [i32; 5] = [103, 106, 122, 123, 133];

    #[test]
    fn what_is_retriable_in_kafka_is_retriable() {
        let retriable: Vec<_> = (1..=200).map(KafkaError::new).filter(KafkaError::retriable).collect();
        let (named, newer) = retriable.split_at(RETRIABLE.len());
        assert_eq!(RETRIABLE[..], named.iter().map(|error| &error.name[..]).collect::<Vec<_>>());
        assert_eq!(NEWER[..], newer.iter().map(|error| error.code).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_fatal_or_abortable_is_not_retriable() {
        let error = KafkaError::new(codes::TRANSPORT);
        assert!(error.retriable());
        assert!(!KafkaError { fatal: true, ..error.clone() }.retriable());
        assert!(!KafkaError { abortable: true, ..error.clone() }.retriable());
        assert!(!KafkaError { retry: Some(false), ..error }.retriable());
        assert!(KafkaError { retry: Some(true), ..KafkaError::new(1) }.retriable());
        assert!(!KafkaError { retry: Some(true), abortable: true, ..KafkaError::new(1) }.retriable());
    }

    #[test]
    fn a_message_larger_than_the_queue_has_kafkas_number_for_too_large_a_one() {
        let error = KafkaError::new(codes::LARGER_THAN_QUEUE);
        assert_eq!((codes::MSG_SIZE_TOO_LARGE, "MSG_SIZE_TOO_LARGE"), (error.number(), &*error.name));
        assert!(error.to_string().contains("queue.buffering.max.kbytes") && !error.retriable());
        assert_eq!(codes::TRANSPORT, KafkaError::new(codes::TRANSPORT).number());
    }

    #[test]
    fn an_error_says_the_most_specific_sentence() {
        let own = KafkaError::with_reason(codes::TIMED_OUT, "no broker".into());
        assert_eq!(format!("no broker (_TIMED_OUT, {})", codes::TIMED_OUT), own.to_string());
        assert_eq!(KafkaError::new(codes::TIMED_OUT), KafkaError::with_reason(codes::TIMED_OUT, String::new()));
        assert_eq!((Ok(()), Err(Error::code(3))), (check(0), check(3)));
    }

    #[test]
    fn a_refused_login_weighs_more_than_a_lost_connection_and_that_more_than_no_broker() {
        const AUTHENTICATION: i32 = -169;
        let weights =
            [codes::ALL_BROKERS_DOWN, codes::TRANSPORT, AUTHENTICATION].map(|code| KafkaError::new(code).weight());
        assert!(weights[0] < weights[1] && weights[1] < weights[2], "{weights:?}");
    }
}
