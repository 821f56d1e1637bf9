//! `rd_kafka_topic_t` of a producer: looked up once per topic, so that a produce call passes a pointer.

use super::{client::Client, sys};
use std::ffi::CString;
use std::sync::Arc;

/// Keeps its client alive: librdkafka wants every topic destroyed before the client is.
pub struct Topic {
    raw: *mut sys::rd_kafka_topic_t,
    _client: Arc<Client>,
}

impl Topic {
    /// `None` when librdkafka refuses the name.
    pub fn new(client: &Arc<Client>, name: &str) -> Option<Self> {
        let name = CString::new(name).ok()?;
        // SAFETY: live client and string; a null conf means the client's default topic configuration.
        let raw = unsafe { sys::rd_kafka_topic_new(client.raw(), name.as_ptr(), std::ptr::null_mut()) };
        (!raw.is_null()).then(|| Self { raw, _client: Arc::clone(client) })
    }

    pub(super) fn raw(&self) -> *mut sys::rd_kafka_topic_t {
        self.raw
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        if self._client.is_foreign() {
            return;
        }
        // SAFETY: owned, destroyed once.
        unsafe { sys::rd_kafka_topic_destroy(self.raw) };
    }
}

// SAFETY: librdkafka's topics are internally locked.
unsafe impl Send for Topic {}
// SAFETY: as above.
unsafe impl Sync for Topic {}
