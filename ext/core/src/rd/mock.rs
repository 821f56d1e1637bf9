//! `rd_kafka_mock_cluster_t`: brokers inside this process, for tests and demos. It keeps 5 MB or 100,000 messages per
//! partition, and drops the oldest silently. It has no admin requests and writes nothing to disk.

use super::{client::Client, codes::INVALID_ARG, ffi, sys, text};
use std::ffi::CString;
use std::sync::Arc;

pub struct MockCluster {
    raw: *mut sys::rd_kafka_mock_cluster_t,
    /// The client that hosts the cluster's thread.
    host: Arc<Client>,
}

impl MockCluster {
    pub fn new(host: Arc<Client>, brokers: i32) -> Option<Self> {
        // SAFETY: a live client.
        let raw = without_signals(|| unsafe { sys::rd_kafka_mock_cluster_new(host.raw(), brokers) });
        (!raw.is_null()).then(|| Self { raw, host })
    }

    pub fn bootstrap_servers(&self) -> String {
        // SAFETY: a live cluster, which owns the string.
        text(unsafe { sys::rd_kafka_mock_cluster_bootstraps(self.raw) })
    }

    pub fn create_topic(&self, name: &str, partitions: i32) -> i32 {
        let Ok(name) = CString::new(name) else {
            return INVALID_ARG;
        };
        // SAFETY: live cluster and string.
        unsafe { ffi::rd_kafka_mock_topic_create(self.raw, name.as_ptr(), partitions, 1) }
    }

    /// The next requests with this API key (Kafka's number: 0 Produce, 1 Fetch …) fail with these codes, one each.
    pub fn push_errors(&self, api_key: i16, codes: &[i32]) {
        for code in codes {
            // SAFETY: a live cluster; one code is read.
            unsafe { ffi::rd_kafka_mock_push_request_errors_array(self.raw, api_key, 1, code) };
        }
    }

    /// The next answer of this broker to a request with this API key comes after so many milliseconds.
    pub fn delay_answer(&self, broker: i32, api_key: i16, millis: i32) -> i32 {
        let no_error = 0i32;
        // SAFETY: a live cluster; one pair of integers follows, as the count says.
        unsafe { ffi::rd_kafka_mock_broker_push_request_error_rtts(self.raw, broker, api_key, 1, no_error, millis) }
    }

    /// Kafka's answer to a metadata request for a topic: an error, or 0.
    pub fn topic_error(&self, name: &str, code: i32) -> i32 {
        let Ok(name) = CString::new(name) else {
            return INVALID_ARG;
        };
        // SAFETY: live cluster and string.
        unsafe { ffi::rd_kafka_mock_topic_set_error(self.raw, name.as_ptr(), code) };
        0
    }

    /// From now on requests are kept, and none of those before.
    pub fn watch_requests(&self) {
        // SAFETY: a live cluster.
        unsafe { sys::rd_kafka_mock_start_request_tracking(self.raw) };
    }

    /// The API keys of the requests that were kept, in their order; none is kept any more.
    pub fn watched_requests(&self) -> Vec<i16> {
        let mut count = 0;
        // SAFETY: a live cluster; the rows are `count` live requests until their array is destroyed.
        unsafe {
            let rows = sys::rd_kafka_mock_get_requests(self.raw, &mut count);
            let keys = (0..count).map(|at| sys::rd_kafka_mock_request_api_key(*rows.add(at))).collect();
            sys::rd_kafka_mock_request_destroy_array(rows, count);
            sys::rd_kafka_mock_stop_request_tracking(self.raw); // forgets them
            keys
        }
    }

    /// Delays a broker's answers, in milliseconds; −1 for every broker.
    pub fn round_trip_time(&self, broker: i32, millis: i32) -> i32 {
        // SAFETY: a live cluster.
        unsafe { ffi::rd_kafka_mock_broker_set_rtt(self.raw, broker, millis) }
    }

    pub fn broker_down(&self, broker: i32) -> i32 {
        // SAFETY: a live cluster.
        unsafe { ffi::rd_kafka_mock_broker_set_down(self.raw, broker) }
    }

    pub fn broker_up(&self, broker: i32) -> i32 {
        // SAFETY: a live cluster.
        unsafe { ffi::rd_kafka_mock_broker_set_up(self.raw, broker) }
    }

    /// Milliseconds between the heartbeats of a member of the protocol `consumer` (3000 by default).
    pub fn heartbeat_interval(&self, millis: i32) {
        // SAFETY: a live cluster.
        unsafe { sys::rd_kafka_mock_set_group_consumer_heartbeat_interval_ms(self.raw, millis) };
    }

    /// Milliseconds that a new group waits for more members (3000 by default).
    pub fn group_delay(&self, millis: i32) {
        // SAFETY: a live cluster.
        unsafe { sys::rd_kafka_mock_group_initial_rebalance_delay_ms(self.raw, millis) };
    }
}

/// Threads that start meanwhile block all signals. A signal that interrupts the cluster's thread would end that thread.
/// librdkafka protects its other threads itself.
fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    // SAFETY: plain data that the first calls fill in; the calling thread's own mask, put back below.
    unsafe {
        let (mut all, mut own) = (std::mem::zeroed::<libc::sigset_t>(), std::mem::zeroed::<libc::sigset_t>());
        libc::sigfillset(&mut all);
        let blocked = libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut own) == 0;
        let result = start();
        if blocked {
            libc::pthread_sigmask(libc::SIG_SETMASK, &own, std::ptr::null_mut());
        }
        result
    }
}

impl Drop for MockCluster {
    fn drop(&mut self) {
        if self.host.is_foreign() {
            return;
        }
        // SAFETY: owned; destroyed before its host, which `host` keeps alive.
        unsafe { sys::rd_kafka_mock_cluster_destroy(self.raw) };
    }
}

// SAFETY: the cluster is locked internally and served by its own thread.
unsafe impl Send for MockCluster {}
// SAFETY: as above.
unsafe impl Sync for MockCluster {}
