//! `rd_kafka_conf_t`: librdkafka's option names and values pass through untouched.

use super::{ClientKind, certificates, ffi, openssl, resolver, sys, text};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// Bytes for the text of librdkafka's table of options: several times what it has.
const TABLE_ROOM: usize = 1 << 20;

/// A row of librdkafka's own table of options.
#[derive(Debug, Clone)]
pub struct Property {
    pub name: String,
    /// The allowed values: `"0 .. 900000"`, `"none, gzip, snappy, lz4, zstd"`. Empty if anything is allowed.
    pub range: String,
    /// `None`: both kinds of clients have it.
    kind: Option<ClientKind>,
    /// It is no callback, and nothing else that is set by a call of its own.
    readable: bool,
    /// `linger.ms` is another name of `queue.buffering.max.ms`.
    other_name_of: Option<String>,
}

impl Property {
    /// Whether that kind of client has it, as a value to be read.
    pub fn is_of(&self, kind: ClientKind) -> bool {
        self.readable && self.kind.is_none_or(|own| own == kind)
    }

    /// Whether both kinds of clients have it.
    pub fn is_common(&self) -> bool {
        self.kind.is_none()
    }

    /// The name under which a client reports its value.
    pub fn reported_as(&self) -> &str {
        self.other_name_of.as_ref().unwrap_or(&self.name)
    }
}

pub struct Conf {
    raw: *mut sys::rd_kafka_conf_t,
}

impl Default for Conf {
    fn default() -> Self {
        Self::new()
    }
}

impl Conf {
    pub fn new() -> Self {
        openssl::keep_at_exit();
        // SAFETY: no preconditions; never null. The callbacks are our own functions, which need no opaque.
        unsafe {
            let raw = sys::rd_kafka_conf_new();
            ffi::rd_kafka_conf_set_resolve_cb(raw, resolver::resolve);
            sys::rd_kafka_conf_set_closesocket_cb(raw, Some(hang_up));
            Self { raw }
        }
    }

    /// Sets one option; `Err` is librdkafka's own sentence.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let (Ok(c_key), Ok(c_value)) = (CString::new(key), CString::new(value)) else {
            return Err("contains a NUL byte".into());
        };
        let mut reason = [0 as c_char; 512];
        // SAFETY: live strings, and a buffer with its length.
        let result = unsafe {
            ffi::rd_kafka_conf_set(self.raw, c_key.as_ptr(), c_value.as_ptr(), reason.as_mut_ptr(), reason.len())
        };
        if result == 0 { Ok(()) } else { Err(text(reason.as_ptr())) }
    }

    /// An option's value as librdkafka shows it.
    pub fn get(&self, key: &str) -> Option<String> {
        let key = CString::new(key).ok()?;
        // SAFETY: a live conf.
        unsafe { value(self.raw, &key) }
    }

    /// Bytes of the largest answer that a client takes: librdkafka raises the limit itself where one fetch may have
    /// more.
    pub fn largest_answer(&self) -> usize {
        let bytes = |key| self.get(key).and_then(|bytes| bytes.parse::<usize>().ok()).unwrap_or(0);
        bytes("receive.message.max.bytes").max(bytes("fetch.max.bytes") + 512)
    }

    /// Which events come through queues instead of callbacks.
    pub fn set_events(&mut self, events: i32) {
        // SAFETY: a live conf.
        unsafe { sys::rd_kafka_conf_set_events(self.raw, events) };
    }

    /// Errors about a broker's certificate name the reason. Where nothing is verified, OpenSSL would ask, too, and
    /// librdkafka log what does not matter.
    pub fn explain_certificates(&mut self) {
        if self.get("enable.ssl.certificate.verification").as_deref() == Some("true") {
            // SAFETY: a live conf and our own function, which needs no opaque. A librdkafka without TLS refuses it.
            unsafe { ffi::rd_kafka_conf_set_ssl_cert_verify_cb(self.raw, Some(certificates::remember)) };
        }
    }

    /// Gives the raw conf away (to `rd_kafka_new`, which owns it on success).
    pub(super) fn into_raw(self) -> *mut sys::rd_kafka_conf_t {
        let raw = self.raw;
        std::mem::forget(self);
        raw
    }

    pub(super) fn from_raw(raw: *mut sys::rd_kafka_conf_t) -> Self {
        Self { raw }
    }

    /// librdkafka's table of options with what each allows (parsed from `rd_kafka_conf_properties_show`).
    pub fn properties() -> Vec<Property> {
        // A place of ours for the text: `open_memstream` would have libc allocate what we free.
        let mut buffer = vec![0u8; TABLE_ROOM];
        // SAFETY: the stream writes within the place, leaves the zero at its end, and is closed before the text is
        // read.
        let table = unsafe {
            let stream = libc::fmemopen(buffer.as_mut_ptr().cast(), buffer.len() - 1, c"w".as_ptr());
            if stream.is_null() {
                return Vec::new();
            }
            sys::rd_kafka_conf_properties_show(stream);
            libc::fclose(stream);
            text(buffer.as_ptr().cast())
        };
        table.lines().filter_map(parse_row).collect()
    }
}

/// An option's value, as much as 511 bytes of it.
///
/// # Safety
/// A live conf that nothing changes.
pub(super) unsafe fn value(conf: *const sys::rd_kafka_conf_t, key: &CStr) -> Option<String> {
    let mut value = [0 as c_char; 512];
    let mut size = value.len();
    // SAFETY: as promised; a live string, and a buffer with its length.
    let result = unsafe { sys::rd_kafka_conf_get(conf, key.as_ptr(), value.as_mut_ptr(), &mut size) };
    (result as i32 == 0).then(|| text(value.as_ptr()))
}

/// All options with their values, those of topics last; callbacks as addresses.
///
/// # Safety
/// A live conf that nothing changes.
pub(super) unsafe fn dump(conf: *mut sys::rd_kafka_conf_t) -> Vec<(String, String)> {
    // SAFETY: as promised; the topics' conf is the other's own, or null: then a fresh one, destroyed here.
    unsafe {
        let mut count = 0;
        let mut all = pairs(sys::rd_kafka_conf_dump(conf, &mut count), count);
        let own = sys::rd_kafka_conf_get_default_topic_conf(conf);
        let topics = if own.is_null() { sys::rd_kafka_topic_conf_new() } else { own };
        all.extend(pairs(sys::rd_kafka_topic_conf_dump(topics, &mut count), count));
        if own.is_null() {
            sys::rd_kafka_topic_conf_destroy(topics);
        }
        all
    }
}

/// Takes what librdkafka dumped: name, value, name, value, …
///
/// # Safety
/// A fresh dump, which ends here.
unsafe fn pairs(dumped: *mut *const c_char, count: usize) -> Vec<(String, String)> {
    // SAFETY: an array with its length.
    unsafe {
        let strings = std::slice::from_raw_parts(dumped, count);
        let pairs = strings.chunks_exact(2).map(|pair| (text(pair[0]), text(pair[1]))).collect();
        sys::rd_kafka_conf_dump_free(dumped, count);
        pairs
    }
}

/// Ends a connection: a forked child has a descriptor of it too, and a close alone would leave the broker waiting until
/// the child ends.
///
/// # Safety
/// librdkafka's contract: a socket of its own that it no longer uses.
unsafe extern "C" fn hang_up(socket: c_int, _opaque: *mut c_void) -> c_int {
    // SAFETY: plain calls on a descriptor that is given away.
    unsafe {
        libc::shutdown(socket, libc::SHUT_RDWR);
        libc::close(socket)
    }
}

/// `linger.ms | P | 0 .. 900000 | 5 | high | Delay in …`
fn parse_row(row: &str) -> Option<Property> {
    let mut cells = row.split('|').map(str::trim);
    let (name, scope, range) = (cells.next()?, cells.next()?, cells.next()?);
    let kind = match scope {
        "*" => None,
        "C" => Some(ClientKind::Consumer),
        "P" => Some(ClientKind::Producer),
        _ => return None,
    };
    let other_name_of =
        row.split_once("Alias for `").and_then(|(_, rest)| rest.split_once('`')).map(|(name, _)| name.into());
    let readable = !row.contains("see dedicated API");
    Some(Property { name: name.into(), range: range.into(), kind, readable, other_name_of })
}

impl Drop for Conf {
    fn drop(&mut self) {
        // SAFETY: still owned by us (`into_raw` forgets self).
        unsafe { sys::rd_kafka_conf_destroy(self.raw) };
    }
}

// SAFETY: a conf is plain memory without thread affinity.
unsafe impl Send for Conf {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_read_as_it_was_set_and_refused_with_a_sentence() {
        let mut conf = Conf::new();
        conf.set("client.id", "me").expect("a good option");
        assert_eq!((Some("me".into()), None), (conf.get("client.id"), conf.get("no.such.option")));
        assert!(conf.set("no.such.option", "1").is_err_and(|reason| reason.contains("no.such.option")));
        assert_eq!([Err("contains a NUL byte".into()), Err("contains a NUL byte".into())], {
            [conf.set("client.id", "a\0"), conf.set("a\0", "x")]
        });
    }

    #[test]
    fn the_largest_answer_has_room_for_a_whole_fetch() {
        let mut conf = Conf::new();
        conf.set("receive.message.max.bytes", "1000000").expect("a good option");
        conf.set("fetch.max.bytes", "2000000").expect("a good option");
        assert_eq!(2_000_512, conf.largest_answer());
        conf.set("receive.message.max.bytes", "3000000").expect("a good option");
        assert_eq!(3_000_000, conf.largest_answer());
    }

    #[test]
    fn properties_know_their_kind_and_their_other_name() {
        let all = Conf::properties();
        let find = |name: &str| all.iter().find(|property| property.name == name).expect(name);
        let kinds = |name| [ClientKind::Producer, ClientKind::Consumer].map(|kind| find(name).is_of(kind));
        assert_eq!([true, false], kinds("linger.ms"));
        assert_eq!([false, true], kinds("group.id"));
        assert_eq!([true, true], kinds("client.id"));
        assert_eq!([false, false], kinds("error_cb"), "a callback");
        assert_eq!([false, true], ["linger.ms", "client.id"].map(|name| find(name).is_common()));
        assert_eq!(
            ["queue.buffering.max.ms", "client.id"],
            ["linger.ms", "client.id"].map(|name| find(name).reported_as())
        );
        assert_eq!("none, gzip, snappy, lz4, zstd", find("compression.codec").range);
    }
}
