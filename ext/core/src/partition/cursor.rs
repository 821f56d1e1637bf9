//! The position of a partition's owner, and the epoch that it belongs to.

use crate::lock;
use std::sync::{Arc, Mutex};

/// The position of a partition's owner, shared with its batches.
pub(super) struct Cursor {
    pub(super) state: Mutex<CursorState>,
}

#[derive(Clone, Copy)]
pub(super) struct CursorState {
    epoch: u64,
    /// The next message that the owner gets; −1001 if it is unknown.
    pub(super) position: i64,
}

impl Cursor {
    pub(super) fn new(position: i64) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(CursorState { epoch: 0, position }) })
    }

    pub(super) fn epoch(&self) -> u64 {
        lock(&self.state).epoch
    }

    pub(super) fn begin(&self, position: i64) {
        let mut state = lock(&self.state);
        *state = CursorState { epoch: state.epoch + 1, position };
    }

    /// The owner has what was read in this epoch, up to this offset.
    pub(super) fn advance(&self, epoch: u64, next: i64) {
        let mut state = lock(&self.state);
        if state.epoch == epoch {
            state.position = next;
        }
    }
}
