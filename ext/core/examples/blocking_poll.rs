//! What Pelton's event thread is compared with: producers that each want a thread in a blocking `rd_kafka_poll`, as a
//! library for bench/polling.rb and bench/idle_clients.rb. Nothing of Pelton in it, and kinder than such clients are:
//! reports are gathered here and given to Ruby many at a time, where they call Ruby for each.

use pelton_core as _; // for the linker: the core's build.rs redirects a call of librdkafka's to it
use rdkafka_sys as sys;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Mutex;

pub struct Peer {
    client: *mut sys::rd_kafka_t,
    topic: *mut sys::rd_kafka_topic_t,
    /// Numbers of messages that were not taken yet.
    reported: Mutex<Vec<u64>>,
}

unsafe extern "C" fn report(_: *mut sys::rd_kafka_t, message: *const sys::rd_kafka_message_t, peer: *mut c_void) {
    // SAFETY: the opaque pointer is the peer's own, which outlives its client; the message lives for this call.
    let (peer, number) = unsafe { (&*peer.cast::<Peer>(), (*message)._private as u64) };
    peer.reported.lock().expect("no panic").push(number);
}

/// `options` is "key=value;key=value". Null when librdkafka refuses them.
///
/// # Safety
/// Both strings are NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peer_open(options: *const c_char, topic: *const c_char) -> *mut Peer {
    let peer = Box::into_raw(Box::new(Peer {
        client: std::ptr::null_mut(),
        topic: std::ptr::null_mut(),
        reported: Mutex::default(),
    }));
    // SAFETY: live strings, a new conf that is librdkafka's after rd_kafka_new, a buffer with its length.
    unsafe {
        let conf = sys::rd_kafka_conf_new();
        let mut reason = [0 as c_char; 512];
        for option in CStr::from_ptr(options).to_str().expect("options").split(';') {
            let (key, value) = option.split_once('=').expect("key=value");
            let (key, value) = (CString::new(key).expect("key"), CString::new(value).expect("value"));
            sys::rd_kafka_conf_set(conf, key.as_ptr(), value.as_ptr(), reason.as_mut_ptr(), reason.len());
        }
        sys::rd_kafka_conf_set_opaque(conf, peer.cast());
        sys::rd_kafka_conf_set_dr_msg_cb(conf, Some(report));
        let kind = sys::rd_kafka_type_t::RD_KAFKA_PRODUCER;
        (*peer).client = sys::rd_kafka_new(kind, conf, reason.as_mut_ptr(), reason.len());
        if (*peer).client.is_null() {
            drop(Box::from_raw(peer));
            return std::ptr::null_mut();
        }
        (*peer).topic = sys::rd_kafka_topic_new((*peer).client, topic, std::ptr::null_mut());
    }
    peer
}

/// 0, or −1 when the queue is full.
///
/// # Safety
/// A live peer, a payload of that size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peer_produce(peer: *const Peer, payload: *const c_void, size: usize, number: u64) -> c_int {
    // SAFETY: as above; the payload is copied.
    unsafe {
        sys::rd_kafka_produce(
            (*peer).topic,
            -1,
            sys::RD_KAFKA_MSG_F_COPY,
            payload.cast_mut(),
            size,
            std::ptr::null(),
            0,
            number as *mut c_void,
        )
    }
}

/// Blocks for at most `millis`.
///
/// # Safety
/// A live peer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peer_poll(peer: *const Peer, millis: c_int) {
    // SAFETY: as above.
    unsafe { sys::rd_kafka_poll((*peer).client, millis) };
}

/// Takes the numbers of up to `room` reported messages; returns how many they are.
///
/// # Safety
/// A live peer, a buffer with that room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peer_take(peer: *const Peer, numbers: *mut u64, room: usize) -> usize {
    // SAFETY: as above.
    let (peer, numbers) = unsafe { (&*peer, std::slice::from_raw_parts_mut(numbers, room)) };
    let mut reported = peer.reported.lock().expect("no panic");
    let count = room.min(reported.len());
    for (slot, number) in numbers.iter_mut().zip(reported.drain(..count)) {
        *slot = number;
    }
    count
}

/// # Safety
/// An open peer that no thread polls any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peer_close(peer: *mut Peer) {
    // SAFETY: as above; freed once.
    unsafe {
        sys::rd_kafka_topic_destroy((*peer).topic);
        sys::rd_kafka_destroy((*peer).client);
        drop(Box::from_raw(peer));
    }
}
