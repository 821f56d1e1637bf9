//! A chunk's entry for one message.

use crate::view::{NULL, View};
use std::sync::atomic::AtomicUsize;

/// One message: its facts, and the place of its bytes (payload, key, headers, in this order).
pub struct Record {
    pub offset: i64,
    /// Milliseconds since 1970, −1 where unknown.
    pub timestamp: i64,
    pub leader_epoch: i32,
    pub(super) start: u32,
    pub(super) payload: u32,
    pub(super) key: u32,
    pub(super) headers: u32,
    /// A word for the owner of the message object: what it keeps of the payload, 0 at first.
    pub(super) word: AtomicUsize,
}

/// The parts of a message of which an object's owner may keep something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessagePart {
    Payload,
    Key,
    Headers,
}

impl Record {
    pub(super) fn view<'a>(&self, bytes: &'a [u8]) -> View<'a> {
        let (payload, rest) = bytes.split_at(self.payload_len());
        let (key, headers) = rest.split_at(self.key_len());
        View {
            payload: (self.payload != NULL).then_some(payload),
            key: (self.key != NULL).then_some(key),
            headers: &headers[..self.headers as usize],
        }
    }

    pub(super) fn payload_len(&self) -> usize {
        if self.payload == NULL { 0 } else { self.payload as usize }
    }

    pub(super) fn key_len(&self) -> usize {
        if self.key == NULL { 0 } else { self.key as usize }
    }

    pub fn has_key(&self) -> bool {
        self.key != NULL
    }

    /// Bytes of payload; `None` for a tombstone.
    pub fn payload_size(&self) -> Option<usize> {
        (self.payload != NULL).then_some(self.payload as usize)
    }

    pub(super) fn size(&self) -> usize {
        self.payload_len() + self.key_len() + self.headers as usize
    }
}
