//! `rd_kafka_t`: one producer or consumer. Everything that blocks says so.

use super::{
    Conf, Headers, PartitionList, Queue, Reported, Topic, codes, conf, ffi, generation, gzip, opaque, sys, text,
};
use std::ffi::{CString, c_char, c_void};
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
    /// Fork generation that it was made in: in a child it is neither used nor destroyed.
    made_in: u64,
    /// Where the handle goes with the last reference: `end`.
    heir: OnceLock<Sender<Handle>>,
}

/// What is left of a client that nobody uses any more.
struct Handle(*mut sys::rd_kafka_t);

impl Drop for Handle {
    /// Blocks until librdkafka's threads ended.
    fn drop(&mut self) {
        // SAFETY: owned, destroyed once; queues and topics hold a count of the client, so none is left.
        unsafe { sys::rd_kafka_destroy_flags(self.0, sys::RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE) };
        #[cfg(test)]
        tests::DESTROYED.set(tests::DESTROYED.get() + 1);
    }
}

// SAFETY: rd_kafka_t is thread-safe.
unsafe impl Send for Handle {}

/// What librdkafka says it is: `"2.12.1"`.
pub fn library_version() -> String {
    // SAFETY: a static string.
    text(unsafe { sys::rd_kafka_version_str() })
}

const NO_ERROR: i32 = 0;

impl Client {
    /// Starts a client. `Err` is librdkafka's own sentence.
    pub fn new(kind: ClientKind, conf: Conf) -> Result<Arc<Self>, String> {
        let kind = match kind {
            ClientKind::Producer => sys::rd_kafka_type_t::RD_KAFKA_PRODUCER,
            ClientKind::Consumer => sys::rd_kafka_type_t::RD_KAFKA_CONSUMER,
        };
        let made_in = generation();
        let mut reason = [0 as c_char; 512];
        if matches!(kind, sys::rd_kafka_type_t::RD_KAFKA_CONSUMER) {
            gzip::allow(conf.largest_answer());
        }
        let conf = conf.into_raw();
        // SAFETY: a live conf, which librdkafka owns on success; a buffer with its length.
        let raw = unsafe { sys::rd_kafka_new(kind, conf, reason.as_mut_ptr(), reason.len()) };
        if raw.is_null() {
            drop(Conf::from_raw(conf));
            return Err(text(reason.as_ptr()));
        }
        Ok(Arc::new(Self { raw, made_in, heir: OnceLock::new() }))
    }

    pub(super) fn raw(&self) -> *mut sys::rd_kafka_t {
        self.raw
    }

    /// Whether this is a forked child's view of its parent's client.
    pub fn is_foreign(&self) -> bool {
        self.made_in != generation()
    }

    /// Ends the client on the calling thread, which blocks for it: calls that still run on other threads may hold it up
    /// to `patience` longer. What is held for longer still ends on a thread of its own: wherever the last reference is
    /// dropped (with Ruby's lock, say), nobody waits.
    pub fn end(client: Arc<Self>, patience: Duration) {
        let (sender, receiver) = channel();
        let _ = client.heir.set(sender);
        drop(client);
        drop(receiver.recv_timeout(patience));
    }

    /// The same on a thread of its own, for which nobody waits.
    pub fn end_aside(client: Arc<Self>) {
        let (sender, _) = channel();
        let _ = client.heir.set(sender); // to nobody: see `drop`
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

    // ---- producing

    /// Enqueues a message; payload and key are copied. `Ok` means that exactly one report for `position` will reach
    /// `owner` (which must have been `hold`-ed); `Err` is the code, and there will be none. Never blocks.
    pub fn produce<T: Reported>(
        &self,
        topic: &Topic,
        partition: i32,
        payload: Option<&[u8]>,
        key: Option<&[u8]>,
        owner: &Arc<T>,
        position: u32,
    ) -> Result<(), i32> {
        let word = opaque::pack(owner, position).ok_or(codes::INVALID_ARG)?;
        let (payload, payload_len) = parts(payload);
        let (key, key_len) = parts(key);
        // SAFETY: live topic; librdkafka copies the payload (F_COPY) and the key.
        let result = unsafe {
            sys::rd_kafka_produce(
                topic.raw(),
                partition,
                sys::RD_KAFKA_MSG_F_COPY,
                payload.cast_mut(),
                payload_len,
                key,
                key_len,
                word,
            )
        };
        if result == 0 {
            return Ok(());
        }
        // SAFETY: reads the thread-local code of the call above.
        Err(unsafe { ffi::rd_kafka_last_error() })
    }

    /// As `produce`, with headers (given away on success) and a timestamp in milliseconds (0: now).
    #[allow(clippy::too_many_arguments)] // one message has that many parts
    pub fn produce_with<T: Reported>(
        &self,
        topic: &Topic,
        partition: i32,
        payload: Option<&[u8]>,
        key: Option<&[u8]>,
        headers: Option<Headers>,
        timestamp: i64,
        owner: &Arc<T>,
        position: u32,
    ) -> Result<(), i32> {
        use sys::rd_kafka_vtype_t::*;
        let word = opaque::pack(owner, position).ok_or(codes::INVALID_ARG)?;
        let mem = |part: Option<&[u8]>| {
            let (ptr, size) = parts(part);
            sys::rd_kafka_vu_s__bindgen_ty_1 {
                mem: sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 { ptr: ptr.cast_mut(), size },
            }
        };
        let mut args = vec![
            vu(RD_KAFKA_VTYPE_RKT, sys::rd_kafka_vu_s__bindgen_ty_1 { rkt: topic.raw() }),
            vu(RD_KAFKA_VTYPE_PARTITION, sys::rd_kafka_vu_s__bindgen_ty_1 { i32_: partition }),
            vu(RD_KAFKA_VTYPE_MSGFLAGS, sys::rd_kafka_vu_s__bindgen_ty_1 { i: sys::RD_KAFKA_MSG_F_COPY }),
            vu(RD_KAFKA_VTYPE_OPAQUE, sys::rd_kafka_vu_s__bindgen_ty_1 { ptr: word }),
            vu(RD_KAFKA_VTYPE_TIMESTAMP, sys::rd_kafka_vu_s__bindgen_ty_1 { i64_: timestamp }),
            vu(RD_KAFKA_VTYPE_VALUE, mem(payload)),
            vu(RD_KAFKA_VTYPE_KEY, mem(key)),
        ];
        if let Some(headers) = &headers {
            args.push(vu(RD_KAFKA_VTYPE_HEADERS, sys::rd_kafka_vu_s__bindgen_ty_1 { headers: headers.raw() }));
        }
        // SAFETY: `args` are live, each with the union member that its type asks for.
        let error = unsafe { sys::rd_kafka_produceva(self.raw, args.as_ptr(), args.len()) };
        if error.is_null() {
            if let Some(headers) = headers {
                headers.given_away();
            }
            return Ok(());
        }
        Err(take_error(error).0)
    }

    /// Blocks until everything is reported (true) or the time is over, the linger cut short meanwhile.
    pub fn flush(&self, millis: i32) -> bool {
        // SAFETY: a live client.
        unsafe { ffi::rd_kafka_flush(self.raw, millis) == NO_ERROR }
    }

    /// Fails everything queued and in flight with `_PURGE_QUEUE` / `_PURGE_INFLIGHT` reports.
    pub fn purge(&self) {
        // SAFETY: a live client. Flags: queue and in flight.
        unsafe { ffi::rd_kafka_purge(self.raw, 3) };
    }

    // ---- consuming

    pub fn subscribe(&self, topics: &PartitionList) -> i32 {
        // SAFETY: live client and list (copied).
        unsafe { ffi::rd_kafka_subscribe(self.raw, topics.raw()) }
    }

    /// Leaves the group, once the partitions are given back.
    pub fn unsubscribe(&self) -> i32 {
        // SAFETY: a live client.
        unsafe { ffi::rd_kafka_unsubscribe(self.raw) }
    }

    /// The topics that are subscribed to.
    pub fn subscription(&self) -> Option<PartitionList> {
        let mut list = std::ptr::null_mut();
        // SAFETY: a live client; the list becomes ours.
        unsafe { ffi::rd_kafka_subscription(self.raw, &mut list) };
        PartitionList::own(list)
    }

    /// Replaces the assignment; `None` gives everything up.
    pub fn assign(&self, partitions: Option<&PartitionList>) -> i32 {
        // SAFETY: live client and list (copied).
        unsafe { ffi::rd_kafka_assign(self.raw, constant(partitions)) }
    }

    pub fn incremental_assign(&self, partitions: &PartitionList) -> Result<(), (i32, String)> {
        // SAFETY: live client and list (copied).
        check(unsafe { sys::rd_kafka_incremental_assign(self.raw, partitions.raw()) })
    }

    pub fn incremental_unassign(&self, partitions: &PartitionList) -> Result<(), (i32, String)> {
        // SAFETY: live client and list (copied).
        check(unsafe { sys::rd_kafka_incremental_unassign(self.raw, partitions.raw()) })
    }

    pub fn assignment(&self) -> Option<PartitionList> {
        let mut list = std::ptr::null_mut();
        // SAFETY: a live client; the list becomes ours.
        unsafe { ffi::rd_kafka_assignment(self.raw, &mut list) };
        PartitionList::own(list)
    }

    pub fn assignment_lost(&self) -> bool {
        // SAFETY: a live client.
        unsafe { sys::rd_kafka_assignment_lost(self.raw) != 0 }
    }

    /// `"EAGER"`, `"COOPERATIVE"` or `"NONE"`.
    pub fn rebalance_protocol(&self) -> String {
        // SAFETY: a live client; a static string.
        text(unsafe { sys::rd_kafka_rebalance_protocol(self.raw) })
    }

    /// Stores offsets for the next commit; each entry of `offsets` gets its own verdict.
    pub fn store_offsets(&self, offsets: &PartitionList) -> i32 {
        // SAFETY: live client and list.
        unsafe { ffi::rd_kafka_offsets_store(self.raw, offsets.raw()) }
    }

    /// Fills in the committed offsets. Blocks up to `millis`.
    pub fn committed(&self, partitions: &PartitionList, millis: i32) -> i32 {
        // SAFETY: live client and list.
        unsafe { ffi::rd_kafka_committed(self.raw, partitions.raw(), millis) }
    }

    /// The lowest and the next offset of a partition; `Err` is the code. Blocks up to `millis`.
    pub fn watermarks(&self, topic: &str, partition: i32, millis: i32) -> Result<(i64, i64), i32> {
        let topic = CString::new(topic).map_err(|_| codes::INVALID_ARG)?;
        let (mut low, mut high) = (0, 0);
        // SAFETY: live client and string, places for both numbers.
        let code = unsafe {
            ffi::rd_kafka_query_watermark_offsets(self.raw, topic.as_ptr(), partition, &mut low, &mut high, millis)
        };
        if code == NO_ERROR { Ok((low, high)) } else { Err(code) }
    }

    /// The offset that the next message will have, as the last fetch told; `None`: there was none. Does not wait.
    pub fn known_end(&self, topic: &str, partition: i32) -> Option<i64> {
        let topic = CString::new(topic).ok()?;
        let (mut low, mut high) = (-1, -1);
        // SAFETY: live client and string, places for both numbers.
        let code =
            unsafe { ffi::rd_kafka_get_watermark_offsets(self.raw, topic.as_ptr(), partition, &mut low, &mut high) };
        (code == NO_ERROR && high >= 0).then_some(high)
    }

    /// Replaces the times (in place of offsets) by offsets, −1 for a time after the last message. Blocks up to `millis`.
    pub fn offsets_for_times(&self, times: &PartitionList, millis: i32) -> i32 {
        // SAFETY: live client and list.
        unsafe { ffi::rd_kafka_offsets_for_times(self.raw, times.raw(), millis) }
    }

    /// Moves the positions. Blocks up to `millis`.
    pub fn seek(&self, partitions: &PartitionList, millis: i32) -> Result<(), (i32, String)> {
        // SAFETY: live client and list.
        check(unsafe { sys::rd_kafka_seek_partitions(self.raw, partitions.raw(), millis) })
    }

    /// Starts leaving the group; what remains (a revocation) comes through `queue`. Does not block.
    pub fn close_consumer(&self, queue: &Queue) -> Result<(), (i32, String)> {
        // SAFETY: a live client and queue.
        check(unsafe { sys::rd_kafka_consumer_close_queue(self.raw, queue.raw()) })
    }

    pub fn consumer_closed(&self) -> bool {
        // SAFETY: a live client.
        unsafe { sys::rd_kafka_consumer_closed(self.raw) != 0 }
    }

    // ---- both

    /// Gives librdkafka the token that it asked for (OAUTHBEARER_TOKEN_REFRESH); `expires` in milliseconds since 1970. Its
    /// sentence on failure may contain what was given.
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
        let words = extensions.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]);
        let words = words.map(CString::new).collect::<Result<Vec<_>, _>>().map_err(nul)?;
        let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
        let mut reason = [0 as c_char; 512];
        // SAFETY: a live client; strings and pointers to them that outlive the call, which copies; a buffer with its length.
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

    /// Says why there is no token: told as an `_AUTHENTICATION` error; librdkafka asks again in 10 s.
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

fn parts(part: Option<&[u8]>) -> (*const c_void, usize) {
    part.map_or((std::ptr::null(), 0), |bytes| (bytes.as_ptr().cast(), bytes.len()))
}

fn constant(list: Option<&PartitionList>) -> *const sys::rd_kafka_topic_partition_list_t {
    list.map_or(std::ptr::null(), |list| list.raw().cast_const())
}

fn vu(vtype: sys::rd_kafka_vtype_t, u: sys::rd_kafka_vu_s__bindgen_ty_1) -> sys::rd_kafka_vu_s {
    sys::rd_kafka_vu_s { vtype, u }
}

pub(super) fn take_error(error: *mut sys::rd_kafka_error_t) -> (i32, String) {
    // SAFETY: a live error object, ours to destroy.
    unsafe {
        let found = (ffi::rd_kafka_error_code(error), text(sys::rd_kafka_error_string(error)));
        sys::rd_kafka_error_destroy(error);
        found
    }
}

fn check(error: *mut sys::rd_kafka_error_t) -> Result<(), (i32, String)> {
    if error.is_null() { Ok(()) } else { Err(take_error(error)) }
}

impl Drop for Client {
    /// Without an `end` it blocks (`Handle`).
    fn drop(&mut self) {
        if self.is_foreign() {
            return;
        }
        let handle = Handle(self.raw);
        let Some(heir) = self.heir.take() else { return drop(handle) };
        if let Err(SendError(handle)) = heir.send(handle) {
            // Where there is no thread to be had the handle is dropped here: better late than never.
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
    fn a_client_ends_on_the_thread_that_ends_it_whoever_lets_go_last() {
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
}
