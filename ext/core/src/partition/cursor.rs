//! The position of a partition's owner, and how often it was moved.

use crate::lock;
use std::sync::{Arc, Mutex};

/// The position of a partition's owner, shared with its batches.
pub(super) struct Cursor {
    pub(super) state: Mutex<CursorState>,
}

#[derive(Clone, Copy)]
pub(super) struct CursorState {
    /// How often `begin` moved the position: a seek, a log that starts again, the end of the assignment.
    seek_count: u64,
    /// The next message that the owner gets; −1001 if it is unknown.
    pub(super) position: i64,
}

impl Cursor {
    pub(super) fn new(position: i64) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(CursorState { seek_count: 0, position }) })
    }

    pub(super) fn seek_count(&self) -> u64 {
        lock(&self.state).seek_count
    }

    pub(super) fn begin(&self, position: i64) {
        let mut state = lock(&self.state);
        *state = CursorState { seek_count: state.seek_count + 1, position };
    }

    /// The owner has everything before this offset; ignored if the position was moved since `seek_count`.
    pub(super) fn advance(&self, seek_count: u64, next: i64) {
        let mut state = lock(&self.state);
        if state.seek_count == seek_count {
            state.position = next;
        }
    }
}
