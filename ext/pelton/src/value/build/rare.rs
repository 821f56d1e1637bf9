//! Values that few documents have: extension types, decimals, dates and times.

use super::{BuildOptions, asked, binary, frozen};
use magnus::rb_sys::AsRawValue;
use pelton_core::decode::avro::decimal;
use pelton_core::decode::{Kind, Unit};
use rb_sys::VALUE;
use std::ffi::c_long;
use std::sync::OnceLock;

/// MessagePack's own extension type.
const TIMESTAMP: i8 = -1;

/// What `rb_time_timespec_new` takes for "the local one".
const LOCAL_ZONE: i32 = i32::MAX;

/// 1 January 1970 as Date#jd counts.
const JULIAN_1970: i64 = 2_440_588;

/// Pelton::ExtensionValue.
pub(super) static EXTENSION: OnceLock<VALUE> = OnceLock::new();

/// # Safety
/// As of `object`.
#[inline(never)]
pub(super) unsafe fn rare(options: BuildOptions, kind: Kind<'_>) -> VALUE {
    // SAFETY: the caller's promise.
    unsafe {
        match kind {
            Kind::Extension(kind, bytes) => extension(options, kind, bytes),
            Kind::Decimal(bytes, scale) => asked(big_decimal(bytes, scale), options.shape),
            Kind::Date(days) => asked(date(days), options.shape),
            Kind::Time(value, unit) => asked(utc(value, unit), options.shape),
            _ => unreachable!("made by `object`"),
        }
    }
}

/// A value of an application's own type; type -1 is a time of day (the decoder has seen to the length).
///
/// # Safety
/// Only the GVL contract (see `value`). Calls Ruby code.
unsafe fn extension(options: BuildOptions, kind: i8, bytes: &[u8]) -> VALUE {
    // SAFETY: live objects; the class is a Struct of two members, kept for ever.
    unsafe {
        let number = rb_sys::LONG2FIX(kind.into());
        if let Some(decoders) = options.extensions {
            let decoder = rb_sys::rb_hash_lookup(decoders.as_raw(), number);
            if decoder != rb_sys::Qnil as VALUE {
                let bytes = binary(bytes);
                return rb_sys::rb_funcallv(decoder, rb_sys::rb_intern(c"call".as_ptr()), 1, &raw const bytes);
            }
        }
        if kind == TIMESTAMP {
            return time(bytes);
        }
        let class = *EXTENSION.get().expect("set up at Init");
        let data = frozen(binary(bytes));
        frozen(rb_sys::rb_struct_new(class, number, data))
    }
}

/// MessagePack's timestamp of 32, 64 or 96 bits, as Ruby's msgpack reads it: a Time of the local zone.
///
/// # Safety
/// Only the GVL contract (see `value`).
unsafe fn time(bytes: &[u8]) -> VALUE {
    let (seconds, nanos) = match *bytes {
        [a, b, c, d] => (u32::from_be_bytes([a, b, c, d]).into(), 0),
        [a, b, c, d, e, f, g, h] => {
            let both = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
            ((both & 0x3_ffff_ffff) as i64, (both >> 34) as u32)
        }
        _ => {
            let (nanos, seconds) = bytes.split_at(4);
            let number = |part: &[u8]| part.iter().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
            (number(seconds) as i64, number(nanos) as u32)
        }
    };
    let (carry, nanos) = (i64::from(nanos) / 1_000_000_000, i64::from(nanos) % 1_000_000_000);
    let time = rb_sys::timespec { tv_sec: seconds.saturating_add(carry), tv_nsec: nanos };
    // SAFETY: a live structure that Ruby copies; nanoseconds are in range.
    unsafe { rb_sys::rb_time_timespec_new(&raw const time, LOCAL_ZONE) }
}

/// # Safety
/// Only the GVL contract (see `value`). Ruby may run other threads during the call.
unsafe fn big_decimal(bytes: &[u8], scale: i32) -> VALUE {
    let number = format!("{}e{}", decimal::digits(bytes), -scale);
    // SAFETY: Ruby copies the text, so nothing is left to be dropped when it raises; lib/pelton/avro.rb is loaded where
    // there are such values.
    unsafe {
        let text = rb_sys::rb_str_new(number.as_ptr().cast(), number.len() as c_long);
        drop(number);
        let avro = rb_sys::rb_path2class(c"Pelton::Avro".as_ptr());
        rb_sys::rb_funcallv(avro, rb_sys::rb_intern(c"decimal".as_ptr()), 1, &raw const text)
    }
}

/// # Safety
/// As of `big_decimal`; "date" is loaded.
unsafe fn date(days: i32) -> VALUE {
    // SAFETY: the caller's promise.
    unsafe {
        let class = rb_sys::rb_const_get(rb_sys::rb_cObject, rb_sys::rb_intern(c"Date".as_ptr()));
        let day = rb_sys::LONG2NUM(JULIAN_1970 + i64::from(days));
        // Always the calendar of ISO 8601, as Avro says. Ruby's own Dates before 1582 use Caesar's.
        let calendar = rb_sys::rb_const_get(class, rb_sys::rb_intern(c"GREGORIAN".as_ptr()));
        let arguments = [day, calendar];
        rb_sys::rb_funcallv(class, rb_sys::rb_intern(c"jd".as_ptr()), 2, arguments.as_ptr())
    }
}

/// # Safety
/// Only the GVL contract (see `value`).
unsafe fn utc(value: i64, unit: Unit) -> VALUE {
    let per_second = unit.per_second();
    let nanos = value.rem_euclid(per_second) * (1_000_000_000 / per_second);
    let time = rb_sys::timespec { tv_sec: value.div_euclid(per_second), tv_nsec: nanos };
    // SAFETY: a live structure that Ruby copies; nanoseconds are in range.
    unsafe { rb_sys::rb_time_timespec_new(&raw const time, LOCAL_ZONE - 1) }
}
