//! The calls that only a producer makes.

use super::{Client, NO_ERROR, take_error};
use crate::rd::{Headers, Reported, Topic, clock, codes, ffi, opaque, sys};
use std::ffi::c_void;
use std::sync::Arc;

impl Client {
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
        let result = clock::once(|| unsafe {
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
        });
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
}

fn parts(part: Option<&[u8]>) -> (*const c_void, usize) {
    part.map_or((std::ptr::null(), 0), |bytes| (bytes.as_ptr().cast(), bytes.len()))
}

fn vu(vtype: sys::rd_kafka_vtype_t, u: sys::rd_kafka_vu_s__bindgen_ty_1) -> sys::rd_kafka_vu_s {
    sys::rd_kafka_vu_s { vtype, u }
}
