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

#[cfg(test)]
mod tests {
    use super::{Topic, sys};
    use crate::rd::{Client, ClientKind, Conf};

    /// Why a variant of a producer needs a client of its own (docs/decisions/0006).
    #[test]
    fn a_second_configuration_of_a_topic_is_thrown_away() {
        let client = Client::new(ClientKind::Producer, Conf::new()).expect("a client");
        let first = Topic::new(&client, "orders").expect("a topic");
        // SAFETY: a live client, a string, and a configuration that the call takes; the handle is given back below.
        let second = unsafe {
            let conf = sys::rd_kafka_topic_conf_new();
            let mut reason = [0; 200];
            let set = sys::rd_kafka_topic_conf_set(conf, c"acks".as_ptr(), c"0".as_ptr(), reason.as_mut_ptr(), 200);
            assert_eq!(0, set as i32);
            sys::rd_kafka_topic_new(client.raw(), c"orders".as_ptr(), conf)
        };
        assert_eq!(first.raw, second);
        // SAFETY: the reference of the call above.
        unsafe { sys::rd_kafka_topic_destroy(second) };
    }
}
