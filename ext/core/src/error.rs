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

    /// Whether the same call may succeed later without a change: Kafka's transient codes (the protocol's error table,
    /// column "retriable") and librdkafka's transport and timeout codes.
    pub fn retriable(&self) -> bool {
        const TRANSIENT: &[i32] =
            &[2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 51, 56, 70, 71, 72, 74, 75, 76, 84, 89, 95, 100, 103];
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

    /// How well the error says why nothing gets through. A refused password or certificate counts more than a connection
    /// that breaks later, before the broker could refuse it again; "all brokers are down" follows from either.
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
