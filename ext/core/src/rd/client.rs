//! `rd_kafka_t`: one producer or consumer. Everything that blocks says so.

mod consuming;
mod producing;

use super::main_thread::MainThread;
use super::{Conf, Origin, Queue, Topic, codes, conf, decompression, ffi, sys, text};
use std::ffi::{CString, c_char};
use std::sync::mpsc::{SendError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientKind {
    Producer,
    Consumer,
}

pub struct Client {
    raw: *mut sys::rd_kafka_t,
    /// Of a transactional producer. The handle gets it.
    main_thread: Option<Arc<MainThread>>,
    /// In a forked child it is neither used nor destroyed.
    origin: Origin,
    /// The receiver of the handle with the last reference: `end`.
    receiver: OnceLock<Sender<Handle>>,
}

/// The handle of a client that is no longer used.
struct Handle {
    raw: *mut sys::rd_kafka_t,
    /// The client's threads use it until they end.
    _main_thread: Option<Arc<MainThread>>,
}

impl Drop for Handle {
    /// Blocks until librdkafka's threads ended.
    fn drop(&mut self) {
        // SAFETY: owned, destroyed once; queues and topics hold a count of the client, so none is left.
        unsafe { sys::rd_kafka_destroy_flags(self.raw, sys::RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE) };
        #[cfg(test)]
        tests::DESTROYED.set(tests::DESTROYED.get() + 1);
    }
}

// SAFETY: rd_kafka_t is thread-safe.
unsafe impl Send for Handle {}

/// librdkafka's version: `"2.12.1"`.
pub fn library_version() -> String {
    // SAFETY: a static string.
    text(unsafe { sys::rd_kafka_version_str() })
}

/// What librdkafka was built with: `"gzip,snappy,ssl"`.
pub fn library_features() -> String {
    Conf::new().get("builtin.features").unwrap_or_default()
}

/// Whether librdkafka is a library of the system; otherwise it is a part of ours.
pub fn library_is_shared() -> bool {
    cfg!(feature = "system")
}

const NO_ERROR: i32 = 0;

impl Client {
    /// Starts a client. `Err` is librdkafka's own sentence.
    pub fn new(kind: ClientKind, conf: Conf) -> Result<Arc<Self>, String> {
        let kind = match kind {
            ClientKind::Producer => sys::rd_kafka_type_t::RD_KAFKA_PRODUCER,
            ClientKind::Consumer => sys::rd_kafka_type_t::RD_KAFKA_CONSUMER,
        };
        let origin = Origin::here();
        let mut reason = [0 as c_char; 512];
        if matches!(kind, sys::rd_kafka_type_t::RD_KAFKA_CONSUMER) {
            decompression::allow(conf.largest_answer());
        }
        let transactional = conf.get("transactional.id").is_some_and(|id| !id.is_empty());
        let conf = conf.into_raw();
        // SAFETY: a live conf.
        let main_thread = transactional.then(|| unsafe { MainThread::of(conf) });
        // SAFETY: a live conf, which librdkafka owns on success; a buffer with its length.
        let raw = unsafe { sys::rd_kafka_new(kind, conf, reason.as_mut_ptr(), reason.len()) };
        if raw.is_null() {
            drop(Conf::from_raw(conf));
            return Err(text(reason.as_ptr()));
        }
        Ok(Arc::new(Self { raw, main_thread, origin, receiver: OnceLock::new() }))
    }

    pub(super) fn raw(&self) -> *mut sys::rd_kafka_t {
        self.raw
    }

    /// Whether this is a forked child's view of its parent's client.
    pub fn is_foreign(&self) -> bool {
        self.origin.is_foreign()
    }

    /// Ends the client on the calling thread, which blocks meanwhile. Calls that still run on other threads may delay
    /// it up to `patience`. A reference that is held for longer ends the client on a thread of its own. So no thread
    /// waits where the last reference is dropped (with the GVL, say).
    pub fn end(client: Arc<Self>, patience: Duration) {
        let (sender, receiver) = channel();
        let _ = client.receiver.set(sender);
        drop(client);
        drop(receiver.recv_timeout(patience));
    }

    /// The same on a thread of its own, without waiting for it.
    pub fn end_aside(client: Arc<Self>) {
        let (sender, _) = channel();
        let _ = client.receiver.set(sender); // no thread receives: see `drop`
    }

    /// librdkafka's name of the client: `"rdkafka#producer-1"`.
    pub fn name(&self) -> String {
        // SAFETY: a live client, which owns the string.
        text(unsafe { sys::rd_kafka_name(self.raw) })
    }

    /// The options that it works with, librdkafka's defaults and what it derived among them; callbacks as addresses.
    pub fn options(&self) -> Vec<(String, String)> {
        // SAFETY: a live client, which owns its conf and changes it no more.
        unsafe { conf::dump(sys::rd_kafka_conf(self.raw).cast_mut()) }
    }

    /// Sends logs (with `log.queue=true`) to that queue.
    pub fn logs_to(&self, queue: &Queue) {
        // SAFETY: a live client and queue.
        unsafe { ffi::rd_kafka_set_log_queue(self.raw, queue.raw()) };
    }

    /// The code and sentence of a fatal error, if one was raised.
    pub fn fatal_error(&self) -> Option<(i32, String)> {
        let mut reason = [0 as c_char; 512];
        // SAFETY: a live client; a buffer with its length.
        let code = unsafe { ffi::rd_kafka_fatal_error(self.raw, reason.as_mut_ptr(), reason.len()) };
        (code != NO_ERROR).then(|| (code, text(reason.as_ptr())))
    }

    /// Gives librdkafka the token that it asked for (OAUTHBEARER_TOKEN_REFRESH). `expires` is in milliseconds since
    /// 1970. librdkafka's sentence on failure may contain the token.
    pub fn set_oauth_token(
        &self,
        token: &str,
        expires: i64,
        principal: &str,
        extensions: &[(String, String)],
    ) -> Result<(), (i32, String)> {
        let nul = |_| (codes::INVALID_ARG, "contains a NUL byte".to_string());
        let token = CString::new(token).map_err(nul)?;
        let principal = CString::new(principal).map_err(nul)?;
        let texts = extensions.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]);
        let texts = texts.map(CString::new).collect::<Result<Vec<_>, _>>().map_err(nul)?;
        let mut pointers: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
        let mut reason = [0 as c_char; 512];
        // SAFETY: a live client; strings and pointers to them that outlive the call, which copies; a buffer with its
        // length.
        let code = unsafe {
            ffi::rd_kafka_oauthbearer_set_token(
                self.raw,
                token.as_ptr(),
                expires,
                principal.as_ptr(),
                pointers.as_mut_ptr(),
                pointers.len(),
                reason.as_mut_ptr(),
                reason.len(),
            )
        };
        if code == NO_ERROR { Ok(()) } else { Err((code, text(reason.as_ptr()))) }
    }

    /// Reports why there is no token. librdkafka publishes it as an `_AUTHENTICATION` error and asks again in 10 s.
    pub fn set_oauth_failure(&self, reason: &str) -> i32 {
        let reason = CString::new(reason.replace('\0', " ")).unwrap_or_default();
        // SAFETY: a live client and string (copied).
        unsafe { ffi::rd_kafka_oauthbearer_set_token_failure(self.raw, reason.as_ptr()) }
    }

    /// The brokers `(id, host, port)` and topics `(name, partitions or the error code)`. Blocks up to `millis`.
    #[allow(clippy::type_complexity)] // a plain answer, used once
    pub fn metadata(
        &self,
        topic: Option<&Topic>,
        millis: i32,
    ) -> Result<(Vec<(i32, String, i32)>, Vec<(String, Result<usize, i32>)>), i32> {
        let mut metadata = std::ptr::null();
        // SAFETY: live handles; on success the metadata is ours to destroy, which happens after it was copied.
        unsafe {
            let topic_raw = topic.map_or(std::ptr::null_mut(), Topic::raw);
            let all = i32::from(topic.is_none());
            let code = ffi::rd_kafka_metadata(self.raw, all, topic_raw, &mut metadata, millis);
            if code != NO_ERROR {
                return Err(code);
            }
            let found = &*metadata;
            let brokers = (0..found.broker_cnt as usize)
                .map(|i| &*found.brokers.add(i))
                .map(|broker| (broker.id, text(broker.host), broker.port))
                .collect();
            let topics = (0..found.topic_cnt as usize)
                .map(|i| {
                    let topic = found.topics.add(i);
                    let code = std::ptr::addr_of!((*topic).err).cast::<i32>().read();
                    let count = (*topic).partition_cnt as usize;
                    (text((*topic).topic), if code == NO_ERROR { Ok(count) } else { Err(code) })
                })
                .collect();
            sys::rd_kafka_metadata_destroy(metadata);
            Ok((brokers, topics))
        }
    }
}

pub(super) fn take_error(error: *mut sys::rd_kafka_error_t) -> (i32, String) {
    // SAFETY: a live error object, ours to destroy.
    unsafe {
        let found = (ffi::rd_kafka_error_code(error), text(sys::rd_kafka_error_string(error)));
        sys::rd_kafka_error_destroy(error);
        found
    }
}

impl Drop for Client {
    /// Without an `end` it blocks (`Handle`).
    fn drop(&mut self) {
        if self.is_foreign() {
            return;
        }
        let handle = Handle { raw: self.raw, _main_thread: self.main_thread.take() };
        let Some(receiver) = self.receiver.take() else { return drop(handle) };
        if let Err(SendError(handle)) = receiver.send(handle) {
            // If no thread can be started, the handle is dropped here: blocking is better than never.
            let _ = std::thread::Builder::new().name("pelton.close".into()).spawn(move || drop(handle));
        }
    }
}

// SAFETY: rd_kafka_t is thread-safe.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        /// Clients that the thread destroyed.
        pub static DESTROYED: Cell<usize> = const { Cell::new(0) };
    }

    const LONG: Duration = Duration::from_secs(60);

    fn client() -> Arc<Client> {
        Client::new(ClientKind::Producer, Conf::new()).expect("a client")
    }

    #[test]
    fn client_ends_on_the_thread_that_closes_it() {
        let client = client();
        let mine = Arc::clone(&client);
        let weak = Arc::downgrade(&client);
        let closing = std::thread::spawn(move || {
            Client::end(client, LONG);
            DESTROYED.get()
        });
        while weak.strong_count() > 1 {
            std::thread::yield_now();
        }
        assert!(!closing.is_finished());
        drop(mine);
        assert_eq!(1, closing.join().expect("no panic"));
        assert_eq!(0, DESTROYED.get());
    }

    #[test]
    fn a_client_that_is_held_for_longer_ends_on_a_thread_of_its_own() {
        let client = client();
        let mine = Arc::clone(&client);
        Client::end(client, Duration::from_millis(10));
        drop(mine);
        assert_eq!(0, DESTROYED.get());
    }

    #[test]
    fn a_client_has_a_fatal_error_once_there_was_one() {
        let mut conf = Conf::new();
        conf.set("enable.idempotence", "true").expect("librdkafka knows fatal errors of such producers");
        let client = Client::new(ClientKind::Producer, conf).expect("a client");
        assert_eq!(None, client.fatal_error());
        assert_eq!(0, client.fail_for_good(codes::FAIL, "as asked for"));
        let (code, reason) = client.fatal_error().expect("a fatal error");
        assert_eq!((codes::FAIL, true), (code, reason.contains("as asked for")), "{reason}");
    }
}
