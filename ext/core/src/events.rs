//! What clients say: logs, errors, statistics. One mailbox a process; Ruby reads it with one thread. No text is made and
//! no metric kept in the core.

use crate::mailbox::Mailbox;
use crate::rd::{Client, Event, PerProcess};
use rdkafka_sys as sys;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientEvent {
    /// The name that the client was made with.
    pub client: String,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Syslog level 0 (emergency) to 7 (debug).
    Log {
        level: i32,
        facility: String,
        message: String,
    },
    Error {
        code: i32,
        reason: String,
        fatal: bool,
    },
    /// librdkafka's JSON.
    Statistics(String),
    /// A message that failed and that nobody waits for.
    DeliveryFailed {
        code: i32,
        topic: String,
        partition: i32,
    },
    /// The client was garbage collected unclosed, with this many messages unsent when it ended.
    Unclosed {
        lost: usize,
    },
}

/// Events kept while nobody reads; then the newest are dropped (the reader would see stale ones for minutes).
const LIMIT: usize = 10_000;

static MAILBOX: PerProcess<Mailbox<ClientEvent>> = PerProcess::new();

pub fn mailbox() -> &'static Mailbox<ClientEvent> {
    MAILBOX.get_or_init(Mailbox::default)
}

pub fn emit(client: &str, kind: Kind) {
    mailbox().push_bounded(ClientEvent { client: client.into(), kind }, LIMIT);
}

/// The events that every client has. Returns false for those that are the client's own business.
pub(crate) fn emit_common(name: &str, client: &Client, event: &Event) -> bool {
    match event.kind() {
        sys::RD_KAFKA_EVENT_LOG => {
            if let Some((facility, message, level)) = event.log() {
                emit(name, Kind::Log { level, facility, message });
            }
        }
        sys::RD_KAFKA_EVENT_STATS => emit(name, Kind::Statistics(event.statistics())),
        sys::RD_KAFKA_EVENT_ERROR => {
            // The generic marker (_FATAL, −150) stands for the real code.
            let (code, reason, fatal) = match client.fatal_error() {
                Some((code, reason)) if event.error() == -150 => (code, reason, true),
                _ => (event.error(), event.error_text(), false),
            };
            emit(name, Kind::Error { code, reason, fatal });
        }
        _ => return false,
    }
    true
}
